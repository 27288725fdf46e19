"""Test support: emulation of instructions that the processor lacks, and processes that are killed at
a given line.

Example:
    A process that is killed while it writes leaves no partial entry:

    >>> from svod_ir.testing import run_script
    >>> script = '''
    ... from svod_codegen import disk_store
    ... from svod_codegen.testing import kill_at_line
    ... def write():
    ...     kill_at_line(disk_store, 60)
    ...     disk_store.get_disk_store("notes").put("0123", b"content")
    ... print(run_in_child(write), disk_store.get_disk_store("notes").get("0123"))
    ... '''
    >>> print(run_script(script), end="")
    -9 None
"""

from svod_codegen.testing.kill import kill_at_line
from svod_codegen.testing.tiles import emulate_tiles

__all__ = ["emulate_tiles", "kill_at_line"]
