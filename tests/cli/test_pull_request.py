"""Reviews of pull requests with scripted models, on a loopback server that mimics GitHub."""

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
from tests.cli.github import REPOSITORY, TOKEN, Hub, format_reset, serve_hub
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vendors import VendorRequest

CODE = "".join(f"def f{number}(x):\n    return x + {number}\n\n\n" for number in range(40))
BAD = CODE.replace("return x + 3\n", "return x / 0\n")
FLAW = {"title": "Divides by zero", "claim": "It always fails.", "severity": "blocker", "file": "app.py",
        "quote": "return x / 0"}  # fmt: skip
SEATS = ("--reviewer", "Ada", "--reviewer", "Ben", "--model", "openai/gpt-5-mini", "--no-store")


@pytest.fixture
def hub_with_pull_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """Create a repository whose pull request has a flaw and a picture."""
    hub = Hub()
    hub.base = hub.commit("m1", None, app__py=CODE, other__py="a = 1\n")
    hub.head = hub.commit("h1", "m1", app__py=BAD, docs__md="# Shop\n")
    with serve_hub(hub) as address:
        monkeypatch.setenv("GITHUB_API_URL", address)
        monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("FLOWDEBATE_REVIEW_KEY", "a secret")
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        monkeypatch.chdir(tmp_path)
        yield hub


class Models:
    """Scripted reviewers.

    They report a flaw whose quote is in the prompt, and confirm findings that are still valid.
    """

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.flaws: list[dict[str, Any]] = [FLAW]
        self.verdict: str | None = None

    def __call__(self, request: VendorRequest) -> Any:
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
def scripted_models() -> Iterator[Models]:
    """Serve scripted models at a vendor's address."""
    models = Models()
    with vendors() as clients:
        clients["openai"].say = models
        yield models


def run_review(*arguments: str) -> Any:
    """Run the command on the pull request."""
    return CliRunner().invoke(app, ["review", "--pr", "7", *arguments, *SEATS], catch_exceptions=False)


GATE = ("--post", "--gate", "no confirmed blocker")


def test_review_comment_is_updated_by_the_next_push(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    first = run_review(*GATE)
    assert first.exit_code == 4, first.output
    [comment] = hub_with_pull_request.reviews
    assert comment["body"].startswith("### Read 2 of 2 files in full: 1 confirmed (1 blocker)")
    assert "**does not hold**" in comment["body"]
    assert (comment["event"], comment["commit_id"]) == ("COMMENT", hub_with_pull_request.head)
    assert [(note["path"], note["line"]) for note in hub_with_pull_request.notes] == [("app.py", 14)]
    assert "Divides by zero" in hub_with_pull_request.notes[0]["body"]

    scripted_models.prompts.clear()
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", other__py="a = 2\nnew = 3\n")
    second = run_review(*GATE)
    assert second.exit_code == 4, second.output
    assert (len(hub_with_pull_request.reviews), len(hub_with_pull_request.notes)) == (1, 1)
    assert "Read what is new since" in hub_with_pull_request.reviews[0]["body"]
    assert all("new = 3" in prompt and "# Shop" not in prompt for prompt in scripted_models.prompts)

    hub_with_pull_request.head = hub_with_pull_request.commit("h3", "h2", app__py=BAD.replace("x / 0", "x / 1"))
    third = run_review(*GATE)
    assert third.exit_code == 0, third.output
    assert (len(hub_with_pull_request.reviews), len(hub_with_pull_request.notes)) == (1, 1)
    assert "1 resolved (1 blocker)" in hub_with_pull_request.reviews[0]["body"]
    assert hub_with_pull_request.notes[0]["body"].startswith("**Resolved** in ")

    scripted_models.prompts.clear()
    assert run_review(*GATE).exit_code == 0
    assert scripted_models.prompts == []
    assert hub_with_pull_request.reviews[0]["body"].startswith("### Nothing to read since")


def test_unresolved_findings_fail_the_gate_without_a_call(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    """No calls are made for a second review of the same commit, or for a push that touches only excluded files."""
    assert run_review(*GATE, "--exclude", "*.lock").exit_code == 4
    scripted_models.prompts.clear()
    assert run_review(*GATE, "--exclude", "*.lock").exit_code == 4
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", uv__lock="x\n")
    second = run_review(*GATE, "--exclude", "*.lock")
    assert second.exit_code == 4, second.output
    body = hub_with_pull_request.reviews[0]["body"]
    assert "not resolved: 1 finding" in body
    assert "Excluded: uv.lock" in body.replace("\\", "")
    assert scripted_models.prompts == []


def test_change_to_excluded_files_passes(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    """The gate passes only because every changed file is excluded; a change to any other file leaves it undecided."""
    hub_with_pull_request.head = hub_with_pull_request.commit("l1", "m1", uv__lock="x\n" * 9)
    assert run_review(*GATE, "--exclude", "*.lock").exit_code == 0
    assert "Excluded: uv.lock" in hub_with_pull_request.reviews[0]["body"].replace("\\", "")
    hub_with_pull_request.head = hub_with_pull_request.commit("l2", "l1", logo__png=b"\x89PNG\0\1")
    assert run_review(*GATE, "--exclude", "*.lock").exit_code == 3
    assert "is undecided" in hub_with_pull_request.reviews[0]["body"]
    assert scripted_models.prompts == []


@pytest.mark.parametrize("how", ["author", "edited", "state", "other"])
def test_comment_by_somebody_else_is_ignored(hub_with_pull_request: Hub, scripted_models: Models, how: str) -> None:
    """The state stored in somebody else's comment cannot be trusted, so the whole change is reviewed."""
    scripted_models.flaws = []
    assert run_review(*GATE).exit_code == 0
    comment = hub_with_pull_request.reviews[0]
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", app__py=BAD + "\n# the end\n")
    state = State.read(comment["body"], b"a secret")
    assert state is not None
    forged = state.model_copy(update={"head": hub_with_pull_request.head})
    body, _, _ = comment["body"].rpartition("<!--")
    if how == "author":
        comment["user"] = {"login": "mallory"}
    elif how == "edited":
        comment["body"] = body + forged.sign(b"another key")
    elif how == "state":
        comment["body"] = body + "<!-- flowdebate-review AAAA " + "0" * 64 + " -->"
    else:
        comment["body"] = body + forged.model_copy(update={"number": 8}).sign(b"a secret")
    scripted_models.flaws = [FLAW]
    scripted_models.prompts.clear()
    assert run_review(*GATE).exit_code == 4
    assert "# Shop" in scripted_models.prompts[0]
    assert len(hub_with_pull_request.reviews) == (2 if how == "author" else 1)
    assert comment["user"]["login"] != "mallory" or comment["body"].startswith(body[:40])


def test_rewritten_branch_is_reviewed_in_full_and_keeps_its_findings(
    hub_with_pull_request: Hub, scripted_models: Models
) -> None:
    """After a force-push, earlier findings are kept. If a file is renamed, its findings move with it."""
    assert run_review(*GATE).exit_code == 4
    hub_with_pull_request.head = hub_with_pull_request.commit(
        "r1", "m1", app__py=None, main__py=BAD, docs__md="# Shop\n"
    )
    scripted_models.flaws = []
    scripted_models.prompts.clear()
    rewritten = run_review(*GATE)
    assert "The whole change is read" in rewritten.stderr
    assert "# Shop" in scripted_models.prompts[0]
    assert rewritten.exit_code == 4, rewritten.output
    assert "1 confirmed (1 blocker)" in hub_with_pull_request.reviews[0]["body"]


def test_changes_hidden_in_a_merge_are_reviewed(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    """A merge can drop changes from the base branch, which a diff against the branch point would not show."""
    scripted_models.flaws = []
    assert run_review(*GATE).exit_code == 0
    hub_with_pull_request.base = hub_with_pull_request.commit("m2", "m1", other__py="a = 'mended'\n")
    scripted_models.prompts.clear()
    hub_with_pull_request.head = hub_with_pull_request.merge("h2", "h1", "m2")
    assert run_review(*GATE).exit_code == 0
    assert any("a = 'mended'" in prompt for prompt in scripted_models.prompts)


def test_omitted_patches_are_reviewed(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    """If GitHub omits a patch, the review computes it from the two versions of the file.

    Symbolic links, images and submodules cannot be reviewed, so the review lists them and leaves the gate undecided.
    """
    scripted_models.flaws = []
    hub_with_pull_request.hidden.add("app.py")
    hub_with_pull_request.links.add("link")
    sub = "Subproject commit " + "a" * 40 + "\n"
    hub_with_pull_request.head = hub_with_pull_request.commit(
        "h2", "h1", link="app.py", logo__png=b"\x89PNG\0\1\2", latin__py=b"n = '\xe9'\n", sub=sub
    )
    result = run_review(*GATE)
    assert result.exit_code == 3, result.output
    assert any("+    return x / 0" in prompt for prompt in scripted_models.prompts)
    assert any("n = 'é'" in prompt for prompt in scripted_models.prompts)
    body = hub_with_pull_request.reviews[0]["body"]
    for text in ("link (is a link)", "logo.png (is binary)", "sub (is a submodule)"):
        assert text in body.replace("\\", "")
    scripted_models.prompts.clear()
    hub_with_pull_request.head = hub_with_pull_request.commit("h3", "h2", docs__md="# Shops\n")
    assert run_review(*GATE).exit_code == 3
    assert any("return x / 0" in prompt for prompt in scripted_models.prompts)  # no line counts as already reviewed


def test_pagination_and_rate_limits_are_handled(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    hub_with_pull_request.page = 2
    hub_with_pull_request.head = hub_with_pull_request.commit(
        "h2", "h1", **{f"file{number}__py": f"n = {number}\n" for number in range(7)}
    )
    hub_with_pull_request.limits = [(403, {"retry-after": "0"}), (429, {"retry-after": "0"}), (502, {})]
    assert run_review(*GATE).exit_code == 4
    assert hub_with_pull_request.reviews[0]["body"].startswith("### Read 9 of 9 files in full")
    hub_with_pull_request.limits = [(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": format_reset(3_000)})] * 9
    limited = run_review(*GATE)
    assert limited.exit_code == 2
    assert "GitHub's rate limit will not reset for another" in limited.stderr


def test_review_with_a_read_only_token_is_written_to_the_summary(
    hub_with_pull_request: Hub, scripted_models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """GitHub gives pull requests from forks a read-only token. The exit code shows that nothing was posted."""
    scripted_models.flaws = []
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    hub_with_pull_request.can_write = False
    result = run_review(*GATE)
    assert result.exit_code == 1
    assert "pull-requests: write" in result.stderr
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### Read 2 of 2 files in full: nothing found")
    assert "not posted" in summary
    assert hub_with_pull_request.reviews == []
    monkeypatch.setenv("GITHUB_TOKEN", "wrong")
    assert "GITHUB_TOKEN is not valid" in run_review(*GATE).stderr


def test_failed_run_is_reported_and_keeps_confirmed_findings(
    hub_with_pull_request: Hub, scripted_models: Models
) -> None:
    assert run_review(*GATE).exit_code == 4
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", other__py="a = 2\n")
    failed = run_review("--post", "--gate", "be nice")
    assert failed.exit_code == 2
    [comment] = hub_with_pull_request.reviews
    assert comment["body"].startswith("### The review failed\n\n")
    assert "Divides by zero" in comment["body"]
    scripted_models.flaws = []
    assert run_review(*GATE).exit_code == 4  # the finding was confirmed before and is still open


def test_finding_outside_the_diff_appears_only_in_the_comment(
    hub_with_pull_request: Hub, scripted_models: Models
) -> None:
    """GitHub rejects review comments on lines that are missing from its diff."""
    hub_with_pull_request.hidden.add("app.py")  # none of its lines are in GitHub's diff
    assert run_review(*GATE).exit_code == 4
    assert "app.py" in hub_with_pull_request.reviews[0]["body"]
    assert hub_with_pull_request.notes == []


def test_base_commit_can_be_given_and_nothing_is_posted_by_default(
    hub_with_pull_request: Hub, scripted_models: Models
) -> None:
    """`--since` selects the changes to review, and nothing is written to GitHub without `--post`."""
    before = hub_with_pull_request.head
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", other__py="a = 2\n")
    result = run_review("--since", before, "--format", "json")
    assert result.exit_code == 0, result.output
    assert [file["file"] for file in json.loads(result.stdout.splitlines()[-1])["coverage"]] == ["other.py"]
    assert all(method == "GET" for method, _ in hub_with_pull_request.requests)
    for wrong in (["--diff"], ["--source", "x"]):
        assert "cannot be combined" in run_review(*wrong).stderr


def test_plan_file_in_the_change_does_not_affect_its_gate(hub_with_pull_request: Hub, scripted_models: Models) -> None:
    """The author of a change controls its plan file, so the file's globs and gate are ignored."""
    Path("review.toml").write_text('exclude = ["*.py"]\n')
    result = run_review(*GATE, "--file", "review.toml")
    assert result.exit_code == 4, result.output  # the globs come from the command line
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", review__toml="x = 1\n")
    scripted_models.prompts.clear()
    assert "The plan file is part of the change" in run_review(*GATE, "--file", "review.toml").stderr
    assert scripted_models.prompts == []


def test_fork_without_a_key_gets_an_explanation(hub_with_pull_request: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate must not pass a change that nobody has read, so the command fails and posts a comment with the reason."""
    hub_with_pull_request.owner = "mallory/shop"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = run_review(*GATE)
    assert result.exit_code in (1, 2), result.output
    body = hub_with_pull_request.reviews[0]["body"]
    assert body.startswith("### The review failed")
    assert "comes from a fork" in body


@pytest.mark.usefixtures("scripted_models")
def test_example_workflow_does_not_give_forks_a_key(hub_with_pull_request: Hub) -> None:
    """The workflow checks out no code from the pull request.

    It pins its actions to the same versions as the project's own workflows.
    """
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
    hub_with_pull_request.head = hub_with_pull_request.commit("h2", "h1", uv__lock="x\n" * 9)
    program, *arguments = shlex.split(step["run"].replace("$NUMBER", "7"))
    result = CliRunner().invoke(app, [*arguments, "--gate", "no confirmed blocker", *SEATS], catch_exceptions=False)
    assert (program, result.exit_code) == ("flowdebate", 4), result.output
    assert "excluded: uv.lock" in hub_with_pull_request.reviews[0]["body"].replace("\\", "")


@pytest.mark.usefixtures("hub_with_pull_request")
def test_misuse_is_reported_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner()
    assert "--post requires --pr N" in runner.invoke(app, ["review", "--post", "--diff"]).stderr
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "set GITHUB_TOKEN" in run_review("--post").stderr
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert "set GITHUB_REPOSITORY=OWNER/NAME" in run_review().stderr
