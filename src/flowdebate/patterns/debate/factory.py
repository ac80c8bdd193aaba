"""`debate()`: its options, checked before anything is built."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Required, TypeVar, Unpack, overload

from flowdebate._util.validation import suggesting
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.resolve import ModelChoice, of_intent
from flowdebate.patterns.anonymity.aliases import Anonymity, named_models
from flowdebate.patterns.debate.assembly import DEBATE, assemble
from flowdebate.patterns.debate.audience import check_audience
from flowdebate.patterns.debate.judging.options import JudgeOptions, as_judge_options
from flowdebate.patterns.debate.phases import Phase, PhaseLike, check_phases
from flowdebate.patterns.roles import ModeratorOptions, PatternKeywords, SynthesizerOptions
from flowdebate.patterns.roster import Debater, options_for_all, own_options
from flowdebate.patterns.spec import Loop, check_options

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.functions import BlockLike, Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model, ModelSettings
    from flowdebate.patterns.debate.debater import DebaterTemplate
    from flowdebate.patterns.debate.judging.views import ScheduleLike
    from flowdebate.patterns.debate.schemas import BaselineName, DebateRawOutput, Equal
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.patterns.formats import Format
    from flowdebate.patterns.history import History
    from flowdebate.patterns.material import Material
    from flowdebate.patterns.state import TurnOrder
    from flowdebate.patterns.turn import FailurePolicy
    from flowdebate.prompts import Length, Profile
    from flowdebate.sources.source import SourcesLike
    from flowdebate.stop import StopWhen


OutT = TypeVar("OutT")
DEFAULT_ROUNDS = 2
"""Rounds of a debate that says nothing else."""


class DebateKeywords(PatternKeywords, total=False):
    """The options of `debate` that say nothing about the type of its output; their meaning is there."""

    name: Required[str]
    debaters: Required[Sequence[Debater | Mapping[str, Any]]]
    judge: BlockLike | JudgeOptions | ScheduleLike | None
    moderator: BlockLike | ModeratorOptions | bool | None
    transcript: Transcript | None
    template: DebaterTemplate | None
    turn_order: TurnOrder
    phases: Sequence[PhaseLike] | None
    format: str | Format | None
    audience: Sequence[str] | None
    mirror: bool
    anonymize_transcript: bool
    shuffle_for_judge: bool
    hide_names: bool
    baselines: bool | Sequence[BaselineName]
    equal: Equal
    judge_visibility: Visibility | Mapping[str, bool] | None


@overload
def debate(
    *, synthesizer: Literal[False], output_schema: None = None, **options: Unpack[DebateKeywords]
) -> Sequencer[Any, DebateRawOutput]: ...


@overload
def debate(
    *,
    synthesizer: BlockLike | SynthesizerOptions | Literal[True] | None = None,
    output_schema: type[OutT],
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, OutT]: ...


@overload
def debate(
    *,
    synthesizer: SynthesizerOptions | Literal[True] | None = None,
    output_schema: None = None,
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, str]: ...


@overload
def debate(
    *, synthesizer: Block[Any, OutT], output_schema: None = None, **options: Unpack[DebateKeywords]
) -> Sequencer[Any, OutT]: ...


@overload
def debate(
    *,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    output_schema: Any = None,  # noqa: ANN401 - a JSON Schema, or a type form
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, Any]: ...


@suggesting
def debate(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    moderator: BlockLike | ModeratorOptions | bool | None = None,
    terminate_when: StopWhen | None = None,
    turn_order: TurnOrder = "declared",
    phases: Sequence[PhaseLike] | None = None,
    format: str | Format | None = None,  # noqa: A002 - the option's name
    audience: Sequence[str] | None = None,
    mirror: bool = False,
    transcript: Transcript | None = None,
    output_schema: Any = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    profile: Profile | None = None,
    length: Length | None = None,
    template: DebaterTemplate | None = None,
    anonymize_transcript: bool = True,
    shuffle_for_judge: bool = True,
    hide_names: bool = True,
    sources: SourcesLike | Material | None = None,
    source_tokens: int | None = None,
    history: History = "all",
    baselines: bool | Sequence[BaselineName] = False,
    equal: Equal = "tokens",
    judge_visibility: Visibility | Mapping[str, bool] | None = None,
    synthesizer_visibility: Visibility | Mapping[str, bool] | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, Any]:
    """Build a debate, a block that argues a question and decides it: `await pattern.run("Should we ship?")`.

    In each round every debater speaks once, in declared order. With a `moderator`, the debaters it picks when it opens
    the round speak instead. Later speakers see earlier arguments, unless `turn_order` lets all speak at once. The
    rounds end after `max_rounds`, or earlier if the moderator says `done` or `terminate_when(ctx)` returns true after a
    round. Then the judge reads the whole transcript once, and the synthesizer turns the result into the output.

    - `judge`, `synthesizer`, a debater's `block`: a block or a function of `(input, ctx)` or `(input)`; None is the
      default block. `synthesizer=False` returns the `DebateRawOutput` itself. `judge` also takes a schedule for the
      default judge ("swap", "cyclic", …), or `JudgeOptions` with all its options, such as the models of a panel of
      judges; `synthesizer` also takes `SynthesizerOptions`. What `create_judge()`, `create_synthesizer()` and the like
      are called without (name, stances, transcript, output schema), the debate fills in, with its options.
    - `moderator`: True or `ModeratorOptions` for the default moderator, a block or a function; None or False for none.
    - `turn_order`: "declared" (default); "rotated": each round begins with the next debater; "shuffled": drawn for each
      round from the run's seed; "simultaneous": all speak at once, and see the arguments of earlier rounds only. With a
      moderator it orders the debaters that it picks, "declared" as it names them. A debater who is picked twice speaks
      again once all others have spoken, if they speak at once.
    - `phases`: what the rounds are for, such as `[Phase("opening"), Phase("cross-examination", asks="pairs"),
      Phase("closing", length="short")]`; each is a `Phase`, its name, or a dict of its fields. The debate has as many
      rounds as its phases, and `max_rounds` is left out. In a cross-examination the transcript has questions and
      answers (`entry.kind`, `entry.to`), and `raw.cross_questions` pairs them. Debaters' blocks get a `DebateTurn`.
    - `format`: a `Format`, or the name of one ("oxford", "socratic", …): its phases, roles and audience.
    - `audience`: listeners, each a description such as "a nurse", who vote before and after the debate in place of a
      judge: the side that gains most wins. `raw.audience` has the votes; two calls for each listener.
    - `mirror`: the debate is held again with the order of speakers reversed in every round, and the verdict is that on
      both: all ballots count alike, and the judge's `on_flip` decides if they disagree. It costs twice as much.
    - `transcript`: pass one to share it with your own blocks; None creates one.
    - `model` reaches all blocks inside that name none; it is one model, or one by intent.
    - `profile`: default prompts for small models ("concise") or for others ("full"); None: as each model asks for.
      `length` of a turn: "short", "medium", "long" or a number of words; None: short with concise prompts, medium with
      full ones. `template`: the texts of the debaters' prompts, in place of the profile's.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the visibilities apply to all default blocks, and to no
      others; instructions take precedence over the rules of their prompts. By default the client sees the items of all
      blocks, and those of debaters are not added to the history.
    - `hide_names`: whether names of debaters and their models inside arguments are replaced by aliases in the prompts
      of the default debaters and of an anonymized judge; `raw.leaks` lists them.
    - `sources`: what the default debaters may quote: texts by name, or a list of paths of files and folders. Quotes in
      arguments are looked up, the default judge learns which were not found, and `raw.quotes` lists them all. Of more
      than `source_tokens` (None: a quarter of the model's context, or 32,000 where that is unknown), each turn is shown
      the best passages for the question and the last arguments: `raw.passages`.
    - `history`: "all", or `Window(rounds=2)`: prompts show the last rounds, and a summary of what is older (a call in
      each round), so that a long debate ends by its rounds, not by a full context. `raw.older` is the last summary.
    - `baselines`: what to compare the debate with once it has a verdict, in `raw.baselines`. True is a single call, a
      vote of first drafts, and a vote of as many answers as the debate's tokens pay for; or the names of some of these.
    - `equal`: what that last vote and a revision may use as much of as the debate: "tokens", "completion_tokens",
      "cost" (refused without `prices` in the limits of the run) or "calls".
    - `collection_id`: the id of the audit trail (default: `name`).
    - `failures`: a `FailurePolicy`. `on_failure` is "fail" (default: the run raises the error), "skip" or
      `StandIn(model)`. With the latter two, all debaters speak in declared order if the moderator fails, and the debate
      ends without a verdict if the judge fails (`result.status` is "no_verdict"); `raw.losses` lists every failure.
      With fewer stances than `quorum` (2) in a round with skipped turns, `QuorumLost` ends the debate. `turn_timeout`
      and `round_timeout` bound a role's call and a round's turns in seconds, tools and retries included; exceeding them
      counts as a provider failure. Exceptions from your own code are always raised. An invalid decision that the
      moderator's model cannot correct is always replaced by the declared order.

    The input is a question: a str, `{"question": str}` or a `DebateInput`. Invalid options raise `ConfigurationError`
    before anything is built. More than four rounds, and a judge that could recognize its own arguments by name, cause a
    `FlowDebateWarning`.

    >>> from flowdebate.testing import ScriptedModel
    >>> sides = [Debater("a", "cap rents"), Debater("b", "free rents")]
    >>> rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    >>> verdict = {"verdict": "Cap them.", "winner": "cap rents", "reasoning": "It answered every objection."}
    >>> result = rent.run_sync("Should rents be capped?", model=ScriptedModel("Homes first.", "Build more.", verdict))
    >>> result.output.rounds, result.output.verdict.winner
    (1, 'cap rents')
    """
    given, where = locals(), f"debate {name!r}"
    if format is not None:
        from flowdebate.patterns.formats import apply_format

        given = apply_format(given, pattern="debate", where=where, roster="debaters", kind=Debater)
        debaters, phases, audience = given["debaters"], given["phases"], given["audience"]
    asked = as_judge_options(judge, where=where)
    given["audience"] = check_audience(audience, where=where)
    if given["audience"] and judge is not None:
        raise ConfigurationError(where, "judge", judge, "left out with an audience, which decides")
    given["phases"] = check_phases(phases, where=where, members=len(debaters) if isinstance(debaters, Sized) else 0)
    rounds = check_rounds(max_rounds, given["phases"], where=where)
    loop = check_options(DEBATE, {**given, "max_rounds": rounds, "judge": judge if asked is None else None})
    roster, model = loop.roster, loop.given["model"]
    if (own := loop.models.get("judge")) is not None and (judge is None or asked is not None):
        asked = JudgeOptions(model=own) if asked is None else replace(asked, model=asked.model or own)
    check_mirror(mirror, turn_order, where=where)
    ours = [judge if asked is None else None, *(debater.block for debater in roster)]
    reads = hasattr(judge, "reading_blind") or any(own_options(block) is not None for block in ours)
    hidden = hide_names and reads  # by somebody whom the debate shows its transcript
    anonymity = None
    if hidden:
        # an argument may give away its author by any of these: the debaters' names, and those of all models
        chosen = [debater.options.model for debater in roster if debater.options is not None]
        chosen += [] if asked is None else [asked.model, *asked.models]
        names, stances = ([getattr(each, part) for each in roster] for part in ("name", "stance"))
        models = named_models(model, roster, *chosen)
        anonymity = Anonymity(names=tuple(names), models=models, stances=tuple(stances))
    loop = loop.with_given(
        judge=asked or (JudgeOptions() if judge is None else judge),
        anonymity=anonymity,
    )
    pipeline = _assembled(loop)
    if asked is not None:
        judges = asked.models or ([] if asked.model is None else [asked.model])
        warn_of_kin(where, judges, roster, model=model)
    if (judge is None or asked is not None) and not anonymize_transcript:
        warn_of_named_judge(where, roster, model=model, judge=None if asked is None else asked.model)
    if baselines is False and equal == "tokens":
        return pipeline
    from flowdebate.patterns.debate.baselines import add_baselines

    options: Any = options_for_all(given)
    return add_baselines(pipeline, roster, baselines=baselines, equal=equal, model=model, options=options)


def _assembled(loop: Loop) -> Sequencer[Any, Any]:
    """The debate, which can go on once it is over."""
    pipeline = assemble(loop)
    pipeline.keeps = None if loop.goes_on is None else "/round["  # part of the places of all that is said in rounds
    pipeline.lengthen = lambda more: _assembled(replace(loop, max_rounds=more.held + more.rounds, goes_on=more))
    return pipeline


def check_rounds(max_rounds: int, phases: Sequence[Phase], *, where: str) -> int:
    """The most rounds: those of the phases, if there are any; ConfigurationError for another number beside them."""
    total = sum(phase.rounds for phase in phases)
    if phases and max_rounds not in (DEFAULT_ROUNDS, total):
        allowed = f"left out with phases, which have {total} rounds"
        raise ConfigurationError(where, "max_rounds", max_rounds, allowed)
    return total if phases else max_rounds


def check_mirror(mirror: object, turn_order: object, *, where: str) -> None:
    """ConfigurationError for what is no bool, and for the mirror of a debate in which all speak at once."""
    if not isinstance(mirror, bool):
        raise ConfigurationError(where, "mirror", mirror, "True or False")
    if mirror and turn_order == "simultaneous":
        allowed = "False with turn_order='simultaneous': nobody has the last word, and there is no order to reverse"
        raise ConfigurationError(where, "mirror", mirror, allowed)


def warn_of_kin(where: str, judges: Sequence[Model | str], roster: Sequence[Debater], *, model: ModelChoice) -> None:
    """Warn of judges that were chosen, and are of the family of a debater."""
    from flowdebate.patterns.anonymity.model_families import kin_among

    default = of_intent(model, "chat")
    argued = [debater.model or default for debater in roster if debater.block is None]
    names = [[known if isinstance(known, str) else known.name for known in some if known] for some in (judges, argued)]
    kin = kin_among(*names)
    if kin:
        told = ", ".join(f"{judge!r} judges, {debater!r} argues" for judge, debater in kin)
        warnings.warn(
            f"{where}: a judge is of the family of a debater ({told}): it may favour what reads like its own; choose "
            "judges of other families",
            FlowDebateWarning,
            stacklevel=4,
        )


def warn_of_named_judge(
    where: str, roster: Sequence[Debater], *, model: ModelChoice, judge: Model | str | None
) -> None:
    """Warn of a default judge that is shown names and shares a model with a debater."""
    default, judges = of_intent(model, "chat"), judge or of_intent(model, "synthesize")
    same = [each.name for each in roster if each.block is None and (each.model or default) == judges]
    if same:
        warnings.warn(
            f"{where}: anonymize_transcript=False while the default judge shares a model with "
            f"{', '.join(map(repr, same))}: a judge favours what it knows as its own; keep anonymize_transcript=True, "
            "or give the judge another model (judge=JudgeOptions(model=...))",
            FlowDebateWarning,
            stacklevel=4,
        )
