"""Effect of each rule in the debater's full prompt on the local model: the same turns with and without the rule.

Each side of each debate speaks once, in the second round, after both sides' first arguments and the other side's
second. A rule is removed from the system message, and everything else stays the same. Decoding is greedy, so the
difference within a pair is due to the rule. `MODEL_FILE=path.gguf` runs it on another model; `--out` stores the turns,
one per line, and a run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate import DebateContributionEntry, generator
from flowdebate.chassis.roles import CONCRETE
from flowdebate.models import LocalModel, ModelSettings
from flowdebate.patterns.debate.debater import (
    DEBATER,
    DebaterIdentity,
    DebaterTemplate,
    render_debater_system,
    render_debater_turn,
)
from injection_debates import DEBATES
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from injection_debates import Side, TwoSided

LENGTH = "about 120 words"
RULES = {
    "answer the strongest": "Answer the strongest arguments against your position, not only the latest one.",
    "be concrete": CONCRETE,
    "concede nothing": "- Defend your position throughout, without conceding it.",
    "add something new": (
        "Then strengthen the case for it with something new instead of repeating what has been said."
    ),
    "plain, so long": "- Write in plain text: {length}. Do not start with a tag or a name.",
}
SETTINGS = ModelSettings(temperature=0.0, max_tokens=220, timeout=None)


def without(rule: str) -> DebaterTemplate:
    """Remove a rule from the system message, or from the task of a turn."""
    system = DEBATER.system.replace(f"{RULES[rule]}\n", "").removesuffix(f"\n{RULES[rule]}")
    rebuttal = DEBATER.rebuttal.replace(RULES[rule], "").strip()
    changed = replace(DEBATER, system=system, rebuttal=rebuttal)
    assert changed != DEBATER, rule  # noqa: S101 - or the prompt has changed, and this table with it
    return changed


VARIANTS = {"all rules": DEBATER, **{rule: without(rule) for rule in RULES}}


def heard(debate: TwoSided, speaker: Side) -> list[DebateContributionEntry]:
    """Return the arguments before `speaker`'s second turn."""
    (opponent,) = (side for side in debate.sides if side is not speaker)
    arguments = [(1, side, side.first) for side in debate.sides] + [(2, opponent, opponent.second)]
    return [
        DebateContributionEntry(
            round=number, agent_name=f"side {debate.sides.index(side)}", stance=side.stance, text=text
        )
        for number, side, text in arguments
    ]


def turns() -> Iterator[tuple[str, TwoSided, Side]]:
    """Yield an id, a debate and a speaker for each turn of a variant."""
    for number in (0, 1):
        for debate in DEBATES:
            yield f"{debate.id}/{number}", debate, debate.sides[number]


def speak(model: LocalModel, debate: TwoSided, speaker: Side, template: DebaterTemplate) -> str:
    stances = [side.stance for side in debate.sides]
    rules = render_debater_system(
        question=debate.question, stances=stances, max_rounds=2, length=LENGTH, template=template
    )
    identity = DebaterIdentity(stance=speaker.stance, positions=tuple(stances), max_rounds=2)
    turn = render_debater_turn(identity, entries=heard(debate, speaker), round=2, template=template)
    block = generator(name="debater", prompt=rules, user=turn, settings=SETTINGS)
    return str(block.run_sync(None, model=model).output)


# Features measured in a turn


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def content(text: str) -> set[str]:
    """Return approximate stems of the longer words, cut to their first six letters."""
    return {word[:6] for word in words(text) if len(word) > 4}


def runs_of_three(text: str) -> set[tuple[str, ...]]:
    tokens = words(text)
    return set(zip(tokens, tokens[1:], tokens[2:], strict=False))


def answers(text: str, debate: TwoSided, speaker: Side) -> float:
    """Compute the share of words in the other side's two arguments that the turn takes up."""
    opposing = content(
        " ".join(argument.text for argument in heard(debate, speaker) if argument.stance != speaker.stance)
    )
    return len(opposing & content(text)) / len(opposing)


def repeats(text: str, debate: TwoSided, speaker: Side) -> float:
    """Compute the share of three-word runs in the turn that anybody has used before."""
    runs = runs_of_three(text)
    before = set().union(*(runs_of_three(argument.text) for argument in heard(debate, speaker)))
    return len(runs & before) / len(runs) if runs else 0.0


def concrete(text: str, *_: object) -> float:
    """Return whether the turn contains a figure or announces an example."""
    return float(bool(re.search(r"\d|for example|for instance|such as|like when", text, re.IGNORECASE)))


def invents(text: str, *_: object) -> float:
    """Return whether the turn claims a study, a report or a percentage, although no source was provided."""
    return float(
        bool(re.search(r"\bstud(y|ies)\b|\breports?\b|research|survey|according to|\d ?%|percent", text.lower()))
    )


def concedes(text: str, *_: object) -> float:
    """Return whether the turn concedes something to the other side, in one of the usual phrases."""
    usual = (
        r"while (it is|it's|there|the|i)\b|although|i (agree|understand)|valid|fair point|(it is|it's) true|acknowledge"
    )
    return float(bool(re.search(usual, text.lower())))


def marked(text: str, *_: object) -> float:
    """Return whether the turn begins with a tag or uses Markdown."""
    return float(
        bool(re.match(r"\s*[\[|]|\s*[\w ]{1,40}:", text) or re.search(r"\*\*|^#|^\s*(\d\.|[-*]) ", text, re.MULTILINE))
    )


def length(text: str, *_: object) -> float:
    return float(len(words(text)))


MEASURES: dict[str, Callable[[str, TwoSided, Side], float]] = {
    "words": length,
    "takes up": answers,
    "repeats": repeats,
    "concrete": concrete,
    "invents": invents,
    "concedes": concedes,
    "tag, Markdown": marked,
}


def cell(values: list[float], base: list[float] | None) -> str:
    """Format a mean, or the mean paired difference from `base`."""
    if base is None:
        return f"{statistics.mean(values):.2f}"
    gaps = [one - baseline for one, baseline in zip(values, base, strict=True)]
    return f"{statistics.mean(gaps):+.2f} ± {2 * statistics.stdev(gaps) / len(gaps) ** 0.5:.2f}"


def compare(out: Path, spoken: Sequence[tuple[str, TwoSided, Side]]) -> None:
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    texts = {(line["variant"], line["turn"]): line["text"] for line in lines}
    model = LocalModel(os.environ.get("MODEL_FILE"))
    for turn, debate, side in spoken:
        for name, template in VARIANTS.items():
            if (name, turn) not in texts:
                texts[name, turn] = speak(model, debate, side, template)
                with out.open("a") as file:
                    file.write(json.dumps({"variant": name, "turn": turn, "text": texts[name, turn]}) + "\n")
    measured = {
        name: {
            label: [measure(texts[name, turn], debate, side) for turn, debate, side in spoken]
            for label, measure in MEASURES.items()
        }
        for name in VARIANTS
    }
    baseline = measured["all rules"]
    print_table(
        "Turns of the local model, with all rules and without one",
        ["", *MEASURES],
        [
            [name if values is baseline else f"without: {name}"]
            + [cell(values[label], None if values is baseline else baseline[label]) for label in MEASURES]
            for name, values in measured.items()
        ],
        note=f"{len(spoken)} turns each; without a rule: differences by pairs, and two standard errors.",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/rules.jsonl"))
    parser.add_argument(
        "--turns", type=int, default=2 * len(DEBATES), help="the first so many, one of each debate first"
    )
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    compare(options.out, list(turns())[: options.turns])
