"""The wording of refusals: which are final, and which might be avoided by another form of the request."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    ProviderFailed,
    RateLimited,
    RequestRejected,
)
from flowdebate.models.openai.error_mapping import inner_error, status_error

LENGTH = """
400 This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.
400 prompt is too long: 210000 tokens > 200000 maximum
400 The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).
400 Please reduce the length of the messages or completion.
400 Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.
400 the request exceeds the available context size. try increasing the context size or enable context shift
400 Requested token count exceeds the model's maximum context length of 131072 tokens.
422 Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens
400 Range of input length should be [1, 30720]
400 too many tokens: size limit exceeded by 1200 tokens. Try using shorter or fewer inputs
400 Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length
400 The conversation is too long for this model
400 Your request exceeded model token limit: 8192
400 string too long. Expected a string with maximum length 1048576, but got a string with length 2000000 instead.
"""
KEY = """
400 API key not valid. Please pass a valid API key.
400 API key expired. Please renew the API key.
403 Your API key was reported as leaked. Please use another API key.
401 whatever
403 This method requires authentication
400 No API key provided
403 Country, region, or territory not supported
"""
CONTENT = """
400 Output data may contain inappropriate content.
400 Content Exists Risk
400 System detected potentially unsafe or sensitive content in the input or generation.
403 Your chosen model requires moderation and your input was flagged for violence.
400 Your request was rejected as a result of our safety system.
400 Invalid prompt: your prompt was flagged as potentially violating our usage policy.
400 Output blocked by content filtering policy
451 The prompt violates our content guidelines
"""
MODEL = """
404 The model `gpt-9` does not exist or you do not have access to it.
404 model 'gemma9' not found
404 model "gemma9" not found, try pulling it first
400 gpt-9 is not a valid model ID
400 Invalid model: x
404 models/gemini-9 is not found for API version v1main, or is not supported for generateContent.
403 Project `proj_x` does not have access to model `gpt-9`
"""
ADDRESS = """
404 Resource not found
404 Not Found
405 Method Not Allowed
404 Invalid URL (POST /chat/completions)
404 Unknown request URL: POST /v2/chat/completions. Please check the URL for typos
404 Cannot POST /chat/completions
"""
OPEN = """
400 Unrecognized request argument supplied: stream_options
400 Unsupported value: 'messages[0].role' does not support 'system' with this model.
400 System role not supported
422 Extra inputs are not permitted
400 `temperature` is deprecated for this model.
400 'max_tokens' is too large: 100000. This model supports at most 16384 completion tokens
400 json_schema is not supported by this model
400 Invalid schema for response_format 'Verdict'
400 Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.
400 registry.ollama.ai/library/gemma:2b does not support tools
400 "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set
400 adaptive thinking is not supported on this model
400 Only user and assistant roles are supported!
403 Forbidden
400 Developer instruction is not enabled for models/gemma-3-27b-it
400 enable_thinking must be set to false for non-streaming calls
500 Error: Jinja Exception: System role not supported
500 Value is not callable: null at row 1 in chat template
500 Unsupported param: tools
501 not implemented
"""
FAULT = """
500 Internal server error
503 upstream is down
500 The server had an error while processing your request. Sorry about that!
500 CUDA out of memory
"""
MINUTE = """
429 Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.
429 Resource has been exhausted (e.g. check quota).
429 Rate limit exceeded: free-models-per-min.
429 You have exceeded the token rate limit of your current pricing tier. Please retry after 8 seconds.
400 Too many requests, please wait before trying again.
"""
SPENT = """
429 Rate limit reached on tokens per day (TPD): Limit 100000, Used 99999, Requested 2000. Please try again in 28m48s.
429 Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day
402 This request requires more credits, or fewer max_tokens.
403 Key limit exceeded (total limit).
400 Your credit balance is too low
429 Insufficient Balance
"""
KINDS: dict[str, tuple[str, type[ModelError], dict[str, Any]]] = {
    "length": (LENGTH, ContextTooLong, {"certain": True}),
    "key": (KEY, AuthenticationFailed, {"certain": True}),
    "content": (CONTENT, ContentFiltered, {}),
    "model": (MODEL, ModelNotFound, {"certain": True}),
    "address": (ADDRESS, RequestRejected, {"certain": True}),
    "open": (OPEN, RequestRejected, {"certain": False, "transient": False}),
    "fault": (FAULT, ProviderFailed, {"transient": True}),
    "minute": (MINUTE, RateLimited, {"quota_exhausted": False, "transient": True}),
    "spent": (SPENT, RateLimited, {"quota_exhausted": True, "transient": False}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_classified_by_its_wording(kind: str) -> None:
    texts, expected, facts = KINDS[kind]
    for line in texts.strip().splitlines():
        status, _, words = line.partition(" ")
        wrapped = {"message": "Provider returned error", "metadata": {"raw": words}}
        for body in (words, {"message": words}, {"error": words}, [{"error": {"message": words}}], {"error": wrapped}):
            if kind == "address" and body == {"error": wrapped}:
                # an error that a router wraps is about the address that the router called, not the application
                continue
            error = status_error(int(status), body, headers={})
            assert type(error) is expected, (body, error)
            assert {name: getattr(error, name) for name in facts} == facts, body


def test_an_unknown_path_reported_with_status_200_is_an_address_error() -> None:
    error = inner_error("Unexpected endpoint or method. (POST /chat/completions)", base_url="http://127.0.0.1:1/")
    assert type(error) is RequestRejected
    assert "most end in /v1, such as http://127.0.0.1:1/v1" in str(error)
