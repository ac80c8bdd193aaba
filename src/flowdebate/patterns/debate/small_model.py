"""Support for debaters that run on small models: prescribed openings, fact-based turns, and retries.

A model with a few billion parameters forgets its side, copies earlier turns and ignores sources. In the concise
profile, each turn therefore begins with the debater's position, or with a supporting fact if there are sources, and the
model continues from there. If the model copies another turn or ends up supporting another side, it is called again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from flowdebate._text import fold, is_blank
from flowdebate.blocks.generator import AnswerForm, Generator, Visibility, generator
from flowdebate.chassis.material import Material, make_material
from flowdebate.chassis.state import entries_of, question_of, state_of
from flowdebate.chassis.turn import discard, is_provider_failure, recorded_failure
from flowdebate.errors import BadAnswer, ModelError
from flowdebate.models.base import CallRetried, Message, Model, ModelResponse, ModelSettings
from flowdebate.patterns.debate.judging.ballots import centered
from flowdebate.patterns.debate.judging.jurors import letters_for, listed_letters
from flowdebate.patterns.debate.judging.verdicts import sentences_of
from flowdebate.prompts import Template, filled, frame, part, quoted, tag_text, uses

from .schemas import DebateContributionEntry, DebateState, SortedFacts, SourceFact

if TYPE_CHECKING:
    from flowdebate.chassis.roles import BlockOptions
    from flowdebate.runs.context import Context
    from flowdebate.sources.source import Source

    from .debater import DebaterPrompt


@dataclass(frozen=True, kw_only=True)
class OpeningTemplate(Template):
    """Templates for the opening words of turns. In attributes named `begins…`, each line is an alternative."""

    begins: str = part("", uses("position"))
    """Opening words for a debater's first turn, used with models that can continue text written for them.

    A small model argues for whatever position it starts with. Each turn uses the next line, so that successive turns do
    not sound alike.
    """
    begins_reply: str = part("", uses("position"))
    """Opening words for a debater's first turn if another debater has already spoken."""
    begins_again: str = part("", uses("position"))
    """Opening words for a debater's later turns."""
    sorts: str = part("", uses("question", "text", "letters", lines=("positions",)))
    """Question asking which position a fact from the sources supports. If this template is empty, facts are
    not sorted.
    """
    fact: str = part("", uses("position", "fact"))
    """Task for a turn that begins with a fact."""
    begins_fact: str = part("", uses("position", "fact"))
    """Opening words for a turn that begins with a fact."""


OPENINGS = OpeningTemplate(
    begins="{position}, because",
    begins_reply="I disagree. {position}, because\nI see it differently. {position}, because",
    # successive lines differ in form, because a small model repeats any earlier turn that begins the same way
    begins_again=(
        "That does not settle it. {position}, and here is another reason:\n"
        "I stand by this: {position}. What is easily forgotten is\n"
        "Something has been left out. {position}, and there is one more reason for it:\n"
        "There is more to it. {position}. Just as important is"
    ),
    sorts=(
        "Question: {question}\nPositions:\n{positions}\n\nFact: “{text}”\n\n"
        "This fact is a reason for one of these positions, {letters}. Which one?"
    ),
    fact=(
        "Your turn begins with a fact from the sources. Go on in two short sentences: say what the fact shows, with "
        "its figures, and why it means that this is right: {position}"
    ),
    begins_fact=(
        "{position}. The figures show it: “{fact}” This means\n"
        "I disagree. {position}: “{fact}” So\n"
        "That is not all. {position}, as this shows: “{fact}” In other words,\n"
        "Something else matters here: “{fact}” {position}, because"
    ),
)
"""Opening words for the concise profile."""
OPENING_PARTS = tuple(field.name for field in fields(OpeningTemplate))


def support_small_model(
    block: Generator[str], prompt: DebaterPrompt, *, name: str, options: BlockOptions
) -> Generator[str]:
    """Add small-model support to a debater's `block`, if its prompt templates call for it.

    The model in `options` sorts facts from the sources, in calls made by the block `{name}-facts`. A block with tools
    gets no second attempt, because that attempt would lack the tool results.
    """
    sorter = FactSorter(
        name=f"{name}-facts",
        prompt=prompt,
        model=options.get("model"),
        settings=options.get("settings"),
    )
    material = make_material(options.get("sources"), location=block.name)
    support = SmallModelSupport(block=block, prompt=prompt, sorter=sorter, material=material)
    supported = (
        block.with_user(support.render_turn, support.defer_turn).with_form(support.bounds).with_transform(support.cut)
    )
    return supported if block.tools else supported.with_review(support.review)


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallModelSupport:
    """Small-model support for a single debater's block; see `support_small_model`."""

    block: Generator[str]
    prompt: DebaterPrompt
    sorter: FactSorter
    material: Material | None
    """The debate's sources, or None if there are none."""

    def is_needed(self, ctx: Context) -> bool:
        """Check whether the prompt templates call for small-model support; most do not.

        The result is cached for the rest of the turn. `render_turn` or `defer_turn` calls this method before any other
        method needs the result.
        """
        needed = ctx.scope.looked_up.get(self)
        if needed is None:
            texts = self.prompt.template(ctx)
            begins = texts.begins or texts.begins_reply or texts.begins_again or texts.begins_fact
            needed = bool(begins or texts.sorts or not self.prompt.may_quote(ctx))
            ctx.scope.looked_up[self] = needed
        return bool(needed)

    async def render_turn(self, value: object, ctx: Context) -> str:
        """Render the message for a turn. Before the first turn, also sort the facts."""
        if not self.is_needed(ctx):
            return self.prompt.render_turn(None, ctx)
        if self.material is not None:
            await self.sorter.sort(self.material.of_run(ctx), value, ctx)
        return self._render(ctx)

    def defer_turn(self, _: object, ctx: Context) -> Callable[[], str] | None:
        """Return a function that renders the message, or None if the turn needs support."""
        return None if self.is_needed(ctx) else partial(self.prompt.render_turn, None, ctx)

    def _render(self, ctx: Context, entries: Sequence[DebateContributionEntry] | None = None) -> str:
        fact = self.next_fact(ctx)
        if fact is None:
            return self.prompt.render_turn(None, ctx, entries=entries)
        position = tag_text(self.prompt.identity.stance)
        task = filled(self.prompt.template(ctx).fact, fact=frame(fact), position=position)
        return self.prompt.render_turn(None, ctx, entries=entries, task=task)

    def next_fact(self, ctx: Context) -> str | None:
        """Return the fact to begin the turn with, or None if all facts for the position have been used."""
        if not self.prompt.template(ctx).begins_fact or self.prompt.is_examination(ctx):
            return None
        facts = state_of(ctx, DebateState).facts
        stance = self.prompt.identity.stance
        supporting = [] if facts is None else facts.by_stance.get(stance, [])
        used = sum(entry.stance == stance for entry in entries_of(ctx))
        return supporting[used].text if used < len(supporting) else None

    def bounds(self, value: object, ctx: Context, shift: int = 0) -> AnswerForm:
        """Return the constraints on the answer: its length limits and its first words."""
        bounds = self.prompt.wording.bounds(value, ctx)
        if ctx.scope.looked_up.get(self) is False:
            return bounds
        return {**bounds, "begins": self.first_words(ctx, shift)}

    def first_words(self, ctx: Context, shift: int = 0) -> str:
        """Return the opening words of the turn; `shift` selects a different variant."""
        template = self.prompt.template(ctx)
        if not (template.begins or template.begins_reply or template.begins_again) or self.prompt.is_examination(ctx):
            return ""
        return opening_words(
            entries=entries_of(ctx),
            agent_name=self.prompt.agent_name,
            stance=self.prompt.identity.stance,
            question=state_of(ctx, DebateState).question,
            shift=shift,
            fact=self.next_fact(ctx),
            template=template,
        )

    def cut(self, text: str, response: ModelResponse, ctx: Context) -> str:
        """Cut an answer to its length limits, not counting the prescribed first words."""
        if ctx.scope.looked_up.get(self) is False:
            return self.prompt.wording.cut(text, response, ctx)
        begins = self.first_words(ctx)
        if not text.startswith(begins):  # this is a second attempt, which begins with a different variant
            begins = self.first_words(ctx, 1)
        return self.prompt.wording.cut(text, response, ctx, begins=begins if text.startswith(begins) else "")

    async def review(
        self, messages: Sequence[Message], response: ModelResponse, ctx: Context
    ) -> tuple[ModelResponse, bool]:
        """Retry a turn if it copies another one or ends up supporting another side; see `Review`.

        The second attempt is a separate step, and readers are told to discard the text streamed so far.
        """
        if ctx.scope.looked_up.get(self) is False:
            return response, False
        objection = self._find_copy(response.text, ctx) or await self._find_opposite_side(response.text, ctx)
        if objection is None:
            return response, False
        model = ctx.model(self.block.model)
        problem, message = objection.problem, objection.message
        ctx.emit(
            CallRetried(block=self.block.name, model=model.name, attempt=2, error=problem, message=message, wait=0.0)
        )
        form = self.bounds(None, ctx, shift=1)
        again: list[Message] = [*messages[:-1], {"role": "user", "content": objection.turn}]
        second = await self.block.request(again, form, ctx, path=f"{ctx.path}#again")
        improved = objection.is_answered_by(second.text.removeprefix(form.get("begins", "")))
        return (second, False) if improved else (response, True)

    def _find_copy(self, text: str, ctx: Context) -> Objection | None:
        """Check `text`, apart from its first words, for passages copied from earlier turns."""
        from flowdebate.measures.similarity import NOT_COPIED, measure_copy

        if self.prompt.may_quote(ctx):
            return None
        entries = self.prompt.entries(ctx)
        text = text.removeprefix(self.first_words(ctx))
        copies = {entry: measure_copy(text, entry.text) for entry in entries}
        worst = max(copies.values(), default=NOT_COPIED)
        if worst.excess <= 1:
            return None
        # leave out copied turns: a small model copies them again if it sees them
        own_entries = [
            entry for entry, copy in copies.items() if entry.agent_name == self.prompt.agent_name and copy.excess <= 1
        ]
        earlier = tuple(entry.text for entry in entries)
        return Objection("Copied", worst.message, self._render(ctx, own_entries), copied=earlier, excess=worst.excess)

    async def _find_opposite_side(self, text: str, ctx: Context) -> Objection | None:
        """Return an objection if `text` ends up supporting another side.

        The result is None if there are no facts or the turn is part of an examination.
        """
        facts = state_of(ctx, DebateState).facts
        if not facts or not any(facts.by_stance.values()) or self.prompt.is_examination(ctx):
            return None
        leader = await self.sorter.find_leader(text.removeprefix(self.first_words(ctx)), facts, ctx)
        if leader in (None, self.prompt.identity.stance):
            return None
        return Objection("Strayed", f"It ends on the side of {leader!r}", self._render(ctx))


@dataclass(frozen=True, slots=True)
class Objection:
    """Reason for retrying a turn."""

    problem: str
    """One-word name for the problem, in the style of an error class name."""
    message: str
    turn: str
    """Message requesting a second attempt."""
    copied: tuple[str, ...] = ()
    """Text of earlier turns; to count as an improvement, a second answer must copy less of it than the first."""
    excess: float = 0.0
    """Amount copied by the first answer, relative to the allowed maximum; to count as an improvement, a second answer
    must copy less.
    """

    def is_answered_by(self, text: str) -> bool:
        """Check whether `text`, excluding its first words, improves on the first answer."""
        from flowdebate.measures.similarity import measure_copy

        return not is_blank(text) and all(measure_copy(text, earlier).excess < self.excess for earlier in self.copied)


# Opening words


def opening_words(
    *,
    entries: Sequence[DebateContributionEntry],
    agent_name: str,
    stance: str,
    question: str = "",
    shift: int = 0,
    fact: str | None = None,
    template: OpeningTemplate = OPENINGS,
) -> str:
    """Return the first words of a turn, or an empty string if the position is too long to begin a turn.

    The default templates are in English; in any other language, a turn begins with just the position. `shift` selects a
    different variant. If there is a `fact`, the turn quotes it.

    >>> opening_words(entries=[], agent_name="ann", stance="trams are better.", question="Trams or buses?")
    'Trams are better, because'
    """
    if fact is not None:
        text = template.begins_fact
    elif any(entry.agent_name == agent_name for entry in entries):
        text = template.begins_again
    else:
        text = template.begins_reply if entries else template.begins
    position = " ".join(stance.split()).rstrip(".!?;:, ")
    choices = [line for line in text.splitlines() if line.strip()]
    if not choices or not position or len(position) > _MAX_POSITION_LENGTH:
        return ""
    first, _, rest = position.partition(" ")
    position = f"{first[0].upper()}{first[1:]} {rest}".rstrip() if first.islower() else position
    if text in _ENGLISH and not is_english(f"{question} {stance}"):
        return f"{position}:" if fact is None else f"{position}: “{fact}”"
    return filled(choices[(len(entries) + shift) % len(choices)], position=position, fact=fact)


def is_english(text: str) -> bool:
    """Check whether `text` contains any word that is common in English questions and positions but rare elsewhere."""
    return not _COMMON.isdisjoint(fold(text).split())


# Maximum length, in characters, of a position used to begin a turn. After a longer position, a small model has nothing
# left to say.
_MAX_POSITION_LENGTH = 200
_ENGLISH = frozenset(asdict(OPENINGS).values())
_COMMON = frozenset(
    """
    and are be better does from how not or our should than that the their to what which who why with would
    """.split()  # noqa: SIM905 - a list this long is read as words
)


# Facts from the sources, sorted by side. A small model ignores sources in its prompt, and when asked for the best
# evidence, it picks the same sentence for every side. It is good at sorting sentences one at a time, though: which side
# does this one support? Each side is shown once under each letter.

_MAX_FACTS = 8  # maximum number of facts; sorting each fact takes one call per side
_MAX_FACT_LENGTH = 240  # maximum length, in characters, of a fact
_SORTER = "You sort evidence by side. Reply with one letter."


def facts_in(sources: Sequence[Source]) -> list[SourceFact]:
    r"""Return sentences from `sources` that contain a number, skipping headings.

    At most eight are returned, each short enough to be quoted in a turn.

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
        if len(sentence) <= _MAX_FACT_LENGTH and not re.search('["“”„«»]', sentence)
    ][:_MAX_FACTS]


@dataclass(frozen=True, kw_only=True)
class FactSorter:
    """Fact sorter that asks a model which position each fact supports."""

    name: str
    """Name of the block that calls the model."""
    prompt: DebaterPrompt
    model: Model | str | None
    settings: ModelSettings | None

    @property
    def stances(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.prompt.identity.positions))

    async def sort(self, sources: Sequence[Source], value: object, ctx: Context) -> None:
        """Sort the facts from `sources` and store them in the state.

        This happens once per debate, if turns begin with facts. Each fact is assigned to the position it supports most,
        relative to the model's average for that position.
        """
        if state_of(ctx, DebateState).facts is not None or not self.prompt.template(ctx).sorts:
            return
        facts = facts_in(sources)
        odds: list[dict[str, float]] = []
        for number, fact in enumerate(facts):
            inner = ctx.child(self.name, f"{ctx.path}/fact[{number}]")
            odds.append(await self._ask(fact.text, question_of(value, ctx), inner))
            if not odds[-1]:
                facts, odds = [], []
                break
        stances = self.stances
        bias = {side: sum(answer[side] for answer in odds) / len(odds) if odds else 0.0 for side in stances}
        ranked: dict[str, list[tuple[float, int]]] = {side: [] for side in stances}
        for number, answer in enumerate(odds):
            gains = {side: support - bias[side] for side, support in answer.items()}
            best = max(gains, key=gains.__getitem__)
            ranked[best].append((-gains[best], number))
        by_stance = {side: [facts[number] for _, number in sorted(numbers)] for side, numbers in ranked.items()}
        ctx.scope.handle.update(facts=SortedFacts(by_stance=by_stance, bias=bias))

    async def find_leader(self, text: str, facts: SortedFacts, ctx: Context) -> str | None:
        """Return the position supported by the last sentence of `text`, or None if the position is unclear."""
        sentences: Sequence[str] = sentences_of(text)
        odds = await self._ask(sentences[-1], state_of(ctx, DebateState).question, ctx) if sentences else {}
        return max(odds, key=lambda side: odds[side] - facts.bias.get(side, 0.0)) if odds else None

    async def _ask(self, text: str, question: str, ctx: Context) -> dict[str, float]:
        """Ask the model once per position, rotating the letters, and return each position's mean log-odds.

        The result is empty if the model returns no log-probabilities or its provider fails; the debate then continues
        without facts.
        """
        stances, odds = self.stances, list[dict[str, float]]()
        letters = letters_for(len(stances), location=self.name)
        for shift in range(len(stances)):
            order = dict(zip(letters, [*stances[shift:], *stances[:shift]], strict=True))
            logprobs = await self._choose(
                text, question, order, ctx.child(self.name, f"{ctx.path}/{self.name}[{shift}]")
            )
            if logprobs is None:
                return {}
            odds.append(centered({side: logprobs[letter] for letter, side in order.items()}))
        return {side: sum(answer[side] for answer in odds) / len(odds) for side in stances}

    async def _choose(
        self, text: str, question: str, order: Mapping[str, str], ctx: Context
    ) -> Mapping[str, float] | None:
        """Return the log-probability of each letter in `order`; None if the model fails or returns none."""
        if recorded_failure(ctx, block=self.name) is not None:
            return None
        positions = "\n".join(f"{letter}: {tag_text(side)}" for letter, side in order.items())
        user = filled(
            self.prompt.template(ctx).sorts,
            question=quoted(question),
            positions=positions,
            text=frame(text),
            letters=listed_letters(tuple(order)),
        )
        block = generator(
            name=self.name,
            prompt=_SORTER,
            user=user,
            choices=tuple(order),
            model=self.model,
            settings=self.settings,
            transform=lambda _, response, __: response.logprobs,
            visibility=Visibility(client=False, history=False),
        )
        try:
            return await block(None, ctx)
        except ModelError as failure:
            if not (isinstance(failure, BadAnswer) or is_provider_failure(failure)):
                raise
            await discard(ctx, failure, block=self.name)
            return None
