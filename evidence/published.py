"""Published judgments, replayed: tables from clones of LLMBar, JudgeBench and the LLM Debate Benchmark.

`python -m evidence.published --llmbar PATH --judgebench PATH --debate PATH` writes the first section of
evidence/records/evidence.md and the figures in evidence/records/leaderboard.md. The data stays in the clones: only
figures are written, with the commits from which they come.
"""

# ruff: noqa: E501 - part of what follows is a page

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.leaderboard import audit_leaderboard, debate_table
from evidence.page import PUBLISHED_BEGIN as BEGIN
from evidence.page import PUBLISHED_END as END
from flowdebate.evaluation import ComparisonTable, compare_all
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.evaluation.audit_report import Figure
    from flowdebate.testing import ModelRequest

PAGE, AUDIT = Path("evidence/records/evidence.md"), Path("evidence/records/leaderboard.md")
SETS = ("Natural", "Adversarial/Neighbor", "Adversarial/GPTInst", "Adversarial/GPTOut", "Adversarial/Manual")
JUDGES = {"GPT-4": "GPT-4", "PaLM2": "PaLM 2", "Falcon": "Falcon", "LLaMA2": "LLaMA 2", "ChatGPT": "ChatGPT"}
CATEGORIES = {
    "mmlu-pro": "knowledge",
    "livebench-reasoning": "reasoning",
    "livebench-math": "mathematics",
    "livecodebench": "coding",
}
O1_MINI = "outputs/dataset=judgebench,response_model=gpt-4o-2024-05-13,judge_name=arena_hard,judge_model=o1-mini-2024-09-12.jsonl"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, and the one that a judge chose in each order."""

    truth: str
    one_first: str | None
    """The judge's choice, "1" or "2", when it read text 1 first; None if it chose neither."""
    two_first: str | None


async def replay(pairs: Sequence[Pair]) -> ComparisonTable:
    """Compare all pairs using a judge that answers as the published one did."""

    def answer(request: ModelRequest) -> dict[str, Any]:
        prompt = str(request.messages[-1]["content"])
        labels = {text: label for label, text in re.findall(r"^\[(\w+)\] Text (\d)\.$", prompt, re.MULTILINE)}
        match = re.search(r"Pair (\d+)", prompt)
        assert match is not None, prompt
        pair = pairs[int(match[1])]
        choice = pair.one_first if next(iter(labels)) == "1" else pair.two_first
        scores = {labels[text]: 50 if choice is None else 75 if text == choice else 25 for text in labels}
        return {"reasoning": "-", "scores": scores, "verdict": "-"}

    rows = [
        {"question": f"Pair {number}", "1": "Text 1.", "2": "Text 2.", "truth": pair.truth}
        for number, pair in enumerate(pairs)
    ]
    return await compare_all(rows, judges=[FunctionModel(answer, name="judge")], truth="truth", store=False)


def llmbar_pairs(clone: Path, part: str, judge: str, prompt: str) -> list[Pair]:
    """Read the judgments for one set, judge and prompt."""
    pairs = []
    for pair in json.loads(
        (clone / f"Dataset/LLMBar/{part}/evaluators/{judge}/{prompt}/result.json").read_text("utf-8")
    ):
        one, two = (str(pair["results"][-1][f"swap = {swap}"]["winner"]) for swap in ("False", "True"))
        pairs.append(Pair(str(pair["label"]), one if one in "12" else None, two if two in "12" else None))
    return pairs


def prompts_of(clone: Path) -> list[str]:
    """List the prompts that were used with all judges."""
    prompt_sets = [
        {path.name for path in (clone / f"Dataset/LLMBar/{SETS[0]}/evaluators/{judge}").iterdir()} for judge in JUDGES
    ]
    return sorted(set.intersection(*prompt_sets))


def matches_of(clone: Path) -> tuple[int, int, int]:
    """Replay all judges, prompts and sets.

    Returns the number of published figures that were reproduced, the number of all figures, and the number of
    comparisons.
    """
    equal = figures = comparisons = 0
    for judge in JUDGES:
        for prompt in prompts_of(clone):
            for part in SETS:
                folder = clone / f"Dataset/LLMBar/{part}/evaluators/{judge}/{prompt}"
                published = json.loads((folder / "statistics.json").read_text("utf-8"))
                pairs = llmbar_pairs(clone, part, judge, prompt)
                table = asyncio.run(replay(pairs))
                truth, flips = (
                    table.judges[0].truth,
                    sum(comparison.flips for comparison in table.comparisons if comparison),
                )
                assert truth is not None
                replayed = {"correct_average": truth.one_order.value, "equal": 1 - flips / len(pairs)}
                equal += sum(
                    isclose(float(published[name].split("= ")[-1].rstrip("%")), 100 * value, abs_tol=1e-9)
                    for name, value in replayed.items()
                )
                figures, comparisons = figures + len(replayed), comparisons + len(pairs)
    return equal, figures, comparisons


def llmbar_table(clone: Path) -> str:
    """Tabulate the judges' results with the prompt Vanilla, over all sets."""
    lines = [
        "| judge | pairs | right in one order | decided by both orders | right among decided | first place won |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for judge, name in JUDGES.items():
        pairs = [pair for part in SETS for pair in llmbar_pairs(clone, part, judge, "Vanilla")]
        lines.append(f"| {name} | {row_of(asyncio.run(replay(pairs)))} |")
    return "\n".join(lines)


def judgebench_pairs(clone: Path) -> dict[str, list[Pair]]:
    """Read o1-mini's judgments by category, with all pairs under "all"."""
    groups: dict[str, list[Pair]] = {name: [] for name in (*CATEGORIES.values(), "all")}
    for line in (clone / O1_MINI).read_text("utf-8").splitlines():
        pair = json.loads(line)
        one, two = ((judgment or {}).get("decision") for judgment in pair["judgments"])
        # in the second judgment, A is the text that was read first
        judged_pair = Pair(
            {"A>B": "1", "B>A": "2"}[pair["label"]],
            {"A>B": "1", "B>A": "2"}.get(one or ""),
            {"A>B": "2", "B>A": "1"}.get(two or ""),
        )
        category = next(name for source, name in CATEGORIES.items() if pair["source"].startswith(source))
        groups[category].append(judged_pair)
        groups["all"].append(judged_pair)
    return groups


def judgebench_table(clone: Path) -> str:
    """Tabulate o1-mini's results by category.

    The published figure is the share of right verdicts, with both orders combined into one verdict.
    """
    lines = [
        "| category | right, both orders combined | pairs | right in one order | decided by both orders | right among decided | first place won |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for category, pairs in judgebench_pairs(clone).items():
        table = asyncio.run(replay(pairs))
        assert table.truth is not None
        right = 0.0 if table.truth.right is None else table.truth.decided.value * table.truth.right.value
        lines.append(f"| {category} | {right:.2%} | {row_of(table)} |")
    return "\n".join(lines)


def row_of(table: ComparisonTable) -> str:
    """Format the figures of a table's only judge."""
    judge = table.judges[0]
    assert judge.truth is not None
    first = judge.first_place
    return " | ".join([
        f"{judge.truth.rows:,}", f"{judge.truth.one_order.value:.1%}", f"{judge.truth.decided.value:.1%}",
        with_interval(judge.truth.right), "" if first is None else f"{first.value:.1%}",
    ])  # fmt: skip


def with_interval(figure: Figure | None) -> str:
    """Format a share with its interval."""
    return "" if figure is None else f"{figure.value:.1%} [{figure.low or 0:.1%}, {figure.high or 0:.1%}]"


def commit_of(clone: Path) -> str:
    """Read the commit of a clone; return "(no commit)" for a folder without history."""
    folder = clone / ".git"
    if not (folder / "HEAD").exists():
        return "(no commit)"
    name = (folder / "HEAD").read_text("utf-8").strip()
    if name.startswith("ref: "):
        branch = name.removeprefix("ref: ")
        packed = folder / "packed-refs"
        lines = packed.read_text("utf-8").splitlines() if packed.exists() else []
        loose = [(folder / branch).read_text("utf-8").strip()] if (folder / branch).exists() else []
        name = next(iter((*loose, *(line.split()[0] for line in lines if line.endswith(f" {branch}")))), "(no commit)")
    return name[:12]


SECTION = """\
## Published judgements

The strongest evidence is not ours: judgements of real models, published by others. We replayed them through `compare_all()`, with a judge that
answers as published. The data sets are not copied; `python -m evidence.published --llmbar PATH --judgebench PATH --debate PATH` derives these tables
from clones, and `python evidence/published_check.py` with the same options derives them without using this library.

### LLMBar

[princeton-nlp/LLMBar](https://github.com/princeton-nlp/LLMBar) (MIT license) at `{llmbar_commit}`: pairs of answers, one of which follows
the instruction. Of its published figures for five judges, {prompts} prompts and five sets, {equal} of {figures} come out of {comparisons:,} replayed comparisons
to the digit. With the prompt *Vanilla*, over all sets:

{llmbar}

- Among pairs where both orders agree, a judge better than chance is right more often, and a bad judge less often. Over all pairs, counting
  disagreements as half, both orders together are as accurate as one.
- So the gain is knowing which verdicts not to trust.

### JudgeBench

[ScalerLab/JudgeBench](https://github.com/ScalerLab/JudgeBench) (no license file) at `{judgebench_commit}`, the judge o1-mini on answers of GPT-4o. The first column is
the figure that the benchmark publishes, and equal to it.

{judgebench}

### LLM Debate Benchmark

[lechmazur/debate](https://github.com/lechmazur/debate) (no license file) at `{debate_commit}`: ballots of judges on debates of models, each motion
debated twice, with the sides swapped. `rank_games()` on its matchups gives the published order with a Spearman correlation of {spearman:.2f}.

{debate}

The audit of this leaderboard is on [a separate page](leaderboard.md).
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the tables and write them."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence.published", description=(__doc__ or "").partition("\n")[0]
    )
    for name in ("llmbar", "judgebench", "debate"):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="PATH", help="a clone of the repository")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page whose first section it writes")
    parser.add_argument("--audit", type=Path, default=AUDIT, help="the page with the audit of the leaderboard")
    options = parser.parse_args(arguments)
    equal, figures, comparisons = matches_of(options.llmbar)
    audited = audit_leaderboard(options.debate)
    section = SECTION.format(
        llmbar_commit=commit_of(options.llmbar),
        judgebench_commit=commit_of(options.judgebench),
        debate_commit=commit_of(options.debate),
        prompts={8: "eight"}.get(len(prompts_of(options.llmbar)), len(prompts_of(options.llmbar))),
        equal=equal,
        figures=figures,
        comparisons=comparisons,
        llmbar=llmbar_table(options.llmbar),
        judgebench=judgebench_table(options.judgebench),
        spearman=audited.spearman,
        debate=debate_table(options.debate),
    )
    write_between(options.out, section)
    write_between(options.audit, audited.markdown(commit_of(options.debate)))


def write_between(path: Path, section: str) -> None:
    """Replace the text between the markers on a page."""
    before, _, rest = path.read_text("utf-8").partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{section.strip()}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
