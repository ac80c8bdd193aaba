"""Every figure of docs/study.md from the shipped answers, by a script that uses none of this library."""

# ruff: noqa: ANN001, ANN201, ANN202, A001, B905, C901, D103, PLR0912 - short on purpose: whoever doubts the page reads all of it
# mypy: ignore-errors

import json
from collections import defaultdict
from math import exp, lgamma, log, sqrt
from statistics import NormalDist, fmean


def derive(lines, fixed):
    """Figures by method, comparison and change, from the lines of an answers file and what was registered."""
    last = {(a["design"], a["item"], a.get("repeat", 0)): a for a in map(json.loads, lines)}
    z, first, credits, said = NormalDist().inv_cdf((1 + fixed["confidence"]) / 2), fixed["methods"][0], {}, {}
    for method in fixed["methods"]:
        owner = next((each for each in (*fixed["designs"], "noise") if each == method.partition(":")[0]), first)
        asked = {key[1:]: a for key, a in last.items() if key[0] == owner}
        said[method] = {key: a["answers"][method] for key, a in asked.items() if method in a["answers"]}
        got = {key: score(m["answer"], asked[key]["truth"]) for key, m in said[method].items()}
        instead = (
            0.0 if method == owner or not got else fmean(got.values())
        )  # a failed debate is wrong, and no baseline's
        credits[method] = got | {key: instead for key, a in asked.items() if a.get("problem") and key not in got}
    methods = {}
    for method, own in credits.items():
        answers, amounts = list(said[method].values()), {}
        for name in ("calls", "tokens"):
            known = [a[name] for a in answers if a.get(name) is not None]
            amounts[name] = fmean(known) if known and len(known) >= 0.9 * len(answers) else None
        if own:
            undecided = sum(len(a["answer"]) != 1 for a in answers)
            ends = wilson(fmean(own.values()), len(own), z)
            methods[method] = [len(own), fmean(own.values()), *ends, undecided, amounts["calls"], amounts["tokens"]]
    compared = {}
    for pair in (fixed["primary"], *fixed["compare"]):
        one, other = (credits[name] for name in pair.split(" against "))
        keys = sorted(one.keys() & other.keys())
        if keys:
            a, b = [one[key] for key in keys], [other[key] for key in keys]
            apart = [x - y for x, y in zip(a, b)]
            won, lost = sum(d > 1e-9 for d in apart), sum(d < -1e-9 for d in apart)
            mixture = lgamma(won + 0.5) + lgamma(lost + 0.5) - lgamma(won + lost + 1) - 2 * lgamma(0.5)
            evidence = exp(mixture + (won + lost) * log(2))
            both = [one[key] - other[key] for key in keys if all(key in said[name] for name in pair.split(" against "))]
            better, worse = sum(d > 1e-9 for d in both), sum(d < -1e-9 for d in both)
            compared[pair] = [len(keys), better, worse, fmean(apart), *newcombe(a, b, z), flips(apart), evidence]
    ranked = sorted((each[6], pair) for pair, each in compared.items() if pair != fixed["primary"])
    least = 0.0
    for rank, (p, pair) in enumerate(ranked):
        least = compared[pair][6] = max(least, min(1.0, p * (len(ranked) - rank)))
    changes = defaultdict(list)
    for (design, *key), a in last.items():
        if design in fixed["designs"] and design in a["answers"]:
            end, alone = sole(a["answers"][design]), said.get(f"{design}:single", said["single"]).get(tuple(key))
            if alone:
                changes[f"one call, then {design}"].append(([[sole(alone), end]], end, a["truth"]))
            by_model = defaultdict(list)
            for ballot in a.get("ballots", []):
                by_model[ballot.get("model")].append(ballot.get("winner"))
            changes[f"ballots of {design}"].append(([*by_model.values()], end, a["truth"]))
    dynamics = {}
    for name, courses in changes.items():
        voices = [(voice[0] == truth, voice[-1] == truth, len(voice)) for own, _, truth in courses for voice in own]
        lost = [not end for begin, end, n in voices if begin and n > 1]
        won = [end for begin, end, n in voices if not begin and n > 1]
        came = fmean(end == truth for _, end, truth in courses)
        ever = fmean(truth in (end, *(each for voice in own for each in voice)) for own, end, truth in courses)
        if lost or won:
            shares = [fmean(each) if each else None for each in (lost, won)]
            dynamics[name] = [fmean(v[0] for v in voices), fmean(v[1] for v in voices), *shares, ever - came]
    return {"asked": len(last), "methods": methods, "comparisons": compared, "dynamics": dynamics}


def sole(said):
    return said["answer"][0] if len(said["answer"]) == 1 else None


def score(answer, truth):
    return (truth in answer) / len(answer) if answer else 0.0


def wilson(p, n, z):
    middle, half = p + z * z / 2 / n, z * sqrt(p * (1 - p) / n + (z / 2 / n) ** 2)
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def newcombe(a, b, z):
    n, p, q = len(a), fmean(a), fmean(b)
    (low, high), (low_q, high_q) = wilson(p, n, z), wilson(q, n, z)
    both, spread = fmean(x * y for x, y in zip(a, b)) - p * q, sqrt(p * (1 - p) * q * (1 - q))
    phi = (max(both - 1 / 2 / n, 0) if both > 0 else both) / spread if spread else 0

    def far(x, y):
        return sqrt(x * x - 2 * phi * x * y + y * y)

    return p - q - far(p - low, high_q - q), p - q + far(high - p, q - low_q)


def flips(apart):
    sizes, chances = [round(60 * each) for each in apart], {0: 1.0}  # in sixtieths: exact for any tie of up to six
    for size in filter(None, sizes):
        after = defaultdict(float)
        for total, chance in chances.items():
            after[total + size] += chance / 2
            after[total - size] += chance / 2
        chances = after
    return min(1.0, sum(chance for total, chance in chances.items() if abs(total) >= abs(sum(sizes))))
