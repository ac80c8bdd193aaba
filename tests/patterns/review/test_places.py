"""Locations as written by reviewers, with paths, lines and quotes copied from a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate.patterns.review.findings import locate
from flowdebate.sources.source import Page, Source

LOADER = """export async function load(rows: Array<string>): Promise<void> {
  const table = <Table>{rows[MAX]}</Table>;
  if (rows.length < 2) return;
  await save(rows);
}
"""
ROUTE = "export default function Page() {\n  return <p>{id}</p>;\n}\n"
FILES = (
    Source.of("src/load.ts", LOADER),
    Source.of("app/[id]/page.tsx", ROUTE),
    Source.of("Plan.pdf", "Trams open.\nThey are cheap.", pages=[Page(start=0, name="page 1")]),
)
CHANGE = """diff --git a/src/auth.py b/src/auth.py
--- a/src/auth.py
+++ b/src/auth.py
@@ -10,4 +10,5 @@ def login(user):
 name = user.name
-ok = check(name)
+ok = check_strictly(name, user.key)
+tries = 4
 audit(ok)
 return ok
"""
DIFF = (Source.of("change.diff", CHANGE),)


def locate_in(sources: tuple[Source, ...], **fields: Any) -> Any:
    """Look up a reviewer's location."""
    return locate(sources, **{"file": None, "line": None, "end_line": None, "quote": None, **fields})


@pytest.mark.parametrize(
    "file",
    [
        *("src/load.ts:4", "src/load.ts:4:9", "src/load.ts#L4", "src/load.ts, line 4", "src/load.ts (line 4)"),
        *("`src/load.ts:4`", "[src/load.ts]:4", "File: src/load.ts:4", "load.ts:4", "SRC/Load.ts:4", "./src/load.ts:4"),
        *("src\\load.ts:4", "b/src/load.ts:4", '"src/load.ts":4', "**src/load.ts** line 4", "/repo/src/load.ts:4"),
    ],
)
def test_line_numbers_after_a_path_are_parsed(file: str) -> None:
    """People and models write line numbers in many ways."""
    assert locate_in(FILES, file=file).text == "src/load.ts:4"


@pytest.mark.parametrize(
    "file", ["src\\load.ts", "`src/load.ts`", "[src/load.ts]", " src/load.ts ", "src/LOAD.ts", "'src/load.ts'"]
)
def test_different_spellings_of_a_path_are_recognized(file: str) -> None:
    place = locate_in(FILES, file=file, line=2)
    assert (place.text, place.found) == ("src/load.ts:2", True)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"file": "src/load.ts:2-4"}, "src/load.ts:2-4"),
        ({"file": "src/load.ts#L2-L4"}, "src/load.ts:2-4"),
        ({"file": "src/load.ts, lines 2 to 4"}, "src/load.ts:2-4"),
        ({"file": "src/load.ts", "line": 4, "end_line": 2}, "src/load.ts:2-4"),
        ({"file": "src/load.ts:4", "line": 3}, "src/load.ts:3"),
        ({"file": "app/[id]/page.tsx", "line": 1}, "app/[id]/page.tsx:1"),
        ({"file": "Plan.pdf, page 1", "quote": "They are cheap."}, "Plan.pdf:2"),
    ],
)
def test_ranges_brackets_and_pages_are_parsed(fields: Any, text: str) -> None:
    place = locate_in(FILES, **fields)
    assert (place.text, place.found) == (text, True)


@pytest.mark.parametrize("file", ["load", "ts", "src/other.ts:4", "notes 2", "[load.ts", ""])
def test_unknown_paths_do_not_match_any_file(file: str) -> None:
    """A wrong guess would attach the finding to an unrelated file."""
    place = locate_in(FILES, file=file, line=1)
    assert place.found is False


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("    4   await save(rows);", "src/load.ts:4"),
        ("  |     4   await save(rows);", "src/load.ts:4"),
        ("4: await save(rows);", "src/load.ts:4"),
        ("```ts\nawait save(rows);\n```", "src/load.ts:4"),
        ("`await save(rows);`", "src/load.ts:4"),
        ("“await save(rows);”", "src/load.ts:4"),
        ("if (rows.length < 2) return;\n  |     4   await save(rows);", "src/load.ts:3-4"),
        ("const table = ⟦U+003C⟧Table>{rows⟦U+005B⟧MAX]}⟦U+003C⟧/Table>;", "src/load.ts:2"),
        ("AWAIT save(rows) ;", "src/load.ts:4"),
    ],
)
def test_quotes_are_found_despite_prompt_decorations(quote: str, text: str) -> None:
    """Line numbers, bars, fences, diff signs and escapes are not part of the quote's wording."""
    place = locate_in(FILES, file="src/load.ts", quote=quote)
    assert (place.text, place.found) == (text, True)


@pytest.mark.parametrize("quote", ["    9   await save(rows);", "12 Trams open.", "7 They are cheap."])
def test_other_numbers_in_a_quote_count_as_words(quote: str) -> None:
    """No number may be dropped merely to make a quote match."""
    assert locate_in(FILES, quote=quote).found is False


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("+tries = 4", "src/auth.py:12"),
        ("tries = 4", "src/auth.py:12"),
        ("   12 +tries = 4", "src/auth.py:12"),
        ("+ok = check_strictly(name, user.key)", "src/auth.py:11"),
        ("-ok = check(name)", "src/auth.py"),
        ("-ok = check(name)\n+ok = check_strictly(name, user.key)", "src/auth.py:11"),
        ("name = user.name\nok = check_strictly(name, user.key)\ntries = 4", "src/auth.py:10-12"),
        ("name = user.name\nok = check(name)\naudit(ok)", "src/auth.py:10-13"),
    ],
)
def test_quotes_from_a_diff_are_found_with_or_without_diff_signs(quote: str, text: str) -> None:
    """The quote may come from either side of the change or from both. Removed lines have no line number."""
    place = locate_in(DIFF, quote=quote)
    assert (place.text, place.found) == (text, True)


def test_locations_outside_a_change_are_marked() -> None:
    """The file may contain a line that the diff does not show."""
    assert locate_in(DIFF, file="src/auth.py", line=1).problem == "line 1 of src/auth.py is not in this change"
    assert locate_in(DIFF, file="CHANGELOG.md", line=1).problem == "CHANGELOG.md is not in this change"
    assert locate_in(FILES, file="src/load.ts", line=99).problem == "src/load.ts has no line 99"
    assert locate_in(FILES, file="none.py", line=1).problem == "none.py is not in the material"


def test_quotes_found_in_another_file_change_the_location() -> None:
    """The quote is not in the file that was named, so the location changes and a note explains why."""
    place = locate_in(FILES, file="src/load.ts", line=1, quote="return <p>{id}</p>;")
    assert (place.text, place.found) == ("app/[id]/page.tsx:2", True)
    assert place.note == "cited as src/load.ts:1, but the quote is elsewhere in the material"
    assert locate_in(FILES, file="none.py", quote="return <p>{id}</p>;").text == "app/[id]/page.tsx:2"


def test_existing_lines_are_accepted_even_if_their_quote_is_not_found() -> None:
    place = locate_in(FILES, file="src/load.ts", line=1, quote="nowhere to be seen")
    assert (place.text, place.found) == ("src/load.ts:1", True)
    assert place.note == "the line exists, but the quote is not in the material"
    assert locate_in(FILES, file="src/load.ts", quote="nowhere to be seen").found is False


def test_quotes_match_despite_different_spelling() -> None:
    """Case, spacing and punctuation are ignored, just as they are in speakers' quotes."""
    place = locate_in(FILES, file="src/load.ts", quote="EXPORT async function “load” — rows: Array<string>")
    assert (place.text, place.found) == ("src/load.ts:1", True)
