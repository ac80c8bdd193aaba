"""Audit of the LLM Debate Benchmark with this library: sides, lengths, motions and agreement between judges."""

# ruff: noqa: E501 - part of what follows is a page

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from random import Random
from statistics import correlation, fmean, pvariance
from typing import TYPE_CHECKING

from flowdebate.evaluation import (
    BallotFile,
    BallotRow,
    ContentAudit,
    Game,
    Ranking,
    cohen_kappa,
    content_audit,
    rank_games,
)
from flowdebate.evaluation.statistics import holm, share_interval, sign_flip_test
from flowdebate.patterns.debate.judging.ballots import effective_n

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.evaluation.audit_report import Figure

_MIN_COMMON = 50
"""Minimum number of debates read by both judges for a comparison between them."""


@dataclass(frozen=True, slots=True)
class Matchup:
    """Two debates on one motion, with the sides swapped."""

    motion: str
    systems: tuple[str, str]
    winner: str | None
    """Winner of both debates together; None for a tie."""
    eligible: bool
    debates: tuple[str, ...]


def read_matchups(clone: Path) -> tuple[list[Matchup], list[BallotRow]]:
    """Read all matchups with their ballots, and count the words of both sides in the transcripts."""
    matchups, ballots = [], []
    for path in sorted(clone.glob("reports/debate_matchup_judgments/*/*.md")):
        head, *debates = re.split(r"^## Debate [AB]$", path.read_text("utf-8"), flags=re.MULTILINE)
        motion = _find(r"^- topic_id: `(.+)`", head)
        names = []
        for debate in debates:
            name = _find(r"^- debate_id: `(.+)`", debate)
            sides = [_find(rf"^- roles: .*{side} = \*\*(.+?)\*\*(?:,|$)", debate) for side in ("PRO", "CON")]
            lengths = _words(clone / "transcripts" / f"{name}.md")
            names.append(name)
            for judge, winner in re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| [+-]\d", debate, re.MULTILINE):
                choice = {sides[0]: "PRO", sides[1]: "CON"}.get(winner)
                ballots.append(
                    BallotRow(
                        item=name, cluster=motion, judge=judge, order=["PRO", "CON"], systems=sides, choice=choice,
                        lengths=lengths,
                    )
                )  # fmt: skip
        one, second = re.findall(r"\*\*(.+?)\*\*", _find(r"^- matchup: (.+)$", head))
        result = _find(r"^- overall judged result \(normalized\): \*\*(.+)\*\*", head)
        eligible = _find(r"^- rating_eligible: `(\d)`", head) == "1"
        winner = result if result in (one, second) else None
        matchups.append(Matchup(motion, (one, second), winner, eligible, tuple(names)))
    return matchups, ballots


def _find(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"no line like {pattern!r} in a report")
    return match[1]


def _words(path: Path) -> list[float] | None:
    """Count the words of both sides; return None if there is no transcript."""
    if not path.exists():
        return None
    words = Counter[str]()
    for side, number in re.findall(
        r"^## Turn \d+: (PRO|CON)\b.*?^- clipped_words: (\d+)", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        words[side] += int(number)
    return [float(words["PRO"]), float(words["CON"])]


def debate_table(clone: Path) -> str:
    """Tabulate how often each judge votes for PRO."""
    _, ballots = read_matchups(clone)
    lines = ["| judge | debates | for PRO |", "| --- | --- | --- |"]
    file = BallotFile(ballots)
    judges = sorted(file.judges, key=lambda judge: -len(file.of_judge(judge).ballots))
    for judge in (*judges, "all"):
        votes = [_vote(ballot) for ballot in (file if judge == "all" else file.of_judge(judge)).ballots]
        lines.append(f"| {judge} | {len(votes):,} | {_share(fmean(votes), len(votes))} |")
    return "\n".join(lines)


def _vote(ballot: BallotRow) -> float:
    return {"PRO": 1.0, "CON": 0.0}.get(ballot.choice or "", 0.5)


def _share(value: float, n: int) -> str:
    low, high = share_interval(value, n)
    return f"{value:.1%} [{low:.1%}, {high:.1%}]"


@dataclass(frozen=True, slots=True)
class Preference:
    """How much more often one judge votes for PRO than another, in debates that both have read."""

    one: str
    other: str
    debates: int
    difference: float
    p: float
    """P-value, adjusted for the number of pairs by Holm's method."""


@dataclass(frozen=True, slots=True)
class LeaderboardAudit:
    """Influences on ballots besides the debaters, and agreement between judges."""

    spearman: float
    listed: int
    spearman_of_all: float
    listed_of_all: int
    """Number of systems compared if a weak prior makes it possible to rank all of them."""
    ranking: Ranking
    agreement: tuple[str, str, float, float, int]
    """The two judges with the most ballots, their share of agreement, kappa, and the number of debates."""
    same_side: tuple[float, int]
    """Share of matchups in which the same side won both debates, and the number of matchups."""
    preferences: list[Preference]
    content: ContentAudit
    correlation: float
    effective: float
    judges: int
    motions: int
    motion_p: float
    motion_sd: float

    def markdown(self, commit: str) -> str:
        """Format the figures as a section of the page."""
        one, second, agreed, kappa, debates = self.agreement
        share, matchups = self.same_side
        length, order = self.content.effects.get("length"), self.content.effects.get("order")
        outside = [name for names in (self.ranking.above, self.ranking.below, self.ranking.apart) for name in names]
        rows = "\n".join(
            f"| {preference.one} | {preference.other} | {preference.debates} | {100 * preference.difference:+.1f} points | {_p(preference.p)} |"
            for preference in self.preferences
        )
        return f"""\
Snapshot of lechmazur/debate at `{commit}`.

### Known beforehand

| figure | value |
| --- | --- |
| Spearman correlation of `rank_games()` on matchups with the published order of {self.listed} models | {self.spearman:.3f} |
| the same with `prior=5`, which ranks all systems: {self.listed_of_all} models | {self.spearman_of_all:.3f} |
| systems outside the largest connected part, which are listed as above or below | {len(outside)} |
| agreement of {one} and {second} on {debates:,} debates | {agreed:.1%}, κ {kappa:.2f} |
| matchups of {matchups:,} in which the same *side* won both debates | {share:.1%} |

### New

**P1. Sides, on the same debates.** How much more often the first judge is for PRO than the second, on the debates that both read; *p* is that of the
exact sign-flip test over motions, adjusted for {len(self.preferences)} pairs.

| judge | against | debates | more for PRO | p |
| --- | --- | --- | --- | --- |
{rows}

**P2 and P3. Length and side, at equal strength.** In one regression over {self.content.ballots:,} ballots: a side with twice as many words has
{_effect(length)}, and PRO (which speaks first) has {_effect(order)}. Both are log-odds; brackets are 95% intervals over motions.

**P4. Independent judges.** What two judges say about a debate beyond what its debaters explain correlates by {self.correlation:.2f}, in the mean of
{len(self.preferences)} pairs. {self.judges} judges with this correlation are worth {self.effective:.1f}.

**P5. The motion.** {self.motions} motions have four debates or more. Their shares for PRO differ more than by chance: *p* {_p(self.motion_p)}; the standard
deviation between motions is {self.motion_sd:.2f} log-odds.
"""


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".lstrip("0")


def _effect(figure: Figure | None) -> str:
    if figure is None:
        return "no effect that could be measured"
    between = "without an interval" if figure.low is None else f"[{figure.low:+.2f}, {figure.high or 0:+.2f}]"
    return f"{figure.value:+.2f} {between}"


def audit_leaderboard(clone: Path) -> LeaderboardAudit:
    """Audit the leaderboard in a clone of lechmazur/debate."""
    matchups, ballots = read_matchups(clone)
    games = [Game(*matchup.systems, _result(matchup), matchup.motion) for matchup in matchups if matchup.eligible]
    ranking = rank_games(games, order=False)
    published = _published_order(clone)
    spearman, listed = _agreement(ranking, published)
    spearman_of_all, listed_of_all = _agreement(rank_games(games, order=False, prior=5), published)
    read: dict[str, dict[str, float]] = {}
    motion_of = {ballot.item: ballot.cluster or "" for ballot in ballots}
    for ballot in ballots:
        read.setdefault(ballot.judge or "", {})[ballot.item] = _vote(ballot)
    one, second_judge = sorted(read, key=lambda judge: -len(read[judge]))[:2]
    shared = [debate for debate in read[one] if debate in read[second_judge]]
    agreed = fmean(read[one][debate] == read[second_judge][debate] for debate in shared)
    kappa = cohen_kappa([read[one][debate] for debate in shared], [read[second_judge][debate] for debate in shared])
    sides = {debate: fmean(votes[debate] for votes in read.values() if debate in votes) for debate in motion_of}
    decided = [
        [sides[debate] for debate in matchup.debates]
        for matchup in matchups
        if len(matchup.debates) == 2 and all(sides.get(debate, 0.5) != 0.5 for debate in matchup.debates)
    ]
    agreements = [(first > 0.5) == (second > 0.5) for first, second in decided]
    measured = [ballot for ballot in ballots if ballot.choice is not None and ballot.lengths is not None]
    content = content_audit(BallotFile(measured).choices)
    rho = _correlation(ballots, read)
    motions, motion_p, motion_sd = _motions(sides, motion_of)
    return LeaderboardAudit(
        spearman=spearman, listed=listed, spearman_of_all=spearman_of_all, listed_of_all=listed_of_all, ranking=ranking, agreement=(one, second_judge, agreed, kappa or 0.0, len(shared)),
        same_side=(fmean(agreements), len(agreements)), preferences=_preferences(read, motion_of), content=content, correlation=rho,
        effective=effective_n(len(read), rho), judges=len(read), motions=motions, motion_p=motion_p, motion_sd=motion_sd,
    )  # fmt: skip


def _result(matchup: Matchup) -> float:
    return 0.5 if matchup.winner is None else float(matchup.winner == matchup.systems[0])


def _agreement(ranking: Ranking, published: Sequence[str]) -> tuple[float, int]:
    """Return Spearman's correlation of a ranking with the published order, and the number of systems in both."""
    ranked = [system.name for system in ranking.systems if system.name in published]
    listed = sorted(ranked, key=published.index)
    return correlation([listed.index(name) for name in ranked], [*range(len(ranked))]), len(ranked)


def _published_order(clone: Path) -> list[str]:
    """Read the names on the published leaderboard, best first."""
    (path,) = clone.glob("reports/debate_leaderboard__*.md")
    return re.findall(r"^\| \d+ \| ([^|]+?) \|", path.read_text("utf-8"), re.MULTILINE)


def _pairs(read: dict[str, dict[str, float]]) -> list[tuple[str, str, list[str]]]:
    """Pair judges that have enough debates in common, starting with those that have the most ballots."""
    judges = sorted(read, key=lambda judge: -len(read[judge]))
    common = [
        (one, second, [debate for debate in read[one] if debate in read[second]])
        for one, second in combinations(judges, 2)
    ]
    return [pair for pair in common if len(pair[2]) >= _MIN_COMMON]


def _preferences(read: dict[str, dict[str, float]], motion_of: dict[str, str]) -> list[Preference]:
    results = []
    for one, second, debates in _pairs(read):
        leans = dict.fromkeys((motion_of[debate] for debate in debates), 0.0)
        for debate in debates:
            leans[motion_of[debate]] += read[one][debate] - read[second][debate]
        difference = fmean(read[one][debate] - read[second][debate] for debate in debates)
        results.append((one, second, len(debates), difference, sign_flip_test([*leans.values()])))
    adjusted = holm([p for *_, p in results])
    return [Preference(*values[:4], p) for values, p in zip(results, adjusted, strict=True)]


def _correlation(ballots: Sequence[BallotRow], read: dict[str, dict[str, float]]) -> float:
    """Return the mean correlation of two judges' ballots, adjusted for the debaters' strengths.

    The adjustment subtracts PRO's chance of winning, as given by the strengths.
    """
    strengths = rank_games(BallotFile(ballots).games, prior=2)
    chance = {
        ballot.item: strengths.chance(ballot.systems[0], ballot.systems[1], first=True)
        for ballot in ballots
        if ballot.systems
    }
    pairs = []
    for one, second, debates in _pairs(read):
        residuals = [[read[judge][debate] - chance[debate] for debate in debates] for judge in (one, second)]
        pairs.append((correlation(*residuals), len(debates)))
    total = sum(debates for _, debates in pairs)
    return sum(value * debates for value, debates in pairs) / total if total else 0.0


def _motions(sides: dict[str, float], motion_of: dict[str, str]) -> tuple[int, float, float]:
    """Test by permutation whether the share for PRO differs between motions.

    Returns the number of motions, the p-value, and the standard deviation between motions in log-odds.
    """
    results = {debate: float(share > 0.5) for debate, share in sides.items() if share != 0.5}
    sizes = Counter(motion_of[debate] for debate in results)
    debates = [debate for debate in results if sizes[motion_of[debate]] >= 4]
    if not debates:
        return 0, 1.0, 0.0
    motions = sorted({motion_of[debate] for debate in debates})
    place = [motions.index(motion_of[debate]) for debate in debates]
    values = [results[debate] for debate in debates]

    def between(drawn: Sequence[float]) -> float:
        sums = [0.0] * len(motions)
        for number, value in zip(place, drawn, strict=True):
            sums[number] += value
        return sum(total**2 / sizes[motion] for total, motion in zip(sums, motions, strict=True))

    random, observed, draws = Random(0), between(values), 2_000
    as_far = sum(between(random.sample(values, len(values))) >= observed - 1e-9 for _ in range(draws))
    shares = [fmean(results[debate] for debate in debates if motion_of[debate] == motion) for motion in motions]
    mean = fmean(values)
    noise = mean * (1 - mean) * fmean(1 / sizes[motion] for motion in motions)
    spread = sqrt(max(pvariance(shares) - noise, 0.0)) / max(mean * (1 - mean), 1e-9)
    return len(motions), (1 + as_far) / (1 + draws), spread
