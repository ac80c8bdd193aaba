"""Event streams and bodies passed to openai: their size is limited, and the split into chunks does not matter."""

from __future__ import annotations

import asyncio
import gzip
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import MalformedResponse, ResponseTooLarge
from flowdebate.models.openai.transport import bound_parts, encoding_of, event_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

LINES = st.sampled_from(
    [b"data: a", b"data: \xe2\x80\xa8", b"data:", b"data: ", b": ping", b"id: 7", b"event: x", b"retry: 5", b"", b"\r"]
)


class ChunkedBody:
    """A body that arrives in the given parts."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


def split_bytes(data: bytes, places: set[int]) -> list[bytes]:
    """Split `data` at the given places."""
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(ends)]


def read(stream: AsyncIterator[bytes]) -> bytes:
    async def run() -> bytes:
        return b"".join([part async for part in stream])

    return asyncio.run(run())


@given(st.lists(LINES, max_size=30), st.sets(st.integers(0, 500), max_size=20))
def test_events_do_not_depend_on_network_chunks(lines: list[bytes], places: set[int]) -> None:
    """However the stream is split, data lines and the empty lines between them keep their order.

    All other lines are dropped.
    """
    stream = b"\n".join((*lines, b""))
    expected = [line for line in lines if not line.strip() or (line.startswith(b"data:") and line[5:].strip())]
    assert read(event_lines(aiter(ChunkedBody(split_bytes(stream, places))))) == b"".join(
        line + b"\n" for line in expected
    )


@pytest.mark.parametrize("line", [b"data: x\n", b"data: xy\r\n"])
def test_an_endless_event_counts_as_malformed(line: bytes) -> None:
    """Reading stops at a size limit. Without it, the time needed for an endless event could grow quadratically."""
    with pytest.raises(MalformedResponse, match="too long"):
        read(event_lines(aiter(ChunkedBody([line * 50, line * 51]))))


@given(st.binary(max_size=60), st.sets(st.integers(0, 200), max_size=10), st.booleans(), st.booleans())
def test_a_body_does_not_depend_on_network_chunks(body: bytes, places: set[int], marked: bool, packed: bool) -> None:  # noqa: FBT001
    """A byte order mark at the beginning is removed, and a compressed body is decompressed."""
    content = b"\xef\xbb\xbf" + body if marked else body
    payload = gzip.compress(content) if packed else content
    stream = bound_parts(aiter(ChunkedBody(split_bytes(payload, places))), 1_000, encoding="gzip" if packed else None)
    assert read(stream) == content.removeprefix(b"\xef\xbb\xbf")


@given(st.integers(0, 300), st.booleans())
def test_a_body_above_the_limit_is_reported_as_too_large(length: int, packed: bool) -> None:  # noqa: FBT001
    """The limit is exact, and it also applies while a body is being decompressed."""
    body = b"x" * length
    parts = ChunkedBody([gzip.compress(body)]) if packed else ChunkedBody([body[:100], body[100:]])
    stream = bound_parts(aiter(parts), 200, encoding="gzip" if packed else None)
    if length <= 200:
        assert read(stream) == body
    else:
        with pytest.raises(ResponseTooLarge, match="200 bytes"):
            read(stream)


def test_identity_or_a_missing_header_means_uncompressed() -> None:
    """Any other content encoding means that the body is compressed."""
    encodings = [encoding_of({"content-encoding": value}) for value in ("", " Identity ", "GZIP")]
    assert [encoding_of({}), *encodings] == [None, None, None, "gzip"]
