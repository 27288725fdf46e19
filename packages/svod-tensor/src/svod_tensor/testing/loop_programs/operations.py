"""The operations of bodies: each is a line of numpy, which is one of `jax.numpy` too, and a line of svod."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["OPERATIONS", "Operation", "compile_line"]


class Operation(NamedTuple):
    """What an operation does.

    Attributes:
        numpy: an expression of its operands `a`, `b`, `c` and of its arguments by name.
        svod: the same on tensors, or a statement that writes to `a`; by default the same text.
        is_rounded: whether floats are rounded.
        is_decision: whether what is rounded may decide: a float compared or made an integer.
    """

    numpy: str
    svod: str = ""
    is_rounded: bool = False
    is_decision: bool = False


_UNARY: Final = {
    "sin": Operation("np.sin(a)", "a.sin()", is_rounded=True),
    "cos": Operation("np.cos(a)", "a.cos()", is_rounded=True),
    "tanh": Operation("np.tanh(a)", "a.tanh()", is_rounded=True),
    "root": Operation("np.sqrt(np.abs(a) + 0.125)", "(a.abs() + 0.125).sqrt()", is_rounded=True),
    "exp": Operation("np.exp(np.clip(a, -4, 1))", "a.clip(-4, 1).exp()", is_rounded=True),
    "sigmoid": Operation("1 / (1 + np.exp(-a))", "a.sigmoid()", is_rounded=True),
    "softmax": Operation(
        "np.exp(a - a.max(axis=-1, keepdims=True)) / np.exp(a - a.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)",
        "a.softmax(-1)", is_rounded=True,
    ),
    "relu": Operation("np.maximum(a, 0)", "a.relu()"),
    "clip": Operation("np.clip(a, -2, 2)", "a.clip(-2, 2)"),
    "neg": Operation("-a"),
    "abs": Operation("np.abs(a)", "a.abs()"),
    "not": Operation("~a"),
    "scale": Operation("a * k", is_rounded=True),
    "shift": Operation("a + k", is_rounded=True),
    "mod": Operation("a % k"),
    "quotient": Operation("a // k"),
    "lshift": Operation("a << k"),
    "rshift": Operation("a >> k"),
}  # fmt: skip

_BINARY: Final = {
    "add": Operation("a + b", is_rounded=True),
    "sub": Operation("a - b", is_rounded=True),
    "mul": Operation("a * b", is_rounded=True),
    "div": Operation("a / (np.abs(b) + 1)", "a / (b.abs() + 1)", is_rounded=True),
    "mix": Operation("a * 0.5 + b * 0.25", is_rounded=True),
    "max": Operation("np.maximum(a, b)", "a.maximum(b)"),
    "min": Operation("np.minimum(a, b)", "a.minimum(b)"),
    "and": Operation("a & b"),
    "or": Operation("a | b"),
    "xor": Operation("a ^ b"),
    "lt": Operation("a < b", is_decision=True),
    "ge": Operation("a >= b", is_decision=True),
    "eq": Operation("a == b", is_decision=True),
    "where": Operation("np.where(a, b, c)", "a.where(b, c)"),
    "matmul": Operation("(a @ b) * k", is_rounded=True),
}

_CONVERSIONS: Final = {
    "cast": Operation("a.astype(dtype)", "a.cast(dtype)"),
    "to_float": Operation("(a % 64).astype(dtype)", "(a % 64).cast(dtype)"),
    "to_int": Operation("np.floor(np.clip(a, -90, 90)).astype(dtype)", "a.clip(-90, 90).floor().cast(dtype)", is_decision=True),
}  # fmt: skip

_REDUCTIONS: Final = {
    "sum": Operation(
        "a.sum(axis=axis, keepdims=keepdims).astype(dtype)", "a.sum(axis, keepdims=keepdims).cast(dtype)", is_rounded=True
    ),
    "mean": Operation("a.mean(axis=axis, keepdims=keepdims)", "a.mean(axis, keepdims=keepdims)", is_rounded=True),
    "amax": Operation("a.max(axis=axis, keepdims=keepdims)", "a.max(axis, keepdims=keepdims)"),
    "amin": Operation("a.min(axis=axis, keepdims=keepdims)", "a.min(axis, keepdims=keepdims)"),
    "any": Operation("a.any(axis=axis, keepdims=keepdims)", "a.any(axis, keepdims=keepdims)"),
    "all": Operation("a.all(axis=axis, keepdims=keepdims)", "a.all(axis, keepdims=keepdims)"),
    "argmax": Operation("np.argmax(a, axis=axis).astype(dtype)", "a.argmax(axis).cast(dtype)"),
    "cumsum": Operation("np.cumsum(a, axis=axis).astype(dtype)", "a.cumsum(axis).cast(dtype)", is_rounded=True),
    "sort": Operation("np.sort(a, axis=axis)", "a.sort(axis)[0]"),
}  # fmt: skip

_MOVEMENT: Final = {
    "reshape": Operation("a.reshape(shape)"),
    "permute": Operation("np.transpose(a, axes)", "a.permute(axes)"),
    "expand": Operation("np.broadcast_to(a, shape)", "a.broadcast_to(shape)"),
    "flip": Operation("np.flip(a, axis)", "a.flip(axis)"),
    "slice": Operation("a[index]"),
    "pad": Operation("np.pad(a, padding)", "a.pad(padding)"),
    "concat": Operation("np.concatenate((a, b), axis=axis)", "a.concat(b, axis=axis)"),
    "stack": Operation("np.stack((a, b), axis=axis)", "a.stack(b, axis=axis)"),
    "gather": Operation("a[b % n]"),
    "iota": Operation("np.arange(n).astype(dtype)", "Tensor.arange(n).cast(dtype)"),
    "full": Operation("np.full(shape, k, dtype)", "Tensor.full(shape, k, dtype=dtype)"),
    "random_ones": Operation("np.ones(shape, dtype)", "(Tensor.rand(*shape) < 2).cast(dtype)"),
}

_UPDATES: Final = {
    "with_row": Operation("set_items(a, b % n, c)", "a.with_items(b % n, c)"),
    "with_part": Operation("set_items(a, index, b)", "a.with_items(index, b)"),
    "set_row": Operation("set_items(a, b % n, c)", "a[b % n] = c"),
    "set_part": Operation("set_items(a, index, b)", "a[index] = b"),
    "assign": Operation("set_items(a, ..., b)", "a.assign(b)"),
    # Of memory that blocks write to where it is.
    "make_memory": Operation("a.copy()", "a.contiguous()"),
    "write_row": Operation("write(a, b % n, c)", "a[b % n] = c"),
    "write_part": Operation("write(a, index, b)", "a[index] = b"),
    "read_memory": Operation("a.copy()", "a.contiguous()"),
}

OPERATIONS: Final[Mapping[str, Operation]] = {
    **_UNARY, **_BINARY, **_CONVERSIONS, **_REDUCTIONS, **_MOVEMENT, **_UPDATES,
}  # fmt: skip


@functools.cache
def compile_line(line: str, names: tuple[str, ...], namespace: Callable[[], dict[str, Any]]) -> Callable[..., Any]:
    """A function of operands and arguments with these names, in this order; a statement gives its first operand."""
    scope = namespace()
    parameters = ", ".join(names)
    if re.match(r"a\[.*\] = ", line):
        exec(f"def function({parameters}):\n    {line}\n    return a", scope)
        return scope["function"]
    return eval(f"lambda {parameters}: {line}", scope)
