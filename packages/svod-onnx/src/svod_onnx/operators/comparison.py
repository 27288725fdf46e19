"""Comparisons, logic, clipping and selection."""

from __future__ import annotations

import numpy as np

from svod_onnx._broadcasting import align_axis
from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "clip",
    "clip_since_1",
    "comparison",
    "comparison_since_1",
    "identity",
    "is_inf",
    "is_nan",
    "not_",
    "where",
]

_COMPARISONS = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
}


@operator("Equal", "Greater", "Less", "And", "Or", "Xor", since=7)
@operator("GreaterOrEqual", "LessOrEqual", since=12)
def comparison(node: Call, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise comparison or logical operation."""
    return getattr(a, _COMPARISONS[node.operator])(b)


@operator("Equal", "Greater", "Less", "And", "Or", "Xor")
def comparison_since_1(
    node: Call, a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0
) -> Tensor:
    """Comparison up to version 6, where `axis` aligns `b` with an axis of `a`."""
    del broadcast
    return comparison(node, a, align_axis(a, b, axis))


@operator("Not")
def not_(x: Tensor) -> Tensor:
    """Elementwise negation."""
    return x.logical_not()


@operator("IsNaN")
def is_nan(x: Tensor) -> Tensor:
    """True for NaN."""
    return x.isnan()


@operator("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """True for infinities of the detected signs."""
    mask = x.isinf()
    if not detect_negative:
        mask = mask.logical_and(x.gt(0))
    return mask if detect_positive else mask.logical_and(x.lt(0))


@operator("Clip", since=11)
def clip(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Clamp to limits. NaN stays NaN; if the limits are inconsistent, `max` wins."""
    # Exporters write limits of shape (1,), which must not add an axis.
    low, high = (None if bound is None else bound.reshape(()) for bound in (min, max))
    # The upper limit is applied last.
    return input.clip(low, high)


_LARGEST = float(np.finfo(np.float32).max)


@operator("Clip")
def clip_since_1(
    node: Call,
    input: Tensor,
    *,
    min: float | None = None,
    max: float | None = None,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    """Clamp to limits that are attributes.

    From version 6 on the default limits are the largest finite float32.
    """
    del consumed_inputs
    # Half-precision dtypes cannot represent the default limits, which are no limits for them.
    if node.version >= 6 and input.dtype.itemsize >= 4:
        min, max = -_LARGEST if min is None else min, _LARGEST if max is None else max
    return input.clip(min, max)


@operator("Where")
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Select elements of `x` where `condition` is true, otherwise of `y`."""
    return condition.where(x, y)


@operator("Identity")
def identity(input: Value) -> Value:
    """The operand."""
    return input
