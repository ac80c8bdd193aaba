"""Simulated judge with known biases, for testing schedules without a model.

With numpy, it can simulate a million ballots at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from flowdebate._util.validation import check_number
from flowdebate.errors import ConfigurationError, MalformedResponse, ViewError
from flowdebate.models.base import ModelRequest, ModelResponse, Usage
from flowdebate.models.output import inline_definitions
from flowdebate.patterns.debate.judging.views import Schedule, ScheduleLike, as_schedule
from flowdebate.patterns.debate.schemas import DebateContributionEntry
from flowdebate.patterns.debate.transcript import parse_entries
from flowdebate.prompts import BAR, unescaped
from flowdebate.testing.simulated.draws import key_of, normal, normals

if TYPE_CHECKING:  # numpy is an optional dependency
    from numpy import bool_, int64
    from numpy.typing import ArrayLike, NDArray

    from flowdebate.testing.simulated.draws import Floats

    Integers: TypeAlias = NDArray[int64]

Form = Literal["scores", "winner", "letter", "quote"]
"""Kind of answer that a judge gives. For "quote", the answer is a letter that selects one of a side's sentences."""

_TRANSCRIPT = re.compile(r"^Round [1-9][0-9]*:\n\[.*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_BY_SIDE = re.compile(r"^Side ([A-Z]):((?:\n(?:- |  [|] ).*|\n\(empty\))*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^- (.*(?:\n  [|] .*)*)", re.MULTILINE)
_LETTERED = re.compile(r"^([A-Z]): (.*(?:\n  [|] .*)*)", re.MULTILINE)
_LISTED = re.compile(r"^- (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSide:
    """A side as it appears in a judge's view."""

    called: str
    """Label or stance by which the view refers to the side."""
    stance: str
    """The side's stance, if given in the list of positions; otherwise, the side's name."""
    texts: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    """Speaker names in the tags on the side's entries; empty in an anonymous view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimView:
    """A judge's view of the sides, listed by slot in reading order."""

    sides: tuple[SimSide, ...]
    form: Form
    fields: tuple[str, ...]
    """Names of the fields in the requested answer."""
    criteria: tuple[str, ...] = ()
    """The rubric's criteria; each side is scored on all of them."""

    @property
    def item(self) -> int:
        """Number identifying the judged item, the same in all of its views."""
        # Sorted and without labels, because a randomly drawn quality must not depend on the reading order.
        return key_of(*sorted(key_of(side.stance, *side.texts).to_bytes(8, "big").hex() for side in self.sides))

    @property
    def number(self) -> int:
        """Number identifying the view, derived from the sides' names and their order."""
        return key_of(*(text for side in self.sides for text in (side.called, side.stance)))

    @property
    def labels(self) -> tuple[int, ...]:
        """Alphabetical rank of the label in each slot, starting at 0."""
        names = sorted(side.called for side in self.sides)
        return tuple(names.index(side.called) for side in self.sides)


def read_view(request: ModelRequest) -> SimView:
    """Read the view from a judge's request; raise MalformedResponse for any other kind of request.

    Slots are in reading order; sides with no arguments come last.
    """
    if request.choices:
        return _read_letters(str(request.messages[-1]["content"]), tuple(request.choices))
    properties: dict[str, Any] = inline_definitions(request.output_schema or {}).get("properties", {})
    form: Form = "scores" if "scores" in properties else "winner"
    criteria: tuple[str, ...] = ()
    if form == "scores":
        scores: dict[str, Any] = properties["scores"].get("properties", {})
        names = tuple(scores)
        criteria = tuple(scores[names[0]].get("properties", ())) if names else ()
    else:
        winner = properties.get("winner", {})
        # Null (no winner) is an additional choice alongside the sides.
        enums = [choice["enum"] for choice in (winner, *winner.get("anyOf", ())) if "enum" in choice]
        names = tuple(name for name in enums[0] if name is not None) if enums else ()
    if not names:
        message = "a simulated judge answers with `scores` or a `winner`, but the request asks for neither"
        raise MalformedResponse(message, block=request.block)
    system = "\n".join(str(message["content"]) for message in request.messages if message["role"] == "system")
    entries = _read_entries(str(request.messages[-1]["content"]), names)
    listed = [unescaped(line) for line in _LISTED.findall(system)]
    # Positions are listed as "- label: stance" or just as stances, which may themselves contain a colon.
    labeled = () if set(names) <= set(listed) else names
    stances = {name: line[len(name) + 2 :] for name in labeled for line in listed if line.startswith(f"{name}: ")}
    order = dict.fromkeys([*(entry.stance for entry in entries if entry.stance in names), *names])
    sides = tuple(
        SimSide(
            called=name,
            stance=stances.get(name, name),
            texts=tuple(entry.text for entry in entries if entry.stance == name),
            speakers=tuple(
                dict.fromkeys(entry.agent_name for entry in entries if entry.stance == name and entry.agent_name)
            ),
        )
        for name in order
    )
    return SimView(sides=sides, form=form, fields=tuple(properties), criteria=criteria)


def _read_letters(turn: str, letters: tuple[str, ...]) -> SimView:
    """Read the view from a request for a letter, which stands either for a side or for a sentence to quote."""
    blocks = {match[1]: match[2] for match in _BY_SIDE.finditer(turn)}
    if set(blocks) == set(letters):
        arguments = {letter: tuple(map(_unescape, _ARGUMENT.findall(block))) for letter, block in blocks.items()}
        sides = tuple(SimSide(called=letter, stance=letter, texts=texts) for letter, texts in arguments.items())
        return SimView(sides=sides, form="letter", fields=())
    sentences = {match[1]: _unescape(match[2]) for match in _LETTERED.finditer(turn)}
    sides = tuple(
        SimSide(called=letter, stance=letter, texts=(sentences[letter],)) for letter in letters if letter in sentences
    )
    if len(sides) < len(letters):
        sides = tuple(SimSide(called=letter, stance=letter, texts=(turn,)) for letter in letters)
    return SimView(sides=sides, form="quote", fields=())


def _unescape(text: str) -> str:
    return unescaped(text.replace(BAR, "\n"))


def _read_entries(turn: str, names: Sequence[str]) -> list[DebateContributionEntry]:
    """Parse a transcript's entries; if every tag is one of the sides' `names`, the tags contain no speaker names."""
    match = _TRANSCRIPT.search(turn)
    if match is None:
        return []
    try:  # "[for]" and "[ann, for]" are ambiguous if a stance contains a comma, so go by the sides that can win
        plain = parse_entries(match[0])
        return plain if all(entry.stance in names for entry in plain) else parse_entries(match[0], names=True)
    except ViewError:
        return []


Quality: TypeAlias = "Mapping[str, float] | Callable[[str], float] | None"
"""Quality of the sides: a mapping keyed by stance, or a function of a side's full text. If it is None, the quality is
random, but depends only on the text and the seed.
"""

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[.!?…]+(?=\s|$)")
_MARKS = re.compile(r"!+|\*\*[^*]+\*\*")


class SimJudge:
    """A judge model with configurable log-odds.

    For a given seed, its results are bit-identical regardless of the order of requests.

    For each side, it computes a sum in the units of `quality` (differences between sums are log-odds):

        quality + slot[its slot] + label[its label]
        + (style · style_of(text) + length · length_of(text) + identity of the names in its tags and texts)
        + noise · z(seed, item, view, slot)

    z is standard normal, and the softmax of the sums gives each side's share.

    - `slot`: terms for each slot. A single number is the term for the first slot; the terms for the other slots
      decrease evenly to 0.
    - `label`: terms for each label, keyed by label, or given in alphabetical order of the labels as for `slot`. Sides
      without labels use their stances.
    - `style`, `length`, `identity`: biases that no schedule can average out, since they depend on the text. `identity`
      is keyed by name.
    - `noise`: the standard deviation for one side; for the difference between two sides it is √2 times as large.
    - `quality`: if None, it is drawn from the standard normal distribution, keyed by the side's text.

    The judge answers every kind of request made by `create_judge()`: for a winner, for scores (with a rubric, the same
    score for each criterion), and for a letter, with unrounded logprobs. The prompt for a letter contains no stances,
    so in this case `quality` must be a function of a side's text, or None. `settings.extra["seed"]` draws new noise, as
    it does with a real model. `log_odds()` computes the sums for one view, and `log_odds_of()` for arrays of views.

    >>> judge = SimJudge(slot=1.0)
    >>> judge.log_odds([0.5, 0.0], order=[1, 0])
    [0.5, 1.0]
    """

    def __init__(  # noqa: PLR0913 - one for each way to be biased
        self,
        *,
        slot: float | Sequence[float] = 0.0,
        label: float | Sequence[float] | Mapping[str, float] = 0.0,
        style: float = 0.0,
        length: float = 0.0,
        identity: Mapping[str, float] | None = None,
        noise: float = 0.0,
        seed: int = 0,
        quality: Quality = None,
        name: str = "sim-judge",
    ) -> None:
        check_number("SimJudge()", style=style, length=length)
        check_number("SimJudge()", minimum=0, noise=noise)
        self._slot = _ladder("slot", slot)
        self._named = dict(label) if isinstance(label, Mapping) else None
        self._label = _ladder("label", 0.0 if isinstance(label, Mapping) else label)
        self._style, self._length, self._noise = style, length, noise
        self._identity = dict(identity or {})
        self._quality = quality
        self.seed = seed
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Judge the view contained in the prompt."""
        view = read_view(request)
        draw = request.settings.extra.get("seed")
        if request.choices:
            logprobs = self._logprobs(view, draw=draw)
            usage = Usage(calls=1, prompt_tokens=0, cached_tokens=0, completion_tokens=1)
            return ModelResponse(text=max(logprobs, key=logprobs.__getitem__), logprobs=logprobs, usage=usage)
        shares = self.shares(view, draw=draw)
        best = [name for name, share in shares.items() if share == max(shares.values())]
        shares_text = ", ".join(f"{name}: {share:.3f}" for name, share in shares.items())
        answer: dict[str, Any] = dict.fromkeys(view.fields, f"Simulated ({shares_text}).")
        if view.form == "scores":
            scores = {name: 100 * share for name, share in shares.items()}
            rubric = {name: dict.fromkeys(view.criteria, score) for name, score in scores.items()}
            answer["scores"] = rubric if view.criteria else scores
        else:
            answer["winner"] = best[0] if len(best) == 1 else None
        return ModelResponse(data=answer, usage=Usage(calls=1, prompt_tokens=0, cached_tokens=0, completion_tokens=0))

    def shares(self, view: SimView, *, draw: object = None) -> dict[str, float]:
        """Return each side's share in `view`, keyed by the label or stance used there; the shares add up to 1."""
        odds = self._odds(view, draw=draw)
        highest = max(odds)  # subtracted below, because the exponential of a large bias would overflow
        weights = [math.exp(value - highest) for value in odds]
        total = math.fsum(weights)
        return {side.called: weight / total for side, weight in zip(view.sides, weights, strict=True)}

    def _logprobs(self, view: SimView, *, draw: object) -> dict[str, float]:
        """Return the logarithms of `shares()`; when choosing a sentence to quote, use only the sentences' quality."""
        quoted = view.form == "quote"
        odds = [self._quality_of(side) for side in view.sides] if quoted else self._odds(view, draw=draw)
        highest = max(odds)
        total = highest + math.log(math.fsum(math.exp(value - highest) for value in odds))
        return {side.called: value - total for side, value in zip(view.sides, odds, strict=True)}

    def _odds(self, view: SimView, *, draw: object) -> list[float]:
        return self.log_odds(
            [self._quality_of(side) for side in view.sides],
            order=range(len(view.sides)),
            called=view.labels,
            content=[self._content(side) for side in view.sides],
            item=view.item,
            # A different seed draws new noise for the same view, as it would with a real model.
            view=view.number if draw is None else key_of(str(view.number), repr(draw)),
            names=sorted(side.called for side in view.sides),
        )

    def log_odds(
        self,
        quality: Sequence[float],
        *,
        order: Sequence[int],
        called: Sequence[int] | None = None,
        content: Sequence[float] | None = None,
        item: int = 0,
        view: int = 0,
        names: Sequence[str] | None = None,
    ) -> list[float]:
        """Compute each side's sum, ordered by side number.

        `order` lists the side in each slot. For each side, `called` gives the number of its label (None if there are no
        labels), and `content` gives the sum of its terms for style, length and identity. `names` lists the labels
        themselves, and is required if `label` is keyed by them.
        """
        sides = len(quality)
        slots, labels = self._slot(sides), self._labels(sides, names)
        at = {side: slot for slot, side in enumerate(order)}
        odds = []
        for side in range(sides):
            value = quality[side] + slots[at[side]]
            value += labels[called[side]] if called is not None else 0.0
            value += content[side] if content is not None else 0.0
            odds.append(value + self._noise * normal(self.seed, item, view, at[side]))
        return odds

    def log_odds_of(
        self,
        quality: ArrayLike,
        *,
        orders: ArrayLike,
        called: ArrayLike | None = None,
        content: ArrayLike | None = None,
        items: ArrayLike | None = None,
        views: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> Floats:
        """Compute `log_odds()` for many items and views at once, with bit-identical results.

        The result has shape [items, views, sides]. `quality` and `content` have shape [items, sides]. `orders` and
        `called` have shape [views, sides] or [items, views, sides]. `items` and `views` are the numbers used to draw
        noise (by default, counted from 0). Needs numpy.
        """
        import numpy as np

        quality = np.asarray(quality, dtype=float)[:, None, :]
        count, _, sides = quality.shape
        at = np.argsort(_views_first(orders), axis=-1)
        views = np.arange(at.shape[1]) if views is None else np.asarray(views)
        items = np.arange(count) if items is None else np.asarray(items)
        log_odds: Floats = quality + np.array(self._slot(sides))[at]
        log_odds = log_odds + (0.0 if called is None else np.array(self._labels(sides, names))[_views_first(called)])
        log_odds = log_odds + (0.0 if content is None else np.asarray(content, dtype=float)[:, None, :])
        if self._noise:
            log_odds = log_odds + self._noise * normals(self.seed, items[:, None, None], views[None, :, None], at)
        return log_odds

    def _labels(self, sides: int, names: Sequence[str] | None) -> list[float]:
        if self._named is None:
            return self._label(sides)
        return [self._named.get(name, 0.0) for name in names or ()] or [0.0] * sides

    def _quality_of(self, side: SimSide) -> float:
        if self._quality is None:
            return normal(self.seed, key_of(*side.texts), 0, 0)
        if callable(self._quality):
            return self._quality("\n".join(side.texts))
        if side.stance not in self._quality:
            raise ConfigurationError("SimJudge()", "quality", sorted(self._quality), f"must include {side.stance}")
        return self._quality[side.stance]

    def _content(self, side: SimSide) -> float:
        text = "\n".join(side.texts)
        words = {word.casefold() for word in _WORD.findall(" ".join((text, *side.speakers)))}
        known_words = sum(
            bonus
            for name, bonus in self._identity.items()
            if {word.casefold() for word in _WORD.findall(name)} <= words
        )
        return self._style * style_of(text) + self._length * length_of(text) + known_words


def style_of(text: str) -> float:
    """Measure emphasis on a scale from 0 to 1, based on exclamation marks and **bold** passages per sentence.

    >>> style_of("Yes! It is good."), style_of("It is good.")
    (0.5, 0.0)
    """
    return min(1.0, len(_MARKS.findall(text)) / max(1, len(_SENTENCE.findall(text))))


def length_of(text: str) -> float:
    """Return the base-2 logarithm of the number of words: 1 for two words, 2 for four.

    >>> length_of("It is quite good")
    2.0
    """
    return math.log2(max(1, len(_WORD.findall(text))))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _ladder(field: str, value: float | Sequence[float]) -> Callable[[int], list[float]]:
    """Return a function that computes the list of terms for a given number of slots or labels."""
    if isinstance(value, (int, float)):
        if not _is_number(value):
            raise ConfigurationError(
                "SimJudge()", field, value, "must be a number, or a list with one number per position"
            )
        return lambda places: [value * (places - 1 - place) / max(1, places - 1) for place in range(places)]
    values = list(value)
    if not all(map(_is_number, values)):
        raise ConfigurationError("SimJudge()", field, value, "must be a number, or a list with one number per position")

    def expand(places: int) -> list[float]:
        if len(values) != places:
            raise ConfigurationError(
                "SimJudge()",
                field,
                value,
                f"must be a number, or a list with one number for each of the {places} positions",
            )
        return [float(number) for number in values]

    return expand


def _views_first(value: ArrayLike) -> Integers:
    import numpy as np

    views = np.asarray(value)
    return views if views.ndim == 3 else views[None]  # noqa: PLR2004 - items, views, sides


# Largest difference at which sums of floats count as tied; `decide()` sums exactly, in fractions.
_SAME = 1e-12


class Decided(NamedTuple):
    """Decisions on a set of items, derived from their ballots."""

    scores: Floats
    """Each side's mean share of the points, or its share of the votes, as an array with shape [items, sides]."""
    leaders: NDArray[bool_]
    """Boolean array with shape [items, sides]: True for each side that leads, alone or tied."""


def orders_of(schedule: ScheduleLike, sides: int, *, random: Random | None = None, shuffle: bool = False) -> Integers:
    """Return a schedule's views as an array of side numbers with shape [views, sides].

    >>> orders_of("cyclic", 3).tolist()
    [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    """
    import numpy as np

    plan = schedule if isinstance(schedule, Schedule) else as_schedule(schedule, location="orders_of()")
    views = plan.views([str(side) for side in range(sides)], random=random, shuffle=shuffle)
    return np.array([[int(side) for side in view.order] for view in views])


def shares_of(log_odds: Floats) -> Floats:
    """Compute the softmax of the log-odds over the sides."""
    import numpy as np

    weights = np.exp(log_odds - log_odds.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def votes_of(shares: Floats) -> Floats:
    """Convert each ballot to a vote for the side with the largest share, split equally if several sides are tied."""
    first = shares >= shares.max(axis=-1, keepdims=True)
    votes: Floats = first / first.sum(axis=-1, keepdims=True)
    return votes


def decide_all(shares: Floats, *, by: str = "mean") -> Decided:
    """Compute the result of `decide()` for each item; all ballots must be valid."""
    scores = (votes_of(shares) if by == "vote" else shares).mean(axis=1)
    return Decided(scores, scores >= scores.max(axis=-1, keepdims=True) - _SAME)


def is_right(decided: Decided, best: ArrayLike) -> Floats:
    """Score each item's verdict: 1 if correct, 0 if wrong, or 1/n if the correct side is one of n tied leaders."""
    import numpy as np

    leaders = np.take_along_axis(decided.leaders, np.asarray(best)[:, None], axis=1)[:, 0]
    parts: Floats = leaders / decided.leaders.sum(axis=-1)
    return parts
