"""Arguments of a CALL: the memory of the ranged graph that a kernel reads.

AFTER(BUFFERIZE x, BUFFERIZE y)     AFTER(AFTER(BUFFER -1, CALL), AFTER(BUFFER -2, CALL))
"""

from __future__ import annotations

from collections.abc import Mapping

from svod_ir import Op, UOp

__all__ = ["get_argument", "has_control_dependency"]


def get_argument(memory: UOp, filled: Mapping[UOp, UOp]) -> UOp:
    """Return the argument of a CALL for `memory`: the memory after the calls that fill it and the
    calls that it waits for.
    """
    if not has_control_dependency(memory, filled):
        return filled.get(memory, memory)
    # Recursive: memory may wait for several control dependencies, one around the other.
    return get_argument(memory.source, filled).after(
        *(filled[event] for event in memory.dependencies)
    )


def has_control_dependency(memory: UOp, filled: Mapping[UOp, UOp]) -> bool:
    """Whether a node is memory that is only read after other memory is filled."""
    return (
        memory.op is Op.AFTER
        and memory not in filled
        and any(event in filled for event in memory.dependencies)
    )
