"""The command on the runs that are stored: what they were started with, and who answers them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from flowdebate.cli.app import app
from tests.cli.siblings import ANSWERS
from tests.cli.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

_SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents")
_SCORES = {"reasoning": "It answered.", "scores": {"cap rents": 80, "free rents": 20}, "verdict": "Cap them."}


def _ranked(schema: str) -> dict[str, Any]:
    """A ranking of all the letters that stand in the schema of a review, in their order there."""
    letters: list[str] = json.loads(re.findall(r'"enum": (\[[^]]*\])', schema)[0])
    return {"ranking": [{"answer": letter, "reason": "Sound."} for letter in letters]}


_SAME: dict[str, Any] = {
    "scores": _SCORES,
    "ranking": _ranked,
    "dissent": {"answer": "Cap them at 3%.", "dissent": "How soon."},
    **{
        word: said[-1 if word == "SETTLED" else 0] if isinstance(said, list) else said for word, said in ANSWERS.items()
    },
    "findings": {"findings": [{"title": "No figures", "claim": "Nobody says how many.", "severity": "major"}]},
}
"""What is answered, by a word of the schema: the same to everybody, so that it may be asked for in any order."""

BEGUN: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": ("run", (*_SIDES, "--rounds", "2", "--moderator", "--synthesize")),
    "run-panel": ("run", (*_SIDES, "--rounds", "1", "--schedule", "swap", "--panel", "staged", "--panel", "other")),
    "deliberate": ("deliberate", ("--rounds", "2")),
    "handoff": ("handoff", ("--turns", "3")),
    "consensus": ("consensus", ("--rounds", "1")),
    "panel": ("panel", ("--rounds", "1", "--referee")),
}
"""The verb and the options of each command that has started runs, by its name."""
BEGUN_SECOND: dict[str, tuple[str, tuple[str, ...]]] = {
    "debate": ("debate", (*_SIDES, "--rounds", "2", "--moderator", "--synthesizer")),
    "debate-panel": (
        "debate",
        (*_SIDES, "--rounds", "1", "--schedule", "swap", "--panel", "staged", "--panel", "other"),
    ),
    "deliberation": ("deliberation", ("--rounds", "2")),
    "handoff": ("handoff", ("--turns", "3")),
    "consensus": ("consensus", ("--rounds", "1")),
    "round-robin": ("round-robin", ("--rounds", "1", "--referee")),
    "council": ("council", ("--review", "all")),
}
"""The same for the second edition, in which each is the verb of its pattern."""
BEGUN_THIRD = {name: begun for name, begun in BEGUN_SECOND.items() if name not in ("consensus", "council")}
"""The same for the third edition, of the patterns whose prompts were shortened."""
BEGUN_FOURTH: dict[str, tuple[str, tuple[str, ...]]] = {"review": ("review", ("--gate", "no confirmed blocker"))}
"""The same for the fourth edition, of reviews."""
BEGUN_FIFTH = {name: begun for name, begun in BEGUN_THIRD.items() if name.startswith("debate")}
"""The same for the fifth edition, of debates."""
UNTIL = {"run-panel": 3, "consensus": 5}
"""After how many calls, 2 unless it stands here, a limit ended those that are to be resumed."""
PARKED = (*_SIDES, "--rounds", "1", "--human", "judge", "--park")
"""With these, a run waits for a human to judge it."""
UNTIL_LATER = {"review": 2, "deliberation": 2, "consensus": 8, "council": 5}
"""After how many calls, 3 unless it stands here, a limit ended those of later editions."""
VERDICT = '{"reasoning": "It answered.", "winner": "cap rents", "verdict": "Cap them."}'
"""What the human says."""


def stage(**more: Any) -> Stage:
    """What answers the command."""
    decision = {"nextSpeakers": ["pro", "con"], "briefing": "Rents rose.", "newAngle": "Who pays?", "done": False}
    return Stage(turns=(("Homes ", "first."),), answers=_SAME, decision=decision, **more)


def command(*arguments: str, store: Path) -> Result:
    """The command in this process, on the runs that are kept at `store`."""
    looks = {"TERM": "dumb", "NO_COLOR": "1", "FLOWDEBATE_STORE": str(store)}
    return CliRunner(env=looks).invoke(app, list(arguments), catch_exceptions=False)
