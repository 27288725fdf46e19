"""The variables that number the iterations of loops: one name for each depth, so that equal bodies are equal nodes."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp

__all__ = ["is_counter", "is_counter_name", "name_counter"]

_PREFIX: Final = "loop_counter_"


def name_counter(depth: int) -> str:
    """The name of the variable of a loop that stands in so many others."""
    return f"{_PREFIX}{depth}"


def is_counter_name(name: str) -> bool:
    """Whether a variable of this name numbers iterations."""
    return name.startswith(_PREFIX)


def is_counter(node: UOp) -> bool:
    """Whether a node is the number of an iteration."""
    return node.op is Op.DEFINE_VAR and is_counter_name(node.arg.name)
