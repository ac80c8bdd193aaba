"""`ModelCheck`: short calls that test how a model at an endpoint handles requests, answers and roles.

The check makes ordinary calls, one for each kind of request and each role, and reports everything that the model layer
learned, repaired or flagged.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from flowdebate._text import counted, one_line
from flowdebate.errors import (
    BadAnswer,
    FlowDebateError,
    FlowDebateWarning,
    LimitReached,
    LostToThinking,
    ModelError,
    QuorumLost,
)
from flowdebate.models.base import (
    Attempt,
    Attempts,
    Message,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolSpec,
    total_usage,
)
from flowdebate.models.call import Retry, ask
from flowdebate.models.openai.endpoint import Exchange, is_refusal, record_exchanges
from flowdebate.models.openai.optional import Learned
from flowdebate.models.output import OutputSchema
from flowdebate.models.providers import STRUCTURED_MODES, StructuredMode
from flowdebate.models.recording import RecordingModel
from flowdebate.models.wrapper import PerRequestWrapper, Wrapper
from flowdebate.patterns import find_pattern
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.runs.limits import Limits

MAX_REQUESTS = 60
"""Maximum number of requests in a check, including rejected requests and retries."""
USUAL_CALLS = 22
"""Number of calls in a check if the model supports everything."""

Group: TypeAlias = Literal["request", "structured answers", "answers", "roles"]
Outcome: TypeAlias = Literal["works", "differs", "refused", "fails"]
"""Outcome shown in a row: as requested, usable after a repair or in another form, rejected by the server,
or unusable.
"""
Status: TypeAlias = Literal["running", "complete", "failed", "limit", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """Row of the results table: a probe, its outcome, and a description of the evidence."""

    group: Group
    name: str
    outcome: Outcome
    detail: str = ""


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call made by the check, and its answer or error."""

    place: str
    """Name of the probe, or the names of the pattern and the role."""
    attempts: Sequence[Attempt]
    exchanges: Sequence[Exchange]
    response: ModelResponse | None = None
    error: FlowDebateError | None = None


class _Choice(BaseModel):
    """Answer to the question of which author wrote the argument."""

    reasoning: str
    winner: Literal["Ada Lovelace", "Blaise Pascal"]
    confidence: float


_NAMES = ("Ada Lovelace", "Blaise Pascal")
_SYSTEM: Message = {"role": "system", "content": "You answer in one short sentence."}
_HISTORY: Sequence[Message] = (
    {"role": "system", "content": "You are Ada Lovelace. You answer in one short sentence."},
    {"role": "user", "content": "Blaise Pascal: Buses are cheaper."},
    {"role": "assistant", "content": "Trams carry more people."},
    {"role": "user", "content": "Blaise Pascal: Rails are expensive."},
    {"role": "user", "content": "Answer him."},
)
_CHOICE: Sequence[Message] = (
    {"role": "system", "content": "You judge arguments. Your reasoning is one short sentence."},
    {
        "role": "user",
        "content": "Ada Lovelace: Trams are quieter.\nBlaise Pascal: Buses are cheaper.\n\n"
        "Whose argument is about noise? Say how confident you are, from 0 to 1.",
    },
)
_TOOL = ToolSpec(
    name="look_up",
    description="Look up a number in the timetable.",
    parameters={"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]},
)
_SETTINGS = ModelSettings(timeout=120.0)
_FILE = {"mean.py": "def mean(total, count):\n    return total / count\n\n\nprint(mean(3, 0))\n"}


@dataclass(frozen=True, slots=True)
class _Part:
    """Optional part of a request."""

    title: str
    key: str
    """Name under which the part is listed if it is omitted."""
    is_in: Callable[[dict[str, Any]], bool]
    """Predicate that detects the part in a request body."""
    advice: str = ""
    """Advice for users whose model rejects the part; blank if no setting controls it."""


def _names(*fields: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: not body.keys().isdisjoint(fields)


_NO_TOOLS = "Do not pass tools= to agents that use this model."
_NO_LETTERS = "Do not use --answer-form letter: without log-probabilities, the judge uses another answer form."
_NO_LOGPROBS = "the server returns no log-probabilities"
_PARTS = (
    _Part("streaming", "stream", lambda body: bool(body.get("stream"))),
    _Part("stream options", "stream_options", _names("stream_options")),
    _Part("temperature", "temperature", _names("temperature"), "Do not set temperature in ModelSettings."),
    _Part(
        "token limit",
        "max_tokens",
        _names("max_tokens", "max_completion_tokens"),
        "Do not set max_tokens in ModelSettings.",
    ),
    _Part("system message", "system message", lambda body: "system" in body or "system" in _roles(body)),
    _Part("neighbors of one role", "neighbors of one role", lambda body: _has_neighbours(_roles(body))),
    _Part(
        "effort",
        "effort",
        _names("reasoning_effort", "reasoning", "output_config", "thinking"),
        "Do not set --effort, or effort in ModelSettings.",
    ),
    _Part("tools", "tools", lambda body: "tools" in body and _leaves_choice(body), _NO_TOOLS),
    _Part("log-probabilities", "logprobs", _names("logprobs"), _NO_LETTERS),
)
_ANSWERS = (("answer", "a whole answer"), ("stream", "a streamed answer"), ("history", "a debate so far"))
_LIMIT_NAME = "name of the limit"
_FINISH = re.compile(rb'"(?:finish_reason|stop_reason)"\s*:\s*"([^"\\]{1,40})"')
_JUDGE = "judge in both orders"
_FLIPPED = "another winner in the other order"


@dataclass(frozen=True, slots=True)
class _Role:
    """Role played by the model during the check."""

    title: str
    pattern: str
    role: str
    """Name of the role as recorded with model calls."""
    seat: str
    """Key for the role in `--model SEAT=SPEC`."""


_ROLES = (
    _Role("debater", "debate", "debater", "debater"),
    _Role("moderator", "debate", "moderator", "moderator"),
    _Role(_JUDGE, "debate", "judge", "judge"),
    _Role("synthesizer", "debate", "synthesizer", "synthesizer"),
    _Role("council member", "council", "debater", "member"),
    _Role("ranking of answers", "council", "reviewer", "member"),
    _Role("chair", "council", "chair", "chair"),
    _Role("code reviewer", "review", "reviewer", "reviewer"),
)
_USABLE = ("works", "differs")


def _roles(body: dict[str, Any]) -> list[str]:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return []
    return [str(message.get("role")) for message in messages if isinstance(message, dict)]


def _leaves_choice(body: dict[str, Any]) -> bool:
    """Return whether the request `body` lets the model decide whether to call tools."""
    choice = body.get("tool_choice", "auto")
    return choice == "auto" or (isinstance(choice, dict) and choice.get("type") == "auto")


def _has_neighbours(roles: Sequence[str]) -> bool:
    return any(one == two for one, two in pairwise(roles))


@dataclass(slots=True)
class _Budget:
    """Counter for the calls made outside of runs."""

    used: int = 0

    def reserve(self, model: str, request: ModelRequest) -> object:
        del model, request
        if self.used >= MAX_REQUESTS:
            raise LimitReached("calls", limit=MAX_REQUESTS, used=self.used)
        self.used += 1
        return None

    def settle(self, reserved: object, attempt: Attempt) -> None:
        del reserved, attempt

    def release(self, reserved: object) -> None:
        del reserved
        self.used -= 1


class _Patient(PerRequestWrapper):
    """Model wrapper that retries endpoint failures, but not invalid answers."""

    @property
    def retry(self) -> Retry:
        return Retry(on=lambda error: error.transient and not isinstance(error, BadAnswer))


class _Watched(Wrapper):
    """Model wrapper that records each call made by a pattern during the check."""

    def __init__(self, inner: Model, check: ModelCheck, pattern: str) -> None:
        super().__init__(inner)
        self._check = check
        self._pattern = pattern

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the wrapped model's answer and record the call."""
        return await self._check.note(f"{self._pattern} {request.role}", request, self.ask)


@dataclass(slots=True)
class ModelCheck:
    """A check of `model`; `async for step in check.run()` makes the calls, yielding each title before its step begins.

    `rows()`, `advice()` and `as_dict()` report the results so far, even after an interruption.
    """

    model: Model
    record: str | None = None
    """Path of the file in which to record all calls and their HTTP exchanges; None to record nothing."""
    status: Status = "running"
    error: str | None = None
    """Reason why the check ended early; None if it completed."""
    _calls: list[_Call] = field(default_factory=list)
    _budget: _Budget = field(default_factory=_Budget)
    _raw: dict[str, Any] = field(default_factory=dict)
    """The patterns' raw outputs, keyed by pattern name."""
    _recorded: Model = field(init=False)
    _learned: Learned = field(init=False)
    _began: float = field(default_factory=time.perf_counter)
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self._learned = getattr(self.model, "learned", None) or Learned()
        self._recorded = self.model
        if self.record is not None:
            self._recorded = RecordingModel(self.model, self.record, exchanges=True)

    async def run(self) -> AsyncIterator[str]:
        """Make the calls, yielding each step's title before the step begins."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlowDebateWarning)  # the report's rows describe the same problem
            try:
                async for step in self._steps():
                    yield step
            except LimitReached as error:
                self.status, self.error = "limit", str(error)
            except asyncio.CancelledError:
                self.status = "interrupted"
                raise
            finally:
                self._seconds = time.perf_counter() - self._began
        if self.status == "running":
            self.status = "complete"

    async def _steps(self) -> AsyncIterator[str]:
        yield "an answer"
        first = await self._ask("answer", [_SYSTEM, _user("Say: ready")])
        if first.error is not None and not isinstance(first.error, BadAnswer):
            self._fail(first.error)
            return
        yield "a streamed answer"
        streamed = await self._ask("stream", [_SYSTEM, _user("Name two kinds of public transport.")], stream=True)
        if first.error is not None and streamed.error is not None:
            self._fail(first.error)
            return
        # Request only a few optional parts at a time, because an unclear refusal may cause all of them to be removed.
        yield "a debate so far, with a temperature"
        await self._ask("history", _HISTORY, settings=replace(_SETTINGS, temperature=0.2))
        if getattr(self.model, "takes_effort", False):
            yield "an effort"
            await self._ask(
                "effort",
                [_SYSTEM, _user("Which is faster, a tram or a bus?")],
                settings=replace(_SETTINGS, effort="low"),
            )
        yield "a tool, with a limit of tokens"
        asks = _user("When does line 9 leave? Look it up with the tool.")
        await self._ask("tools", [_SYSTEM, asks], tools=(_TOOL,), settings=replace(_SETTINGS, max_tokens=2_000))
        async for step in self._try_modes():
            yield step
        if getattr(self.model, "gives_logprobs", True):
            yield "log-probabilities"
            await self._ask(
                "letters", [_user("Which one is a tram?\nA: a tram\nB: a bus\nLetter:")], choices=("A", "B")
            )
        for pattern in ("debate", "council", "review"):
            info = find_pattern(pattern)
            if info is not None:
                yield f"a {pattern}"
                await self._try_pattern(pattern, info.load_factory())

    def _fail(self, error: FlowDebateError) -> None:
        self.status, self.error = "failed", str(error)

    async def _try_modes(self) -> AsyncIterator[str]:
        """Request a structured answer in each of the model's modes, in order."""
        output = OutputSchema.of(_Choice)
        untried = 1
        for skipped in range(len(STRUCTURED_MODES)):
            if not untried:
                return
            yield f"a structured answer, {skipped + 1}"
            await self._ask("structured", _CHOICE, output=output, skipped_modes=skipped)
            untried = len(set(self._modes) - {attempt.asked_as for attempt in self._attempts("structured")})

    @property
    def _modes(self) -> Sequence[StructuredMode]:
        """The model's modes for structured answers; empty if the model lists none."""
        modes: Sequence[StructuredMode] = getattr(self.model, "structured_modes", ())
        return modes

    async def _try_pattern(self, name: str, build: Callable[..., Any]) -> None:
        """Run a short version of the pattern once, just as a user would."""
        remaining = MAX_REQUESTS - self._budget.used
        if remaining < 1:
            raise LimitReached("calls", limit=MAX_REQUESTS, used=self._budget.used)
        members = [{"name": member} for member in _NAMES]
        options: dict[str, dict[str, Any]] = {
            "debate": {
                "debaters": [
                    {"name": _NAMES[0], "stance": "trams are better"},
                    {"name": _NAMES[1], "stance": "buses are better"},
                ],
                "max_rounds": 1,
                "moderator": True,
                "judge": JudgeOptions(schedule="swap"),
            },
            # one call at a time, because a recording replays its answers in order
            "council": {"members": members, "max_concurrency": 1},
            "review": {"reviewers": members[:1], "merger": False, "sources": _FILE},
        }
        subject = "What is wrong?" if name == "review" else "Trams or buses? Use one sentence, please."
        sent = len(self._calls)
        block = build(name="check", settings=_SETTINGS, **options[name])
        handle = block.start(
            subject, model=_Watched(self._recorded, self, name), limits=Limits(calls=remaining), store=False, seed=1
        )
        try:
            async for _ in handle:  # speakers stream only if someone is listening
                pass
            self._raw[name] = (await handle).raw
        except (ModelError, QuorumLost):
            pass  # the recorded calls show the reason
        finally:
            self._budget.used += sum(len(call.attempts) for call in self._calls[sent:])

    async def _ask(
        self,
        place: str,
        messages: Sequence[Message],
        *,
        settings: ModelSettings = _SETTINGS,
        output: OutputSchema | None = None,
        tools: Sequence[ToolSpec] = (),
        choices: Sequence[str] = (),
        skipped_modes: int = 0,
        stream: bool = False,
    ) -> _Call:
        """Make one call; a failure is also recorded as a result."""
        request = ModelRequest(
            messages=list(messages),
            block=f"check {place}",
            output=output,
            tools=tools,
            choices=choices,
            settings=settings,
            skipped_modes=skipped_modes,
            on_text=(lambda _: None) if stream else None,
            attempts=Attempts(meter=self._budget, seed=place),
        )
        model = _Patient(self._recorded)
        with suppress(ModelError):
            await self.note(place, request, lambda request: ask(model, request))
        return self._calls[-1]

    async def note(
        self, place: str, request: ModelRequest, send: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Send `request`, and record its answer or its error."""
        before = len(request.attempts.made)
        with record_exchanges() as exchanges:
            try:
                response = await send(request)
            except FlowDebateError as error:
                attempts = request.attempts.made[before:]
                self._calls.append(_Call(place=place, attempts=attempts, exchanges=exchanges, error=error))
                raise
        attempts = request.attempts.made[before:]
        self._calls.append(_Call(place=place, attempts=attempts, exchanges=exchanges, response=response))
        return response

    # Report

    def rows(self) -> list[CheckRow]:
        """Return the rows recorded so far, in order."""
        return [
            *self._request_rows(),
            *self._mode_rows(),
            *self._answer_rows(),
            *self._oddity_rows(),
            *self._role_rows(),
        ]

    def _of(self, place: str) -> list[_Call]:
        return [call for call in self._calls if call.place == place]

    def _attempts(self, place: str) -> list[Attempt]:
        return [attempt for call in self._of(place) for attempt in call.attempts]

    def _request_rows(self) -> Iterator[CheckRow]:
        sent = [(_body_of(exchange.sent), _refuses(exchange)) for exchange in self._exchanges()]
        dropped = self._learned.dropped
        for part in _PARTS:
            if part.key == "stream_options" and "stream" in dropped:
                continue  # the row for streaming already reports that streaming was rejected
            refused = [refuses for body, refuses in sent if part.is_in(body)]
            if part.key in dropped or (refused and all(refused)):
                detail = self._refusal_of(part.is_in)
                yield CheckRow(group="request", name=part.title, outcome="refused", detail=detail)
            elif refused:
                detail = self._limit_name(sent) if part.key == "max_tokens" else ""
                yield CheckRow(group="request", name=part.title, outcome="works", detail=detail)
        for name in sorted(dropped - {part.key for part in _PARTS} - {_LIMIT_NAME}):
            yield CheckRow(group="request", name=name, outcome="refused", detail="left out")
        if self._learned.tools_apart:
            yield CheckRow(group="request", name="tools beside a schema", outcome="refused", detail="asked apart")

    def _limit_name(self, sent: Sequence[tuple[dict[str, Any], bool]]) -> str:
        """Name the token limit parameter accepted by the server, if the server rejects the other one.

        The result is "as max_tokens" or "as max_completion_tokens"; in all other cases, it is empty.
        """
        accepted = {name for body, refuses in sent if not refuses for name in body}
        name = next((name for name in ("max_tokens", "max_completion_tokens") if name in accepted), None)
        return f"as {name}" if name and _LIMIT_NAME in self._learned.dropped else ""

    def _refusal_of(self, is_in: Callable[[dict[str, Any]], bool]) -> str:
        """Return the server's first rejection of a request containing this part; empty if there is none."""
        for exchange in self._exchanges():
            if _refuses(exchange) and is_in(_body_of(exchange.sent)):
                return f"{exchange.status}: {_quote_message(exchange)}"
        return ""

    def _mode_rows(self) -> Iterator[CheckRow]:
        # If a model does not list its modes, use the modes that were requested.
        for mode in self._modes or dict.fromkeys(attempt.asked_as for attempt in self._attempts("structured")):
            row = CheckRow(group="structured answers", name=mode or "in its own way", outcome="works")
            sent = [
                (attempt, call)
                for call in self._of("structured")
                for attempt in call.attempts
                if attempt.asked_as == mode
            ]
            answers = [call.response for attempt, call in sent if attempt.error is None and call.response is not None]
            if answers:
                outcome, detail = _judge_choice(answers[0])
                yield replace(row, outcome=outcome, detail=detail)
            elif sent and sent[0][0].error == "RequestRejected":
                yield replace(row, outcome="refused", detail=self._refusal_of(partial(_requests_mode, mode)))
            elif sent:
                yield replace(row, outcome="fails", detail=_short_message(sent[0][1].error))

    def _answer_rows(self) -> Iterator[CheckRow]:
        for place, title in _ANSWERS:
            for call in self._of(place):
                outcome, detail = _outcome_of([call])
                yield CheckRow(group="answers", name=title, outcome=outcome, detail=detail)
        for name, place, problem in (
            ("a tool call", "tools", "it calls no tool"),
            ("letters", "letters", _NO_LOGPROBS),
        ):
            for call in self._of(place):
                if call.response is not None:
                    fine = bool(call.response.tool_calls or call.response.logprobs)
                    detail = "" if fine else problem
                    yield CheckRow(group="answers", name=name, outcome="works" if fine else "fails", detail=detail)
        if self._calls:
            yield from self._thinking()

    def _oddity_rows(self) -> Iterator[CheckRow]:
        """Summarize any unusual features of the answers."""
        reasons = Counter(
            reason.decode(errors="replace")
            for exchange in self._exchanges()
            if not _refuses(exchange)
            for reason in _FINISH.findall(exchange.received)
        )
        responses = self._responses
        flags = {flag for response in responses for flag in response.flags}
        if reasons:
            ending: Outcome = "differs" if "unknown_finish" in flags else "works"
            yield CheckRow(group="answers", name="finish reasons", outcome=ending, detail=_listed(reasons))
        if "other_model" in flags:
            names = ", ".join(dict.fromkeys(str(response.model) for response in responses if response.model))
            yield CheckRow(group="answers", name="model", outcome="differs", detail=f"it answers as {names}")
        if "usage_unknown" in flags:
            detail = "not reported with every answer"
            yield CheckRow(group="answers", name="tokens", outcome="differs", detail=detail)
        choices = [call.response.data for call in self._of("structured") if call.response is not None]
        if choices:
            right = sum(isinstance(data, _Choice) and data.winner == _NAMES[0] for data in choices)
            detail = f"the right one in {right} of {counted(len(choices), 'answer')}"
            naming: Outcome = "works" if right == len(choices) else "differs"
            yield CheckRow(group="answers", name="names of persons", outcome=naming, detail=detail)
        repairs = Counter(repair for response in responses for repair in response.repaired)
        if repairs:
            yield CheckRow(group="answers", name="repairs", outcome="differs", detail=_listed(repairs))

    @property
    def _responses(self) -> list[ModelResponse]:
        return [call.response for call in self._calls if call.response is not None]

    def _thinking(self) -> Iterator[CheckRow]:
        """Describe the model's thinking and where it appears in the answers."""
        flags = Counter(flag for response in self._responses for flag in response.flags)
        lost = sum(isinstance(call.error, LostToThinking) for call in self._calls)
        thought = sum(attempt.usage.reasoning_tokens or 0 for call in self._calls for attempt in call.attempts)
        details = []
        if aloud := flags["thought_aloud"]:
            opened = ", without an opening tag" if flags["thought_unannounced"] else ""
            details.append(f"aloud in {aloud} of {counted(len(self._responses), 'answer')}{opened}: removed")
        if lost:
            details.append(f"{counted(lost, 'answer')} lost to it")
        if thought:
            details.append(f"about {thought:,} tokens")
        outcome: Outcome = "fails" if lost else "differs" if aloud else "works"
        detail = "; ".join(details) or "none that the answers show"
        yield CheckRow(group="answers", name="thinking", outcome=outcome, detail=detail)

    def _role_rows(self) -> Iterator[CheckRow]:
        for role in _ROLES:
            calls = self._of(f"{role.pattern} {role.role}")
            if not calls:
                continue
            outcome, detail = _outcome_of(calls)
            if outcome != "fails" and role.title == _JUDGE:
                outcome, detail = self._judge_orders(outcome, detail)
            elif outcome != "fails" and role.title == "debater":
                outcome, detail = self._speech(calls, outcome, detail)
            yield CheckRow(group="roles", name=role.title, outcome=outcome, detail=detail)

    def _judge_orders(self, outcome: Outcome, detail: str) -> tuple[Outcome, str]:
        """Compare the judge's verdicts for the two orders of the sides."""
        verdict = getattr(self._raw.get("debate"), "verdict", None)
        if verdict is None or verdict.judging is None or len(verdict.judging.ballots) < len(_NAMES):
            return outcome, detail
        if verdict.judging.flipped:
            return "differs", _joined(detail, _FLIPPED)
        return outcome, _joined(
            detail, "the same winner in both orders" if verdict.winner else "a tie over both orders"
        )

    def _speech(self, calls: Sequence[_Call], outcome: Outcome, detail: str) -> tuple[Outcome, str]:
        """Compare the debaters' answers with the turns in the transcript."""
        raw = self._raw.get("debate")
        speeches = {entry.text.strip() for entry in raw.transcript} if raw is not None else set()
        written = {call.response.text.strip() for call in calls if call.response is not None}
        if raw is None or written == speeches:
            return outcome, detail
        addition = "it writes the other side's turn, too" if raw.cut_answers else "it writes its own name in front"
        return "differs", _joined(detail, f"{addition}: removed")

    def _exchanges(self) -> Iterator[Exchange]:
        for call in self._calls:
            yield from call.exchanges

    def advice(self) -> list[str]:
        """List recommendations for using this model, one sentence each; return [] if the defaults suit the model."""
        rows = {(row.group, row.name): row for row in self.rows()}
        outcomes = {place: row.outcome for place, row in rows.items()}
        advice = [part.advice for part in _PARTS if part.advice and outcomes.get(("request", part.title)) == "refused"]
        if outcomes.get(("answers", "letters")) == "fails":
            advice.append(_NO_LETTERS)
        if outcomes.get(("answers", "a tool call")) == "fails":
            advice.append(_NO_TOOLS)
        usable = [mode for mode in self._modes if outcomes.get(("structured answers", mode)) in _USABLE]
        if usable and usable[0] != self._modes[0]:
            advice.append(f'Set structured="{usable[0]}" in OpenAIModel(…), which saves the requests that are refused.')
        lost = {call.error.stopped for call in self._calls if isinstance(call.error, LostToThinking)}
        if False in lost:
            advice.append("Give it more room for its thinking: ModelSettings(max_tokens=16_000), or --effort low.")
        if True in lost:
            advice.append("Check the server's chat template and reasoning parser: it thinks, and then says nothing.")
        judge = rows.get(("roles", _JUDGE))
        if judge is not None and _FLIPPED in judge.detail:
            advice.append("Let it judge in both orders: --schedule swap.")
        seats = [role.seat for role in _ROLES if outcomes.get(("roles", role.title)) == "fails"]
        advice += [f"Give another model to the {seat}: --model {seat}=SPEC." for seat in seats]
        return list(dict.fromkeys(advice))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        attempts = [attempt for call in self._calls for attempt in call.attempts]
        return {
            "model": self.model.name,
            "status": self.status,
            "error": self.error,
            "calls": len(self._calls),
            "requests": len(attempts),
            "tokens": total_usage(attempts).total_tokens,
            "seconds": round(self._seconds or time.perf_counter() - self._began, 2),
            "rows": [asdict(row) for row in self.rows()],
            "advice": self.advice(),
            "record": self.record,
        }


def _refuses(exchange: Exchange) -> bool:
    return is_refusal(exchange.status, exchange.body)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _joined(*details: str) -> str:
    return "; ".join(detail for detail in details if detail)


def _body_of(sent: bytes) -> dict[str, Any]:
    try:
        body = json.loads(sent)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _requests_mode(mode: str | None, body: dict[str, Any]) -> bool:
    """Return whether `body` requests a structured answer in `mode`."""
    form = body.get("response_format") or body.get("output_config", {}).get("format")
    if form:
        return mode == ("json" if form.get("type") == "json_object" else "json_schema")
    return mode == ("md_json" if _leaves_choice(body) else "tools")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({number})" for name, number in counts.most_common())


def _quote_message(exchange: Exchange) -> str:
    """Return the server's message about a rejected request as one line, truncated if it is long."""
    text = exchange.body
    match = re.search(r'"(?:message|msg|detail|error)"\s*:\s*("(?:[^"\\]|\\.)*")', text)
    words = one_line(json.loads(match[1], strict=False) if match else text, secrets=exchange.secrets)
    return words if len(words) <= _MAX_MESSAGE_LENGTH else f"{words[: _MAX_MESSAGE_LENGTH - 1]}…"


_MAX_MESSAGE_LENGTH = 160


def _judge_choice(response: ModelResponse | None) -> tuple[Outcome, str]:
    """Return the outcome of asking the model who made the argument about noise, with any details."""
    data = None if response is None else response.data
    if response is None or not isinstance(data, _Choice):
        return "fails", "no data"
    if data.winner != _NAMES[0]:
        return "differs", f"it fits, but names {data.winner} instead of {_NAMES[0]}"
    return ("differs", f"repaired: {', '.join(response.repaired)}") if response.repaired else ("works", "")


def _outcome_of(calls: Sequence[_Call]) -> tuple[Outcome, str]:
    """Return the outcome of all calls of one kind, with details of any error, repairs or retries."""
    answers = [call for call in calls if call.response is not None]
    again = [
        attempt.error for call in calls for attempt in call.attempts if attempt.error not in (None, "RequestRejected")
    ]
    if len(answers) < len(calls):
        error = next(call.error for call in calls if call.error is not None)
        some = f"{len(answers)} of {len(calls)} answered; " if answers else ""
        return "fails", f"{some}{_short_message(error)}"
    repairs = Counter(repair for call in answers if call.response for repair in call.response.repaired)
    details = []
    if repairs:
        details.append(f"repaired: {', '.join(repairs)}")
    if again:
        details.append(f"retried after {', '.join(dict.fromkeys(map(str, again)))}")
    return ("differs" if details else "works"), "; ".join(details)


def _short_message(error: FlowDebateError | None) -> str:
    text = error.message if isinstance(error, ModelError) else str(error)
    return one_line(text)
