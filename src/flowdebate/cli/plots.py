"""An audit of judges as a picture: each figure as a dot with its interval, beside what a fair judge would have."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from flowdebate.cli.keys import COMMAND
from flowdebate.cli.pages.audit import rows_of
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flowdebate.cli.pages.audit import Row
    from flowdebate.evaluation.judges.schemas import JudgeAudit

__all__ = ("FORMATS", "check_plot", "plot")

FORMATS = (".svg", ".png")
_COLOURS = ("#1b6ca8", "#c2571a", "#3c8d40", "#8a4fa3", "#b03a48", "#5f6b6d")
_ROW, _MARGIN, _WIDTH = 0.34, 1.5, 8.0
"""Inches: the height of a row, of all that is no row, and the width."""


def check_plot(path: Path) -> None:
    """ConfigurationError for what is no picture's name, and where there is nothing to draw it with."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigurationError(COMMAND, "--plot", str(path), f"a file whose name ends in {' or '.join(FORMATS)}")
    if not find_spec("matplotlib"):
        hint = 'pip install "flowdebate[audit]"'
        raise ConfigurationError(COMMAND, "--plot", "no matplotlib", "left out without matplotlib", hint=hint)


def plot(audit: JudgeAudit, path: Path) -> bytes:
    """The picture, in the format that the name of `path` says."""
    from matplotlib.figure import Figure

    rows = [row for row in rows_of(audit) if row.name != "unparsed answers"]
    signed = [row for row in rows if row.name.startswith("preference fairness")]
    shares = [row for row in rows if row not in signed]
    judges = list(dict.fromkeys(row.judge for row in rows))
    parts = [part for part in ((shares, 0.0, "share"), (signed, -1.0, "-1 first slot … last slot +1")) if part[0]]
    figure = Figure(figsize=(_WIDTH, _MARGIN + _ROW * len(rows) + 0.6 * len(parts)), layout="constrained")
    figure.suptitle(f"Audit of {audit.ballots:,} ballots on {audit.items:,} items", fontsize=11)
    if parts:
        heights = [len(part) + 1 for part, _, _ in parts]
        axes = figure.subplots(len(parts), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for axis, (part, least, label) in zip(axes, parts, strict=True):
            _draw(axis, part, judges, least=least, label=label)
    written = io.BytesIO()
    suffix = path.suffix.lower().removeprefix(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the font may lack a letter of a model's name
        figure.savefig(written, format=suffix, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
    return written.getvalue()


def _draw(axis: Any, rows: Sequence[Row], judges: Sequence[str], *, least: float, label: str) -> None:  # noqa: ANN401 - matplotlib's
    for at, row in enumerate(rows):
        colour = _COLOURS[judges.index(row.judge) % len(_COLOURS)]
        if row.low is not None and row.high is not None:
            axis.hlines(at, row.low, row.high, color=colour, linewidth=2)
        axis.plot(row.value, at, "o", color=colour, markersize=6)
        fair = row.even if least == 0 else 0.0
        if fair is not None:
            axis.vlines(fair, at - 0.35, at + 0.35, color="#888888", linestyle="dotted")
    names = [row.name if len(judges) == 1 else f"{row.judge}: {row.name}" for row in rows]
    axis.set_yticks(range(len(rows)), labels=[_short(name) for name in names], parse_math=False)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(least - 0.03, 1.03)
    axis.set_xlabel(label)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="x", color="#e5e5e5")
    axis.set_axisbelow(True)


def _short(name: str) -> str:
    longest = 44
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
