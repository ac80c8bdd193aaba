"""Content of evidence/records/evidence.md, with four kinds of evidence."""

# ruff: noqa: E501 - what follows is a page, with tables

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence import simulated, simulated_runs
from evidence.exact import exact
from evidence.judge_cases import found_in, tables
from evidence.unkind import unkind
from flowdebate.patterns.debate.judging.jurors import FITTED

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ("PUBLISHED_BEGIN", "PUBLISHED_END", "merged", "page", "stored_published", "stored_real", "written")

BEGIN, END = "<!-- real: begin -->", "<!-- real: end -->"
PUBLISHED_BEGIN, PUBLISHED_END = "<!-- published: begin -->", "<!-- published: end -->"

HEAD = """\
# Evidence

This page shows how much the library's judge schedules, panels and audits improve verdicts, and under which assumptions. You can reproduce every
number with `make evidence`. There are four kinds of evidence, which are never mixed:

- *published*: replayed judgements of real models, published by others;
- *exact*: always true; all cases were checked;
- *simulated*: true if a judge's bias has the simulated form; based on up to 400,000 items. Most of these tables assume an additive bias and graded
  scores, so they check the code, not the world;
- *real*: small local models judged a few hundred pairs; intervals are wide, and failures are reported too.

This page does not evaluate debates between real models: the judges in the last section read two sentences, and those in the section before it read
debates written for this page. [The study](study.md) and [the audit of a leaderboard](leaderboard.md) cover real debates.

`make evidence` writes this page, except the published part. Without a model, it takes less than two minutes: it recomputes the exact and simulated
parts, with identical results since all random draws have seeds, and derives the real part from the ballots in `evidence/ballots.jsonl`, for the
models in that file. `make evidence MODEL=local` also requests missing ballots from the local models. For all of them, this takes one to two hours on
two cores, and can be interrupted. Brackets contain 95% intervals.
"""

SIMULATED = """\
## Simulated

The tables in this section check the code: they show that the library matches its model. [Unkind judges](#unkind-judges) shows how other kinds of
judges change the results.

A simulated judge chooses the side with the largest sum of

    quality + slot bias + label bias + effect of the text + noise

in log-odds: the difference of two sums is a log-odds, and the softmax of all sums gives the judge's scores. Quality and noise are drawn from normal
distributions, separately for each side, and noise anew for each ballot. A verdict is *right* if it chooses the side with the highest quality; a tie
that includes this side counts partially. These are the judges:

| judge | sides | quality of a side | noise of a side | slot bias |
| --- | --- | --- | --- | --- |
| `gap` | 2 | N(0, ½), so the difference of two is N(0, 1) | sd 0.354, so it is 0.5 on the difference | 1 for the first |
| `sides` | 2 | N(0, 1), so the difference of two is N(0, 2) | sd 0.5, so it is 0.707 on the difference | 1 for the first |
| `four` | 4 | N(0, 1) | sd 0.5 | 1, ⅔, ⅓, 0: decreasing evenly |
| `ends` | 4 | N(0, 1) | sd 0.5 | 1, 0, 0, 1: both ends |

`flowdebate.testing.SimJudge` implements this judge as a model for your own debates (see [testing](../../docs/testing.md)).

### Schedules

The table shows the share of right verdicts. The library averages scores. For comparison, the last column averages log-odds, which cancels an additive
bias exactly; the mean of scores almost cancels it, up to the curvature of the softmax.

{schedules}

Results:

- A shuffled order is no more accurate than a fixed one, since a shuffle moves the bias without reducing it.
- Asking twice in the same order does not help either: it reduces noise but not bias.
- `swap` repairs an additive bias for two sides, if scores are graded. For four sides you need `cyclic`; `swap` helps least if both ends
  are favored.
- Hard votes lose much of the gain, or all of it with two sides.

### Unkind judges

These variants of the `gap` judge break the assumptions of schedules: their scores are all or nothing, their bias differs between the orders, or they
prefer something that does not depend on the order. The first row is the judge from the table above.

{unkind}

- All-or-nothing scores are hard votes: two conflicting views result in a tie, and asking twice gains nothing. Of the real models below, `local`
  writes such scores.
- A bias that changes from ballot to ballot partially cancels out; a bias that depends on the question cancels out, as it is the same in both orders.
- A preference for the side that spoke last in the debate affects every view, so `swap` reinforces it.
- A judge that only looks at length also gains from `swap`, and appears better the more length correlates with quality. Neither these figures nor an
  audit of orders can tell it from a good judge.

### Quoted figures

Two descriptions of this library quote figures from simulations whose code is not available. This table compares them with the judge that
fits each description best. A figure is reproduced if its rounding range and the measured interval overlap.

{quotes}

Two quotes name the same generative model ("log-odds = quality gap N(0, 1) + slot bias 1 + noise 0.5") but give .68 and .744 for one
order. Taken literally (`gap`), the model gives .68. The value .744 is close to the result if the same words describe each side separately
(`sides`). The quoted .744 and .748 differ from it by more than chance allows with 400,000 items, but not with 10,000.
The description of four sides does not say how the bias is distributed over the slots; with an even decrease all its figures are
reproduced to within .002. With a bias for both ends, `swap` gives .657 with its two calls, and .668 with the four calls of `cyclic`;
the quoted .670 is close to the latter.

### Labels

This is the `four` judge with an additional label bias, which decreases evenly from 1 for A to 0 for D. For an unbiased judge, the last column would
be .250. Letters rotate against the slots: the side that is A in the first slot is then B in the last, C in the third and D in the second, and every
other side follows the same cycle. So each slot is only paired with half of the letters: together, the two biases cancel in the mean of log-odds, and
almost cancel in the mean of scores.

{labels}

### Limits of ordering

A negative control: something in the text (length, style, a name) adds N(0, ½) to a side, independently of its quality. It moves with its side, so
`swap` gains nothing over asking twice in the same order. If a slot bias is added, `swap` only removes the slot bias.

{content}

### Real debates with a simulated judge

Here the `gap` judge takes part in actual `debate()` runs: it reads its judge view from the prompt and answers in the requested format. The results
must match the figures above, within the interval of this smaller number of debates.

{debates}

### Curtailing

Ballots are requested one by one until the rest cannot change the winner. The panels have independent noise (a standard deviation of half the
difference between the sides; more noise saves less) and no bias. With votes, a panel of three saves 26%, a panel of five 32% and a panel of nine 35%
(quoted: 26 to 33%). With scores, and with the few ballots of a schedule, the savings are smaller.

{curtailing}

### Panels

These judges have noise of sd 1 on a gap of N(0, 1), with correlated errors. The measured effective n is the ratio of a single judge's error variance
to that of their mean error. Nine judges with a correlation of 0.4375 are right as often as two independent judges.

{panels}

### Power of the audit

These audits examine a judge that favors the first slot, with one verdict per item in a random order. To detect a slot that wins 60%, 70% and 80%
of the time with a power of 80%, the audit requires 210, 54 and 23 items. It may accuse a fair judge in at most 5% of audits. For such a judge, this
follows from the binomial distribution; the table checks that the audit computes it.

{audits}
"""

WRITTEN = """\
## The local judge, on written debates

The `local` model's judge (Qwen2.5-Coder-1.5B-Instruct) names a letter, and its log-probabilities are the ballot. It read debates written for this
page (`evidence/judge_cases.jsonl`). In *tuning* and *new* debates, one side is better by design: it has relevant facts, while the other has slogans,
an anecdote, irrelevant numbers, a refuted claim, or a dodge. Who speaks first, supports the proposal, and has the longer text is balanced. In *equal*
debates, both sides are equally good, and one has up to three times as much text. The wording of the question was chosen on tuning debates, by the
mean lead of the better side at equal length: comparing wordings by how often a judge is right would take far more debates.

{words}

(± is a standard error.) Like other judges, it gives more to the side that says more. So what its length explains is subtracted from a
side's log-odds: {slope:.2f} for each unit of the logarithm of its length, fitted on tuning and equal debates. The threshold,
{least:.2f}, is the lead after that which at most one in twenty further equal debates exceeds, from the equal ones. As a check, each half of the
equal debates is judged by the fit of the other half, and all debates again by their first round alone, with the same fit. No new debate had a part
in the words or in the fit. Earlier words have a fit of their own from the same debates; without it, their threshold is the one that was in use with
them.

{judges}

So the length term improves the judge, not the wording: with such a term, the earlier wording does as well, as far as so few debates can tell. Because
of its threshold, the judge names few winners: with the current wording, in 8 of 80 debates with a better side, and in 4 of 96 without. This does not
distinguish the two kinds (Fisher's exact test, p = .14): a named winner was always the better side if there was one, but is weak evidence that there
is one. The sign is right in 56 of the 80, .70; the .84 of the new debates is the better of two figures.

A length term helps if length does not correlate with quality, as in these debates by design. If longer sides *are* better, it hurts, so a verdict
records both leads, with and without it. All ballots were cast without the engine's cache of earlier prompts, which changes a lead by up to .06.
`python -m evidence.judge_cases` requests missing ballots. Results from one author's debates are an upper bound for real debates, whose sides differ
less.
"""

REAL = """\
## Real

Small local models judged pairs of statements, one true and one false, from the package `textarena` (MIT license; the package is installed, and none
of its text is in this repository). A judge sees each statement under one of two letters, in the library's prompts for transcripts. Every pair is
judged in three views: one order, its reverse with the letters exchanged, and the first order again with different noise. A verdict is *right* if it
chooses the true statement; undecided verdicts count as one half. Intervals come from a bootstrap over pairs.

`local` is Qwen2.5-Coder-1.5B-Instruct, `smollm2` is SmolLM2-135M-Instruct. Each model is asked in two ways:

- It writes only a score from 0 to 100 for each letter, at temperature 0.3.
- *By letter*: it gives one letter, and the probabilities of the letters are its scores. The temperature has no effect. These ballots were cast with
  the engine's cache of earlier prompts, so they are not free of noise: in four debates judged again, leads changed by up to .06, and one changed its
  sign. The library now requests letters without that cache, so that repeated ballots agree to a millionth, regardless of earlier requests
  (`tests/models/test_local.py`).

The library's own judge writes its reasoning before the scores, which would have taken too long on these machines. So the numbers measure the models,
the views and the averaging, with shortened answers.

Results:

- The written scores of `local` are no more accurate with both orders than with one; if anything, less. Most answers give all points to one letter, so
  conflicting views cancel out. The model favors the letter B.
- By letter, `local` nearly always chooses A, so a single order is a coin toss. Averaging both orders is more accurate; hard votes are not. A
  single order is below one half because the draw put A on the false statement more often; compare with the mean of both orders. In pairs of
  similar length the gain is not significant, so the remaining signal may be a preference for longer statements, which are true more often
  in these pairs.
- By letter, `smollm2` chooses A in every answer, in either slot, and averaging leaves no signal. If A always came first, this would look like a
  preference for the first slot, as another description of the model reports it (520 of 520). By letter, neither model showed a slot preference that
  was not a letter preference.

The ballots by letter are in the repository (ids and numbers, without the package's text), so their sections are derived from them each time. The
ballots with written scores are **not shipped**: they were lost, and requesting them again takes more than an hour. The figures in these two sections
come from an earlier run and cannot be recomputed.

These models are small. They show that a bias can be detected and reduced, not that debates find the truth. Some pairs are themselves doubtful
("Humans share approximately 50% of their DNA with bananas" is meant to be false).
"""


def page(real: str, *, published: str = "", scale: float = 1.0) -> str:
    """Return the whole page, with the `published` part unchanged; tests use a smaller `scale`."""
    tables, estimates = simulated.schedules(scale)
    parts = {
        "schedules": tables,
        "unkind": unkind(scale),
        "quotes": simulated.quotes(estimates),
        "labels": simulated.labels(scale),
        "content": simulated.content(scale),
        "debates": simulated_runs.debates(max(5, int(400 * scale))),
        "curtailing": simulated.curtailing(scale),
        "panels": simulated_runs.panels(max(1_000, int(400_000 * scale))),
        "audits": simulated_runs.audits(max(5, int(1_000 * scale))),
    }
    text = f"## Exact\n\n{exact()}"
    return (
        "\n".join(
            (HEAD, published, f"{text}\n", SIMULATED.format(**parts), written(), f"{REAL}\n{BEGIN}\n{real}\n{END}")
        )
        + "\n"
    )


def written() -> str:
    """Return the section on written debates, derived from the ballots in the repository."""
    rows = found_in()
    slope, threshold = next(iter(FITTED.values()))
    words, judges = tables(rows)
    return WRITTEN.format(words=words, judges=judges, slope=slope, least=threshold)


def stored_published(file: Path) -> str:
    """Return the published part of the existing page, which `python -m evidence.published` writes, with its markers."""
    text = file.read_text("utf-8") if file.exists() else ""
    part = text.partition(PUBLISHED_BEGIN)[2].partition(PUBLISHED_END)[0]
    return f"{PUBLISHED_BEGIN}{part or chr(10)}{PUBLISHED_END}\n"


def stored_real(file: Path) -> str:
    """Return the real part of the existing page."""
    text = file.read_text("utf-8") if file.exists() else ""
    _, _, after = text.partition(f"{BEGIN}\n")
    return after.partition(f"\n{END}")[0] or "Nothing has been judged yet."


def merged(derived: str, stored: str) -> str:
    """Return the real part: the sections `derived` from ballots, and the `stored` sections of all other models."""
    new, old = _sections(derived), _sections(stored)
    if not new:
        return stored
    lead = derived.partition("\n\n### ")[0]
    return "\n\n".join((lead, *(f"### {text}" for text in {**old, **new}.values())))


def _sections(real: str) -> dict[str, str]:
    """Return the sections of the real part by heading."""
    return {text.partition("\n")[0]: text for text in real.split("\n\n### ")[1:]}
