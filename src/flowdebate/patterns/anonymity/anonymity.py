"""Who is hidden from those who speak and judge: names that arguments hold stand as aliases in what they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from flowdebate.patterns.anonymity.aliases import Aliases, make_aliases
from flowdebate.patterns.state import entries_of, pattern_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.anonymity.schemas import LeakReport
    from flowdebate.patterns.debate.schemas import DebateContributionEntry
    from flowdebate.runs.context import Context

__all__ = (
    "Anonymity",
    "leaks_of",
)


@dataclass(frozen=True, kw_only=True)
class Anonymity:
    """Whose names are hidden in a debate; each run has aliases of its own."""

    names: tuple[str, ...]
    models: tuple[str, ...] = ()
    """The models by name, as far as they are known before it runs."""
    stances: tuple[str, ...] = ()
    question: str | None = None
    """What is debated, where there is no debate around the block that would know."""

    def aliases(self, ctx: Context) -> Aliases:
        """The aliases of the run that `ctx` is of, drawn from its seed."""
        return self._hiding(ctx).aliases

    def _hiding(self, ctx: Context) -> _Hiding:
        key = _key(ctx)
        known: _Hiding | None = ctx.run.artifacts.get(key)
        if known is None:
            source = Random(f"{ctx.seed}:{key}")  # noqa: S311 - repeatable on purpose, and not the judge's
            aliases = make_aliases(
                self.names,
                models=self.models,
                question=pattern_state(ctx).question if self.question is None else self.question,
                stances=self.stances,
                random=source,
            )
            known = ctx.run.artifacts[key] = _Hiding(aliases)
        return known

    def entries(self, ctx: Context) -> Sequence[DebateContributionEntry]:
        """The transcript so far with aliases for names; the same entries where nobody is named."""
        return self._hiding(ctx).shown(entries_of(ctx))

    def hide(self, text: str | None, ctx: Context) -> str | None:
        """`text` with aliases for names."""
        return text if text is None else self.aliases(ctx).hide(text)


def leaks_of(ctx: Context) -> LeakReport | None:
    """The names that stood in the arguments of the debate around `ctx`; None where nothing was hidden."""
    hiding: _Hiding | None = ctx.run.artifacts.get(_key(ctx))
    entries = entries_of(ctx)
    if hiding is None or all(shown is entry for shown, entry in zip(hiding.shown(entries), entries, strict=True)):
        return None
    from flowdebate.patterns.anonymity.aliases import leak_report

    return leak_report(entries, hiding.aliases)


class _Hiding:
    """The aliases of a debate, and its entries as they are shown, each looked at once."""

    __slots__ = ("_entries", "_shown", "aliases")

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases
        self._entries: list[DebateContributionEntry] = []
        self._shown: list[DebateContributionEntry] = []

    def shown(self, entries: Sequence[DebateContributionEntry]) -> list[DebateContributionEntry]:
        """`entries` with aliases for names; the same ones where nobody is named."""
        known = len(self._entries)
        if known > len(entries) or (known and self._entries[-1] is not entries[known - 1]):
            self._entries, self._shown, known = [], [], 0  # another transcript: it was cleared
        for entry in entries[known:]:
            text = self.aliases.hide(entry.text)
            self._entries.append(entry)
            self._shown.append(entry if text == entry.text else entry.model_copy(update={"text": text}))
        return list(self._shown)


def _key(ctx: Context) -> str:
    """Where the run has the aliases of the debate around `ctx`."""
    handle = ctx.scope.sequencer
    return f"aliases:{'' if handle is None else handle.path}"
