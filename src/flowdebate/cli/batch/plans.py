"""The plan of each question of a batch: all that was given once, with another subject."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from flowdebate.cli.keys import COMMAND, choice
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.batch.rows import Row
    from flowdebate.cli.plan import Plan

__all__ = ("PATTERNS", "Plans")

PATTERNS = {
    "debate": ("debate", "question"),
    "deliberate": ("deliberate", "topic"),
    "handoff": ("handoff", "proposition"),
    "consensus": ("consensus", "task"),
    "panel": ("panel", "question"),
}
"""The module that makes the plans of each, and what it calls the question."""
_BOUNDS = ("max_calls", "max_tokens", "max_seconds", "attempts", "fallback")
"""What may be given anew for a batch that goes on."""


class Plans:
    """Makes plans: of `options` (None: not given) over what `file` says, as the pattern's own command does.

    ConfigurationError or BadFile for what cannot be, with the option, or with the file and its key.
    """

    def __init__(self, pattern: str, options: Mapping[str, Any], file: str | None, *, first: str) -> None:
        if pattern not in PATTERNS:
            raise ConfigurationError(COMMAND, "--pattern", pattern, choice("", tuple(PATTERNS)).allowed)
        from flowdebate.cli.kept_plan import kept_plan
        from flowdebate.cli.policies import with_policies

        module, self._subject = PATTERNS[pattern]
        self._module = import_module(f"flowdebate.cli.verbs.{module}")
        planned: Plan = self._module.make_plan(
            _known(self._module.KEYS, pattern, {**options, self._subject: first}), file=file
        )
        if planned.policies.record is not None or planned.policies.replay is not None:
            key = "replay" if planned.policies.record is None else "record"
            raise ConfigurationError(*planned.given.place(key), planned.given[key], "left out in a batch")
        self._kept = kept_plan(planned)
        self.base: Plan = with_policies(planned)
        """The plan of the first question."""
        self.base.pattern()  # refuses what cannot be, before anything is paid

    def name(self, rows: Sequence[Row]) -> str:
        """What the batch of these rows is called where the user does not say: the same for the same plan and rows."""
        told = {key: value for key, value in self._kept["options"].items() if key not in (*_BOUNDS, self._subject)}
        about = [self._kept["verb"], told, [[row.question, dict(row.others)] for row in rows]]
        return f"batch-{hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=5).hexdigest()}"

    def of(self, row: Row) -> Plan:
        """The plan of a row's question, which shares its models with all others."""
        made: Plan = self._module.make_plan({}, file=self._options(row.question))
        speakers = tuple(
            speaker if shared.model is None else replace(speaker, model=shared.model)
            for speaker, shared in zip(made.speakers, self.base.speakers, strict=True)
        )
        return replace(made, models=self.base.models, speakers=speakers, policies=self.base.policies)

    def each(self, row: Row) -> tuple[Sequencer[Any, Any], Mapping[str, Any]]:
        """The pattern for a row, and how its plan is kept."""
        return self.of(row).pattern(), {**self._kept, "options": self._options(row.question)}

    def _options(self, question: str) -> dict[str, Any]:
        return {**self._kept["options"], self._subject: question}


def _known(keys: Mapping[str, Any], pattern: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` without those that were not given; ConfigurationError for one that the pattern does not have."""
    given = {key: value for key, value in options.items() if value is not None and value != []}
    if "rounds" in given and "rounds" not in keys:
        given["turns"] = given.pop("rounds")
    for key, value in given.items():
        if key not in keys:
            option = f"--{key.replace('_', '-')}"
            raise ConfigurationError(COMMAND, option, value, f"left out: {pattern} has no such option")
    return given
