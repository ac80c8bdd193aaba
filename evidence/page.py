"""Page evidence/records/evidence.md, with three kinds of evidence."""

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

After this page you know how much the judge schedules, panels and audits of this library improve verdicts, under which assumptions, and
you can reproduce every number with `make evidence`. There are four kinds of evidence, and they are never mixed:

- *published*: judgements of real models, which others published, read again;
- *exact*: holds always; all cases were checked;
- *simulated*: holds if a judge's bias has the simulated form; based on up to 400,000 items. Most of these tables assume what they
  show, an additive bias and graded scores: they check the code, not the world;
- *real*: small local models judged a few hundred pairs; intervals are wide, and failures are reported too.

No debate that real models argued is evaluated on this page: the judges of the last section read two sentences, and those of the last but one
debates that were written for this page. [The study](study.md) and [the audit of a leaderboard](leaderboard.md) have real debates.

`make evidence` writes this page, but for the published part. Without a model it takes less than two minutes: it computes the exact and the simulated part anew, with
identical results since all random draws have seeds, and the real part from the ballots in `evidence/ballots.jsonl`, for the models that
it holds. `make evidence MODEL=local` also asks the local models for the ballots that are missing. For all of them that takes one to two
hours on two cores; it continues where it was interrupted. Brackets contain 95 % intervals.
"""

SIMULATED = """\
## Simulated

The tables of this section are checks of the code: they show that the library computes what its model says. What a judge with other
habits does to them is under [unkind judges](#unkind-judges).

A simulated judge chooses the side with the largest sum of

    quality + slot bias + label bias + effect of the text + noise

in log-odds: the difference of two sums is a log-odds, and the softmax of all sums gives the judge's scores. Quality and noise are drawn
from normal distributions, separately for each side, and noise anew for each ballot. A verdict is *right* if it chooses the side with the
highest quality; a tie that includes this side counts in part. These are the judges:

| judge | sides | quality of a side | noise of a side | slot bias |
| --- | --- | --- | --- | --- |
| `gap` | 2 | N(0, ½), so the difference of two is N(0, 1) | sd 0.354, so it is 0.5 on the difference | 1 for the first |
| `sides` | 2 | N(0, 1), so the difference of two is N(0, 2) | sd 0.5, so it is 0.707 on the difference | 1 for the first |
| `four` | 4 | N(0, 1) | sd 0.5 | 1, ⅔, ⅓, 0: decreasing evenly |
| `ends` | 4 | N(0, 1) | sd 0.5 | 1, 0, 0, 1: both ends |

`flowdebate.testing.SimJudge` is this judge as a model, which you can use in a debate of your own (see [testing](../../docs/testing.md)).

### Schedules

The share of right verdicts. The library averages scores. For comparison, the last column averages log-odds, which cancels an additive bias
exactly; the mean of scores cancels it almost, up to the curvature of the softmax.

{schedules}

Results:

- A shuffled order is no more accurate than a fixed one, since a shuffle moves the bias without reducing it.
- Asking twice in the same order does not help either: it reduces noise but not bias.
- `swap` repairs an additive bias for two sides, if scores are graded. For four sides you need `cyclic`; `swap` helps least if both ends
  are favored.
- Hard votes lose much of the gain, and with two sides all of it.

### Unkind judges

The `gap` judge, changed so that it breaks what schedules assume: its scores are all or nothing, its bias is not the same in both orders,
or it prefers something that no order moves. The first row is the judge of the table above.

{unkind}

- All-or-nothing scores are hard votes: two views that disagree leave a tie, and asking twice gains nothing. Of the real models below,
  `local` writes such scores.
- A bias that changes from ballot to ballot is cancelled in part; one that depends on the question is cancelled, as it is the same in
  both orders.
- A preference for the side that spoke last in the debate is in every view. `swap` makes the judge sure of it.
- A judge that looks at length alone gains from `swap` too, and looks more right the more length goes with quality. Neither these
  figures nor an audit of orders can tell it from a good one.

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

The `four` judge with an additional label bias, which decreases evenly from 1 for A to 0 for D. For an unbiased judge, the last column
would be .250. Letters rotate against the slots: the side that is A in the first slot is then B in the last, C in the third and D in the
second, and every other side goes the same way from where it begins. So each slot meets only half of the letters: the two biases together
cancel in the mean of log-odds, and almost in that of scores.

{labels}

### Limits of ordering

A negative control: something in the text (length, style, a name) adds N(0, ½) to a side, independently of its quality. It moves with its
side, so `swap` gains nothing over asking twice in the same order. If a slot bias is added, `swap` removes the slot bias and nothing else.

{content}

### Real debates with a simulated judge

The `gap` judge in actual `debate()` runs: it reads its judge view from the prompt and answers in the requested format. The figures above
must be reproduced, within the interval of this smaller number of debates.

{debates}

### Curtailing

Ballots are requested one by one until the remaining ones cannot change the winner. The panels have independent noise (a standard deviation of
half the difference between the sides; more noise saves less) and no bias. With
votes, a panel of three saves 26 %, one of five 32 % and one of nine 35 % (quoted: 26 to 33 %). With scores, and with the few ballots of
a schedule, the savings are smaller.

{curtailing}

### Panels

Judges with noise of sd 1 on a gap of N(0, 1), whose errors correlate. The measured effective n is the factor by which the variance of their
mean error is smaller than that of a single judge. Nine judges with a correlation of 0.4375 are right as often as two independent ones.

{panels}

### Power of the audit

Audits of a judge that favors the first slot, with one verdict per item in a random order. To detect a slot that wins 60 %, 70 % and 80 %
of the time with a power of 80 %, the audit requires 210, 54 and 23 items. It may accuse a fair judge in at most 5 % of audits. For such a
judge this is the binomial distribution: the table checks that the audit computes it.

{audits}
"""

WRITTEN = """\
## The local judge, on written debates

The judge of the model `local` (Qwen2.5-Coder-1.5B-Instruct) names a letter, and its log-probabilities are the ballot. It read debates that
were written for this page (`evidence/judge_cases.jsonl`). In *tuning* and *new* debates one side is better by design: it has facts that
bear on the question, and the other has slogans, an anecdote, irrelevant numbers, a claim that was refuted, or a dodge. Which side
speaks first, is for the proposal, and has more to say is balanced. In *equal* debates both sides are equally good, and one has up to three times as
much text. The words of the question were chosen on tuning debates, by the mean lead of the better side at equal length: how often a
judge is right tells wordings apart only in far more debates.

{words}

(± is a standard error.) Like other judges, it gives more to the side that says more. So what its length explains is subtracted from a
side's log-odds: {slope:.2f} for each unit of the logarithm of its length, fitted on tuning and equal debates. The threshold,
{least:.2f}, is the lead after that which at most one in twenty further equal debates exceeds, from the equal ones. As a check, each half of the
equal debates is judged by the fit of the other half, and all debates again by their first round alone, with the same fit. No new debate had a part
in the words or in the fit. Earlier words have a fit of their own from the same debates; without it, their threshold is the one that was in use with
them.

{judges}

So it is the length term that mends the judge, not its words: with such a term the earlier words do as well, within what so few debates can tell.
Its threshold makes it name few winners: with the words in use in 8 of 80 debates in which one side is better, and in 4 of 96 in which none is. That
does not tell the two kinds apart (Fisher's exact test, p = .14): a named winner was the better side wherever there was one, but is weak evidence
that there is one. The sign alone is right in 56 of the 80, .70; the .84 of the new debates is the better one of two figures.

A length term pays where length does not go with quality, as in these debates by design. Where longer sides *are* better, it costs: a verdict has
both leads, with and without it. All ballots were cast without the engine's cache of earlier prompts, which moves a lead by up to .06.
`python -m evidence.judge_cases` asks for ballots that are missing; what one author's debates show is an upper bound for real ones, whose
sides differ less.
"""

REAL = """\
## Real

Small local models judged pairs of statements, one true and one false, from the package `textarena` (MIT licence; the package is
installed, and none of its text is in this repository). A judge sees each statement under one of two letters, in the prompts that the
library uses for transcripts. Every pair is judged in three views: one order, its reverse with the letters exchanged, and the first one
again with different noise. A verdict is *right* if it chooses the true statement; undecided verdicts count one half. Intervals come
from a bootstrap over pairs.

`local` is Qwen2.5-Coder-1.5B-Instruct, `smollm2` is SmolLM2-135M-Instruct. Each model is asked in two ways:

- It writes only a score from 0 to 100 for each letter, at temperature 0.3.
- *By letter*: it is asked for one letter, and the probabilities of the letters are its scores. No temperature plays a part. These
  ballots were cast while the engine reused what it had computed for earlier prompts, so they are not free of noise: in four debates that
  were judged again, leads moved by up to .06, and one changed its sign. The library now asks for letters without that cache, and the same
  ballot is the same to a millionth, whatever was asked before (`tests/models/test_local.py`).

The library's own judge writes its reasoning before the scores, which would have taken too long on these machines. The numbers therefore
measure the models, the views and the averaging, with shortened answers.

Results:

- The written scores of `local` are no more accurate with both orders than with one; if anything, less. Most answers give everything to one
  letter, so two views that disagree leave nothing to decide by. The model favors the letter B.
- By letter, `local` nearly always chooses A, so a single order is a coin toss. Averaging both orders is more accurate; hard votes are not. A
  single order is below one half because the draw put A on the false statement more often; compare with the mean of both orders. In pairs of
  similar length the gain is not significant, so the remaining signal may be a preference for longer statements, which are true more often
  in these pairs.
- By letter, `smollm2` chooses A in every answer, in either slot, and averaging leaves no signal. If A always came first, this would look like
  a preference for the first slot, which is how another description of the model reports it (520 of 520). Neither of the
  models that are asked by letter showed a slot preference that was not a letter preference.

The ballots of the two models that are asked by letter are in the repository (ids and numbers, none of the package's text), so their
sections are derived from them each time. The ballots of the two that write scores are **not shipped**: they were lost, and asking again
takes more than an hour. The figures of these two sections are those of an earlier run and cannot be derived anew.

These models are small. They show that a bias can be detected and reduced, not that debates find the truth. Some pairs are
doubtful themselves ("Humans share approximately 50% of their DNA with bananas" is meant to be false).
"""


def page(real: str, *, published: str = "", scale: float = 1.0) -> str:
    """The whole page, with the `published` part as it is; `scale` is for tests, which have less time."""
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
    """The section on written debates, from the ballots in the repository."""
    rows = found_in()
    slope, threshold = next(iter(FITTED.values()))
    words, judges = tables(rows)
    return WRITTEN.format(words=words, judges=judges, slope=slope, least=threshold)


def stored_published(file: Path) -> str:
    """The published part of the page as it is, with its marks; `python -m evidence.published` writes it."""
    text = file.read_text("utf-8") if file.exists() else ""
    part = text.partition(PUBLISHED_BEGIN)[2].partition(PUBLISHED_END)[0]
    return f"{PUBLISHED_BEGIN}{part or chr(10)}{PUBLISHED_END}\n"


def stored_real(file: Path) -> str:
    """The real part of the page as it is."""
    text = file.read_text("utf-8") if file.exists() else ""
    _, _, after = text.partition(f"{BEGIN}\n")
    return after.partition(f"\n{END}")[0] or "Nothing has been judged yet."


def merged(derived: str, stored: str) -> str:
    """The real part with the sections that were `derived` from ballots, and those of other models as they are `stored`."""
    new, old = _sections(derived), _sections(stored)
    if not new:
        return stored
    lead = derived.partition("\n\n### ")[0]
    return "\n\n".join((lead, *(f"### {text}" for text in {**old, **new}.values())))


def _sections(real: str) -> dict[str, str]:
    """The sections of the real part, by their headings."""
    return {text.partition("\n")[0]: text for text in real.split("\n\n### ")[1:]}
