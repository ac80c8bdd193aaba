"""Hostile documents sent to all front ends at once while a user is working."""

from __future__ import annotations

import sys

import pytest

from tests.sources.hostile import CORPUS

pytest.importorskip("mammoth", reason="the extra flowdebate[documents]")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of processes is read from /proc")
def test_hostile_documents_leave_the_server_responsive_and_clean() -> None:
    """One document of each kind is sent over HTTP, over MCP and on the command line."""
    from tests.soak.documents import run_attack

    documents = [[*documents.items()][-1] for documents in CORPUS.values()]
    attack_result = run_attack([(name, make()) for name, make in documents], seed=1, clients=4)
    assert attack_result.problems == []
    assert sum(attack_result.answers.values()) == 3 * len(documents)
    assert attack_result.children
