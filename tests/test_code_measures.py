"""Code metrics: `make code-table` counts vague names, untyped code, and weak docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.code_measures import (
    TOP,
    AnyCount,
    Module,
    bare_heads,
    count_any,
    count_locals_calls,
    count_suppressions,
    factory_parameters,
    lines_per_room,
    read_modules,
    relative_clauses,
    share_of_attributes_with_subject,
    share_of_vague_names,
    share_of_verb_headlines,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def parse(tmp_path: Path) -> Callable[..., list[Module]]:
    """Write files and parse them into a tree."""

    def write(text: str, *, path: str = "module.py") -> list[Module]:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return read_modules(tmp_path)

    return write


def test_vague_names_are_counted_at_their_binding(parse: Callable[..., list[Module]]) -> None:
    modules = parse("def find(given, path):\n    found = given\n    return found, given, path\n")
    assert share_of_vague_names(modules) == pytest.approx(2 / 3)


def test_typing_any_behind_an_alias_is_counted(parse: Callable[..., list[Module]]) -> None:
    modules = parse(
        "import typing\nfrom typing import Any, TypeAlias\nValue: TypeAlias = Any\n"
        "size: typing.Any = 1\n"
        "def call(first: Any, *rest: Value, **named: dict[str, Any]) -> 'Any': ...\n"
    )
    assert count_any(modules) == AnyCount(parameters=2, returns=1, assignments=1)


def test_suppressions_and_calls_to_locals_are_counted(parse: Callable[..., list[Module]]) -> None:
    """Comments about other rules do not count, and neither do methods named `locals`."""
    modules = parse("a = locals()  # noqa: E501, ANN401 - a reason\nb = c.locals()  # noqa: E501\n")
    assert count_suppressions(modules, "ANN401") == 1
    assert count_locals_calls(modules) == 1


def test_factory_is_named_after_its_folder(parse: Callable[..., list[Module]]) -> None:
    parse("def debate(a): ...\n", path="patterns/other/factory.py")
    modules = parse(
        "@overload\ndef debate(a): ...\ndef debate(a, *, b, **c): ...\ndef helper(a): ...\n",
        path="patterns/debate/factory.py",
    )
    assert factory_parameters(modules) == {"debate": 3}


@pytest.mark.parametrize(
    ("docstring", "share"),
    [
        ("Return the ballots.", 1),
        ("The ballots.", 0),
        ("What is left.", 0),
        ("Of the last round.", 0),
        ("`run`, for scripts.", 0),
        ("Its path.", 0),
    ],
)
def test_headlines_that_begin_with_a_verb_are_counted(
    parse: Callable[..., list[Module]], docstring: str, share: int
) -> None:
    """Properties are documented like attributes, without a verb, so they are not counted."""
    modules = parse(
        f'def count():\n    """{docstring}"""\nclass A:\n    @property\n    def b(self):\n        """The b."""\n'
    )
    assert share_of_verb_headlines(modules) == share


def test_relative_clauses_and_bare_pronouns_are_counted_per_thousand_words(parse: Callable[..., list[Module]]) -> None:
    modules = parse('"""Options that those of a run replace."""\n\nsize = 1\n"""What is left of it."""\n')
    assert relative_clauses(modules) == pytest.approx(1000 / 12)
    assert bare_heads(modules) == pytest.approx(2000 / 12)


def test_attribute_docstrings_without_a_subject_are_counted(parse: Callable[..., list[Module]]) -> None:
    modules = parse(
        'class Limits:\n    calls: int\n    """Maximum number of calls."""\n'
        '    tokens: int\n    """The same for tokens."""\n'
        '    rest: int\n    """Those of others."""\n    seconds: int\n    """The time limit in seconds."""\n'
    )
    assert share_of_attributes_with_subject(modules) == pytest.approx(1 / 2)


def test_lines_are_counted_by_top_level_folder(parse: Callable[..., list[Module]]) -> None:
    """All modules directly in the package's top-level folder are counted as one group."""
    parse("a = 1\nb = 2\n", path="models/openai/chat.py")
    parse("a = 1\n", path="models/call.py")
    assert lines_per_room(parse("a = 1\n")) == {TOP: 1, "models": 3}
