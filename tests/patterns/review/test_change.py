"""A change with planted bugs, a decoy and secrets, before three vendors: one invents lines, one repeats another."""

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
from tests.warm import stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vendors import Asked, Vendor, VendorName

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
    """Run git, with nobody's configuration."""
    about = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *who, *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60, env={**os.environ, **about})  # noqa: S603 - of this test


def with_the_command(folder: Path) -> str:
    """The PATH of programs that start `flowdebate` by its name."""
    (folder / "flowdebate").write_text(f'#!/bin/sh\nexec {shlex.join(stand_in(COMMAND))} "$@"\n')
    (folder / "flowdebate").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose last commit has the bugs, a decoy, a secret, a picture, and what is ignored."""
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


def say(asked: Asked) -> Any:
    """What each vendor answers: its findings; then it confirms what is true, and refutes the rest."""
    vendor: VendorName = "openai" if "gpt" in asked.model else "anthropic" if "claude" in asked.model else "gemini"
    fields = (asked.schema or {})["properties"]
    if "findings" in fields:
        return {"findings": FOUND[vendor]}
    if "pairs" in fields:
        return {"pairs": []}
    shown = re.findall(r"\[(F\d+)\] Severity[^\n]*\n  \| ([^\n]*)", asked.prompt)
    if "answers" in fields:
        return {"answers": [{"finding": at, "stands": True, "reason": "I looked."} for at, _ in shown]}
    words = [(at, "confirm" if title in TRUE else "refute") for at, title in shown]
    return {"verdicts": [{"finding": at, "verdict": word, "reason": "The code says so."} for at, word in words]}


@pytest.fixture
def found() -> Iterator[dict[VendorName, Vendor]]:
    """Three vendors on the loopback, with keys in the environment."""
    with vendors() as every:
        for vendor in every.values():
            vendor.say = say
        yield every


SEATS = ("--reviewer", "Ada=openai/gpt-5-mini", "--reviewer", "Ben=anthropic/claude-haiku-5-5",
         "--reviewer", "Cleo=gemini/gemini-3-pro", "--model", "openai/gpt-5-mini")  # fmt: skip


def review(*arguments: str) -> Any:
    """The command, on the change of the last commit."""
    return CliRunner().invoke(app, ["review", *arguments, *SEATS], catch_exceptions=False)


def keep(name: str, text: str) -> None:
    """Keep what was printed where an environment variable asks for it."""
    if folder := os.environ.get("FLOWDEBATE_KEEP"):
        (Path(folder) / name).write_text(text)


def test_the_true_bugs_are_confirmed_and_nothing_else(repository: Path, found: dict[VendorName, Vendor]) -> None:
    """Repeated findings are one; an invented place is marked; a secret is neither sent nor printed, and said."""
    shown = review("--diff", "HEAD~1..HEAD", "--markdown", "report.md")
    keep("terminal.txt", shown.stdout)
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.stdout.split())
    head = words.partition("Findings")[0]
    assert "openai/gpt-5-mini" in head
    assert "anthropic/claude-haiku-5-5" in head
    assert "Sources: app/store.py" in head
    assert ".env (may hold secrets, and is never read)" in head
    assert "Compared: " in head
    assert "picture.png (is binary)" in head
    assert "Question: What is wrong with this change?" in words
    assert "Confirmed: 3" in words
    assert "Refuted: 2" in words
    sent = json.dumps([asked.body for vendor in found.values() for asked in vendor.asked])
    for text in (sent, shown.output, (repository / "report.md").read_text()):
        assert SECRET not in text
    assert "  |     5 +    return db.execute(f" in found["openai"].asked[0].prompt


@pytest.mark.usefixtures("repository")
def test_the_gate_decides_the_exit_code_by_data(found: dict[VendorName, Vendor]) -> None:
    """4 where it does not hold, 0 where it does, 3 where somebody was not heard, 2 for a rule that is none."""
    change = ("--diff", "HEAD~1..HEAD", "--format", "json")
    held = review(*change, "--gate", "no confirmed blocker")
    *lines, last = [json.loads(line) for line in held.stdout.splitlines()]
    assert last["gate"]["holds"] is False
    assert {file["file"]: file["leftOut"] for file in last["coverage"] if "leftOut" in file} == {
        ".env": "may hold secrets, and is never read",
        "picture.png": "is binary",
    }
    by_title = {each["title"]: each for each in lines}
    assert held.exit_code == 4
    assert {title for title, each in by_title.items() if each["state"] == "confirmed"} == {*TRUE}
    assert [each["agentName"] for each in by_title["SQL injection"]["raised"]] == ["Ada", "Cleo"]
    assert by_title["Race on the cache"]["place"]["problem"]
    assert by_title["Division by zero"]["place"]["line"] == 9  # by its quote
    assert by_title["last(items, 0) returns everything"]["place"]["file"] == "app/store.py"
    assert "Sources: app/store.py" in held.stderr  # also where nobody looks on
    assert "anthropic/claude-haiku-5-5" in held.stderr
    unread = review(*change, "--gate", "at most 1 confirmed blocker", "--format", "markdown")
    assert unread.exit_code == 3
    assert (
        "is undecided**: not read: .env (may hold secrets, and is never read), picture.png (is binary)" in unread.stdout
    )
    excluded = ("--exclude", ".env", "--exclude", "*.png")
    assert review(*change, "--gate", "at most 1 confirmed blocker", *excluded).exit_code == 0
    wrong = review(*change, "--gate", "be nice")
    assert wrong.exit_code == 2
    assert "--gate must be" in wrong.stderr
    found["gemini"].models = ("another",)
    lost = review(*change, "--gate", "no confirmed nit", "--on-failure", "skip", "--attempts", "1")
    assert lost.exit_code == 3, lost.output


@pytest.mark.usefixtures("repository", "found")
def test_sarif_is_valid_and_markdown_has_the_findings() -> None:
    """By the schema of the standard; refuted findings are suppressed with the reason, disputed ones have no level."""
    printed = review("--diff", "HEAD~1..HEAD", "--format", "sarif").stdout
    keep("review.sarif", printed)
    sarif = json.loads(printed)
    schema = json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(sarif)] == []
    results = {each["properties"]["id"]: each for each in sarif["runs"][0]["results"]}
    first = next(each for each in results.values() if "SQL injection" in each["message"]["text"])
    assert (first["level"], first["kind"]) == ("error", "fail")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "app/store.py"}, "region": {"startLine": 5, "endLine": 5}}
    invented = next(each for each in results.values() if "Race" in each["message"]["text"])
    assert invented["locations"][0]["physicalLocation"]["region"]["startLine"] == 5  # the first changed line
    assert "Shown at the nearest line: " in invented["message"]["text"]
    assert invented["suppressions"][0]["justification"]
    text = review("--diff", "HEAD~1..HEAD", "--format", "markdown", "--gate", "no confirmed blocker").stdout
    keep("review.md", text)
    assert text.startswith("### Read 3 of 5 files in full: 3 confirmed (1 blocker, 2 major), 2 refuted")
    assert "**Gate**" in text
    assert "- **blocker** F1 app/store.py:5" in text
    assert "Read 3 of 5 files in full" in text
    assert text.index("Places not in the material: F2") < text.index("#### Confirmed")


@pytest.mark.usefixtures("repository")
def test_an_empty_finding_is_left_out_and_said_in_every_form(found: dict[VendorName, Vendor]) -> None:
    """It is no finding, and no reason to ask again; the reviewer's others stay, and a reader is told whose it was."""
    nothing = {"title": "Bug", "claim": " ", "severity": "blocker"}

    def answer(asked: Asked) -> Any:
        said = say(asked)
        if "findings" in said and "claude" in asked.model:
            said = {"findings": [*said["findings"], nothing, {**nothing, "title": "", "claim": "It fails."}]}
        return said

    for vendor in found.values():
        vendor.say = answer
    note = "Findings left out, without a title or a claim: 2 of Ben"
    change = ("--diff", "HEAD~1..HEAD")
    printed = review(*change, "--markdown", "report.md")
    report = Path("report.md").read_text()
    comment, sarif, lines, whole = (
        review(*change, *form).stdout
        for form in (("--format", "markdown"), ("--format", "sarif"), ("--format", "json"), ("--json",))
    )
    for text in (printed.stdout, report, comment):
        assert note in " ".join(text.split())
        assert "Bug" not in text
    run = json.loads(sarif)["runs"][0]
    assert note in [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert len(run["results"]) == 5
    schema = json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(json.loads(sarif))] == []
    *findings, last = map(json.loads, lines.splitlines())
    assert (len(findings), last["empty"]) == (5, {"Ben": 2})
    assert json.loads(whole)["raw"]["empty"] == {"Ben": 2}
    asked = [each for each in found["anthropic"].asked if "findings" in (each.schema or {})["properties"]]
    assert len(asked) == 5  # once a review


def test_uncommitted_changes_are_the_default_and_no_change_is_an_error(
    repository: Path, found: dict[VendorName, Vendor]
) -> None:
    """`--diff` alone; before a model is asked."""
    nothing = review("--diff")
    assert nothing.exit_code == 5
    assert "has no changes" in nothing.stderr
    assert not any(vendor.asked for vendor in found.values())
    (repository / "app" / "store.py").write_text(AFTER.replace("10)", "11)"))
    assert review("--diff", "--format", "json").exit_code == 0
    for wrong in ("--output=x", "nowhere..HEAD", "a b"):
        refused = review(f"--diff={wrong}")
        assert refused.exit_code in (1, 2)
        assert "Error" in refused.stderr
    assert not (repository / "x").exists()


def test_the_hook_stops_no_push_without_changes(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of the example, as git runs it before a push; a mistake still stops one."""
    example = yaml.safe_load((Path(__file__).parents[3] / "examples/review/pre-commit-config.yaml").read_text())
    bare = tmp_path_factory.mktemp("origin")
    git(bare, "init", "-q", "--bare", "-b", "main")
    git(repository, "remote", "add", "origin", str(bare))
    git(repository, "push", "-q", "origin", "main")
    hook = repository / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\nexec {example['repos'][0]['hooks'][0]['entry']}\n")
    hook.chmod(0o755)
    monkeypatch.setenv("PATH", with_the_command(tmp_path_factory.mktemp("bin")))
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
def test_a_review_is_recorded_and_replayed(found: dict[VendorName, Vendor]) -> None:
    """The same findings come from the file alone: nobody is asked."""
    change = ("--diff", "HEAD~1..HEAD", "--format", "json", "--seed", "7")
    first = review(*change, "--record", ".git/review.jsonl")
    asked = [len(vendor.asked) for vendor in found.values()]
    assert (first.exit_code, sum(asked)) == (0, 13)
    again = review(*change, "--replay", ".git/review.jsonl")
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert [len(vendor.asked) for vendor in found.values()] == asked


def test_a_plan_file_of_the_change_has_no_say_in_its_gate(repository: Path) -> None:
    """Its globs and its reviewers would be the author's; one that the change leaves alone counts."""
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


def test_a_diff_may_be_a_source_of_every_pattern(repository: Path) -> None:
    """Each changed file under its name, what was left out with the reason; a string is never taken for a revision."""
    sources = {each.name: each for each in check_sources(Diff("HEAD~1", folder=repository), location="here")}
    assert sources["app/store.py"].text.startswith("diff --git a/app/store.py b/app/store.py")
    assert sources[".env"].text == ""
    assert sources[".env"].left_out == "may hold secrets, and is never read"
    with pytest.raises(BadFile, match="No such file"):
        check_sources(["git:HEAD~1"], location="here")
    (repository / "git:main..HEAD").write_text("a file of the author's")
    names = {each.name for each in read_diff(Diff("HEAD", folder=repository))}
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


def test_a_diff_is_read_whatever_git_calls_its_files(repository: Path) -> None:
    """A place is found under each name; a file that has become a link and a moved submodule are told as such."""
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
    found = read_diff(Diff("fix#1", folder=repository))
    left_out = {each.name: each.left_out for each in found}
    assert left_out == {**dict.fromkeys(ODD), "link.py": "is a link", "sub": "is a submodule"}
    for name in ODD:
        place = locate(tuple(found), file=None, line=None, end_line=None, quote=f"two = {name!r}")
        assert (place.file, place.line) == (name, 1)
    with pytest.raises(BadFile, match="names no commits"):
        read_diff(Diff("HEAD\0", folder=repository))
    with pytest.raises(BadFile, match=f"diff HEAD: cannot be read: {repository.parent} is in no git repository"):
        read_diff(Diff("HEAD", folder=repository.parent))


@pytest.mark.usefixtures("repository")
def test_no_request_and_no_stranger_can_have_a_repository_read() -> None:
    """Neither over HTTP nor by the plan of an imported run, also where the folder around is allowed."""
    with staged(lambda: Service(store="memory:")) as stage:
        for pattern in ("review", "debate"):
            refused = stage.post("/runs", {"pattern": pattern, "question": "Q?", "options": {"diff": "HEAD~1"}})
            assert refused.status_code in {400, 422}, refused.text
            assert "left out over HTTP" in refused.text
