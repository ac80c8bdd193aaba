"""Derive tables of published judgments without this library: --llmbar PATH --judgebench PATH --debate PATH."""

# ruff: noqa: E501
# fmt: off
import argparse
import json
import math
import re
from pathlib import Path

parser = argparse.ArgumentParser()
for option in ("--llmbar", "--judgebench", "--debate"):
    parser.add_argument(option, type=Path, required=True)
paths = parser.parse_args()
HEAD = "pairs | right in one order | decided by both orders | right among decided | first place won |"
RULE = "| --- | --- | --- | --- | --- | --- |"


def shown(hits: float, n: int) -> str:
    """Format a share with a Wilson interval."""
    z, share = 1.959963984540054, hits / max(n, 1)
    middle, scale = share + z * z / (2 * max(n, 1)), 1 + z * z / max(n, 1)
    half = z * math.sqrt(share * (1 - share) / max(n, 1) + (z / (2 * max(n, 1))) ** 2)
    return f"{share:.1%} [{max((middle - half) / scale, 0):.1%}, {min((middle + half) / scale, 1):.1%}]" if n else ""


def row(pairs: list) -> str:
    """Format figures for pairs of the right text, the choice with text 1 first, and the choice with text 2 first."""
    n, decided = len(pairs), [pair for pair in pairs if pair[1] is not None and pair[1] == pair[2]]
    one = sum((a == right) + (b == right) for right, a, b in pairs) / 2 / n
    places = [[choice == first for choice, first in ((a, "1"), (b, "2")) if choice is not None] for _, a, b in pairs]
    first = [sum(place) / len(place) for place in places if place]
    right = shown(sum(a == right for right, a, _ in decided), len(decided))
    return f"{n:,} | {one:.1%} | {len(decided) / n:.1%} | {right} | {sum(first) / len(first):.1%} |"


print(f"| judge | {HEAD}\n{RULE}")
for judge, name in (("GPT-4", "GPT-4"), ("PaLM2", "PaLM 2"), ("Falcon", "Falcon"), ("LLaMA2", "LLaMA 2"), ("ChatGPT", "ChatGPT")):
    pairs = []
    for path in sorted(paths.llmbar.glob(f"Dataset/LLMBar/**/evaluators/{judge}/Vanilla/result.json")):
        for pair in json.loads(path.read_text()):
            won = [str(pair["results"][-1][f"swap = {swap}"]["winner"]) for swap in ("False", "True")]
            pairs.append((str(pair["label"]), *(choice if choice in ("1", "2") else None for choice in won)))
    print(f"| {name} | {row(pairs)}")

print(f"\n| category | right, both orders combined | {HEAD}\n{RULE} --- |")
names = {"mmlu-pro": "knowledge", "livebench-reasoning": "reasoning", "livebench-math": "mathematics", "livecodebench": "coding"}
groups: dict = {name: [] for name in (*names.values(), "all")}
(path,) = paths.judgebench.glob("outputs/*response_model=gpt-4o-2024-05-13,judge_name=arena_hard,judge_model=o1-mini*.jsonl")
for line in path.read_text().splitlines():
    pair = json.loads(line)
    one, two = (judgment and judgment["decision"] for judgment in pair["judgments"])
    picks = {"A>B": "1", "B>A": "2"}[pair["label"]], {"A>B": "1", "B>A": "2"}.get(one), {"A>B": "2", "B>A": "1"}.get(two)
    for group in (next(group for source, group in names.items() if pair["source"].startswith(source)), "all"):
        groups[group].append(picks)
for name, pairs in groups.items():
    votes = [sum((choice == right) - (choice not in (right, None)) for choice in choices) for right, *choices in pairs]
    print(f"| {name} | {sum(vote > 0 for vote in votes) / len(votes):.2%} | {row(pairs)}")

print("\n| judge | debates | for PRO |\n| --- | --- | --- |")
read: dict = {}
for path in sorted(paths.debate.glob("reports/debate_matchup_judgments/*/*.md")):
    for debate in re.split(r"^## Debate [AB]$", path.read_text(), flags=re.MULTILINE)[1:]:
        ((pro, con),) = re.findall(r"^- roles: PRO = \*\*(.+)\*\*, CON = \*\*(.+)\*\*$", debate, re.MULTILINE)
        for judge, winner in re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| [+-]\d", debate, re.MULTILINE):
            read.setdefault(judge, []).append(1.0 if winner == pro else 0.0 if winner == con else 0.5)
for judge, ballots in sorted(read.items(), key=lambda entry: -len(entry[1])):
    print(f"| {judge} | {len(ballots):,} | {shown(sum(ballots), len(ballots))} |")
everything = [vote for ballots in read.values() for vote in ballots]
print(f"| all | {len(everything):,} | {shown(sum(everything), len(everything))} |")
