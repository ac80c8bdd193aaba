"""Registry of patterns, used by the command line, stored plans, batches, documents and servers.

`flowdebate.patterns` registers one pattern per subpackage; applications register their own with `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

    from flowdebate._util.wire import BaseEvent


@dataclass(frozen=True, kw_only=True)
class PatternInfo:
    """Description of a pattern; its import paths have the form "module:name" and are resolved on demand."""

    name: str
    """Name of the pattern, spelled the same in code, documents and plans."""
    factory: str
    """Import path of the pattern's function."""
    output: str
    """Import path of the pattern's raw output class."""
    subject: str
    """Name of the pattern's input field: "question", "topic", "proposition" or "task"."""
    page: str
    """Import path of the pattern's `Page`, which provides its options, document and sections to all front ends."""
    help: str
    """Purpose of the pattern, shown in lists and in its command's help. Its first sentence must fit on one line."""
    events: tuple[str, ...] = ()
    """Import paths of the event classes emitted only by this pattern; streams and pages pass these events
    on unchanged.
    """
    listed: bool = False
    """True if the help gives the command its own entry instead of listing it among the other patterns."""

    @property
    def verb(self) -> str:
        return self.name.replace("_", "-")

    def load_factory(self) -> Callable[..., Any]:
        factory: Callable[..., Any] = load(self.factory)
        return factory

    def load_output(self) -> type[BaseModel]:
        output: type[BaseModel] = load(self.output)
        return output

    def load_events(self) -> tuple[type[BaseEvent], ...]:
        return tuple(map(load, self.events))

    def load_page(self) -> Any:  # noqa: ANN401 - a page of flowdebate.ui, which stands above this package
        return load(self.page)


# import paths are strings, so that looking up a name does not import any pattern, or any page from a higher layer
PATTERNS: dict[str, PatternInfo] = {}
"""All patterns, keyed by name, in the order shown to users."""


def register(info: PatternInfo) -> None:
    """Register a pattern, replacing any registered pattern with the same name."""
    PATTERNS[info.name] = info


def load_patterns() -> Mapping[str, PatternInfo]:
    """Return all patterns, including the built-in ones, keyed by name.

    >>> sorted(load_patterns())[:2]
    ['consensus', 'council']
    """
    # importing the package registers its entries; this layer must not import it at load time
    import_module("flowdebate.patterns")
    return PATTERNS


def find_pattern(name: object) -> PatternInfo | None:
    """Return the pattern with this name or command name, or None if there is none.

    >>> found = find_pattern("round-robin")
    >>> found and found.name
    'round_robin'
    """
    for info in load_patterns().values():
        if name in (info.name, info.verb):
            return info
    return None


def load(place: str) -> Any:  # noqa: ANN401 - whatever is there
    """Import the object at an import path of the form "module:name"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
