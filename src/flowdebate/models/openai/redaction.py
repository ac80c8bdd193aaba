"""Keeps keys out of what the libraries below log: at the level of DEBUG they write down what servers send."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flowdebate._util.text import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("kept_out_of_logs",)

_LOGGERS = (
    "aiohttp.client",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpx2",
    "openai",
    "openai._base_client",
    "openai._response",
)


class _Redacting(logging.Filter):
    """Rewrites records that tell one of `secrets`; each is in force as often as it was added."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        trace = record.exc_text or ""
        if any(secret in message or secret in trace for secret in self.secrets):
            record.msg, record.args = redacted(message, self.secrets), None
            record.exc_info, record.exc_text = None, redacted(trace, self.secrets) or None
        return True


_REDACTING = _Redacting()


@contextmanager
def kept_out_of_logs(secret: str) -> Iterator[None]:
    """Inside, nothing that is logged about connections tells `secret`."""
    if not _REDACTING.secrets:
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_REDACTING)
    _REDACTING.secrets.append(secret)
    try:
        yield
    finally:
        _REDACTING.secrets.remove(secret)
