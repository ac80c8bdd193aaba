"""Plans of a batch: one plan for all questions, and another subject for each."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from flowdebate.cli.pattern_commands import known_options
from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS, find_pattern
from flowdebate.service.options import COMMAND
from flowdebate.service.plan import make_plan, stored_plan, with_shared_models
from flowdebate.service.policies import with_policies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.batch.rows import Row
    from flowdebate.service.plan import Plan

__all__ = ("Plans",)

_BOUNDS = ("max_calls", "max_tokens", "max_seconds", "attempts", "fallback")
"""Options that may change when a batch is continued."""


class Plans:
    """Makes the plan of each question, of `options` (None: not given) over what `file` says.

    ConfigurationError or BadFile for what cannot be, with the option, or with the file and its key.
    """

    def __init__(self, pattern: str, options: Mapping[str, Any], file: str | None, *, first: str) -> None:
        info = find_pattern(pattern)
        if info is None or pattern in info.former_names:
            allowed = f"one of {', '.join(map(repr, PATTERNS))}"
            raise ConfigurationError(COMMAND, "--pattern", pattern, allowed)
        self._info = info
        planned = make_plan(info, known_options(info, {**options, info.subject: first}), file=file)
        for key in ("record", "replay"):
            if getattr(planned.policies, key) is not None:
                where, field = planned.options.place(key)
                raise ConfigurationError(where, field, getattr(planned.options, key), "left out in a batch")
        self._kept = stored_plan(planned)
        self.base: Plan = with_policies(planned)
        """The plan of the first question."""
        self.base.pattern()  # refuses what cannot be, before anything is paid

    def name(self, rows: Sequence[Row]) -> str:
        """Name of the batch where the user gives none: the same for the same plan and rows."""
        told = {key: value for key, value in self._kept["options"].items() if key not in (*_BOUNDS, self._info.subject)}
        about = [self._kept["pattern"], told, [[row.question, dict(row.others)] for row in rows]]
        return f"batch-{hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=5).hexdigest()}"

    def of(self, row: Row) -> Plan:
        """The plan of a row's question, which shares its models with all others."""
        return self._planned(self._options(row.question))

    def each(self, row: Row) -> tuple[Sequencer[Any, Any], Mapping[str, Any]]:
        """The pattern for a row, and its stored plan."""
        return self.of(row).pattern(), {**self._kept, "options": self._options(row.question)}

    def _planned(self, options: Mapping[str, Any]) -> Plan:
        return with_shared_models(make_plan(self._info, {}, file=options), self.base)

    def _options(self, question: str) -> dict[str, Any]:
        return {**self._kept["options"], self._info.subject: question}
