"""References to the documentation: web addresses, pages on the server, or page and section titles."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ADDRESS = ""
"""Public URL of the documentation, with a trailing slash; empty until it is published."""
ONE_MODEL = "models#one-model-everywhere"
"""Location of the documentation section about using one model for all roles."""
AGENT_CLIS = "models#agent-clis"
"""Location of the documentation section about using command-line agents as models."""
_NAME = re.compile(r"[a-z0-9_-]+")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#* *$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[^\w\- ]")


class Titles(NamedTuple):
    """Titles of a documentation page and of a section on it."""

    page: str
    section: str
    """Section title; empty if the location is a whole page."""

    def __str__(self) -> str:
        """Describe the location by its page and section titles.

        >>> str(Titles("Models", "")), str(Titles("Models", "Effort"))
        ('the page “Models” of the documentation', '“Effort” on the page “Models” of the documentation')
        """
        page = f"the page “{self.page}” of the documentation"
        return f"“{self.section}” on {page}" if self.section else page


def cite(place: str, *, address: str = ADDRESS) -> str:
    """Format a reference to a location such as "models#effort": its web address or, if there is none, its titles.

    >>> cite("models#one-model-everywhere")
    '“One model everywhere” on the page “Models” of the documentation'
    """
    if address:
        page, _, section = place.partition("#")
        return f"{address}{page}/{section and f'#{section}'}"
    return str(titles_of(place))


@cache
def titles_of(place: str) -> Titles:
    """Return the titles for a location, deriving them from its address if the pages are not installed."""
    page, _, section = place.partition("#")
    headings = headings_of(read_page(page) or "")
    titles = {slug(heading): heading for heading in reversed(headings)}
    return Titles(headings[0] if headings else _title_of(page), section and titles.get(section, _title_of(section)))


def headings_of(text: str) -> list[str]:
    """List the headings of a page, ignoring comments in code blocks."""
    return [_plain(match[1]) for match in _HEADING.finditer(_FENCE.sub("", text))]


def slug(heading: str) -> str:
    """Convert a heading to its anchor.

    >>> slug("Let people vote, `blind`")
    'let-people-vote-blind'
    """
    return _WORD.sub("", heading.lower()).strip().replace(" ", "-")


def read_page(name: str) -> str | None:
    """Read a page's Markdown; return None if there is no such page."""
    folder = _folder()
    file = folder / f"{name}.md"
    if not _NAME.fullmatch(name) or not file.is_file():
        return None
    return file.read_text("utf-8")


def _folder() -> Path:
    """Return the folder containing the pages, which is in the package or, in a checkout, next to the sources."""
    package = Path(__file__).parent.parent
    installed = package / "docs"
    return installed if installed.is_dir() else package.parent.parent / "docs"


def _plain(heading: str) -> str:
    return re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)


def _title_of(name: str) -> str:
    return re.sub(r"[-_]", " ", name).capitalize()
