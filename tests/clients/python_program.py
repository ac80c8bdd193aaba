"""Program that runs an unmodified Python client in a separate environment: `python_program.py URL TOKEN CLIENT`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MODEL, QUESTION = "flowdebate/debate:answer", "Which database should we use?"
MESSAGES = [{"role": "user", "content": QUESTION}]


def ask_openai(url: str, token: str) -> tuple[str, int]:
    """Send a request with the official client, using an editor's tools and settings."""
    function = {"name": "read_file", "parameters": {"type": "object", "properties": {}}}
    client = import_module("openai").OpenAI(base_url=url, api_key=token)
    answer = client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        tools=[{"type": "function", "function": function}],
        tool_choice="auto",
        temperature=0.2,
    )
    return answer.choices[0].message.content, answer.usage.total_tokens


def ask_litellm(url: str, token: str) -> tuple[str, int]:
    """Send one complete and one streamed request with LiteLLM."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm = import_module("litellm")
    options = {"model": f"openai/{MODEL}", "api_base": url, "api_key": token, "messages": MESSAGES}
    response = litellm.completion(**options)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**options, stream=True))
    assert streamed == response.choices[0].message.content
    return streamed, response.usage.total_tokens


def ask_llm(url: str, token: str) -> tuple[str, int]:
    """Send one complete and one streamed request with the program `llm`, and read the token counts from its log."""
    home = Path(os.environ["LLM_USER_PATH"])
    home.mkdir(parents=True)
    entry = [{"model_id": "debate", "model_name": MODEL, "api_base": url, "api_key_name": "debate"}]
    (home / "extra-openai-models.yaml").write_text(json.dumps(entry))  # JSON is valid YAML
    (home / "keys.json").write_text(json.dumps({"debate": token}))
    program = str(Path(sys.executable).with_name("llm"))

    def say(*words: str) -> str:
        done = subprocess.run(  # noqa: S603 - the client
            [program, *words], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
        )
        return done.stdout.strip()

    streamed, text = say("-m", "debate", QUESTION), say("-m", "debate", "--no-stream", QUESTION)
    assert streamed == text
    (entry_of_log,) = json.loads(say("logs", "-n", "1", "--json"))
    return text, entry_of_log["input_tokens"] + entry_of_log["output_tokens"]


def ask_instructor(url: str, token: str, mode: str) -> tuple[str, int]:
    """Send a request with instructor in one of its modes."""
    instructor, openai, pydantic = (import_module(name) for name in ("instructor", "openai", "pydantic"))
    plan: Any = pydantic.create_model("Plan", steps=(list[str], ...))
    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key=token), mode=instructor.Mode[mode])
    parsed, completion = client.chat.completions.create_with_completion(
        model=MODEL, messages=MESSAGES, response_model=plan, max_retries=0
    )
    return json.dumps(parsed.steps), completion.usage.total_tokens


def main() -> None:
    """Print the answer and its token counts."""
    url, token, client = sys.argv[1:]
    kind, _, mode = client.partition(" ")
    programs = {"openai": ask_openai, "litellm": ask_litellm, "llm": ask_llm}
    answer = ask_instructor(url, token, mode) if kind == "instructor" else programs[kind](url, token)
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
