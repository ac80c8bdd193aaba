"""An endpoint whose models give answers that fit any schema or are permanently down, depending on their names."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTS = ("503", "401", "404", "malformed")
"""Faults applied to every request, keyed by the prefix of the model name."""
THOUGHT = "Nobody may read what I think of it."
_THINKS = {"aloud": f"<think>{THOUGHT}</think>\n\n", "unannounced": f"{THOUGHT}\n</think>\n"}
"""Thinking that a model streams before its answers, keyed by the prefix of its name."""
_WORDS = {"503": "overloaded", "401": "Incorrect API key provided", "404": "No endpoints found"}


class Endpoint:
    """An endpoint that records requests by model name."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered: list[str] = []
        """Names of models whose text was sent, in order."""
        self.failed: set[str] = set()

    def clear(self) -> None:
        self.answered, self.failed = [], set()


def model_word(model: str) -> str:
    """Return the word that occurs in everything a model writes and nowhere else."""
    return f"word{model.replace('-', '')}"


def sample(schema: Any, model: str, root: Any = None) -> Any:
    """Return a value that fits a JSON Schema and whose free strings contain the model's word."""
    root = schema if root is None else root
    schema = _target(schema, root)
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    if schema.get("type") == "object":
        return {name: sample(field_schema, model, root) for name, field_schema in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return _several(_target(schema.get("items", {}), root), model, root)
    plain = {"integer": max(1, schema.get("minimum", 1)), "number": 0.5, "boolean": False, "null": None}
    return plain.get(schema.get("type", ""), f"{model_word(model)} is fine.")


def _several(items: Any, model: str, root: Any) -> list[Any]:
    """Return one item, or one item per choice if a ranking requires all letters."""
    one, fields = sample(items, model, root), items.get("properties", {})
    choice = next((name for name, field_schema in fields.items() if "enum" in field_schema), None)
    if choice is None or "severity" in fields:  # a finding's severity is not a letter
        return [one]
    return [{**one, choice: value} for value in fields[choice]["enum"]]


def _target(schema: Any, root: Any) -> Any:
    """Resolve a schema reference, or take the first alternative."""
    while "$ref" in schema or "anyOf" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["anyOf"][0]
    return schema


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model = body["model"]
        fault = model.partition("-")[0]
        if fault in _WORDS:
            self.endpoint.failed.add(model)
            self._send(int(fault), "application/json", json.dumps({"error": {"message": _WORDS[fault]}}))
            return
        if fault == "malformed":
            self.endpoint.failed.add(model)
            text = ""
        elif schema := body.get("response_format", {}).get("json_schema", {}).get("schema"):
            text = json.dumps(sample(schema, model))
        else:
            self.endpoint.answered.append(model)
            text = f"{model_word(model)} is what I say."
        text = _THINKS.get(fault, "") + text
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        fields = {"id": "c", "created": 1, "model": model}
        if body.get("stream"):
            pieces = [text[at : at + 9] for at in range(0, len(text), 9)] if fault in _THINKS else [text]
            chunks: list[dict[str, Any]] = [
                *({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces),
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {"choices": [], "usage": usage},
            ]
            events = [json.dumps({**fields, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
            self._send(200, "text/event-stream", "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]))
            return
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer = {**fields, "object": "chat.completion", "choices": choices, "usage": usage}
        self._send(200, "application/json", json.dumps(answer))

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if status >= 500:
            self.send_header("X-Should-Retry", "false")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Run the endpoint in threads on the loopback interface."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {}))
    server.daemon_threads = True
    stub = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
    server.RequestHandlerClass.endpoint = stub  # type: ignore[attr-defined]  # its own
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
