"""Reviews of pull requests on a loopback server like GitHub's, with scripted models."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.cli.pull_request import State
from tests.cli.github import REPOSITORY, TOKEN, Hub, in_seconds, serving
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vendors import Asked

CODE = "".join(f"def f{number}(x):\n    return x + {number}\n\n\n" for number in range(40))
BAD = CODE.replace("return x + 3\n", "return x / 0\n")
FLAW = {"title": "Divides by zero", "claim": "It always fails.", "severity": "blocker", "file": "app.py",
        "quote": "return x / 0"}  # fmt: skip
SEATS = ("--reviewer", "Ada", "--reviewer", "Ben", "--model", "openai/gpt-5-mini", "--no-store")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """Make a repository whose pull request has a flaw and a picture."""
    hub = Hub()
    hub.base = hub.commit("m1", None, app__py=CODE, other__py="a = 1\n")
    hub.head = hub.commit("h1", "m1", app__py=BAD, docs__md="# Shop\n")
    with serving(hub) as address:
        monkeypatch.setenv("GITHUB_API_URL", address)
        monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("FLOWDEBATE_REVIEW_KEY", "a secret")
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        monkeypatch.chdir(tmp_path)
        yield hub


class Models:
    """Scripted reviewers: they raise a flaw whose quote they are shown, and confirm what still stands."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.flaws: list[dict[str, Any]] = [FLAW]
        self.verdict: str | None = None

    def __call__(self, request: Asked) -> Any:
        """Answer a request."""
        fields, prompt = (request.schema or {})["properties"], request.prompt
        self.prompts.append(prompt)
        if "findings" in fields:
            return {"findings": [flaw for flaw in self.flaws if flaw["quote"] in prompt]}
        if "pairs" in fields:
            return {"pairs": []}
        ids = re.findall(r"^\[(F\d+)\] Severity", prompt, re.MULTILINE)
        word = self.verdict or ("confirm" if "+    return x / 0" in prompt else "refute")
        return {"verdicts": [{"finding": name, "verdict": word, "reason": "See there."} for name in ids]}


@pytest.fixture
def models() -> Iterator[Models]:
    """Serve scripted models behind a vendor's address."""
    models = Models()
    with vendors() as clients:
        clients["openai"].say = models
        yield models


def review(*arguments: str) -> Any:
    """Run the command on the pull request."""
    return CliRunner().invoke(app, ["review", "--pr", "7", *arguments, *SEATS], catch_exceptions=False)


GATE = ("--post", "--gate", "no confirmed blocker")


def test_a_review_is_one_comment_with_notes_that_the_next_push_updates(hub: Hub, models: Models) -> None:
    """Only new changes are read; open findings stay in the gate, and resolved ones are marked."""
    first = review(*GATE)
    assert first.exit_code == 4, first.output
    [comment] = hub.reviews
    assert comment["body"].startswith("### Read 2 of 2 files in full: 1 confirmed (1 blocker)")
    assert "**does not hold**" in comment["body"]
    assert (comment["event"], comment["commit_id"]) == ("COMMENT", hub.head)
    assert [(note["path"], note["line"]) for note in hub.notes] == [("app.py", 14)]
    assert "Divides by zero" in hub.notes[0]["body"]

    models.prompts.clear()
    hub.head = hub.commit("h2", "h1", other__py="a = 2\nnew = 3\n")
    second = review(*GATE)
    assert second.exit_code == 4, second.output
    assert (len(hub.reviews), len(hub.notes)) == (1, 1)
    assert "Read what is new since" in hub.reviews[0]["body"]
    assert all("new = 3" in prompt and "# Shop" not in prompt for prompt in models.prompts)

    hub.head = hub.commit("h3", "h2", app__py=BAD.replace("x / 0", "x / 1"))
    third = review(*GATE)
    assert third.exit_code == 0, third.output
    assert (len(hub.reviews), len(hub.notes)) == (1, 1)
    assert "1 resolved (1 blocker)" in hub.reviews[0]["body"]
    assert hub.notes[0]["body"].startswith("**Resolved** in ")

    models.prompts.clear()
    assert review(*GATE).exit_code == 0
    assert models.prompts == []
    assert hub.reviews[0]["body"].startswith("### Nothing to read since")


def test_unresolved_findings_fail_the_gate_without_a_call(hub: Hub, models: Models) -> None:
    """A push of excluded files only, and a second review of one commit, make no call."""
    assert review(*GATE, "--exclude", "*.lock").exit_code == 4
    models.prompts.clear()
    assert review(*GATE, "--exclude", "*.lock").exit_code == 4
    hub.head = hub.commit("h2", "h1", uv__lock="x\n")
    second = review(*GATE, "--exclude", "*.lock")
    assert second.exit_code == 4, second.output
    body = hub.reviews[0]["body"]
    assert "not resolved: 1 finding" in body
    assert "Excluded: uv.lock" in body.replace("\\", "")
    assert models.prompts == []


def test_change_of_excluded_files_alone_passes(hub: Hub, models: Models) -> None:
    """The gate passes; a file that is not excluded leaves it open."""
    hub.head = hub.commit("l1", "m1", uv__lock="x\n" * 9)
    assert review(*GATE, "--exclude", "*.lock").exit_code == 0
    assert "Excluded: uv.lock" in hub.reviews[0]["body"].replace("\\", "")
    hub.head = hub.commit("l2", "l1", logo__png=b"\x89PNG\0\1")
    assert review(*GATE, "--exclude", "*.lock").exit_code == 3
    assert "is undecided" in hub.reviews[0]["body"]
    assert models.prompts == []


@pytest.mark.parametrize("how", ["author", "edited", "state", "other"])
def test_foreign_comment_is_ignored(hub: Hub, models: Models, how: str) -> None:
    """Its state is ignored, and the whole change is read."""
    models.flaws = []
    assert review(*GATE).exit_code == 0
    comment = hub.reviews[0]
    hub.head = hub.commit("h2", "h1", app__py=BAD + "\n# the end\n")
    state = State.read(comment["body"], b"a secret")
    assert state is not None
    forged = state.model_copy(update={"head": hub.head})
    body, _, _ = comment["body"].rpartition("<!--")
    if how == "author":
        comment["user"] = {"login": "mallory"}
    elif how == "edited":
        comment["body"] = body + forged.sign(b"another key")
    elif how == "state":
        comment["body"] = body + "<!-- flowdebate-review AAAA " + "0" * 64 + " -->"
    else:
        comment["body"] = body + forged.model_copy(update={"number": 8}).sign(b"a secret")
    models.flaws = [FLAW]
    models.prompts.clear()
    assert review(*GATE).exit_code == 4
    assert "# Shop" in models.prompts[0]
    assert len(hub.reviews) == (2 if how == "author" else 1)
    assert comment["user"]["login"] != "mallory" or comment["body"].startswith(body[:40])


def test_rewritten_branch_is_reviewed_in_full_and_keeps_its_findings(hub: Hub, models: Models) -> None:
    """Findings follow a file to a new name."""
    assert review(*GATE).exit_code == 4
    hub.head = hub.commit("r1", "m1", app__py=None, main__py=BAD, docs__md="# Shop\n")
    models.flaws = []
    models.prompts.clear()
    rewritten = review(*GATE)
    assert "The whole change is read" in rewritten.stderr
    assert "# Shop" in models.prompts[0]
    assert rewritten.exit_code == 4, rewritten.output
    assert "1 confirmed (1 blocker)" in hub.reviews[0]["body"]


def test_changes_hidden_in_a_merge_are_reviewed(hub: Hub, models: Models) -> None:
    """A merge that drops changes of the base shows no difference since the branch."""
    models.flaws = []
    assert review(*GATE).exit_code == 0
    hub.base = hub.commit("m2", "m1", other__py="a = 'mended'\n")
    models.prompts.clear()
    hub.head = hub.merge("h2", "h1", "m2")
    assert review(*GATE).exit_code == 0
    assert any("a = 'mended'" in prompt for prompt in models.prompts)


def test_hidden_patches_are_reviewed_and_unreadable_ones_leave_the_gate_open(hub: Hub, models: Models) -> None:
    """Omitted patches are built from both versions; links, pictures and submodules are named."""
    models.flaws = []
    hub.hidden.add("app.py")
    hub.links.add("link")
    sub = "Subproject commit " + "a" * 40 + "\n"
    hub.head = hub.commit("h2", "h1", link="app.py", logo__png=b"\x89PNG\0\1\2", latin__py=b"n = '\xe9'\n", sub=sub)
    result = review(*GATE)
    assert result.exit_code == 3, result.output
    assert any("+    return x / 0" in prompt for prompt in models.prompts)
    assert any("n = 'é'" in prompt for prompt in models.prompts)
    body = hub.reviews[0]["body"]
    for text in ("link (is a link)", "logo.png (is binary)", "sub (is a submodule)"):
        assert text in body.replace("\\", "")
    models.prompts.clear()
    hub.head = hub.commit("h3", "h2", docs__md="# Shops\n")
    assert review(*GATE).exit_code == 3
    assert any("return x / 0" in prompt for prompt in models.prompts)  # nothing counts as read before


def test_pagination_and_rate_limits_are_handled(hub: Hub, models: Models) -> None:
    """A short limit is waited for; a long one is an error with its duration."""
    hub.page = 2
    hub.head = hub.commit("h2", "h1", **{f"file{number}__py": f"n = {number}\n" for number in range(7)})
    hub.limits = [(403, {"retry-after": "0"}), (429, {"retry-after": "0"}), (502, {})]
    assert review(*GATE).exit_code == 4
    assert hub.reviews[0]["body"].startswith("### Read 9 of 9 files in full")
    hub.limits = [(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": in_seconds(3_000)})] * 9
    limited = review(*GATE)
    assert limited.exit_code == 2
    assert "GitHub's rate limit is used up for another" in limited.stderr


def test_read_only_token_puts_the_review_in_the_summary(
    hub: Hub, models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A fork has such a token; the exit code says that nothing was posted."""
    models.flaws = []
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    hub.can_write = False
    result = review(*GATE)
    assert result.exit_code == 1
    assert "pull-requests: write" in result.stderr
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### Read 2 of 2 files in full: nothing found")
    assert "not posted" in summary
    assert hub.reviews == []
    monkeypatch.setenv("GITHUB_TOKEN", "wrong")
    assert "GITHUB_TOKEN is not valid" in review(*GATE).stderr


def test_failed_run_is_reported_and_keeps_confirmed_findings(hub: Hub, models: Models) -> None:
    """A missing model and invalid options are reported."""
    assert review(*GATE).exit_code == 4
    hub.head = hub.commit("h2", "h1", other__py="a = 2\n")
    failed = review("--post", "--gate", "be nice")
    assert failed.exit_code == 2
    [comment] = hub.reviews
    assert comment["body"].startswith("### The review failed\n\n")
    assert "Divides by zero" in comment["body"]
    models.flaws = []
    assert review(*GATE).exit_code == 4  # it was reviewed before and is still open


def test_finding_outside_the_diff_is_only_in_the_comment(hub: Hub, models: Models) -> None:
    """GitHub may also reject a line that it showed before."""
    hub.hidden.add("app.py")  # no line of it is in GitHub's diff
    assert review(*GATE).exit_code == 4
    assert "app.py" in hub.reviews[0]["body"]
    assert hub.notes == []


def test_commit_can_be_named_and_nothing_is_posted_by_default(hub: Hub, models: Models) -> None:
    """`--since` selects new changes; without `--post`, nothing is written."""
    before = hub.head
    hub.head = hub.commit("h2", "h1", other__py="a = 2\n")
    result = review("--since", before, "--format", "json")
    assert result.exit_code == 0, result.output
    assert [file["file"] for file in json.loads(result.stdout.splitlines()[-1])["coverage"]] == ["other.py"]
    assert all(method == "GET" for method, _ in hub.requests)
    for wrong in (["--diff"], ["--source", "x"]):
        assert "cannot be combined" in review(*wrong).stderr


def test_plan_file_in_the_change_does_not_affect_its_gate(hub: Hub, models: Models) -> None:
    """Neither its globs nor its gate are used."""
    Path("review.toml").write_text('exclude = ["*.py"]\n')
    result = review(*GATE, "--file", "review.toml")
    assert result.exit_code == 4, result.output  # globs are those of the command line
    hub.head = hub.commit("h2", "h1", review__toml="x = 1\n")
    models.prompts.clear()
    assert "The plan file is part of the change" in review(*GATE, "--file", "review.toml").stderr
    assert models.prompts == []


def test_fork_without_a_key_gets_an_explanation(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment and the exit code explain it: a gate never passes over an unread change."""
    hub.owner = "mallory/shop"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = review(*GATE)
    assert result.exit_code in (1, 2), result.output
    body = hub.reviews[0]["body"]
    assert body.startswith("### The review failed")
    assert "comes from a fork" in body


@pytest.mark.usefixtures("models")
def test_the_workflow_of_the_example_reviews_and_gives_forks_no_key(hub: Hub) -> None:
    """The workflow checks out nothing of the change, and pins the same actions as our workflows."""
    root = Path(__file__).parents[2]
    text = (root / "examples/review/flowdebate-review.yml").read_text()
    workflows = "".join(workflow.read_text() for workflow in (root / ".github" / "workflows").glob("*.yml"))
    assert all(line in workflows for line in re.findall(r"uses: .*", text))
    workflow = yaml.safe_load(text)
    assert workflow[True] == "pull_request_target"  # YAML reads "on" as true
    assert "actions/checkout" not in text
    *_, step = workflow["jobs"]["review"]["steps"]
    condition = "github.event.pull_request.head.repo.full_name == github.repository && secrets."
    keys = {name: value for name, value in step["env"].items() if name.endswith("_API_KEY")}
    assert len(keys) == 3
    assert all(value == f"${{{{ {condition}{name} || '' }}}}" for name, value in keys.items())
    hub.head = hub.commit("h2", "h1", uv__lock="x\n" * 9)
    program, *arguments = shlex.split(step["run"].replace("$NUMBER", "7"))
    result = CliRunner().invoke(app, [*arguments, "--gate", "no confirmed blocker", *SEATS], catch_exceptions=False)
    assert (program, result.exit_code) == ("flowdebate", 4), result.output
    assert "excluded: uv.lock" in hub.reviews[0]["body"].replace("\\", "")


@pytest.mark.usefixtures("hub")
def test_misuse_is_reported_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that require --pr, a token or a repository are rejected."""
    runner = CliRunner()
    assert "--post requires --pr N" in runner.invoke(app, ["review", "--post", "--diff"]).stderr
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "set GITHUB_TOKEN" in review("--post").stderr
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert "set GITHUB_REPOSITORY=OWNER/NAME" in review().stderr
