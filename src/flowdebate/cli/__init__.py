"""The command `flowdebate`: a debate in the terminal."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command with the arguments of this process; ends in SystemExit."""
    from flowdebate.cli.terminal.process import clean_up_at_termination, prepare_streams

    # A run holds some ten thousand objects, and a server a thousand runs: by Python's default, a quarter of its time
    # would be spent on looking for cycles among them. This process is ours; a library would leave it as it is.
    gc.set_threshold(10_000, 10, 10)
    prepare_streams()
    from flowdebate.cli.app import app

    with clean_up_at_termination():
        app(prog_name="flowdebate")
