"""Runs and human turns in a real kernel, with the messages that front ends send."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from typing import TYPE_CHECKING

import pytest

from tests.notebook.kernel import Kernel, run_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

for library in ("anywidget", "ipykernel", "jupyter_client"):
    pytest.importorskip(library, reason=f"{library} is not installed: make test-notebook")

SETUP = """
import asyncio
from flowdebate import Debater, debate, human, submit_answer
from flowdebate.notebook import HumanTurn, show
from flowdebate.testing import FunctionModel

go = asyncio.Event()
hold = False

async def speak(request):
    if request.output_schema is not None:
        return {"reasoning": "-", "winner": None, "verdict": "Neither."}
    for word in ("Homes ", "come ", "first."):
        request.on_text and request.on_text(word)
        await asyncio.sleep(0.01)
    if hold:
        await go.wait()
    return "Homes come first."

def rent(**roles):
    olga = Debater("olga", "free", block=roles.pop("olga", None))
    return debate(name="rent", debaters=[Debater("ann", "cap"), olga], max_rounds=1, synthesizer=False, **roles)

model = FunctionModel(speak)
"""


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Share one kernel among the tests in this module; each test begins with the same cell."""
    with run_kernel(str(tmp_path_factory.mktemp("kernel"))) as session:
        yield session


@pytest.fixture
def cells(shared_kernel: Kernel) -> Kernel:
    """Return the kernel after its first cell has run."""
    assert shared_kernel.run(SETUP).error is None
    return shared_kernel


def request_path(page: str) -> str:
    """Return the path that identifies the request shown by a widget."""
    match = re.search(r'data-place="([^"]*)"', page)
    assert match is not None, page
    return unescape(match[1]).strip('"')


def test_run_is_shown_in_one_output(cells: Kernel) -> None:
    output = cells.run(
        "hold = True\n"
        "asyncio.get_running_loop().call_later(2, go.set)\n"
        "result = await show(rent().start('Rent?', model=model), every=0.005)\n"
        "print(result.status)"
    )
    assert output.error is None
    assert output.text == "complete\n"
    [report] = output.displays
    assert "<iframe" in report["text/html"]
    assert "Neither." in report["text/markdown"]
    assert any("Homes come" in update["text/html"] for update in output.updates[:-1])
    slow = cells.run("result = await show(rent().start('Rent?', model=model), every=60)")
    assert 1 <= len(slow.updates) <= 3


def test_failure_is_raised_after_the_page_is_shown(cells: Kernel) -> None:
    cells.run(
        "async def fail(request):\n    if 'olga' in request.block: raise ConnectionError('gone')\n    return 'Homes.'"
    )
    output = cells.run("await show(rent().start('Rent?', model=FunctionModel(fail)))")
    assert output.error == "ConnectionError: gone"
    assert "ConnectionError: gone" in output.displays[0]["text/html"]
    assert "Homes." in output.displays[0]["text/html"]


def test_interrupting_the_cell_cancels_the_run(cells: Kernel) -> None:
    """The page keeps what was finished before the interruption, and a single line replaces the traceback."""
    output = cells.start("hold = True\nhandle = rent().start('Rent?', model=model)\nawait show(handle)")
    cells.read(lambda: any("Homes come first." in update["text/html"] for update in output.updates))
    cells.manager.interrupt_kernel()
    cells.read(lambda: output.ended)
    line = "Interrupted: the output shows how far the run came. A run with a store can be resumed."
    assert output.traceback == [line]
    assert cells.run("print(handle.status)").text == "interrupted\n"
    assert "Interrupted" in output.displays[0]["text/html"]


def test_without_await_the_run_continues_in_the_background(cells: Kernel) -> None:
    """Later cells update the first cell's output, while their own outputs are not affected."""
    output = cells.run("hold = True\nhandle = rent().start('Rent?', model=model)\nshow(handle, every=0.01)")
    assert len(output.displays) == 1
    cells.run("go.set()\nawait handle")
    cells.read(lambda: "<iframe" in output.displays[0]["text/html"])


@pytest.mark.parametrize("through", ["the shell", "a subshell"])
def test_turn_is_answered_in_the_widget(cells: Kernel, through: str) -> None:
    cells.run(
        "pattern = rent(olga=human(name='olga'))\nresult = await pattern.run('Rent?', model=model, store='memory:')"
    )
    turn = cells.turn(cells.run("turn = HumanTurn(result)\nturn"))
    cells.read(lambda: "<form" in cells.page(turn))
    page = cells.page(turn)
    assert "Rent?" in page
    assert "Homes come first." in page
    subshell = cells.subshell() if through == "a subshell" else None
    cells.send(turn, "Let the market decide.", place=request_path(page), subshell=subshell)
    cells.read(lambda: "Your answer is recorded" in cells.page(turn))
    done = cells.run(
        "result = await pattern.resume(result.run_id, store=result.store, model=model)\n"
        "print(result.status, result.raw.transcript[1].text)"
    )
    assert done.text == "complete Let the market decide.\n"
    cells.read(lambda: "The run is over" in cells.page(turn))


def test_invalid_answer_is_reported_by_field(cells: Kernel) -> None:
    cells.run("pattern = rent(judge=human(name='jo'))\nhandle = pattern.start('Rent?', model=model, store='memory:')")
    turn = cells.turn(cells.run("turn = HumanTurn(handle)\nturn"))
    cells.read(lambda: "<form" in cells.page(turn))
    page = cells.page(turn)
    assert 'type="radio"' in page
    place, heard = request_path(page), len(cells.heard)
    cells.send(turn, {"winner": "ann", "verdict": "Ann."}, place=place)
    cells.read(lambda: len(cells.heard) > heard)
    assert {error["field"] for error in cells.heard[-1]["errors"]} == {"winner", "reasoning"}
    cells.send(turn, {"reasoning": "-", "winner": "cap", "verdict": "Cap them."}, place=place)
    cells.read(lambda: "Your answer is recorded" in cells.page(turn))


def test_answer_from_elsewhere_is_reported(cells: Kernel) -> None:
    """An answer submitted in code removes the form, and a later answer from the form is rejected."""
    cells.run(
        "pattern = rent(olga=human(name='olga'))\nresult = await pattern.run('Rent?', model=model, store='memory:')"
    )
    turn = cells.turn(cells.run("turn = HumanTurn(result)\nturn"))
    cells.read(lambda: "<form" in cells.page(turn))
    place = request_path(cells.page(turn))
    cells.run("await submit_answer(result.store, result.run_id, 'In code.')")
    cells.read(lambda: "answered elsewhere" in cells.page(turn))
    heard = len(cells.heard)
    cells.send(turn, "Too late.", place=place)
    cells.read(lambda: len(cells.heard) > heard)
    assert cells.heard[-1]["kind"] == "refused"


def test_run_waiting_for_the_widget_continues_automatically(cells: Kernel) -> None:
    """With `ask=turn.ask`, the run rejects an invalid answer and accepts a valid one without being resumed."""
    output = cells.run("turn = HumanTurn()\nturn")
    turn = cells.turn(output)
    assert "not your turn yet" in cells.page(turn)
    cells.run("handle = rent(olga=human(name='olga', ask=turn.ask)).start('Rent?', model=model)\nshow(handle)")
    cells.read(lambda: "<form" in cells.page(turn))
    place, heard = request_path(cells.page(turn)), len(cells.heard)
    cells.send(turn, "  ", place=place)
    cells.read(lambda: len(cells.heard) > heard)
    cells.send(turn, "Free them.", place=place)
    cells.read(lambda: "in the debate" in cells.page(turn))
    assert cells.run("print((await handle).raw.transcript[1].text)").text == "Free them.\n"


def test_turn_in_a_stored_run_is_found_by_the_run_id(cells: Kernel) -> None:
    """A new kernel needs only the run's id and the store."""
    cells.run("await rent(olga=human(name='olga')).run('Rent?', model=model, store='runs.sqlite3', run_id='r1')")
    turn = cells.turn(cells.run("HumanTurn('r1', store='runs.sqlite3', block='olga')"))
    cells.read(lambda: "<form" in cells.page(turn))


def test_invalid_argument_is_rejected(cells: Kernel) -> None:
    assert "a run with a store" in str(cells.run("HumanTurn(await rent().run('Rent?', model=model))").error)
    assert "the run's store" in str(cells.run("HumanTurn('r1', store=False)").error)
    assert "a run handle" in str(cells.run("show(await rent().run('Rent?', model=model))").error)
    assert "`every` must be a number > 0" in str(cells.run("show(rent().start('R?', model=model), every=0)").error)


def test_hostile_text_in_a_turn_is_escaped(cells: Kernel) -> None:
    cells.run(
        "hostile = '\"></div><script>alert(1)</script><img src=x onerror=alert(1)>'\n"
        "pattern = rent(olga=human(name='olga'))\n"
        "result = await pattern.run(hostile, model=FunctionModel(lambda request: hostile), store='memory:')"
    )
    turn = cells.turn(cells.run("HumanTurn(result)"))
    cells.read(lambda: "<form" in cells.page(turn))
    assert "<script" not in cells.page(turn)
    assert "<img" not in cells.page(turn)


def test_show_in_a_script_just_waits_for_the_result() -> None:
    program = (
        SETUP
        + "async def main():\n    print((await show(rent().start('Rent?', model=model))).status)\nasyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "complete\n"
