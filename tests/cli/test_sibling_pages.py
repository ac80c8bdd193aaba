"""Pages of the other patterns: untrusted text never looks like the page's own."""

from __future__ import annotations

import asyncio
import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from inline_snapshot import snapshot
from typer.testing import CliRunner

from flowdebate.chassis.state import TurnFinished, TurnStarted
from flowdebate.cli.app import app
from flowdebate.cli.terminal.page import Page, render
from flowdebate.patterns import find_pattern
from flowdebate.patterns.deliberation.page import DeliberationLive
from flowdebate.runs.events import BlockAnswered, TextDelta
from flowdebate.testing import FunctionModel
from flowdebate.ui.document import read_document
from flowdebate.ui.markdown import report
from flowdebate.ui.plan import make_plan
from flowdebate.ui.text import printable
from tests.models.policies.helpers import warped

from .siblings import ANSWERS, REPORTS, build_document, serve_stage
from .stage import OnTerminal, Stage
from .test_page import ESCAPES, TERMINAL, Screen
from .test_render import HOSTILE
from .test_report import FOREIGN, OWN, list_headings, list_tokens
from .test_siblings import run_pattern

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.models.base import ModelRequest
    from flowdebate.ui.document import Document

PATTERNS = ("deliberation", "handoff", "round_robin", "consensus")
each_pattern = pytest.mark.parametrize("pattern", PATTERNS)


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Share a folder among the examples of a property test."""
    return tmp_path_factory.mktemp("saved")


def load_document(pattern: str, text: str, shared_folder: Path) -> Document:
    """Read back a document with all untrusted text set to `text`."""
    path = shared_folder / "saved.json"
    path.write_text(json.dumps(build_document(text)[pattern]))
    return read_document(str(path))


def normalize_page(page: str) -> str:
    """Return a page without its model line and its last lines, since these contain times."""
    return re.sub(r"^Model: .*\n|\nTokens:(.|\n)*", "", page)


@each_pattern
@given(text=HOSTILE)
def test_untrusted_text_cannot_control_the_terminal(pattern: str, shared_folder: Path, text: str) -> None:
    """Apart from the page's own color codes, every character is printable, even in frames and labels."""
    run_document = load_document(pattern, text, shared_folder)
    screen = Screen()
    render(run_document, Page(screen, run_document.speakers, environ=TERMINAL))
    visible_text = ESCAPES.sub("", screen.getvalue())
    assert printable(visible_text) == visible_text


HEADS = {
    "deliberation": ["Topic", "Round 1 of 2", "X", "Moderator: ", "Incomplete: ", "Decision"],
    "handoff": ["Proposition", "Turns", "X", "The lot names: ", "Incomplete: "],
    "round_robin": ["Question", "Round 1 of 2", "X", "Referee", "Incomplete: ", "Summary"],
    "consensus": ["Task", "Proposals", "X", "Round 1 of 2", "X", "Vote", "Incomplete: ", "Outcome"],
}
"""Permitted beginnings of lines at the left edge, with X in place of an untrusted name."""


@each_pattern
@given(text=HOSTILE)
def test_untrusted_text_never_starts_at_the_left_edge(pattern: str, shared_folder: Path, text: str) -> None:
    """Text at the left edge could be mistaken for a heading, another speaker or a result.

    Every name is followed by a colon.
    """
    run_document = load_document(pattern, text, shared_folder)
    page = io.StringIO()
    render(run_document, Page(page, run_document.speakers, environ={}))
    lines = [line for line in page.getvalue().split("\n") if line and not line.startswith("  ")]
    changed = ["Changed positions: 0 of 1"] if pattern == "consensus" else []
    ends = ["Ended with gaps", *changed, "Tokens", "Seed"]
    name = printable(text).replace("\n", "\\n").replace("\t", " ")
    heads = [head.replace("X", name.strip(" ")) for head in HEADS[pattern]]
    assert len(lines) == len(heads) + len(ends)
    assert all(line.startswith(head) for line, head in zip(lines, [*heads, *ends], strict=True))


TITLES = {
    "deliberation": ["Deliberation", "Who spoke", "Round 1 of 2", "Decision", "Usage"],
    "handoff": ["Handoff", "Who spoke", "Turns", "Usage"],
    "round_robin": ["Round robin", "Who spoke", "Round 1 of 2", "Summary", "Usage"],
    "consensus": ["Consensus", "Agents", "Proposals", "Round 1 of 2", "Vote", "Outcome", "Notes", "Usage"],
}


@each_pattern
@given(text=FOREIGN)
def test_untrusted_text_never_becomes_report_markup(pattern: str, shared_folder: Path, text: str) -> None:
    page = report(load_document(pattern, text, shared_folder))
    assert list_headings(page) == TITLES[pattern]
    kinds = {token.type for token in list_tokens(page) if token.nesting >= 0}
    assert kinds <= OWN | {"text", "softbreak", "text_special", "strong_open", "em_open"}


def test_simultaneous_answers_are_shown_whole() -> None:
    """An answer is shown as soon as it is complete, even if others are still pending, so chunks never interleave."""
    turns = (("alpha ", "beta."), ("gamma ", "delta."))
    with Stage(turns=turns, answers=ANSWERS, hold=((0, 0), (0, 1), (1, 0))) as on:
        options = on.options("--max-rounds", "1", "--debater", "Ann=first", "--debater", "Ben", verb="deliberation")
        with OnTerminal(*options, cold=True) as terminal:
            terminal.until_like(r"(Ann|Ben) and (Ann|Ben) are thinking")
            on.let_go((0, 0), (1, 0))
            terminal.until("gamma delta.")
            assert "alpha" not in terminal.seen
            terminal.until("delta.\n")
            terminal.until_like(r"delta\..*(Ann|Ben) is (thinking|writing)")  # wait for the first word
            on.let_go()
            terminal.until("alpha beta.")
            terminal.end()


def test_deliberation_page_matches_its_snapshot() -> None:
    with serve_stage() as on:
        result = run_pattern(
            on, "deliberation", "--debater", "Bull=optimistic investor", "--debater", "Bear=risk analyst"
        )
    assert result.exit_code == 0
    # the answers arrive in any order
    text = re.sub(r"(Bear|Bull):\n  Homes first\.", "X", normalize_page(result.stdout))
    assert text == snapshot("""\
Topic: Cap rents?
  Bull: optimistic investor
  Bear: risk analyst

Round 1 of 3

X

X

Moderator: not settled yet
  Summary: They differ.

Round 2 of 3

X

X

Moderator: the matter is settled
  Summary: Both want a cap.
  Decision: Cap them at 3%.

Decision
  Settled: yes
  Decision: Cap them at 3%.
""")


def test_deliberation_without_a_decision_has_no_result() -> None:
    with Stage(answers={"SETTLED": REPORTS[0]}) as on:
        undecided = run_pattern(on, "deliberation", "--max-rounds", "1")
    with Stage(answers={"SETTLED": REPORTS[1] | {"status": "CONTINUE"}}) as on:
        decided = run_pattern(on, "deliberation", "--max-rounds", "1")
    assert (undecided.exit_code, decided.exit_code) == (3, 0)
    assert "Decision\n  Settled: no\n  Decision: none\n" in undecided.stdout
    assert "Decision\n  Settled: no\n  Decision: Cap them at 3%.\n" in decided.stdout


def test_moderator_model_can_return_text() -> None:
    with Stage(turns=(("SUMMARY: One mind.\n", "STATUS: SETTLED\nDECISION: Cap."),)) as on:
        result = run_pattern(on, "deliberation", "--report", "text")
        assert all("response_format" not in body for body in on.bodies)
    assert result.exit_code == 0
    assert "Moderator: the matter is settled\n  Summary: One mind.\n  Decision: Cap.\n" in result.stdout


def test_deliberation_can_continue_without_a_failed_turn() -> None:
    three = [word for name in "abc" for word in ("--debater", name)]
    with serve_stage(broken={0}) as on:
        result = run_pattern(on, "deliberation", *three, "--attempts", "1", "--on-failure", "skip", "--json")
    with serve_stage(broken={0}) as on:
        plain = run_pattern(on, "deliberation", *three, "--attempts", "1", "--on-failure", "skip")
    assert (result.exit_code, plain.exit_code) == (0, 0)
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    for page in (plain.stdout, rendered.stdout):
        assert re.search(r"Debater [abc] failed: ", page)
        assert "Ended with gaps, after 5 complete arguments." in page


def test_handoff_page_matches_its_snapshot() -> None:
    with serve_stage() as on:
        result = run_pattern(on, "handoff")
    assert result.exit_code == 0
    assert normalize_page(result.stdout) == snapshot("""\
Proposition: Cap rents?
  Proponent: agrees with the proposition
  Opponent: disagrees with the proposition
  Neutral: has not decided

Turns

Proponent: turn 1 of 2
  Yes: homes first.
Hands over to: Opponent

Opponent: turn 2 of 2
  No: build more.
The lot names: Neutral ('Opponent' handed over to itself)
""")


@pytest.mark.parametrize("transition", ["text", "tool", "structured"])
def test_each_handoff_form_can_be_selected(transition: str) -> None:
    answers = {"next_agent_name": {"response": "So I say.", "next_agent_name": "Neutral"}}
    with Stage(turns=(("So I say.\n", "Transition to neutral"),), answers=answers) as on:
        result = run_pattern(
            on, "handoff", "--transition", transition, "--max-turns", "1", "--first", "Opponent", "--json"
        )
        (request,) = on.bodies
    assert ("tools" in request, "response_format" in request) == (transition == "tool", transition == "structured")
    (turn,) = json.loads(result.stdout)["raw"]["transcript"]
    assert (turn["agentName"], turn["text"], turn["nextAgentName"]) == ("Opponent", "So I say.", "Neutral")


def test_handoff_to_nobody_can_be_an_error() -> None:
    """With `--on-invalid error`, the exit code is 1 and the transcript is kept."""
    with Stage(turns=(("I say ", "nothing of it."),)) as on:
        result = run_pattern(on, "handoff", "--transition", "text", "--on-invalid", "error")
    assert result.exit_code == 1
    assert "  I say nothing of it.\n" in result.stdout
    assert "Failed after 1 complete turn." in result.stdout


def test_panel_page_matches_its_snapshot(tmp_path: Path) -> None:
    schema = tmp_path / "answer.json"
    schema.write_text('{"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}')
    with serve_stage() as on:
        result = run_pattern(on, "round-robin", "--output-schema", str(schema))
    assert result.exit_code == 0
    assert normalize_page(result.stdout) == snapshot("""\
Question: Cap rents?
  Analyst: weighs the evidence
  Practitioner: knows how it is done
  Critic: looks for what is missing

Round 1 of 1

Analyst:
  Homes first.

Practitioner:
  Homes first.

Critic:
  Homes first.

Referee: Give numbers.
  Analyst: 40 of 100: No source.

Summary
  {
    "answer": 42
  }
""")


def test_panel_can_have_a_synthesized_result() -> None:
    with serve_stage() as on:
        plain, bare = run_pattern(on, "round-robin"), run_pattern(on, "round-robin", "--no-synthesizer")
    with serve_stage(broken={4}) as on:
        result = run_pattern(on, "round-robin", "--attempts", "1", "--on-failure", "skip")
    assert (plain.exit_code, bare.exit_code, result.exit_code) == (0, 0, 3)
    assert "\nSummary\n  Homes first.\n" in plain.stdout
    assert "Summary" not in bare.stdout + result.stdout
    assert "Synthesizer round_robin-synthesizer failed" in result.stdout


def test_consensus_page_matches_its_snapshot() -> None:
    """The saved page lists the agents in declared order, whatever the order of their answers."""
    with serve_stage() as on:
        result = run_pattern(on, "consensus", "--agent", "Planner=plans", "--agent", "Guardian", "--json")
    assert result.exit_code == 0
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    assert normalize_page(rendered.stdout) == snapshot("""\
Task: Cap rents?
  Planner: plans
  Guardian

Proposals

Planner:
  Homes first.

Guardian:
  Homes first.

Round 1 of 1
  Planner on Guardian: severity 0.4: No number.
  Guardian on Planner: severity 0.4: No number.

Planner:
  Cap rents at 3%.

Guardian:
  Cap rents at 3%.

Vote
  Planner votes for: Planner, confidence 0.9: Clear.
  Guardian votes for: Planner, confidence 0.5: Safe.

Outcome
  Outcome: consensus: 'Planner' has 2 of 2 votes; majority asks for more than half of the eligible voters
  Votes: Planner 2, Guardian 0 (of 2)
  Strength: unanimous, confidence 0.70
  Similarity: round 1: 1.00 (converged)
  Winner: Planner
  Answer: Cap rents at 3%.
  Insight: suggested 2 times: Give one.
  Insight: similarity of the proposals: 1.00 after round 1, 1.00 at the end
  Between agents: Planner: 1 critique of Guardian (severity 0.4, revised after 1)
  Between agents: Guardian: 1 critique of Planner (severity 0.4, revised after 1), voted for Planner
""")


def test_debate_without_consensus_has_no_result() -> None:
    answers = {**ANSWERS, "confidence": [{"choice": name, "reasoning": "r", "confidence": 1.0} for name in "ab"]}
    two = ("--agent", "a", "--agent", "b")
    with Stage(answers=answers) as on:
        result, broken = run_pattern(on, "consensus", *two), run_pattern(on, "consensus", *two, "--tie-break")
    assert (result.exit_code, broken.exit_code) == (3, 3)
    assert "Outcome: no consensus: " in result.stdout
    assert "Winner: none\n" in result.stdout
    assert re.search(r"Winner: [ab]\n", broken.stdout)


def test_agents_that_give_no_answer_are_reported_and_skipped() -> None:
    """A failure is shown in place of the agent's answer, never as a proposal."""
    with serve_stage(broken={0}) as on:
        result = run_pattern(on, "consensus", "--attempts", "1", "--json")
    with serve_stage(broken={0}) as on:
        plain = run_pattern(on, "consensus", "--attempts", "1")
    document = json.loads(result.stdout)
    failure = document["raw"]["losses"][0]
    assert (document["status"], failure["phase"], len(document["raw"]["proposals"])) == ("degraded", "proposal", 2)
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    for page in (plain.stdout, rendered.stdout):
        assert re.search(r"\n  \w+ gave no proposal: ", page)
        assert "Ended with gaps, after " in page


def test_consensus_can_fail_when_an_agent_fails() -> None:
    """With `--on-failure fail`, which is not the default, the run ends with the provider's error."""
    with serve_stage(broken={0}) as on:
        result = run_pattern(on, "consensus", "--attempts", "1", "--on-failure", "fail", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["status"], document["raw"]["outcome"]) == (1, "failed", None)


def test_late_answer_counts_as_failed() -> None:
    """`--turn-timeout` sets the time limit, and the debate continues without the late answer."""
    turns = 0

    async def answer(request: ModelRequest) -> Any:
        nonlocal turns
        if request.output_schema is not None:
            schema = json.dumps(request.output_schema)
            reply = next(answer for word, answer in ANSWERS.items() if word in schema)
            return reply[0] if isinstance(reply, list) else reply
        turns += 1
        await asyncio.sleep(0.6 if turns == 3 else 0.4)
        return "Homes first."

    info = find_pattern("consensus")
    assert info is not None
    plan = make_plan(info, {"task": "Cap rents?", "max_rounds": 1, "turn_timeout": "0.5"})
    result = warped(plan.pattern().run(plan.subject, model=FunctionModel(answer), store=False))
    (failure,) = result.raw.losses
    assert (failure.phase, failure.error_type) == ("proposal", "ModelTimeout")


def test_consensus_options_reach_the_pattern(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('voting = "weighted"\nconvergence = false\n[weights]\nGuardian = 9.0\n')
    star = ("--topology", "star", "--hub", "Maker", "--seed", "5")
    off = ("--turn-timeout", "off")
    with serve_stage() as on:
        result = run_pattern(
            on, "consensus", *star, "--max-rounds", "2", "--file", str(plan), "--judge", *off, "--json"
        )
        judged = [body for body in on.bodies if "conclusive" in json.dumps(body)]
    raw = json.loads(result.stdout)["raw"]
    assert all("Maker" in edge for edge in raw["rounds"][0]["edges"])
    assert raw["tally"]["rule"] == "weighted"
    assert raw["tally"]["weights"]["Planner"] + raw["tally"]["weights"]["Guardian"] == 11.0
    assert len(judged) == 1
    with serve_stage() as on:
        early = run_pattern(on, "consensus", "--max-rounds", "3", "--convergence", "0.9", "--json")
        all_rounds = run_pattern(on, "consensus", "--max-rounds", "3", "--convergence", "off", "--json")
        polled = run_pattern(
            on, "consensus", "--max-rounds", "2", "--convergence", "off", "--confidence", "0", "--json"
        )
    assert json.loads(early.stdout)["raw"]["earlyEnd"]["source"] == "convergence"
    assert [len(one.get("poll", ())) for one in json.loads(polled.stdout)["raw"]["rounds"]] == [3]
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=polled.stdout)
    assert rendered.stdout.count(" would vote for: ") == 3
    assert len(json.loads(all_rounds.stdout)["raw"]["rounds"]) == 3


def test_repeated_request_to_a_speaker_is_shown() -> None:
    """The first answer stays on the page, but the second one determines who speaks next."""
    answers = {
        "next_agent_name": [
            {"response": "So I say.", "next_agent_name": "nobody"},
            {"response": "Well.", "next_agent_name": "Neutral"},
        ]
    }
    with Stage(answers=answers) as on:
        result = run_pattern(on, "handoff", "--max-turns", "1", "--json")
    with Stage(answers=answers) as on:
        plain = run_pattern(on, "handoff", "--max-turns", "1")
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    for page in (plain.stdout, rendered.stdout):
        assert "\n  So I say.\nHands over, when asked again, to: Neutral (" in page
        assert "Well." not in page


def test_round_without_a_report_is_shown() -> None:
    options = ("--max-rounds", "2", "--attempts", "1", "--on-failure", "skip")
    with serve_stage(broken={2}) as on:
        result = run_pattern(on, "deliberation", *options, "--json")
    with serve_stage(broken={2}) as on:
        plain = run_pattern(on, "deliberation", *options)
    assert json.loads(result.stdout)["raw"]["reports"][0] is None
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    for page in (plain.stdout, rendered.stdout):
        assert "Moderator deliberation-moderator failed: " in page
        assert "the round has no report" in page


def test_truncated_answer_is_marked_among_simultaneous_speakers() -> None:
    page = io.StringIO()
    deliberation = find_pattern("deliberation")
    assert deliberation is not None
    plan = make_plan(deliberation, {"topic": "Q?", "debaters": ["ann", "ben"]})
    live, screen = DeliberationLive(plan), Page(page, [], environ={})
    turns = [{"block": name, "round": 1, "agent_name": name} for name in ("ann", "ben")]
    events: list[object] = [TurnStarted(**turn) for turn in turns]  # type: ignore[arg-type]  # as declared
    events += [BlockAnswered(block="ann", output="One", truncated=True), BlockAnswered(block="ben", output="Two")]
    events += [TextDelta(block="ann", text="piece"), *(TurnFinished(**turn) for turn in turns)]  # type: ignore[arg-type]
    for event in events:
        for section in live.sections(event):
            screen.show(section)
    remark = "  (the answer was cut off; it counts up to its last full sentence)\n"
    assert page.getvalue() == f"\nann:\n  One\n{remark}\nben:\n  Two\n"


@each_pattern
def test_raw_output_names_its_speakers(pattern: str, tmp_path: Path) -> None:
    path, report_path = tmp_path / "raw.json", tmp_path / "report.md"
    path.write_text(json.dumps(build_document("Homes first.")[pattern]["raw"]))
    run_document = read_document(str(path))
    assert [speaker.name for speaker in run_document.speakers] == ["Homes first."]
    result = CliRunner().invoke(app, ["runs", "render", str(path), "--markdown", str(report_path)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "- **Homes first.**" in report_path.read_text()
