"""Operations of bodies: each is a line of NumPy, which is also valid in `jax.numpy`, and of svod."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["OPERATIONS", "LoopOperation", "compile_line"]


class LoopOperation(NamedTuple):
    """Operation of a body.

    Attributes:
        numpy: expression of the operands `a`, `b`, `c` and of the arguments by name.
        svod: expression of tensors, or a statement that writes to `a`; by default the same text.
        is_rounded: True if floats are rounded.
        is_decision: True if rounding may change the result discretely: comparisons of floats, and
            casts to integers.
    """

    numpy: str
    svod: str = ""
    is_rounded: bool = False
    is_decision: bool = False


_UNARY: Final = {
    "sin": LoopOperation("np.sin(a)", "a.sin()", is_rounded=True),
    "cos": LoopOperation("np.cos(a)", "a.cos()", is_rounded=True),
    "tanh": LoopOperation("np.tanh(a)", "a.tanh()", is_rounded=True),
    "root": LoopOperation(
        "np.sqrt(np.abs(a) + 0.125)", "(a.abs() + 0.125).sqrt()", is_rounded=True
    ),
    "exp": LoopOperation("np.exp(np.clip(a, -4, 1))", "a.clip(-4, 1).exp()", is_rounded=True),
    "sigmoid": LoopOperation("1 / (1 + np.exp(-a))", "a.sigmoid()", is_rounded=True),
    "softmax": LoopOperation(
        "np.exp(a - a.max(axis=-1, keepdims=True)) / np.exp(a - a.max(axis=-1,"
        " keepdims=True)).sum(axis=-1, keepdims=True)",
        "a.softmax(-1)",
        is_rounded=True,
    ),
    "relu": LoopOperation("np.maximum(a, 0)", "a.relu()"),
    "clip": LoopOperation("np.clip(a, -2, 2)", "a.clip(-2, 2)"),
    "neg": LoopOperation("-a"),
    "abs": LoopOperation("np.abs(a)", "a.abs()"),
    "not": LoopOperation("~a"),
    "scale": LoopOperation("a * k", is_rounded=True),
    "shift": LoopOperation("a + k", is_rounded=True),
    "mod": LoopOperation("a % k"),
    "quotient": LoopOperation("a // k"),
    "lshift": LoopOperation("a << k"),
    "rshift": LoopOperation("a >> k"),
}

_BINARY: Final = {
    "add": LoopOperation("a + b", is_rounded=True),
    "sub": LoopOperation("a - b", is_rounded=True),
    "mul": LoopOperation("a * b", is_rounded=True),
    "div": LoopOperation("a / (np.abs(b) + 1)", "a / (b.abs() + 1)", is_rounded=True),
    "mix": LoopOperation("a * 0.5 + b * 0.25", is_rounded=True),
    "max": LoopOperation("np.maximum(a, b)", "a.maximum(b)"),
    "min": LoopOperation("np.minimum(a, b)", "a.minimum(b)"),
    "and": LoopOperation("a & b"),
    "or": LoopOperation("a | b"),
    "xor": LoopOperation("a ^ b"),
    "lt": LoopOperation("a < b", is_decision=True),
    "ge": LoopOperation("a >= b", is_decision=True),
    "eq": LoopOperation("a == b", is_decision=True),
    "where": LoopOperation("np.where(a, b, c)", "a.where(b, c)"),
    "matmul": LoopOperation("(a @ b) * k", is_rounded=True),
}

_CONVERSIONS: Final = {
    "cast": LoopOperation("a.astype(dtype)", "a.cast(dtype)"),
    "to_float": LoopOperation("(a % 64).astype(dtype)", "(a % 64).cast(dtype)"),
    "to_int": LoopOperation(
        "np.floor(np.clip(a, -90, 90)).astype(dtype)",
        "a.clip(-90, 90).floor().cast(dtype)",
        is_decision=True,
    ),
}

_REDUCTIONS: Final = {
    "sum": LoopOperation(
        "a.sum(axis=axis, keepdims=keepdims).astype(dtype)",
        "a.sum(axis, keepdims=keepdims).cast(dtype)",
        is_rounded=True,
    ),
    "mean": LoopOperation(
        "a.mean(axis=axis, keepdims=keepdims)", "a.mean(axis, keepdims=keepdims)", is_rounded=True
    ),
    "amax": LoopOperation("a.max(axis=axis, keepdims=keepdims)", "a.max(axis, keepdims=keepdims)"),
    "amin": LoopOperation("a.min(axis=axis, keepdims=keepdims)", "a.min(axis, keepdims=keepdims)"),
    "any": LoopOperation("a.any(axis=axis, keepdims=keepdims)", "a.any(axis, keepdims=keepdims)"),
    "all": LoopOperation("a.all(axis=axis, keepdims=keepdims)", "a.all(axis, keepdims=keepdims)"),
    "argmax": LoopOperation("np.argmax(a, axis=axis).astype(dtype)", "a.argmax(axis).cast(dtype)"),
    "cumsum": LoopOperation(
        "np.cumsum(a, axis=axis).astype(dtype)", "a.cumsum(axis).cast(dtype)", is_rounded=True
    ),
    "sort": LoopOperation("np.sort(a, axis=axis)", "a.sort(axis)"),
}

_MOVEMENT: Final = {
    "reshape": LoopOperation("a.reshape(shape)"),
    "permute": LoopOperation("np.transpose(a, axes)", "a.permute(axes)"),
    "expand": LoopOperation("np.broadcast_to(a, shape)", "a.broadcast_to(shape)"),
    "flip": LoopOperation("np.flip(a, axis)", "a.flip(axis)"),
    "slice": LoopOperation("a[index]"),
    "pad": LoopOperation("np.pad(a, padding)", "a.pad(padding)"),
    "concat": LoopOperation("np.concatenate((a, b), axis=axis)", "a.concat(b, axis=axis)"),
    "stack": LoopOperation("np.stack((a, b), axis=axis)", "a.stack(b, axis=axis)"),
    "gather": LoopOperation("a[b % n]"),
    "iota": LoopOperation("np.arange(n).astype(dtype)", "Tensor.arange(n).cast(dtype)"),
    "full": LoopOperation("np.full(shape, k, dtype)", "Tensor.full(shape, k, dtype=dtype)"),
    "random_ones": LoopOperation("np.ones(shape, dtype)", "(Tensor.rand(*shape) < 2).cast(dtype)"),
}

_UPDATES: Final = {
    "with_row": LoopOperation("set_items(a, b % n, c)", "a.with_items(b % n, c)"),
    "with_part": LoopOperation("set_items(a, index, b)", "a.with_items(index, b)"),
    "set_row": LoopOperation("set_items(a, b % n, c)", "a[b % n] = c"),
    "set_part": LoopOperation("set_items(a, index, b)", "a[index] = b"),
    "assign": LoopOperation("set_items(a, ..., b)", "a.assign(b)"),
    # Operations on memory that blocks write to in place.
    "make_memory": LoopOperation("a.copy()", "a.contiguous()"),
    "write_row": LoopOperation("write(a, b % n, c)", "a[b % n] = c"),
    "write_part": LoopOperation("write(a, index, b)", "a[index] = b"),
    "read_memory": LoopOperation("a.copy()", "a.contiguous()"),
}

OPERATIONS: Final[Mapping[str, LoopOperation]] = {
    **_UNARY,
    **_BINARY,
    **_CONVERSIONS,
    **_REDUCTIONS,
    **_MOVEMENT,
    **_UPDATES,
}


@functools.cache
def compile_line(
    line: str, names: tuple[str, ...], namespace: Callable[[], dict[str, Any]]
) -> Callable[..., Any]:
    """Compile a line to a function of the named operands and arguments, in this order.

    A statement returns its first operand.
    """
    scope = namespace()
    parameters = ", ".join(names)
    if re.match(r"a\[.*\] = ", line):
        exec(f"def function({parameters}):\n    {line}\n    return a", scope)
        return scope["function"]
    return eval(f"lambda {parameters}: {line}", scope)
