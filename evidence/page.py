"""Page docs/evidence.md, with three kinds of proof."""

# ruff: noqa: E501 - what follows is a page, with tables

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence import simulated, simulated_runs
from evidence.exact import exact

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ("kept_real", "page")

BEGIN, END = "<!-- real: begin -->", "<!-- real: end -->"

HEAD = """\
# Evidence

What the library claims of fair judging, measured. Three kinds of proof stand apart here, and are never mixed:

- *exact*: it holds always, and was checked by going through all cases;
- *simulated*: it holds if a judge's bias is of the kind that is simulated, by hundreds of thousands of items;
- *real*: small local models judged a few hundred pairs; intervals are wide, and failures are published as they are.

This page is written by `make evidence`: in under two minutes without a model, which makes the exact and the simulated
part anew, bit for bit the same (all draws have seeds), and keeps the real one. `make evidence MODEL=local` also asks the
local models, which takes an hour or two on two cores and goes on where it stopped. Brackets hold 95 % intervals.
"""

SIMULATED = """\
## Simulated

A judge finds for the side with the largest sum of

    quality + slot bias + label bias + what the text adds + noise

in units of log-odds: differences of two sums are log-odds, and the softmax of all of them is the judge's scores. Quality
and noise are drawn from normal distributions, for each side apart, the noise anew in each ballot. *Right* is a verdict
for the side with the highest quality; a tie that it is in counts as its part of the tie. The judges:

| judge | sides | quality of a side | noise of a side | slot bias |
| --- | --- | --- | --- | --- |
| `gap` | 2 | N(0, ½), so that the difference of two is N(0, 1) | sd 0.354, so that it is 0.5 on the difference | 1 for the first |
| `sides` | 2 | N(0, 1), so that the difference of two is N(0, 2) | sd 0.5, so that it is 0.707 on the difference | 1 for the first |
| `four` | 4 | N(0, 1) | sd 0.5 | 1, ⅔, ⅓, 0: it falls evenly |
| `ends` | 4 | N(0, 1) | sd 0.5 | 1, 0, 0, 1: both ends |

`flowdebate.testing.SimJudge` is this judge, and a real model besides: it can sit in a debate of yours (see
[testing](testing.md)).

### Schedules

Share of verdicts that are right. The library averages scores; the last column averages log-odds instead, which cancels
an additive bias exactly, where the mean of scores cancels it but for what the softmax bends.

{schedules}

What it says: one order is as right as one that is shuffled, since a shuffle moves the bias and does not lessen it. Asking
twice in the same order does not help either: it makes the bias surer. Two sides are repaired by `swap`, four by `cyclic`
and not by `swap`, least of all where both ends are favoured. Hard votes throw the gain away: for two sides all of it.

### Figures that were quoted

Two descriptions of this library quote figures from simulations whose code we do not have. Here is what was found again,
with the judge that fits the description best. A figure counts as found if its rounding and the interval overlap.

{quotes}

Two quotes name one generative model ("log-odds = quality gap N(0, 1) + slot bias 1 + noise 0.5") and give .68 and .744
for one order. Taken by its words (`gap`) it gives .68, and not .744. The latter is near what the same words give for each
side apart (`sides`); .744 and .748 are off that by more than 400,000 items can be, and by what 10,000 could. The
description of four sides does not say how the bias goes over the slots: with one that falls evenly all its figures are
found to within .002. For both ends `swap` gives .657 with its two calls, and .668 with the four that `cyclic` takes: .670
is near the latter.

### Labels

Four sides, the `four` judge, and a label bias besides that falls evenly from 1 for A to 0 for D. The last column is .250
for a judge without a bias.

{labels}

### What no order removes

The negative control: something in the text (length, style, a name) adds N(0, ½) to a side, and has nothing to do with
its quality. It moves with its side, so `swap` gains nothing over the same order twice, and no gain is claimed. With a slot
bias besides, `swap` takes that one away and leaves the rest.

{content}

### The library's own debates

The same judge as `gap`, seated in `debate()`: it reads its view from the prompt and answers in the form that it is asked
for. The figures above have to come out again, within the interval of so few debates.

{debates}

### Curtailing

Votes are cast one after the other, and no more are asked for once those that are left can change nothing. The panels have
independent noise and no bias. By votes a panel of three saves 26 %, of five 32 % and of nine 35 % (quoted: 26 to 33 %);
by scores, and with the few ballots of a schedule, it saves less.

{curtailing}

### Panels

Judges with noise of sd 1 on a gap of N(0, 1), whose errors correlate. Measured is how much smaller the variance of their
mean error is than that of one judge. Nine that correlate by 0.4375 are right as often as two that do not.

{panels}

### Who is known by name

A debater who goes over to what others say, .608 of the time where it knows who speaks and .024 where it does not, which
are published figures. What is shown here is only that names which are not rendered cannot be followed; the figures are
what was put in.

{conformity}

### The audit

Audits of a judge with a preference for the first slot, one verdict an item in an order drawn by chance. The audit asks
for 210, 54 and 23 items to find a slot that wins 60 %, 70 % and 80 %, with a power of 80 %; a fair judge is accused in 5 %
at most.

{audits}
"""

REAL = """\
## Real

Pairs of statements, one true and one false, from the package `textarena` (MIT; it is installed, and no text of it is in
this repository). A judge is shown one statement under each of two letters, through the library's own prompts for
transcripts. Each pair is judged in a view, in its reverse with the letters exchanged, and in the first view once more
with other noise. *Right* is a verdict for the true statement; undecided counts one half. Intervals are by bootstrap over
pairs.

`local` is Qwen2.5-Coder-1.5B-Instruct, `smollm2` is SmolLM2-135M-Instruct. Each is asked in two ways. In the first it
writes a score from 0 to 100 for each letter, and nothing else, at temperature 0.3. *By letter* it is asked for one letter,
and its scores are the probabilities of the letters before one is chosen; there is no noise in that, so that the same view
again says the same. The library's own judge writes reasons before its scores, which these machines had no time for:
what is measured here is the models, the views and the averages, with answers cut short.

What came out, in words:

- Written scores of `local` are no more right in both orders than in one: less, if anything. Most give all to one letter,
  so that two views that disagree leave nothing to decide by. It favours the letter B.
- By letter it finds for A nearly always, so that one order is a coin; both orders averaged are right more often than that,
  which hard votes are not. One order falls below one half because A was drawn for the false statement more often: compare
  with the mean of both. In pairs of like lengths the gain cannot be told from none, so that what is left when the letter
  is averaged out may be a liking for longer statements, which are true more often in these pairs.
- SmolLM2 by letter finds for A in every answer, wherever A stands, and nothing is left when that is averaged out. With A
  always first it would be read as a preference for the first slot, which is how another description of it has it (520 of
  520). In no model a preference for a slot was found that is not one for a letter.

These models are small. That a bias is found and reduced can be seen in them; that debates find truth cannot. Some pairs
are doubtful as they stand ("Humans share approximately 50% of their DNA with bananas" is meant to be false).
"""


def page(real: str, *, scale: float = 1.0) -> str:
    """The whole page; `scale` is for tests, which have less time."""
    tables, found = simulated.schedules(scale)
    parts = {
        "schedules": tables,
        "quotes": simulated.quotes(found),
        "labels": simulated.labels(scale),
        "content": simulated.content(scale),
        "debates": simulated_runs.debates(max(5, int(400 * scale))),
        "curtailing": simulated.curtailing(scale),
        "panels": simulated_runs.panels(max(1_000, int(400_000 * scale))),
        "conformity": simulated_runs.conformity(max(100, int(5_000 * scale))),
        "audits": simulated_runs.audits(max(5, int(1_000 * scale))),
    }
    told = f"## Exact\n\n{exact()}"
    return "\n".join((HEAD, f"{told}\n", SIMULATED.format(**parts), f"{REAL}\n{BEGIN}\n{real}\n{END}")) + "\n"


def kept_real(file: Path) -> str:
    """The real part of the page as it is."""
    text = file.read_text("utf-8") if file.exists() else ""
    _, _, after = text.partition(f"{BEGIN}\n")
    return after.partition(f"\n{END}")[0] or "Nothing has been judged yet."
