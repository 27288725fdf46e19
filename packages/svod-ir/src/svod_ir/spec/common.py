"""Checks shared by the rules of several ops."""

from __future__ import annotations

from collections.abc import Callable

from svod_dtype import void
from svod_ir.uop import UOp

__all__ = ["Rule", "check_integer", "check_no_arg", "check_same_as_first", "check_void"]

Rule = Callable[[UOp], str | None]
"""Returns the rule that a node breaks, or None."""


def check_no_arg(node: UOp) -> str | None:
    return None if node.arg is None else f"{node.op.name} has no arg"


def check_same_as_first(node: UOp) -> str | None:
    return (
        None
        if node.dtype is node.src[0].dtype
        else f"{node.op.name} has the dtype of its first operand"
    )


def check_void(node: UOp) -> str | None:
    return None if node.dtype is void else f"{node.op.name} is void"


def check_integer(node: UOp) -> str | None:
    return None if node.dtype.is_int and node.dtype.lanes == 1 else f"{node.op.name} is an integer"
