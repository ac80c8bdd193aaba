"""Use a model on your own server: Ollama, LM Studio, llama-server, vLLM or similar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Debater, OpenAIModel, debate
from flowdebate.models import ModelSettings

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.blocks import Sequencer
    from flowdebate.models import Model

QUESTION = "Is a hot dog a sandwich?"


def server() -> OpenAIModel:
    """Create the model that Ollama serves after `ollama pull gemma3`; the name "ollama/gemma3" is almost equivalent."""
    return OpenAIModel(
        "gemma3",
        base_url="http://127.0.0.1:11434/v1",
        api_key_env=None,  # Ollama needs no key
        tools_with_schema=False,  # its grammars support tools or a schema, but not both at once
        settings=ModelSettings(temperature=0.7, max_tokens=400, timeout=120),
    )


def build() -> Sequencer[Any, Any]:
    return debate(
        name="sandwich",
        debaters=[Debater("yes", "a hot dog is a sandwich"), Debater("no", "a hot dog is no sandwich")],
        synthesizer=False,
    )


def main(model: Model | str | None = None) -> DebateRawOutput:
    result = build().run_sync(QUESTION, model=server() if model is None else model)
    raw: DebateRawOutput = result.output
    print(f"{raw.found.winner}: {raw.found.reasoning}")
    print(result.usage)
    return raw


if __name__ == "__main__":
    main()
