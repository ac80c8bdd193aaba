"""The patterns whose runs are stored, the model that spoke in them, and what was done to each run."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any

from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    Persona,
    StandIn,
    consensus,
    council,
    create_debate_transcript,
    create_moderator,
    debate,
    deliberation,
    handoff,
    human,
    review,
    round_robin,
)
from flowdebate.errors import ProviderFailed
from flowdebate.measures import Jaccard
from flowdebate.models import Usage
from flowdebate.testing import FunctionModel, ModelResponse, ToolCall

from . import former

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.resources.archive import Archive
    from flowdebate.testing import ModelRequest

SKIP = FailurePolicy(on_failure="skip")
ALONE = FailurePolicy(on_failure="skip", quorum=1)

QUESTION = "How can rents be affordable?\nThe city has no money."
_NAMES = ("ann", "bob", "cy")
_SOURCES = {"report": "In May 2024 rents rose by 15 per cent in the inner city. Nobody built homes there."}
_LINES = (
    "Rents rise since homes are missing, and only new homes change that.",
    "A cap helps those who live here now; it costs the city nothing.",
    "As ann said, nobody builds where nothing is earned.",
    "The report says that “rents rose by 15 per cent in the inner city”.",
    "Vienna owns its homes, and lets them for half of what others ask.",
)
_SAID = {
    "reasoning": "One side has numbers, and nobody answered them.",
    "verdict": "Build homes first, and cap rents until they stand.",
    "briefing": "Rents rose by 15 per cent.",
    "new_angle": "Who pays for it?",
    "summary": "They agree on homes, and differ on a cap.",
    "decision": "Build homes.",
    "proposal": "Build homes on land of the city",
    "position": "build",
    "notes": "Give numbers.",
    "response": "Homes first, then a cap",
}


# The model


def answer(request: ModelRequest) -> Any:
    """An answer that is drawn from the request alone: text, data that fits the schema, or a call of a tool."""
    told = json.dumps([request.block, request.messages], default=str)
    draw = Random(sha256(told.encode()).hexdigest())
    usage = Usage(calls=1, prompt_tokens=len(told) // 4, cached_tokens=0, completion_tokens=20)
    if request.tools and not any(message["role"] == "tool" for message in request.messages):
        call = ToolCall(id="call-1", name=request.tools[0].name, arguments='{"topic": "rents"}')
        return ModelResponse(tool_calls=(call,), finish="tool_calls", usage=usage)
    schema = request.output_schema
    if schema is None:
        return ModelResponse(text=f"{draw.choice(_LINES)} That is point {draw.randrange(1000)}.", usage=usage)
    data = _filled("", schema, schema.get("$defs", {}), draw)
    for what in {"verdicts", "answers"} & data.keys():  # of a review, on each finding that is shown
        shown = re.findall(r"^\[(F\d+)\]", str(request.messages[-1]["content"]), re.MULTILINE)
        part = schema["properties"][what]["items"]
        data[what] = [{**_filled("", part, schema.get("$defs", {}), draw), "finding": each} for each in shown]
    return ModelResponse(data=data, usage=usage)


def _filled(name: str, schema: Any, known: Any, draw: Random) -> Any:
    """Data that fits the schema of the field `name`; the first of several that it may fit."""
    if "$ref" in schema:
        return _filled(name, known[schema["$ref"].rpartition("/")[2]], known, draw)
    for choices in ("anyOf", "oneOf", "allOf"):
        if choices in schema:
            return _filled(name, schema[choices][0], known, draw)
    kind = schema.get("type", "object")
    if name == "ranking":
        return _ranked(schema, known, draw)
    if kind == "object":
        return {key: _filled(key, part, known, draw) for key, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_filled(name, schema.get("items", {"type": "string"}), known, draw)]
    return _plain(name, schema, draw)


def _ranked(schema: Any, known: Any, draw: Random) -> Any:
    """All the letters that a review of a council ranks, in an order that is drawn."""
    items = schema["items"]
    ranked = known[items["$ref"].rpartition("/")[2]] if "$ref" in items else items
    answer = ranked["properties"]["answer"]
    letters = answer.get("enum", [answer.get("const")])
    return [{"answer": letter, "reason": draw.choice(_LINES)} for letter in draw.sample(letters, len(letters))]


def _plain(name: str, schema: Any, draw: Random) -> Any:  # noqa: PLR0911 - one for each kind
    if "const" in schema or "enum" in schema:
        return draw.choice(schema.get("enum", [schema.get("const")]))
    match schema["type"]:
        case "boolean":
            return draw.random() < 0.2
        case "integer" | "number":
            low = schema.get("minimum", 0)
            return draw.randint(int(low), int(min(schema.get("maximum", low + 1), low + 10)))
        case _ if name in ("finding", "file"):
            return {"finding": "F1", "file": "report"}[name]
        case _ if name == "quote":
            return draw.choice(("rents rose by 15 per cent", "nobody builds"))
        case _ if name in ("next_agent_name", "choice"):
            return draw.choice((*_NAMES, "bob", "nobody"))
        case _:
            return f"{_SAID.get(name, 'No number is given')} ({draw.randrange(1000)})."


@dataclass(eq=False)
class Speaker:
    """A model that counts what it is asked, fails at what is `lost`, and has the run cancelled at call `cut`."""

    lost: tuple[str, ...] = ()
    """What stands in "MODEL BLOCK PROMPT" of a call that fails; several parts with " & " in between."""
    cut: int | None = None
    archive: Archive | None = None
    """What debates of `consensus-archive` know of earlier ones."""
    asked: list[ModelRequest] = field(default_factory=list)
    task: asyncio.Task[Any] | None = None

    def model(self, name: str = "stored") -> FunctionModel:
        """It as a model."""
        return FunctionModel(partial(self._answer, name), name=name)

    async def _answer(self, name: str, request: ModelRequest) -> Any:
        if len(self.asked) == self.cut:
            assert self.task is not None
            self.task.cancel()
            await asyncio.Event().wait()
        self.asked.append(request)
        told = f"{name} {request.block} {request.messages[-1]['content']}"
        if any(all(part in told for part in lost.split(" & ")) for lost in self.lost):
            raise ProviderFailed("the server is on fire", status=503)
        return answer(request)


# The patterns


def look_up(topic: str) -> str:
    """Look a topic up in the report."""
    return f"On {topic}: {_SOURCES['report']}"


def _sides() -> list[Debater]:
    return [Debater("ann", "build homes"), Debater("bob", "cap rents")]


def _people(*seated: str) -> list[Persona]:
    return [
        Persona(name, role="expert", system_prompt="You want a city that works.", block=_block_of(name, seated))
        for name in _NAMES
    ]


def _block_of(name: str, seated: tuple[str, ...]) -> Any:
    return human(name=name) if name in seated else None


def _moderated(_: Speaker, *, template: Any = None, moderator: Any = None, synthesizer: Any = None) -> Any:
    transcript = create_debate_transcript()
    chair = create_moderator(
        name="rent",
        roster_names=["ann", "bob"],
        transcript=transcript,
        max_rounds=2,
        tools=[look_up],
        template=moderator,
    )
    return debate(
        name="rent",
        debaters=_sides(),
        moderator=chair,
        transcript=transcript,
        max_rounds=2,
        failures=SKIP,
        template=template,
        synthesizer=synthesizer,
    )


def _judged(judge: Any, *, template: Any = None, **_: Any) -> Any:
    return debate(
        name="rent",
        debaters=_sides(),
        judge=judge,
        max_rounds=1,
        synthesizer=False,
        failures=SKIP,
        template=template,
    )


def _panel(spoken: Speaker) -> JudgeOptions:
    models = [spoken.model("judge-one"), spoken.model("judge-two")]
    return JudgeOptions(models=models, schedule="swap", labels=True, quorum=1, decided_by="vote")


def _sourced(_: Speaker, *, template: Any = None, **__: Any) -> Any:
    return debate(
        name="rent",
        debaters=_sides(),
        max_rounds=1,
        sources=_SOURCES,
        baselines=True,
        hide_names=True,
        failures=SKIP,
        synthesizer=False,
        template=template,
    )


def _standing_in(spoken: Speaker, **texts: Any) -> Any:
    policy = FailurePolicy(on_failure=StandIn(spoken.model("stand-in")))
    return handoff(
        name="talk",
        debaters=_people(),
        max_turns=4,
        failures=policy,
        **texts,
    )


def _agreed(*seated: str, **options: Any) -> Any:
    return consensus(name="plan", agents=_people(*seated), similarity=Jaccard(), **options)


PATTERNS: dict[str, Callable[..., Any]] = {
    "debate": lambda _, **texts: debate(name="rent", debaters=_sides(), max_rounds=2, failures=ALONE, **texts),
    "debate-strict": lambda _, **texts: debate(name="rent", debaters=_sides(), max_rounds=2, **texts),
    "debate-moderated": _moderated,
    "debate-swap": lambda _, **texts: _judged("swap", **texts),
    "debate-panel": lambda spoken, **texts: _judged(_panel(spoken), **texts),
    "debate-sources": _sourced,
    "debate-human": lambda _, **texts: _judged(human(name="jo"), **texts),
    "debate-flip": lambda _, **texts: _judged(JudgeOptions(schedule="swap", on_flip="human"), **texts),
    "deliberation": lambda _, **texts: deliberation(
        name="deal", debaters=_people(), max_rounds=2, failures=SKIP, **texts
    ),
    "deliberation-human": lambda _, **texts: deliberation(name="deal", debaters=_people("bob"), max_rounds=1, **texts),
    "handoff": lambda _, **texts: handoff(name="talk", debaters=_people(), max_turns=4, failures=SKIP, **texts),
    "handoff-stand-in": _standing_in,
    "handoff-human": lambda _, **texts: handoff(name="talk", debaters=_people("ann"), max_turns=2, **texts),
    "consensus": lambda _: _agreed(max_rounds=2),
    "consensus-archive": lambda spoken: _agreed(max_rounds=1, archive=spoken.archive),
    "consensus-human": lambda _: _agreed("bob", max_rounds=1),
    "round_robin": lambda _, **texts: round_robin(
        name="panel", debaters=_people(), max_rounds=2, failures=SKIP, **texts
    ),
    "round_robin-human": lambda _, **texts: round_robin(
        name="panel", debaters=_people(), referee=human(name="ref"), max_rounds=1, **texts
    ),
    "council": lambda _: council(name="city", members=_people(), failures=SKIP),
    "council-human": lambda _: council(name="city", members=_people("bob"), review="all", failures=SKIP),
    "review": lambda _: review(
        name="check", reviewers=_people(), sources=_SOURCES, focus="builders", gate="no finding", failures=SKIP
    ),
    "review-human": lambda _: review(name="check", reviewers=_people("bob"), sources=_SOURCES, failures=SKIP),
}


# The runs


@dataclass(frozen=True)
class Case:
    """A run of a pattern, and what was done to it."""

    pattern: str
    seed: int = 7
    lost: tuple[str, ...] = ()
    """Which calls fail, as `Speaker` has it."""
    cut: int | None = None
    """Before which call it was cancelled."""
    heals: bool = False
    """Whether nothing fails any more when it is resumed."""
    now: bool = False
    """Whether it was started with the texts of its edition, and not with those of the first one as an application's."""

    def speaker(self, *, later: bool = False) -> Speaker:
        """The model that speaks in it: when it was started, or `later`, when it is resumed."""
        return Speaker(lost=() if later and self.heals else self.lost, cut=None if later else self.cut)

    def made(self, spoken: Speaker) -> Any:
        """Its pattern, with the texts that it had when the run was started."""
        known = {} if self.now else former.TEXTS
        texts = known.get(self.pattern) or known.get(self.pattern.split("-")[0], {})
        return PATTERNS[self.pattern](spoken, **texts)


WHOLE = (
    *("debate", "debate-moderated", "debate-swap", "debate-panel", "debate-sources"),
    *("deliberation", "handoff", "consensus", "round_robin"),
)
"""The patterns of which there is a complete, a degraded and an interrupted run."""
_LOST: dict[str, tuple[str, ...]] = {
    "debate": ("rent-debater-bob & round 2",),
    "debate-moderated": ("rent-moderator",),
    "debate-swap": ("rent-judge",),
    "debate-panel": ("judge-two",),
    "debate-sources": ("rent-baselines",),
    "deliberation": ("deal-debater-bob",),
    "handoff": ("stored talk-speaker-bob",),
    "consensus": ("plan-propose-bob", "plan-vote-ann"),
    "round_robin": ("panel-panelist-bob",),
}
CUTS = {
    "debate": 3,
    "debate-moderated": 4,
    "debate-swap": 3,
    "debate-panel": 4,
    "debate-sources": 4,
    "deliberation": 5,
    "handoff": 2,
    "consensus": 11,
    "round_robin": 4,
}
CASES: dict[str, Case] = {
    **{f"{name}-complete": Case(name) for name in WHOLE},
    **{f"{name}-degraded": Case(name, lost=_LOST[name]) for name in WHOLE},
    **{f"{name}-interrupted": Case(name, cut=CUTS[name]) for name in WHOLE},
    "handoff-stand-in-degraded": Case("handoff-stand-in", lost=("stored talk-speaker-bob",)),
    "consensus-archive-first": Case("consensus-archive"),
    "consensus-archive-second": Case("consensus-archive", seed=8),
    "debate-strict-complete": Case("debate-strict"),
    "debate-failed": Case("debate-strict", lost=("rent-debater-bob & round 2",), heals=True),
    "debate-human-awaiting": Case("debate-human"),
    "debate-flip-awaiting": Case("debate-flip"),
    "deliberation-human-awaiting": Case("deliberation-human"),
    "handoff-human-awaiting": Case("handoff-human"),
    "consensus-human-awaiting": Case("consensus-human"),
    "round_robin-human-awaiting": Case("round_robin-human"),
}
"""By the id of the run."""
LAST_CALLS = {
    "debate": 5,
    "debate-moderated": 5,
    "debate-swap": 3,
    "debate-panel": 5,
    "debate-sources": 15,
    "deliberation": 3,
    "handoff": 3,
    "consensus": 23,
    "round_robin": 6,
    "council": 6,
}
SECOND: dict[str, Case] = {
    **{f"{name}-complete": Case(name, now=True) for name in LAST_CALLS},
    **{f"{name}-interrupted": Case(name, cut=cut, now=True) for name, cut in LAST_CALLS.items()},
    "council-degraded": Case("council", lost=("city-member-bob", "city-reviewer-ann"), now=True),
    "council-interrupted-review": Case("council", cut=4, now=True),
    "council-human-awaiting": Case("council-human", now=True),
}
"""By the id of the run, those of the second edition: of every pattern, interrupted before its last call."""
_SHORTENED = [name for name in LAST_CALLS if name not in ("consensus", "council")]
THIRD: dict[str, Case] = {
    **{name: case for name, case in SECOND.items() if case.pattern in _SHORTENED},
    "debate-sources-interrupted": Case("debate-sources", cut=13, now=True),
}
"""The same for the third edition: of the patterns whose prompts were shortened."""
FOURTH: dict[str, Case] = {
    "review-complete": Case("review", now=True),
    "review-interrupted": Case("review", cut=11, now=True),
    "review-interrupted-merging": Case("review", cut=4, now=True),
    "review-degraded": Case("review", lost=("check-reviewer-bob", "check-examiner-ann"), now=True),
    "review-human-awaiting": Case("review-human", now=True),
}
"""The same for the fourth edition: of reviews."""
FIFTH: dict[str, Case] = {
    **{name: case for name, case in THIRD.items() if case.pattern.startswith("debate")},
    "debate-sources-interrupted": Case("debate-sources", cut=12, now=True),
}
"""The same for the fifth edition: of debates, whose prompts were shortened again."""


def said_by_human(block: str, place: str, schema: Any) -> Any:
    """What a person answers, drawn from who is asked and where."""
    if schema is None:
        return f"I, {block}, say build homes."
    return _filled("", schema, schema.get("$defs", {}), Random(f"{block} {place}"))
