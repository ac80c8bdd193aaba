"""The command `flowdebate`: a debate in the terminal."""

from __future__ import annotations


def main() -> None:
    """Run the command with the arguments of this process; ends in SystemExit."""
    from flowdebate.cli.terminal.process import prepare_streams

    prepare_streams()
    from flowdebate.cli.app import app

    app(prog_name="flowdebate")
