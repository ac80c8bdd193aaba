"""Small folders in the formats of LLMBar, JudgeBench and the LLM Debate Benchmark, with made-up content."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from evidence.published import JUDGES, O1_MINI, SETS

PROMPTS = ("Vanilla", "CoT")
MODELS = ("Ann 1", "Bob 2", "Cy 3", "Dee 4")
READERS = ("Judge One", "Judge Two", "Judge Three")


def write_clones(folder: Path) -> tuple[Path, Path, Path]:
    """Write the three folders with random figures, and compute the published figures independently."""
    return write_llmbar(folder / "LLMBar"), write_judgebench(folder / "JudgeBench"), write_debate(folder / "debate")


def write_llmbar(clone: Path) -> Path:
    """Write judgments, most of them correct and some of them missing."""
    random = Random(1)
    for part in SETS:
        labels = [random.choice((1, 2)) for _ in range(4)]
        for judge in JUDGES:
            for prompt in (*PROMPTS, "Rating") if judge == "GPT-4" else PROMPTS:
                pairs: list[dict[str, Any]] = []
                for number, label in enumerate(labels):
                    winners = [random.choice(["1", "2", str(label), str(label), None]) for _ in range(2)]
                    result = {
                        f"swap = {swap}": {"completion": ["Output (a)", "stop"], "winner": winner}
                        for swap, winner in zip((False, True), winners, strict=True)
                    }
                    pairs.append({
                        "input": f"Do {number}.", "output_1": "Done.", "output_2": "No.", "label": label,
                        "results": [{"note": "an earlier step"}, result],
                    })  # fmt: skip
                won = [[pair["results"][-1][f"swap = {swap}"]["winner"] for swap in (False, True)] for pair in pairs]
                right = sum(w == str(p["label"]) for p, orders in zip(pairs, won, strict=True) for w in orders)
                equal = sum(one == second for one, second in won)
                figures = {"correct_average": f"{100 * right / 8}%", "equal": f"{equal} / 4 = {100 * equal / 4}%"}
                path = clone / "Dataset/LLMBar" / part / "evaluators" / judge / prompt
                path.mkdir(parents=True)
                (path / "result.json").write_text(json.dumps(pairs))
                (path / "statistics.json").write_text(json.dumps(figures))
    return clone


def write_judgebench(clone: Path) -> Path:
    """Write the decisions of one judge, including ties and missing ones."""
    random, path = Random(2), clone / O1_MINI
    path.parent.mkdir(parents=True)
    lines = []
    for number in range(40):
        source = ("mmlu-pro-law", "livebench-reasoning", "livebench-math", "livecodebench")[number % 4]
        label = random.choice(("A>B", "B>A"))
        decisions = [random.choice(["A>B", "B>A", "A=B", None]) for _ in range(2)]
        judgments = [None if decision is None else {"judgment": {}, "decision": decision} for decision in decisions]
        lines.append(json.dumps({"pair_id": f"p{number}", "source": source, "label": label, "judgments": judgments}))
    path.write_text("\n".join(lines) + "\n")
    return clone


def write_debate(clone: Path) -> Path:
    """Write matchups of four models on neutral motions, judged by three readers, one of whom favors PRO."""
    random, template = Random(3), "judge_x__debate_y"
    reports = clone / "reports/debate_matchup_judgments" / template
    reports.mkdir(parents=True)
    (clone / "transcripts").mkdir()
    strengths = dict(zip(MODELS, (1.0, 0.4, -0.2, -1.0), strict=True))
    for motion in range(20):
        for one, second in combinations(MODELS, 2):
            votes: list[float] = []
            parts = []
            for letter, (pro, con) in (("A", (one, second)), ("B", (second, one))):
                name = f"prop_{motion:04}__{pro}__{con}__{letter}".replace(" ", "-")
                rows = []
                for judge in READERS:
                    lean = strengths[pro] - strengths[con] + (1.2 if judge == READERS[0] else 0.2)
                    winner = pro if random.gauss(lean, 1.2) > 0 else con
                    margin = "+1.5" if winner == pro else "-1.5"
                    rows.append(f"| {judge} | {winner} | {margin} | {margin} | 7.0 |")
                    votes.append(1.0 if winner == one else -1.0)
                parts.append(
                    f"## Debate {letter}\n\n- debate_id: `{name}`\n- roles: PRO = **{pro}**, CON = **{con}**\n\n"
                    "| Judge | Winner | Signed Margin (PRO+) | Normalized | Entertainment |\n"
                    "| --- | --- | ---: | ---: | ---: |\n" + "\n".join(rows)
                )
                turns = [
                    f"## Turn {turn}: {side} Part\n\n- raw_words: 999\n- clipped_words: {random.randint(200, 300)}\n"
                    for turn, side in enumerate(("PRO", "CON", "PRO", "CON"), 1)
                ]
                (clone / "transcripts" / f"{name}.md").write_text("# Debate\n\n" + "\n\n".join(turns))
            result = one if sum(votes) > 0 else second if sum(votes) < 0 else "Tie"
            head = (
                f"# Report\n\n- topic_id: `prop_{motion:04}`\n- matchup: **{one}** vs **{second}**\n"
                f"- overall judged result (normalized): **{result}**\n- rating_eligible: `1`\n\n**Motion:** Words."
            )
            (reports / f"prop_{motion:04}-{one}-{second}.md").write_text("\n\n".join([head, *parts]))
    board = ["| Rank | Model | BT |", "| ---: | --- | ---: |"]
    board += [f"| {rank} | {model} | {1600 - 100 * rank} |" for rank, model in enumerate(MODELS, 1)]
    (clone / f"reports/debate_leaderboard__{template}.md").write_text("\n".join(board))
    return clone
