"""A change with planted bugs, a decoy and secrets, reviewed by three vendors' models, one of which invents lines."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.errors import BadFile
from flowdebate.patterns.review.findings import locate
from flowdebate.service import Service
from flowdebate.sources.diff import Diff, read_diff
from flowdebate.sources.source import check_sources
from tests.cli.stage import COMMAND
from tests.server.stage import staged
from tests.vendors import vendors
from tests.warm import stub_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vendors import Vendor, VendorName, VendorRequest

SECRET = "canary-4f1d-secret"  # noqa: S105 - which must never be sent
BEFORE = """\
import sqlite3


def find(db, name):
    return db.execute("select * from users where name = ?", (name,)).fetchall()


def mean(values):
    return sum(values) / len(values) if values else 0.0


def last(items, count):
    return items[-count:] if count else []
"""
AFTER = """\
import sqlite3


def find(db, name):
    return db.execute(f"select * from users where name = '{name}'").fetchall()


def mean(values):
    return sum(values) / len(values)


def last(items, count):
    return items[-count:]


def limit(value):
    # 10 is the documented maximum
    return min(value, 10)
"""
INJECTION = {"title": "SQL injection", "claim": "The name is put into the query.", "severity": "blocker",
             "file": "app/store.py", "line": 5, "quote": "where name = '{name}'",
             "suggestion": "Use a parameter."}  # fmt: skip
EMPTY = {"title": "Division by zero", "claim": "An empty list has no mean.", "severity": "major",
         "file": "app/store.py", "quote": "return sum(values) / len(values)"}  # fmt: skip
ALL = {"title": "last(items, 0) returns everything", "claim": "items[-0:] is the whole list.", "severity": "major",
       "file": "store.py", "line": 13}  # fmt: skip
DECOY = {"title": "Magic number 10", "claim": "The limit is hard-coded.", "severity": "minor",
         "file": "app/store.py", "line": 18}  # fmt: skip
INVENTED = {"title": "Race on the cache", "claim": "Two threads write it.", "severity": "blocker",
            "file": "app/store.py", "line": 412, "quote": "self._cache[key] = value"}  # fmt: skip
FOUND = {"openai": [INJECTION, EMPTY, DECOY], "anthropic": [INVENTED, ALL], "gemini": [INJECTION, EMPTY]}
TRUE = (INJECTION["title"], EMPTY["title"], ALL["title"])


def git(folder: Path, *arguments: str) -> None:
    """Run git without the user's configuration."""
    git_config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *who, *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60, env={**os.environ, **git_config})  # noqa: S603 - of this test


def path_with_command(folder: Path) -> str:
    """Return a PATH on which programs find `flowdebate`."""
    (folder / "flowdebate").write_text(f'#!/bin/sh\nexec {shlex.join(stub_command(COMMAND))} "$@"\n')
    (folder / "flowdebate").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository whose last commit has the bugs, a decoy, a secret, an image and ignored files."""
    (tmp_path / "app").mkdir()
    store = tmp_path / "app" / "store.py"
    store.write_text(BEFORE)
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "begin")
    store.write_text(AFTER)
    (tmp_path / ".env").write_text(f"TOKEN={SECRET}\n")
    (tmp_path / "notes.txt").write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\1\2")
    (tmp_path / "build.log").write_text("built\n")
    git(tmp_path, "add", "-f", ".")
    git(tmp_path, "commit", "-qm", "change")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOWDEBATE_STORE", str(tmp_path / ".git" / "runs.sqlite3"))
    return tmp_path


def reply_as_vendor(exchange: VendorRequest) -> Any:
    """Return each vendor's findings, then verdicts that confirm true findings and refute all others."""
    vendor: VendorName = (
        "openai" if "gpt" in exchange.model else "anthropic" if "claude" in exchange.model else "gemini"
    )
    fields = (exchange.schema or {})["properties"]
    if "findings" in fields:
        return {"findings": FOUND[vendor]}
    if "pairs" in fields:
        return {"pairs": []}
    findings = re.findall(r"\[(F\d+)\] Severity[^\n]*\n  \| ([^\n]*)", exchange.prompt)
    if "answers" in fields:
        return {"answers": [{"finding": at, "stands": True, "reason": "I looked."} for at, _ in findings]}
    words = [(at, "confirm" if title in TRUE else "refute") for at, title in findings]
    return {"verdicts": [{"finding": at, "verdict": word, "reason": "The code says so."} for at, word in words]}


@pytest.fixture
def vendor_stubs() -> Iterator[dict[VendorName, Vendor]]:
    """Start servers for three vendors on the loopback interface, with keys in the environment."""
    with vendors() as every:
        for vendor in every.values():
            vendor.say = reply_as_vendor
        yield every


SEATS = ("--reviewer", "Ada=openai/gpt-5-mini", "--reviewer", "Ben=anthropic/claude-haiku-5-5",
         "--reviewer", "Cleo=gemini/gemini-3-pro", "--model", "openai/gpt-5-mini")  # fmt: skip


def review(*arguments: str) -> Any:
    """Run the command on the last commit."""
    return CliRunner().invoke(app, ["review", *arguments, *SEATS], catch_exceptions=False)


def save_output(name: str, text: str) -> None:
    """Save output if an environment variable names a folder for it."""
    if folder := os.environ.get("FLOWDEBATE_KEEP"):
        (Path(folder) / name).write_text(text)


def test_only_true_bugs_are_confirmed(repository: Path, vendor_stubs: dict[VendorName, Vendor]) -> None:
    result = review("--diff", "HEAD~1..HEAD", "--markdown", "report.md")
    save_output("terminal.txt", result.stdout)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    head = words.partition("Findings")[0]
    assert "openai/gpt-5-mini" in head
    assert "anthropic/claude-haiku-5-5" in head
    assert "Sources: app/store.py" in head
    assert ".env (may contain secrets, so it is never read)" in head
    assert "Compared: " in head
    assert "picture.png (is binary)" in head
    assert "Question: What is wrong with this change?" in words
    assert "Confirmed: 3" in words
    assert "Refuted: 2" in words
    sent = json.dumps([exchange.body for vendor in vendor_stubs.values() for exchange in vendor.asked])
    for text in (sent, result.output, (repository / "report.md").read_text()):
        assert SECRET not in text
    assert "  |     5 +    return db.execute(f" in vendor_stubs["openai"].asked[0].prompt


@pytest.mark.usefixtures("repository")
def test_gate_determines_the_exit_code(vendor_stubs: dict[VendorName, Vendor]) -> None:
    """A pipeline can tell a failed gate (4) from a passed one (0), a missing reviewer (3) and an invalid rule (2)."""
    change = ("--diff", "HEAD~1..HEAD", "--format", "json")
    result = review(*change, "--gate", "no confirmed blocker")
    *lines, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert last["gate"]["holds"] is False
    assert {file["file"]: file["leftOut"] for file in last["coverage"] if "leftOut" in file} == {
        ".env": "may contain secrets, so it is never read",
        "picture.png": "is binary",
    }
    by_title = {finding["title"]: finding for finding in lines}
    assert result.exit_code == 4
    assert {title for title, finding in by_title.items() if finding["state"] == "confirmed"} == {*TRUE}
    assert [finding["agentName"] for finding in by_title["SQL injection"]["raised"]] == ["Ada", "Cleo"]
    assert by_title["Race on the cache"]["place"]["problem"]
    assert by_title["Division by zero"]["place"]["line"] == 9  # located by its quote
    assert by_title["last(items, 0) returns everything"]["place"]["file"] == "app/store.py"
    assert "Sources: app/store.py" in result.stderr  # printed even if stderr is not a terminal
    assert "anthropic/claude-haiku-5-5" in result.stderr
    unread = review(*change, "--gate", "at most 1 confirmed blocker", "--format", "markdown")
    assert unread.exit_code == 3
    assert (
        "is undecided**: not read: .env (may contain secrets, so it is never read), picture.png (is binary)"
        in unread.stdout
    )
    excluded = ("--exclude", ".env", "--exclude", "*.png")
    assert review(*change, "--gate", "at most 1 confirmed blocker", *excluded).exit_code == 0
    wrong = review(*change, "--gate", "be nice")
    assert wrong.exit_code == 2
    assert "--gate must be" in wrong.stderr
    vendor_stubs["gemini"].models = ("another",)
    incomplete = review(*change, "--gate", "no confirmed nit", "--on-failure", "skip", "--attempts", "1")
    assert incomplete.exit_code == 3, incomplete.output


@pytest.mark.usefixtures("repository", "vendor_stubs")
def test_sarif_is_valid_and_markdown_lists_the_findings() -> None:
    """The SARIF output must conform to the standard's schema.

    Refuted findings are suppressed with a justification, and disputed findings have the level "none".
    """
    printed = review("--diff", "HEAD~1..HEAD", "--format", "sarif").stdout
    save_output("review.sarif", printed)
    sarif = json.loads(printed)
    schema = json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(sarif)] == []
    results = {entry["properties"]["id"]: entry for entry in sarif["runs"][0]["results"]}
    first = next(entry for entry in results.values() if "SQL injection" in entry["message"]["text"])
    assert (first["level"], first["kind"]) == ("error", "fail")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "app/store.py"}, "region": {"startLine": 5, "endLine": 5}}
    invented = next(entry for entry in results.values() if "Race" in entry["message"]["text"])
    assert invented["locations"][0]["physicalLocation"]["region"]["startLine"] == 5  # shown at the nearest changed line
    assert "Shown at the nearest line: " in invented["message"]["text"]
    assert invented["suppressions"][0]["justification"]
    text = review("--diff", "HEAD~1..HEAD", "--format", "markdown", "--gate", "no confirmed blocker").stdout
    save_output("review.md", text)
    assert text.startswith("### Read 3 of 5 files in full: 3 confirmed (1 blocker, 2 major), 2 refuted")
    assert "**Gate**" in text
    assert "- **blocker** F1 app/store.py:5" in text
    assert "Read 3 of 5 files in full" in text
    assert text.index("Places not in the material: F2") < text.index("#### Confirmed")


@pytest.mark.usefixtures("repository")
def test_empty_findings_are_excluded_and_reported_in_every_format(vendor_stubs: dict[VendorName, Vendor]) -> None:
    nothing = {"title": "Bug", "claim": " ", "severity": "blocker"}

    def answer(exchange: VendorRequest) -> Any:
        reply = reply_as_vendor(exchange)
        if "findings" in reply and "claude" in exchange.model:
            reply = {"findings": [*reply["findings"], nothing, {**nothing, "title": "", "claim": "It fails."}]}
        return reply

    for vendor in vendor_stubs.values():
        vendor.say = answer
    note = "Findings left out because the title or the claim is missing: 2 by Ben"
    change = ("--diff", "HEAD~1..HEAD")
    printed = review(*change, "--markdown", "report.md")
    report = Path("report.md").read_text()
    comment, sarif, lines, full_output = (
        review(*change, *form).stdout
        for form in (("--format", "markdown"), ("--format", "sarif"), ("--format", "json"), ("--json",))
    )
    for text in (printed.stdout, report, comment):
        assert note in " ".join(text.split())
        assert "Bug" not in text
    run = json.loads(sarif)["runs"][0]
    assert note in [
        notification["message"]["text"] for notification in run["invocations"][0]["toolExecutionNotifications"]
    ]
    assert len(run["results"]) == 5
    schema = json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(json.loads(sarif))] == []
    *findings, last = map(json.loads, lines.splitlines())
    assert (len(findings), last["empty"]) == (5, {"Ben": 2})
    assert json.loads(full_output)["raw"]["empty"] == {"Ben": 2}
    exchanges = [
        exchange for exchange in vendor_stubs["anthropic"].asked if "findings" in (exchange.schema or {})["properties"]
    ]
    assert len(exchanges) == 5  # one exchange per review


def test_uncommitted_changes_are_reviewed_by_default(repository: Path, vendor_stubs: dict[VendorName, Vendor]) -> None:
    """If there are no changes, an error is reported before any call."""
    nothing = review("--diff")
    assert nothing.exit_code == 5
    assert "has no changes" in nothing.stderr
    assert not any(vendor.asked for vendor in vendor_stubs.values())
    (repository / "app" / "store.py").write_text(AFTER.replace("10)", "11)"))
    assert review("--diff", "--format", "json").exit_code == 0
    for wrong in ("--output=x", "nowhere..HEAD", "a b"):
        refused = review(f"--diff={wrong}")
        assert refused.exit_code in (1, 2)
        assert "Error" in refused.stderr
    assert not (repository / "x").exists()


def test_hook_allows_pushes_without_changes(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command comes from the example configuration.

    If the review ends with an error, the hook still stops the push.
    """
    example = yaml.safe_load((Path(__file__).parents[3] / "examples/review/pre-commit-config.yaml").read_text())
    bare = tmp_path_factory.mktemp("origin")
    git(bare, "init", "-q", "--bare", "-b", "main")
    git(repository, "remote", "add", "origin", str(bare))
    git(repository, "push", "-q", "origin", "main")
    hook = repository / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\nexec {example['repos'][0]['hooks'][0]['entry']}\n")
    hook.chmod(0o755)
    monkeypatch.setenv("PATH", path_with_command(tmp_path_factory.mktemp("bin")))
    git(repository, "checkout", "-qb", "same")
    git(repository, "push", "-q", "origin", "same")
    (repository / "picture.png").write_bytes(b"\x89PNG\0\3\4")
    git(repository, "commit", "-qam", "a picture, which is excluded")
    git(repository, "push", "-q", "origin", "same")
    git(repository, "commit", "-qm", "nothing", "--allow-empty")
    git(repository, "update-ref", "-d", "refs/remotes/origin/main")
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        git(repository, "push", "-q", "origin", "same")
    assert b"Error: " in stopped.value.stderr


@pytest.mark.usefixtures("repository")
def test_reviews_are_recorded_and_replayed(vendor_stubs: dict[VendorName, Vendor]) -> None:
    """The recording is all that is needed to reproduce the findings, so no model is called."""
    change = ("--diff", "HEAD~1..HEAD", "--format", "json", "--seed", "7")
    first = review(*change, "--record", ".git/review.jsonl")
    request_counts = [len(vendor.asked) for vendor in vendor_stubs.values()]
    assert (first.exit_code, sum(request_counts)) == (0, 13)
    replayed = review(*change, "--replay", ".git/review.jsonl")
    assert (replayed.exit_code, replayed.stdout) == (0, first.stdout)
    assert [len(vendor.asked) for vendor in vendor_stubs.values()] == request_counts


def test_plan_files_in_the_change_are_ignored(repository: Path) -> None:
    """The author of a change must not be able to decide which files are reviewed and by whom.

    A plan file that the change does not touch is still used.
    """
    (repository / "plans").mkdir()
    (repository / "plans" / "review.toml").write_text('exclude = ["*.py"]\n')
    refused = review("--diff", "HEAD", "--file", "plans/review.toml")
    assert refused.exit_code == 2
    assert "The plan file is part of the change" in refused.stderr
    (repository / "plans" / "review.toml").write_text('focus = "nothing"\n')
    assert "The plan file is part of" in review("--diff", "--gate", "no blocker", "--file", "plans/review.toml").stderr
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "plan")
    assert "has no changes" in review("--diff", "--gate", "no blocker", "--file", "plans/review.toml").stderr


def test_all_patterns_accept_a_diff_as_a_source(repository: Path) -> None:
    sources = {source.name: source for source in check_sources(Diff("HEAD~1", folder=repository), location="here")}
    assert sources["app/store.py"].text.startswith("diff --git a/app/store.py b/app/store.py")
    assert sources[".env"].text == ""
    assert sources[".env"].left_out == "may contain secrets, so it is never read"
    with pytest.raises(BadFile, match="No such file"):
        check_sources(["git:HEAD~1"], location="here")
    (repository / "git:main..HEAD").write_text("a file of the author's")
    names = {source.name for source in read_diff(Diff("HEAD", folder=repository))}
    assert names == {"git:main..HEAD"}


ODD = [
    "a b.py",
    "größe.py",
    'q"uote.py',
    "new\nline.py",
    "tab\tx.py",
    "日本.py",
    "-dash.py",
    "back\\slash.py",
    "\x1b[31m.py",
]


def test_diffs_are_parsed_regardless_of_file_names(repository: Path) -> None:
    for name in (*ODD, "link.py"):
        (repository / name).write_text("one = 1\n")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "sub")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "names")
    git(repository, "checkout", "-qb", "fix#1")
    git(repository / "sub", "commit", "-qm", "nothing", "--allow-empty")
    git(repository, "config", "diff.submodule", "log")
    for name in ODD:
        (repository / name).write_text(f"two = {name!r}\n")
    (repository / "link.py").unlink()
    (repository / "link.py").symlink_to("app/store.py")
    sources = read_diff(Diff("fix#1", folder=repository))
    left_out = {source.name: source.left_out for source in sources}
    assert left_out == {**dict.fromkeys(ODD), "link.py": "is a link", "sub": "is a submodule"}
    for name in ODD:
        place = locate(tuple(sources), file=None, line=None, end_line=None, quote=f"two = {name!r}")
        assert (place.file, place.line) == (name, 1)
    with pytest.raises(BadFile, match="does not name any commits"):
        read_diff(Diff("HEAD\0", folder=repository))
    with pytest.raises(BadFile, match=f"diff HEAD: cannot be read: {repository.parent} is not in a git repository"):
        read_diff(Diff("HEAD", folder=repository.parent))


@pytest.mark.usefixtures("repository")
def test_requests_and_imports_cannot_read_a_repository() -> None:
    """Neither HTTP requests nor plans in imported runs may read a repository, even within an allowed folder."""
    with staged(lambda: Service(store="memory:")) as stage:
        for pattern in ("review", "debate"):
            refused = stage.post("/runs", {"pattern": pattern, "question": "Q?", "options": {"diff": "HEAD~1"}})
            assert refused.status_code in {400, 422}, refused.text
            assert "cannot refer to files over HTTP" in refused.text
