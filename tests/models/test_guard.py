"""Guards that forbid calls to real models within a block of code, in every thread."""

from __future__ import annotations

import threading

import pytest

from flowdebate.errors import RealModelForbidden
from flowdebate.models.call import allow_real_models, check_real_calls_allowed, forbid_real_models, is_loopback

LOCAL = "http://127.0.0.1:8080/v1"
REMOTE = "https://api.example.com/v1"


def allowed(base_url: str | None) -> bool:
    try:
        check_real_calls_allowed("some/model", base_url=base_url)
    except RealModelForbidden as error:
        assert error.model == "some/model"  # noqa: PT017 - the loop over outcomes is the test's own
        return False
    return True


def test_every_call_is_allowed_if_there_is_no_guard() -> None:
    assert allowed(REMOTE)
    assert allowed(None)


def test_the_innermost_guard_applies_until_its_block_ends() -> None:
    with forbid_real_models():
        assert not allowed(REMOTE)
        assert not allowed(LOCAL)
        with allow_real_models():
            assert allowed(REMOTE)
            with forbid_real_models(allow_local=True):
                assert not allowed(REMOTE)
                assert not allowed(None)
                assert allowed(LOCAL)
            assert allowed(REMOTE)
        assert not allowed(LOCAL)
    assert allowed(REMOTE)


def test_a_guard_applies_in_other_threads() -> None:
    states: list[bool] = []
    with forbid_real_models():
        thread = threading.Thread(target=lambda: states.append(allowed(REMOTE)), daemon=True)
        thread.start()
        thread.join(60)
    assert states == [False]


def test_guards_may_end_in_any_order() -> None:
    """Two overlapping guards do not undo each other, whichever ends first."""
    first, second = forbid_real_models(), allow_real_models()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert allowed(REMOTE)
    second.__exit__(None, None, None)
    assert allowed(REMOTE)


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        (LOCAL, True),
        ("http://[::1]:1/v1", True),
        ("http://localhost/v1", True),
        ("http://127.8.0.1", True),
        ("http://localhost.example.com", False),
        ("http://user@example.com:1", False),
        ("http://[bad", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(base_url: str, *, expected: bool) -> None:
    """A host name that merely contains "localhost" is not this machine."""
    assert is_loopback(base_url) is expected
