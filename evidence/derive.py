"""Derive every figure in evidence/records/study.md from the stored answers, without using this library."""

# ruff: noqa: A001, ANN001, ANN201, B905, C901, D103 - short on purpose: whoever doubts the page reads all of it
# mypy: ignore-errors

import json
from collections import Counter, defaultdict
from math import exp, log, sqrt
from statistics import fmean

from numpy import append, arange, ones, zeros
from scipy.special import betaln
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint


def derive(lines, fixed):
    """Compute the figures of methods, comparisons and changes from an answers file and its registration."""
    last = {(a["design"], a["item"], a.get("repeat", 0)): a for a in map(json.loads, lines)}
    alpha, answers, credits, methods, compared = 1 - fixed["confidence"], {}, {}, {}, {}
    courses, places, leads = defaultdict(list), defaultdict(list), defaultdict(list)
    for method in fixed["methods"]:
        owner = next((d for d in (*fixed["designs"], "noise") if d == method.partition(":")[0]), fixed["methods"][0])
        items = {key[1:]: a for key, a in last.items() if key[0] == owner}
        method_answers = answers[method] = {
            key: a["answers"][method] for key, a in items.items() if method in a["answers"]
        }
        scores = {key: credit(a["answer"], items[key]) for key, a in method_answers.items()}
        instead = (
            fmean(scores.values()) if scores and method != owner else 0.0
        )  # a failed debate counts as wrong, and its missing baselines get their mean
        credits[method] = scores | {key: instead for key, a in items.items() if a.get("problem") and key not in scores}
        if n := len(credits[method]):
            columns = [
                [a[name] for a in method_answers.values() if a.get(name) is not None] for name in ("calls", "tokens")
            ]
            means = [fmean(column) if len(column) >= max(1, 0.9 * len(method_answers)) else None for column in columns]
            right, undecided = (
                fmean(credits[method].values()),
                sum(len(a["answer"]) != 1 for a in method_answers.values()),
            )
            methods[method] = [n, right, *proportion_confint(n * right, n, alpha, "wilson"), undecided, *means]
    for pair in (fixed["primary"], *fixed["compare"]):
        one, second = pair.split(" against ")
        if keys := sorted(credits[one].keys() & credits[second].keys()):
            a, b = ([credits[name][key] for key in keys] for name in (one, second))
            better, worse = signs(
                x - y for x, y, key in zip(a, b, keys) if key in answers[one] and key in answers[second]
            )
            won, lost = signs(x - y for x, y in zip(a, b))
            e_value = exp(betaln(won + 0.5, lost + 0.5) - betaln(0.5, 0.5) + (won + lost) * log(2))
            compared[pair] = [len(keys), better, worse, *newcombe(a, b, alpha), flips(a, b), e_value]
    if rest := [pair for pair in compared if pair != fixed["primary"]]:
        to_come = [1.0] * (len(fixed["compare"]) - len(rest))
        for pair, adjusted in zip(rest, multipletests([compared[p][6] for p in rest] + to_come, method="holm")[1]):
            compared[pair][6] = adjusted
    for (design, *key), a in last.items():
        if firsts := [
            ballot_row["winner"] == ballot_row["order"][0]
            for ballot_row in a.get("ballots", [])
            if ballot_row.get("winner")
        ]:
            places[design].append(fmean(firsts))
        if a.get("ballots") and all(entry.get("logOdds") for entry in a["ballots"]):
            leads[design].append(sum(lead(entry, a["truth"]) for entry in a["ballots"]) > 0)
        if design in fixed["designs"] and design in a["answers"]:
            end, ballots = sole(a["answers"][design]), defaultdict(list)
            for ballot in a.get("ballots", []):
                ballots[ballot.get("model")].append(ballot.get("winner"))
            if alone := answers.get(f"{design}:single", answers["single"]).get(tuple(key)):
                courses[f"one call, then {design}"].append(([[sole(alone), end]], end, a["truth"]))
            courses[f"ballots of {design}"].append(([*ballots.values()], end, a["truth"]))
    changes = {name: change(course) for name, course in courses.items()}
    dynamics = {name: values for name, values in changes.items() if any(value is not None for value in values[2:4])}
    read = {name: [fmean(a), *proportion_confint(sum(a), len(a), alpha, "wilson")] for name, a in places.items()}
    figures = {"asked": len(last), "methods": methods, "comparisons": compared, "dynamics": dynamics}
    figures["noise_of"] = Counter(Counter(a["partner"] for a in last.values() if a.get("partner")).values())
    return figures | {
        "first_read": read,
        "any_lead": {name: [len(values), fmean(values)] for name, values in leads.items()},
    }


def credit(answer, item):
    """Return the chance of being right; an undecided answer is a random choice among the options it leaves open."""
    return (item["truth"] in answer) / len(answer) if answer else 1 / len(item["order"])


def lead(ballot, side):
    """Return how far a side's log-odds are ahead, less what the lengths explain (up to a ratio of 4)."""
    opponent = next(name for name in ballot["order"] if name != side)
    longer = log(max(ballot["lengths"][side], 1) / max(ballot["lengths"][opponent], 1))
    longer = max(-log(4), min(longer, log(4)))
    return ballot["logOdds"][side] - ballot["logOdds"][opponent] - ballot["fit"]["perLogLength"] * longer


def sole(answer):
    return answer["answer"][0] if len(answer["answer"]) == 1 else None


def signs(gaps):
    counts = Counter((gap > 1e-9) - (gap < -1e-9) for gap in gaps)
    return counts[1], counts[-1]


def newcombe(a, b, alpha):
    n, p, q = len(a), fmean(a), fmean(b)
    (low, high), (low_q, high_q) = (proportion_confint(n * share, n, alpha, "wilson") for share in (p, q))
    covariance, spread = fmean(x * y for x, y in zip(a, b)) - p * q, sqrt(p * (1 - p) * q * (1 - q))
    phi = (max(covariance - 1 / 2 / n, 0) if covariance > 0 else covariance) / spread if spread else 0
    below, above = (sqrt(x * x - 2 * phi * x * y + y * y) for x, y in ((p - low, high_q - q), (high - p, q - low_q)))
    return p - q, p - q - below, p - q + above


def flips(a, b):
    sizes, chances = [round(60 * (x - y)) for x, y in zip(a, b)], ones(1)  # exact for ties of up to six
    for size in filter(None, map(abs, sizes)):
        chances = (append(chances, zeros(2 * size)) + append(zeros(2 * size), chances)) / 2
    totals = arange(len(chances)) - len(chances) // 2
    return min(1.0, chances[abs(totals) >= abs(sum(sizes))].sum())


def change(courses):
    voices = [
        (winners[0] == truth, winners[-1] == truth, len(winners) > 1)
        for voice, _, truth in courses
        for winners in voice
    ]
    lost, won = (
        [is_now != first_right for first_right, is_now, twice in voices if twice and first_right is initial]
        for initial in (True, False)
    )
    ever = fmean(truth in (end, *(winner for winners in voice for winner in winners)) for voice, end, truth in courses)
    shares = [
        fmean(values) if values else None for values in ([v[0] for v in voices], [v[1] for v in voices], lost, won)
    ]
    return [*shares, ever - fmean(end == truth for _, end, truth in courses)]


if __name__ == "__main__":
    from pathlib import Path

    for path in sorted((Path(__file__).parent / "studies").glob("*.answers.jsonl")):
        registered = json.loads(
            path.with_name(path.name.replace("answers.jsonl", "registration.json")).read_text("utf-8")
        )
        print(json.dumps({path.name: derive(path.open(encoding="utf-8"), registered["fixed"])}, indent=1))
