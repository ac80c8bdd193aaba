"""Jurors: one model each, asked about one judge view at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.generator import Generator, generator
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
from flowdebate.patterns.debate.judging.prompt import (
    render_judge_office,
    render_judge_system,
    render_judge_turn,
    scores_among,
    shares_of,
    verdict_among,
)
from flowdebate.patterns.debate.judging.wording import headed
from flowdebate.patterns.debate.quotes.prompt import HOW_TO_READ_QUOTES
from flowdebate.patterns.debate.schemas import JudgedVerdict
from flowdebate.patterns.debate.transcript import render_entries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.models.base import Model, ModelResponse
    from flowdebate.patterns.debate.judging.prompt import JudgeTemplate
    from flowdebate.patterns.debate.judging.schedules import JudgeView
    from flowdebate.patterns.debate.schemas import DebateContributionEntry
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.runs.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeInput:
    """Input of one call for a ballot or a verdict."""

    question: str
    view: JudgeView
    entries: Sequence[DebateContributionEntry]
    """The arguments in the order of the view, with aliases for names and labels for stances."""
    notes: Sequence[str] = ()
    """The line below each argument; empty for none."""
    places: Sequence[int]
    """The indices of the arguments in the transcript."""
    number: int = 0
    """The number of the view in the judge's schedule, from 0."""
    model: str | None = None
    """The model of a panel; None for the judge's own."""
    reasons: str = ""
    """The reasons that the model gave before it is asked for a letter."""


def voter_of(panel_model: Model | str | None) -> str | None:
    """The name of a panel's model, recorded in its ballots; None for the judge's own model."""
    return panel_model if panel_model is None or isinstance(panel_model, str) else panel_model.name


class Juror:
    """One judging model: its prompt, and the ballot made from its answer."""

    def __init__(  # noqa: PLR0913 - the parts of one value, put together by a Judge
        self,
        name: str,
        *,
        sides: tuple[str, ...],
        scored: bool,
        named: bool,
        has_sources: bool,
        template: JudgeTemplate,
        transcript: Transcript,
        options: Mapping[str, Any],
        panel_model: Model | str | None = None,
    ) -> None:
        self._name = name
        self._sides = sides
        self._scored = scored
        self._named = named
        self._has_sources = has_sources
        self._template = template
        self._transcript = transcript
        self._options = options if panel_model is None else {**options, "model": panel_model}
        self._generators = cache(self._generator)
        self.voter: str | None = voter_of(panel_model)

    @property
    def block(self) -> Generator[Any]:
        """The block that calls the model, with the sides in declared order."""
        return self._generators(self._sides)

    async def cast(self, shown: JudgeInput, ctx: Context) -> JudgeBallot:
        """The ballot about one view."""
        ballot: JudgeBallot = await self.asking(shown)(shown, ctx)
        return ballot

    def asking(self, shown: JudgeInput) -> Generator[Any]:
        """The block for `shown`; it returns a `JudgeBallot`, or a `JudgedVerdict` if only a winner is asked for."""
        names = tuple(map(shown.view.named, shown.view.order)) if self._scored else self._sides
        read = self._ballot if self._scored else self._verdict
        return self._generators(names).with_transform(partial(read, shown))

    def _generator(self, names: tuple[str, ...]) -> Generator[Any]:
        return generator(
            name=self._name,
            prompt=self._system,
            user=self._turn,
            output_schema=scores_among(names) if self._scored else verdict_among(self._sides),
            resources={"transcript": self._transcript},
            **self._options,
        )

    def _system(self, shown: JudgeInput) -> str:
        if self._scored:
            office = render_judge_office(view=shown.view, template=self._template)
        else:
            office = render_judge_system(stances=self._sides, template=self._template)
        return f"{office}\n\n{HOW_TO_READ_QUOTES}" if self._has_sources else office

    def _turn(self, shown: JudgeInput) -> str:
        transcript = render_entries(shown.entries, names=self._named, below=shown.notes)
        return render_judge_turn(question=shown.question, transcript=transcript, template=self._template)

    def _ballot(self, shown: JudgeInput, answer: Any, _: ModelResponse, ctx: Context) -> JudgeBallot:  # noqa: ANN401 - see prompt
        view, scores, winner = shown.view, None, None
        if self._scored:
            from flowdebate.patterns.debate.judging.ballots import leader_of

            scores = shares_of(answer.scores, {view.named(side): side for side in view.order})
            winner = leader_of(scores)
        else:
            winner = answer.winner
        return JudgeBallot(
            view=shown.number,
            order=list(view.order),
            labels=None if view.labels is None else dict(view.labels),
            model=ctx.model(self._options["model"]).name if shown.model is None else shown.model,
            scores=scores,
            winner=winner,
            **({"verdict": answer.verdict, "reasoning": answer.reasoning} if self._scored else {}),
        )

    def _verdict(self, shown: JudgeInput, answer: Any, response: ModelResponse, ctx: Context) -> JudgedVerdict:  # noqa: ANN401 - see prompt
        """The verdict of a single-view judge."""
        ballot = self._ballot(shown, answer, response, ctx)
        return JudgedVerdict(
            verdict=headed(answer.verdict, answer.winner, self._sides),
            winner=answer.winner,
            reasoning=answer.reasoning,
            judging=Judging(ballots=[ballot], scores=ballot.shares),
        )
