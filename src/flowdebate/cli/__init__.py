"""The `flowdebate` command: debates in the terminal."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command with the arguments of this process; exit with SystemExit."""
    from flowdebate.cli.terminal.process import clean_up_at_termination, prepare_streams

    # A run has some ten thousand objects, and a server a thousand runs: by default, Python would spend a quarter of the
    # time looking for cycles among them. This process is ours; a library must not change the setting.
    gc.set_threshold(10_000, 10, 10)
    prepare_streams()
    from flowdebate.cli.app import app

    with clean_up_at_termination():
        app(prog_name="flowdebate")
