"""`council()`: checks its options before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from flowdebate._util.validation import check_count, suggesting
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.anonymity.anonymity import Anonymity, named_models
from flowdebate.patterns.council.assembly import COUNCIL, assemble
from flowdebate.patterns.roles import CommonKeywords, RoleOptions
from flowdebate.patterns.rounds import check_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.council.member import CouncilMemberTemplate
    from flowdebate.patterns.council.schemas import CouncilOutput, CouncilTranscript, ReviewScope
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import FailurePolicy
    from flowdebate.prompts.template import Length, Profile


OutT = TypeVar("OutT")


class CouncilKeywords(CommonKeywords, total=False):
    """The options of `council` that say nothing about the type of its output; their meaning is there."""

    chair: BlockLike | RoleOptions | None
    review: ReviewScope | Literal[False]
    max_concurrency: int | None
    transcript: CouncilTranscript | None
    template: CouncilMemberTemplate | None
    hide_names: bool
    member_visibility: Visibility | Mapping[str, bool] | None
    chair_visibility: Visibility | Mapping[str, bool] | None


@overload
def council(
    *,
    name: str,
    members: Sequence[Persona | Mapping[str, Any]],
    output_schema: None = None,
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, CouncilOutput]: ...


@overload
def council(
    *,
    name: str,
    members: Sequence[Persona | Mapping[str, Any]],
    output_schema: type[OutT],
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, OutT]: ...


@overload
def council(
    *,
    name: str,
    members: Sequence[Persona | Mapping[str, Any]],
    output_schema: Any,  # noqa: ANN401 - a JSON Schema, or a type form
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, Any]: ...


@suggesting
def council(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    members: Sequence[Persona | Mapping[str, Any]],
    chair: BlockLike | RoleOptions | None = None,
    review: ReviewScope | Literal[False] = "others",
    max_concurrency: int | None = None,
    output_schema: Any = None,
    transcript: CouncilTranscript | None = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    profile: Profile | None = None,
    length: Length | None = None,
    template: CouncilMemberTemplate | None = None,
    hide_names: bool = True,
    member_visibility: Visibility | Mapping[str, bool] | None = None,
    chair_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, Any]:
    """Build a council, a block whose members answer independently and review each other, and whose chair answers.

    All members answer at the same time and see nothing of each other. Then each ranks the others' answers, which it
    sees under letters, in an order that is balanced over the reviewers. The reviews give a ranking (mean rank, Borda,
    Kendall's W). The chair sees all of it, under letters as well, and writes the answer. That takes 2N + 1 calls for N
    members. The form is that of the llm-council project; order and self-preference are controlled here.

    - `members`: at least two `Persona`s, or dicts with `name` and optionally `role`, `system_prompt`, `model`, `block`.
      A member's `block` forms its opinion from a `CouncilInput` and its review from a `ReviewAsked`.
    - `chair`: None is the default, which `SynthesizerOptions` configure; else a block or a function of `(input, ctx)`
      or `(input)` with a `ChairAsked`.
    - `review`: "others"; "all" lets members rank their own answer too, which measures self-preference; False leaves
      the reviews out (N + 1 calls).
    - `max_concurrency`: how many opinions, or reviews, may be in progress at once; None for all.
    - `output_schema`: what the chair returns, and the run's output; without one the output is the `CouncilOutput`.
    - `hide_names`: whether names of members and models in answers are replaced by aliases for reviewers and chair.
    - `failures`: what to do when a provider fails for good (default: fail). With "skip" or `StandIn(model)`, `quorum`
      counts opinions; a member without an opinion does not review; without a chair the answer is None.
    - `profile`: default prompts for small models ("concise") or for others ("full"); None: as each model asks for.
      `length` of a turn: "short", "medium", "long" or a number of words; None: short with concise prompts, medium with
      full ones. `template`: the texts of the members' prompts, in place of the profile's.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the visibilities reach the default blocks only.

    Raises `ConfigurationError` for invalid options, before anything is built.

    >>> from flowdebate.testing import FunctionModel
    >>> def reply(request):
    ...     if "-reviewer-" in request.block:
    ...         letters = [c for c in "ABC" if f"[Answer {c}]" in request.messages[-1]["content"]]
    ...         return {"ranking": [{"answer": letter, "reason": "Sound."} for letter in letters]}
    ...     return {"answer": "Wait a week."} if request.block.endswith("-chair") else f"{request.block}: wait."
    >>> ship = council(name="ship", members=[{"name": "ann"}, {"name": "bea"}, {"name": "cid"}])
    >>> result = ship.run_sync("Should we ship today?", model=FunctionModel(reply))
    >>> result.output.answer, result.usage.calls, len(result.output.ranking)
    ('Wait a week.', 7, 3)
    """
    loop = check_options(COUNCIL, locals(), max_rounds=2 if review else 1)
    if review not in ("others", "all", False):
        raise ConfigurationError(loop.where, "review", review, '"others", "all" or False')
    if max_concurrency is not None:
        check_count(loop.where, max_concurrency=max_concurrency)
    return assemble(
        loop, Anonymity(names=tuple(loop.names), models=named_models(model, loop.roster)) if hide_names else None
    )
