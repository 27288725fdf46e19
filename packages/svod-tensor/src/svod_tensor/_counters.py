"""The variables that number the iterations of loops.

While a body is traced, its variable has a name that no other one has: what the body meets may be a loop that was made before,
and derivatives make loops of what other bodies compute. Once it is closed, `svod_ir.loops.choose_counter` names it by its
depth, so that equal bodies are equal nodes.
"""

from __future__ import annotations

import itertools
from typing import Final

from svod_ir import Op, UOp
from svod_ir.loops import COUNTER_PREFIX

__all__ = ["is_counter", "is_counter_name", "make_counter_name"]

# All of so many digits, so that their order as text is that in which they were made: sums list their terms by name.
_numbers: Final = itertools.count(1 << 60)


def make_counter_name() -> str:
    """A new name for the variable of a loop whose body is being traced."""
    return f"{COUNTER_PREFIX}{next(_numbers)}"


def is_counter_name(name: str) -> bool:
    """Whether a variable of this name numbers iterations."""
    return name.startswith(COUNTER_PREFIX)


def is_counter(node: UOp) -> bool:
    """Whether a node is the number of an iteration."""
    return node.op is Op.DEFINE_VAR and is_counter_name(node.arg.name)
