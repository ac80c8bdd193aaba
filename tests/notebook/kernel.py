"""A real kernel driven as a front end would: it runs cells, reads outputs and sends widget messages."""

from __future__ import annotations

import os
import queue
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 60


@dataclass
class Output:
    """A cell's displays, in order. An update replaces the earlier display."""

    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    traceback: list[str] = field(default_factory=list)
    text: str = ""
    ended: bool = False
    places: dict[str, int] = field(default_factory=dict)

    def put(self, kind: str, content: dict[str, Any]) -> None:
        """Apply a message from the kernel."""
        place = content.get("transient", {}).get("display_id")
        if kind == "status":
            self.ended = content["execution_state"] == "idle"
        elif kind == "update_display_data" and place in self.places:
            self.updates.append(content["data"])
            self.displays[self.places[place]] = content["data"]
        elif kind in ("display_data", "execute_result"):
            if place is not None:
                self.places[place] = len(self.displays)
            self.displays.append(content["data"])
        elif kind == "stream":
            self.text += content["text"]
        elif kind == "error":
            self.error = f"{content['ename']}: {content['evalue']}"
            self.traceback = content["traceback"]


class Kernel:
    """Kernel with a client that acts as a headless front end."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager = manager
        self.client = client
        self.widgets: dict[str, dict[str, Any]] = {}
        """The state of each widget, by its comm."""
        self.heard: list[dict[str, Any]] = []
        """The custom messages of widgets."""
        self._outputs: dict[str, Output] = {}

    def start(self, code: str) -> Output:
        """Start a cell."""
        output = Output()
        self._outputs[self.client.execute(code)] = output
        return output

    def run(self, code: str) -> Output:
        """Run a cell to completion."""
        output = self.start(code)
        self.read(lambda: output.ended)
        return output

    def read(self, holds: Callable[[], object]) -> None:
        """Read messages until a condition is met."""
        while not holds():
            try:
                message = self.client.get_iopub_msg(timeout=SECONDS)
            except queue.Empty:
                raise AssertionError("the kernel says nothing more") from None
            self._put(message["msg_type"], message["content"], message["parent_header"].get("msg_id"))

    def _put(self, kind: str, content: dict[str, Any], parent: str | None) -> None:
        if kind == "comm_open":
            self.widgets[content["comm_id"]] = dict(content["data"]["state"])
        elif kind == "comm_msg" and content["comm_id"] in self.widgets:
            if content["data"]["method"] == "update":
                self.widgets[content["comm_id"]] |= content["data"]["state"]
            elif content["data"]["method"] == "custom":
                self.heard.append(content["data"]["content"])
        place = content.get("transient", {}).get("display_id")
        placed = [candidate for candidate in self._outputs.values() if place in candidate.places] if place else []
        of_cell = [] if parent not in self._outputs else [self._outputs[parent]]
        for output in placed or of_cell:
            output.put(kind, content)

    def turn(self, output: Output) -> str:
        """Return the comm that belongs to a cell's widget."""
        return str(output.displays[-1]["application/vnd.jupyter.widget-view+json"]["model_id"])

    def page(self, comm: str) -> str:
        """Return the widget's page."""
        return str(self.widgets[comm]["page"])

    def send(self, comm: str, answer: object, *, place: str, subshell: str | None = None) -> None:
        """Send an answer as the widget does, through a subshell as in JupyterLab."""
        content = {"kind": "answer", "place": place, "answer": answer}
        data = {"comm_id": comm, "data": {"method": "custom", "content": content}}
        message = self.client.session.msg("comm_msg", data)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def subshell(self) -> str:
        """Open a subshell, so that the kernel handles messages in a separate thread."""
        self.client.control_channel.send(self.client.session.msg("create_subshell_request"))
        reply = self.client.get_control_msg(timeout=SECONDS)
        return str(reply["content"]["subshell_id"])


@contextmanager
def run_kernel(folder: str) -> Iterator[Kernel]:
    """Start a kernel with this Python, and stop it at the end of the block."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import KernelManager

    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=argv, display_name="Python", language="python")
    manager.start_kernel(cwd=folder, env={**os.environ, "IPYTHONDIR": folder})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
