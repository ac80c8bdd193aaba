"""Facts from sources, sorted by the side they support; debaters on a small model begin their turns with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, PromptOptions, debate
from flowdebate.errors import ProviderFailed
from flowdebate.models.base import ModelResponse
from flowdebate.sources.source import Source
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.patterns.debate.schemas import SourceFact
from flowdebate.patterns.debate.small_model import facts_in

HOME, OFFICE = "home is better", "the office is better"
REPORT = """Report on the trial of 2025

At home 31 claims a day were settled, and in the office 26.
Sick leave at home fell by 3 days.
New staff needed 11 weeks at home, and 7 in the office.
Everybody was glad.
"""
HELPS = {"31 claims": 0.9, "Sick leave": 0.5, "New staff": -0.8}


class Small(FunctionModel):
    """A small model that favors the letter A and one side, and knows which side a statement helps."""

    profile = "concise"

    def __init__(self, strays: int = 0, *, tells: bool = True) -> None:
        super().__init__(self.reply)
        self.asked: list[ModelRequest] = []
        self.strays = strays
        self.tells = tells

    def reply(self, request: ModelRequest) -> Any:
        self.asked.append(request)
        turn = str(request.messages[-1]["content"])
        if request.choices and "Fact: “" in turn:
            if not self.tells:
                return "A"
            home = next((worth for words, worth in HELPS.items() if words in turn), 0.0)
            home += 2.0 if "At last, home" in turn else -2.0 if "At last, office" in turn else 0.0
            home += 0.4  # a constant bias toward this side, whatever the statement
            first = home if turn.index(HOME) < turn.index(OFFICE) else -home
            return {"A": first + 1.0 - 9, "B": -9.0}
        if request.choices:
            return {letter: -1.0 - at for at, letter in enumerate(request.choices)}
        side = "home" if request.begins.lower().count(HOME) else "office"
        if self.strays:
            self.strays -= 1
            side = {"home": "office", "office": "home"}[side]
        return ModelResponse(text=f"{request.begins} it is so. At last, {side} it is.")


def make_debate(**options: Any) -> Any:
    """Return a two-round debate on the report."""
    sides = [Debater("remy", HOME), Debater("olga", OFFICE)]
    return debate(name="work", debaters=sides, sources={"trial": REPORT}, synthesizer=False, **options)


def run_debate(model: Small, **options: Any) -> Any:
    """Run a two-round debate on the report."""
    return make_debate(**options).run_sync("Is it better to work at home?", model=model, seed=1)


def test_sides_begin_with_their_own_facts_verbatim() -> None:
    """Each fact is used once, starting with the clearest one.

    A side without facts argues without them, and every quote is verified.
    """
    model = Small()
    raw = run_debate(model).raw
    texts = [(entry.agent_name, entry.text) for entry in raw.transcript]
    assert "31 claims a day" in texts[0][1]
    assert "New staff needed 11 weeks" in texts[1][1]
    assert "Sick leave" in texts[2][1]
    assert "“" not in texts[3][1]
    assert all(HOME in text.lower() for name, text in texts if name == "remy")
    assert [[quote.status for quote in quotes] for quotes in raw.quotes] == [["verified"]] * 3 + [[]]
    sorting = [request for request in model.asked if "Fact: “" in str(request.messages[-1]["content"])]
    # each of 3 facts and 4 turn endings is asked about twice, with the letters swapped
    assert len(sorting) == 2 * 3 + 2 * 4
    turn = next(request for request in model.asked if request.role == "debater" and not request.choices)
    assert "begins with a fact" in str(turn.messages[-1]["content"])


@pytest.mark.parametrize("strays", [1, 2])
def test_turns_that_end_up_supporting_the_other_side_are_retried(strays: int) -> None:
    """The second request prescribes different opening words.

    The new answer is used even if it supports the other side again.
    """
    result = run_debate(Small(strays=strays))
    retries = [event for event in result.events if event.kind == "call_retried"]
    assert [(event.error, event.message) for event in retries] == [("Strayed", f"It ends on the side of {OFFICE!r}")]
    assert result.raw.transcript[0].text.endswith("At last, home it is." if strays == 1 else "At last, office it is.")
    assert result.raw.transcript[0].text.count("“") == 1


def test_models_without_log_probabilities_argue_without_facts() -> None:
    """A single call is enough to find out that a model reports no log probabilities."""
    model = Small(tells=False)
    assert len(run_debate(model).raw.transcript) == 4
    assert sum("Fact: “" in str(request.messages[-1]["content"]) for request in model.asked) == 1


@pytest.mark.anyio
async def test_failed_sorting_is_not_repeated_when_the_debate_is_read() -> None:
    """If the provider fails while facts are sorted, the debate continues without facts, and so does a resumed run."""

    class Failing(Small):
        def reply(self, request: ModelRequest) -> Any:
            if "Fact: “" in str(request.messages[-1]["content"]):
                self.asked.append(request)
                raise ProviderFailed("down", status=503)
            return super().reply(request)

    store, first, second = MemoryStore(), Failing(), Small()
    result = await make_debate().run("Is it better at home?", model=first, seed=1, store=store, run_id="it")
    resumed = await make_debate().resume("it", model=second, store=store)
    assert (result.status, len(second.asked)) == ("complete", 0)
    assert (resumed.output, resumed.usage) == (result.output, result.usage)


def test_debates_that_sort_no_facts_make_no_additional_calls() -> None:
    """With full prompts, custom instructions, a custom template or no sources, no calls are spent on sorting facts."""
    for options in ({"prompts": PromptOptions(profile="full")}, {"instructions": "Be kind."}):
        model = Small()
        run_debate(model, **options, judge=lambda _: {"winner": HOME, "verdict": "Home.", "reasoning": "So."})
        assert not any("Fact: “" in str(request.messages[-1]["content"]) for request in model.asked)


def facts_of(**texts: str) -> list[SourceFact]:
    """Extract the facts from sources, keyed by source name."""
    return facts_in([Source.of(name, text) for name, text in texts.items()])


def test_facts_are_sentences_that_contain_numbers() -> None:
    """Headings, expressions of feeling, quotations and long sentences are left out.

    At most eight facts are used.
    """
    assert [fact.text[:12] for fact in facts_of(trial=REPORT)] == ["At home 31 c", "Sick leave a", "New staff ne"]
    assert facts_of(a="He said “no” 3 times. " + "It is 77. " * 20)[0].text == "It is 77."
    assert len(facts_of(a="It is 77. " * 20, b="It is 88.")) == 8
    assert facts_of(a="1 " * 200 + ".") == []
