"""`python -m svod_testing.loop_programs`: run random programs with loops, and print the shortest
one of each kind of failure.
"""

from __future__ import annotations

import sys

from svod_testing.programs.__main__ import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main("svod_testing.loop_programs"))
