"""docs/gallery.md: every script in examples/ with its output, using handwritten model answers.

`python scripts/gallery.py` writes the page, and a test compares it. `reports(folder)` writes some HTML reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gallery_answers import ANSWERS

from flowdebate.errors import ProviderFailed
from flowdebate.models import ModelResponse, Usage
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel, ToolCall, forbid_real_models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.testing import ModelRequest

__all__ = ("REPORTS", "page", "reports")

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gallery.md"

GROUPS = {
    "One debate": {
        "feature_debate": "Read this one first.",
        "three_sides": "",
        "formats": "",
        "moderated_debate": "",
        "streaming": "",
        "own_server": "",
    },
    "Custom roles": {
        "custom_debater": "",
        "four_vendors": "",
        "human_judge": "",
        "verified_quotes": "",
        "your_documents": "",
    },
    "Other patterns": {
        "investment": "",
        "council": "",
        "checked_answer": "",
        "review": "",
        "consensus_pipeline": "",
        "round_robin": "",
        "moral_decisions": "",
        "escalation": "",
    },
    "Many debates, and stopping early": {
        "many_questions": "",
        "debate_in_a_pipeline": "",
        "stop_early": "",
        "budget_guard": "",
    },
    "Failures and recordings": {
        "resilient_debate": "",
        "record_and_replay": "",
    },
    "Judging the judge": {
        "audit_a_judge": "",
        "did_it_help": "",
        "compare_answers": "",
    },
}
"""All examples in page order, each with an optional remark that is not in its docstring."""

REPORTS = ("feature_debate", "three_sides", "investment", "council", "round_robin", "moral_decisions")
"""Examples with a report on the site."""

_LINES = 1
"""Number of lines shown from the start of an output."""

_WIDTH = 90
"""Maximum length of a line on the page, in characters."""

HEAD = """# Gallery

Start from an example: this page lists every script in `examples/`, with the beginning and the end of its output.

Run an example with `python examples/feature_debate.py`. It uses [your default model](models.md#naming-a-model); the
output below comes from a scripted model.
"""


def page() -> str:
    """Return the page for the current scripts."""
    parts = [HEAD]
    for group, names in GROUPS.items():
        parts.append(f"## {group}\n")
        for name, word in names.items():
            module = load(name)
            summary = " ".join((module.__doc__ or "").split("\n\n")[0].split())
            printed = shorten(normal(output_of(name, module)))
            source = f"[Source](../examples/{name}.py)."
            text = " ".join(filter(None, (summary, word, source)))
            parts.append(f"### {name}\n\n{text}\n\n```text\n{printed}\n```\n")
    return "\n".join(parts)


def shorten(printed: str) -> str:
    """Return the first lines and the last line of an output, without blank lines and rules."""
    lines = [clip(line) for line in printed.splitlines() if line.strip(" =-.")]
    return "\n".join(lines if len(lines) <= _LINES + 1 else [*lines[:_LINES], "…", lines[-1]])


def clip(line: str) -> str:
    """Cut a line that is too long for a page."""
    return line if len(line) <= _WIDTH else line[:_WIDTH].rsplit(" ", 1)[0] + " …"


def load(name: str) -> Any:  # noqa: ANN401 - a module, whose names are its own
    """Import an example as a module, without running it."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", ROOT / "examples" / f"{name}.py")
    if spec is None or spec.loader is None:
        sys.exit(f"examples/{name}.py is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def models_of(name: str, *names: str) -> list[FunctionModel]:
    """Create models with these names that give each block of an example its answers, in order."""
    remaining = {part: list(answers) for part, answers in ANSWERS[name].items()}

    def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - any reply
        part = max((part for part in remaining if part in request.block), key=len)
        reply = remaining[part].pop(0) if len(remaining[part]) > 1 else remaining[part][0]
        return in_form(reply, request)

    return [FunctionModel(answer, name=called) for called in names or ("scripted",)]


def in_form(reply: Any, request: ModelRequest) -> Any:  # noqa: ANN401 - any reply
    """Convert an answer to the form required by the calling block."""
    if reply == "look_up":
        return ToolCall(id="1", name="look_up", arguments='{"topic": "latency"}')
    if reply == "the provider is down":
        down = ProviderFailed("the endpoint answered 503", status=503)
        down.transient = False  # a retry would only add a useless wait before the next failure
        raise down
    if isinstance(reply, tuple):
        return {"response": reply[0], "next_agent_name": reply[1]}
    if isinstance(reply, list):  # a ranking of members, which the model sees as letters
        texts = {ANSWERS["council"][f"member-{member}"][0]: member for member in reply}
        answers = re.findall(r"^\[Answer ([A-Z])\] (.*)$", str(request.messages[-1]["content"]), re.MULTILINE)
        letters = {texts[text]: letter for letter, text in answers}
        return {"ranking": [{"answer": letters[member], "reason": "It says what to do first."} for member in reply]}
    if request.on_text is not None and isinstance(reply, str):  # word by word, like a streaming server
        for word in re.findall(r"\S+\s*", reply):
            request.on_text(word)
        return ModelResponse(text=reply, usage=Usage(calls=1, prompt_tokens=100, cached_tokens=0, completion_tokens=20))
    return reply


def scored(request: ModelRequest) -> Any:  # noqa: ANN401 - any reply
    """Score two texts by criterion; one of them begins with praise."""
    prompt = str(request.messages[-1]["content"])
    marks = {"A": {"correct": 80, "clear": 90}, "B": {"correct": 80, "clear": 90}}
    for label in marks:
        if f"[{label}] Great" in prompt:
            marks[label] = {"correct": 45, "clear": 60}
    return {"reasoning": "One names the cause.", "scores": marks, "verdict": "The shorter text is right."}


def output_of(name: str, module: Any) -> str:  # noqa: ANN401
    """Return the output of an example."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), forbid_real_models(), tempfile.TemporaryDirectory() as folder:
        if name == "human_judge":
            store, (model,) = Path(folder) / "bridge.sqlite3", models_of(name)
            run_id = module.begin(store, model).run_id
            print("\n…\n")
            decided = {"winner": "close it", "reasoning": "The doctor has a key.", "verdict": "Close it to cars."}
            module.judge(store, run_id, **decided)
            module.go_on(store, run_id, model)
        elif name == "compare_answers":
            run(module.main(FunctionModel(scored, name="scripted"), MemoryStore()))
        elif name not in ANSWERS:
            run(module.main())
        elif name == "resilient_debate":
            first, spare = models_of(name, "first", "spare")
            module.main(first, spare=spare)
        elif name == "four_vendors":
            models = ("openai/gpt-5.6-luna", "anthropic/claude-haiku-5-5", "gemini/gemini-flash-latest")
            module.main(dict(zip(("keeper", "mover", "judge"), models_of(name, *models), strict=True)))
        elif name in ("many_questions", "formats"):
            run(module.main(*models_of(name), MemoryStore()))
        else:
            run(module.main(*models_of(name)))
    return printed.getvalue()


def run(result: Any) -> None:  # noqa: ANN401
    """Await `result` if it is awaitable."""
    if inspect.iscoroutine(result):
        asyncio.run(result)


def normal(printed: str) -> str:
    """Remove varying parts from an output, such as run ids and seconds."""
    printed = re.sub(r"\b[0-9a-f]{32}\b", "5c0f…", printed.strip("\n"))
    return "\n".join(line.rstrip() for line in re.sub(r"\b\d+\.\d+ s\b", "… s", printed).splitlines())


def reports(folder: Path, names: Sequence[str] = REPORTS) -> None:
    """Write the reports on these examples into `folder`."""
    from flowdebate.service.evidence import evidence_in
    from flowdebate.web.report import report_html

    async def made(name: str) -> str:
        module, store = load(name), MemoryStore()
        pattern = module.pattern if hasattr(module, "pattern") else module.build()
        question = next(getattr(module, word) for word in ("QUESTION", "TOPIC", "PROPOSITION") if hasattr(module, word))
        with forbid_real_models():
            await pattern.run(question, model=models_of(name)[0], store=store, run_id=name, seed=7)
        return await report_html(*await evidence_in(store, name, block=pattern))

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.html").write_text(asyncio.run(made(name)), "utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
