"""Checks of options that patterns share, made before anything is built, and the warnings about suspicious ones."""

from __future__ import annotations

import warnings
from types import NoneType
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import is_blank
from flowdebate._util.validation import check_count, check_seconds
from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.resolve import check_model
from flowdebate.patterns.failures import FailurePolicy, StandIn
from flowdebate.patterns.roles import DebaterOptions, RoleOptions
from flowdebate.prompts.template import check_length
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.prompts.template import Length, Template


MANY_ROUNDS = 4
"""More rounds than this are warned of."""


def check_name(value: object, *, where: str, field: str) -> None:
    """A name is a string that is not blank."""
    if not isinstance(value, str) or is_blank(value):
        raise ConfigurationError(where, field, value, "a string that is not blank")


def check_rounds(value: object, *, where: str) -> None:
    """A number of rounds is an int of at least 1; a bool is not an int here."""
    check_count(where, max_rounds=value)


def check_synthesizer(where: str, synthesizer: object, output_schema: object) -> None:
    """A synthesizer may be left out; an output schema would then apply to nothing."""
    if not isinstance(synthesizer, bool):
        check_role(where, "synthesizer", synthesizer, "None, which is the default block, False, which leaves it out,")
    elif synthesizer is False and output_schema is not None:
        raise ConfigurationError(
            where, "output_schema", output_schema, "None with synthesizer=False: there is nothing to apply it to"
        )


def check_role(where: str, field: str, value: object, absent: str) -> None:
    """A role is taken by a block or a function; `absent` says what else it may be."""
    if value is not None and not isinstance(value, (Block, RoleOptions)) and not callable(value):
        raise ConfigurationError(where, field, value, f"{absent} a block, or a function of (input, ctx)")


def check_predicate(value: object, *, where: str) -> None:
    """`terminate_when` is a condition, or a function that can be called with the context alone and is no block."""
    if value is None:
        return
    from flowdebate.stop import is_predicate  # most patterns have none

    if not is_predicate(value):
        allowed = "a sync or async function of (ctx), a condition of flowdebate.stop, or None"
        raise ConfigurationError(where, "terminate_when", value, allowed)


def check_transcript(value: object, maker: Callable[[], StateResource[Any]], *, where: str) -> None:
    """A transcript comes from `maker`: those of other patterns have other entries."""
    kind = type(maker().initial())
    is_one = isinstance(value, StateResource) and value.key == "transcript" and isinstance(value.initial(), kind)
    if value is not None and not is_one:
        raise ConfigurationError(where, "transcript", value, f"what {maker.__name__}() makes, or None")


def speaker_options(
    where: str, defaults: RoleOptions, *, length: Length | None, template: Template | None, kind: type[Template]
) -> DebaterOptions:
    """The options of those who speak: `defaults`, which reach all roles, with `length` and `template`."""
    check_length(where, length)
    if not isinstance(template, (kind, NoneType)):
        raise ConfigurationError(where, "template", template, f"a {kind.__name__}, or None")
    given: Any = defaults.for_block()
    return DebaterOptions(**given, length=length, template=template)


def check_failure_policy(policy: Any, *, where: str) -> None:  # noqa: ANN401 - to be checked
    """ConfigurationError for what a failure policy cannot be."""
    if not isinstance(policy, FailurePolicy):
        raise ConfigurationError(where, "failures", policy, "FailurePolicy(…), or None")
    on_failure = policy.on_failure
    if isinstance(on_failure, StandIn):
        check_model(on_failure.model, where=where, field="on_failure")
    elif on_failure not in ("fail", "skip"):
        raise ConfigurationError(where, "on_failure", on_failure, "'fail', 'skip' or StandIn(model)")
    check_count(where, quorum=policy.quorum)
    given = {"turn_timeout": policy.turn_timeout, "round_timeout": policy.round_timeout}
    check_seconds(where, **{name: value for name, value in given.items() if value is not None})


def warn_of_rounds(where: str, max_rounds: int, *, who: str) -> None:
    """Warn of many rounds; called by the pattern's own function, whose caller is shown."""
    if max_rounds > MANY_ROUNDS:
        warnings.warn(
            f"{where}: max_rounds={max_rounds}: {who} tend to agree after {MANY_ROUNDS} rounds, and each turn sends "
            f"the whole transcript; use max_rounds <= {MANY_ROUNDS}",
            FlowDebateWarning,
            stacklevel=4,
        )
