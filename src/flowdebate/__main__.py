"""Entry point for `python -m flowdebate`."""

from __future__ import annotations

from flowdebate.cli import main

if __name__ == "__main__":
    main()
