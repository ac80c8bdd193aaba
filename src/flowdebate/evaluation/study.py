"""Studies: their designs, questions and comparisons are registered before the first answer is obtained."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from operator import index as index_of
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, get_args

from pydantic import ValidationError

import flowdebate
from flowdebate._text import join_choices, listed, problems_of, typed
from flowdebate._util.validation import check_count, check_share
from flowdebate._util.wire import WireModel
from flowdebate.blocks.base import Block
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.evaluation.benefit import Missing, check_report_options
from flowdebate.evaluation.evaluation_run import Row, deal
from flowdebate.evaluation.statistics import check_scipy
from flowdebate.patterns.debate.baseline_names import BaselineName
from flowdebate.runs.batch import seed_of_item

if TYPE_CHECKING:
    from os import PathLike

    from flowdebate.evaluation.study_run import StudyAnswer
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.debate.judging.options import JudgeOptions

    Column = str | Callable[[Any], Any]


NOISE = "noise"
"""Negative control, in which the judge reads the arguments on another question, shown under this question's
positions.
"""
CONTROL, ALONE = "control", "alone"
"""Methods of the positive control: the judge with and without text that decides the question.

In neither case does the judge read a debate.
"""
JUDGED = (NOISE, CONTROL, ALONE)
"""Methods in which the first design's judge reads something other than the debate."""
_OWN = (*JUDGED, *get_args(BaselineName))
"""Method names reserved for the study itself; designs cannot use them."""
_MAX_REPEATS = 1_000
"""Maximum number of repeats. Cases are held in memory, and more answers from the same model soon stop adding
information.
"""
_NOTHING = ("nan", "NaT", "<NA>")
"""Strings that stand for an empty cell in a data frame."""
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
"""Regular expression for a hash; messages show only the first 12 digits of a hash."""
_ASKED = re.compile(r"-baselines \(([a-z_, ]+)\)")


class MethodPair(NamedTuple):
    """Pair of methods, compared by how much more often `one` is right than `other`."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Case:
    """A question to be answered by one design."""

    design: str
    item: str
    """ID of the question."""
    repeat: int
    """Zero-based index of the repetition."""
    question: object
    choices: tuple[str, ...]
    """Positions on the question, in the data set's order."""
    truth: str
    """Index of the correct position, as a string."""
    cluster: str
    positions: tuple[str, ...]
    """Positions on the question, in the debaters' shuffled order."""
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Unique key for this case's answer."""
        return self.design, self.item, self.repeat


@dataclass(frozen=True, kw_only=True)
class Study:
    """Designs of a debate, compared with their baselines and with each other on questions with known answers.

    - `rows` are the questions, as dictionaries or other objects (for a data frame, `frame.to_dict("records")`).
      `question`, `choices` (the positions), `truth` (the correct one, or its index), `id` (by default, a hash of
      question and choices) and `cluster` (a property shared by related rows, such as a topic; by default, rows are
      independent) are keys of a row, or functions of it.
    - `designs` maps each name to a function that takes a row and its positions in random order, and returns a
      `debate(…)`. The baselines are methods of the study too: those of the first design keep their names, and
      those of other designs have names like "design:single".
    - `noise` adds a control: the first design's judge reads the arguments on *another* question under the positions of
      this one. `judge` configures the judge in all controls; by default, it uses the debate's orders and answer form.
    - `control` adds a positive control: a key of a row, or a function of it, for text that decides the row's question,
      such as the debaters' private notes. Before the debates, the first design's judge decides all questions with the
      text ("control") and without it ("alone"). Unless the text raises the judge's accuracy by at least `control_gain`,
      the study stops there: such a judge could not show the effect of debates.
    - `primary` is the main comparison, ("design", "method"); by default, the first design against "self_consistency",
      or against its first baseline. It is tested on its own. `compare` lists the other comparisons, adjusted for their
      number by Holm's method; by default, the first design against each other method, and each other design against the
      primary comparison's method.
    - `repeats`: how often each question is asked; it still counts as one question. `seed` makes all draws reproducible.
    - `prediction` is the expected result, for the registration. `fixed` maps names to JSON data, such as the
      instructions and models of designs. The registration includes the hashes of this data, because it cannot see a
      design's code.

    Before any call, raises ConfigurationError if a row's answer is not among its choices, if ids are duplicated, or if
    a comparison names an unknown method. Needs scipy.

    >>> from flowdebate import Debater, debate
    >>> rows = [{"question": "Is 91 prime?", "choices": ["It is prime", "It is not"], "truth": "It is not"}]
    >>> def together(row, positions):
    ...     sides = [Debater(name, stance) for name, stance in zip("ab", positions)]
    ...     return debate(name="sum", debaters=sides, max_rounds=1, turn_order="simultaneous", baselines=["single"])
    >>> study = Study(name="primes", rows=rows, designs={"together": together})
    >>> study.primary, study.methods
    (MethodPair(one='together', other='single'), ('together', 'single'))
    """

    name: str
    rows: Sequence[Any]
    designs: Mapping[str, Callable[[Any, Sequence[str]], Block[Any, Any]]]
    question: Column = "question"
    choices: Column = "choices"
    truth: Column = "truth"
    id: Column | None = None
    cluster: Column | None = None
    noise: bool = False
    control: Column | None = None
    control_gain: float = 0.1
    judge: JudgeOptions | None = None
    primary: tuple[str, str] | None = None
    compare: Sequence[tuple[str, str]] | None = None
    repeats: int = 1
    seed: int = 0
    missing: Missing = "wrong"
    confidence: float = 0.95
    min_gain: float = 0.05
    prediction: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = field(init=False)
    """Names of all methods, starting with those of the first design."""

    def __post_init__(self) -> None:
        location = self.location
        check_scipy(location)
        check_count(location, maximum=_MAX_REPEATS, repeats=self.repeats)
        check_share(location, ends=False, control_gain=self.control_gain)
        check_report_options(location, confidence=self.confidence, min_gain=self.min_gain, missing=self.missing)
        object.__setattr__(self, "rows", _list_rows(self.rows, location))
        if not self.designs or not isinstance(self.designs, Mapping):
            raise ConfigurationError(location, "designs", self.designs, "must map at least one name to a function")
        for name in self.designs:
            if name in _OWN or not re.fullmatch(r"[\w-]+", name):
                raise ConfigurationError(
                    location,
                    "designs",
                    name,
                    f"must have names made of letters, digits, _ and -, other than {', '.join(_OWN)}",
                )
        methods = [
            method
            for name in self.designs
            for method in (name, *(self.method(name, baseline) for baseline in self._baselines_of(name)))
        ]
        methods += [NOISE] if self.noise else []
        object.__setattr__(self, "methods", (*methods, *([CONTROL, ALONE] if self.control is not None else [])))
        baseline_names = [name for name in ("self_consistency", *methods[1:]) if name in methods]
        if self.primary is None and not baseline_names:
            problem = "requires a second method: another design, `noise`, or debates with `baselines`"
            raise ConfigurationError(location, "primary", None, problem)
        primary = self._pair("primary", (self.first, baseline_names[0]) if self.primary is None else self.primary)
        if self.compare is None:
            pairs = [MethodPair(self.first, name) for name in methods[1:]]
            pairs += [MethodPair(name, primary.other) for name in self.designs if name != primary.one]
        else:
            pairs = [self._pair("compare", pair) for pair in self.compare]
        object.__setattr__(self, "primary", primary)
        rest = dict.fromkeys(other for other in pairs if other != primary and other.one != other.other)
        object.__setattr__(self, "compare", tuple(rest))
        _ = self.cases  # checks each row

    def _pair(self, name: str, pair: object) -> MethodPair:
        if not isinstance(pair, (tuple, list)) or not len(pair) == len({*pair} & {*self.methods}) == len(
            MethodPair._fields
        ):
            raise ConfigurationError(
                self.location, name, pair, f"must be two different methods from {join_choices(self.methods)}"
            )
        return MethodPair(*pair)

    @property
    def location(self) -> str:
        """The study's name in error messages."""
        return f"study {self.name!r}"

    @property
    def first(self) -> str:
        """Name of the first design, which supplies the baselines and the noise control."""
        return next(iter(self.designs))

    @cached_property
    def cases(self) -> Sequence[Case]:
        """The study's cases, grouped by design, so that each finished design is already a usable result."""
        rows = [self._read(index, row) for index, row in enumerate(self.rows)]
        firsts: dict[str, int] = {}
        for index, (item, question, *_) in enumerate(rows):
            if firsts.setdefault(item, index) != index:
                name, got = ("question", question) if self.id is None else ("id", item)
                problem = "must differ from earlier rows with the same choices" if self.id is None else "must be unique"
                raise ConfigurationError(self.location, f"{name} of row {index}", got, problem)
        cases = []
        for design, repeat, (item, question, choices, truth, cluster) in product(
            self.designs, range(self.repeats), rows
        ):
            # All designs get the positions in the same order, so that only the designs themselves differ.
            dealt = seed_of_item(self.seed, repeat)
            seed = int(digest([self.seed, design, item, repeat])[:13], 16)
            positions = tuple(deal(choices, question=question, seed=dealt))
            cases.append(Case(design, item, repeat, question, choices, truth, cluster, positions, seed))
        return cases

    @cached_property
    def keys(self) -> Mapping[tuple[str, str, int], Case]:
        """Keys of all answers in a finished study, including answers for the controls, each mapped to its case."""
        cases_by_key = {case.key: case for case in self.cases}
        judged = [NOISE] if self.noise else []
        judged += [] if self.control is None else [CONTROL, ALONE]
        return cases_by_key | {
            (name, *case.key[1:]): case for name in judged for case in self.cases if case.design == self.first
        }

    def planned(self, answers: Iterable[StudyAnswer]) -> Counter[str]:
        """Count the planned answers for each design and for the noise control.

        The noise control needs two successful debates with the same number of positions.
        """
        failed = {answer.key for answer in answers if answer.problem is not None}
        noise_cases = [
            case for case in self.cases if self.noise and case.design == self.first and case.key not in failed
        ]
        alike = Counter((case.repeat, len(case.positions)) for case in noise_cases)
        noise = sum(count for count in alike.values() if count > 1)
        controls = 0 if self.control is None else sum(case.design == self.first for case in self.cases)
        judged = Counter({NOISE: noise, CONTROL: controls, ALONE: controls})
        return Counter(case.design for case in self.cases) + judged

    def design_of(self, method: str) -> str:
        """Return the design that supplies a method's answers, or the method itself if it is a control."""
        design = method.partition(":")[0]
        return design if design in self.designs or design in JUDGED else self.first

    def answered(self, answers: Iterable[StudyAnswer]) -> list[StudyAnswer]:
        """Select the `answers` to the study's cases, and update their clusters from the study's rows.

        Raises ConfigurationError if the correct position of a question has changed since it was answered.
        """
        known_answers = [answer for answer in answers if answer.key in self.keys]
        for answer in known_answers:
            if answer.truth != (now := self.keys[answer.key].truth):
                problem = (
                    f"was position {answer.truth} when it was answered; restore it, or use another file of answers"
                )
                raise ConfigurationError(self.location, f"truth of {answer.item}", f"position {now}", problem)
        return [answer.model_copy(update={"cluster": self.keys[answer.key].cluster}) for answer in known_answers]

    def method(self, design: str, baseline: str) -> str:
        """Return the method name for a design's baseline."""
        return baseline if design == self.first else f"{design}:{baseline}"

    def block(self, case: Case) -> Block[Any, Any]:
        """Build the debate for a case; on failure, raise ConfigurationError with the row's index."""
        index = self._index_of[case.item]
        try:
            return self._build_debate(case.design, self.rows[index], case.positions)
        except ConfigurationError as error:
            location, field_ = f"{self.location}, design {case.design!r}", f"{error.field} of row {index}"
            raise error.moved(location, field_) from None

    def control_text(self, case: Case) -> str:
        """Read the text that decides a case."""
        return str(self._filled(self._index_of[case.item], self.rows[self._index_of[case.item]], "control"))

    def registration(self, *, model: ModelChoice = None) -> Registration:
        """Collect everything fixed before the first answer is obtained; `register` writes the result to a file."""
        from flowdebate.runs.header import list_model_names

        firsts = {case.design: case for case in reversed(self.cases)}
        record = {
            "study": self.name,
            "rows": digest([[c.item, c.question, c.choices, c.truth, c.cluster] for c in self.cases]),
            "questions": len(self.rows),
            "repeats": self.repeats,
            "seed": self.seed,
            "designs": {name: digest(self.block(case).outline().structure) for name, case in firsts.items()},
            "library": f"{flowdebate.__version__} {_source_digest()}",
            "models": list_model_names(model),
            "methods": list(self.methods),
            "primary": " against ".join(self.primary or ()),
            "compare": [" against ".join(pair) for pair in self.compare or ()],
            "missing": self.missing,
            "confidence": self.confidence,
            "min_gain": self.min_gain,
            "prediction": self.prediction,
        }
        if sources := [row["sources"] for row in self.rows if isinstance(row, Mapping) and row.get("sources")]:
            record["sources"] = digest(sources)
        if self.control is not None:
            texts = {case.item: self.control_text(case) for case in self.cases}
            record["control"] = {"texts": digest(texts), "gain": self.control_gain}
        if self.fixed:
            record["fixed"] = {name: digest(value) for name, value in self.fixed.items()}
        return Registration(at=time.time(), fixed=record, hash=digest(record))

    def register(self, path: str | PathLike[str], *, model: ModelChoice = None) -> Registration:
        """Write the registration to a new file at `path`; raise FileExistsError if the file exists."""
        registration = self.registration(model=model)
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(f"{registration.model_dump_json(by_alias=True, indent=2)}\n")
        return registration

    def _baselines_of(self, design: str) -> list[str]:
        """List the baselines included in a design's debates."""
        row = self.rows[0]
        structure = self._build_debate(design, row, self._choices(0, row)).outline().structure
        match = _ASKED.search(structure)
        return match[1].split(", ") if match else []

    def _build_debate(self, design: str, row: object, positions: Sequence[str]) -> Block[Any, Any]:
        debate: object = self.designs[design](row, list(positions))
        if not isinstance(debate, Block):
            raise ConfigurationError(
                self.location, f"designs.{design}", debate, "must be a function that returns a block"
            )
        return debate

    @cached_property
    def _index_of(self) -> Mapping[str, int]:
        return {self._read(index, row)[0]: index for index, row in enumerate(self.rows)}

    def _read(self, index: int, row: Row) -> tuple[str, object, tuple[str, ...], str, str]:
        """Read a row's ID, question, choices, index of the correct choice, and cluster."""
        question, choices = self._filled(index, row, "question"), self._choices(index, row)
        truth = self._column(index, row, "truth")
        if isinstance(truth, SupportsIndex) and not isinstance(truth, bool) and 0 <= index_of(truth) < len(choices):
            truth = choices[index_of(truth)]
        if truth not in choices:
            raise ConfigurationError(
                self.location,
                f"truth of row {index}",
                truth,
                f"must be {join_choices(choices)}, or the index of one of these",
            )
        item = digest([question, choices])[:12] if self.id is None else str(self._filled(index, row, "id"))
        if self.control is not None:
            self._filled(index, row, "control")
        cluster = item if self.cluster is None else str(self._filled(index, row, "cluster"))
        return item, question, choices, str(choices.index(str(truth))), cluster

    def _choices(self, index: int, row: Row) -> tuple[str, ...]:
        choices_found = self._column(index, row, "choices")
        choices_found = (
            choices_found.tolist() if hasattr(choices_found, "tolist") else choices_found
        )  # cells of a data frame may contain arrays
        values = choices_found if isinstance(choices_found, (list, tuple)) else ()
        texts = [text for text in values if isinstance(text, str) and text.strip()]
        if len(texts) < 2 or len(set(texts)) != len(values):  # noqa: PLR2004 - a choice takes two
            raise ConfigurationError(
                self.location, f"choices of row {index}", choices_found, "must be at least two different strings"
            )
        return tuple(texts)

    def _filled(self, index: int, row: Row, name: str) -> object:
        text = self._column(index, row, name)
        if text is None or not str(text).strip() or (not isinstance(text, str) and str(text) in _NOTHING):
            raise ConfigurationError(
                self.location, f"{name} of row {index}", text, "must be non-blank text or a number"
            )
        return text

    def _column(self, index: int, row: Row, name: str) -> object:
        of: str | Callable[[object], object] = getattr(self, name)
        if not isinstance(of, str):
            return of(row)
        try:
            return row[of]
        except (KeyError, TypeError, IndexError):
            raise ConfigurationError(
                self.location, f"{name} of row {index}", None, f"is missing: there is no `{of}` column"
            ) from None


class Registration(WireModel):
    """Decisions that a study records before asking its first question."""

    at: float
    """Time of registration, in seconds since 1970."""
    fixed: dict[str, Any]
    """Hashes of the rows, the designs and the library, together with the seed, models, comparisons and prediction."""
    hash: str
    """Hash of everything fixed by the registration."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Registration:
        """Read a registration from a file; raise BadFile if the file is invalid or has been altered."""
        try:
            registration = cls.model_validate_json(Path(path).read_bytes())
        except ValidationError as error:
            raise BadFile(str(path), listed(problems_of(error))) from None
        if digest(registration.fixed) != registration.hash:
            raise BadFile(
                str(path), f"was modified: its hash is {digest(registration.fixed)[:12]}, not {registration.hash[:12]}"
            )
        return registration

    def differences(self, now: Registration) -> list[str]:
        """List the differences from the registration, one sentence each."""
        names = dict.fromkeys([*self.fixed, *now.fixed])
        return [
            _HASH.sub(r"\1", f"{name}: registered {typed(self.fixed.get(name))}, now {typed(now.fixed.get(name))}")
            for name in names
            if self.fixed.get(name) != now.fixed.get(name)
        ]


def _list_rows(rows: object, location: str) -> list[Any]:
    # Data frames are rejected, because iterating over them yields their columns.
    listed: list[Any] = list(rows) if hasattr(rows, "__iter__") and not hasattr(rows, "columns") else []
    if not listed:
        problem = "must be a non-empty list of rows; for a data frame, pass frame.to_dict('records')"
        raise ConfigurationError(location, "rows", type(rows).__name__, problem)
    return listed


def digest(value: object) -> str:
    """Compute the SHA-256 hash of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()).hexdigest()


def _source_digest() -> str:
    """Compute the hash of this library's source code, including the prompts."""
    root = Path(flowdebate.__file__).parent
    source_hash = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        source_hash.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return source_hash.hexdigest()[:12]
