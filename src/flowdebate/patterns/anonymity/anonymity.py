"""Hidden names in prompts: the aliases of a run, and the transcript as its debaters and judge are shown it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from flowdebate.patterns.anonymity.aliases import Aliases, make_aliases
from flowdebate.patterns.anonymity.leaks import leak_report
from flowdebate.patterns.state import derived, entries_of, pattern_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.anonymity.leaks import LeakReport
    from flowdebate.runs.context import Context


@dataclass(frozen=True, kw_only=True, eq=False)
class Anonymity:
    """Whose names are hidden in a debate. The aliases follow from these, the run's seed and the debate's path."""

    names: tuple[str, ...]
    models: tuple[str, ...] = ()
    """Models by name, as far as they are known before a run."""
    stances: tuple[str, ...] = ()
    question: str | None = None
    """The question, for blocks that no debate surrounds."""

    def aliases(self, ctx: Context) -> Aliases:
        """The aliases of the run and the debate that `ctx` belongs to."""
        handle = ctx.scope.sequencer
        known: dict[object, Aliases] = {} if handle is None else handle.derived
        aliases = known.get(self)
        if aliases is None:
            key = f"{ctx.seed}:aliases:{'' if handle is None else handle.path}"
            aliases = known[self] = make_aliases(
                self.names,
                models=self.models,
                question=pattern_state(ctx).question if self.question is None else self.question,
                stances=self.stances,
                random=Random(key),  # noqa: S311 - repeatable on purpose, and not the judge's
            )
        return aliases

    def entries(self, ctx: Context) -> Sequence[Any]:
        """The transcript so far with aliases for names; an entry without names is the same object.

        Each argument is looked through once in a debate: `derived` keeps what earlier turns were shown. The entries are
        of the pattern's own type, as those of `entries_of`.
        """
        hide = self.aliases(ctx).hide

        def extend(shown: Sequence[Any], entries: Sequence[Any], count: int) -> Sequence[Any]:
            further = [
                entry if (text := hide(entry.text).text) is entry.text else entry.model_copy(update={"text": text})
                for entry in entries[count:]
            ]
            return [*shown, *further]

        return derived(ctx, (self, "entries"), (), extend)

    def hide(self, text: str | None, ctx: Context) -> str | None:
        """Replace the names in `text` by aliases."""
        return text if text is None else self.aliases(ctx).hide(text).text

    def leaks(self, ctx: Context) -> LeakReport | None:
        """Report the names in the transcript so far; None if it has none."""
        report = leak_report(entries_of(ctx), self.aliases(ctx))
        return report if report.leaks else None


def named_models(model: ModelChoice, roster: Iterable[Any], *others: object) -> tuple[str, ...]:
    """The models that a pattern knows by name: its own, those of its `roster`, and `others`."""
    given = model.values() if isinstance(model, Mapping) else (model,)
    known = [*given, *(member.model for member in roster), *others]
    named = [name for name in known if isinstance(name, str) and "/" in name and not name.startswith("intent/")]
    return tuple(dict.fromkeys(named))
