"""The marker "Transition to NAME", placed at the end of an answer to hand over to the next speaker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from flowdebate.prompts import AROUND, DECORATION, name_among


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Next speaker named in an answer, and the rest of the answer, as returned by `read_transition`."""

    text: str
    """Answer with the marker removed; the rest is unchanged."""
    name: str | None
    """Name as spelled in the roster, or as written in the answer if it is not in the roster; None if there is no
    marker.
    """


_MARKER = re.compile(r"\btransition[^\S\n]+to\b", re.IGNORECASE)
_LEAD = f"{DECORATION}-+•>=#→⇒.0123456789 \t\r"
"""Characters allowed before a marker that has a line to itself: bullets, numbers, quotes, markdown."""
# maximum number of markers to examine, starting from the last, because a model can write any number of them
_MAX_MARKERS = 50
_MAX_NAME_LENGTH = 2_000  # maximum length, in characters, of a name with every character escaped
# maximum length, in characters, of an unknown name; anything longer is a sentence about a transition
_MAX_STRANGER_LENGTH = 80


def read_transition(text: str, names: Iterable[str]) -> Transition:
    r"""Return the next speaker named in `text`, and the rest of the text.

    A marker consists of "Transition to" and one of `names`, in upper or lower case, and may contain quotes, brackets or
    Markdown. It must be at the end of the text or on a separate line. Only the last marker is removed. An unknown name
    is accepted only on the last line, and only if nothing else is on that line.

    >>> read_transition("Machines err.\n\n**Transition to: opponent.**", ["Proponent", "Opponent"])
    Transition(text='Machines err.', name='Opponent')
    >>> read_transition("As I said. Transition to opponent", ["Proponent", "Opponent"])
    Transition(text='As I said.', name='Opponent')
    >>> read_transition("The transition to Opponent rule failed.", ["Proponent", "Opponent"]).name is None
    True
    """
    roster = tuple(names)
    for marker in reversed(list(_MARKER.finditer(text))[-_MAX_MARKERS:]):
        line_start = text.rfind("\n", 0, marker.start()) + 1
        rest, _, following = text[marker.end() :].partition("\n")
        lead = text[line_start : marker.start()]
        is_alone, is_last = not lead.strip(_LEAD), not following.strip()
        if not (is_alone or is_last):
            continue
        written = rest.strip()
        name = _find_name(written, roster)
        if name is None and is_alone and is_last and len(written) <= _MAX_STRANGER_LENGTH:
            name = written.strip(f"{AROUND} ") or None
        if name is None:
            continue
        before = text[:line_start] if is_alone else text[: marker.start()].rstrip(DECORATION)
        return Transition(text=before.rstrip() if is_last else f"{before}{following}", name=name)
    return Transition(text=text, name=None)


def _find_name(written: str, roster: tuple[str, ...]) -> str | None:
    """Return the roster name that matches `written`, which may include an article or the rest of the sentence."""
    if not 0 < len(written) <= _MAX_NAME_LENGTH:
        return None
    bare = written.strip(f"{AROUND} ")
    candidates = (written, written.rstrip(".!?… "), re.sub("^the ", "", bare, flags=re.IGNORECASE))
    return next((name for candidate in candidates if (name := name_among(candidate, roster)) is not None), None)
