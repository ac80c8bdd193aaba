"""`python -m flowdebate`: the command."""

from __future__ import annotations

from flowdebate.cli import main

if __name__ == "__main__":
    main()
