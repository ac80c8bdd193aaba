"""Faults 31 to 51: status 200 with the wrong content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextTooLong,
    EmptyResponse,
    MalformedResponse,
    ModelError,
    ModelNotFound,
    OutputTruncated,
    ProviderFailed,
    RateLimited,
    Refused,
    RequestRejected,
    ResponseTooLarge,
)
from flowdebate.models import Usage
from tests.models.server import completion, fine

from .fault import Fault
from .handlers import answer, error_body, refuse_with, reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.server import Handler

    from .fault import Asked, Played

__all__ = ("CONTENT", "worded_errors")

_HOPELESS: tuple[tuple[str, str, type[ModelError], dict[str, Any]], ...] = (
    ("insufficient_quota", "You exceeded your current quota", RateLimited, {"quota_exhausted": True}),
    ("invalid_api_key", "Incorrect API key provided", AuthenticationFailed, {}),
    ("context_length_exceeded", "This is too long", ContextTooLong, {}),
    ("model_not_found", "There is no such model", ModelNotFound, {}),
    ("invalid_request_error", "top_p must be a number", RequestRejected, {}),
)
"""Codes and descriptions of errors that no retry can fix."""


def worded_errors(row: str, location: str, mode: Asked, handler: Callable[[Any], Handler]) -> list[Fault]:
    """Build faults that are reported inside a response with status 200, using words as error codes."""
    hopeless = [
        Fault(
            id=f"{row}-{code}",
            title=f"`{code}` {location}",
            handlers=(handler(error_body(message, code=code)),),
            mode=mode,
            description=f"`{error.__name__}` at once" + (", with `quota_exhausted`" if facts else ""),
            attempts=(error.__name__,),
            error=error,
            says=message,
            facts={"transient": False, **facts},
        )
        for code, message, error, facts in _HOPELESS
        # errors that may be caused by streaming are retried without a stream
        if error is not RequestRejected or mode != "stream"
    ]
    limited = Fault(
        id=f"{row}-rate_limit_exceeded",
        title=f"`rate_limit_exceeded` {location}, with “try again in 1.5s”",
        handlers=(
            handler(error_body("Rate limit reached. Please try again in 1.5s.", code="rate_limit_exceeded")),
            fine,
        ),
        mode=mode,
        description="Waits the 1.5 seconds, then the answer",
        attempts=("RateLimited", None),
        waits=((1.5, 1.5),),
    )
    return [*hopeless, limited]


def _malformed_once(row: str, title: str, body: bytes, kind: str = "application/json") -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(answer(body, kind), fine),
        description="Retried after the backoff, then the answer",
        attempts=("MalformedResponse", None),
    )


def _malformed(row: str, title: str, value: Any, says: str = "") -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(reply(value),),
        description="`MalformedResponse` after all attempts",
        attempts=("MalformedResponse",) * 3,
        error=MalformedResponse,
        says=says,
    )


def _accepted(row: str, title: str, value: Any, text: str, description: str, **more: Any) -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(reply(value),),
        description=description,
        attempts=(None,),
        facts={"text": text, **more.pop("facts", {})},
        **more,
    )


def _usage(variant: str, title: str, usage: Any) -> Fault:
    return _accepted(
        f"41-{variant}",
        f"Usage that is {title}",
        {**completion(), "usage": usage},
        "fine",
        "The answer, marked `usage_unknown`: its tokens are estimated",
        flags=frozenset({"usage_unknown"}),
        check=_unknown_usage,
    )


def _unknown_usage(played: Played) -> None:
    assert played.response is not None
    assert played.response.usage.total_tokens is None
    assert [attempt.usage.total_tokens for attempt in played.request.attempts.made] == [None]


def _known_usage(played: Played) -> None:
    """Check that the cost of an unusable answer is recorded."""
    usage = Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=3)
    assert [attempt.usage for attempt in played.request.attempts.made] == [usage] * len(played.request.attempts.made)


_ESCAPES = "\x1b[2J \x1b]52;c;eA==\x07 \x9b31m \u202egnal \U000e0041"
_PAGE = b"<!doctype html><html><title>Sign in</title>"

_PAGES: tuple[tuple[str, str, str, Asked], ...] = (
    ("", "A page to log in at", "text/html", "text"),
    ("-stream", "A page to log in at, where a stream was asked for", "text/html; charset=utf-8", "stream"),
    ("-structured", "A page to log in at, where a structured answer was asked for", "text/html", "structured"),
    ("-plain", "A page that says it is text", "text/plain", "text"),
)

CONTENT: tuple[Fault, ...] = (
    *(
        Fault(
            id=f"31{variant}",
            title=title,
            handlers=(answer(_PAGE, kind),),
            mode=mode,
            description="`MalformedResponse` at once: “Check base_url”",
            attempts=("MalformedResponse",),
            error=MalformedResponse,
            says="Check base_url",
            facts={"transient": False},
        )
        for variant, title, kind, mode in _PAGES
    ),
    _malformed("32-null", "The body `null`", None, "no choices"),
    _malformed("32-list", "The body `[]`", []),
    _malformed("32-object", "The body `{}`", {}),
    Fault(
        id="32-text",
        title='The body `"x"`',
        handlers=(reply("x"),),
        description="`MalformedResponse` at once",
        attempts=("MalformedResponse",),
        error=MalformedResponse,
    ),
    Fault(
        id="33-429",
        title='`{"error": …}` with code 429 inside a 200',
        handlers=(reply(error_body("slow down", code=429)), fine),
        description="As the status inside: retried after the backoff",
        attempts=("RateLimited", None),
    ),
    Fault(
        id="33-401",
        title='`{"error": …}` with code "401" inside a 200',
        handlers=(reply(error_body("no such key", code="401")),),
        description="As the status inside: `AuthenticationFailed` at once",
        attempts=("AuthenticationFailed",),
        error=AuthenticationFailed,
        says="no such key",
    ),
    Fault(
        id="33-none",
        title='`{"error": "it broke"}` inside a 200',
        handlers=(reply({"error": "it broke"}),),
        description="`ProviderFailed` after all attempts",
        attempts=("ProviderFailed",) * 3,
        error=ProviderFailed,
        says="it broke",
    ),
    Fault(
        id="33-choice",
        title="An error with code 429 inside of a choice",
        handlers=(
            reply(
                {
                    **completion(),
                    "choices": [{"finish_reason": "error", "message": {"content": "ha"}, **error_body(code=429)}],
                }
            ),
        ),
        description="`RateLimited` after all attempts",
        attempts=("RateLimited",) * 3,
        error=RateLimited,
    ),
    *worded_errors("33", "inside a 200", "text", reply),
    Fault(
        id="33-retry-after",
        title="`rate_limit_exceeded` inside a 200 with `Retry-After: 2`",
        handlers=(refuse_with(200, error_body("slow down", code="rate_limit_exceeded"), retry_after="2"), fine),
        description="Waits the two seconds, then the answer",
        attempts=("RateLimited", None),
        waits=((2.0, 2.0),),
    ),
    _malformed("34-empty", "No choices", {**completion(), "choices": []}, "no choices"),
    _malformed("34-text", "Choices that are text", {**completion(), "choices": "x"}),
    _malformed("34-null", "A choice that is null", {**completion(), "choices": [None]}, "no message"),
    _malformed("34-message", "A message that is null", {**completion(), "choices": [{"message": None}]}, "no message"),
    *(
        Fault(
            id=f"35-{variant}",
            title=f"Content that is {title}, every time",
            handlers=(reply(completion(content)),),
            description="`EmptyResponse` after one more request",
            attempts=("EmptyResponse",) * 2,
            error=EmptyResponse,
            waits=(),
            check=_known_usage,
        )
        for variant, title, content in (
            ("null", "null", None),
            ("empty", "empty", ""),
            ("blank", "nothing but spaces and characters without width", " \u200b\n\u2060"),
        )
    ),
    Fault(
        id="35-once",
        title="Empty content once",
        handlers=(reply(completion("")), fine),
        description="Retried at once, then the answer",
        attempts=("EmptyResponse", None),
        waits=(),
    ),
    _accepted(
        "36-parts",
        "Content in parts of text",
        completion([{"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}]),
        "fine",
        "The answer, its parts joined",
    ),
    _accepted(
        "36-thinking",
        "Content with parts that are no text",
        completion([{"type": "thinking", "thinking": []}, {"type": "text", "text": "fine"}]),
        "fine",
        "The answer, which is its text",
    ),
    _malformed("36-image", "Content without a part that is text", completion([{"type": "image"}])),
    _malformed("36-number", "Content that is a number", completion(5), "must be text, got 5"),
    Fault(
        id="37",
        title="The model refuses",
        handlers=(reply(completion(None, refusal="I would rather not")),),
        description="`Refused` at once, with the model's words; its tokens count",
        attempts=("Refused",),
        error=Refused,
        facts={"reason": "I would rather not"},
        check=_known_usage,
    ),
    Fault(
        id="38",
        title="A content filter stopped the answer",
        handlers=(reply(completion("", finish="content_filter")),),
        description="`ContentFiltered` at once",
        attempts=("ContentFiltered",),
        error=ContentFiltered,
        check=_known_usage,
    ),
    _accepted(
        "39-text",
        "Text that ran out of room",
        completion("half a", finish="length"),
        "half a",
        'The text, with `finish` "length"',
        facts={"finish": "length"},
    ),
    Fault(
        id="39-structured",
        title="A structured answer that ran out of room, every time",
        handlers=(reply(completion('{"reasoning": "half', finish="length")),),
        mode="structured",
        max_tokens=50,
        description="`OutputTruncated` after one more request with twice the room",
        attempts=("OutputTruncated",) * 2,
        error=OutputTruncated,
        waits=(),
        check=lambda played: _room(played, [50, 100]),
    ),
    _accepted(
        "40-reason",
        "An unknown reason for the end",
        completion(finish="sparkle"),
        "fine",
        "The answer, marked `unknown_finish`; the result has a remark",
        flags=frozenset({"unknown_finish"}),
    ),
    _accepted(
        "40-vendor",
        "A reason for the end in a vendor's own words",
        completion(finish="EOS_TOKEN"),
        "fine",
        "The answer",
    ),
    _accepted("40-none", "No reason for the end of a whole answer", completion(finish=None), "fine", "The answer"),
    _accepted(
        "40-length",
        "Text that ran out of room, in a vendor's own words",
        completion("half a", finish="MAX_TOKENS"),
        "half a",
        'The text, with `finish` "length"',
        facts={"finish": "length"},
    ),
    Fault(
        id="40-filter",
        title="A content filter, in a vendor's own words",
        handlers=(reply(completion("half", finish="PROHIBITED_CONTENT")),),
        description="`ContentFiltered` at once, with the vendor's reason",
        attempts=("ContentFiltered",),
        error=ContentFiltered,
        says="PROHIBITED_CONTENT",
        check=_known_usage,
    ),
    _accepted(
        "40-choices",
        "Two answers, though one was asked for",
        {**completion(), "choices": completion()["choices"] + completion("other")["choices"]},
        "fine",
        "The first one, marked `more_choices`",
        flags=frozenset({"more_choices"}),
    ),
    _usage("missing", "missing", None),
    _usage("null", "null throughout", {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}),
    _usage("negative", "negative", {"prompt_tokens": -1, "completion_tokens": -3, "total_tokens": -4}),
    _usage("strings", "text", {"prompt_tokens": "ten", "completion_tokens": "three", "total_tokens": "many"}),
    _usage("shape", "a list", [10, 3]),
    _usage("bools", "true and false", {"prompt_tokens": True, "completion_tokens": False}),
    _usage("enormous", "beyond belief", {"prompt_tokens": 10**30, "completion_tokens": 10**30}),
    _accepted(
        "41-sum",
        "Usage whose total is not the sum of its parts",
        {**completion(), "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 99}},
        "fine",
        "The answer; the parts count, the total is not read",
        facts={"usage": Usage(calls=1, prompt_tokens=10, completion_tokens=3)},
    ),
    _malformed_once("42", "A body that is no UTF-8", b'{"choices": "\xff\xfe"}'),
    _malformed_once("43", "JSON 200,000 deep", b"[" * 200_000 + b"]" * 200_000),
    _malformed_once("44", "A number of 5,000 digits", b'{"created": ' + b"1" * 5_000 + b"}"),
    _malformed_once("45", "Half a JSON", b'{"choices": ['),
    _malformed_once("45-plain", "Half a JSON that says it is text", b'{"choices": [', "text/plain"),
    _accepted(
        "46",
        "A lone surrogate in the text",
        completion("a\ud800b"),
        "a\ufffdb",
        "The answer with U+FFFD in its place, marked `cleaned`",
        flags=frozenset({"cleaned"}),
    ),
    _accepted("46-pair", "A character as an escaped pair of surrogates", completion("🙂"), "🙂", "The answer"),
    _accepted(
        "47",
        "NUL in the text",
        completion("a\x00b"),
        "ab",
        "The answer without it, marked `cleaned`",
        flags=frozenset({"cleaned"}),
    ),
    _accepted(
        "48",
        "Escape sequences, C1, bidi and tag characters",
        completion(_ESCAPES),
        _ESCAPES,
        "The answer as it was sent; all that shows it escapes it",
    ),
    _accepted(
        "50",
        "Another model answers",
        {**completion(), "model": "another"},
        "fine",
        "The answer, marked `other_model`, with the name in `model`",
        facts={"model": "another"},
        check=lambda played: _flagged(played, is_so=True),
    ),
    _accepted(
        "50-version",
        "The answer names a version of the model",
        {**completion(), "model": "m-2026-01-01"},
        "fine",
        "The answer",
        check=lambda played: _flagged(played, is_so=False),
    ),
    Fault(
        id="50-strict",
        title="Another model answers, with `strict_model=True`",
        handlers=(reply({**completion(), "model": "another"}),),
        options={"strict_model": True},
        description="`MalformedResponse` at once",
        attempts=("MalformedResponse",),
        error=MalformedResponse,
        says="another answered instead of 'm'",
        works_again=False,
    ),
    Fault(
        id="51",
        title="5 MB of text",
        handlers=(reply(completion("x" * 5_000_000)),),
        description="`ResponseTooLarge` at once: more than `ModelSettings.max_chars`",
        attempts=("ResponseTooLarge",),
        error=ResponseTooLarge,
        facts={"limit": 200_000, "unit": "characters"},
    ),
)


def _room(played: Played, rooms: list[int]) -> None:
    assert [body["max_tokens"] for body in played.server.bodies] == rooms


def _flagged(played: Played, *, is_so: bool) -> None:
    assert played.response is not None
    assert ("other_model" in played.response.flags) == is_so
