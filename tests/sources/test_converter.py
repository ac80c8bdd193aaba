"""Documents are converted in child processes with limits on memory and time, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from flowdebate.errors import BadFile
from flowdebate.sources.converter import Converter
from tests.processes import start_process
from tests.sources import hostile
from tests.sources.hostile import CORPUS, cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sources.hostile import Make

pytest.importorskip("mammoth", reason="the extra flowdebate[documents]")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the system lists no children of a process")

ENDLESS = CORPUS["pages"]["empty-pages.pdf"]
"""A document that takes minutes inside library code, where Python's signal handlers cannot interrupt it."""
HTML = hostile.html("<p>Trams are quiet.</p>")


@pytest.fixture
def converter() -> Iterator[Converter]:
    """Provide a separate converter with a short time limit."""
    instance = Converter(seconds=2.0)
    yield instance
    instance.close()


def get_children(pid: int) -> set[int]:
    """Return the child processes of a process."""
    pids: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # the thread may have just ended
            pids |= {int(child) for child in (task / "children").read_text().split()}
    return pids


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next((int(line.split()[1]) // 1_000 for line in lines if line.startswith("VmHWM")), 0)


FIRST = [(kind, name, make) for kind, documents in CORPUS.items() for name, make in [*documents.items()][:1]]
REST = [pytest.param(*case, marks=pytest.mark.slow) for case in cases() if case not in FIRST]


@pytest.mark.parametrize(("kind", "name", "make"), [*FIRST, *REST])
def test_hostile_documents_are_read_or_rejected_within_limits(
    converter: Converter, kind: str, name: str, make: Make
) -> None:
    """If a document is rejected, a single error names the file. The next document is always read normally."""
    data = make()
    start = time.monotonic()
    try:
        text = converter.convert(name, data, Path(name).suffix)
    except BadFile as error:
        assert str(error).startswith(f"{name}: ")  # noqa: PT017 - some are read
    else:
        assert sum(len(content) for _, content in text.parts) <= 2_000_000
    assert time.monotonic() - start < 8
    assert converter.convert("good.html", HTML, ".html").parts == [("", "Trams are quiet.")]


def test_slow_documents_are_reported(converter: Converter) -> None:
    with pytest.raises(BadFile, match=r"^a\.pdf: takes more than 2 s to read: split it, or save it as text"):
        converter.convert("a.pdf", ENDLESS(), ".pdf")


def test_documents_that_need_too_much_memory_are_reported() -> None:
    limited = Converter(memory=120)
    try:
        with pytest.raises(BadFile, match=r"^a\.xlsx: takes more than 120 MB of memory to read"):
            limited.convert("a.xlsx", CORPUS["compression"]["strings.xlsx"](), ".xlsx")
    finally:
        limited.close()


@pytest.mark.slow
def test_documents_that_crash_the_converter_are_reported(converter: Converter) -> None:
    """A library may terminate the whole process if it cannot allocate memory."""
    with pytest.raises(
        BadFile, match=r"^a\.pdf: crashes the process that reads it: .* takes more than 400 MB of memory"
    ):
        converter.convert("a.pdf", CORPUS["compression"]["twice.pdf"](), ".pdf")


@linux
def test_child_processes_are_reused_and_replaced_after_a_fault(converter: Converter) -> None:
    """The child process is idle between documents and ends when the converter is closed."""
    before = get_children(os.getpid())

    def read() -> set[int]:
        converter.convert("a.html", HTML, ".html")
        return get_children(os.getpid()) - before

    first = read()
    assert len(first) == 1
    assert read() == first
    with pytest.raises(BadFile):
        converter.convert("a.pdf", ENDLESS(), ".pdf")
    second = read()
    assert len(second) == 1
    assert second != first
    os.kill(min(second), signal.SIGKILL)  # killed while idle, so nothing reports it
    third = read()
    assert len(third) == 1
    assert third != second
    converter.close()
    assert get_children(os.getpid()) == before


@pytest.mark.slow
def test_slow_documents_do_not_block_others() -> None:
    """Another document can still be read while six documents never finish loading."""
    converter = Converter(seconds=4.0)
    problems: list[str] = []

    def read(data: bytes) -> None:
        try:
            converter.convert("a.pdf", data, ".pdf")
        except BadFile as error:
            problems.append(error.problem)

    endless = ENDLESS()
    threads = [Thread(target=read, args=(endless,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    start = time.monotonic()
    converter.convert("a.html", HTML, ".html")
    waited = time.monotonic() - start
    for thread in threads:
        thread.join()
    converter.close()
    assert waited < 4
    assert problems == ["takes more than 4 s to read: split it, or save it as text"] * 6


PROGRAM = """
import sys
from pathlib import Path

from flowdebate.sources.converter import shared_converter

converter = shared_converter()
converter.convert("a.html", b"<p>Trams.</p>", ".html")
print("idle", flush=True)
if sys.stdin.readline() == "work\\n":
    converter.convert("a.pdf", Path("a.pdf").read_bytes(), ".pdf")
"""


@linux
@pytest.mark.parametrize(
    ("ending", "work"),
    [
        (signal.SIGKILL, "work\n"),
        (None, ""),
        *(pytest.param(number, "work\n", marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGINT)),
        *(pytest.param(number, "", marks=pytest.mark.slow) for number in (signal.SIGKILL, signal.SIGTERM)),
    ],
)
def test_child_processes_do_not_outlive_their_parent(tmp_path: Path, ending: signal.Signals | None, work: str) -> None:
    """The parent may exit normally, on Ctrl-C or on SIGKILL, while the child process is working or idle."""
    (tmp_path / "a.pdf").write_bytes(ENDLESS())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start_process([sys.executable, "-c", PROGRAM], cwd=tmp_path, text=True, **pipes) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "idle\n"
        (child,) = get_children(parent.pid)
        parent.stdin.write(work)
        parent.stdin.flush()
        time.sleep(0.5 if work else 0)
        assert Path(f"/proc/{child}").exists()
        if ending is None:
            parent.stdin.close()
        else:
            parent.send_signal(ending)
        parent.wait(timeout=20)
        ends = time.monotonic() + 5
        while Path(f"/proc/{child}").exists() and time.monotonic() < ends:
            time.sleep(0.02)
        assert not Path(f"/proc/{child}").exists()


@linux
def test_child_processes_do_not_receive_their_parents_secrets(
    monkeypatch: pytest.MonkeyPatch, converter: Converter
) -> None:
    """A hostile document may control the child process, so it is given neither keys nor store addresses."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("FLOWDEBATE_STORE", "postgresql://canary")
    before = get_children(os.getpid())
    converter.convert("a.html", HTML, ".html")
    (child,) = get_children(os.getpid()) - before
    assert b"canary" not in Path(f"/proc/{child}/environ").read_bytes()
    assert 0 < peak_memory(child) < 400
