"""The sources of a debate, as the command line names their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from flowdebate.cli.files import read_text
from flowdebate.cli.keys import MEGABYTES, Key, text
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.cli.keys import Given

__all__ = ("SOURCES", "SourceFiles", "sources_of")

SourceFiles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--source", metavar="FILE", help="A text that may be quoted; once for each. Quotes are looked up in it."
    ),
]
_IS_TEXT = text().fits
SOURCES = Key(
    fits=lambda value: (
        (isinstance(value, list) and all(map(_IS_TEXT, value)))
        or (isinstance(value, dict) and all(map(_IS_TEXT, value.values())))
    ),
    allowed="a list of paths of text files, or a table of texts by name",
    option="--source",
)


def sources_of(given: Given) -> dict[str, str] | None:
    """The texts by name: those that were given, or those of files, by the names of the files.

    BadFile for one that cannot be read; ConfigurationError for two of one name, and for one without text. A run that is
    kept has the texts themselves.
    """
    said = given["sources"]
    if not isinstance(said, list):
        return said or None
    where, field = given.place("sources")
    texts: dict[str, str] = {}
    for path in said:
        place = Path(where).parent / path if given.from_file("sources") else Path(path)
        if place.name in texts:
            raise ConfigurationError(where, field, path, "a file of another name than the others")
        texts[place.name] = read_text(str(place), megabytes=MEGABYTES)
        if not _IS_TEXT(texts[place.name]):
            raise ConfigurationError(where, field, path, "a file with text in it")
    given.put("sources", texts)
    return texts or None
