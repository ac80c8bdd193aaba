"""A sixth pattern: one speaker, one answer. Its folder, page and entry are all in this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from flowdebate import generator, handler, sequencer
from flowdebate._util.wire import WireModel
from flowdebate.patterns import PatternInfo
from flowdebate.patterns.state import DebateStatus
from flowdebate.runs.events import BlockAnswered
from flowdebate.service.documents.document import Document, Speaker
from flowdebate.service.documents.live import Live
from flowdebate.service.documents.page import PatternPage
from flowdebate.service.documents.sections import Entry, LiveSection, Section
from flowdebate.service.plans.options import Count, Option, PatternOptions, PersonaEntry, Text

if TYPE_CHECKING:
    from collections.abc import Iterator


class ToyOutput(WireModel):
    """What it came to."""

    riddle: str
    rounds: int = 0
    solution: str = ""
    status: DebateStatus = "complete"
    seed: int | None = None


class ToyOptions(PatternOptions):
    """Its options."""

    SUBJECT: ClassVar[str] = "riddle"
    riddle: Annotated[Text | None, Option(help="The riddle.")] = None
    debaters: Annotated[list[PersonaEntry] | None, Option(flag="", help="")] = None
    rounds: Annotated[Count | None, Option(help="Ignored.")] = None


class ToyDocument(Document):
    """Its document."""

    SPEAKERS: ClassVar[str] = "Solver"
    pattern: str = "toy"
    debaters: list[Speaker] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: ToyOutput

    def raw_speakers(self) -> list[Speaker]:
        return [Speaker(name="Solver")]

    @property
    def has_result(self) -> bool:
        return bool(self.raw.solution)

    @property
    def contributions(self) -> int:
        return int(self.has_result)

    @property
    def ending(self) -> str | None:
        return None

    def sections(self) -> Iterator[Section]:
        if self.has_result:
            yield Entry(name="Solver", about="", text=self.raw.solution)


class ToyLive(Live):
    """Its live view."""

    def sections(self, event: object) -> Iterator[LiveSection]:
        if isinstance(event, BlockAnswered):
            yield Entry(name="Solver", about="", text=str(event.output))
        else:
            yield from super().sections(event)


def toy(*, name: str, **_: Any) -> Any:
    """The pattern."""

    async def whole(value: str, ctx: Any) -> ToyOutput:
        raw = ToyOutput(riddle="?", rounds=1, solution=value, seed=ctx.seed)
        ctx.run.set_raw_output(ctx.path, raw)
        return raw

    solver = generator(name=f"{name}-solver", instructions="Solve it.")
    return sequencer(name=name).then(solver).then(handler(whole, name=f"{name}-output"))


class ToyPage(PatternPage):
    """What it adds to the service."""

    options = ToyOptions
    document = ToyDocument
    live = ToyLive
    default_speakers = ({"name": "Solver"},)
    least = 1
    default_length = 1

    def build(self, plan: Any) -> Any:
        return toy(**plan.common)


PAGE = ToyPage()
INFO = PatternInfo(
    name="toy",
    factory=f"{__name__}:toy",
    output=f"{__name__}:ToyOutput",
    subject="riddle",
    page=f"{__name__}:PAGE",
    help="Solve a riddle.",
)
