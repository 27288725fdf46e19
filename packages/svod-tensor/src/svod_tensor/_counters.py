"""Counter variables of loops.

While a body is traced, its counter has a name that no closed loop has: the body may contain loops
that were built before, and differentiation builds loops from other bodies. Once it is closed,
`svod_ir.loops.choose_counter` names it by its depth, so that equal bodies are equal nodes."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp
from svod_ir.loops import COUNTER_PREFIX

__all__ = ["is_counter", "is_counter_name", "name_traced_counter"]

_TRACED: Final = f"{COUNTER_PREFIX}of_trace_"


def name_traced_counter(depth: int) -> str:
    """The name of the counter of a loop whose body is being traced, at nesting depth `depth`."""
    return f"{_TRACED}{depth}"


def is_counter_name(name: str) -> bool:
    """Whether a variable of this name is a loop counter."""
    return name.startswith(COUNTER_PREFIX)


def is_counter(node: UOp) -> bool:
    """Whether a node is a loop counter."""
    return node.op is Op.DEFINE_VAR and is_counter_name(node.arg.name)
