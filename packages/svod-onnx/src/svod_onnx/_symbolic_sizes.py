"""Sizes that a model computes with, where those of its inputs are variables: they stay expressions while a program is built.

A model takes a shape apart, multiplies and joins sizes, and gives them to Reshape or Expand, each by a node on a few integers. Where all
are numbers the nodes are folded. Where some are expressions of variables, what such nodes do to them is done here; any other node
gets them as a tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Node
from svod_tensor import Tensor

__all__ = ["Sizes", "compute_with_sizes", "make_sizes"]


class Sizes:
    """An array of integers, some of which are expressions of variables.

    Attributes:
        array: of objects, each an integer or an expression; it has one axis or none, or what a model makes of it.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array: Final = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """That of an integer of ONNX's shapes."""
        return np.dtype(np.int64)

    @property
    def size(self) -> int:
        return self.array.size

    def to_tensor(self) -> Tensor:
        """The same numbers, known when the program runs."""
        elements = [Tensor(size, dtype="int64") for size in self.array.flat]
        return Tensor.stack(elements).reshape(self.shape)


def make_sizes(values: Any) -> Sizes | np.ndarray:
    """An array of sizes: one of numbers where all are known."""
    array = np.empty(np.shape(values), object)
    array[...] = values
    return array.astype(np.int64) if all(isinstance(size, int | np.integer) for size in array.flat) else Sizes(array)


def compute_with_sizes(node: Node, operands: Sequence[object]) -> object | None:
    """The result of a node that has sizes among its operands, and numbers besides; None where it has to compute with a tensor.

    Raises:
        UndecidedError: if it compares sizes, and what comes of it depends on the values of variables.
    """
    compute = _BY_OPERATOR.get(node.operator)
    arrays = [_get_array(value) for value in operands]
    if compute is None or node.domain != DEFAULT_DOMAIN or any(array is None for array in arrays):
        return None
    return compute(node.attributes, *arrays)


def _get_array(value: object) -> np.ndarray | None:
    """Objects, which compute as Python's integers do and not as those of 64 bits."""
    if isinstance(value, Sizes):
        return value.array
    if not isinstance(value, np.ndarray):
        return None
    array = cast("np.ndarray", value)
    return array.astype(object) if array.dtype.kind in "iub" else None


_Attributes = Mapping[str, Any]


def _elementwise(compute: Callable[..., Any]) -> Callable[..., object]:
    """A function of arrays that computes each element by itself."""

    def run(_: _Attributes, *arrays: np.ndarray) -> object:
        rows = np.broadcast_arrays(*arrays)
        made = np.empty(rows[0].shape, object)
        for place in np.ndindex(made.shape):
            made[place] = compute(*(row[place] for row in rows))
        return make_sizes(made)

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
    """Rounded towards zero in ONNX, and down here: the same where neither is negative."""
    if a < 0 or b <= 0:
        raise ValueError(f"a quotient of sizes may be negative: {a} / {b}")
    return a // b


def _get_remainder(a: Any, b: Any) -> Any:
    if a < 0 or b <= 0:
        raise ValueError(f"a remainder of sizes may be negative: {a} % {b}")
    return a % b


def _cast(attributes: _Attributes, array: np.ndarray) -> object | None:
    """Between the integers that hold any size; floats are left to tensors."""
    return make_sizes(array) if attributes.get("to") in _WIDE_INTEGERS else None


_WIDE_INTEGERS: Final = (6, 7)  # onnx.TensorProto.INT32 and INT64


def _gather(attributes: _Attributes, array: np.ndarray, places: np.ndarray) -> object | None:
    if any(not isinstance(place, int) for place in places.flat):
        return None
    return make_sizes(array.take(places.astype(np.int64), axis=attributes.get("axis", 0)))


def _slice(attributes: _Attributes, array: np.ndarray, *bounds: np.ndarray) -> object | None:
    """Of one axis, from version 10 on: starts, ends, axes, steps."""
    if array.ndim != 1 or any(not isinstance(place, int) for row in bounds for place in row.flat):
        return None
    if bounds:
        start, end = (row.item() for row in bounds[:2])
        step = bounds[3].item() if len(bounds) > 3 else 1
    else:
        start, end, step = attributes["starts"][0], attributes["ends"][0], 1
    # A backward slice to before the first element has an end that Python would count from the last one.
    return make_sizes(array[start : None if step < 0 and end < -array.size else end : step])


def _unsqueeze(attributes: _Attributes, array: np.ndarray, axes: np.ndarray | None = None) -> object:
    wanted = attributes["axes"] if axes is None else axes.tolist()
    return make_sizes(np.expand_dims(array, tuple(wanted)))


def _squeeze(attributes: _Attributes, array: np.ndarray, axes: np.ndarray | None = None) -> object:
    wanted = attributes.get("axes") if axes is None else axes.tolist()
    return make_sizes(np.squeeze(array, None if wanted is None else tuple(wanted)))


def _reshape(attributes: _Attributes, array: np.ndarray, shape: np.ndarray | None = None) -> object | None:
    wanted = attributes.get("shape") if shape is None else shape.tolist()
    if wanted is None or any(not isinstance(size, int) or size == 0 for size in wanted):
        return None
    return make_sizes(array.reshape(wanted))


def _concatenate(attributes: _Attributes, *arrays: np.ndarray) -> object:
    return make_sizes(np.concatenate(arrays, axis=attributes.get("axis", 1)))


def _choose(_: _Attributes, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> object:
    return _elementwise(_pick)({}, condition, a, b)


def _pick(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _keep(size: Any) -> Any:
    return size


def _multiply_all(attributes: _Attributes, array: np.ndarray, axes: np.ndarray | None = None) -> object | None:
    wanted = attributes.get("axes") if axes is None else axes.tolist()
    if array.ndim != 1 or (wanted is not None and list(wanted) not in ([0], [-1])):
        return None
    product: Any = 1
    for size in array:
        product = size * product
    return make_sizes([product] if attributes.get("keepdims", 1) else product)


def _make_range(_: _Attributes, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> object | None:
    first, last, step = start.item(), limit.item(), delta.item()
    if not isinstance(first, int) or step != 1:
        return None
    count = last - first
    if count < 0:
        raise ValueError(f"a range of {count} elements")
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
    "Identity": _elementwise(_keep),
    "Equal": _comparison(_are_equal),
    "Less": _comparison(operator.lt),
    "LessOrEqual": _comparison(operator.le),
    "Greater": _comparison(operator.gt),
    "GreaterOrEqual": _comparison(operator.ge),
    "Where": _choose,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Concat": _concatenate,
    "ReduceProd": _multiply_all,
    "Range": _make_range,
}
"""By operator what it does to sizes: a function of its attributes and of arrays of objects, which gives None where it cannot."""
