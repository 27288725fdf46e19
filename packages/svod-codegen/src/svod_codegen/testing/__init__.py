"""For tests: instructions that the processor at hand does not have, and processes that die at a
given line.
"""

from svod_codegen.testing.kill import kill_at_line
from svod_codegen.testing.tiles import emulate_tiles

__all__ = ["emulate_tiles", "kill_at_line"]
