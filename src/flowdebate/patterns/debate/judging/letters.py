"""Jurors that answer with one letter, whose log-probabilities are the ballot."""

from __future__ import annotations

import math
import string
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, centred, leader_of, softmax
from flowdebate.patterns.debate.judging.juror import voter_of
from flowdebate.patterns.debate.judging.prompt import render_judge_office
from flowdebate.patterns.debate.quotes.prompt import HOW_TO_READ_QUOTES
from flowdebate.patterns.debate.transcript import EMPTY, render_entries
from flowdebate.prompts.escaping import quoted
from flowdebate.prompts.template import filled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.generator import TextSlot
    from flowdebate.models.base import Model, ModelResponse
    from flowdebate.patterns.debate.judging.juror import JudgeInput
    from flowdebate.patterns.debate.judging.prompt import JudgeTemplate
    from flowdebate.patterns.debate.judging.schedules import JudgeView
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.runs.context import Context


MOST_LETTERS = 20
"""The most letters to choose from: servers report the log-probabilities of so few tokens."""
LEAST_MASS = 0.1
"""The smallest probability of all letters together with which a ballot is usable: below it the letters' proportions are
those of tokens that the model hardly considers."""
NO_LOGPROBS: Final = "the model gives no log-probabilities"
"""The problem of the ballots of such a model."""


def letters_for(count: int, *, where: str, field: str = "stances") -> tuple[str, ...]:
    """The first `count` letters; ConfigurationError for more than `MOST_LETTERS`.

    >>> letters_for(3, where="judge")
    ('A', 'B', 'C')
    """
    if count > MOST_LETTERS:
        raise ConfigurationError(where, field, count, f"at most {MOST_LETTERS} to choose from by letter")
    return tuple(string.ascii_uppercase[:count])


def listed_letters(letters: Sequence[str]) -> str:
    """The letters as a question offers them.

    >>> listed_letters("ABC")
    'A, B or C'
    """
    return f"{', '.join(letters[:-1])} or {letters[-1]}" if len(letters) > 1 else "".join(letters)


def letter_views(views: Sequence[JudgeView], letters: Sequence[str], *, crossed: bool) -> tuple[JudgeView, ...]:
    """`views` with letters in the order of the slots; crossed, each with each rotation of the letters.

    Letters and slots that agree are one bias, which all orders together cancel.
    """
    turns = range(len(letters) if crossed else 1)
    return tuple(
        replace(view, labels={side: letters[(at + turn) % len(letters)] for at, side in enumerate(view.order)})
        for view in views
        for turn in turns
    )


_HIDDEN = Visibility(client=False, history=False)
"""Reasons and picks are part of a verdict, and nothing that was said."""


class LetterJuror:
    """One judging model that is asked for a letter: its prompt, and the ballot made from its log-probabilities.

    The arguments are grouped by side, under a letter and without their positions, of which a small model would judge in
    place of the arguments. With `reasons`, the model reads the debate by rounds, with the positions, and writes its
    reasons before it names the letter.
    """

    def __init__(  # noqa: PLR0913 - the parts of one value, put together by a Judge
        self,
        name: str,
        *,
        sides: tuple[str, ...],
        reasons: bool,
        named: bool,
        has_sources: bool,
        template: JudgeTemplate,
        transcript: Transcript,
        options: Mapping[str, Any],
        panel_model: Model | str | None = None,
    ) -> None:
        self._name = name
        self._letters = letters_for(len(sides), where=f"judge {name!r}")
        self._reasons = reasons
        self._named = named
        self._has_sources = has_sources
        self._template = template
        self._transcript = transcript
        self.options: Mapping[str, Any] | dict[str, Any | Model | str] = (
            options if panel_model is None else {**options, "model": panel_model}
        )
        self.voter: str | None = voter_of(panel_model)
        self._block = cache(self._generator)

    @property
    def block(self) -> Generator[Any]:
        """The block that calls the model."""
        return self._block()

    async def cast(self, shown: JudgeInput, ctx: Context) -> JudgeBallot:
        """Ask about one view; the ballot has a `problem` where the letters say nothing."""
        if self._reasons:
            said: str = await self._reasoner()(shown, ctx.child(self._name, f"{ctx.path}/reasons"))
            shown = replace(shown, reasons=said)
        ballot: JudgeBallot = await self.block.with_transform(partial(self._ballot, shown))(shown, ctx)
        return ballot

    async def pick(self, question: str, texts: Sequence[str], ctx: Context) -> int:
        """The index of the one of `texts` that states the most concrete fact; the first without log-probabilities."""
        letters = letters_for(len(texts), where=self._name, field="sentences")
        sentences = "\n".join(f"{letter}: {quoted(text)}" for letter, text in zip(letters, texts, strict=True))

        def likeliest(_: str, response: ModelResponse, __: Context) -> int:
            logprobs = response.logprobs or {}
            return max(range(len(letters)), key=lambda index: logprobs.get(letters[index], 0.0))

        turn = filled(self._template.quote_turn, question=quoted(question), sentences=sentences)
        options = {**self.options, "visibility": _HIDDEN}
        block = self._choose(self._template.letter, turn, letters, options).with_transform(likeliest)
        index: int = await block(None, ctx)
        return index

    def _generator(self) -> Generator[Any]:
        options = {**self.options, "resources": {"transcript": self._transcript}}
        return self._choose(self._system, self._turn, self._letters, options)

    def _choose(
        self, system: TextSlot, user: TextSlot, choices: Sequence[str], options: Mapping[str, Any]
    ) -> Generator[Any]:
        """A block that asks for one of `choices`, without tools."""
        slots: dict[str, Any] = {key: value for key, value in options.items() if key != "tools"}
        return generator(name=self._name, prompt=system, user=user, choices=choices, **slots)

    def _reasoner(self) -> Generator[str]:
        options: dict[str, Any] = {**self.options, "visibility": _HIDDEN}
        return generator(
            name=self._name,
            prompt=self._system,
            user=self._debate,
            resources={"transcript": self._transcript},
            **options,
        )

    def _system(self, shown: JudgeInput) -> str:
        if not self._reasons:
            return self._template.letter
        office = render_judge_office(view=shown.view, template=self._template, reasons=True)
        return f"{office}\n\n{HOW_TO_READ_QUOTES}" if self._has_sources else office

    def _debate(self, shown: JudgeInput) -> str:
        transcript = render_entries(shown.entries, names=self._named, below=shown.notes)
        return filled(self._template.turn, question=quoted(shown.question), transcript=transcript)

    def _turn(self, shown: JudgeInput) -> str:
        letters = listed_letters(self._letters)
        if self._reasons:
            reasons = quoted(shown.reasons)
            return f"{self._debate(shown)}\n\n{filled(self._template.after_reasons, reasons=reasons, letters=letters)}"
        sides = render_sides(shown)
        return filled(self._template.letter_turn, question=quoted(shown.question), sides=sides, letters=letters)

    def _ballot(self, shown: JudgeInput, _: str, response: ModelResponse, ctx: Context) -> JudgeBallot:
        view = shown.view
        assert view.labels is not None  # noqa: S101 - letters are labels
        ballot = JudgeBallot(
            view=shown.number,
            order=list(view.order),
            labels=dict(view.labels),
            model=ctx.model(self.options["model"]).name if shown.model is None else shown.model,
            reasoning=shown.reasons,
        )
        if response.logprobs is None:
            return ballot.model_copy(update={"problem": NO_LOGPROBS})
        return ballot.model_copy(update=numbers_of(response.logprobs, view.labels))


def render_sides(shown: JudgeInput) -> str:
    """The arguments by side, in the order of the view, each under its letter."""
    notes = [*shown.notes, *[""] * (len(shown.entries) - len(shown.notes))]
    parts = []
    for side in shown.view.order:
        letter = shown.view.named(side)
        lines = [
            f"- {quoted(entry.text)}" + (f"\n{note}" if note else "")
            for entry, note in zip(shown.entries, notes, strict=True)
            if entry.stance == letter
        ]
        parts.append("\n".join([f"Side {letter}:", *(lines or [EMPTY])]))
    return "\n\n".join(parts)


def numbers_of(logprobs: Mapping[str, float], labels: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a ballot that follow from the log-probability of each side's letter."""
    log_odds = centred({side: logprobs[letter] for side, letter in labels.items()})
    mass = math.fsum(math.exp(logprob) for logprob in logprobs.values())
    problem = f"the letters have only {mass:.3g} of the probability" if mass < LEAST_MASS else None
    scores = softmax(log_odds)
    return {
        "log_odds": log_odds,
        "mass": mass,
        "scores": scores,
        "winner": None if problem else leader_of(scores),
        "problem": problem,
    }
