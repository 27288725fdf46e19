"""Arithmetic on symbolic sizes: sizes that depend on variables stay expressions while a program is
built.

A model reads a shape, multiplies and concatenates sizes, and passes them to Reshape or Expand, by
nodes on a few integers. Constant folding computes these nodes if all sizes are known. This module
computes them if some are expressions of variables. Any other node receives symbolic sizes as a
tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Node
from svod_tensor import Tensor

__all__ = ["Sizes", "compute_with_sizes", "make_sizes"]


class Sizes:
    """Array of integers, some of which are expressions of variables.

    Attributes:
        array: object array of integers and expressions, usually of rank 0 or 1.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array: Final = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of ONNX shapes."""
        return np.dtype(np.int64)

    @property
    def size(self) -> int:
        return self.array.size

    def to_tensor(self) -> Tensor:
        """Tensor of the sizes, which get their values when the program runs."""
        elements = [Tensor(size, dtype="int64") for size in self.array.flat]
        return Tensor.stack(elements).reshape(self.shape)


def make_sizes(values: Any) -> Sizes | np.ndarray:
    """Array of sizes: an integer array if all sizes are known."""
    array = np.empty(np.shape(values), object)
    array[...] = values
    return (
        array.astype(np.int64)
        if all(isinstance(size, int | np.integer) for size in array.flat)
        else Sizes(array)
    )


def compute_with_sizes(node: Node, operands: Sequence[object]) -> object | None:
    """Result of a node with symbolic sizes among its operands; None if it must run on tensors.

    Raises:
        UndecidedError: if a comparison depends on the values of variables.
    """
    compute = _BY_OPERATOR.get(node.operator)
    arrays = [_get_array(value) for value in operands]
    if compute is None or node.domain != DEFAULT_DOMAIN or any(array is None for array in arrays):
        return None
    return compute(node.attributes, *arrays)


def _get_array(value: object) -> np.ndarray | None:
    """Object array of an operand. Python integers do not overflow, unlike numpy's."""
    if isinstance(value, Sizes):
        return value.array
    if not isinstance(value, np.ndarray):
        return None
    array = cast("np.ndarray", value)
    return array.astype(object) if array.dtype.kind in "iub" else None


_Attributes = Mapping[str, Any]


def _elementwise(compute: Callable[..., Any]) -> Callable[..., object]:
    """Wrap a scalar function to apply to each element of the broadcast arrays."""

    def run(_: _Attributes, *arrays: np.ndarray) -> object:
        rows = np.broadcast_arrays(*arrays)
        result = np.empty(rows[0].shape, object)
        for index in np.ndindex(result.shape):
            result[index] = compute(*(row[index] for row in rows))
        return make_sizes(result)

    return run


def _comparison(compute: Callable[[Any, Any], object]) -> Callable[..., object]:
    def run(_: _Attributes, a: np.ndarray, b: np.ndarray) -> object:
        rows = np.broadcast_arrays(a, b)
        answers = [bool(compute(x, y)) for x, y in zip(rows[0].flat, rows[1].flat, strict=True)]
        return np.array(answers, bool).reshape(rows[0].shape)

    return run


def _are_equal(a: Any, b: Any) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return b.eq(a) if isinstance(a, int) else a.eq(b)


def _divide(a: Any, b: Any) -> Any:
    """Quotient of nonnegative sizes.

    ONNX truncates and Python floors, so negative operands would differ.
    """
    if a < 0 or b <= 0:
        raise ValueError(
            f"division of sizes needs a nonnegative dividend and a positive divisor, got {a} / {b}"
        )
    return a // b


def _get_remainder(a: Any, b: Any) -> Any:
    if a < 0 or b <= 0:
        raise ValueError(
            f"remainder of sizes needs a nonnegative dividend and a positive divisor, got {a} % {b}"
        )
    return a % b


def _cast(attributes: _Attributes, array: np.ndarray) -> object | None:
    """Cast to int32 or int64. Casts to other types run on tensors."""
    return make_sizes(array) if attributes.get("to") in _WIDE_INTEGERS else None


_WIDE_INTEGERS: Final = (6, 7)  # onnx.TensorProto.INT32 and INT64


def _gather(attributes: _Attributes, array: np.ndarray, indices: np.ndarray) -> object | None:
    # Symbolic indices select unknown elements.
    if any(not isinstance(index, int) for index in indices.flat):
        return None
    return make_sizes(array.take(indices.astype(np.int64), axis=attributes.get("axis", 0)))


def _slice(attributes: _Attributes, array: np.ndarray, *bounds: np.ndarray) -> object | None:
    """Slice a vector with the operands of version 10: starts, ends, axes, steps; or with the
    attributes of version 1.
    """
    if array.ndim != 1 or any(not isinstance(bound, int) for row in bounds for bound in row.flat):
        return None
    if bounds:
        start, end = (row.item() for row in bounds[:2])
        step = bounds[3].item() if len(bounds) > 3 else 1
    else:
        start, end, step = attributes["starts"][0], attributes["ends"][0], 1
    return make_sizes(array[start:end:step])


def _unsqueeze(
    attributes: _Attributes, array: np.ndarray, axes: np.ndarray | None = None
) -> object:
    chosen = attributes["axes"] if axes is None else axes.tolist()
    return make_sizes(np.expand_dims(array, tuple(chosen)))


def _squeeze(attributes: _Attributes, array: np.ndarray, axes: np.ndarray | None = None) -> object:
    chosen = attributes.get("axes") if axes is None else axes.tolist()
    return make_sizes(np.squeeze(array, None if chosen is None else tuple(chosen)))


def _reshape(
    attributes: _Attributes, array: np.ndarray, shape: np.ndarray | None = None
) -> object | None:
    sizes = attributes.get("shape") if shape is None else shape.tolist()
    # A size of 0 copies the operand's size in ONNX, which numpy does not know.
    if sizes is None or any(not isinstance(size, int) or size == 0 for size in sizes):
        return None
    return make_sizes(array.reshape(sizes))


def _concatenate(attributes: _Attributes, *arrays: np.ndarray) -> object:
    return make_sizes(np.concatenate(arrays, axis=attributes.get("axis", 1)))


def _where(_: _Attributes, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> object:
    return _elementwise(_select)({}, condition, a, b)


def _select(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _identity(size: Any) -> Any:
    return size


def _reduce_prod(
    attributes: _Attributes, array: np.ndarray, axes: np.ndarray | None = None
) -> object | None:
    chosen = attributes.get("axes") if axes is None else axes.tolist()
    # Other reductions run on tensors.
    if array.ndim != 1 or (chosen is not None and list(chosen) not in ([0], [-1])):
        return None
    product: Any = 1
    for size in array:
        product = size * product
    return make_sizes([product] if attributes.get("keepdims", 1) else product)


def _make_range(
    _: _Attributes, start: np.ndarray, limit: np.ndarray, delta: np.ndarray
) -> object | None:
    first, last, step = start.item(), limit.item(), delta.item()
    # Other starts and steps run on tensors.
    if not isinstance(first, int) or step != 1:
        return None
    count = last - first
    if count < 0:
        raise ValueError(f"range from {first} to {last} has a negative number of elements")
    return Tensor.arange(count, dtype="int64") + first


_BY_OPERATOR: Final[Mapping[str, Callable[..., object | None]]] = {
    "Add": _elementwise(operator.add),
    "Sub": _elementwise(operator.sub),
    "Mul": _elementwise(operator.mul),
    "Div": _elementwise(_divide),
    "Mod": _elementwise(_get_remainder),
    "Neg": _elementwise(operator.neg),
    "Max": _elementwise(max),
    "Min": _elementwise(min),
    "Identity": _elementwise(_identity),
    "Equal": _comparison(_are_equal),
    "Less": _comparison(operator.lt),
    "LessOrEqual": _comparison(operator.le),
    "Greater": _comparison(operator.gt),
    "GreaterOrEqual": _comparison(operator.ge),
    "Where": _where,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Concat": _concatenate,
    "ReduceProd": _reduce_prod,
    "Range": _make_range,
}
"""Implementations by operator: functions of the attributes and object arrays, which return None for
an unsupported case.
"""
