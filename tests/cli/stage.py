"""A server that stands in for a debate's models, and helpers that run the command in a separate process."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from flowdebate.models.providers import PROVIDERS
from tests.cli.emulator import render_screen
from tests.models.server import ChatServer, Exchange, chunk, completion, usage_chunk
from tests.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

MODELS = ("staged", "other", "ann-model", "bob-model")
"""Names of the models that a stage stands in for; any other model answers "fine"."""
COMMAND = "from flowdebate.cli import main; main()"
PATIENCE = 60.0
"""Timeout in seconds for a process."""


@dataclass(eq=False)
class Stage:
    """Server that answers requests in place of a debate's models.

    Turns come from `turns`, in order and in pieces; other answers follow the schema. Each pair in `hold` identifies a
    turn and a piece. The stage waits for `let_go()` before it sends that piece.
    """

    turns: Sequence[Sequence[str]] = (("Homes ", "first."), ("Build ", "more."))
    verdict: dict[str, Any] = field(
        default_factory=lambda: {"reasoning": "It answered.", "winner": None, "verdict": "Both are right."}
    )
    decision: dict[str, Any] = field(
        default_factory=lambda: {"nextSpeakers": ["pro", "con"], "briefing": "B.", "newAngle": "A?", "done": True}
    )
    output: Any = field(default_factory=lambda: {"answer": 42})
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Answers keyed by a word in the requested schema. A list is consumed in order, and a function is called."""
    letters: Callable[[str], Mapping[str, float]] | None = None
    """Function that returns the log-probability of each token for a prompt that requests a letter; None to
    omit them.
    """
    hold: tuple[int, int] | Sequence[tuple[int, int]] | None = None
    broken: Collection[int] = ()
    """Indexes of the requests answered with status 503."""
    cut_off: Collection[int] = ()
    """Indexes of the truncated turns."""
    refuse: Callable[[dict[str, Any]], tuple[int, Any] | None] = lambda _: None
    """Status and body with which all requests are rejected; None to answer them."""
    base_url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    _turn: int = 0
    _given: Counter[str] = field(default_factory=Counter)
    _asked: threading.Condition = field(default_factory=threading.Condition)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _gates: defaultdict[tuple[int, int], asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def _held(self) -> list[tuple[int, int]]:
        match self.hold:
            case None:
                return []
            case (int(turn), int(piece)):
                return [(turn, piece)]
            case several:
                return [(int(turn), int(piece)) for turn, piece in several]

    def let_go(self, *gates: tuple[int, int]) -> None:
        """Release the given held turns, or all of them."""
        for gate in gates or self._held:
            self._loop.call_soon_threadsafe(self._gates[gate].set)

    def wait_for_turn(self, number: int) -> None:
        """Wait until the given number of turns have been requested."""
        with self._asked:
            assert self._asked.wait_for(lambda: self._turn >= number, PATIENCE)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _serve(self) -> None:
        async with ChatServer(dict.fromkeys(MODELS, self._answer)) as server:
            self.base_url = server.base_url
            self.bodies, self.headers = server.bodies, server.headers
            self._ready.set()
            await self._done.wait()
        # connections accepted while the server was closing
        while connecting := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in connecting:
                task.cancel()
            await asyncio.gather(*connecting, return_exceptions=True)

    async def _answer(self, exchange: Exchange) -> None:
        if len(self.bodies) - 1 in self.broken:
            await exchange.json({"error": {"message": "overloaded"}}, status=503)
            return
        if refusal := self.refuse(exchange.body):
            await exchange.json(refusal[1], status=refusal[0])
            return
        if exchange.body.get("logprobs"):
            await exchange.json(self._chosen(exchange.body["messages"][-1]["content"]))
            return
        schema = _find_schema(exchange.body)
        if word := next((word for word in self.answers if f'"{word}"' in schema), None):
            answer = self.answers[word]
            if callable(answer):
                answer = answer(schema)
            if isinstance(answer, list):
                answer = answer[self._given[word] % len(answer)]
            self._given[word] += 1
            await exchange.json(completion(json.dumps(answer)))
        elif "winner" in schema or '"scores"' in schema:
            await exchange.json(completion(json.dumps(self.verdict)))
        elif "nextSpeakers" in schema:
            await exchange.json(completion(json.dumps(self.decision)))
        elif schema != "{}":
            await exchange.json(completion(json.dumps(self.output)))
        else:
            await self._speak(exchange)

    def _chosen(self, prompt: str) -> dict[str, Any]:
        likely = {} if self.letters is None else self.letters(prompt)
        tokens = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in likely.items()]
        best = max(likely, key=likely.__getitem__, default="A")
        answer = completion(best)
        if tokens:
            first = {"token": best, "logprob": likely[best], "bytes": None, "top_logprobs": tokens}
            answer["choices"][0]["logprobs"] = {"content": [first], "refusal": None}
        return answer

    async def _speak(self, exchange: Exchange) -> None:
        with self._asked:
            number, self._turn = self._turn, self._turn + 1
            self._asked.notify_all()
        pieces = self.turns[number % len(self.turns)]
        end = "length" if number in self.cut_off else "stop"
        if not exchange.body.get("stream"):
            for gate in self._held:
                if gate[0] == number:
                    await self._gates[gate].wait()
            await exchange.json(completion("".join(pieces), finish=end))
            return
        await exchange.begin_events()
        for index, piece in enumerate(pieces):
            if (number, index) in self._held:
                await self._gates[number, index].wait()
            await exchange.event(chunk(piece))
        for event in (chunk(finish=end), usage_chunk()):
            await exchange.event(event)
        await exchange.raw(b"data: [DONE]\n\n")
        exchange.close = True

    def options(self, *more: str, verb: str = "debate") -> list[str]:
        """Return the arguments for running a command on this stage. By default, the judge is called only once."""
        judge_options = {
            "--schedule",
            "--human",
            "--audience",
            "--answer-form",
            "--file",
            "--panel",
            "--format",
            "--decided-by",
        }
        single_schedule = ["--schedule", "single"] if verb == "debate" and judge_options.isdisjoint(more) else []
        return [verb, "Cap rents?", "--model", "staged", "--base-url", self.base_url, *single_schedule, *more]


def _find_schema(body: Mapping[str, Any]) -> str:
    """Return the schema of a structured answer in any output mode; "{}" for a text answer."""
    prompt = str(body["messages"][-1]["content"])
    asks = re.search("json.schema", prompt, re.IGNORECASE)
    return prompt if asks else json.dumps(body.get("tools") or body.get("response_format", {}))


class OnTerminal:
    """The command on a pseudo-terminal.

    All its output is in `seen`, and the text currently displayed is in `screen`. If `cold` is set, the command starts
    as slowly as it does for users, which takes two seconds.
    """

    def __init__(
        self, *arguments: str, stdout: int | None = None, columns: int = 100, cold: bool = False, **env: str
    ) -> None:
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        streams: dict[str, Any] = {
            "stdin": terminal,
            "stdout": terminal if stdout is None else stdout,
            "stderr": terminal,
            "env": {**clean_environment(), "TERM": "xterm-256color", **env},
        }
        self.process: Warm | subprocess.Popen[bytes]
        if cold:
            self.process = subprocess.Popen(find_command(*arguments), start_new_session=True, **streams)  # noqa: S603 - our own
        else:
            self.process = Warm(COMMAND, *arguments, **streams)
        os.close(terminal)

    @property
    def screen(self) -> str:
        """Text that the terminal shows, including lines that have scrolled off the top."""
        return render_screen(self.seen)

    def until(self, text: str) -> None:
        """Read until `text` appears."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen and text not in self.screen:
            assert self._read(deadline), f"{text!r} never came: {self.seen!r}"

    def until_like(self, pattern: str) -> None:
        """Read until the output matches `pattern`, in which `.` also matches a newline."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen, re.DOTALL):
            assert self._read(deadline), f"{pattern!r} never came: {self.seen!r}"

    def write(self, text: str) -> None:
        """Type `text`."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read to the end of the output and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        # a spinner produces output forever, so the deadline must be checked here
        remaining = deadline - time.monotonic()
        assert remaining > 0, f"too late: {self.seen!r}"
        ready, _, _ = select.select([self._master], [], [], remaining)
        assert ready, f"nothing more came: {self.seen!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux raises this once no process has the terminal open
            return False
        self.seen += self._decoder.decode(data).replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)


def start_on_pipes(*arguments: str) -> Warm:
    """Start the command with pipes for stdout and stderr, and stop it when the block ends."""
    return Warm(COMMAND, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())


def find_command(*arguments: str) -> list[str]:
    """Return the path of the command installed for this Python."""
    return [sys.executable, "-c", COMMAND, *arguments]


def clean_environment() -> dict[str, str]:
    """Return this environment without variables that affect the layout, the colors or the choice of model."""
    looks = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONUNBUFFERED"}
    models = {
        "OPENAI_BASE_URL",
        "FLOWDEBATE_MODEL",
        *(provider.key_env for provider in PROVIDERS.values() if provider.key_env),
    }
    return {key: value for key, value in os.environ.items() if key not in looks | models}
