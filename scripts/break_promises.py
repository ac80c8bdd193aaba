"""Break each promise shared by all patterns, and check that its test then fails: `break_promises.py [WORD …]`.

Each promise is broken in a copy of the sources by a single edit, and its test is run on that copy for every pattern.
The table shows for each pattern whether the test failed, as it must. The exit code is 1 if a test passed although its
promise is broken, or did not run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("debate", "deliberation", "handoff", "consensus", "round_robin", "council", "review")
FAILURES = "tests/patterns/test_provider_failures.py"
PREDICATES = "tests/patterns/test_predicates.py"
CONDITIONS = "tests/patterns/test_stop_conditions.py"
MISTAKES = "tests/patterns/test_mistakes.py"
OPTIONS = "tests/patterns/test_options.py"
REFUSED = "tests/patterns/test_refused_options.py"
COMPOSED = "tests/patterns/test_composed.py"
HAVE_NO_ROUNDS, ONE_AT_A_TIME = ("council", "review"), ("handoff",)


@dataclass(frozen=True)
class Break:
    """Edits that break a promise, and the test that has to fail."""

    promise: str
    test: str
    file: str
    original: str
    becomes: str
    beside: tuple[tuple[str, str, str], ...] = ()
    """Further edits, as (file, original, replacement), for patterns that also keep the promise elsewhere."""
    without: tuple[str, ...] = ()
    """Patterns that do not make the promise."""


BREAKS = (
    Break(
        "a lost turn fails the run",
        f"{FAILURES}::test_failed_turns_fail_the_run_under_the_fail_policy",
        "chassis/turn.py",
        'return self.on_failure not in ("fail", None)',
        "return True",
    ),
    Break(
        "a skipped turn leaves its loss",
        f"{FAILURES}::test_skipped_turns_leave_only_a_recorded_loss",
        "chassis/turn.py",
        "ctx.scope.handle.update(losses=[*pattern_state(ctx).losses, loss])",
        "pass",
    ),
    Break(
        "every provider failure can be skipped",
        f"{FAILURES}::test_every_provider_failure_can_be_skipped",
        "chassis/turn.py",
        "(isinstance(error, ModelError) and error.providers_fault)",
        "(isinstance(error, ModelError) and error.providers_fault and not isinstance(error, ModelTimeout))",
    ),
    Break(
        "a stand-in speaks",
        f"{FAILURES}::test_fallback_models_replace_a_failed_speaker",
        "chassis/turn.py",
        "    for block in speakers[:-1]:",
        "    for block in ():",
    ),
    Break(
        "a stand-in that fails leaves the turn out",
        f"{FAILURES}::test_turns_are_skipped_if_the_fallback_model_fails",
        "chassis/turn.py",
        'lose(error, "stand_in")',
        "pass",
    ),
    Break(
        "fewer voices than the quorum end it",
        f"{FAILURES}::test_fewer_speakers_than_the_quorum_end_the_run",
        "chassis/rounds.py",
        "if len(set(heard)) < min(quorum, len(lost.union(heard))):",
        "if not heard:",
        without=ONE_AT_A_TIME,
    ),
    Break(
        "a lost decision costs only itself",
        f"{FAILURES}::test_failed_decisions_do_not_affect_anything_else",
        "chassis/spec.py",
        "guarded(block, self.policy_of(role), recover, closes=role.closes)",
        "block",
        without=("handoff",),
    ),
    Break(
        "errors of the application are never skipped",
        f"{FAILURES}::test_application_errors_are_never_skipped",
        "chassis/turn.py",
        "return rejected or (isinstance(error, ModelError) and error.providers_fault)",
        "return True",
    ),
    Break(
        "a turn has a deadline",
        f"{FAILURES}::test_turn_deadline_covers_all_work_in_the_turn",
        "chassis/turn.py",
        "    seconds, latest = timeout,",
        "    seconds, latest = None,",
    ),
    Break(
        "a round has a deadline",
        f"{FAILURES}::test_round_deadline_covers_all_turns_in_the_round",
        "chassis/turn.py",
        "    if failures.round_timeout is not None:",
        "    if False:",
        without=ONE_AT_A_TIME,
    ),
    Break(
        "a limit of the run leaves what was said",
        f"{FAILURES}::test_runs_that_reach_a_limit_keep_their_entries",
        "runs/limits.py",
        'self._check("calls", limits.calls, self._calls + len(flying), 1)',
        'self._check("calls", None, self._calls + len(flying), 1)',
    ),
    Break(
        "a cancelled run has what was said",
        f"{FAILURES}::test_cancelled_runs_keep_their_entries",
        "chassis/turn.py",
        "self._tasks.cancel(self._id, type(error).__name__)",
        "pass",
    ),
    Break(
        "an impossible policy is refused",
        f"{FAILURES}::test_impossible_policies_are_rejected_before_anything_runs",
        "chassis/spec.py",
        "    check_failure_policy(policy, location=location)\n",
        "",
    ),
    Break(
        "nothing is made up, and each failed call is a loss",
        f"{FAILURES}::test_failed_calls_are_recorded_as_losses",
        "chassis/turn.py",
        '        lose(error, "skipped")\n',
        "",
    ),
    Break(
        "a verdict on nothing is no verdict",
        "tests/patterns/test_honest_results.py::test_debates_with_only_empty_entries_have_no_verdict",
        "chassis/turn.py",
        'flag: Flag | None = "empty" if is_blank(text) else ',
        "flag: Flag | None = ",
        beside=(("patterns/handoff/answers.py", 'return "empty" if not self.text else ', "return "),),
        without=("consensus", "review"),
    ),
    Break(
        "a block cannot change history",
        "tests/patterns/test_read_only.py::test_changing_history_fails_the_run_with_an_error_naming_the_block",
        "resources/tasks.py",
        "if task_id in self._tasks.reserved:",
        "if False:",
    ),
    Break(
        "turns carry the role of their speakers",
        "tests/patterns/test_event_roles.py::test_turns_have_the_role_of_their_speaker",
        "chassis/turn.py",
        '"role": speakers[0].role',
        '"role": None',
    ),
    Break(
        "a condition ends the rounds by its name",
        f"{CONDITIONS}::test_conditions_end_the_rounds_and_state_the_reason",
        "chassis/rounds.py",
        "condition is not self.terminate_when",
        "True",
        without=HAVE_NO_ROUNDS,
    ),
    Break(
        "a predicate answers True or False",
        f"{PREDICATES}::test_predicates_returning_a_non_bool_raise_an_error",
        "stop.py",
        "    if not isinstance(answer, bool):",
        "    if False:",
        without=HAVE_NO_ROUNDS,
    ),
    Break(
        "a blank question is refused",
        f"{MISTAKES}::test_blank_questions_are_rejected",
        "chassis/rounds.py",
        "            check_text(location, {name: getattr(checked, name)}, optional=True)\n",
        "            pass\n",
    ),
    Break(
        "an input has a subject",
        f"{REFUSED}::test_inputs_without_a_subject_are_rejected",
        "chassis/rounds.py",
        "        if not all(isinstance(text, str) for text in fields.values()):\n",
        "        if None in fields.values():\n",
    ),
    Break(
        "a name is not blank",
        f"{REFUSED}::test_pattern_names_are_required",
        "chassis/roster.py",
        "    check_text(location, {field: value})\n",
        "    check_text(location, {field: value or 'x'})\n",
    ),
    Break(
        "speakers can be told apart",
        f"{REFUSED}::test_invalid_speakers_are_rejected_with_their_index",
        "chassis/roster.py",
        "first.setdefault(as_seen(text), index)",
        "first.setdefault(text, index)",
    ),
    Break(
        "the most rounds are counted",
        f"{REFUSED}::test_max_rounds_must_be_a_positive_integer",
        "chassis/spec.py",
        "    check_option(Rounds, spec.cap, options.max_rounds, location=location, optional=False)\n",
        "",
        without=HAVE_NO_ROUNDS,
    ),
    Break(
        "a visibility is one",
        f"{REFUSED}::test_invalid_visibilities_are_rejected",
        "blocks/generator.py",
        'audiences = {"client", "history"}',
        'audiences = {"client", "clients", "history"}',
    ),
    Break(
        "options reach every default block",
        f"{OPTIONS}::test_tools_and_settings_are_passed_to_every_default_block",
        "chassis/options.py",
        'options["settings"] = self.settings',
        "pass",
    ),
    Break(
        "a speaker has a model of its own",
        f"{OPTIONS}::test_speaker_models_take_precedence",
        "chassis/spec.py",
        '{"model": member.model}, ',
        "",
    ),
    Break(
        "hidden items are not shown",
        f"{OPTIONS}::test_visibility_of_a_role_applies_to_its_items",
        "blocks/generator.py",
        "            if self.visibility.client:\n                trimmed",
        "            if True:\n                trimmed",
    ),
    Break(
        "the audit trail has the id that it is given",
        f"{OPTIONS}::test_collection_id_identifies_the_audit_trail",
        "chassis/spec.py",
        "collection_id=name if options.collection_id is None else options.collection_id,",
        "collection_id=name,",
    ),
    Break(
        "each of several subjects has a trail of its own",
        f"{COMPOSED}::test_for_each_runs_a_pattern_once_per_subject",
        "chassis/spec.py",
        "                owns=owned,\n",
        "",
        beside=(
            (
                "patterns/consensus/factory.py",
                "owns=[create_task_collection(loop.collection_id, key=AUDIT), circuits]",
                "owns=[circuits]",
            ),
        ),
    ),
)


def break_promise(broken: Break, into: Path) -> Path:
    """Copy the sources and break a promise in the copy; raise SystemExit if the line that keeps it is missing."""
    sources = into / "src"
    shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
    for name, original, becomes in ((broken.file, broken.original, broken.becomes), *broken.beside):
        file = sources / "flowdebate" / name
        text = file.read_text(encoding="utf-8")
        if text.count(original) != 1:
            sys.exit(f"{broken.promise}: {name} must have once {original!r}; say here how it is broken now")
        file.write_text(text.replace(original, becomes), encoding="utf-8")
    return sources


def run_test(test: str, sources: Path, report: Path) -> dict[str, list[bool]]:
    """Return the outcomes of a test on `sources` by pattern, with True for each case that failed."""
    subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=20", f"--junitxml={report}", test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        check=False,  # the tests are expected to fail
    )
    failed: dict[str, list[bool]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - the test runner wrote it
        parameters = case.get("name", "").partition("[")[2].rstrip("]").split("-")
        for pattern in PATTERNS:
            if pattern in parameters:
                failed.setdefault(pattern, []).append(case.find("failure") is not None)
    return failed


def cell(pattern: str, broken: Break, failed: dict[str, list[bool]]) -> str:
    """Format how many cases of a pattern failed; a dash if the promise is not made, and NONE if no case failed."""
    if pattern in broken.without:
        return "-"
    cases = failed.get(pattern, [])
    return f"{sum(cases)} of {len(cases)}" if any(cases) else "NONE"


def main(names: Sequence[str]) -> int:
    """Print the table with one promise per line; `names` selects promises by their words."""
    breaks = [broken for broken in BREAKS if not names or any(word in broken.promise for word in names)]
    print("| promise | " + " | ".join(PATTERNS) + " |\n|---|" + "---|" * len(PATTERNS))
    unnoticed = 0
    for broken in breaks:
        with tempfile.TemporaryDirectory() as folder:
            into = Path(folder)
            failed = run_test(broken.test, break_promise(broken, into), into / "report.xml")
        cells = [cell(pattern, broken, failed) for pattern in PATTERNS]
        unnoticed += cells.count("NONE")
        print(f"| {broken.promise} | " + " | ".join(cells) + " |", flush=True)
    promises = sum(len(PATTERNS) - len(broken.without) for broken in breaks) - unnoticed
    print(f"\n{promises} broken promises were noticed, {unnoticed} were not.")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
