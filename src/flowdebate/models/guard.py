"""Guard against real model calls, for tests."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from flowdebate.errors import RealModelForbidden

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Rule(NamedTuple):
    remote: bool
    local: bool


# Of each `with` block; the innermost decides, in every thread and task: a test's server answers in a thread of its own.
_rules: list[_Rule] = []
_lock = threading.Lock()


@contextmanager
def forbid_real_models(*, allow_local: bool = False) -> Iterator[None]:
    """Forbid real model calls inside: they raise RealModelForbidden; `allow_local` permits loopback endpoints.

    >>> with forbid_real_models():
    ...     check_real_calls_allowed("openai/gpt-5-mini")
    Traceback (most recent call last):
    flowdebate.errors.RealModelForbidden: ...
    """
    with _in_force(_Rule(remote=False, local=allow_local)):
        yield


@contextmanager
def allow_real_models() -> Iterator[None]:
    """Allow real model calls inside, even within `forbid_real_models`."""
    with _in_force(_Rule(remote=True, local=True)):
        yield


def check_real_calls_allowed(name: str, *, base_url: str | None = None) -> None:
    """Raise RealModelForbidden if the endpoint at `base_url` (None: a provider's own) must not be called here."""
    if not _rules:
        return
    with _lock:
        rule = _rules[-1] if _rules else None
    if rule is None or rule.remote or (rule.local and base_url is not None and is_loopback(base_url)):
        return
    raise RealModelForbidden(model=name)


def is_loopback(base_url: str) -> bool:
    """Return whether `base_url` names this machine.

    >>> is_loopback("http://localhost:11434/v1"), is_loopback("https://localhost.example.com")
    (True, False)
    """
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    loopback = {"localhost", "::1", "0.0.0.0"}  # noqa: S104 - compared with, never bound
    return host in loopback or host.startswith("127.")


@contextmanager
def _in_force(rule: _Rule) -> Iterator[None]:
    with _lock:
        _rules.append(rule)
    try:
        yield
    finally:
        with _lock:
            # by identity: blocks of different threads may end in another order than they began
            del _rules[max(index for index, other in enumerate(_rules) if other is rule)]
