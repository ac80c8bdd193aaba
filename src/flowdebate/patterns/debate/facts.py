"""Facts of the sources, sorted by side: what the debaters of a small model begin their turns with.

A small model that is shown a source does not use it, and asked for the best evidence it picks the same sentence for
every side. Asked of one sentence at a time for whom it speaks, with each side once under each letter, it sorts well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.generator import Visibility, generator
from flowdebate.chassis.state import question_of, state_of
from flowdebate.chassis.turn import discard, is_provider_failure
from flowdebate.errors import BadAnswer, ModelError
from flowdebate.patterns.debate.judging.ballots import centred
from flowdebate.patterns.debate.judging.jurors import letters_for, listed_letters
from flowdebate.patterns.debate.judging.verdicts import sentences_of
from flowdebate.prompts import filled, quoted, tag_text

from .schemas import DebateState, SortedFacts, SourceFact

if TYPE_CHECKING:
    from flowdebate.chassis.roles import RolePrompt
    from flowdebate.runs.context import Context
    from flowdebate.sources.source import Source

    from .debater import DebaterTemplate


_MOST = 8  # facts: each takes a call a side
_LONGEST = 240  # characters of a fact that a turn begins with
_SYSTEM = "You sort evidence by side. Reply with one letter."


def facts_in(sources: Sequence[Source]) -> list[SourceFact]:
    r"""The sentences of `sources` with a number, without headings: the first eight that can be quoted in a turn.

    >>> from flowdebate.sources.source import Source
    >>> trial = Source.of("trial", "Trial of 2024\n\nSales rose by 4 percent. All were glad.")
    >>> [fact.text for fact in facts_in([trial])]
    ['Sales rose by 4 percent.']
    """
    return [
        SourceFact(source=source.name, text=" ".join(sentence.split()))
        for source in sources
        for sentence in sentences_of(source.text)
        if re.search(r"\d", sentence) and re.search(r"[.!。]$", sentence)
        if len(sentence) <= _LONGEST and not re.search('["“”„«»]', sentence)
    ][:_MOST]


@dataclass(frozen=True, kw_only=True)
class FactSorter:
    """Asks a model for which of the `stances` a text speaks."""

    name: str
    stances: tuple[str, ...]
    wording: RolePrompt[DebaterTemplate]
    options: Mapping[str, Any]

    async def ask(self, text: str, question: str, ctx: Context) -> dict[str, float]:
        """The mean log-odds of each stance, each once under each letter; empty from a model without log-probabilities.

        So they are where its provider fails: without facts the debate is as good as any.
        """
        letters, count = letters_for(len(self.stances), where=self.name), len(self.stances)
        found: list[dict[str, float]] = []
        for shift in range(count):
            order = [*self.stances[shift:], *self.stances[:shift]]
            listed = "\n".join(f"{letter}: {tag_text(side)}" for letter, side in zip(letters, order, strict=True))
            about = {"question": quoted(question), "positions": listed, "text": quoted(text)}
            asked = filled(self.wording.template(ctx).sorts, **about, letters=listed_letters(letters))
            block = generator(
                name=self.name,
                prompt=_SYSTEM,
                user=asked,
                choices=letters,
                transform=lambda _, response, __: response.logprobs,
                **{**self.options, "visibility": Visibility(client=False, history=False)},
            )
            inner = ctx.child(self.name, f"{ctx.path}/{self.name}[{shift}]")
            try:
                logprobs: Mapping[str, float] | None = await block(None, inner)
            except ModelError as failure:
                if not (isinstance(failure, BadAnswer) or is_provider_failure(failure)):
                    raise
                await discard(inner, failure, block=self.name)
                return {}
            if logprobs is None:
                return {}
            found.append(centred({side: logprobs[letter] for letter, side in zip(letters, order, strict=True)}))
        return {side: sum(each[side] for each in found) / count for side in self.stances}


def create_sorter(
    name: str, stances: Sequence[str], wording: RolePrompt[DebaterTemplate], options: Mapping[str, Any]
) -> FactSorter:
    """The sorter `{name}-facts`, with the model of a debater's `options`."""
    of_model = {key: options[key] for key in ("model", "settings") if options.get(key) is not None}
    return FactSorter(name=f"{name}-facts", stances=tuple(dict.fromkeys(stances)), wording=wording, options=of_model)


async def sort_facts(sorter: FactSorter, sources: Sequence[Source], value: object, ctx: Context) -> None:
    """Sort the facts of `sources` once in a debate, in its first turn, if its debaters begin their turns with them.

    A fact is for the stance that it helps most, compared with what the model gives that stance on average.
    """
    if state_of(ctx, DebateState).facts is not None or not sorter.wording.template(ctx).sorts:
        return
    facts = facts_in(sources)
    odds: list[dict[str, float]] = []
    for number, fact in enumerate(facts):
        inner = ctx.child(sorter.name, f"{ctx.path}/fact[{number}]")
        odds.append(await sorter.ask(fact.text, question_of(value, ctx), inner))
        if not odds[-1]:
            facts, odds = [], []
            break
    bias = {side: sum(each[side] for each in odds) / len(odds) if odds else 0.0 for side in sorter.stances}
    helps: dict[str, list[tuple[float, int]]] = {side: [] for side in sorter.stances}
    for number, each in enumerate(odds):
        gains = {side: value - bias[side] for side, value in each.items()}
        best = max(gains, key=gains.__getitem__)
        helps[best].append((-gains[best], number))
    by_stance = {side: [facts[number] for _, number in sorted(ranked)] for side, ranked in helps.items()}
    ctx.scope.handle.update(facts=SortedFacts(by_stance=by_stance, bias=bias))


async def leader_in(text: str, sorter: FactSorter, facts: SortedFacts, ctx: Context) -> str | None:
    """The stance that the last sentence of `text` speaks for; None where that cannot be told."""
    said: Sequence[str] = sentences_of(text)
    odds = await sorter.ask(said[-1], state_of(ctx, DebateState).question, ctx) if said else {}
    return max(odds, key=lambda side: odds[side] - facts.bias.get(side, 0.0)) if odds else None
