"""The local model's file: found, joined whole or not at all, refused when it is another."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ModelUnavailable
from flowdebate.models.local.gguf import find_local_model, join_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """FLOWDEBATE_LOCAL_MODEL names `path`."""
    before = os.environ.get("FLOWDEBATE_LOCAL_MODEL")
    os.environ["FLOWDEBATE_LOCAL_MODEL"] = str(path)
    try:
        yield
    finally:
        del os.environ["FLOWDEBATE_LOCAL_MODEL"]
        if before is not None:
            os.environ["FLOWDEBATE_LOCAL_MODEL"] = before


def written(folder: Path, blocks: list[bytes]) -> list[Path]:
    """Files with these contents."""
    paths = [folder / f"part{number:02}.bin" for number in range(len(blocks))]
    for path, block in zip(paths, blocks, strict=True):
        path.write_bytes(block)
    return paths


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_the_joined_file_is_the_parts_in_order(tmp_path_factory: pytest.TempPathFactory, blocks: list[bytes]) -> None:
    """Whole, under its name, with nothing beside it."""
    folder = tmp_path_factory.mktemp("join")
    target = folder / "cache" / "model.gguf"
    join_parts(written(folder, blocks), target, sha256=hashlib.sha256(b"".join(blocks)).hexdigest())
    assert target.read_bytes() == b"".join(blocks)
    assert list(target.parent.iterdir()) == [target]


def test_a_file_with_another_hash_is_refused_and_removed(tmp_path: Path) -> None:
    """What the packages hold may have been changed by whoever publishes them."""
    target = tmp_path / "cache" / "model.gguf"
    with pytest.raises(ModelUnavailable, match="sha256"):
        join_parts(written(tmp_path, [b"something", b"else"]), target, sha256="0" * 64)
    assert list(target.parent.iterdir()) == []


def test_a_part_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    """Half a model is no model."""
    target = tmp_path / "cache" / "model.gguf"
    with pytest.raises(ModelUnavailable, match="cannot be written"):
        join_parts([*written(tmp_path, [b"one"]), tmp_path / "missing.bin"], target, sha256="0" * 64)
    assert list(target.parent.iterdir()) == []


def test_a_cache_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A file stands where the folder should."""
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ModelUnavailable, match="cache"):
        join_parts([], tmp_path / "cache" / "model.gguf", sha256="0" * 64)


def test_the_environment_names_any_gguf_file(tmp_path: Path) -> None:
    """It goes before the packages."""
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF and so on")
    with naming(path):
        assert find_local_model() == path


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", b"GGU"], ids=["missing", "empty", "a zip", "short"])
def test_what_the_environment_names_must_be_a_gguf_file(tmp_path: Path, content: bytes | None) -> None:
    """The error names the variable and the file."""
    path = tmp_path / "mine.gguf"
    if content is not None:
        path.write_bytes(content)
    with naming(path), pytest.raises(ModelUnavailable, match=r"FLOWDEBATE_LOCAL_MODEL.*mine\.gguf"):
        find_local_model()
