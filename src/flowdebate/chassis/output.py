"""Pattern outputs: the base class for raw outputs, their publication, and the synthesizer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field

from flowdebate._text import cut, one_line
from flowdebate._util.wire import WireModel, freeze
from flowdebate.blocks.base import Block, Wrapped
from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.material import Material, ShownPassages
from flowdebate.chassis.options import OptionsT
from flowdebate.chassis.roster import Role, role_options
from flowdebate.chassis.sentences import first_sentences
from flowdebate.chassis.state import (
    CutAnswer,
    DebateStatus,
    EscalationStep,
    Older,
    PatternInput,
    ProviderFailure,
    has_contributions,
    missing_line,
    pattern_state,
)
from flowdebate.chassis.turn import guarded, record_failure
from flowdebate.errors import OutputError, SchemaViolation
from flowdebate.sources.quotes import VerifiedQuote
from flowdebate.sources.source import SourceInfo, is_none

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.spec import Loop
    from flowdebate.models.output import OutputSchema
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contribution to a discussion, in a form common to all patterns."""

    round: int
    """The round number (in a handoff, the turn number), starting at 1; 0 for the initial proposals in a consensus
    debate.
    """
    speaker: str
    """The name of the debater or agent."""
    text: str


# shorter contributions, such as "I agree.", are not checked for repetition
_MIN_REPEATED_LENGTH = 20
_MAX_QUOTED_LENGTH = 80  # maximum length, in characters, of a contribution quoted in a remark


class PatternOutput(WireModel):
    """A pattern's raw output, in a form common to all patterns.

    Each pattern defines a subclass with its own fields.
    """

    subject_field: ClassVar[str] = "question"
    """Name of the field containing the question, topic, proposition or task."""
    early_reasons: ClassVar[frozenset[str]] = frozenset()
    """Stop reasons that take precedence over the round limit if they apply after the last round."""
    transcript_field: ClassVar[str] = "transcript"
    """Name of the field containing the transcript."""

    sources: list[SourceInfo] | None = Field(default=None, exclude_if=is_none)
    """The pattern's sources, including omitted files; None (and omitted from JSON) if it has none."""
    quotes: list[list[VerifiedQuote]] | None = Field(default=None, exclude_if=is_none)
    """The quotes in each of the `entries`, checked against the sources; None (and omitted from JSON) if there are no
    sources.
    """
    passages: list[ShownPassages] | None = Field(default=None, exclude_if=is_none)
    """The passages shown in each turn, taken from sources too long for a prompt.

    None (and omitted from JSON) if the sources were shown in full.
    """
    older: Older | None = Field(default=None, exclude_if=is_none)
    """The summary that replaces the oldest rounds in prompts.

    None (and omitted from JSON) if there is no history window.
    """

    cut_answers: list[CutAnswer] | None = Field(default=None, exclude_if=is_none)
    """The full text of each answer in which a speaker also wrote another speaker's turn; None (and omitted from JSON)
    if there are none.
    """
    escalation: list[EscalationStep] | None = Field(default=None, exclude_if=is_none)
    """In a run with depth "auto", the escalation steps up to and including the one that produced this output; None (and
    omitted from JSON) in other runs.
    """

    # Only for type checkers: subclasses declare these as fields, at their places in the wire format.
    if TYPE_CHECKING:

        @property
        def answer(self) -> str | None:
            """The pattern's answer in words; None for a pattern without answers, or if it did not reach one."""

        @property
        def stop_reason(self) -> str | None:
            """The reason to end the rounds; None if the rounds were cut short."""

        @property
        def status(self) -> DebateStatus:
            """The status of the pattern at its end."""

        @property
        def losses(self) -> Sequence[ProviderFailure]:
            """The provider failures tolerated by the pattern."""

        @property
        def seed(self) -> int | None:
            """The seed of the run."""

    @property
    def subject(self) -> str:
        """The question, the topic, the proposition or the task."""
        return str(getattr(self, self.subject_field))

    @property
    def entries(self) -> list[Entry]:
        """All contributions, in transcript order."""
        transcript: Sequence[Any] = getattr(self, self.transcript_field)
        return [Entry(round=entry.round, speaker=entry.speaker, text=entry.text) for entry in transcript]

    @property
    def is_undisputed(self) -> bool | None:
        """True if all deciders reached the same result; None if this cannot be determined."""
        return None

    @property
    def incomplete(self) -> str | None:
        """Line shown above every answer to say which speakers are missing and why; None if everyone spoke."""
        return missing_line(self.losses)

    @property
    def decision_word(self) -> str | None:
        """The decision as a word or name, used to group the runs of a batch; None if the pattern makes no decision."""
        return None

    @property
    def decision_line(self) -> str | None:
        """The decision on one line, for use in lists: the decision word, or the beginning of the answer."""
        return self.decision_word or brief(getattr(self, "answer", None))

    def find_repetitions(self) -> list[str]:
        """Report contributions that occur more than once in the transcript, except for short ones."""
        # check only the transcript: an unchanged revision is not a repetition
        transcript: Sequence[Any] = getattr(self, self.transcript_field, ())
        same: dict[str, list[Any]] = {}
        for entry in transcript:
            if len(words := " ".join(entry.text.split())) >= _MIN_REPEATED_LENGTH:
                same.setdefault(words.casefold(), []).append(entry)
        return [
            f"The same words appear in {len(entries)} contributions, by {', '.join(dict.fromkeys(speakers))}: {words}"
            for entries in same.values()
            if len(entries) > 1
            for speakers in [[entry.speaker for entry in entries]]
            for words in [cut(one_line(" ".join(entries[0].text.split())), _MAX_QUOTED_LENGTH)]
        ]

    def answer_courses(self) -> list[tuple[dict[str, list[str | None]], str | None]]:
        """Return how each decision was reached: each speaker's answers, in order, and the outcome.

        The list is empty for a pattern whose speakers give no short answers. `flowdebate.evaluation.dynamics` analyzes
        the result.
        """
        return []

    def in_short(self) -> dict[str, Any]:
        """Summarize the output for a list of runs: the speakers' names and a one-line decision."""
        speakers = list(dict.fromkeys(entry.speaker for entry in self.entries))
        return {"speakers": speakers, "decision": self.decision_line}


_MAX_LINE_LENGTH = 160


def brief(text: object) -> str | None:
    r"""Shorten `text` to its first sentence, without Markdown; return None if it is blank or not a string.

    >>> brief("# Answer\n\n**Ship** it in May. Then look again.")
    'Ship it in May.'
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()] if isinstance(text, str) else []
    if not lines:
        return None
    line = next((line for line in lines if not line.startswith("#")), lines[0])
    plain = re.sub(r"^(?:#+|[-*+>]|\d+[.)])\s+|[*`]+", "", line)
    sentence = one_line(first_sentences(plain, 1))
    return sentence if len(sentence) <= _MAX_LINE_LENGTH else f"{sentence[: _MAX_LINE_LENGTH - 1].rstrip()}…"


OutputT = TypeVar("OutputT", bound=PatternOutput)


def mark_answer(answer: Any, losses: Sequence[ProviderFailure]) -> Any:  # noqa: ANN401 - what a schema says
    """Prepend the line about missing speakers to a text answer; return any other answer unchanged."""
    line = missing_line(losses)
    if line is None or not isinstance(answer, str) or answer.startswith(line):
        return answer
    return f"{line}\n\n{answer}"


def stamp_subject(
    name: str, make_output: Callable[[Context, RunStatus], PatternOutput], material: Material | None = None
) -> Handler[Any, None]:
    """Create a tap that stores the subject, and registers `make_output` to build the output if the run ends early.

    The tap also records the `material`, because the sources may change before the run is resumed.
    """

    @handler(name=f"{name}-stamp-question")
    async def stamp(value: PatternInput, ctx: Context) -> None:
        # set early, so that the output contains the question even if the run ends during its first turn
        ctx.scope.handle.update(question=value.subject)
        ctx.run.register_partial_output(ctx.sequencer.path, lambda status: make_output(ctx, status))
        if material is not None:
            await material.record(ctx)

    return stamp


def build_output(loop: Loop[OptionsT]) -> Handler[object, PatternOutput]:
    """Create a block that builds the raw output from the pattern's state and publishes it."""

    @handler(name=f"{loop.name}-build-output")
    def build(_: object, ctx: Context) -> PatternOutput:
        return publish(loop.make_output(ctx, status_of(ctx)), ctx)

    return build


def publish(output: OutputT, ctx: Context, *, path: str | None = None) -> OutputT:
    """Publish `output` as the raw output of the pattern at `path` or, if `path` is None, of the enclosing pattern.

    All raw outputs (`result.raw`) are published with this function. If an output changes later because the synthesizer
    failed or baselines were added, it is rebuilt and published again.
    """
    ctx.run.set_raw_output(ctx.sequencer.path if path is None else path, output)
    return output


def ending_of(ctx: Context, status: RunStatus) -> dict[str, Any]:
    """Collect the fields common to all raw outputs: the stop reason, status, provider failures and seed."""
    state = pattern_state(ctx)
    return {"stop_reason": state.stop_reason, "status": status, "losses": list(state.losses), "seed": ctx.seed}


def status_of(ctx: Context) -> RunStatus:
    """Return a pattern's status: "complete", "degraded" after a failure, or "no_verdict" if nobody contributed."""
    if not has_contributions(ctx):
        ctx.run.degrade("no_verdict")
        return "no_verdict"
    return "degraded" if pattern_state(ctx).losses else "complete"


def with_synthesizer(pipeline: Sequencer[Any, Any], loop: Loop[OptionsT], role: Role) -> Sequencer[Any, Any]:
    """Add the synthesizer in `role` as the last step of `pipeline`, if the pattern has one.

    A custom synthesizer's output is validated against the pattern's schema; the default one requests that schema from
    its model. If the synthesizer's provider fails and the policy tolerates this, the output is None, and the raw output
    is published again, this time including the failure. If there is no verdict, the synthesizer is not called and the
    output is None.
    """
    if not loop.has(role):
        return pipeline
    schema, synthesizer_options = loop.schema, role_options(loop.choice(role))
    block = loop.role(role, answer=lambda: schema, output_schema=schema)

    def recover(error: Exception, _: object, ctx: Context) -> None:
        record_failure(error, ctx, block=ctx.block, role=role.name, name=ctx.block, instead=role.instead)
        publish(loop.make_output(ctx, status_of(ctx)), ctx)

    guard = guarded(block, loop.policy_of(role), recover, closes=role.closes)
    pipeline = pipeline.then(Synthesis(guard, read_only=synthesizer_options is None))
    if schema is None or (synthesizer_options is not None and "output_schema" not in synthesizer_options):
        return pipeline
    validate = _validate_output(loop.name, block.name, schema)
    if not loop.policy_of(role).continues:
        return pipeline.then(validate)
    # skip None: it means that the provider failed, and the schema may not allow it
    return pipeline.then_if(lambda value: value is not None, validate)


def _validate_output(name: str, synthesizer: str, schema: OutputSchema) -> Handler[Any, Any]:
    """Create a block that validates a custom synthesizer's output."""

    @handler(name=f"{name}-validate-output")
    def validate(value: object, ctx: Context) -> object:
        if value is None and status_of(ctx) == "no_verdict":
            return None
        try:
            return schema.validate(value)
        except SchemaViolation as violation:
            raise OutputError(synthesizer, schema.name, violation.problems) from None

    return validate


class Synthesis(Wrapped):
    """Block that runs `inner` only on raw outputs with a verdict.

    For any other output, it returns None, because there is nothing to synthesize.
    """

    def __init__(self, inner: Block[Any, Any], *, read_only: bool) -> None:
        super().__init__(inner)
        self._read_only = read_only

    async def act(self, value: PatternOutput, ctx: Context, /) -> Any:  # noqa: ANN401 - what the synthesizer gives
        if value.status == "no_verdict":
            return None
        if value.older is not None:  # the summary is already in the prompt
            entries: Sequence[Any] = getattr(value, value.transcript_field)
            new_entries = [entry for entry in entries if entry.round > value.older.rounds]
            value = value.model_copy(update={value.transcript_field: new_entries})
        # frozen, because otherwise a custom synthesizer could modify the published raw output
        output = await self._inner(freeze(value) if self._read_only else value, ctx)
        return mark_answer(output, value.losses)
