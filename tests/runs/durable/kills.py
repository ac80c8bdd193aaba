"""Kill durable runs with SIGKILL at random moments and at specific points, resume them, and report duplicate payments.

    python -m tests.runs.durable.kills --kills 500 [--store postgresql://…] [--seed N]

Each life of a run takes place in its own forked process. The clock is frozen in all of them, so the result must equal
that of an undisturbed run, no matter how often the run was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate, human, submit_answer
from flowdebate.chassis.state import RoundStarted
from flowdebate.errors import RunConflict, RunNotFound
from flowdebate.models.codec import digest_of
from flowdebate.runs.records import Records
from flowdebate.store.memory import MemoryStore
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.store.sqlite import file as disk
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing import FunctionModel

from .patterns import PATTERNS, QUESTION, answer_to, run_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context

POINTS = ("before", "in flight", "answered", "in commit", "committed", "between rounds", "in judge", "suspended")
"""The points at which a process can be killed.

These are: before or during a call, between the answer and its recording, within the transaction that records it, right
after that transaction, between two rounds, during a call by a judge, moderator or voter, and while the run waits for a
human.
"""

OTHERS = ("human", "predicate", "fork")
"""Patterns that are killed in addition to the library's own.

These are: a debate with a human, who answers while the run is suspended; a debate whose `terminate_when` returns random
answers in each process, so that the run can end the same way only if the answers are recorded; and a fork of a debate
with an edited argument, whose parent is killed as well.
"""

_PATIENCE = 10.0
"""The time in seconds that a server may take to notice that a client is gone."""
_PARENT = "-parent"
"""The suffix for the id of a fork's parent."""
_ROUND_TRIP = 0.003
"""The approximate duration of a commit on a server, in seconds."""
_JUDGES = ("judge", "moderator", "synthesizer", "vote")


@dataclass(frozen=True)
class Job:
    """A run, its files, and the settings that its processes share."""

    pattern: str
    seed: int
    folder: Path
    store: str
    run_id: str
    failing: float = 0.0
    decided: tuple[tuple[str, bool], ...] | None = None
    """Recorded answers of `terminate_when`, by path, for a run to repeat.

    `None` means that the answers are random.
    """

    def pattern_of_it(self) -> Any:
        """Return the run's block, which each process creates anew."""
        if self.pattern == "human":
            sides = [Debater("ann", "for"), Debater("cy", "against", block=human(name="cy"))]
            return debate(name="rent", debaters=sides, max_rounds=2)
        if self.pattern == "predicate":
            sides = [Debater("ann", "for"), Debater("bob", "against")]
            return debate(name="rent", debaters=sides, max_rounds=4, terminate_when=self._is_enough)
        if self.pattern == "fork":
            sides = [Debater("ann", "for"), Debater("bob", "against")]
            return debate(name="rent", debaters=sides, max_rounds=2)
        return PATTERNS[self.pattern]()

    def _is_enough(self, ctx: Context) -> bool:
        if self.decided is None:
            return os.urandom(1)[0] % 3 == 0
        return next(answer for key, answer in self.decided if key.startswith(ctx.path))

    @property
    def log(self) -> Path:
        """The log of all processes, with one line per entry."""
        return self.folder / f"{self.run_id}.log"

    @property
    def final(self) -> Path:
        """The final result of the run."""
        return self.folder / f"{self.run_id}.state"


@dataclass
class Killer:
    """A counter that kills this process the `count`th time it reaches `point`."""

    point: str | None
    count: int

    def at(self, point: str) -> None:
        """Report that this process has reached `point`."""
        if point == self.point:
            self.count -= 1
            if self.count == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def live(job: Job, killer: Killer) -> None:
    """Start or resume the run and continue until it ends or this process is killed."""
    time.time = lambda: 1_000_000_000.0
    time.perf_counter = lambda: 0.0
    log = os.open(job.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*words: object) -> None:
        os.write(log, (json.dumps(words) + "\n").encode())

    async def answer(request: Any) -> Any:
        killer.at("before")
        note("paid", digest_of(request))
        await asyncio.sleep(0.001 + 0.004 * Random(digest_of(request)).random())
        killer.at("in flight")
        if any(word in request.block for word in _JUDGES):
            killer.at("in judge")
        return answer_to(request, failing=job.failing)

    _kill_between_rounds(killer)
    note("life")
    result = asyncio.run(_resume(job, killer, FunctionModel(answer), _watched(job, killer, note)))
    part = job.final.with_suffix(".part")
    part.write_text(run_state(result, usage=not job.failing))
    part.rename(job.final)


async def _resume(job: Job, killer: Killer, model: Any, store: Any) -> Any:
    pattern = job.pattern_of_it()
    try:
        try:
            result = await _take(pattern, job.run_id, model=model, store=store)
        except RunNotFound:
            result = await _begin(job, pattern, model, store)
        while result.status == "awaiting":
            killer.at("suspended")
            for request in result.pending:
                await submit_answer(store, job.run_id, f"I answer at {request.place}.", place=request.place)
            killer.at("suspended")
            result = await pattern.resume(job.run_id, model=model, store=store)
        return result
    finally:
        await store.close()


async def _take(pattern: Any, run_id: str, **options: Any) -> Any:
    """Resume a run, waiting if a busy server has not yet noticed that the previous process was killed."""
    late = time.monotonic() + _PATIENCE
    while True:
        try:
            return await pattern.resume(run_id, **options)
        except RunConflict:
            if time.monotonic() > late:
                raise
            await asyncio.sleep(0.05)


async def _begin(job: Job, pattern: Any, model: Any, store: Any) -> Any:
    if job.pattern != "fork":
        return await pattern.run(QUESTION, model=model, store=store, seed=job.seed, run_id=job.run_id)
    parent = f"{job.run_id}{_PARENT}"
    options: Any = {"model": model, "store": store}
    try:
        await _take(pattern, parent, **options)
    except RunNotFound:
        await pattern.run(QUESTION, seed=job.seed, run_id=parent, **options)
    steps = [step.key for step in await store.steps(parent) if "debater-bob" in step.key]
    return await pattern.fork(parent, fork_id=job.run_id, edits={steps[0]: "Build homes, and nothing else."}, **options)


def _kill_between_rounds(killer: Killer) -> None:
    emit = Records.emit

    def emit_and_kill(self: Records, event: object, /, path: str = "", role: str | None = None) -> None:
        if isinstance(event, RoundStarted) and event.round > 1:
            killer.at("between rounds")
        emit(self, event, path, role)

    Records.emit = emit_and_kill  # type: ignore[method-assign]


def _watched(job: Job, killer: Killer, note: Callable[..., None]) -> Any:
    """Return the job's store, wrapped to log its intents and commits."""
    if job.store == "memory:":
        return MemoryStore()
    store: Any = SqliteStore(job.store) if "://" not in job.store else PostgresStore(job.store, grace=0.0)
    commit, intend = store.commit, store.intend

    async def log_intent(run_id: str, key: str, kind: Any, request: str | None) -> int:
        note("about", f"{run_id}: {key}", request)
        attempts: int = await intend(run_id, key, kind, request)
        return attempts

    async def log_commit(run_id: str, key: str, kind: Any, body: str, at: float) -> None:
        killer.at("answered")
        # the answer may be durable even if the process was killed before it could report this
        note("tried", f"{run_id}: {key}", body)
        if isinstance(store, SqliteStore):  # only SQLite's connection reports when a statement is being executed
            await commit(run_id, key, kind, body, at)
        else:  # kill the process shortly after the statement was sent, unless it has returned by then
            delay = _ROUND_TRIP * Random(key).random()
            timer = asyncio.get_running_loop().call_later(delay, killer.at, "in commit")
            await commit(run_id, key, kind, body, at)
            timer.cancel()
        note("kept", f"{run_id}: {key}", body)
        killer.at("committed")

    store.commit, store.intend = log_commit, log_intent
    if isinstance(store, SqliteStore):
        _kill_in_commit(store._writer, killer)
    return store


def _kill_in_commit(writer: Any, killer: Killer) -> None:
    """Kill the process while it executes a statement that stores an answer, or while it syncs several answers."""

    def watched(connect: Callable[[], Any]) -> Callable[[], Any]:
        def connected() -> Any:
            connection = connect()
            connection.set_trace_callback(lambda text: killer.at("in commit") if "excluded.body" in text else None)
            return connection

        return connected

    writer._connect, writer._connect_quick = watched(writer._connect), watched(writer._connect_quick)
    sync = disk._sync

    def synced(handle: int) -> None:
        killer.at("in commit")
        sync(handle)

    disk._sync = synced


@dataclass
class Report:
    """The results of all kills."""

    kills: int = 0
    runs: int = 0
    lives: int = 0
    paid: int = 0
    paid_again: list[str] = field(default_factory=list)
    """Calls that were repeated although their answers had been stored."""
    changed: list[str] = field(default_factory=list)
    """Steps that were stored twice with different contents."""
    unequal: list[str] = field(default_factory=list)
    """Runs whose results differ from those of undisturbed runs."""
    repeated: int = 0
    """Calls that were made more than once."""
    in_flight: int = 0
    """Calls that were in flight, or not stored yet, when their process was killed."""
    patterns: Counter[str] = field(default_factory=Counter)
    """The number of runs per pattern."""
    at: Counter[str] = field(default_factory=Counter)
    """The number of kills per point."""
    seconds: float = 0.0


class Failed(Exception):
    """The error that ended a process."""


def run_forked(act: Callable[[], None], *, kill_after: float | None = None, silent: bool = False) -> bool:
    """Run `act` in a forked process and return True if it finished, or False if the process was killed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - the process ends, and says by its code that it failed
            if not silent:
                traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status):
        raise Failed
    return True


def run_campaign(
    kills: int, store: str | None, *, seed: int, folder: Path, in_a_row: int = 3, point: str | None = None
) -> Report:
    """Kill runs until there have been `kills` kills in total, killing each run at most `in_a_row` times.

    If `point` is given, every run is first killed there.
    """
    draw, report = Random(seed), Report()
    undisturbed: dict[tuple[str, int, float], str] = {}
    start = time.monotonic()
    while report.kills < kills:
        name, number, failing = draw.choice([*PATTERNS, *OTHERS]), draw.randrange(3), draw.choice([0.0, 0.0, 0.1])
        failing *= name not in OTHERS
        report.runs += 1
        location = store or str(folder / "runs.sqlite3")
        job = Job(name, number, folder, location, f"it-{seed}-{report.runs}", failing)
        case = (name, number, failing)
        if name != "predicate" and case not in undisturbed:
            undisturbed[case] = _undisturbed(Job(name, number, folder, "memory:", "plain-run", failing))
        if not undisturbed.get(case, "later"):
            continue
        _kill(job, report, draw, in_a_row, max_kills=kills, only=point)
        report.patterns[name] += 1
        if name == "predicate":
            plain = Job(name, number, folder, "memory:", "plain-run", decided=_decided(job))
            _judge(job, report, _undisturbed(plain).replace("plain-run", job.run_id))
        else:
            _judge(job, report, undisturbed[case].replace("plain-run", job.run_id))
    report.seconds = round(time.monotonic() - start, 1)
    return report


def _undisturbed(plain: Job) -> str:
    """Return the result of executing the run without kills, or an empty result if even that fails."""
    plain.final.unlink(missing_ok=True)
    try:
        run_forked(lambda: live(plain, Killer(None, 0)), silent=plain.decided is None)
    except Failed:
        return ""
    return plain.final.read_text()


def _decided(job: Job) -> tuple[tuple[str, bool], ...]:
    """Return the recorded answers of the run's `terminate_when`, by path."""
    lines = map(json.loads, job.log.read_text().splitlines())
    answers = [
        (line[1].partition(": ")[2], json.loads(line[2]))
        for line in lines
        if line[0] == "tried" and "terminate_when" in line[1]
    ]
    return tuple(dict(answers).items())  # the last attempt is the recorded one


def _kill(job: Job, report: Report, draw: Random, in_a_row: int, *, max_kills: int, only: str | None) -> None:
    for _ in range(in_a_row):
        point = only or draw.choice([*POINTS, "at random", "at random"])
        killer = Killer(point, 1 if only else draw.randint(1, 2 if point == "in judge" else 6))
        report.lives += 1
        after = draw.uniform(0.0, 0.12) if point == "at random" else None
        if run_forked(lambda killer=killer: live(job, killer), kill_after=after):  # type: ignore[misc]
            return
        report.kills += 1
        report.at[point] += 1
        if report.kills >= max_kills:
            break
    report.lives += 1
    run_forked(lambda: live(job, Killer(None, 0)))


def _judge(job: Job, report: Report, undisturbed: str) -> None:
    """Check the outcome of `job` against its log, which records the paid calls."""
    digests: dict[str, str] = {}
    recorded: dict[str, str] = {}
    paid: Counter[str] = Counter()
    flying: set[str] = set()
    for line in job.log.read_text().splitlines():
        kind, *details = json.loads(line)
        if kind == "life":
            report.in_flight += len(flying)
            flying = set()
        elif kind == "tried":
            continue
        elif kind == "about":
            digests[details[0]] = details[1]
        elif kind == "paid":
            report.paid += 1
            paid[details[0]] += 1
            flying.add(details[0])
            if details[0] in {digests.get(key) for key in recorded}:
                report.paid_again.append(f"{job.run_id}: {details[0]}")
        else:
            key, body = details
            if recorded.setdefault(key, body) != body:
                report.changed.append(f"{job.run_id}: {key}")
            flying.discard(digests.get(key, ""))
    report.repeated += sum(count - 1 for count in paid.values())
    if job.final.read_text() != undisturbed:
        report.unequal.append(f"{job.run_id}: {job.pattern}, seed {job.seed}, failing {job.failing}")


def main() -> None:
    """Print the report as JSON; the exit code is 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--store", default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-a-row", type=int, default=3)
    parser.add_argument("--point", choices=POINTS, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run_campaign(
            options.kills,
            options.store,
            seed=options.seed,
            folder=Path(folder),
            in_a_row=options.in_a_row,
            point=options.point,
        )
    sys.stdout.write(json.dumps(vars(report), indent=1) + "\n")
    wrong = report.paid_again or report.changed or report.unequal or report.repeated > report.in_flight
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
