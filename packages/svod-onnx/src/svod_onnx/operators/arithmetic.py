"""Elementwise arithmetic."""

from __future__ import annotations

from functools import reduce

import numpy as np

from svod_onnx._broadcasting import align_axis
from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "binary",
    "binary_since_1",
    "bit_shift",
    "div",
    "div_since_1",
    "divide_truncated",
    "mean",
    "mod",
    "pow_",
    "pow_since_1",
    "unary",
    "variadic",
]

_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul"}
_BITWISE = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"}
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


@operator("Add", "Sub", "Mul", since=7)
@operator("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def binary(node: Call, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise sum, difference, product or bitwise combination."""
    return getattr(a, (_BINARY | _BITWISE)[node.operator])(b)


@operator("Add", "Sub", "Mul")
def binary_since_1(
    node: Call,
    a: Tensor,
    b: Tensor,
    *,
    axis: int | None = None,
    broadcast: int = 0,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    """Elementwise arithmetic up to version 6, where `axis` aligns `b` with an axis of `a`."""
    del broadcast, consumed_inputs
    return binary(node, a, align_axis(a, b, axis))


@operator("Div", since=7)
def div(a: Tensor, b: Tensor) -> Tensor:
    """Quotient; integers are truncated toward zero."""
    return a.div(b) if a.dtype.is_inexact else divide_truncated(a, b)


@operator("Div")
def div_since_1(
    a: Tensor,
    b: Tensor,
    *,
    axis: int | None = None,
    broadcast: int = 0,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    """Quotient up to version 6, where `axis` aligns `b` with an axis of `a`."""
    del broadcast, consumed_inputs
    return div(a, align_axis(a, b, axis))


def divide_truncated(a: Tensor, b: Tensor) -> Tensor:
    """Quotient of integers, truncated toward zero."""
    floor = a.floor_divide(b)
    if not a.dtype.is_signed:
        return floor
    # Floor and truncation differ by one for negative inexact quotients.
    is_inexact_negative = floor.lt(0).logical_and(floor.mul(b).ne(a))
    return floor.add(is_inexact_negative.cast(floor.dtype))


@operator("Mod", since=10)
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """Remainder with the sign of `a` for `fmod` 1, otherwise with the sign of `b`."""
    return a.fmod(b) if fmod else a.remainder(b)


@operator("Pow", since=7)
def pow_(node: Call, x: Tensor, y: Value) -> Tensor:
    """Power in the dtype of `x`, independent of the exponent's dtype.

    A small constant integer exponent becomes multiplications.
    """
    # A known exponent avoids the general power function.
    if isinstance(y, np.ndarray) and y.size == 1 and y.ndim <= x.ndim:
        return _raise_to_constant(x, y.item())
    (power,) = node.tensors(y)
    return _raise_to_tensor(x, power)


def _raise_to_constant(a: Tensor, exponent: float) -> Tensor:
    if a.dtype.is_float:
        return a.pow(exponent)
    if exponent == int(exponent):
        return a.pow(int(exponent))
    # A fractional exponent of an integer base needs floats.
    return a.cast("float64").pow(exponent).cast(a.dtype)


def _raise_to_tensor(a: Tensor, exponent: Tensor) -> Tensor:
    if a.dtype.is_float:
        # The exponent may be wider than the base, and casting it to the base's dtype would round
        # it.
        wide = "float64" if exponent.dtype.itemsize > 4 or a.dtype.itemsize > 4 else "float32"
        return a.cast(wide).pow(exponent.cast(wide)).cast(a.dtype)
    if exponent.dtype.is_float:
        return a.cast("float64").pow(exponent.cast("float64")).cast(a.dtype)
    # Integer powers wrap modulo 2^64, so the signedness of the base does not matter.
    wide = "int64" if exponent.dtype.is_signed else "uint64"
    return a.cast(wide).pow(exponent.cast(wide)).cast(a.dtype)


@operator("Pow")
def pow_since_1(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    """Power up to version 6, where `axis` aligns `y` with an axis of `x`."""
    del broadcast
    return _raise_to_tensor(x, align_axis(x, y, axis))


@operator("BitShift", since=11)
def bit_shift(node: Call, x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """Bits of `x` shifted by `y` to the left or right."""
    if direction not in ("LEFT", "RIGHT"):
        raise node.refuse(f"unknown direction {direction!r}; expected LEFT or RIGHT")
    return x.lshift(y) if direction == "LEFT" else x.rshift(y)


@operator("Max", "Min", "Sum")
def variadic(node: Call, *inputs: Tensor, consumed_inputs: list[int] | None = None) -> Tensor:
    """Elementwise maximum, minimum or sum of any number of operands."""
    del consumed_inputs
    if not inputs:
        raise node.refuse("expected at least one operand")
    # From left to right, as in the reference: the order decides the rounding of a sum.
    return reduce(getattr(Tensor, _VARIADIC[node.operator]), inputs)


@operator("Mean")
def mean(node: Call, *inputs: Tensor, consumed_inputs: list[int] | None = None) -> Tensor:
    """Elementwise mean of the operands. Half-precision operands are summed in float32."""
    del consumed_inputs
    if not inputs:
        raise node.refuse("expected at least one operand")
    dtype = inputs[0].dtype
    terms = [term.cast("float32") if dtype.itemsize < 4 else term for term in inputs]
    return reduce(Tensor.add, terms).div(len(inputs)).cast(dtype)


_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "neg",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


@operator(*_UNARY)
def unary(node: Call, x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """Elementwise function in the dtype of `x`. Integer results of Erf are truncated."""
    del consumed_inputs
    value = getattr(x, _UNARY[node.operator])()
    return value if value.dtype is x.dtype else value.cast(x.dtype)
