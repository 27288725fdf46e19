"""Test support: emulation of instructions that the processor lacks, and processes that are killed at
a given line.
"""

from svod_codegen.testing.kill import kill_at_line
from svod_codegen.testing.tiles import emulate_tiles

__all__ = ["emulate_tiles", "kill_at_line"]
