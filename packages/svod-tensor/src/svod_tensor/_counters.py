"""The variables that number the iterations of loops.

While a body is traced, the name of its variable is that of no closed loop: the body may meet loops
that were made before, and derivatives make loops of what other bodies compute. Once it is closed,
`svod_ir.loops.choose_counter` names it by its depth, so that equal bodies are equal nodes."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp
from svod_ir.loops import COUNTER_PREFIX

__all__ = ["is_counter", "is_counter_name", "name_traced_counter"]

_TRACED: Final = f"{COUNTER_PREFIX}of_trace_"


def name_traced_counter(depth: int) -> str:
    """The name of the variable of a loop whose body is being traced, inside of the bodies of so
    many others.
    """
    return f"{_TRACED}{depth}"


def is_counter_name(name: str) -> bool:
    """Whether a variable of this name numbers iterations."""
    return name.startswith(COUNTER_PREFIX)


def is_counter(node: UOp) -> bool:
    """Whether a node is the number of an iteration."""
    return node.op is Op.DEFINE_VAR and is_counter_name(node.arg.name)
