"""Files and folders that are read as sources, and those that never are."""

from __future__ import annotations

import io
import os
import sys
from hashlib import sha256
from shutil import rmtree
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.sources.documents import MAX_TEXT_MEGABYTES
from flowdebate.sources.files import outside_of, read_sources
from flowdebate.sources.source import Page, Source, check_sources

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a typical folder: text files, secrets, a repository's files, binaries and links."""
    files = {
        "docs/plan.md": "Build trams.",
        "docs/notes/costs.txt": "They cost 3 million.",
        "docs/.env": "TOKEN=canary-env",
        "docs/.env.local": "TOKEN=canary-env",
        "docs/deploy.pem": "canary-pem",
        "docs/id_rsa": "canary-rsa",
        "docs/notes/hidden.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary-key",
        "docs/.git/config": "canary-git",
        "docs/.ssh/known": "canary-ssh",
        "docs/build/out.txt": "canary-ignored",
        "docs/debug.log": "canary-ignored",
        "docs/notes/.gitignore": "!kept.log\ncosts.tmp\n",
        "docs/notes/kept.log": "Kept.",
        "docs/notes/costs.tmp": "canary-ignored",
        "docs/.gitignore": "build/\n*.log\n",
        "docs/blank.txt": " \n",
        "outside.txt": "canary-outside",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "docs/picture.bin").write_bytes(b"\x89P\0canary")
    (tmp_path / "docs/latin.txt").write_bytes("Züge".encode("latin-1"))
    (tmp_path / "docs/link.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "docs/up").symlink_to(tmp_path)
    return tmp_path / "docs"


def test_folders_are_read_without_secrets_links_and_ignored_files(folder: Path) -> None:
    """Omitted files are listed with the reason, and not a single byte of them is read."""
    sources = read_sources([str(folder)])
    assert {source.name: source.text for source in sources if source.left_out is None} == {
        "docs/plan.md": "Build trams.",
        "docs/notes/costs.txt": "They cost 3 million.",
        "docs/notes/kept.log": "Kept.",
    }
    assert {
        source.name.removeprefix("docs/"): source.left_out for source in sources if source.left_out is not None
    } == {
        ".env": "may contain secrets",
        ".env.local": "may contain secrets",
        "deploy.pem": "may contain secrets",
        "id_rsa": "may contain secrets",
        "notes/hidden.txt": "may contain secrets, so it is never read",
        ".ssh/": "may contain secrets",
        "build/": "is in .gitignore",
        "debug.log": "is in .gitignore",
        "notes/costs.tmp": "is in .gitignore",
        "blank.txt": "is empty: a source must contain text",
        "picture.bin": "is binary: only text, documents and images (PNG, JPEG, WebP, GIF) can be sources",
        "latin.txt": "line 1: not valid UTF-8",
        "link.txt": "is a link",
        "up/": "is a link",
    }
    assert "canary" not in str(sources)


def test_files_ignored_by_the_enclosing_repository_are_not_read(folder: Path) -> None:
    repository = folder.parent
    rmtree(folder / ".git")  # otherwise, the folder would be a separate repository
    (repository / ".git").mkdir()
    (repository / ".gitignore").write_text("plan.md\n")
    names = [source.name for source in read_sources([str(folder)]) if source.left_out is None]
    assert names == ["docs/notes/costs.txt", "docs/notes/kept.log"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("none.txt", None, "cannot be read: No such file"),
        ("empty.txt", b"", "is empty"),
        ("blank.txt", b" \n\t", "is empty"),
        ("zeros.dat", b"a\0b", "is binary"),
        ("latin.txt", b"ok\n\xe9", "line 2: not valid UTF-8"),
        (".env", b"A=1", "may contain secrets"),
        ("server.KEY", b"A", "may contain secrets"),
        (".kube/config", b"canary", "may contain secrets"),
        (".ssh", None, "may contain secrets"),
        ("me/.docker/notes", None, "may contain secrets"),
        ("alias.txt", None, "may contain secrets"),
        ("application_default_credentials.json", b"{}", "may contain secrets"),
        ("key.txt", b"-----BEGIN RSA PRIVATE KEY-----", "may contain secrets"),
        ("large.txt", b"a" * 20_000_001, "is larger than 20 MB"),
        ("much.txt", b"a" * (MAX_TEXT_MEGABYTES * 1_000_000 + 1), "has more than 2 MB of text"),
        ("nul\0.txt", None, "cannot be read"),
    ],
)
def test_errors_for_invalid_source_files_state_the_name_and_reason(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    """The file is rejected before anything else happens.

    The error quotes the file's name verbatim, even if the problem lies in an enclosing folder or a link.
    """
    for secret in (".ssh/config", "me/.docker/notes/config", ".env"):
        (tmp_path / secret).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / secret).write_text("canary")
    (tmp_path / "alias.txt").symlink_to(".env")
    if content is not None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadFile) as refused:
        read_sources([name], folder=tmp_path)
    assert refused.value.path == name
    assert why in refused.value.problem


def test_links_pipes_and_folders_without_text_are_rejected(tmp_path: Path) -> None:
    """A link is rejected even if it points to a file in its own folder, and special files are not opened."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.txt").write_text("canary")
    (tmp_path / "in" / "real.txt").write_text("Real.")
    (tmp_path / "in" / "alias.txt").symlink_to("real.txt")
    (tmp_path / "in" / "out.txt").symlink_to("../secret.txt")
    (tmp_path / "bare").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert read_sources(["in/alias.txt"], folder=tmp_path)[0].text == "Real."
    for name, why in (
        ("in/out.txt", "link to a file outside its folder"),
        ("pipe", "is not a file"),
        ("bare", "without readable files"),
    ):
        with pytest.raises(BadFile, match=why):
            read_sources([name], folder=tmp_path)


def test_sources_can_be_named_or_come_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("\ufeffOne.\r\nTwo.", newline="")
    (tmp_path / "b=a.md").write_text("Three.")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"Piped."), isatty=lambda: False))
    sources = read_sources(["a.md", "plan=a.md", "b=a.md", "-"], folder=tmp_path)
    assert [(source.name, source.text) for source in sources] == [
        ("a.md", "One.\r\nTwo."),
        ("plan", "One.\r\nTwo."),
        ("b=a.md", "Three."),
        ("stdin", "Piped."),
    ]
    assert sources[0].sha256 == sha256((tmp_path / "a.md").read_bytes()).hexdigest()
    assert sources[0].size == (tmp_path / "a.md").stat().st_size


def test_files_outside_allowed_folders_are_rejected(tmp_path: Path) -> None:
    """Neither `..` nor links, stdin or a name with the same prefix can bypass the rule."""
    inside, beside = tmp_path / "docs", tmp_path / "docs-private"
    for directory in (inside, beside):
        directory.mkdir()
        (directory / "a.md").write_text("A.")
    (inside / "link").symlink_to(beside)
    names = [str(inside / "a.md"), f"x={inside / 'a.md'}"]
    assert outside_of([inside], names) == []
    for path in ("../docs-private/a.md", "link/a.md"):
        assert outside_of([inside], [str(inside / path)])
    assert outside_of([inside], ["-", str(beside / "a.md")]) == ["-", str(beside / "a.md")]


def test_sources_can_be_paths_or_strings_in_python(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A.")
    report = Source.of("report", "B.")
    assert [source.name for source in check_sources([tmp_path / "a.md", report], location="x")] == ["a.md", "report"]
    assert check_sources({"n": report}, location="x")[0].name == "n"
    assert check_sources(None, location="x") == check_sources({}, location="x") == ()
    for wrong in ("a.md", 5, {"a": 5}, {"": "text"}, {"a": " "}, [5], [report, report]):
        with pytest.raises(ConfigurationError, match="sources"):
            check_sources(wrong, location="x")


def test_each_position_in_a_source_belongs_to_one_page() -> None:
    """A position between the starts of two pages belongs to the first one."""
    source = Source.of("r", "One. Two. Three.", pages=[Page(start=0, name="page 1"), Page(start=5, name="page 2")])
    assert [source.page_at(place) for place in (0, 4, 5, 15)] == ["page 1", "page 1", "page 2", "page 2"]
    assert list(source.parts()) == [("r, page 1", "One."), ("r, page 2", "Two. Three.")]
