"""Chat completions endpoint that answers after a fixed time, in a separate process so that its CPU time is not counted.

    python latency_server.py MILLISECONDS

It prints its port. When its standard input closes, it stops and prints the number of requests received.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from typing import Any

from aiohttp import web

_ANSWERS = count()
VERDICT = {"verdict": "For.", "winner": "for", "reasoning": "Better argued."}


def answer_to(body: dict[str, object]) -> dict[str, object]:
    """Return an answer that repeats the question's number, to detect mix-ups, or any valid answer."""
    form: Any = body.get("response_format")
    prompt = json.dumps(body["messages"])
    if form is not None:
        properties = form["json_schema"]["schema"]["properties"]
        speakers = properties.get("nextSpeakers", {}).get("items", {}).get("enum")
        text = json.dumps(VERDICT if speakers is None else {"nextSpeakers": speakers, "briefing": "Power is short."})
        if "winner" in properties and "for" not in json.dumps(properties["winner"]).split('"'):
            text = json.dumps({**VERDICT, "winner": None})
    elif "Question number " in prompt:
        text = f"About {prompt[prompt.index('Question number ') :].split('?')[0]}."
    else:
        text = f"Argument {next(_ANSWERS)}. ".ljust(640, "x")
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "latency",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


async def serve(milliseconds: float) -> None:
    requests = 0

    async def complete(request: web.Request) -> web.Response:
        nonlocal requests
        body = await request.json()
        requests += 1
        await asyncio.sleep(milliseconds / 1e3)
        return web.json_response(answer_to(body))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    loop = asyncio.get_running_loop()
    while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if command == "connections":
            print(len(runner.server.connections) if runner.server else 0, flush=True)
        elif command == "requests":
            print(requests, flush=True)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
