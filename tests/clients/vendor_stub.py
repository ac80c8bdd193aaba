"""Loopback stub of four vendors. It satisfies their own programs and records requests."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Json: TypeAlias = Any
KEY = "key-of-the-stub"
ANSWER = "Cap them."
KINDS = {400: "invalid_argument", 401: "authentication_error", 429: "rate_limit_error"}


class VendorStub(ThreadingHTTPServer):
    """Server that answers every prompt with `ANSWER`, or rejects it with the given status.

    If `reads` is set, claude first reads these paths with its tool, and the last of `bodies` contains the results. If
    `tool` is set, the model first calls the offered tool whose name ends with it, passing `arguments`.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refuses: int | None = None
        self.reads: list[str] = []
        self.tool = ""
        self.arguments: Json = {}
        self.bodies: list[Json] = []
        self.keys: list[str | None] = []
        """Keys of gemini."""
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a disconnected program."""


_PATIENCE = 20
"""Maximum number of waiting calls that a model makes until its host has connected to the tool servers."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: VendorStub

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
        pass

    def do_GET(self) -> None:
        """Reject the request, so that codex continues without a WebSocket."""
        self._send(426 if self.path.endswith("/responses") else 404, {"error": {"message": "no"}})

    def do_POST(self) -> None:
        """Answer in the format of the vendor to which the path belongs."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self.rfile.readline(), 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        body = json.loads(raw or "{}")
        path = self.path.partition("?")[0]
        answers = {
            "/messages": self._messages,
            "/responses": self._responses,
            "enerateContent": self._contents,
            "/chat/completions": self._completions,
        }
        answer = next((answer for end, answer in answers.items() if path.endswith(end)), None)
        if answer is None:
            return self._send(404, {"error": {"message": "no"}})
        self.server.bodies.append(body)
        self.server.keys.append(self.headers.get("x-goog-api-key"))
        if self.server.refuses is not None:
            status = self.server.refuses
            error = {
                "type": KINDS[status],
                "message": "Request denied",
                "code": status,
                "status": KINDS[status].upper(),
            }
            return self._send(status, {"type": "error", "error": error})
        return answer(body)

    def _called_tool(self, body: Json) -> Json:
        """Return the offered tool to call, or None if it is missing or has already answered."""
        offered = [
            declaration for tool in body.get("tools") or [] for declaration in tool.get("functionDeclarations", [tool])
        ]
        offered = [{**inner, "namespace": tool["name"]} for tool in offered for inner in tool.get("tools", ())] + [
            tool.get("function", tool) for tool in offered
        ]
        matches = [tool for tool in offered if self.server.tool and tool.get("name", "").endswith(self.server.tool)]
        waits = [tool for tool in offered if self.server.tool and tool.get("name") == "WaitForMcpServers"]
        chat = json.dumps([body.get(name) for name in ("messages", "input", "contents")])
        if not matches:  # give a host time to connect to its servers
            return {**waits[0], "arguments": {}} if waits and chat.count(waits[0]["name"]) < _PATIENCE else None
        called = f'"name": "{matches[0]["name"]}"' in chat
        return None if called else {**matches[0], "arguments": self.server.arguments}

    def _send(self, status: int, value: Json) -> None:
        self._write(status, "application/json", json.dumps(value))

    def _stream(self, events: Sequence[Json]) -> None:
        heads = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
        lines = [f"{head}data: {json.dumps(event)}\n\n" for head, event in zip(heads, events, strict=True)]
        self._write(200, "text/event-stream", "".join(lines))

    def _write(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("retry-after-ms", "10")  # otherwise opencode waits for more than a minute
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _messages(self, body: Json) -> None:
        usage = {"input_tokens": 10, "output_tokens": 3}
        message = {"id": "m", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
        reads = [] if len(self.server.bodies) > 1 else self.server.reads
        blocks: list[tuple[Json, Json]] = [
            (
                {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps({"file_path": path})},
            )
            for number, path in enumerate(reads)
        ]
        if (tool := self._called_tool(body)) is not None:
            start = {"type": "tool_use", "id": f"toolu_{len(self.server.bodies)}", "name": tool["name"], "input": {}}
            blocks = [(start, {"type": "input_json_delta", "partial_json": json.dumps(tool["arguments"])})]
        reason = {"stop_reason": "tool_use" if blocks else "end_turn"}
        blocks = blocks or [({"type": "text", "text": ""}, {"type": "text_delta", "text": ANSWER})]
        events: list[Json] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, (block, delta) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        self._stream([*events, {"type": "message_delta", "delta": reason, "usage": usage}, {"type": "message_stop"}])

    def _responses(self, body: Json) -> None:
        item: Json = {"type": "message", "id": "m", "role": "assistant"}
        item["content"] = [{"type": "output_text", "text": ANSWER}]
        if (tool := self._called_tool(body)) is not None:
            arguments = json.dumps(tool["arguments"])
            item = {"type": "function_call", "id": "f", "call_id": "c", "name": tool["name"], "arguments": arguments}
            item |= {"namespace": tool["namespace"]} if "namespace" in tool else {}
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
        self._stream(
            [
                {"type": "response.created", "response": {"id": "r"}},
                {"type": "response.output_item.done", "item": item},
                {"type": "response.completed", "response": {"id": "r", "usage": usage}},
            ]
        )  # fmt: skip

    def _contents(self, body: Json) -> None:
        part: Json = {"text": ANSWER}
        if (tool := self._called_tool(body)) is not None:
            part = {"functionCall": {"name": tool["name"], "args": tool["arguments"]}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}
        candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
        self._stream([{"candidates": candidates, "usageMetadata": usage}])

    def _completions(self, body: Json) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        steps: list[tuple[Json, str | None]] = [({"role": "assistant", "content": ANSWER}, None), ({}, "stop")]
        if (tool := self._called_tool(body)) is not None:
            function = {"name": tool["name"], "arguments": json.dumps(tool["arguments"])}
            calls = [{"index": 0, "id": "c", "type": "function", "function": function}]
            steps = [({"role": "assistant", "tool_calls": calls}, None), ({}, "tool_calls")]
        chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in steps]
        self._stream([*chunks, {**chunk, "choices": [], "usage": usage}])
