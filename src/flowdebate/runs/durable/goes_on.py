"""Going on with a finished run: its rounds are taken as they were, and further ones follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from flowdebate._text import is_blank
from flowdebate._util.validation import check_count
from flowdebate.errors import ConfigurationError
from flowdebate.store.base import COMPLETE, StoredRun
from flowdebate.store.open import StoreChoice, open_store

MOST = 1_000
"""Rounds by which a run may go on."""
_MOST_HELD = 10_000
"""Rounds that it may have had: as many as a debate may have at all."""
LONGEST = 4_000
"""Characters of a reader's question: it is part of each prompt of its round."""
ASKED = f"a question of at most {LONGEST:,} characters, or None"


@dataclass(frozen=True, kw_only=True)
class GoesOn:
    """How a finished run goes on."""

    held: Annotated[int, Field(ge=1, le=_MOST_HELD)]
    """Its rounds so far."""
    rounds: Annotated[int, Field(ge=1, le=MOST)]
    """Those that follow."""
    asked: tuple[tuple[int, str], ...] = ()
    """The questions of readers, each with the round that answers it."""

    def to_plan(self) -> dict[str, Any]:
        """As the plan of the fork has it."""
        asked = [{"round": number, "text": text} for number, text in self.asked]
        return {"held": self.held, "rounds": self.rounds, "asked": asked}

    @classmethod
    def of_plan(cls, stored: object) -> GoesOn | None:
        """As `to_plan` wrote it; None for none, and ConfigurationError for what only an import can have."""
        if stored is None:
            return None
        try:
            given = {**stored, "asked": [(each["round"], each["text"]) for each in stored["asked"]]}  # type: ignore[dict-item, index]  # errors below
            return TypeAdapter(cls).validate_python(given)
        except (TypeError, KeyError, ValidationError):
            raise ConfigurationError("plan", "goes_on", stored, "how a fork goes on") from None


def goes_on(stored: StoredRun, *, where: str, rounds: int = 1, ask: str | None = None) -> GoesOn:
    """How a stored run goes on for `rounds` more; ConfigurationError for one that is not over, and has no rounds."""
    check_count(where, most=MOST, rounds=rounds)
    if ask is not None and (not isinstance(ask, str) or is_blank(ask) or len(ask) > LONGEST):
        raise ConfigurationError(where, "ask", ask, ASKED)
    raw = (stored.outcome or {}).get("raw")
    held: Any = raw.get("rounds") if isinstance(raw, Mapping) else None
    if stored.status not in COMPLETE or type(held) is not int or held < 1:
        allowed = "a run with rounds that is over; resume one that is not"
        raise ConfigurationError(where, "run_id", stored.header.run_id, allowed)
    before: Any = raw.get("readerQuestions", []) if isinstance(raw, Mapping) else []
    asked = [(int(each["round"]), str(each["text"])) for each in before]
    return GoesOn(held=held, rounds=rounds, asked=(*asked, *([] if ask is None else [(held + 1, ask)])))


def asked_to_go_on(stored: StoredRun, more: object) -> GoesOn:
    """How a stored run goes on as a front end asks for it: with "rounds", "ask" or both."""
    if not isinstance(more, Mapping) or not {"rounds", "ask"}.issuperset(more):
        raise ConfigurationError("options", "goes_on", more, 'a table of "rounds" (default 1), "ask" or both')
    return goes_on(stored, where="goes_on", **{key: each for key, each in more.items() if each is not None})


async def read_goes_on(where: str, run_id: str, *, rounds: int, ask: str | None, store: Any) -> GoesOn:  # noqa: ANN401 - a store, or StoreOptions
    """How the run of that id goes on; ConfigurationError without the store of the run."""
    choice: StoreChoice = getattr(store, "store", store)
    opened = open_store(choice, where=where)
    if opened is None:
        raise ConfigurationError(where, "store", store, "the store of the run")
    return goes_on(await opened.run(run_id), where=where, rounds=rounds, ask=ask)
