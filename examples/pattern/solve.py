"""Run the command line with an additional pattern: `python solve.py riddle "What has keys and opens no lock?"`."""

import riddles  # noqa: F401 - registers the pattern

from flowdebate.cli import main

if __name__ == "__main__":
    main()
