"""The `flowdebate` command: debates in the terminal."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command with this process's arguments, and always exit by raising SystemExit."""
    from flowdebate.cli.terminal.process import clean_up_at_termination, prepare_streams

    # A run creates about ten thousand objects, and a server may hold a thousand runs. With the default thresholds,
    # Python would spend a quarter of its time on garbage collection. Changing them is safe here because the command
    # owns the process; a library must not do so.
    gc.set_threshold(10_000, 10, 10)
    prepare_streams()
    from flowdebate.cli.app import app

    with clean_up_at_termination():
        app(prog_name="flowdebate")
