"""Running studies: questions are asked once, answers are stored as numbers, and crashed studies can be resumed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Self

from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from flowdebate._text import listed, problems_of
from flowdebate._util.validation import check_count
from flowdebate._util.wire import WireModel, new_dict, new_list
from flowdebate.chassis.anonymity.aliases import Anonymity
from flowdebate.errors import (
    BadFile,
    ConfigurationError,
    FlowDebateError,
    RealModelForbidden,
    RunChanged,
    RunConflict,
    RunNotFound,
    StoreError,
)
from flowdebate.evaluation.rejudging import ArguedDebate, create_rejudge, reuse_judge_options
from flowdebate.evaluation.study import ALONE, CONTROL, NOISE, Case, Study, digest
from flowdebate.models.base import Usage
from flowdebate.patterns.debate.benefit import MethodAnswer, benefit_item
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, decide
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.schemas import DebateContributionEntry, DebateRawOutput
from flowdebate.runs.batch import OutT, WorkerPool
from flowdebate.runs.header import StoreOptions
from flowdebate.runs.observer import Observer, observer_of
from flowdebate.runs.run import RunObserver
from flowdebate.store.open import StoreChoice, open_store

if TYPE_CHECKING:
    from os import PathLike

    from flowdebate.blocks.base import Block
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.execute import CommonOptions
    from flowdebate.runs.limits import Limits
    from flowdebate.runs.result import RunResult, RunView
    from flowdebate.store.base import Store


_FATAL = (ConfigurationError, RunChanged, RunConflict, StoreError, RealModelForbidden)
"""Errors caused by an invalid setup; every other question would fail in the same way."""


def _missing_verdict(raw: DebateRawOutput) -> str:
    """Return the kind of failure if the judge failed; otherwise, return "NoVerdict"."""
    failure = next((loss for loss in raw.losses if loss.role == "judge"), None)
    return "NoVerdict" if failure is None else failure.error.partition(":")[0]


class StudyAnswer(WireModel):
    """Answers to one question, stored as numbers: positions are indexes, and no text from models is included."""

    design: str
    """Name of the design, or "noise", "control" or "alone"."""
    item: str
    repeat: Annotated[int, Field(ge=0)]
    truth: str
    """Index of the correct position among the choices; all positions in an answer are indexes."""
    cluster: str
    order: list[str]
    """Positions in the debaters' shuffled order."""
    answers: dict[str, MethodAnswer]
    """Answers keyed by method; there is no entry for a design whose debate failed."""
    ballots: list[JudgeBallot] = Field(default_factory=new_list)
    """The judge's ballots."""
    characters: dict[str, int] = Field(default_factory=new_dict)
    """Total length of each side's arguments, in characters."""
    partner: str | None = None
    """Question whose arguments the judge read instead of this question's; set only for the noise control."""
    problem: str | None = None
    """Kind of error if the attempt failed. A failed question is asked again the next time the study runs."""
    transcript: str = ""
    """SHA-256 hash of the transcript."""
    seed: int
    at: float
    """Time of the answer, in seconds since 1970."""
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        """Key of the answered case; if a file contains several answers with the same key, the last one counts."""
        return self.design, self.item, self.repeat


class AnswersFile:
    """JSON Lines file with a study's answers, written by one process at a time.

    Invalid lines raise BadFile. If a crash left an incomplete last line, it is removed.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._lock = FileLock(f"{self.path}.lock", thread_local=False)
        self._file: BinaryIO | None = None
        self.answers: dict[tuple[str, str, int], StudyAnswer] = {}
        """The latest answer for each key."""
        if self.path.exists():
            for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], 1):
                try:
                    answer = StudyAnswer.model_validate_json(line)
                except ValidationError as error:
                    raise BadFile(str(path), f"line {number}: {listed(problems_of(error)[:1])}") from None
                self.answers[answer.key] = answer

    def __enter__(self) -> Self:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BadFile(str(self.path), "is in use: another process is adding answers to it") from None
        file = self.path.open("a+b")
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.release()

    def add(self, answer: StudyAnswer) -> None:
        """Write an answer, and return once it is on disk."""
        assert self._file is not None  # noqa: S101 - inside `with`
        self._file.write(answer.model_dump_json(by_alias=True, exclude_defaults=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.answers[answer.key] = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyProgress:
    """Progress of a study."""

    done: int
    """Number of answers, including those from earlier calls."""
    total: int
    failed: int
    """Number of failed answers."""
    new_answers: int
    """Number of answers obtained by this call."""
    seconds: float
    """Seconds since the start of this call."""
    usage: Usage
    """Usage of the debates finished by this call, including failed ones."""
    remaining: float | None
    """Estimated time in seconds for the remaining questions, based on how long each design's earlier answers took.

    None until the first answer.
    """


async def ask_study(  # noqa: PLR0913 - those of a batch
    study: Study,
    answers: str | PathLike[str],
    *,
    model: ModelChoice = None,
    store: StoreChoice = None,
    limits: Limits | None = None,
    max_concurrency: int = 4,
    maximum: int | None = None,
    seconds: float | None = None,
    until: Callable[[StudyProgress], bool] | None = None,
    observe: Observer | None = None,
    progress: Callable[[StudyProgress], object] | None = None,
) -> Sequence[StudyAnswer]:
    """Ask all questions not yet answered in the file `answers`, and return all of the study's answers.

    Each answer is written immediately, as numbers without any text; the file is the only record of progress. If you
    pass a `store`, an interrupted debate continues where it stopped. `maximum` limits the number of debates in this
    call; no further debate starts after `seconds`, or once `until(…)` returns true for the progress so far. The noise
    control for a question runs after the debate on the next question, or on a later one if that debate failed. The
    study's `control` runs first; if the study has no `judge`, a single debate runs before it to determine the judge's
    options. If the control fails, nothing else is asked. Failed answers are retried by the next call. `limits` apply to
    each debate; `progress(…)` is called after each answer. Errors that would affect every question are raised.
    """
    check_count(f"{study.location}.run()", max_concurrency=max_concurrency)
    opened = open_store(store, location=f"{study.location}.run()")
    with AnswersFile(answers) as file:
        spent = _Spent(observer_of(observe))
        common: CommonOptions = {"model": model, "limits": limits, "observe": spent}
        asking = _Asking(
            study,
            file,
            opened,
            common,
            spent,
            max_concurrency,
            progress or (lambda _: None),
            until or (lambda _: False),
        )
        study.answered(file.answers.values())
        cases = [case for case in study.cases if asking.is_open(case.key)]
        for case in cases:  # check that each row makes a valid debate before paying for any call
            study.block(case)
        if study.control is not None and not await asking.control(cases, seconds=seconds):
            return study.answered(file.answers.values())
        cases = [case for case in cases if asking.is_open(case.key)]
        await asking.all(cases[:maximum], asking.debate, seconds=seconds)
        if study.noise:
            debated = [case for case in study.cases if case.design == study.first and not asking.is_open(case.key)]
            noise = [case for case in debated if asking.is_open((NOISE, *case.key[1:]))]
            await asking.all(noise, asking.noise, seconds=seconds)
        return study.answered(file.answers.values())


class _Spent(Observer):
    """Observer that adds up the usage of runs, including failed ones, and forwards events to another observer."""

    def __init__(self, inner: Observer) -> None:
        self.usage, self._inner = Usage.zero(), inner

    @contextmanager
    def run(self, run: RunView, labels: dict[str, str], /) -> Iterator[RunObserver]:
        try:
            with self._inner.run(run, labels) as parts:
                yield parts
        finally:
            self.usage += run.usage


@dataclass
class _Asking:
    """A single call to `ask_study`."""

    _study: Study
    _file: AnswersFile
    _store: Store | None
    _common: CommonOptions
    _spent: _Spent
    _size: int
    """Maximum number of questions asked concurrently."""
    _progress: Callable[[StudyProgress], object]
    _until: Callable[[StudyProgress], bool]
    _raws: dict[tuple[str, str, int], DebateRawOutput] = field(default_factory=dict)
    """Debates from this call, kept for the noise control."""
    _began: float = field(default_factory=time.monotonic)
    _asked: int = 0

    def is_open(self, key: tuple[str, str, int]) -> bool:
        """Return whether the answer is missing or the last attempt to get it failed."""
        answer = self._file.answers.get(key)
        return answer is None or answer.problem is not None

    async def all(
        self, cases: Sequence[Case], ask: Callable[[Case], Awaitable[Case]], *, seconds: float | None
    ) -> None:
        """Ask the questions in all `cases`, running as many at once as allowed."""

        async def jobs() -> AsyncGenerator[Case]:
            for case in cases:
                late = seconds is not None and time.monotonic() - self._began >= seconds
                if late or self._until(self._current_progress()):
                    return
                yield case

        async for _ in WorkerPool(jobs(), ask, size=self._size).results():
            pass

    def _add(self, answer: StudyAnswer) -> None:
        self._file.add(answer)
        self._asked += 1
        self._progress(self._current_progress())

    def _current_progress(self) -> StudyProgress:
        answers = [self._file.answers[key] for key in self._study.keys if key in self._file.answers]
        planned = self._study.planned(answers)
        return StudyProgress(
            done=len(answers),
            total=planned.total(),
            failed=sum(answer.problem is not None for answer in answers),
            new_answers=self._asked,
            seconds=time.monotonic() - self._began,
            usage=self._spent.usage,
            remaining=self._remaining(answers, planned),
        )

    def _remaining(self, answers: Sequence[StudyAnswer], planned: Counter[str]) -> float | None:
        took: dict[str, list[float]] = {}
        for answer in answers:
            took.setdefault(answer.design, []).append(answer.seconds)
        if not took:
            return None
        usual = fmean(answer.seconds for answer in answers)  # used for designs that have not started yet
        remaining = planned - Counter(answer.design for answer in answers)
        return sum(count * fmean(took.get(design, [usual])) for design, count in remaining.items()) / self._size

    async def debate(self, case: Case) -> Case:
        """Add the answers from a debate and its baselines, and any noise answers that the debate makes possible."""
        self._add(await self._debated(case))
        if self._study.noise and case.design == self._study.first:
            other_cases = self._similar_questions(case)
            # A noise answer needs the debates on two neighboring cases, so check both neighbors once this debate is
            # over.
            pairs = [(other_cases[-1], case), (case, other_cases[0])] if other_cases else []
            pairs_left = [one for one, after in pairs if not self.is_open(one.key) and not self.is_open(after.key)]
            for one in pairs_left:
                if self.is_open((NOISE, *one.key[1:])):
                    await self.noise(one)
        return case

    async def _debated(self, case: Case) -> StudyAnswer:
        """Collect the answers from a debate and its baselines."""
        started = time.monotonic()
        try:
            result = await self._run(self._study.block(case), case.question, case, case.design)
        except FlowDebateError as error:
            if isinstance(error, _FATAL):
                raise
            return self._answer(case, case.design, started, {}, problem=type(error).__name__)
        raw = result.raw
        if not isinstance(raw, DebateRawOutput):
            location = f"designs[{case.design!r}]"
            raise ConfigurationError(
                self._study.location, location, type(raw).__name__, "must be a function that returns a debate"
            )
        if (self._study.noise or self._study.control is not None) and case.design == self._study.first:
            self._raws[case.key] = raw
        usage, index = result.usage, _indexes(case)
        item = benefit_item(
            raw,
            baselines=raw.baselines or [],
            calls=usage.calls,
            tokens=usage.total_tokens,
            completion_tokens=usage.completion_tokens,
            cost=result.cost,
        )
        debated = {case.design: item.debate} if raw.verdict is not None else {}
        debated |= {self._study.method(case.design, name): answer for name, answer in item.baselines.items()}
        answers = {
            name: answer.model_copy(update={"answer": [index[side] for side in answer.answer if side in index]})
            for name, answer in debated.items()
        }
        judging = None if raw.verdict is None else raw.verdict.judging
        lengths = dict.fromkeys(index.values(), 0)
        for entry in raw.transcript:
            lengths[index[entry.stance]] += len(entry.text)
        return self._answer(
            case,
            case.design,
            started,
            answers,
            ballots=[] if judging is None else [_as_numbers(ballot, index) for ballot in judging.ballots],
            characters=lengths,
            problem=None if raw.verdict is not None else _missing_verdict(raw),
            transcript=digest([[entry.stance, entry.text] for entry in raw.transcript]),
        )

    async def control(self, cases: Sequence[Case], *, seconds: float | None) -> bool:
        """Ask the judge all questions with and without the deciding text; return whether the judge passes the control.

        Return False if any answers are still missing.
        """
        from flowdebate.evaluation.study_report import control_of

        firsts = [case for case in self._study.cases if case.design == self._study.first]
        missing = [case for case in firsts if any(self.is_open((name, *case.key[1:])) for name in (CONTROL, ALONE))]
        how = self._study.judge or (await self._first_judge(cases, seconds=seconds) if missing else None)
        if missing and how is None:
            return False

        async def ask(case: Case) -> Case:
            for name in (CONTROL, ALONE):
                if self.is_open((name, *case.key[1:])):
                    self._add(await self._controlled(case, name, how or JudgeOptions()))
            return case

        await self.all(missing, ask, seconds=seconds)
        control_result = control_of(self._study, self._study.answered(self._file.answers.values()))
        return control_result is not None and control_result.passed is True

    async def _first_judge(self, cases: Sequence[Case], *, seconds: float | None) -> JudgeOptions | None:
        """Return the judge options from the first design's debates; if there are no debates yet, run one of `cases`.

        Return None if no debate succeeds.
        """
        for case in self._study.cases:
            if case.design == self._study.first and (raw := await self._raw(case)) is not None:
                return _judge_of(raw)
        for case in cases:
            if case.design == self._study.first:
                await self.all([case], self.debate, seconds=seconds)
                if (raw := await self._raw(case)) is not None:
                    return _judge_of(raw)
        return None

    async def _controlled(self, case: Case, name: str, how: JudgeOptions) -> StudyAnswer:
        """Ask the judge about the positions, showing it the deciding text for the control and no text otherwise."""
        entries = [
            DebateContributionEntry(round=1, agent_name=f"side {number}", stance=position, text=position)
            for number, position in enumerate(case.positions, 1)
        ]
        question = str(case.question)
        if name == CONTROL:
            question = f"{question}\n\nWhat is known for certain:\n{self._study.control_text(case)}"
        return await self._judged(case, name, ArguedDebate(question=question, transcript=entries), how)

    async def noise(self, case: Case) -> Case:
        """Add the noise answer, based on the arguments from the next question whose debate succeeds.

        To keep the choice of question independent of timing, nothing is added until that debate is over. Debates whose
        arguments are no longer available are skipped.
        """
        for other in self._similar_questions(case):
            if other.key not in self._file.answers:
                break
            if (raw := await self._raw(other)) is not None:
                self._add(await self._noise(case, other, raw))
                break
        return case

    async def _noise(self, case: Case, other: Case, raw: DebateRawOutput) -> StudyAnswer:
        """Ask the judge to decide based on the arguments about the `other` question."""
        position_names = dict(zip(other.positions, case.positions, strict=True))
        entries = [entry.model_copy(update={"stance": position_names[entry.stance]}) for entry in raw.transcript]
        argued = ArguedDebate(question=str(case.question), transcript=entries)
        return await self._judged(case, NOISE, argued, self._study.judge or _judge_of(raw), partner=other.item)

    async def _judged(
        self, case: Case, name: str, argued: ArguedDebate, how: JudgeOptions, *, partner: str | None = None
    ) -> StudyAnswer:
        """Have the judge read something other than the debate, and collect the judge's answer."""
        started, entries = time.monotonic(), argued.transcript
        names = tuple(dict.fromkeys(entry.agent_name for entry in entries))
        anonymity = Anonymity(names=names, stances=case.positions, question=str(case.question))
        block = create_rejudge(stances=case.positions, judge=how, seed=case.seed, anonymity=anonymity)
        try:
            result = await self._run(block, argued, case, name)
        except FlowDebateError as error:
            if isinstance(error, _FATAL):
                raise
            return self._answer(case, name, started, {}, problem=type(error).__name__, partner=partner)
        by = how.decided_by or ("log_odds" if result.output.ballots[0].log_odds else "mean")
        decided = decide(result.output.ballots, sides=case.positions, by=by, min_log_odds=how.min_log_odds)
        usage, index = result.usage, _indexes(case)
        answer = MethodAnswer(
            answer=[] if decided.winner is None else [index[decided.winner]],
            calls=usage.calls,
            tokens=usage.total_tokens,
            completion_tokens=usage.completion_tokens,
            cost=result.cost,
        )
        ballots = [_as_numbers(ballot, index) for ballot in result.output.ballots]
        return self._answer(case, name, started, {name: answer}, ballots=ballots, partner=partner)

    def _similar_questions(self, case: Case) -> Sequence[Case]:
        """List other questions with the same number of positions, starting with the next one."""
        alike = [
            study_case
            for study_case in self._study.cases
            if (study_case.design, study_case.repeat, len(study_case.positions))
            == (case.design, case.repeat, len(case.positions))
        ]
        at = alike.index(case)
        return [*alike[at + 1 :], *alike[:at]]

    async def _raw(self, case: Case) -> DebateRawOutput | None:
        """Return the raw output of a finished debate, from this call or from the store."""
        if self.is_open(case.key):
            return None
        if case.key in self._raws or self._store is None:
            return self._raws.get(case.key)
        try:
            stored = await self._store.run(self._run_id(case, case.design))
        except RunNotFound:
            return None
        raw = (stored.outcome or {}).get("raw")
        return None if raw is None else DebateRawOutput.model_validate(raw)

    async def _run(self, block: Block[Any, OutT], question: object, case: Case, design: str) -> RunResult[OutT]:
        if self._store is None:
            return await block.run(question, store=False, seed=case.seed, **self._common)
        labels = {"study": self._study.name, "design": design, "item": case.item}
        store, run_id = StoreOptions(store=self._store, labels=labels), self._run_id(case, design)
        return await block.run(question, store=store, run_id=run_id, if_exists="resume", seed=case.seed, **self._common)

    def _run_id(self, case: Case, design: str) -> str:
        return f"study-{digest([self._study.name, self._study.seed, design, case.item, case.repeat])[:20]}"

    def _answer(  # noqa: PLR0913 - the fields of an answer
        self,
        case: Case,
        design: str,
        started: float,
        answers: Mapping[str, MethodAnswer],
        *,
        ballots: Sequence[JudgeBallot] = (),
        characters: Mapping[str, int] = MappingProxyType({}),
        partner: str | None = None,
        problem: str | None = None,
        transcript: str = "",
    ) -> StudyAnswer:
        index = _indexes(case)
        # The last digits of a sum depend on the order of arrival, which a crash may change.
        costs = {name: None if answer.cost is None else round(answer.cost, 12) for name, answer in answers.items()}
        return StudyAnswer(
            design=design,
            item=case.item,
            repeat=case.repeat,
            truth=case.truth,
            cluster=case.cluster,
            order=[index[position] for position in case.positions],
            answers={name: answer.model_copy(update={"cost": costs[name]}) for name, answer in answers.items()},
            seed=case.seed,
            at=time.time(),
            seconds=round(time.monotonic() - started, 3),
            ballots=list(ballots),
            characters=dict(characters),
            partner=partner,
            problem=problem,
            transcript=transcript,
        )


def _judge_of(raw: DebateRawOutput) -> JudgeOptions:
    """Return a debate's judge options."""
    judging = None if raw.verdict is None else raw.verdict.judging
    scored = judging is not None and any(ballot.scores is not None for ballot in judging.ballots)
    return reuse_judge_options(judging) if scored else JudgeOptions()


def _indexes(case: Case) -> Mapping[str, str]:
    """Return the index of each position."""
    return {choice: str(number) for number, choice in enumerate(case.choices)}


def _as_numbers(ballot: JudgeBallot, index: Mapping[str, str]) -> JudgeBallot:
    """Convert a ballot to numbers: replace sides with indexes, and drop the judge's text."""
    by_side = {name: getattr(ballot, name) for name in ("labels", "scores", "criteria", "log_odds", "lengths")}
    update = {
        **{
            name: None if values is None else {index[side]: value for side, value in values.items()}
            for name, values in by_side.items()
        },
        "order": [index[side] for side in ballot.order],
        "winner": None if ballot.winner is None else index.get(ballot.winner),
        "verdict": "",
        "reasoning": "",
        "problem": None if ballot.problem is None else "unusable",
        "spoken": None if ballot.spoken is None else [index[side] for side in ballot.spoken],
    }
    return ballot.model_copy(update=update)
