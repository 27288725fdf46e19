"""Constants, ranges and grids. `dtype` and `device` are keyword-only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from svod_dtype import DType, default_float, float64, int64, to_dtype
from svod_ir import (
    Op,
    OperandError,
    ShapeError,
    SInt,
    UOp,
    format_shape,
    make_alu,
    make_cast,
    make_expand,
    make_iota,
    make_reshape,
)
from svod_ir.sizes import bounds_of_size, max_size, normalize_size, product
from svod_ir.uop import to_node
from svod_tensor._data import (
    check_scalar,
    copy_to_device,
    default_int_dtype,
    make_constant,
    make_node,
)
from svod_tensor._memory_views import view_prefix
from svod_tensor._shapes import Shape, broadcast_shapes, to_shape
from svod_tensor._shards import place_like
from svod_tensor.engine import memory_nodes
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.ops.core.operation import operation, static_operation
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand

__all__ = [
    "arange",
    "check_sizes",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


@static_operation(
    test="test_operations.py::test_constants_have_their_value_in_every_element", standard=True
)
def full(
    shape: SInt | Sequence[SInt],
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return a new tensor filled with `fill_value`; it takes no memory until it is realized.

    Args:
        shape: the shape: an integer or a sequence of integers.
        fill_value: a number.
        dtype: dtype of the elements; by default the dtype of `Tensor(fill_value)`.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.
        IntegerOverflowError: if the value is out of range for `dtype`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.full((2, 3), 7).tolist()
        [[7, 7, 7], [7, 7, 7]]
    """
    sizes = check_sizes("full", to_shape("full", (shape,)))
    node = (
        make_node(fill_value, None) if dtype is None else make_constant(fill_value, to_dtype(dtype))
    )
    return _place(_fill(node, sizes), device)


@static_operation(
    test="test_operations.py::test_constants_have_their_value_in_every_element",
    standard=True,
    is_variadic=True,
)
def zeros(
    shape: SInt | Sequence[SInt], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a new tensor filled with zeros; it takes no memory until it is realized.

    Args:
        shape: the shape: an integer or a sequence of integers.
        dtype: dtype of the elements; by default float32.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.zeros((2, 3)).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return full(
        to_shape("zeros", (shape,)), 0, dtype=float if dtype is None else dtype, device=device
    )


@static_operation(
    test="test_operations.py::test_constants_have_their_value_in_every_element",
    standard=True,
    is_variadic=True,
)
def ones(
    shape: SInt | Sequence[SInt], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a new tensor filled with ones; it takes no memory until it is realized.

    Args:
        shape: the shape: an integer or a sequence of integers.
        dtype: dtype of the elements; by default float32.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ones((2, 2), dtype=sv.int8).tolist()
        [[1, 1], [1, 1]]
    """
    return full(
        to_shape("ones", (shape,)), 1, dtype=float if dtype is None else dtype, device=device
    )


@static_operation(
    test="test_creation.py::test_empty_has_memory_that_can_be_filled",
    standard=True,
    is_variadic=True,
)
def empty(
    shape: SInt | Sequence[SInt], *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a new uninitialized tensor with its own memory, such as an input to be filled.

    Args:
        shape: the shape: an integer or a sequence of integers.
        dtype: dtype of the elements; by default float32.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if a size is negative.
        UnknownDeviceError: if no installed backend provides the device.

    Example:
        >>> import svod_tensor as sv
        >>> sv.empty((2, 3)).shape
        (2, 3)
    """
    from svod_tensor import _storage as storage

    sizes = check_sizes("empty", to_shape("empty", (shape,)))
    kind, name = (
        to_dtype(float if dtype is None else dtype),
        storage.check_device(device or DEFAULT_DEVICE),
    )
    if product(sizes) == 0:
        return zeros(sizes, dtype=kind, device=device)
    inner = kind.part
    capacity = math.prod(max_size(s) for s in sizes) * (kind.itemsize // inner.itemsize)
    # Symbolic sizes get the memory of their largest values, and complex elements that of two
    # numbers each.
    node = memory_nodes.make_memory(inner, capacity, name, storage.allocate(name, inner, capacity))
    return Tensor.from_uop(view_prefix(node, sizes, kind), owns=True)


@operation(test="test_creation.py::test_empty_has_memory_that_can_be_filled", standard=True)
def empty_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a new uninitialized tensor with its own memory and the shape of `x`.

    Args:
        dtype: dtype of the result; by default the dtype of `x`.
        device: device of the result; by default the device of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.empty_like(sv.Tensor([[1, 2], [3, 4]])).shape
        (2, 2)
    """
    dtype = x.dtype if dtype is None else to_dtype(dtype)
    if device is None and x.sharding is not None:
        # Memory is allocated on one device; zeros are filled on each device of the sharding.
        return x.zeros_like(dtype=dtype)
    return empty(x.shape, dtype=dtype, device=str(x.device) if device is None else device)


@operation(test="test_devices.py::test_like_functions_keep_the_device", standard=True)
def full_like(
    x: Tensor, /, fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return a tensor filled with `fill_value`, with the shape, dtype and device of `x`.

    Args:
        fill_value: a number.
        dtype: dtype of the result; by default the dtype of `x`.
        device: device of the result; by default the device of `x`.

    Raises:
        IntegerOverflowError: if the value is out of range for the dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.full_like(sv.Tensor([1, 2]), 9).tolist()
        [9, 9]
    """
    result = full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)
    # Operands must be on the same devices, so that the result follows `x`, and not the default
    # device.
    return result if device is not None else x.from_uop(place_like(result.uop, x.uop))


@operation(test="test_devices.py::test_like_functions_keep_the_device", standard=True)
def zeros_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return zeros with the shape of `x`; `dtype` and `device` are by default the dtype and device
    of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.zeros_like(sv.Tensor([1, 2])).tolist()
        [0, 0]
    """
    return x.full_like(0, dtype=dtype, device=device)


@operation(test="test_devices.py::test_like_functions_keep_the_device", standard=True)
def ones_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return ones with the shape of `x`; `dtype` and `device` are by default the dtype and device
    of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ones_like(sv.Tensor([1, 2]), dtype="float32").tolist()
        [1.0, 1.0]
    """
    return x.full_like(1, dtype=dtype, device=device)


@static_operation(test="test_creation.py::test_arange_agrees_with_numpy", standard=True)
def arange(
    start: SInt | float,
    /,
    stop: SInt | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return evenly spaced values in the half-open interval [start, stop), as a 1-d tensor.

    Args:
        start: start of the interval; a single argument is `stop`, with a start of 0.
        stop: end of the interval, which is excluded.
        step: spacing between values, which may be negative.
        dtype: by default float32 if one of the three is a float, else int32, or a wider integer
            dtype where the values do not fit.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if the step is 0.
        IntegerOverflowError: if a value is out of range for `dtype`.
        OperandError: if `dtype` is not numeric.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arange(3).tolist(), sv.arange(1, 2, 0.25).tolist()
        ([0, 1, 2], [1.0, 1.25, 1.5, 1.75])
    """
    start, stop = (0, start) if stop is None else (start, stop)
    has_floats = any(isinstance(v, float) for v in (start, stop, step))
    if step == 0:
        raise ShapeError(
            operation="arange", shape=(start, stop, step), problem="step must not be zero"
        )
    count = _count_steps(start, stop, step)
    # The last value, not `stop`: `arange(0, 128, 2, dtype="int8")` ends with 126, which fits.
    last = start + max(max_size(count) - 1, 0) * step
    kind = (
        (default_float() if has_floats else _arange_dtype(start, last))
        if dtype is None
        else to_dtype(dtype)
    )
    # Before the check of the values: an empty range has none.
    if isinstance(count, int) and count == 0:
        return zeros(0, dtype=kind, device=device)
    if kind.is_bool:
        raise OperandError(operation="arange", found=kind, expected="a numeric dtype")
    for value in (*_extremes(start), *_extremes(last)):
        check_scalar(value, kind)
    # Floats are computed in float64, so that every element is rounded once; integers may wrap in
    # intermediate results.
    inner = float64 if has_floats or kind.is_inexact else kind
    node = make_cast(make_iota(count, int64 if inner is float64 else kind), inner)
    node = make_alu(Op.MUL, node, UOp.const(inner, step)) if step != 1 else node
    first = start.cast(inner) if isinstance(start, UOp) else UOp.const(inner, start)
    node = make_alu(Op.ADD, node, first) if isinstance(start, UOp) or start != 0 else node
    return _place(node.cast(kind), device)


@static_operation(
    test="test_creation.py::test_linspace_eye_and_meshgrid_agree_with_numpy", standard=True
)
def linspace(
    start: complex,
    stop: complex,
    /,
    num: SInt,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop`, as a 1-d tensor.

    Args:
        start: the first value.
        stop: the last value, unless `endpoint` is False.
        num: number of values.
        dtype: dtype of the elements, by default float32, or complex64 between complex numbers; the
            values are computed in float64.
        device: the device; by default the one that `SVOD_DEVICE` names.
        endpoint: whether `stop` is the last value.

    Raises:
        ShapeError: if `num` is negative.
        OperandError: if the bounds are complex and `dtype` is not.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    kind = to_dtype((complex if is_complex else float) if dtype is None else dtype)
    make = Tensor.from_uop
    if is_complex:
        if not kind.is_complex:
            raise OperandError(
                operation="linspace", found=kind, expected="a complex dtype for complex bounds"
            )
        pairs = (start.real, stop.real), (start.imag, stop.imag)
        # Each part ends at exactly its bound.
        x, y = (
            linspace(a, b, num, endpoint=endpoint, dtype=float64, device=device) for a, b in pairs
        )
        return x.complex(y).cast(kind)
    (num,) = check_sizes("linspace", to_shape("linspace", (num,)))
    if isinstance(num, int) and num == 0:
        return zeros(0, dtype=kind, device=device)
    # As in numpy, the index times the step: sums of steps would add up their rounding errors.
    index = make(make_cast(make_iota(num, int64), float64))
    last = num - 1
    steps = last if endpoint else num
    if isinstance(steps, int):
        result = index.mul((stop - start) / steps if steps else 0.0).add(start)
    else:
        distance = Tensor(stop - start, dtype=float64).div(make(steps.maximum(1).cast(float64)))
        result = index.mul(distance).add(start)
    if endpoint and isinstance(last, UOp):
        # With num = 1 the only value is `start`, even though its index is the last.
        is_last = index.eq(make(last.cast(float64))).bitwise_and(index.gt(0))
        result = is_last.where(stop.real, result)
    elif endpoint and isinstance(last, int) and last:
        # As in numpy: the product with the rounded step may differ from `stop` in the last bit.
        result = index.eq(float(last)).where(stop.real, result)
    return _place(result.cast(kind).uop, device)


@static_operation(
    test="test_creation.py::test_linspace_eye_and_meshgrid_agree_with_numpy", standard=True
)
def eye(
    n_rows: SInt,
    n_cols: SInt | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return a 2-d tensor with ones on the `k`-th diagonal and zeros elsewhere.

    Args:
        n_rows: number of rows.
        n_cols: number of columns; by default `n_rows`.
        k: index of the diagonal: 0 is the main diagonal, positive values are above it.
        dtype: dtype of the elements; by default float32.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Example:
        >>> import svod_tensor as sv
        >>> sv.eye(2, 3, k=1).tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    make = Tensor.from_uop
    n_rows, n_cols = check_sizes(
        "eye", to_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    )
    row = make(make_iota(n_rows, int64)).unsqueeze(1)
    column = make(make_iota(n_cols, int64)).unsqueeze(0)
    return _place(row.add(k).eq(column).cast(float if dtype is None else dtype).uop, device)


@static_operation(
    test="test_creation.py::test_linspace_eye_and_meshgrid_agree_with_numpy", standard=True
)
def meshgrid(*arrays: Operand, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return coordinate tensors from 1-d coordinate vectors, one for each of `arrays`.

    Args:
        arrays: 1-d tensors with the coordinates along each axis of the grid.
        indexing: `"ij"` (matrix) for results of shape (n0, n1, ...), `"xy"` (Cartesian) with the
            first two axes exchanged.

    Raises:
        OperandError: if `indexing` is neither.

    Example:
        >>> import svod_tensor as sv
        >>> x, y = sv.meshgrid(sv.Tensor([1, 2, 3]), sv.Tensor([10, 20]))
        >>> x.tolist(), y.tolist()
        ([[1, 2, 3], [1, 2, 3]], [[10, 10, 10], [20, 20, 20]])
    """
    if indexing not in ("xy", "ij"):
        raise OperandError(
            operation="meshgrid", found=repr(indexing), expected='indexing to be "xy" or "ij"'
        )
    axes = [to_tensor(array) for array in arrays]
    n = len(axes)
    # "xy" is numpy's default, "ij" that of torch.
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    views = [
        a.reshape(tuple(-1 if i == order[k] else 1 for i in range(n))) for k, a in enumerate(axes)
    ]
    shape = broadcast_shapes(*(v.shape for v in views))
    # Copies, as in numpy: a broadcast view repeats elements, and would be read-only.
    return tuple(v.broadcast_to(shape).clone() for v in views)


def _place(node: UOp, device: str | None) -> Tensor:
    return Tensor.from_uop(node if device is None else copy_to_device(node, device))


def check_sizes(operation: str, shape: Shape) -> Shape:
    """Check that no size of `shape` is negative, and return it.

    Raises:
        ShapeError: if a size is negative.
    """
    if any(isinstance(s, int) and s < 0 for s in shape):
        problem = f"negative dimensions are not allowed: {format_shape(shape)}"
        raise ShapeError(operation=operation, shape=shape, problem=problem)
    return shape


def _fill(node: UOp, sizes: Shape) -> UOp:
    # An expanded constant needs no memory, and is inlined into the kernels that read it.
    return make_expand(make_reshape(node, (1,) * len(sizes)), sizes) if sizes else node


def _count_steps(start: SInt | float, stop: SInt | float, step: int | float) -> SInt:
    """Number of values in the half-open interval [start, stop)."""
    if isinstance(start, UOp) or isinstance(stop, UOp):
        if any(isinstance(v, float) for v in (start, stop, step)):
            raise OperandError(
                operation="arange",
                found=(start, stop, step),
                expected="integers with symbolic bounds",
            )
        distance = (stop - start) if step > 0 else (start - stop)
        size = int(abs(step))
        return normalize_size((to_node(cast("SInt", distance)) + (size - 1)).maximum(0) // size)
    # Python's integers are exact; a quotient of floats is not above 2**53.
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return len(range(start, stop, step))
    distance = (stop - start) / step
    if not math.isfinite(distance):
        raise ShapeError(
            operation="arange",
            shape=(start, stop, step),
            problem=f"cannot compute the length of arange({start}, {stop}, {step})",
        )
    return max(0, math.ceil(distance))


def _extremes(value: SInt | float) -> tuple[int | float, ...]:
    return bounds_of_size(value) if isinstance(value, UOp) else (value,)


def _arange_dtype(start: SInt | float, last: SInt | float) -> DType:
    values = [*_extremes(start), *_extremes(last)]
    return default_int_dtype(int(min(values)), int(max(values)))
