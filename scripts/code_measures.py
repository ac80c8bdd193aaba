"""Measures of a source tree: the words in its names and docstrings, its annotations, and the size of its folders.

`make code-table` prints them. Each function takes the modules returned by `read_modules`, so that a test can set a
limit for a part of the tree.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

TOP = "(top)"
"""Name of the group of modules at the root of the tree."""

VAGUE = frozenset(
    {
        *("given", "found", "asked", "made", "told", "known", "said", "left", "each", "own", "kept", "shown", "named"),
        *("taken", "wanted", "chosen", "held", "began", "both", "others", "about", "where", "here", "there", "whole"),
        *("most", "least", "ours", "mine", "theirs"),
    }
)
"""Variable and parameter names that say nothing about the value."""

_QUESTION = "what|whether|which|who|whom|whose|where|when|why|how"
_PREPOSITION = (
    "about|above|against|among|as|at|before|after|behind|below|beside|between|by|during|for|from|in|inside|into|like|of"
    "|on|outside|over|per|since|through|to|under|until|with|within|without"
)
_NO_VERB = re.compile(
    rf"""[`'"“(*\d]|(?:an?|the|{_QUESTION}|{_PREPOSITION}"""
    "|it|its|this|that|these|those|they|their|he|she|you|your|we|our|i"
    "|one|each|every|all|any|both|some|no|none|nothing|another|other|such"
    r"|while|if|unless|not|only|so|also|and|or|but)\b",
    re.IGNORECASE,
)
_NO_SUBJECT = re.compile(rf"(?:the same|the ones?|that|those|these|none|{_QUESTION}|{_PREPOSITION})\b", re.IGNORECASE)
_WORD = re.compile(r"\w[\w'’-]*")
_RELATIVE = re.compile(r"\b(?:which|that|who|whom|whose)\b", re.IGNORECASE)
_BARE_HEAD = re.compile(
    r"\b(?:those|the ones?|what (?:is|was|are|were|has|have|it|a|the|they))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Module:
    """A parsed Python file."""

    path: PurePath
    """Path relative to the root of the tree."""
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, collected once: a walk takes as long as parsing."""
        return list(ast.walk(self.tree))

    @cached_property
    def docstrings(self) -> str:
        """Docstrings of the module, its classes, functions and attributes, one below the other."""
        documented = (node for node in self.nodes if isinstance(node, ast.Module | ast.ClassDef | Function))
        return "\n".join([*(ast.get_docstring(node) or "" for node in documented), *_attribute_docstrings([self])])

    @property
    def room(self) -> str:
        """Top-level folder of the module."""
        return self.path.parts[0] if len(self.path.parts) > 1 else TOP


@dataclass(frozen=True)
class AnyCount:
    """Number of annotations that are exactly `Any`, or an alias of it."""

    parameters: int
    returns: int
    assignments: int


def read_modules(root: Path) -> list[Module]:
    """Parse the Python files below `root`, or `root` itself if it is a file."""
    folder, paths = (root, sorted(root.rglob("*.py"))) if root.is_dir() else (root.parent, [root])
    texts = ((path.relative_to(folder), path.read_text("utf-8")) for path in paths)
    gc.disable()  # the trees are no garbage, but the collector would take twice as long as the parser
    try:
        return [Module(path, text, ast.parse(text)) for path, text in texts]
    finally:
        gc.enable()


def share_of_vague_names(modules: Iterable[Module]) -> float:
    """Return the share of variables and parameters with a name in `VAGUE`."""
    names = [
        node.arg if isinstance(node, ast.arg) else node.id
        for node in _nodes(modules)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return _share(name in VAGUE for name in names)


def count_suppressions(modules: Iterable[Module], rule: str) -> int:
    """Count the comments that suppress a linter rule."""
    return sum(len(re.findall(rf"#.*\bnoqa:.*\b{rule}\b", module.text)) for module in modules)


def count_any(modules: Sequence[Module]) -> AnyCount:
    """Count the parameters, returns and annotated assignments of type `Any`."""
    names = {"Any", *_aliases_of_any(modules)}

    def is_any(annotation: ast.expr | None) -> bool:
        if isinstance(annotation, ast.Constant):
            return annotation.value in names
        return (annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", None)) in names

    nodes = list(_nodes(modules))
    return AnyCount(
        parameters=sum(is_any(node.annotation) for node in nodes if isinstance(node, ast.arg)),
        returns=sum(is_any(node.returns) for node in nodes if isinstance(node, Function)),
        assignments=sum(is_any(node.annotation) for node in nodes if isinstance(node, ast.AnnAssign)),
    )


def count_locals_calls(modules: Iterable[Module]) -> int:
    """Count the calls of `locals()`."""
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals"
        for node in _nodes(modules)
    )


def factory_parameters(modules: Iterable[Module]) -> dict[str, int]:
    """Count the parameters of each pattern's factory, the function with the same name as its folder in `patterns/`."""
    parameters = {}
    for module in modules:
        for node in module.tree.body:
            if (
                isinstance(node, Function)
                and module.path.parts[:-1] == ("patterns", node.name)
                and not any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)
            ):
                spec = node.args
                count = len(spec.posonlyargs) + len(spec.args) + len(spec.kwonlyargs)
                parameters[node.name] = count + (spec.vararg is not None) + (spec.kwarg is not None)
    return parameters


def share_of_verb_headlines(modules: Iterable[Module]) -> float:
    """Return the share of documented functions whose docstring begins with a verb.

    Any first word counts as a verb unless it is an article, pronoun, preposition, question word or code. Properties are
    excluded, because they are documented like attributes.
    """
    headlines = (
        docstring
        for node in _nodes(modules)
        if isinstance(node, Function) and not _is_property(node) and (docstring := ast.get_docstring(node))
    )
    return _share(not _NO_VERB.match(headline) for headline in headlines)


def relative_clauses(modules: Iterable[Module]) -> float:
    """Count the words that may begin a relative clause, per 1,000 words of docstrings."""
    return _per_thousand_words(_RELATIVE, modules)


def bare_heads(modules: Iterable[Module]) -> float:
    """Count "those", "the one", "what is" and the like, per 1,000 words of docstrings."""
    return _per_thousand_words(_BARE_HEAD, modules)


def share_of_attributes_with_subject(modules: Iterable[Module]) -> float:
    """Return the share of attribute docstrings that name their subject.

    The others begin with "Those", "The same", a preposition or a question word.
    """
    return _share(not _NO_SUBJECT.match(docstring) for docstring in _attribute_docstrings(modules))


def lines_per_room(modules: Iterable[Module]) -> dict[str, int]:
    """Count the lines of each top-level folder."""
    lines: Counter[str] = Counter()
    for module in modules:
        lines[module.room] += module.text.count("\n")
    return dict(sorted(lines.items()))


def _nodes(modules: Iterable[Module]) -> Iterator[ast.AST]:
    return (node for module in modules for node in module.nodes)


def _share(matches: Iterable[bool]) -> float:
    values = list(matches)
    return sum(values) / len(values) if values else 0.0


def _aliases_of_any(modules: Iterable[Module]) -> Iterator[str]:
    for node in _nodes(modules):
        if isinstance(node, ast.ImportFrom):
            yield from (name.asname for name in node.names if name.name == "Any" and name.asname)
        elif (
            isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Name) and node.value.id == "Any"
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_property(function: Function) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in function.decorator_list)


def _attribute_docstrings(modules: Iterable[Module]) -> Iterator[str]:
    for node in _nodes(modules):
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement, following in pairwise(node.body):
                if (
                    isinstance(statement, ast.Assign | ast.AnnAssign)
                    and isinstance(following, ast.Expr)
                    and isinstance(following.value, ast.Constant)
                    and isinstance(following.value.value, str)
                ):
                    yield following.value.value


def _per_thousand_words(pattern: re.Pattern[str], modules: Iterable[Module]) -> float:
    text = "\n".join(module.docstrings for module in modules)
    words = len(_WORD.findall(text))
    return 1000 * len(pattern.findall(text)) / words if words else 0.0
