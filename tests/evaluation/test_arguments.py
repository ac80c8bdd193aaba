from __future__ import annotations

import math
from typing import Any

import pytest
from argumentation.gradual.dfquad import dfquad_strengths
from argumentation.gradual.gradual import WeightedBipolarGraph
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.arguments.graph import (
    ArgumentGraph,
    Claim,
    Contested,
    StrengthChange,
    argument_graph,
    claim_strengths,
    contest,
    graph_of_debate,
)
from tests.measures.drawn import texts

scores = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0, 5e-324, 1 - 2**-53])


@st.composite
def graphs(draw: st.DrawFn, *, most: int = 9) -> ArgumentGraph:
    """Graphs without cycles: what speaks for or against a claim comes after it."""
    names = draw(st.lists(st.text(max_size=3), min_size=1, max_size=most, unique=True))
    claims = [Claim(id=name, base=draw(scores)) for name in names]
    kinds = st.sampled_from(["attacks", "supports", "neither"])
    pairs: dict[str, list[tuple[str, str]]] = {"attacks": [], "supports": [], "neither": []}
    for place, name in enumerate(names):
        for later in names[place + 1 :]:
            pairs[draw(kinds)].append((later, name))
    return argument_graph(claims, attacks=pairs["attacks"], supports=pairs["supports"])


def chain(length: int, kind: str = "attacks", base: float = 0.5) -> ArgumentGraph:
    """Claims of which each speaks about the one before it."""
    claims = [Claim(id=str(place), base=base) for place in range(length)]
    pairs = [(str(place + 1), str(place)) for place in range(length - 1)]
    return argument_graph(claims, **{kind: pairs})


class Case:
    """A claim of base score `base` with what speaks for and against it, and the strength by the formula on paper."""

    def __init__(self, base: float, supports: list[float], attacks: list[float], strength: float) -> None:
        self.base, self.supports, self.attacks, self.strength = base, supports, attacks, strength


CASES = {
    "nothing is said": Case(0.7, [], [], 0.7),
    "one attack": Case(0.5, [], [0.8], 0.1),
    "one support": Case(0.5, [0.8], [], 0.9),
    "as much for as against": Case(0.3, [0.6], [0.6], 0.3),
    "more for than against": Case(0.5, [0.8], [0.2], 0.8),
    "more against than for": Case(0.5, [0.2], [0.8], 0.2),
    "two supports": Case(0.2, [0.5, 0.5], [], 0.8),
    "two attacks": Case(0.8, [], [0.5, 0.5], 0.2),
    "a sure attack": Case(0.9, [], [1.0, 0.3], 0.0),
    "a sure support": Case(0.1, [1.0], [], 1.0),
    "both sure": Case(0.4, [1.0, 0.2], [1.0], 0.4),
    "nothing to support": Case(0.0, [0.5], [], 0.5),
    "nothing to attack": Case(0.0, [], [0.5], 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_strengths_are_those_of_the_formula(name: str) -> None:
    """Worked out by hand."""
    case = CASES[name]
    given = [*case.supports, *case.attacks]
    claims = [Claim(id="it", base=case.base), *(Claim(id=str(n), base=base) for n, base in enumerate(given))]
    supports = [(str(n), "it") for n in range(len(case.supports))]
    attacks = [(str(n), "it") for n in range(len(case.supports), len(given))]
    assert claim_strengths(argument_graph(claims, attacks=attacks, supports=supports))["it"] == pytest.approx(
        case.strength, abs=1e-12
    )


@given(graphs())
def test_strengths_are_those_of_another_implementation(graph: ArgumentGraph) -> None:
    """`formal-argumentation` evaluates the same graph to the same numbers."""
    theirs = dfquad_strengths(
        WeightedBipolarGraph(
            arguments=frozenset(claim.id for claim in graph.claims),
            initial_weights={claim.id: claim.base for claim in graph.claims},
            attacks=frozenset(graph.attacks),
            supports=frozenset(graph.supports),
        )
    )
    assert claim_strengths(graph) == pytest.approx(theirs.strengths, abs=1e-12)


@given(graphs(), st.randoms())
def test_the_order_of_claims_and_relations_changes_no_bit(graph: ArgumentGraph, random: Any) -> None:
    """Equal floats, not nearly equal ones."""
    claims, attacks, supports = list(graph.claims), list(graph.attacks), list(graph.supports)
    for part in (claims, attacks, supports):
        random.shuffle(part)
    assert claim_strengths(argument_graph(claims, attacks=attacks, supports=supports)) == claim_strengths(graph)


def test_sums_that_depend_on_their_order_do_not_here() -> None:
    """A product of these floats is another one in another order."""
    bases = [0.1, 0.2, 0.4]
    forwards = math.prod(1 - base for base in bases)
    backwards = math.prod(1 - base for base in reversed(bases))
    assert forwards != backwards
    claims = [Claim(id="it"), *(Claim(id=str(base), base=base) for base in bases)]
    pairs = [(str(base), "it") for base in bases]
    one = argument_graph(claims, attacks=pairs)
    other = argument_graph(claims, attacks=reversed(pairs))
    assert claim_strengths(one) == claim_strengths(other)


@given(graphs())
def test_strengths_are_from_0_to_1_in_the_order_of_the_claims(graph: ArgumentGraph) -> None:
    """And what nothing is said about keeps its base score exactly."""
    found = claim_strengths(graph)
    assert list(found) == [claim.id for claim in graph.claims]
    assert all(0 <= strength <= 1 for strength in found.values())
    spoken_of = {target for _, target in (*graph.attacks, *graph.supports)}
    assert all(found[claim.id] == claim.base for claim in graph.claims if claim.id not in spoken_of)


@given(graphs(), scores, st.data())
def test_a_contest_changes_what_depends_on_the_claim_and_says_so(
    graph: ArgumentGraph, base: float, data: st.DataObject
) -> None:
    """The graph given stays as it is; `changes` lists all differences."""
    before = claim_strengths(graph)
    written = graph.model_dump_json()
    claim = data.draw(st.sampled_from([claim.id for claim in graph.claims]))
    result = contest(graph, claim, base=base)
    assert graph.model_dump_json() == written
    assert result.strengths == claim_strengths(result.graph)
    assert {change.claim: (change.before, change.after) for change in result.changes} == {
        name: (before[name], after) for name, after in result.strengths.items() if before[name] != after
    }
    reached = {claim}
    for _ in graph.claims:
        reached |= {target for source, target in (*graph.attacks, *graph.supports) if source in reached}
    assert {change.claim for change in result.changes} <= reached
    own = next(item.base for item in graph.claims if item.id == claim)
    assert contest(result.graph, claim, base=own).strengths == before


@given(graphs(), scores, st.data())
def test_a_new_attack_never_makes_a_claim_stronger(graph: ArgumentGraph, base: float, data: st.DataObject) -> None:
    """The new claim is among what changed, as one that was not there."""
    claim = data.draw(st.sampled_from([claim.id for claim in graph.claims]))
    result = contest(graph, claim, by=Claim(id="another one", base=base))
    assert result.strengths[claim] <= claim_strengths(graph)[claim] + 1e-12
    assert result.changes[-1] == StrengthChange(claim="another one", before=None, after=base)


def test_a_contest_by_score_and_by_claim_at_once() -> None:
    """Both count."""
    graph = argument_graph([Claim(id="a", base=0.8)])
    result = contest(graph, "a", base=0.5, by=Claim(id="b", base=0.5))
    assert result.strengths == {"a": 0.25, "b": 0.5}
    assert Contested.model_validate_json(result.model_dump_json(by_alias=True)) == result


def refused(build: Any) -> ConfigurationError:
    """The error."""
    with pytest.raises(ConfigurationError) as caught:
        build()
    return caught.value


A, B, C = (Claim(id=name) for name in "abc")

REFUSED: dict[str, tuple[Any, str, str]] = {
    "two of one id": (lambda: argument_graph([A, B, A]), "claims[2].id", "'a'"),
    "a base above 1": (lambda: argument_graph([Claim.model_construct(id="a", base=1.5)]), "claims[0].base", "1.5"),
    "a base that is no number": (
        lambda: argument_graph([Claim.model_construct(id="a", base=math.nan)]),
        "claims[0].base",
        "nan",
    ),
    "a bool": (lambda: argument_graph([Claim.model_construct(id="a", base=True)]), "claims[0].base", "True"),
    "an unknown source": (lambda: argument_graph([A], attacks=[("x", "a")]), "attacks[0]", "'x' is none"),
    "an unknown target": (lambda: argument_graph([A], supports=[("a", "x")]), "supports[0]", "'x' is none"),
    "an attack on itself": (lambda: argument_graph([A], attacks=[("a", "a")]), "attacks[0]", "two claims"),
    "an attack twice": (
        lambda: argument_graph([A, B], attacks=[("a", "b"), ("a", "b")]),
        "attacks[1]",
        "attacks[0] too",
    ),
    "an attack that supports": (
        lambda: argument_graph([A, B], attacks=[("a", "b")], supports=[("a", "b")]),
        "supports[0]",
        "attacks[0] too",
    ),
    "no pair": (lambda: argument_graph([A, B], attacks=["ab"]), "attacks[0]", "a pair of ids"),  # type: ignore[list-item]
    "a triple": (lambda: argument_graph([A, B], attacks=[("a", "b", "c")]), "attacks[0]", "a pair of ids"),  # type: ignore[list-item]
    "a cycle of two": (
        lambda: argument_graph([A, B], attacks=[("a", "b")], supports=[("b", "a")]),
        "attacks and supports",
        "a → b → a",
    ),
    "a cycle of three, and what depends on it": (
        lambda: argument_graph([Claim(id="d"), A, B, C], attacks=[("b", "a"), ("c", "b"), ("a", "c"), ("a", "d")]),
        "attacks and supports",
        "a → c → b → a",
    ),
    "a contest of nobody": (lambda: contest(argument_graph([A]), "x", base=0.1), "claim", "'x'"),
    "a contest by nothing": (lambda: contest(argument_graph([A]), "a"), "base", "None"),
    "a contest by what is there": (lambda: contest(argument_graph([A, B]), "a", by=B), "claims[2].id", "'b'"),
    "a contest by no score": (lambda: contest(argument_graph([A]), "a", base=2), "claims[0].base", "2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_graph_is_refused_with_its_place(name: str) -> None:
    """The error names the field, and what is wrong there."""
    build, field, part = REFUSED[name]
    error = refused(build)
    assert error.field == field
    assert part in str(error)


def test_a_graph_that_was_not_checked_is_checked_when_it_is_measured() -> None:
    """One that was read from somewhere may have a cycle."""
    graph = ArgumentGraph.model_validate({"claims": [{"id": "a"}, {"id": "b"}], "attacks": [["a", "b"], ["b", "a"]]})
    assert refused(lambda: claim_strengths(graph)).where == "claim_strengths()"


def test_a_long_cycle_is_named_shortly() -> None:
    """A message is for reading."""
    graph = chain(1_000)
    error = refused(lambda: argument_graph(graph.claims, attacks=[*graph.attacks, ("0", "999")]))
    assert str(error).count("→") == 12
    assert "…" in str(error.got)


def test_chains_of_10_000_are_no_matter_of_recursion() -> None:
    """Each attacks the one before it: strengths come to where s = (1 - s) / 2."""
    graph = chain(10_000)
    found = claim_strengths(graph)
    assert found["0"] == pytest.approx(1 / 3)
    assert found["9999"] == 0.5
    around = [*graph.attacks, ("0", "9999")]
    assert refused(lambda: argument_graph(graph.claims, attacks=around)).field == "attacks and supports"


def entry(stance: str, text: str = "…", number: int = 1, name: str = "") -> DebateContributionEntry:
    """An argument."""
    return DebateContributionEntry.model_construct(round=number, agent_name=name or stance, stance=stance, text=text)


def test_the_graph_of_a_debate_has_its_shape() -> None:
    """Each argument attacks the others' latest and supports its own side's latest; claims have their authors."""
    said = [entry("pro"), entry("con"), entry("third"), entry("pro", "again", 2, "ann"), entry("con", number=2)]
    graph = graph_of_debate(said, base=0.4)
    assert graph.attacks == (("2", "1"), ("3", "1"), ("3", "2"), ("4", "2"), ("4", "3"), ("5", "4"), ("5", "3"))
    assert graph.supports == (("4", "1"), ("5", "2"))
    assert graph.claims[3] == Claim(id="4", text="again", base=0.4, author="ann", stance="pro", round=2)


def test_base_scores_may_depend_on_the_argument() -> None:
    """Such as on whether its quotes were found; an invalid score is an error."""
    graph = graph_of_debate(
        [entry("pro", "short"), entry("con", "long " * 9)], base=lambda said: min(1, len(said.text) / 10)
    )
    assert [claim.base for claim in graph.claims] == [0.5, 1]
    assert refused(lambda: graph_of_debate([entry("pro")], base=7)).field == "claims[0].base"
    assert graph_of_debate([]) == argument_graph([])


@given(st.lists(st.builds(entry, texts, texts, st.integers(1, 5)), max_size=8))
def test_any_debate_has_a_graph(said: list[DebateContributionEntry]) -> None:
    """Without cycles, in which nobody attacks their own side."""
    graph = graph_of_debate(said)
    stances = {claim.id: claim.stance for claim in graph.claims}
    assert len(claim_strengths(graph)) == len(said)
    assert all(stances[source] != stances[target] for source, target in graph.attacks)
    assert all(stances[source] == stances[target] for source, target in graph.supports)
    assert all(int(source) > int(target) for source, target in (*graph.attacks, *graph.supports))
