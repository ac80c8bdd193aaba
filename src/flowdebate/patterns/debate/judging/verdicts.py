"""Wording of verdicts: the conclusion drawn from the count of ballots, and statements quoted from the debate.

The text is assembled from the verdict's data, so it cannot contradict the winner. The judge picks statements by letter
from the sentences of the debate, so every quote is verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from flowdebate.chassis.state import TurnOrder
from flowdebate.patterns.debate.schemas import DebateContributionEntry, JudgedVerdict
from flowdebate.prompts import quoted, tag_text
from flowdebate.sources.quotes import look_up
from flowdebate.sources.source import Source

from .ballots import MAX_LETTERS, JudgeBallot, Judging, Statement, balanced, firsts_of, leads_of

HINT = "A small model was the judge, and small models judge weakly."
# Wording for a flipped verdict without a winner, keyed by policy.
_UNDECIDED = {
    "abstain": "The judge abstains: it found otherwise when it was shown the same arguments in another order.",
    "tie": "A tie: the judge found otherwise when it was shown the same arguments in another order.",
}
_PARAGRAPH = "\n\n"
_TWO = 2  # use a comparative for two sides or orders, and a superlative for more


def conclude(judging: Judging, winner: str | None, *, sides: Sequence[str], hint: bool = False) -> JudgedVerdict:
    """Write the verdict that follows from the ballots: `winner` wins, unless `on_flip` rules out a winner.

    In a tie, all sides ranked first on any ballot get equal scores; an abstention leaves the scores unchanged. The text
    comes from the ballot most clearly in favor of the winner; if nobody wins, it lists the reasons from all ballots. A
    judge that answers with letters writes no text; if `hint` is set, the verdict mentions that the judge is a small
    model.
    """
    used = [ballot for ballot in judging.ballots if ballot.problem is None]
    if judging.on_flip == "tie":
        firsts = {side for ballot in used for side in firsts_of(ballot, sides=sides)}
        shares = {side: 1 / len(firsts) if side in firsts else 0.0 for side in sides}
        judging = judging.model_copy(update={"scores": shares})
    if winner is None or judging.on_flip in _UNDECIDED:
        winner = None
        words = _UNDECIDED.get(judging.on_flip or "", _explain_tie(judging, used))
        why = _PARAGRAPH.join(_render_ballot(ballot) for ballot in used)
    else:
        # `max` returns the first of several equally clear ballots
        best = max(used, key=lambda ballot: ballot.shares.get(winner, 0.0))
        words, why = add_headline(best.verdict, winner, best.order), _render_reasons(best)
    if judging.answer is not None and judging.on_flip not in _UNDECIDED:
        counted = balanced(judging.ballots) if judging.decided_by == "log_odds" else used
        words = letter_verdict(winner, len(sides), usable=bool(counted))
        if judging.answer == "letter":
            why = letter_reasoning(judging, hint=hint)
    return JudgedVerdict(verdict=words, winner=winner, reasoning=why, judging=judging)


def _explain_tie(judging: Judging, used: Sequence[JudgeBallot]) -> str:
    """Explain a tie: either the order made the difference, or no ballot put either side ahead."""
    if (effect := order_effect(judging)) is not None:
        return f"It is a tie. {effect}"
    if used and used[0].verdict and all(ballot.winner is None for ballot in used):
        return used[0].verdict
    return "It is a tie."


def order_effect(judging: Judging) -> str | None:
    """Describe how the order of the sides affected the verdict; return None if it did not.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
    >>> both = [JudgeBallot(order=["a", "b"], winner="a"), JudgeBallot(order=["b", "a"], winner="b")]
    >>> order_effect(Judging(schedule="swap", ballots=both, planned=2, scores={"a": 0.5, "b": 0.5}, flipped=True))
    'The order mattered: each side won when it was read first.'
    """
    usable = [ballot for ballot in judging.ballots if ballot.problem is None]
    if not judging.flipped or len({tuple(ballot.order) for ballot in usable}) < _TWO:
        return None
    for place, at in (("first", 0), ("last", -1)):
        if all(ballot.winner == ballot.order[at] for ballot in usable):
            return f"The order mattered: each side won when it was read {place}."
    return "The order mattered: the winner changed with it."


def add_headline(verdict: str, winner: str | None, sides: Sequence[str]) -> str:
    """Prepend a headline naming the winner to `verdict` if its text names other sides but not the winner.

    >>> add_headline("The shop closes.", "The shop opens", ["The shop opens", "The shop closes"])
    'The judge sides with: The shop opens. In its own words: The shop closes.'
    """
    losers = [side for side in sides if side != winner]
    if winner is None or _names(verdict, winner) or not any(_names(verdict, side) for side in losers):
        return verdict
    return f"The judge sides with: {_end(winner)} In its own words: {verdict}"


def letter_verdict(winner: str | None, sides: int, *, usable: bool) -> str:
    """Write the conclusion for a judge that answers with letters."""
    if winner is not None:
        return (
            f"The judge sides with: {_end(winner)} It gave the {'more' if sides <= _TWO else 'most'} concrete evidence."
        )
    if not usable:
        return "No winner: the answers of the judge were not among the letters that it was asked for."
    return f"No winner: {'neither' if sides <= _TWO else 'no'} side gave clearly more concrete evidence."


def letter_reasoning(judging: Judging, *, hint: bool) -> str:
    """Quote the statement the judge picked for each side, along with a later statement by another side."""

    def format_statement(statement: Statement) -> str:
        return f"(turn {statement.turn}): “{' '.join(statement.text.split())}”"

    lines = [
        f"{quote.side} {format_statement(quote.statement)} "
        + ("Nobody else spoke after it." if quote.reply is None else f"Said afterwards {format_statement(quote.reply)}")
        for quote in judging.quotes or ()
    ]
    if not lines:
        shares = ", ".join(f"{side} {share:.0%}" for side, share in judging.scores.items())
        models = len({ballot.model for ballot in judging.ballots})
        rule = f"median of {models} models" if models > 1 and judging.decided_by == "log_odds" else "mean"
        lines.append(f"The {rule} of {len(judging.ballots)} ballots by letter: {shares}.")
    lead = [] if (lead_sentence := describe_lead(judging)) is None else [lead_sentence]
    return "\n\n".join([*lines, *lead, *([HINT] if hint else [])])


def describe_lead(judging: Judging) -> str | None:
    """Describe the leading side's margin, before and after correcting for length; return None if it is unknown."""
    used = balanced(judging.ballots)
    if judging.decided_by != "log_odds" or not any(ballot.fit for ballot in used):
        return None
    sides = list(judging.scores)
    counted = leads_of([(ballot.model, ballot.counted) for ballot in used], sides)
    first, second = sorted(sides, key=lambda side: judging.scores[side], reverse=True)[:2]
    raw = leads_of([(ballot.model, ballot.log_odds or {}) for ballot in used], sides)[first][second]
    lead, minimum = f"{counted[first][second]:.2f}", f"{judging.min_log_odds:.2f}"
    if lead == minimum and counted[first][second] < judging.min_log_odds:
        lead = f"less than {minimum}"  # rounding would make the lead look large enough to win
    return (
        f"Ahead by {lead} log-odds ({raw + 0.0:+.2f} before the sides' lengths are discounted): "
        f"{_end(first)} A winner needs {minimum}."
    )


def render_ballots(ballots: Sequence[JudgeBallot]) -> str:
    """Render the ballots for the person who decides between them, escaping text that could imitate the layout."""
    lines = []
    for number, ballot in enumerate(ballots, start=1):
        if ballot.problem is not None:
            continue
        who = "" if ballot.model is None else f" of {tag_text(ballot.model)}"
        winner = "nobody" if ballot.winner is None else tag_text(ballot.winner)
        shares = ", ".join(f"{tag_text(side)} {share:.2f}" for side, share in ballot.shares.items())
        first = tag_text(ballot.order[0]) if ballot.order else "nobody"
        lines.append(f"Ballot {number}{who}, which was shown {first} first: {winner} ({shares})")
        lines.append(f"  Reasons: {quoted(_render_reasons(ballot))}")
    return "\n".join(lines)


def _render_reasons(ballot: JudgeBallot) -> str:
    """Render the reasons given in a ballot, explaining the labels of the positions if there are any."""
    if ballot.labels is None:
        return ballot.reasoning
    called = "; ".join(f"{ballot.labels[side]}: {side}" for side in ballot.order)
    return f"{ballot.reasoning} ({called})"


def _render_ballot(ballot: JudgeBallot) -> str:
    """Render a ballot's winner and reasons.

    Reasons with several paragraphs start on a line of their own, because the first paragraph may be a heading.
    """
    reasons = _render_reasons(ballot)
    return f"For {ballot.winner or 'none of them'}:{_PARAGRAPH if _PARAGRAPH in reasons else ' '}{reasons}"


def _end(side: str) -> str:
    """Add a period to a stance unless it already ends in sentence punctuation."""
    return side if side.rstrip()[-1:] in (".", "!", "?", "…") else f"{side}."


def _names(text: str, side: str) -> bool:
    """Check whether `text` mentions `side` as whole words, ignoring case."""
    label = re.escape(" ".join(side.split()).rstrip(".!?…").casefold())
    return re.search(rf"(?<!\w){label}(?!\w)", " ".join(text.split()).casefold()) is not None


# Quoted statements

# maximum length of a statement in characters; one prompt contains all of a side's statements
_MAX_STATEMENT_LENGTH = 300
_MIN_STATEMENT_WORDS = 5  # minimum number of words in a statement; anything shorter is an exclamation
_END = r"(?:[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+|(?=\n))\s*"
_ABBREVIATED = r"(?i)(?:\b(?:\w|Mrs?|Ms|Dr|Prof|St|No|vs|cf|e\.g|i\.e|approx))\.$"
_WORD = re.compile(r"\w+")


def sentences_of(text: str) -> list[str]:
    """Split `text` into sentences, each a substring of `text`.

    >>> sentences_of("Dr. Lee counted 3.5 cases. Nobody replied!")
    ['Dr. Lee counted 3.5 cases.', 'Nobody replied!']
    """
    pieces, start = [], 0
    for end in re.finditer(_END, text):
        if re.search(_ABBREVIATED, text[start : end.end()].rstrip()) and "\n" not in end[0]:
            continue
        pieces.append(text[start : end.end()].strip())
        start = end.end()
    sentences = []
    for sentence in filter(_WORD.search, [*pieces, text[start:].strip()]):
        sentence_text = (
            sentence if len(sentence) <= _MAX_STATEMENT_LENGTH else sentence[:_MAX_STATEMENT_LENGTH].rsplit(None, 1)[0]
        )
        sentences.append(sentence_text if _WORD.search(sentence_text) else sentence[:_MAX_STATEMENT_LENGTH])
    return sentences


def statements_of(
    entries: Sequence[DebateContributionEntry], side: str, sources: tuple[Source, ...] = ()
) -> list[Statement]:
    """List a side's sentences, in order, as candidates for a quote.

    If any statements quote one of the `sources` verbatim, all others are left out, because a small model tends to
    prefer fluent fabrications. Short statements are used only if there are no longer ones. If there are more statements
    than letters, only the last ones are kept.
    """
    every = [
        Statement(entry=index, text=sentence)
        for index, entry in enumerate(entries)
        if entry.stance == side
        for sentence in sentences_of(entry.text)
    ]
    proven = [
        item
        for item in every
        if any(
            quote.status == "verified" and quote.text in item.text
            for quote in look_up(entries[item.entry].text, sources)
        )
    ]
    long = [statement for statement in every if len(_WORD.findall(statement.text)) >= _MIN_STATEMENT_WORDS]
    return (proven or long or every)[-MAX_LETTERS:]


def reply_to(
    statement: Statement, entries: Sequence[DebateContributionEntry], *, turn_order: TurnOrder = "declared"
) -> Statement | None:
    """Find the later sentence by another side that shares the most words with `statement`.

    In a tie, the earliest sentence is returned; if no other side spoke later, the result is None. Shared words do not
    make the sentence an answer, so the verdict does not call it one. If the sides of a round spoke simultaneously, only
    sentences from later rounds count.
    """

    def fold_words(text: str) -> set[str]:
        return {word.casefold() for word in _WORD.findall(text)}

    words, stated = fold_words(statement.text), entries[statement.entry]
    later = [
        Statement(entry=index, text=sentence)
        for index, entry in enumerate(entries)
        if index > statement.entry
        and entry.stance != stated.stance
        and (turn_order != "simultaneous" or entry.round > stated.round)
        for sentence in sentences_of(entry.text)
    ]
    return max(later, key=lambda other: len(words & fold_words(other.text)), default=None)
