"""The default referee: a model that audits how well a panel argued in a round, and decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Unpack

from pydantic import AfterValidator, Field, create_model

from flowdebate.blocks.base import Block
from flowdebate.blocks.debater import filled
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.panel_state import panel_state
from flowdebate.blocks.state import entries_of, question_of
from flowdebate.errors import ConfigurationError
from flowdebate.models.text import is_blank
from flowdebate.schemas.panel import Assessment, RefereeReport
from flowdebate.schemas.wire import WireModel
from flowdebate.views.referee import REFEREE, RefereeTemplate, render_referee_system, render_referee_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.blocks.outline import Outline
    from flowdebate.models.base import ModelResponse
    from flowdebate.resources.panel_transcript import PanelTranscript
    from flowdebate.runs.context import Context

__all__ = ("Referee", "create_referee")


class Referee(Block[Any, RefereeReport]):
    """A generator that knows the panel that it audits."""

    def __init__(self, inner: Generator[RefereeReport], roster_names: Sequence[str]) -> None:
        super().__init__(inner.name, resources=inner.resources, hidden=inner.hidden)
        self._inner = inner
        self.roster_names = tuple(roster_names)

    async def act(self, value: object, ctx: Context, /) -> RefereeReport:
        return await self._inner.act(value, ctx)

    def outline(self) -> Outline:
        return self._inner.outline()


def create_referee(
    *,
    name: str,
    roster_names: Sequence[str],
    transcript: PanelTranscript,
    max_rounds: int | None = None,
    template: RefereeTemplate = REFEREE,
    **options: Unpack[BlockOptions],
) -> Referee:
    """The block `{name}-referee`: audits a round with `{assessments, notes}`.

    It sees all that was said, with names and roles, and its own earlier audits. The schema that its model gets has
    `roster_names` as an enum. `max_rounds`, where it is given, is told to it.
    """
    roster = list(roster_names) if not isinstance(roster_names, str) else []
    if not roster or not all(isinstance(entry, str) and not is_blank(entry) for entry in roster):
        raise ConfigurationError(f"referee {name!r}", "roster_names", roster_names, "the names of the panelists")

    def system(value: object, ctx: Context) -> str:
        return render_referee_system(question=question_of(value, ctx), roster=roster, template=template)

    def turn(_: object, ctx: Context) -> str:
        state = panel_state(ctx)
        return render_referee_turn(
            entries=entries_of(ctx),
            audits=state.audits,
            round=max(state.round, 1),
            max_rounds=max_rounds,
            template=template,
        )

    def found(answer: Any, _: ModelResponse, __: Context) -> RefereeReport:  # noqa: ANN401 - the model made below
        assessments = [
            Assessment(agent_name=item.agent_name, issues=list(filter(_is_issue, item.issues)), score=item.score)
            for item in answer.assessments
        ]
        return RefereeReport(notes=answer.notes, assessments=assessments)

    block_name = f"{name}-referee"
    inner: Generator[RefereeReport] = generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=_report_on(roster),
        transform=found,
        resources={"transcript": transcript},
        **filled(options, "intent/synthesize", Visibility(), where=block_name),
    )
    return Referee(inner, roster)


_NO_ISSUE = frozenset({"", "n/a", "no", "no issue", "no issues", "none", "nothing"})
"""What models write into a list that should be empty."""
_ISSUES = 3
"""How many issues a model may list for one panelist: without a bound it could loop."""
_LONGEST = 1_000
"""Characters of an issue and of the notes: they stand in each later prompt."""


def _report_on(roster: Sequence[str]) -> type[WireModel]:
    """The referee's answer: issues before the score, and the notes last, since models commit to what they wrote first.

    The roster is an enum, and complete, for models that can be held to that. For others neither is a reason to ask
    again: what they find of a stranger is dropped.
    """
    words = Annotated[str, AfterValidator(_short)]
    name = Annotated[str, Field(json_schema_extra={"enum": list(roster)})]
    assessment = create_model(
        "Assessment",
        __base__=WireModel,
        agent_name=(name, Field(description="Whose argument it is")),
        issues=(list[words], Field(max_length=_ISSUES, description="What is wrong with it; empty if nothing is")),
        score=(Annotated[int, Field(ge=0, le=100)], Field(description="How well it is argued, from 0 to 100")),
    )
    return create_model(
        "RefereeReport",
        __base__=WireModel,
        assessments=(
            list[assessment],
            Field(
                max_length=len(roster),
                json_schema_extra={"minItems": len(roster)},  # small models would leave some out
                description="One for each member",
            ),
        ),
        notes=(words, Field(description="What the panel should do better, in one or two sentences")),
    )


def _is_issue(text: str) -> bool:
    return text.strip(" .-\t\r\n").casefold() not in _NO_ISSUE


def _short(text: str) -> str:
    if len(text) > _LONGEST:
        message = f"it has {len(text):,} characters, and may have {_LONGEST:,}"
        raise ValueError(message)
    return text
