"""How cost grows with the work: each row at three sizes, the fitted exponent, and the exponent that is right.

0 is constant, 1 linear, 2 square. Exits with 1 if a row is worse than right by .3. Models are scripted and stores are
SQLite files or memory; CPU is the least of three rounds, memory what Python's objects take at most.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import sys
import tempfile
import time
import tracemalloc
import warnings
import zlib
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, FlowDebateWarning, council, debate
from flowdebate.cli.stored.run_view import document_of
from flowdebate.cli.terminal.page import render
from flowdebate.evaluation.leaderboard import Standings
from flowdebate.evaluation.stored_audit import audited_runs
from flowdebate.runs.durable.replay import Follower
from flowdebate.service.runs import each_run, last_resumable, list_runs
from flowdebate.store import MemoryStore, SqliteStore
from flowdebate.store.export import export_run
from flowdebate.store.sqlite import rows as sqlite
from flowdebate.testing import FunctionModel
from flowdebate.web.run.page import RunPages
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from flowdebate.store.base import Store
    from flowdebate.testing import ModelRequest

_TOO_MUCH = 0.3
_TIMES = 3
_SMALLEST = 5e-4
"""Seconds: what takes less is as good as constant."""
_WORDS = "rivers run at night as well and what they give can be stored without a battery so a dam answers "
_TURN = (_WORDS * 50)[:4_000]
"""What a debater says."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement."""

    what: str
    of: str
    """What grows."""
    sizes: tuple[int, int, int]
    measure: Callable[[int], Awaitable[float]]
    unit: str
    right: float
