"""Model behind OpenAI's API, for checks of installed packages. Uses only the standard library."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("ANSWER", "model_server")

ANSWER = "Trams carry more people on less ground."
"""Answer to every request for text."""


@contextmanager
def model_server() -> Iterator[str]:
    """Serve a model with OpenAI's API inside the `with` block; yield its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": said(request_body)}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            answer = {
                "id": "check",
                "object": "chat.completion",
                "created": 0,
                "model": request_body["model"],
                "usage": usage,
            }
            body = json.dumps({**answer, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Suppress log messages."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def said(body: dict[str, Any]) -> str:
    """Return a text, or a value that fits the requested schema."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return ANSWER if schema is None else json.dumps(value_of(schema, schema.get("$defs", {})))


def value_of(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Create a value that fits a schema, provided that the schema is no more complex than those of our verdicts."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if options := schema.get("anyOf"):
        return value_of(options[0], definitions)
    if options := schema.get("enum"):
        return options[0]
    if schema["type"] == "object":
        return {name: value_of(subschema, definitions) for name, subschema in schema.get("properties", {}).items()}
    return {"string": ANSWER, "integer": 1, "number": 1, "boolean": True, "array": []}.get(schema["type"])
