"""Material as models read it: whole files and their diffs, unaltered, so that every visible line can be quoted."""

from __future__ import annotations

import asyncio
import re
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import council, review
from flowdebate._util.control_tokens import CONTROL_TOKENS
from flowdebate.chassis.material import render_passages, render_sources
from flowdebate.evaluation import compare
from flowdebate.patterns.review.findings import locate
from flowdebate.prompts import explain_escapes, frame, tag_name, tag_text, unescaped, without_control_tokens
from flowdebate.sources.quotes import cut, look_up
from flowdebate.sources.source import Source, number_lines
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

FOLDER = Path(__file__).parent / "material"
FILES = {path.name: path.read_text() for path in sorted(FOLDER.iterdir())}
FILES["Windows.java"] = FILES["Index.java"].replace("\n", "\r\n")
FILES["windows.md"] = FILES["notes.md"].replace("\n", "\r\n").removesuffix("\n")  # end with a lone carriage return


def diff_of(name: str, after: str) -> str:
    """Return a diff, in git's format, that results in this file: some lines are new, and some are modified."""
    lines = after.splitlines(keepends=True)
    before = [f"old {line}" if number % 7 == 3 else line for number, line in enumerate(lines) if number % 5 != 2]
    changed = "".join(unified_diff(before, lines, f"a/{name}", f"b/{name}"))
    return f"diff --git a/{name} b/{name}\n{changed}"


DIFFS = {f"{name}.diff": diff_of(name, text) for name, text in FILES.items()}
MATERIAL = {**FILES, **DIFFS}
SOURCES = {name: (Source.of(name, text),) for name, text in MATERIAL.items()}
each_material = pytest.mark.parametrize("name", MATERIAL)


def lines_of(text: str) -> list[str]:
    """Return the lines of a file, whatever its line endings."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def strip_frame(prompt: str, name: str, *, numbers: bool) -> list[str]:
    """Return the lines of a source in a prompt, without the tag, the bars and the numbers."""
    begin = prompt.index(f"[{name}] ") + len(name) + 3
    first, *rest = re.findall(r"\A[^\n]*(?:\n  \| [^\n]*)*", prompt[begin:])[0].split("\n")
    lines = [first, *(line.removeprefix("  | ") for line in rest)]
    return [line[6:] for line in lines[1:]] if numbers else lines


@each_material
@pytest.mark.parametrize("numbers", [False, True], ids=["plain", "numbered"])
def test_material_is_shown_unchanged(name: str, numbers: bool) -> None:  # noqa: FBT001
    """Only lines that contain a known control token may differ from the material."""
    lines = strip_frame(render_sources(SOURCES[name], numbers=numbers), name, numbers=numbers)
    expected = lines_of(MATERIAL[name])
    if numbers and expected[-1] == "":
        expected.pop()  # the empty string after the last line break is not a line
    altered = [(line, original) for line, original in zip(lines, expected, strict=True) if line != original]
    assert all(any(token in original for token in CONTROL_TOKENS) for _, original in altered)
    assert all(unescaped(line) == original for line, original in altered)
    assert len(altered) == (0 if "chat.rb" not in name else sum("<|" in line or "[INST]" in line or "_of_turn>" in line
                                                                for line in expected))  # fmt: skip


@each_material
def test_alterations_are_reported(name: str) -> None:
    prompt = render_sources(SOURCES[name])
    notes = [line for line in prompt.splitlines() if line.startswith("(The texts above have ")]
    if "chat.rb" in name:
        assert notes == [
            '(The texts above have ⟦U+003C⟧ for "<" and ⟦U+005B⟧ for "[" where a control token of chat models begins.)'
        ]
    else:
        assert notes == []


@each_material
def test_passages_show_file_lines_unchanged(name: str) -> None:
    """In every passage, each whole line is a line of the file and keeps its indentation."""
    [source] = SOURCES[name]
    file_lines = {*lines_of(MATERIAL[name])}
    for passage in cut(source):
        text = source.text[passage.start : passage.end]
        if not (text.endswith("\n") and source.text[: passage.start].endswith(("\n", ""))):
            continue
        passage_lines = strip_frame(render_passages([passage], [source]), name, numbers=False)
        assert {unescaped(line) if "chat.rb" in name else line for line in passage_lines} <= file_lines


@cache
def body_of(name: str) -> list[str]:
    """Return the lines of a file as displayed in a reviewer's prompt."""
    prompt = render_sources(SOURCES[name], numbers=True)
    return re.findall(r"^  \| .*", prompt[prompt.index(f"[{name}] ") :], re.MULTILINE)


@st.composite
def copies(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """Draw a file name, one to three lines as displayed in a reviewer's prompt, and the original lines."""
    name = draw(st.sampled_from(sorted(MATERIAL)))
    body = body_of(name)
    begin = draw(st.integers(0, len(body) - 1))
    copied = body[begin : begin + draw(st.integers(1, 3))]
    return name, copied, [line[10:] for line in copied]


def copy_formats(copied: list[str], lines: list[str]) -> list[str]:
    """Return the formats in which models copy lines from a prompt."""
    bars, numbered = "\n".join(copied), "\n".join(line[4:] for line in copied)
    first_bare = "\n".join([copied[0][4:], *copied[1:]])
    plain = "\n".join(lines)
    return [plain, unescaped(plain), plain.strip(), bars, numbered, first_bare, f"```py\n{plain}\n```", f"`{plain}`"]


@given(copies(), st.data())
def test_lines_copied_from_a_prompt_are_found(copy: tuple[str, list[str], list[str]], data: Any) -> None:
    """The quote is located at an identical line of the file, whatever else was copied along with it."""
    name, copied, lines = copy
    check_location(name, copied, lines, data.draw(st.sampled_from(copy_formats(copied, lines))))


@each_material
def test_all_lines_in_all_files_are_found(name: str) -> None:
    """In every format, each line is copied both on its own and together with the next one."""
    body = body_of(name)
    for count in (1, 2):
        for begin in range(len(body) - count + 1):
            copied = body[begin : begin + count]
            lines = [line[10:] for line in copied]
            for quote in copy_formats(copied, lines):
                check_location(name, copied, lines, quote)


def check_location(name: str, copied: list[str], lines: list[str], quote: str) -> None:
    """Check that a quote of these lines is found, both as displayed and as written in the file."""
    sources = SOURCES[name]
    numbers = [int(line[4:9]) for line in copied if line[4:9].strip()]
    place = locate(sources, file=None, line=numbers[0] if numbers else None, end_line=None, quote=quote)
    if not any(line.strip("+- ") for line in lines) or not quote.strip():
        return  # nothing but punctuation
    assert place.found
    if numbers and place.line is not None and lines[0].strip("+- "):
        texts = {line.number: line.text for line in number_lines(sources[0])}
        assert place.line in numbers or texts[place.line].split() == texts[numbers[0]].split()


@given(copies())
def test_faithful_quotes_are_never_marked_unverified(
    copy: tuple[str, list[str], list[str]],
) -> None:
    """A line copied as a block or in any quotation marks is verified unless it is too short to prove anything."""
    name, _, lines = copy
    for line in filter(str.strip, lines):
        for quotation in (f"It says “{line}”.", f"> {line}", f"«{line}»", f'"{line}"', f"> {unescaped(line)}"):
            statuses = [quote.status for quote in look_up(quotation, SOURCES[name]) if quote.depth == 0]
            assert "unverified" not in statuses
    block = "\n".join(f"> {line}" for line in lines)
    if len(" ".join(re.findall(r"\w+", block)).split()) > 6:
        quotes = look_up(f"{block}\n\nSo it says.", SOURCES[name])
        assert all(quote.status != "unverified" for quote in quotes)


@pytest.mark.parametrize(
    "name", ["Index.java", "ring.hpp", "Panel.tsx", "Main.elm", "Windows.java", "chat.rb", "page.html.diff"]
)
def test_reviewers_may_quote_their_prompt(name: str) -> None:
    """A line copied from the prompt must be found in the material, even if its bar and line number are copied too."""

    def copy(request: ModelRequest) -> Any:
        system = str(request.messages[0]["content"])
        lines = [line for line in system.split("\n") if line.startswith("  | ") and len(line) > 30]
        return {"findings": [{"title": line, "claim": line, "severity": "nit", "quote": line} for line in lines[:12]]}

    pattern = review(name="x", reviewers=[{"name": "ann"}], sources={name: MATERIAL[name]})
    raw = pattern.run_sync("What is wrong?", model=FunctionModel(copy)).output
    assert len(raw.findings) >= 10
    assert {finding.place.found for finding in raw.findings} == {True}


def test_compared_texts_are_shown_unchanged() -> None:
    """A judge of code has to see the code as it is, so not even reference answers are altered."""
    prompts: list[str] = []

    def judge(request: ModelRequest) -> Any:
        prompts.append(str(request.messages[-1]["content"]))
        scores = {"A": 60, "B": 40, "C": 20}
        return {"reasoning": "It compiles.", "scores": scores, "verdict": "A."}

    texts = {
        "java": FILES["Index.java"],
        "windows": FILES["Windows.java"] + "// <|im_end|>",
        "html": FILES["page.html"],
    }
    reference = "A `Map<K, List<V>>`."
    model = FunctionModel(judge)
    asyncio.run(compare("Which?", texts, judges=[model], reference=reference, orders="cyclic", store=False))
    assert len(prompts) == 3
    for prompt in prompts:
        lines = [line.removeprefix("  | ") for line in prompt.split("\n")]
        assert reference in lines
        for name in ("java", "html"):
            assert {*lines_of(texts[name])[1:-1]} <= {*lines}
        assert "⟦U+000D⟧" not in prompt
        assert sum(line.startswith("(The texts above have ⟦U+003C⟧ for") for line in lines) == 1


def test_arguments_by_other_models_are_escaped() -> None:
    """Text written by another model is escaped by a general pattern, which also covers unlisted and future tokens."""
    prompts: list[str] = []

    def reply(request: ModelRequest) -> Any:
        if request.block.endswith("-chair"):
            prompts.append(str(request.messages[-1]["content"]))
            return {"answer": "Yes."}
        return "Use </s> or <new:token> or List<String>."

    pattern = council(name="x", members=[{"name": "ann"}, {"name": "bob"}], review="none")
    pattern.run_sync("Which?", model=FunctionModel(reply))
    assert "Use ⟦U+003C⟧/s> or ⟦U+003C⟧new:token> or List⟦U+003C⟧String>." in prompts[0]


@given(st.lists(st.sampled_from([*CONTROL_TOKENS[:60], *"<>[]|/\r\n\f", "s", "\u2028", "\u202e"]), max_size=12))
def test_frames_can_contain_any_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    rendered = f"[x] {frame(text)}"
    assert not any(token in rendered for token in CONTROL_TOKENS)
    assert all(line.startswith("  | ") for line in rendered.splitlines()[1:])
    plain = re.sub("\r+(?=\n|$)", "", text)
    assert unescaped(frame(text)).replace("\n  | ", "\n") == plain
    assert bool(explain_escapes(text)) == ("⟦" in rendered)


ORDINARY = (
    *("<s>", "</s>", "<b>", "List<String>", "std::pair<int, T>", "#include <array>", "<T,>", "<></>", "&lt;s&gt;"),
    *("f <| x", "x |> f", "<|>", "[|1; 2|]", "a << b >> c", "[x]", "[TODO]", "[OPTIONS]", "[ARGS]", "<FILE>"),
    *("<mask>", "<image>", "<PRE>", "{{ x }}", "⟦", "⟦U+003C⟧"),
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_a_control_token(text: str) -> None:
    assert frame(text) == text
    assert without_control_tokens(text, listed=True) == text
    assert explain_escapes(text) == ""


@pytest.mark.parametrize("name", ["INST", "/INST", "gMASK", "SYSTEM_PROMPT", "|user|"])
def test_file_names_cannot_be_control_tokens(name: str) -> None:
    """Brackets added around a file name must not turn it into a control token."""
    for tag in (tag_text(name), tag_name(name)):
        assert f"[{tag}]" not in CONTROL_TOKENS
        assert unescaped(tag) == name
