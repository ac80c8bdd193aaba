"""Names of spans, attributes, events and metrics, defined by the GenAI conventions and this library.

The conventions have not been released yet: the names come from commit `CONVENTIONS` of
github.com/open-telemetry/semantic-conventions-genai. docs/telemetry.md lists all names, and the tests check this.
"""

from __future__ import annotations

from functools import cache
from typing import Final
from urllib.parse import urlsplit

CONVENTIONS: Final = "004902b8cb70aa5ae6ca4ae07132b7daabcd3e10"
SCOPE: Final = "flowdebate"

# Operations; span names begin with them

INVOKE_WORKFLOW: Final = "invoke_workflow"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
SUBMIT: Final = "submit"
PROCESS: Final = "process"

# Attributes defined by the conventions

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
WORKFLOW: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
CACHE_WRITTEN_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
EVALUATION: Final = "gen_ai.evaluation.name"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - input or output
ERROR: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# Attributes containing content, omitted by default

SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"

# Attributes defined by this library

PATH: Final = "flowdebate.path"
BLOCK: Final = "flowdebate.block"
SEED: Final = "flowdebate.seed"
STATUS: Final = "flowdebate.status"
ROUNDS: Final = "flowdebate.rounds"
STOP_REASON: Final = "flowdebate.stop_reason"
REPLAYED_CALLS: Final = "flowdebate.replayed_calls"
ROUND: Final = "flowdebate.round"
PHASE: Final = "flowdebate.phase"
ATTEMPTS: Final = "flowdebate.attempts"
ASKED_AS: Final = "flowdebate.asked_as"
REPAIRED: Final = "flowdebate.repaired"
ATTEMPT: Final = "flowdebate.attempt"
WAIT: Final = "flowdebate.wait"
FALLBACK: Final = "flowdebate.fallback.model"
FLIPPED: Final = "flowdebate.verdict.flipped"
WINNER: Final = "flowdebate.verdict.winner"
ROLE: Final = "flowdebate.role"
RECOVERY: Final = "flowdebate.recovery"
LINK: Final = "flowdebate.link"
QUEUE: Final = "flowdebate.queue.name"
QUEUE_SECONDS: Final = "flowdebate.queue.seconds"
DELIVERY: Final = "flowdebate.queue.delivery"
WORKER: Final = "flowdebate.worker"
VERSION: Final = "flowdebate.version"

# Span events

EVALUATION_RESULT: Final = "gen_ai.evaluation.result"
RETRIED: Final = "flowdebate.retried"
FELL_BACK: Final = "flowdebate.fell_back"
ROLE_FAILED: Final = "flowdebate.role_failed"

# Metrics

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - a number of them
WORKFLOW_DURATION: Final = "gen_ai.workflow.duration"
VERDICTS: Final = "flowdebate.verdicts"
FAILURES: Final = "flowdebate.failures"
COST: Final = "flowdebate.cost"
QUEUED: Final = "flowdebate.queue.runs"
OLDEST: Final = "flowdebate.queue.oldest"
WORKERS: Final = "flowdebate.queue.workers"
GIVEN_UP: Final = "flowdebate.queue.given_up"

# Values

VERDICT: Final = "debate.verdict"
# Kinds of links: to the span that queued the run, the run's first span, and the first span of the run's parent.
SUBMITTED: Final = "submitted"
RESUMED: Final = "resumed"
FORKED: Final = "forked"
CANCELLED: Final = "cancelled"  # value of `error.type` for cancelled work; for failures, the value is the error's class
OTHER_PROVIDER: Final = "custom"
# Providers whose names in the conventions differ from those used in model names.
PROVIDERS: Final = {
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "moonshot": "moonshot_ai",
}


def model_names(name: str) -> tuple[str, str]:
    """Split a model's name into the provider and the model.

    >>> model_names("openai/gpt-5-mini"), model_names("mistral/large"), model_names("local"), model_names("Scripted")
    (('openai', 'gpt-5-mini'), ('mistral_ai', 'large'), ('local', 'local'), ('custom', 'Scripted'))
    """
    provider, slash, model = name.partition("/")
    if slash and model:
        return PROVIDERS.get(provider, provider), model
    return ("local" if name == "local" else OTHER_PROVIDER), name


def server_names(address: str) -> tuple[str | None, str | None, int | None]:
    """Return the provider at an address (None if unknown), and the address's host and port.

    >>> server_names("https://api.mistral.ai/v1"), server_names("http://localhost:8000/v1")
    (('mistral_ai', 'api.mistral.ai', 443), (None, 'localhost', 8000))
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:  # a custom model may report anything
        return None, None, None
    return _hosts().get(host or ""), host, port


@cache
def _hosts() -> dict[str, str]:
    """Return the hosted providers, keyed by host. Local servers are excluded because they may imitate any provider."""
    from flowdebate.models.providers import PROVIDERS as ENDPOINTS

    hosted = {
        name: endpoint.base_url or "https://api.openai.com" for name, endpoint in ENDPOINTS.items() if endpoint.key_env
    }
    return {str(urlsplit(url).hostname): PROVIDERS.get(name, name) for name, url in hosted.items()}
