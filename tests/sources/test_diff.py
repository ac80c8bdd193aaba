"""Diffs of real repositories: what is compared and displayed, and what a change cannot hide or run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdebate.errors import BadFile
from flowdebate.patterns.review.findings import cover
from flowdebate.sources.diff import Diff, read_diff
from flowdebate.sources.source import number_lines

if TYPE_CHECKING:
    from flowdebate.sources.source import Source

BAD = "os.system(name)\n"


def git(folder: Path, *arguments: str) -> str:
    """Run git without any user or system configuration."""
    extra = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *identity, "-c", "protocol.file.allow=always", *arguments]
    environment = {**os.environ, **extra}
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60, env=environment)  # noqa: S603 - of this test
    return done.stdout.decode().strip()


def commit(folder: Path, files: dict[str, str | bytes], message: str = "change") -> str:
    """Write files and commit them, including ignored ones."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(folder, "add", "-Af", ".")
    git(folder, "commit", "-qm", message, "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {"app.py": "one = 1\n" * 30, "old.py": "".join(f"line {n}\n" for n in range(40))})
    return folder


def read(folder: Path, commits: str = "HEAD~1..HEAD", **options: list[str]) -> dict[str, Source]:
    """Return a diff's sources, keyed by name."""
    return {source.name: source for source in read_diff(Diff(commits, folder=folder, **options))}


def added_lines(source: Source) -> list[str]:
    """Return the lines that a diff adds."""
    return [line[1:] for line in source.text.split("\n") if line.startswith("+") and not line.startswith("+++")]


@pytest.mark.parametrize("commits", ["main..branch", "main...branch"])
def test_branches_are_compared_with_their_merge_base(repository: Path, commits: str) -> None:
    """Newer commits on main must not look like deletions made by the branch."""
    base = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-qb", "branch")
    tip = commit(repository, {"branch.py": "two = 2\n"})
    git(repository, "checkout", "-q", "main")
    commit(repository, {"later.py": "three = 3\n"})
    sources = read(repository, commits)
    assert [*sources] == ["branch.py"]
    assert sources["branch.py"].info.commits == f"{base[:12]}..{tip[:12]}"
    git(repository, "checkout", "-q", "branch")
    (repository / "app.py").write_text("changed = 1\n")
    assert [*read(repository, "main")] == ["app.py", "branch.py"]


def test_moved_files_are_shown_as_one_file(repository: Path) -> None:
    git(repository, "mv", "old.py", "new name.py")
    commit(repository, {})
    [source] = read(repository).values()
    assert source.name == "new name.py"
    assert "rename from old.py\nrename to new name.py" in source.text
    git(repository, "mv", "new name.py", "third.py")
    text = (repository / "third.py").read_text()
    (repository / "third.py").chmod(0o755)
    commit(repository, {"third.py": f"{text}last\n"})
    [source] = read(repository).values()
    assert added_lines(source) == ["last"]
    assert "new mode 100755" in source.text


def test_errors_for_shallow_clones_explain_how_to_fetch_history(repository: Path, tmp_path: Path) -> None:
    """Because commits may be missing, the change must not be compared with the empty tree."""
    commit(repository, {"app.py": "two = 2\n"})
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "clone")
    for commits in ("HEAD~1..HEAD", "HEAD^...HEAD", "HEAD~1"):
        with pytest.raises(BadFile, match=r"clone is shallow.*fetch --unshallow.*fetch-depth: 0"):
            read(tmp_path / "clone", commits)


def test_first_commits_are_compared_with_the_empty_tree(repository: Path, tmp_path: Path) -> None:
    for commits in ("HEAD~1..HEAD", "HEAD^..HEAD", "HEAD~..", "main^"):
        assert [*read(repository, commits)] == ["app.py", "old.py"]
    with pytest.raises(BadFile, match="HEAD~7"):
        read(repository, "HEAD~7..HEAD")
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    (tmp_path / "new" / "a.py").write_text("a = 1\n")
    assert added_lines(read(tmp_path / "new", "HEAD")["a.py"]) == ["a = 1"]


def test_untracked_files_are_reviewed(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "deep").mkdir()
    (repository / "deep" / "new.py").write_text("new = 1\n")
    (repository / "built.log").write_text("built\n")
    (repository / "other").mkdir()
    git(repository / "other", "init", "-q")
    before = (repository / ".git" / "index").read_bytes()
    sources = read(repository / "deep", "HEAD")
    assert [*sources] == [".gitignore", "deep/new.py"]
    assert added_lines(sources["deep/new.py"]) == ["new = 1"]
    assert (repository / ".git" / "index").read_bytes() == before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-be"])
def test_files_in_other_encodings_are_decoded(repository: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    for text in ("# größer\nx = 1\n", "# größer\nx = 1\ny = 2\n"):
        commit(repository, {"a.py": f"{mark}{text}".encode(encoding)})
    source = read(repository)["a.py"]
    assert added_lines(source) == ["y = 2"]
    assert "größer" in source.text
    assert [line.number for line in number_lines(source) if line.text == "y = 2"] == [3]


HIDING: dict[str, dict[str, str | bytes]] = {
    "ignored": {".gitignore": "evil.py\n"},
    "no diff": {".gitattributes": "evil.py -diff\n"},
    "binary": {".gitattributes": "* binary\n"},
    "key": {"evil.py": f"# -----BEGIN PRIVATE KEY-----\n{BAD}"},
    "Latin-1": {"evil.py": f"# {chr(0xE9)}\n{BAD}".encode("latin-1")},
    "NUL": {"evil.py": f"# \0\n{BAD}".encode()},
    "module": {"secrets.py": BAD},
    "folder": {".docker/run.py": BAD},
    "carriage return": {"evil.py": f"x = 1\r{BAD}"},
}


@pytest.mark.parametrize("way", HIDING)
def test_changes_cannot_hide_their_own_lines(repository: Path, way: str) -> None:
    """Git attributes that the change sets for its own files are ignored."""
    commit(repository, {"evil.py": BAD, **HIDING[way]})
    sources = read(repository)
    name = next((name for name in HIDING[way] if name.endswith(".py")), "evil.py")
    assert BAD.strip() in sources[name].text
    assert sources[name].left_out is None


def test_changed_submodules_are_reported(repository: Path) -> None:
    """Even if a submodule is configured with `ignore = all`, its new commit must be reported."""
    git(repository, "submodule", "add", "-q", str(repository), "sub")
    commit(repository, {})
    git(repository / "sub", "commit", "-qm", "nothing", "--allow-empty")
    git(repository, "config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
    commit(repository, {"app.py": "x = 1\n"})
    assert read(repository)["sub"].left_out == "is a submodule"


def test_secrets_are_masked_within_their_lines(repository: Path) -> None:
    commit(repository, {"deploy.py": "KEY = '''\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234\n'''\nrun()\n"})
    source = read(repository)["deploy.py"]
    assert "MIIEpAIBAAKCAQEA1234" not in source.text
    assert [line.number for line in number_lines(source) if line.text == "run()"] == [5]


def test_git_runs_no_program_configured_by_a_repository(repository: Path) -> None:
    """Reviewing a stranger's repository must not run its filters or hooks."""
    mark = repository.parent / "ran"
    program = repository.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.x.command",
                "diff.external", "core.fsmonitor", "core.pager"):  # fmt: skip
        git(repository, "config", key, str(program))
    git(repository, "config", "filter.x.required", "true")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").symlink_to(program)
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    (repository / "app.py").write_text("changed = 1\n")
    (repository / "new.py").write_text("new = 1\n")
    sources = read(repository, "HEAD")
    assert added_lines(sources["app.py"]) == ["changed = 1"]
    assert added_lines(sources["new.py"]) == ["new = 1"]
    assert not mark.exists()


def test_generated_files_come_last_and_are_folded(repository: Path) -> None:
    """A long file is shortened, with a note of how many lines were omitted.

    A short file is shown in full, and an excluded file is not shown at all.
    """
    code = {"package-lock.json": "{}\n" * 3_000, "go.sum": "a v1\n", "z.py": "z = 1\n", "b/app.js": "x" * 9_000}
    commit(repository, {**code, "yarn.lock": "x\n" * 50})
    sources = read(repository, exclude=["yarn.lock"])
    assert next(iter(sources)) == "z.py"
    assert {name: source.unread for name, source in sources.items()} == {
        "b/app.js": "1 of 1 changed line, folded",
        "go.sum": None,
        "package-lock.json": "2,960 of 3,000 changed lines, folded",
        "yarn.lock": None,
        "z.py": None,
    }
    assert added_lines(sources["package-lock.json"]) == ["{}"] * 40
    assert "\n\\ 2,960 more changed lines, not shown\n" in sources["package-lock.json"].text
    assert sources["yarn.lock"].left_out == "is excluded"
    assert all(len(source.text) < 5_000 for source in sources.values())
    assert [file.is_read for file in cover((*sources.values(),), {"ann": {"go.sum": 1, "z.py": 1}})] == [
        source.name in ("go.sum", "z.py") for source in sources.values()
    ]


def test_excluded_files_are_omitted_with_the_reason(repository: Path) -> None:
    """The error states whether all changed files were excluded or could not be read, as is the case for images."""
    commit(repository, {"package-lock.json": "{}\n" * 3, "docs/a.png": b"\x89PNG\0\1", "b.py": "b = 1\n"})
    sources = read(repository, exclude=["docs/*"])
    assert {name: (source.left_out, source.excluded) for name, source in sources.items()} == {
        "b.py": (None, False),
        "docs/a.png": ("is excluded", True),
        "package-lock.json": (None, False),
    }
    with pytest.raises(BadFile) as caught:
        read(repository, exclude=["*.png", "*.json", "b.py"])
    assert caught.value.no_changes == "none"
    commit(repository, {"docs/a.png": b"\x89PNG\0\2"})
    with pytest.raises(BadFile, match=r"a\.png is binary") as caught:
        read(repository)
    assert caught.value.no_changes == "unread"


@pytest.mark.parametrize("commits", ["", " ", "--output=x", "nowhere..HEAD", "HEAD..nowhere", "a b", "HEAD\0"])
def test_invalid_commits_are_rejected(repository: Path, commits: str) -> None:
    with pytest.raises(BadFile, match=r"^diff "):
        read(repository, commits)
    assert not (repository / "x").exists()
