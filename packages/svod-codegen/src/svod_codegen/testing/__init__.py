"""For tests of generated code: instructions that the processor at hand does not have."""

from svod_codegen.testing.tiles import emulate_tiles

__all__ = ["emulate_tiles"]
