"""The local model's file: how it is found, how its parts are joined, and when it is rejected."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ModelUnavailable
from flowdebate.models.local import gguf
from flowdebate.models.local.gguf import find_local_model, is_verified, join_parts

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def set_path(path: Path) -> Iterator[None]:
    """Set FLOWDEBATE_LOCAL_MODEL to `path`."""
    before = os.environ.get("FLOWDEBATE_LOCAL_MODEL")
    os.environ["FLOWDEBATE_LOCAL_MODEL"] = str(path)
    try:
        yield
    finally:
        del os.environ["FLOWDEBATE_LOCAL_MODEL"]
        if before is not None:
            os.environ["FLOWDEBATE_LOCAL_MODEL"] = before


def write_files(folder: Path, blocks: list[bytes]) -> list[Path]:
    """Write files with the given contents."""
    paths = [folder / f"part{number:02}.bin" for number in range(len(blocks))]
    for path, block in zip(paths, blocks, strict=True):
        path.write_bytes(block)
    return paths


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_the_parts_are_joined_in_order(tmp_path_factory: pytest.TempPathFactory, blocks: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("join")
    target = folder / "cache" / "model.gguf"
    join_parts(write_files(folder, blocks), target, sha256=hashlib.sha256(b"".join(blocks)).hexdigest())
    assert target.read_bytes() == b"".join(blocks)
    assert list(target.parent.iterdir()) == [target]


def test_a_file_with_the_wrong_hash_is_rejected_and_removed(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "model.gguf"
    with pytest.raises(ModelUnavailable, match="sha256"):
        join_parts(write_files(tmp_path, [b"something", b"else"]), target, sha256="0" * 64)
    assert list(target.parent.iterdir()) == []


def test_a_part_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    """A model with a missing part would be useless, so the incomplete file is deleted."""
    target = tmp_path / "cache" / "model.gguf"
    with pytest.raises(ModelUnavailable, match="cannot be written"):
        join_parts([*write_files(tmp_path, [b"one"]), tmp_path / "missing.bin"], target, sha256="0" * 64)
    assert list(target.parent.iterdir()) == []


def test_the_error_names_an_unwritable_cache(tmp_path: Path) -> None:
    """In this test, there is a file where the cache folder should be."""
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ModelUnavailable, match="cache"):
        join_parts([], tmp_path / "cache" / "model.gguf", sha256="0" * 64)


@contextmanager
def hashed_files(paths: list[Path]) -> Iterator[None]:
    """Record each file as it is hashed."""
    real = hashlib.file_digest

    def digest(file: Any, name: str) -> Any:
        paths.append(Path(file.name))
        return real(file, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashlib, "file_digest", digest)
        yield


def test_a_file_is_rehashed_only_when_its_size_or_times_change(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    read: list[Path] = []
    path.write_bytes(b"GGUF whole")
    sha256 = hashlib.sha256(b"GGUF whole").hexdigest()
    with hashed_files(read):
        assert [is_verified(path, sha256=sha256) for _ in range(3)] == [True] * 3
        assert read == [path]
        os.utime(path, ns=(1, 1))
        assert [is_verified(path, sha256=sha256) for _ in range(3)] == [True] * 3
        assert read == [path] * 2
        path.write_bytes(b"GGUF Whole")
        assert [is_verified(path, sha256=sha256) for _ in range(2)] == [False] * 2
        assert read == [path] * 4
        assert not is_verified(path, sha256="0" * 64)


def test_a_replaced_file_is_rehashed(tmp_path: Path) -> None:
    """The file's inode and change time show that it was replaced."""
    path, replacement = tmp_path / "model.gguf", tmp_path / "other"
    path.write_bytes(b"GGUF whole")
    sha256 = hashlib.sha256(b"GGUF whole").hexdigest()
    assert is_verified(path, sha256=sha256)
    before = path.stat()
    replacement.write_bytes(b"GGUF Whole")
    os.utime(replacement, ns=(before.st_atime_ns, before.st_mtime_ns))
    replacement.replace(path)
    assert not is_verified(path, sha256=sha256)


@pytest.mark.parametrize("mark", [b"", b"\xff", b"0" * 64])
def test_a_damaged_verification_record_is_rewritten(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "model.gguf"
    read: list[Path] = []
    path.write_bytes(b"GGUF whole")
    path.with_name("model.gguf.verified").write_bytes(mark)
    with hashed_files(read):
        assert all(is_verified(path, sha256=hashlib.sha256(b"GGUF whole").hexdigest()) for _ in range(2))
    assert read == [path]


def test_a_missing_file_is_not_verified(tmp_path: Path) -> None:
    """A file that has been verified before counts as unverified once it has been deleted."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"")
    sha256 = hashlib.sha256(b"").hexdigest()
    assert is_verified(path, sha256=sha256)
    path.unlink()
    assert not is_verified(path, sha256=sha256)


def test_a_damaged_model_is_reassembled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, joined = write_files(tmp_path, [b"GGUF", b" whole"]), tmp_path / "cache" / "model.gguf"
    monkeypatch.delenv("FLOWDEBATE_LOCAL_MODEL", raising=False)
    monkeypatch.setattr(gguf, "_SHA256", hashlib.sha256(b"GGUF whole").hexdigest())
    monkeypatch.setattr(gguf, "_parts", lambda: parts)
    monkeypatch.setattr(gguf, "_joined_path", lambda: joined)
    read: list[Path] = []
    with hashed_files(read):
        assert find_local_model().read_bytes() == b"GGUF whole"
        assert find_local_model() == joined
        assert read == []  # the file was hashed while it was joined
        joined.write_bytes(b"GGUF wh0le")
        os.utime(joined, ns=(1, 1))
        assert find_local_model().read_bytes() == b"GGUF whole"
        assert find_local_model() == joined
    assert read == [joined]


def test_the_environment_selects_any_gguf_file(tmp_path: Path) -> None:
    """The environment variable takes precedence over the installed model packages."""
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF and so on")
    with set_path(path):
        assert find_local_model() == path


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", b"GGU"], ids=["missing", "empty", "a zip", "short"])
def test_a_model_set_in_the_environment_must_be_a_gguf_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.gguf"
    if content is not None:
        path.write_bytes(content)
    with set_path(path), pytest.raises(ModelUnavailable, match=r"FLOWDEBATE_LOCAL_MODEL.*mine\.gguf"):
        find_local_model()
