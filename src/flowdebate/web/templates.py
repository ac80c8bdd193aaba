"""Jinja template rendering: untrusted text is escaped, and hidden characters are made visible."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from flowdebate.service.runs import ago, short_id, to_datetime
from flowdebate.ui.sections import FLAGS
from flowdebate.ui.statuses import RESUMABLE, STATUSES, status_mark
from flowdebate.ui.text import as_json, cost_text, printable
from flowdebate.web.forms import role_title
from flowdebate.web.manual import cited
from flowdebate.web.prose import inline, prose
from flowdebate.web.run.sheet import duration

if TYPE_CHECKING:
    from jinja2 import Environment


_STATIC = files("flowdebate.web").joinpath("static")
_UNKNOWN = "\N{EN DASH}"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SPACES = re.compile(r"\s+")
_LONG = 220
"""Maximum number of characters in a result shown in normal type; longer results are shown in smaller type."""


def render(template: str, **data: object) -> str:
    """Render a page from its template, escaping all text in `data`."""
    return _environment().get_template(f"{template}.html").render(**data)


def macro(name: str, *arguments: object) -> str:
    """Render the macro `name`, escaping its arguments."""
    return str(getattr(_environment().get_template("pieces.html").module, name)(*arguments))


def _unprintable(part: object) -> str:
    """Raise an error for a page part without a template, rather than silently dropping it."""
    raise TypeError(type(part).__name__)


@cache
def assets() -> dict[str, bytes]:
    """Return all style sheets, scripts and pictures loaded by pages, keyed by name."""
    contents = sorted(_STATIC.iterdir(), key=lambda path: path.name)
    return {content.name: content.read_bytes() for content in contents if content.is_file()}


def asset(name: str) -> str:
    """Return a style sheet or script as text.

    Files for notebooks are in a separate folder, because pages do not load them.
    """
    return _STATIC.joinpath(name).read_text("utf-8")


@cache
def style_of(*names: str) -> str:
    """Join style sheets into one line and strip their comments, because each notebook page and report embeds a copy."""
    sheets = _COMMENT.sub("", "".join(asset(name) for name in names))
    return _SPACES.sub(" ", sheets).strip()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("flowdebate.web"),
        autoescape=True,
        auto_reload=False,  # Otherwise, every update of a live page would check whether its template has changed.
        undefined=StrictUndefined,
        # Escaping handles only markup, not characters that hide or reverse text.
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        prose=prose,
        cited=cited,
        inline=inline,
        json=as_json,
        exact=json.dumps,  # ASCII only, so that `finalize` finds no hidden characters in it
        words=_humanize,
        singular=_singular,
        error=_humanize_error,
        failure=_failure,
        role=role_title,
        count=lambda number: _UNKNOWN if number is None else f"{number:,}",
        seconds=lambda number: _UNKNOWN if number is None else f"{number:.1f}",
        when=lambda seconds: ago(time.time() - seconds) or f"{to_datetime(seconds):%Y-%m-%d}",
        date=lambda seconds: f"{to_datetime(seconds):%-d %B %Y}",
        cost=lambda run: _UNKNOWN if run.cost is None else cost_text(run.cost, run.prices),
        took=lambda seconds: _UNKNOWN if seconds is None else duration(seconds).replace(" seconds", " s"),
        kind=lambda value: type(value).__name__,
        status=status_mark,
        unprintable=_unprintable,
        form=lambda status: STATUSES[status].form if status in STATUSES else "none",
        short=short_id,
        is_long=lambda text: len(text) > _LONG,
        ratio=lambda values: " : ".join(f"{100 * value:.0f}" for value in values),
    )
    environment.globals.update(FLAGS=FLAGS, RESUMABLE=RESUMABLE, shares=shares)
    return environment


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def shares(values: Sequence[float]) -> list[tuple[float, float]]:
    """Compute where each share's bar starts and how wide it is, on a line 100 units long.

    >>> shares([0.44, 0.56])
    [(0.0, 43.0), (45.0, 55.0)]
    """
    bars, x = list[tuple[float, float]](), 0.0
    for at, value in enumerate(values):
        width = 100 * value
        left_edge, right = (1.0 if at else 0.0), (1.0 if at < len(values) - 1 else 0.0)
        bars.append((round(x + left_edge, 2), round(max(width - left_edge - right, 0.0), 2)))
        x += width
    return bars


def _humanize_error(name: str) -> str:
    """Convert an error's name to words.

    >>> _humanize_error("CircuitOpen"), _humanize_error("SchemaViolation")
    ('circuit open', 'the answer could not be read')
    """
    if name in ("SchemaViolation", "MalformedResponse"):
        return "the answer could not be read"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _failure(text: str) -> str:
    """Describe why a run failed, without the error class and schema fields, which are in a collapsed section.

    >>> _failure("SchemaViolation: the answer does not match its schema: `ranking.0` is missing (block 'b', model 'm')")
    "a model's answer could not be read"
    >>> _failure("StoreError: no space is left")
    'no space is left'
    """
    if text.startswith("SchemaViolation: "):
        return "a model's answer could not be read"
    words = re.sub(r"\A\w+: ", "", text)
    return re.split(r": (?=`)| \((?:block|model) '", words, maxsplit=1)[0]


_SPELLINGS = {"lincoln_douglas": "Lincoln\N{EN DASH}Douglas", "devils_advocate": "Devil's advocate"}
"""Spellings of names in which underscores cannot simply be replaced with spaces."""


def _singular(plural: str) -> str:
    """Return the singular of `plural` with an indefinite article.

    >>> _singular("Agents"), _singular("phases")
    ('an agent', 'a phase')
    """
    noun = plural.lower().removesuffix("s")
    return f"{'an' if noun[:1] in set('aeiou') else 'a'} {noun}"


def _humanize(name: object) -> str:
    """Convert a name to words.

    >>> _humanize("round_robin")
    'Round robin'
    """
    if str(name) in _SPELLINGS:
        return _SPELLINGS[str(name)]
    words = str(name).replace("_", " ")
    return words[:1].upper() + words[1:]
