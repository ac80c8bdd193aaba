"""Agent CLIs that are known by name: how each is called to answer and do nothing else, and how its output is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Output of a program, as it was read."""

    text: str = ""
    usage: Usage = Usage.unknown()  # noqa: RUF009 - frozen
    error: str = ""
    """What went wrong, in the program's words; empty for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One agent CLI."""

    command: Sequence[str]
    """The program and its options: it reads the prompt from its input, writes nothing and asks nobody."""
    read: Callable[[str], Said]
    """Reads its output; ValueError for what is none."""
    model: str | None = None
    """The option that names a model."""
    effort: Sequence[str] | None = None
    """The options that say how much to think, with `{effort}`; None for a program without any."""
    folder: Sequence[str] = ()
    """Further options where it may read a folder."""
    keys: tuple[str, ...] = ()
    """Beginnings of variables of the environment that are its own: it gets no other keys."""
    login: str = ""
    """How one signs in."""
    status: Sequence[str] = ()
    """The options with which it says whether somebody is signed in, and asks no model; none for one that cannot."""
    environment: Mapping[str, str] | None = None


def _count(counts: Any, *names: str) -> int | None:  # noqa: ANN401 - JSON of a program
    for name in names:
        counts = counts.get(name) if isinstance(counts, dict) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts >= 0 else None


def _objects(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output that has one in a line; other lines are chatter."""
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _read_claude(output: str) -> Said:
    result = next((each for each in _objects(output) if each.get("type") == "result"), None)
    if result is None:
        raise ValueError(output)
    text, counts = str(result.get("result") or ""), result.get("usage")
    if result.get("is_error"):
        return Said(error=text or str(result.get("subtype")))
    fresh, read = _count(counts, "input_tokens"), _count(counts, "cache_read_input_tokens")
    written = _count(counts, "cache_creation_input_tokens")
    usage = Usage(
        calls=1,
        prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        cached_tokens=read,
        completion_tokens=_count(counts, "output_tokens"),
        reasoning_tokens=_count(counts, "output_tokens_details", "thinking_tokens"),
        cache_written_tokens=written,
    )
    return Said(text=text, usage=usage)


def _read_codex(output: str) -> Said:
    text, error, usage, ended = "", "", Usage.unknown(), False
    for event in _objects(output):
        kind, item = event.get("type"), event.get("item")
        if kind == "item.completed" and isinstance(item, dict) and item.get("type") == "agent_message":
            text = str(item.get("text") or "")  # the last one is the answer
        elif kind == "turn.completed":
            ended, counts = True, event.get("usage")
            usage = Usage(
                calls=1,
                prompt_tokens=_count(counts, "input_tokens"),
                cached_tokens=_count(counts, "cached_input_tokens"),
                completion_tokens=_count(counts, "output_tokens"),
                reasoning_tokens=_count(counts, "reasoning_output_tokens"),
            )
        elif kind in ("turn.failed", "error"):
            inner = event.get("error")
            error = str(inner.get("message") if isinstance(inner, dict) else event.get("message") or kind)
    if not ended and not error:
        raise ValueError(output)
    return Said(text=text, usage=usage) if ended else Said(error=error)


def _read_gemini(output: str) -> Said:
    begin = output.find("{")
    result = json.loads(output[begin:]) if begin >= 0 else None
    if not isinstance(result, dict):
        raise TypeError(output)
    if (error := result.get("error")) is not None:
        return Said(error=str(error.get("message") if isinstance(error, dict) else error))
    stats = result.get("stats")
    models = stats.get("models") if isinstance(stats, dict) else None
    usage = Usage.none()
    for each in models.values() if isinstance(models, dict) else ():
        thought, said = _count(each, "tokens", "thoughts"), _count(each, "tokens", "candidates")
        usage += Usage(
            calls=1,
            prompt_tokens=_count(each, "tokens", "prompt"),
            cached_tokens=_count(each, "tokens", "cached"),
            completion_tokens=None if said is None else said + (thought or 0),
            reasoning_tokens=thought,
        )
    return Said(text=str(result.get("response") or ""), usage=usage if usage.calls else Usage.unknown())


def _read_opencode(output: str) -> Said:
    texts, usage, seen = [], Usage.none(), False
    for event in _objects(output):
        part = event.get("part")
        if event.get("type") == "error":
            inner: Any = event.get("error")
            data = inner.get("data") if isinstance(inner, dict) else None
            return Said(error=str((data or inner).get("message") if isinstance(data or inner, dict) else inner))
        if event.get("type") == "text" and isinstance(part, dict):
            texts.append(str(part.get("text") or ""))
        elif event.get("type") == "step_finish" and isinstance(part, dict):
            seen = True
            counts = part.get("tokens")
            fresh, read = _count(counts, "input"), _count(counts, "cache", "read")
            written, thought, said = (
                _count(counts, *name) for name in (("cache", "write"), ("reasoning",), ("output",))
            )
            usage += Usage(
                calls=1,
                prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
                cached_tokens=read,
                completion_tokens=None if said is None else said + (thought or 0),
                reasoning_tokens=thought,
                cache_written_tokens=written,
            )
    if not seen and not texts:
        raise ValueError(output)
    return Said(text="\n\n".join(texts), usage=usage if seen else Usage.unknown())


_DENIED = {"edit": "deny", "bash": "deny", "webfetch": "deny", "external_directory": "deny"}

PROGRAMS: Mapping[str, Program] = {
    "claude": Program(
        command=(
            "claude", "--print", "--output-format", "json", "--permission-mode", "dontAsk", "--strict-mcp-config",
            "--setting-sources", "", "--no-session-persistence", "--tools",
        ),
        folder=("Read,Glob,Grep",),
        read=_read_claude,
        model="--model",
        effort=("--effort", "{effort}"),
        keys=("ANTHROPIC_", "CLAUDE_"),
        status=("auth", "status"),
        login="run `claude` and sign in, or set ANTHROPIC_API_KEY",
    ),
    "codex": Program(
        command=(
            "codex", "exec", "--json", "--sandbox", "read-only", "--skip-git-repo-check", "--ephemeral",
            "--color", "never",
        ),
        read=_read_codex,
        model="--model",
        effort=("-c", 'model_reasoning_effort="{effort}"'),
        keys=("OPENAI_", "CODEX_"),
        status=("login", "status"),
        login="run `codex login`, or set CODEX_API_KEY",
    ),
    "gemini": Program(
        command=("gemini", "--output-format", "json", "--approval-mode", "plan", "--skip-trust", "--prompt="),
        read=_read_gemini,
        model="--model",
        keys=("GEMINI_", "GOOGLE_"),
        login="run `gemini` and sign in, or set GEMINI_API_KEY",
    ),
    "opencode": Program(
        command=("opencode", "run", "--format", "json", "--pure", "--agent", "plan"),
        read=_read_opencode,
        model="--model",
        effort=("--variant", "{effort}"),
        keys=("OPENCODE_",),
        login="run `opencode auth login`",
        environment={"OPENCODE_CONFIG_CONTENT": json.dumps({"permission": _DENIED})},
    ),
}  # fmt: skip
