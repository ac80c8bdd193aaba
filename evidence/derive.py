"""Every figure of evidence/records/study.md from the shipped answers, without a line of this library."""

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
    """Figures by method, comparison and change, from the lines of an answers file and what was registered."""
    last = {(a["design"], a["item"], a.get("repeat", 0)): a for a in map(json.loads, lines)}
    alpha, said, credits, methods, compared = 1 - fixed["confidence"], {}, {}, {}, {}
    courses, places, leads = defaultdict(list), defaultdict(list), defaultdict(list)
    for method in fixed["methods"]:
        owner = next((d for d in (*fixed["designs"], "noise") if d == method.partition(":")[0]), fixed["methods"][0])
        asked = {key[1:]: a for key, a in last.items() if key[0] == owner}
        own = said[method] = {key: a["answers"][method] for key, a in asked.items() if method in a["answers"]}
        got = {key: credit(a["answer"], asked[key]) for key, a in own.items()}
        instead = fmean(got.values()) if got and method != owner else 0.0  # a failed debate is wrong, no baseline is
        credits[method] = got | {key: instead for key, a in asked.items() if a.get("problem") and key not in got}
        if n := len(credits[method]):
            known = [[a[name] for a in own.values() if a.get(name) is not None] for name in ("calls", "tokens")]
            means = [fmean(each) if len(each) >= max(1, 0.9 * len(own)) else None for each in known]
            right, undecided = fmean(credits[method].values()), sum(len(a["answer"]) != 1 for a in own.values())
            methods[method] = [n, right, *proportion_confint(n * right, n, alpha, "wilson"), undecided, *means]
    for pair in (fixed["primary"], *fixed["compare"]):
        one, other = pair.split(" against ")
        if keys := sorted(credits[one].keys() & credits[other].keys()):
            a, b = ([credits[name][key] for key in keys] for name in (one, other))
            better, worse = signs(x - y for x, y, key in zip(a, b, keys) if key in said[one] and key in said[other])
            won, lost = signs(x - y for x, y in zip(a, b))
            e_value = exp(betaln(won + 0.5, lost + 0.5) - betaln(0.5, 0.5) + (won + lost) * log(2))
            compared[pair] = [len(keys), better, worse, *newcombe(a, b, alpha), flips(a, b), e_value]
    if rest := [pair for pair in compared if pair != fixed["primary"]]:
        to_come = [1.0] * (len(fixed["compare"]) - len(rest))
        for pair, adjusted in zip(rest, multipletests([compared[p][6] for p in rest] + to_come, method="holm")[1]):
            compared[pair][6] = adjusted
    for (design, *key), a in last.items():
        if firsts := [each["winner"] == each["order"][0] for each in a.get("ballots", []) if each.get("winner")]:
            places[design].append(fmean(firsts))
        if a.get("ballots") and all(each.get("logOdds") for each in a["ballots"]):
            leads[design].append(sum(lead(each, a["truth"]) for each in a["ballots"]) > 0)
        if design in fixed["designs"] and design in a["answers"]:
            end, ballots = sole(a["answers"][design]), defaultdict(list)
            for ballot in a.get("ballots", []):
                ballots[ballot.get("model")].append(ballot.get("winner"))
            if alone := said.get(f"{design}:single", said["single"]).get(tuple(key)):
                courses[f"one call, then {design}"].append(([[sole(alone), end]], end, a["truth"]))
            courses[f"ballots of {design}"].append(([*ballots.values()], end, a["truth"]))
    changes = {name: change(found) for name, found in courses.items()}
    dynamics = {name: found for name, found in changes.items() if any(each is not None for each in found[2:4])}
    read = {name: [fmean(a), *proportion_confint(sum(a), len(a), alpha, "wilson")] for name, a in places.items()}
    found = {"asked": len(last), "methods": methods, "comparisons": compared, "dynamics": dynamics}
    found["noise_of"] = Counter(Counter(a["partner"] for a in last.values() if a.get("partner")).values())
    return found | {"first_read": read, "any_lead": {name: [len(each), fmean(each)] for name, each in leads.items()}}


def credit(answer, asked):
    """What is undecided is a lot among what it leaves open."""
    return (asked["truth"] in answer) / len(answer) if answer else 1 / len(asked["order"])


def lead(ballot, side):
    """The log-odds of a side less those of the other one, without what their lengths explain: up to four times."""
    other = next(each for each in ballot["order"] if each != side)
    longer = log(max(ballot["lengths"][side], 1) / max(ballot["lengths"][other], 1))
    longer = max(-log(4), min(longer, log(4)))
    return ballot["logOdds"][side] - ballot["logOdds"][other] - ballot["fit"]["perLogLength"] * longer


def sole(answer):
    return answer["answer"][0] if len(answer["answer"]) == 1 else None


def signs(gaps):
    found = Counter((gap > 1e-9) - (gap < -1e-9) for gap in gaps)
    return found[1], found[-1]


def newcombe(a, b, alpha):
    n, p, q = len(a), fmean(a), fmean(b)
    (low, high), (low_q, high_q) = (proportion_confint(n * share, n, alpha, "wilson") for share in (p, q))
    both, spread = fmean(x * y for x, y in zip(a, b)) - p * q, sqrt(p * (1 - p) * q * (1 - q))
    phi = (max(both - 1 / 2 / n, 0) if both > 0 else both) / spread if spread else 0
    below, above = (sqrt(x * x - 2 * phi * x * y + y * y) for x, y in ((p - low, high_q - q), (high - p, q - low_q)))
    return p - q, p - q - below, p - q + above


def flips(a, b):
    sizes, chances = [round(60 * (x - y)) for x, y in zip(a, b)], ones(1)  # exact for any tie of up to six
    for size in filter(None, map(abs, sizes)):
        chances = (append(chances, zeros(2 * size)) + append(zeros(2 * size), chances)) / 2
    totals = arange(len(chances)) - len(chances) // 2
    return min(1.0, chances[abs(totals) >= abs(sum(sizes))].sum())


def change(courses):
    voices = [(own[0] == truth, own[-1] == truth, len(own) > 1) for voice, _, truth in courses for own in voice]
    lost, won = ([is_now != was for was, is_now, twice in voices if twice and was is begun] for begun in (True, False))
    ever = fmean(truth in (end, *(said for own in voice for said in own)) for voice, end, truth in courses)
    shares = [fmean(each) if each else None for each in ([v[0] for v in voices], [v[1] for v in voices], lost, won)]
    return [*shares, ever - fmean(end == truth for _, end, truth in courses)]


if __name__ == "__main__":
    from pathlib import Path

    for path in sorted((Path(__file__).parent / "studies").glob("*.answers.jsonl")):
        registered = json.loads(
            path.with_name(path.name.replace("answers.jsonl", "registration.json")).read_text("utf-8")
        )
        print(json.dumps({path.name: derive(path.open(encoding="utf-8"), registered["fixed"])}, indent=1))
