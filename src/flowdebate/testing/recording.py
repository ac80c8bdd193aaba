"""`serve_recording`: a local server that replays another server's recorded answers."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

from flowdebate.errors import BadFile
from flowdebate.models.recording import HttpExchange, read_exchanges


@contextmanager
def serve_recording(path: str | os.PathLike[str]) -> Iterator[str]:
    """Start a local model server that replays the exchanges in the cassette at `path`, and yield its base URL.

    Record the cassette with `flowdebate models check MODEL --record FILE`, or with a `RecordingModel` and
    `exchanges=True`. A recorded request gets its recorded response; identical requests get their responses in recorded
    order. Any other request is rejected with the original server's message if that server always rejected one of
    the request's parts, such as a temperature. Otherwise it gets the response to a request of the same form: streamed,
    with tools, or with a response format. A request containing a part that was never recorded is also rejected, with a
    message naming the part.

    Raises BadFile if the file is not such a cassette.

    >>> with serve_recording("check.jsonl") as base_url:  # doctest: +SKIP
    ...     model = OpenAIModel("gpt-5-mini", base_url=base_url)
    ...     generator(name="echo").run_sync("Hello", model=model)
    """
    exchanges = read_exchanges(path)
    if not exchanges:
        raise BadFile(str(path), "has no exchanges: record it with exchanges=True")
    recording = _Recording(exchanges)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
            exchange = recording.find(sent)
            body = exchange.body.encode()
            self.send_response(exchange.status)
            self.send_header("Content-Type", exchange.kind or "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Suppress logging to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Recording:
    """Recorded exchanges, keyed by request."""

    def __init__(self, exchanges: Sequence[HttpExchange]) -> None:
        self._exchanges = exchanges
        self._served: Counter[object] = Counter()
        self._lock = threading.Lock()

    def find(self, sent: dict[str, Any]) -> HttpExchange:
        """Return the next response to a request."""
        equal = [exchange for exchange in self._exchanges if _content_of(exchange.sent) == _content_of(sent)]
        if equal:
            return self._next(json.dumps(_content_of(sent), sort_keys=True), equal, again=len(equal) - 1)
        parts = _parts_of(sent)
        for part in sorted(parts):
            matches = [exchange for exchange in self._exchanges if part in _parts_of(exchange.sent)]
            if not matches:
                return _refusal(f"the recording has no request with {part}")
            if all(exchange.refuses for exchange in matches):
                return matches[0]
        form = _form_of(parts)
        alike = [
            exchange
            for exchange in self._exchanges
            if not exchange.refuses and _form_of(_parts_of(exchange.sent)) == form
        ]
        if not alike:
            return _refusal(f"the recording has no answered request with {', '.join(sorted(form)) or 'text alone'}")
        return self._next(form, alike, again=0)

    def _next(self, key: object, exchanges: Sequence[HttpExchange], *, again: int) -> HttpExchange:
        """Return the next of the `exchanges`; after the last one, start over at index `again`."""
        with self._lock:
            number = self._served[key]
            self._served[key] += 1
        if number >= len(exchanges):
            number = again + (number - again) % (len(exchanges) - again)
        return exchanges[number]


_FORMS = ("stream", "response_format", "tools", "tool_choice", "output_config format", "logprobs")
"""Names, or prefixes of names, of the request parts that affect the form of the response."""


def _refusal(problem: str) -> HttpExchange:
    body = json.dumps({"error": {"message": problem}})
    return HttpExchange(sent={}, status=400, kind="application/json", body=body)


def _form_of(parts: frozenset[str]) -> frozenset[str]:
    return frozenset(part for part in parts if part.startswith(_FORMS) and part != "stream_options")


def _content_of(sent: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a request without the model's name, since the name may be redacted in the recording."""
    return {name: value for name, value in sent.items() if name != "model"}


def _parts_of(sent: dict[str, Any]) -> frozenset[str]:
    """Return the names of the request's parts that affect the form of the response or that servers may reject.

    >>> sorted(_parts_of({"messages": [{"role": "system"}, {"role": "user"}], "stream": True, "temperature": 0}))
    ['stream', 'system', 'temperature']
    """
    roles = [str(message.get("role")) for message in sent.get("messages", ()) if isinstance(message, dict)]
    names = {name for name in sent if name not in ("messages", "model") and sent[name] is not False}
    for name in ("response_format", "tool_choice", "output_config"):
        form = sent.get(name)
        if isinstance(form, dict):
            names |= {f"{name} {form['type']}"} if "type" in form else {f"{name} {part}" for part in form}
    names |= {"system"} & set(roles)
    if any(one == two for one, two in pairwise(roles)):
        names.add("neighbors of one role")
    return frozenset(names)
