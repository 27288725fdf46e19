"""Reductions, cumulative operators, softmax, and selection of the largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from svod_onnx._broadcasting import multiply_sizes
from svod_onnx._registry import Ints, operator
from svod_onnx._trace import Call
from svod_tensor import DType, Tensor

__all__ = [
    "arg_max_or_min",
    "cum_sum_or_prod",
    "flatten_from",
    "hardmax",
    "hardmax_since_1",
    "reduce",
    "reduce_since_1",
    "softmax",
    "softmax_since_1",
    "topk",
    "topk_since_1",
]

_Axes = tuple[int, ...] | None


def _sum_logs(x: Tensor, axes: _Axes, keepdims: bool) -> Tensor:
    return x.sum(axes, keepdims=keepdims).log()


_REDUCTIONS: Final[dict[str, Callable[[Tensor, _Axes, bool], Tensor]]] = {
    "ReduceL1": lambda x, axes, keepdims: x.abs().sum(axes, keepdims=keepdims),
    "ReduceL2": lambda x, axes, keepdims: x.square().sum(axes, keepdims=keepdims).sqrt(),
    "ReduceLogSum": _sum_logs,
    "ReduceLogSumExp": lambda x, axes, keepdims: x.logsumexp(axes, keepdims=keepdims),
    "ReduceMax": lambda x, axes, keepdims: x.max(axes, keepdims=keepdims),
    "ReduceMean": lambda x, axes, keepdims: x.mean(axes, keepdims=keepdims),
    "ReduceMin": lambda x, axes, keepdims: x.min(axes, keepdims=keepdims),
    "ReduceProd": lambda x, axes, keepdims: x.prod(axes, keepdims=keepdims),
    "ReduceSum": lambda x, axes, keepdims: x.sum(axes, keepdims=keepdims),
    "ReduceSumSquare": lambda x, axes, keepdims: x.square().sum(axes, keepdims=keepdims),
}

_FRACTIONAL: Final = frozenset({"ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"})
"""Reductions with fractional results, which are truncated for integer operands."""

_LIMITED: Final = frozenset({"ReduceMax", "ReduceMin", "ReduceLogSumExp"})
"""Reductions whose result for no elements is a limit of the dtype."""


@operator(*_REDUCTIONS, since=18)
@operator("ReduceSum", since=13)
def reduce(
    node: Call,
    data: Tensor,
    axes: Ints | None = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Tensor:
    """Reduction over `axes`; without axes over all axes, or over none with
    `noop_with_empty_axes`.
    """
    chosen: _Axes = tuple(axes) if axes else () if noop_with_empty_axes else None
    return _reduce(node.operator, data, chosen, bool(keepdims))


@operator(*_REDUCTIONS)
def reduce_since_1(
    node: Call, data: Tensor, *, axes: list[int] | None = None, keepdims: int = 1
) -> Tensor:
    """Reduction over the axes of an attribute, by default over all axes."""
    return _reduce(node.operator, data, tuple(axes) if axes else None, bool(keepdims))


def _reduce(name: str, x: Tensor, axes: _Axes, keepdims: bool) -> Tensor:
    dtype = x.dtype
    if name in _LIMITED and _is_empty(x, axes):
        return x.sum(axes, keepdims=keepdims).cast(dtype).full_like(_get_limit(name, dtype))
    # float32 would round large integers before the reduction.
    wide = x.cast("float64") if name in _FRACTIONAL and not dtype.is_float else x
    return _REDUCTIONS[name](wide, axes, keepdims).cast(dtype)


def _is_empty(x: Tensor, axes: _Axes) -> bool:
    """Whether a reduced axis has no elements."""
    return any(x.shape[axis] == 0 for axis in (range(x.ndim) if axes is None else axes))


def _get_limit(name: str, dtype: DType) -> Any:
    """Identity of the maximum or minimum."""
    is_least = name == "ReduceMin"
    if dtype.is_bool:
        return is_least
    if dtype.is_float:
        return float("inf" if is_least else "-inf")
    return dtype.max if is_least else dtype.min


@operator("ArgMax", "ArgMin")
def arg_max_or_min(
    node: Call, data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    """First or last index of the largest or smallest element along an axis, as int64."""
    find = Tensor.argmax if node.operator == "ArgMax" else Tensor.argmin
    if select_last_index:
        # The last index is the first index of the flipped axis.
        index = data.shape[axis] - 1 - find(data.flip(axis), axis, keepdims=bool(keepdims))
    else:
        index = find(data, axis, keepdims=bool(keepdims))
    return index.cast("int64")


@operator("CumSum", "CumProd")
def cum_sum_or_prod(
    node: Call, x: Tensor, axis: Ints, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    """Cumulative sum or product along an axis, inclusive or exclusive, from the start or from the
    end.
    """
    axis_index = axis[0] % x.ndim
    values = x.flip(axis_index) if reverse else x
    # Shift by one element, with the identity first.
    if exclusive:
        padding = [(1, -1) if index == axis_index else (0, 0) for index in range(x.ndim)]
        values = values.pad(padding, constant_values=0 if node.operator == "CumSum" else 1)
    result = values.cumsum(axis_index) if node.operator == "CumSum" else values.cumprod(axis_index)
    return (result.flip(axis_index) if reverse else result).cast(x.dtype)


@operator("TopK", since=10)
def topk(
    x: Tensor, k: Ints, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """The `k` largest or smallest elements along an axis and their indices, always sorted."""
    # Without it, any order is allowed.
    del sorted
    values, indices = x.topk(k[0], axis, largest=bool(largest))
    return values, indices.cast("int64")


@operator("TopK")
def topk_since_1(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """TopK up to version 9: the largest elements."""
    return topk(x, [k], axis=axis)


@operator("Softmax", "LogSoftmax", since=13)
def softmax(node: Call, input: Tensor, *, axis: int = -1) -> Tensor:
    """Softmax or its logarithm along `axis`."""
    return input.softmax(axis) if node.operator == "Softmax" else input.log_softmax(axis)


@operator("Softmax", "LogSoftmax")
def softmax_since_1(node: Call, input: Tensor, *, axis: int = 1) -> Tensor:
    """Softmax up to version 12, over all axes from `axis` on."""
    # Version 13 changed the semantics: before, all axes from `axis` on shared one sum.
    rows = flatten_from(input, axis)
    return (rows.softmax(-1) if node.operator == "Softmax" else rows.log_softmax(-1)).reshape(
        input.shape
    )


def flatten_from(x: Tensor, axis: int) -> Tensor:
    """Flatten the axes from `axis` on."""
    axis = axis % x.ndim if x.ndim else 0
    return x.reshape(*x.shape[:axis], multiply_sizes(x.shape[axis:]))


@operator("Hardmax", since=13)
def hardmax(input: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first largest element along an axis, otherwise 0."""
    size = input.shape[axis]
    shape = [size if index == axis % input.ndim else 1 for index in range(input.ndim)]
    return (Tensor.arange(size).reshape(shape) == input.argmax(axis, keepdims=True)).cast(
        input.dtype
    )


@operator("Hardmax")
def hardmax_since_1(input: Tensor, *, axis: int = 1) -> Tensor:
    """Hardmax up to version 12, over all axes from `axis` on."""
    return hardmax(flatten_from(input, axis)).reshape(input.shape)
