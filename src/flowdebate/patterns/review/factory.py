"""The `review()` factory: it validates the options and assembles the steps in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowdebate._text import is_blank
from flowdebate._util.option_types import Count, Vendors, check_option
from flowdebate._util.validation import suggesting
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.anonymity.aliases import Anonymity, named_models
from flowdebate.chassis.options import PromptOptions, quorum_of
from flowdebate.chassis.output import ending_of
from flowdebate.chassis.roles import NOT_KEPT, RoleOptions
from flowdebate.chassis.roster import MemberLike, Persona, Role, is_custom_code, merge_options, role_options
from flowdebate.chassis.seats import DEFAULT, default_vendor_models
from flowdebate.chassis.spec import Loop, PatternSpec, check_options
from flowdebate.chassis.state import state_of
from flowdebate.chassis.turn import SKIP
from flowdebate.errors import ConfigurationError
from flowdebate.models.resolve import check_vendor

from .findings import cover, hold_gate, parse_gate
from .options import ReviewOptions
from .prompts import create_examiner, create_merger, create_reviewer
from .schemas import (
    EARLIER,
    REVIEWERS,
    Comparison,
    FindingDraft,
    Findings,
    GateResult,
    ReviewInput,
    ReviewRawOutput,
    ReviewState,
    ReviewTranscript,
    answer_to,
    create_review_transcript,
    unread_files,
)
from .steps import (
    GOALS,
    Hide,
    Merging,
    ReviewerTurn,
    build_review,
    check_reviewers,
    findings_of,
    open_defence,
    reports_of,
)

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.functions import BlockLike, Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.chassis.material import Material
    from flowdebate.chassis.turn import FailurePolicy
    from flowdebate.models.base import Model, ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike


@suggesting
def review(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    reviewers: Sequence[MemberLike] | None = None,
    sources: SourcesLike | Sources | Material | None = None,
    gate: str | None = None,
    model: ModelChoice = None,
    focus: str | Mapping[str, str] | None = None,
    earlier: Sequence[FindingDraft] | None = None,
    not_vendor: str | Sequence[str] = (),
    min_vendors: int | None = None,
    merger: BlockLike | RoleOptions | bool | None = None,
    max_concurrency: int | None = None,
    transcript: ReviewTranscript | None = None,
    instructions: TextSlot | None = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    reviewer_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, ReviewRawOutput, ReviewRawOutput]:
    """Build a review whose reviewers find, confirm and refute faults: `await pattern.run("What is wrong?")`.

    All reviewers read the `sources` simultaneously. Findings about the same fault are merged. Then each reviewer
    confirms or refutes the others' findings, and authors of refuted findings may answer. The output is a
    `ReviewRawOutput`.

    - `reviewers`: `Persona`s, dicts or models (default: Ada, Ben, Cleo). If there is only one, nothing is confirmed.
    - `sources`: strings or paths to review.
    - `gate`: a rule such as "no confirmed blocker"; the output says whether it holds.
    - `model`: the default model for all roles.
    - `focus`: what to look for, as a string or dict keyed by reviewer.
    - `not_vendor`, `min_vendors`: excluded vendors, and the minimum number of vendors.
    - `earlier`: `unresolved` findings from an earlier review.
    - `merger`: a block, a function or `SynthesizerOptions`; False merges by location and title only.
    - `max_concurrency`: a limit on concurrent reviewers.
    - `failures`: by default, two reviewers suffice.
    - All other options: see `debate()`.

    The input is a str, `{"question": str}` or a `ReviewInput`. Invalid options raise `ConfigurationError`.

    >>> both = [{"name": "ann"}, {"name": "bea"}]
    >>> change = review(name="change", reviewers=both, sources={"a.py": "x /= 0"}, gate="no confirmed blocker")
    >>> change.name
    'change'
    """
    excluded = [not_vendor] if isinstance(not_vendor, str) else list(not_vendor)
    check_option(Vendors, "not_vendor", excluded, location=f"review {name!r}")
    check_option(Count, "min_vendors", min_vendors, location=f"review {name!r}")
    for vendor in excluded:
        check_vendor(vendor, location=f"review {name!r}", field="not_vendor")
    if reviewers is None:
        reviewers, model = REVIEWERS, default_vendor_models(model, location=f"review {name!r}", without=excluded)
    loop = check_options(
        REVIEW,
        ReviewOptions(
            name=name,
            roster=reviewers,
            max_rounds=len(GOALS),
            gate=gate,
            earlier=_check_earlier(earlier, location=f"review {name!r}"),
            roles={"merger": merger},
            visibilities={"reviewer": reviewer_visibility},
            transcript=transcript,
            instructions=instructions,
            model=model,
            tools=tools,
            uses=uses,
            context=context,
            settings=settings,
            prompts=prompts,
            sources=sources,
            collection_id=collection_id,
            failures=failures,
        ),
    )
    check_option(Count, "max_concurrency", max_concurrency, location=loop.location)
    parse_gate(gate, location=loop.location, reviewers=len(loop.roster))
    if EARLIER in loop.names:
        raise ConfigurationError(
            loop.location, "reviewers", EARLIER, "cannot use the name reserved for an earlier review"
        )
    focused = _check_focus(focus, loop)
    if loop.material is not None:
        loop = replace(loop, material=replace(loop.material, numbered=True, divided=True))
    models = named_models(loop.options.model, loop.roster, *loop.models.values())
    hide = Anonymity(names=tuple(loop.names), models=models).hide
    pipeline = loop.opening()
    if excluded or min_vendors is not None:
        voices = {member.name: voice for member in loop.roster if (voice := _voice(loop, member)) is not None}
        pipeline = pipeline.tap(check_reviewers(loop, voices, not_vendor=excluded, min_vendors=min_vendors))
    for phase in GOALS:
        turns = {member.name: _turn(loop, member, phase, hide, focused) for member in loop.roster}
        if phase == "defend":
            pipeline = pipeline.tap(open_defence(loop))
        pipeline = pipeline.tap(sequencer(name=f"{name}-{phase}").parallel(turns, max_concurrency=max_concurrency))
        if phase == "find":
            comparison = loop.role(MERGER, answer=lambda: Comparison) if loop.has(MERGER) else None
            merger = None if comparison is None else loop.guard(MERGER, comparison, heard=lambda _: True)
            pipeline = pipeline.tap(Merging(merger, loop, hide))
    return pipeline.then(build_review(loop))


def _check_earlier(earlier: object, *, location: str) -> Sequence[FindingDraft] | None:
    if earlier is None:
        return None
    if not isinstance(earlier, (list, tuple)) or not all(isinstance(entry, FindingDraft) for entry in earlier):
        raise ConfigurationError(
            location,
            "earlier",
            earlier,
            "must be a list of FindingDraft objects, such as the `unresolved` findings of a raw output",
        )
    return [*earlier]


def _check_focus(focus: object, loop: Loop[ReviewOptions]) -> Mapping[str, str]:
    by_name: Mapping[Any, Any] = focus if isinstance(focus, Mapping) else {} if focus is None else {DEFAULT: focus}
    for key, text in by_name.items():
        if key != DEFAULT and key not in loop.names:
            raise ConfigurationError(
                loop.location, "focus", key, "contains an unknown reviewer", choices=[*loop.names, DEFAULT]
            )
        if not isinstance(text, str) or is_blank(text):
            raise ConfigurationError(
                loop.location,
                "focus",
                text,
                "must be non-blank text, or a dict that maps reviewer names to non-blank text",
            )
    return by_name


def _voice(loop: Loop[ReviewOptions], member: Persona) -> Any:  # noqa: ANN401 - a model, as a role takes it
    """Return a reviewer's model, or None for a human or a custom block."""
    block_options = role_options(member.block)
    if block_options is None:
        return None
    return block_options.get("model", loop.options_of(loop.spec.speaker, member).get("model", "intent/chat"))


def _turn(loop: Loop[ReviewOptions], member: Persona, phase: str, hide: Hide, focus: Mapping[str, str]) -> ReviewerTurn:
    """Build a reviewer's turn in one phase, using the custom or default block and its fallback."""
    stand_in = loop.failures.stand_in
    options = loop.options_of(loop.spec.speaker, member)
    block_options = role_options(member.block)
    voice = _voice(loop, member)
    fields = {"role": member.role, "system_prompt": member.system_prompt}
    if phase == "find":
        fields["focus"] = focus.get(member.name, focus.get(DEFAULT))
        block, other = loop.speakers(member, answer=lambda: Findings, **fields)
        speakers = [[speaker.in_role("reviewer")] for speaker in (block, other) if speaker is not None]
    else:
        options.pop("length", None)  # `length` applies only to findings
        times = [False, True] if phase == "examine" else [False]

        def make(model: Model | str | None) -> list[Block[Any, Any]]:
            create: Callable[..., Block[Any, Any]] = create_examiner
            suffix = "" if model is None else "-stand-in"
            return [
                create(
                    schema=answer_to(phase, turned=turned),
                    agent_name=member.name,
                    **merge_options(
                        {"name": f"{loop.name}{suffix}", **fields}, options, block_options, {"model": model}
                    ),
                )
                for turned in times
            ]

        if block_options is None:
            block = loop.custom_speaker(member).in_role("reviewer")
            # humans examine findings in one order only: unlike models, they are not swayed by the order of the options
            speakers = [[block] * (1 if hasattr(member.block, "with_answer_schema") else len(times))]
        else:
            speakers = [make(None)]
        speakers += [make(stand_in)] if stand_in is not None else []
    voices: list[object] = [voice, *([stand_in] if stand_in is not None else [])]
    return ReviewerTurn(
        loop, phase, member.name, speakers=speakers, voices=voices, hide=hide, custom=is_custom_code(member.block)
    )


def raw_output(loop: Loop[ReviewOptions], ctx: Context, status: RunStatus) -> ReviewRawOutput:
    """Return the enclosing review's current output."""
    state, gate = state_of(ctx, ReviewState), loop.options.gate
    findings, result = findings_of(state), None
    sources = () if loop.material is None else loop.material.all_of_run(ctx)
    coverage = cover(sources, {name: state.lines[name] for name in loop.names if name in state.lines})
    if gate is not None:
        lost = sorted({loss.name for loss in state.losses if loss.instead == "skipped"})
        reasons = [("not heard", lost), ("not read", unread_files(coverage))]
        missing = "; ".join(f"{reason}: {', '.join(names)}" for reason, names in reasons if names) or None
        rules = parse_gate(gate, location=loop.location, reviewers=len(loop.roster))
        result = hold_gate(gate, rules, findings, voices=state.voices, missing=missing)
        # findings that have not been examined cannot break a rule, so the gate is undecided
        if state.stop_reason is None:
            result = GateResult(rule=gate, holds=None, why="the run ended early")
    return ReviewRawOutput(
        question=state.question,
        findings=findings,
        reviewers={name: state.voices[name] for name in loop.names if name in state.voices},
        gate=result,
        coverage=coverage,
        uncompared_pairs=state.uncompared_pairs,
        empty={
            name: count
            for name in loop.names
            if (count := sum(raised.is_empty for raised in state.reports.get(name, ())))
        },
        transcript=reports_of(loop, state),
        **ending_of(ctx, status),
    )


MERGER = Role(name="merger", create=[create_merger], absent="if False")
REVIEW: PatternSpec[ReviewOptions] = PatternSpec(
    name="review",
    speaker=Role(name="reviewer", create=[create_reviewer], visibility=NOT_KEPT),
    roles=[MERGER],
    constraints=[quorum_of("reviewers")],
    input_type=ReviewInput,
    new_state=lambda _: ReviewState(),
    make_output=raw_output,
    failures=SKIP,
    create_transcript=create_review_transcript,
    roster="reviewers",
    prompt_options=(),
    min_speakers=1,
)
"""Specification of the review pattern, with three fixed rounds: finding, examining and answering."""
