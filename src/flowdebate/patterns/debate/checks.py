"""Checks of what only a debate has."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.resolve import of_intent
from flowdebate.patterns.debate.moderator import Moderator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models.base import Model
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.roster import Debater

__all__ = (
    "check_moderator_roster",
    "warn_of_kin",
    "warn_of_named_judge",
)


def check_moderator_roster(moderator: Any, roster: Sequence[Debater], *, where: str) -> None:  # noqa: ANN401
    """A default moderator picks from the names that the debaters have."""
    if not isinstance(moderator, Moderator):
        return
    names = [debater.name for debater in roster]
    if sorted(moderator.roster_names) != sorted(names):
        raise ConfigurationError(
            where, "moderator", list(moderator.roster_names), f"made with the debaters' names, roster_names={names}"
        )


def warn_of_kin(where: str, judges: Sequence[Model | str], roster: Sequence[Debater], *, model: ModelChoice) -> None:
    """Warn of judges that were chosen, and are of the family of a debater."""
    from flowdebate.patterns.anonymity.model_families import kin_among

    default = of_intent(model, "chat")
    argued = [debater.model or default for debater in roster if debater.block is None]
    names = [[known if isinstance(known, str) else known.name for known in some if known] for some in (judges, argued)]
    kin = kin_among(*names)
    if kin:
        told = ", ".join(f"{judge!r} judges, {debater!r} argues" for judge, debater in kin)
        warnings.warn(
            f"{where}: a judge is of the family of a debater ({told}): it may favour what reads like its own; choose "
            "judges of other families",
            FlowDebateWarning,
            stacklevel=3,
        )


def warn_of_named_judge(where: str, roster: Sequence[Debater], *, model: ModelChoice) -> None:
    """Warn of a default judge that is shown names and shares a model with a debater."""
    default, judges = of_intent(model, "chat"), of_intent(model, "synthesize")
    same = [each.name for each in roster if each.block is None and (each.model or default) == judges]
    if same:
        warnings.warn(
            f"{where}: anonymize_transcript=False while the default judge shares a model with "
            f"{', '.join(map(repr, same))}: a judge favours what it knows as its own; keep anonymize_transcript=True, "
            "or give the judge another model (judge=create_judge(..., model=...))",
            FlowDebateWarning,
            stacklevel=3,
        )
