"""Slicing, padding, rolling, diagonals and triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from svod_dtype import bool_, int64
from svod_ir import (
    AxisError,
    Op,
    OperandError,
    ShapeError,
    SInt,
    UOp,
    format_shape,
    make_alu,
    make_broadcasted_iota,
    make_pad,
)
from svod_ir.sizes import normalize_size
from svod_ir.uop import to_node
from svod_tensor._data import make_constant
from svod_tensor._shapes import (
    Axes,
    Shape,
    broadcast_node,
    check_within,
    concrete_shape,
    normalize_axes,
    to_shape,
)
from svod_tensor.cells.views import Shrink
from svod_tensor.ops.core.operands import slice_axis
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from svod_tensor.ops.core.base import Amounts
    from svod_tensor.tensor import Tensor


__all__ = [
    "PadMode",
    "diag",
    "diagonal",
    "pad",
    "roll",
    "shrink",
    "tril",
    "triu",
]


PadMode: TypeAlias = Literal[
    "constant", "edge", "replicate", "reflect", "symmetric", "wrap", "circular"
]
"""Modes of `pad`."""

_PAD_MODES: Final[dict[str, Literal["edge", "reflect", "symmetric", "wrap"]]] = {
    "edge": "edge",
    "replicate": "edge",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "wrap": "wrap",
    "circular": "wrap",
}


@operation(test="test_operations.py::test_shrink_agrees_with_slices_of_numpy", is_function=False)
def shrink(x: Tensor, /, *bounds: tuple[SInt, SInt] | None) -> Tensor:
    """Slice each axis to [begin, end), as a view.

    Args:
        bounds: a pair `(begin, end)` for each axis; None keeps the whole axis.

    Raises:
        ShapeError: if the number of pairs differs from the number of axes, or bounds are out of
            range.
        SymbolicBoundsError: if a bound is out of range for some values of the variables.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1, 2, 3], [4, 5, 6]]).shrink(None, (1, 3)).tolist()
        [[2, 3], [5, 6]]
    """
    if len(bounds) != x.ndim:
        raise ShapeError(
            operation="shrink",
            shape=x.shape,
            problem=f"expected {x.ndim} pairs of bounds, one per axis, got {len(bounds)}",
        )
    pairs = tuple((0, s) if b is None else b for s, b in zip(x.shape, bounds, strict=True))
    for axis, (size, (begin, end)) in enumerate(zip(x.shape, pairs, strict=True)):
        if not all(isinstance(n, int) for n in (size, begin, end)):
            # Symbolic bounds are checked by their ranges; SHRINK itself checks integers.
            check_within("shrink", axis, begin, 0, end)
            check_within("shrink", axis, end, begin, size)
    return x.along(Shrink(x.shape, pairs))


@operation(test="test_movement.py::test_padding_takes_any_value")
def pad(
    x: Tensor,
    /,
    *padding: Amounts | Sequence[Amounts],
    mode: PadMode = "constant",
    constant_values: complex = 0,
) -> Tensor:
    """Pad each axis with `constant_values` or elements of the tensor; negative widths crop.

    Args:
        padding: a pair `(before, after)` for each axis, as separate arguments or a sequence; a single
            pair applies to all axes, and an integer to both sides, as in numpy. None does not pad
            an axis.
        mode: `"constant"`; `"edge"` (or `"replicate"`) repeats the edge element, `"reflect"` mirrors
            without the edge element, `"symmetric"` mirrors with it, `"wrap"` (or `"circular"`)
            continues at the opposite end.
        constant_values: the padding value, converted to the dtype of `x`.

    Raises:
        ShapeError: if the number of pairs differs from the number of axes, or an axis to extend is
            empty.
        OperandError: if the mode is unknown.
        IntegerOverflowError: if the padding value is out of range for the dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.pad(sv.Tensor([[1, 2]]), ((0, 1), (1, 0)), constant_values=9).tolist()
        [[9, 1, 2], [9, 9, 9]]
    """
    # Cropping comes first, so that the other modes repeat elements that remain.
    pairs = _to_pairs(padding, x.shape)
    cropped = _crop(x, pairs)
    if not isinstance(mode, str) or mode != "constant":  # pyright: ignore[reportUnnecessaryIsInstance]
        return _repeat_around(cropped, pairs, mode)
    pairs = tuple((_positive_part(i, b), _positive_part(i, a)) for i, (b, a) in enumerate(pairs))
    return x.from_uop(_pad_node(cropped.uop, pairs, make_constant(constant_values, x.dtype)))


def _crop(x: Tensor, pairs: Sequence[tuple[SInt, SInt]]) -> Tensor:
    if not any(isinstance(n, int) and n < 0 for pair in pairs for n in pair):
        return x
    bounds: list[tuple[SInt, SInt]] = []
    for size, (before, after) in zip(x.shape, pairs, strict=True):
        begin = -before if isinstance(before, int) and before < 0 else 0
        bounds.append((begin, size + after if isinstance(after, int) and after < 0 else size))
    return x.shrink(*bounds)


@operation(
    test="test_movement.py::test_rolls_triangles_and_diagonals_agree_with_numpy", standard=True
)
@reuse_graph
def roll(x: Tensor, /, shift: int | Sequence[int], axis: Axes = None) -> Tensor:
    """Roll elements by `shift` along an axis; elements beyond the end reappear at the start.

    Args:
        shift: number of indices to shift by, or one for each axis.
        axis: the axis or axes to roll along; None rolls the flattened tensor.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if the number of shifts differs from the number of axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.roll(sv.Tensor([1, 2, 3, 4]), 1).tolist()
        [4, 1, 2, 3]
    """
    if axis is None:
        # As in numpy, None rolls elements across rows.
        return x.flatten().roll(shift, 0).reshape(x.shape) if x.ndim else x.clone()
    axes = normalize_axes("roll", axis, x.ndim)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ShapeError(
            operation="roll",
            shape=shifts,
            problem=f"shift {shifts} and axis {axes} must have the same length",
        )
    result = x.clone()
    for amount, a in zip(shifts, axes, strict=True):
        size = x.shape[a]
        # The result starts with the element at `cut`: two slices, exchanged.
        cut = normalize_size(-amount % _at_least_one(size))
        if not isinstance(cut, int) or cut:
            result = slice_axis(result, a, cut, size).concat(slice_axis(result, a, 0, cut), axis=a)
    return result


@operation(
    test="test_movement.py::test_rolls_triangles_and_diagonals_agree_with_numpy",
    standard="linalg.diagonal",
)
def diagonal(x: Tensor, /, offset: int = 0) -> Tensor:
    """Return the diagonals `[..., i, i + offset]` of the last two axes, as a copy of shape (..., n).

    Args:
        offset: index of the diagonal: 0 is the main diagonal, positive values are above it.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.diagonal(sv.Tensor([[1, 2, 3], [4, 5, 6]])).tolist()
        [1, 5]
    """
    if x.ndim < 2:
        raise AxisError(operation="diagonal", axis=-2, ndim=x.ndim)
    # Cropping rows or columns makes it the main diagonal.
    if offset:
        axis = x.ndim - (1 if offset > 0 else 2)
        size = x.shape[axis]
        begin = abs(offset) if isinstance(size, UOp) else min(abs(offset), size)
        return slice_axis(x, axis, begin, size).diagonal()
    rows, columns = x.shape[-2:]
    n = normalize_size(to_node(rows).minimum(columns))
    batch = x.shape[:-2]
    # In rows of n + 1 elements, the diagonal, whose elements are n + 1 apart, is the first column.
    square = x.shrink(*(None,) * len(batch), (0, n), (0, n)).reshape(*batch, n * n)
    padded = square.pad(*((0, 0),) * len(batch), (0, n)).reshape(*batch, n, n + 1)
    return slice_axis(padded, len(batch) + 1, 0, 1).squeeze(-1).clone()


@operation(test="test_movement.py::test_diagonals_become_matrices")
@reuse_graph
def diag(x: Tensor, /, k: int = 0) -> Tensor:
    """Construct a diagonal matrix from a 1-d tensor, or extract the `k`-th diagonal of a 2-d tensor.

    Args:
        k: index of the diagonal: 0 is the main diagonal, positive values are above it.

    Raises:
        ShapeError: if the tensor is not 1-d or 2-d.

    Example:
        >>> import svod_tensor as sv
        >>> sv.diag(sv.Tensor([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    if x.ndim == 2:
        return x.diagonal(k)
    if x.ndim != 1:
        raise ShapeError(
            operation="diag",
            shape=x.shape,
            problem=f"input must be 1- or 2-d: {format_shape(x.shape)}",
        )
    rows = x.pad((max(-k, 0), max(k, 0)))
    # The padded vector has the size of the matrix: its element i is in row i.
    index = x.arange(rows.shape[0])
    # An integer 0 would promote booleans.
    zero = False if x.dtype.is_bool else 0
    return index.unsqueeze(1).add(k).eq(index).where(rows.unsqueeze(1), zero)


@operation(
    test="test_movement.py::test_rolls_triangles_and_diagonals_agree_with_numpy", standard=True
)
@reuse_graph
def triu(x: Tensor, /, k: int = 0) -> Tensor:
    """Upper triangle of the last two axes: zeros below the `k`-th diagonal.

    Diagonal 0 is the main diagonal, positive ones are above it.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.triu(sv.Tensor([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]
    """
    return _triangle(x, "triu", k, is_upper=True)


@operation(
    test="test_movement.py::test_rolls_triangles_and_diagonals_agree_with_numpy", standard=True
)
@reuse_graph
def tril(x: Tensor, /, k: int = 0) -> Tensor:
    """Lower triangle of the last two axes: zeros above the `k`-th diagonal.

    Diagonal 0 is the main diagonal, positive ones are above it.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tril(sv.Tensor([[1, 2], [3, 4]]), k=-1).tolist()
        [[0, 0], [3, 0]]
    """
    return _triangle(x, "tril", k, is_upper=False)


def _triangle(x: Tensor, operation: str, k: int, *, is_upper: bool) -> Tensor:
    if x.ndim < 2:
        raise AxisError(operation=operation, axis=-2, ndim=x.ndim)
    rows, columns = x.shape[-2:]
    # WHERE and not a product with a mask: 0 * inf would be NaN.
    row = make_broadcasted_iota((rows, columns), 0, int64) + UOp.const(int64, k)
    column = make_broadcasted_iota((rows, columns), 1, int64)
    keep = make_alu(Op.LE, row, column) if is_upper else make_alu(Op.LE, column, row)
    mask = broadcast_node(keep, x.shape)
    return x.from_uop(make_alu(Op.WHERE, mask, x.uop, make_constant(0, x.dtype)))


def _repeat_around(x: Tensor, pairs: Sequence[tuple[SInt, SInt]], mode: str) -> Tensor:
    """Pad with elements of the tensor."""
    import numpy as np

    known = _PAD_MODES.get(mode) if isinstance(mode, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if known is None:
        raise OperandError(
            operation="pad",
            found=f"mode={mode!r}",
            expected=f"one of the modes {', '.join(('constant', *_PAD_MODES))}",
        )
    for axis, pair in enumerate(pairs):
        before, after = (max(n, 0) for n in concrete_shape("pad", pair))
        if not (before or after):
            continue
        (size,) = concrete_shape("pad", (x.shape[axis],))
        if not size:
            raise ShapeError(
                operation="pad",
                shape=x.shape,
                problem=f"cannot extend the empty axis {axis} with mode {mode!r}",
                hint='write mode="constant"',
            )
        # numpy pads the indices, so that all modes have its semantics, also for widths above the
        # size.
        x = x.take(np.pad(np.arange(size), (before, after), known), axis)
    return x


def _to_pairs(
    padding: Sequence[Amounts | Sequence[Amounts]], shape: Shape
) -> tuple[tuple[SInt, SInt], ...]:
    """Normalize padding to a pair (before, after) for each axis."""
    items: Sequence[object] = padding
    if (
        len(padding) == 1
        and _is_sequence(padding[0])
        and any(p is None or _is_sequence(p) for p in padding[0])
    ):
        items = padding[0]
    if len(items) > 1 and any(isinstance(p, (int, UOp)) for p in items):
        raise OperandError(
            operation="pad",
            found=items,
            expected="a pair (before, after) for each axis",
            hint=_explain_numbers(items),
        )
    pairs = tuple(_to_pair(p) for p in items)
    pairs = pairs * len(shape) if len(pairs) == 1 else pairs
    if len(pairs) != len(shape):
        raise ShapeError(
            operation="pad",
            shape=shape,
            problem=f"expected {len(shape)} pairs of widths, one per axis, got {len(pairs)}",
        )
    return pairs


def _explain_numbers(widths: Sequence[object]) -> str | None:
    """Hint for separate integers, which are ambiguous: torch and numpy differ."""
    if not all(isinstance(p, int) for p in widths):
        return None
    each = ", ".join(f"({p}, {p})" for p in widths)
    every = (
        f"write x.pad({tuple(widths)}) to pad every axis by (before, after), or "
        if len(widths) == 2
        else "write "
    )
    return f"{every}x.pad({each}) to pad each axis on both sides"


def _to_pair(amounts: object) -> tuple[SInt, SInt]:
    sizes: Any = tuple(amounts) if _is_sequence(amounts) else (0 if amounts is None else amounts,)
    values = to_shape("pad", sizes)
    if len(values) not in (1, 2):
        raise OperandError(
            operation="pad", found=amounts, expected="a pair (before, after) for each axis"
        )
    return values[0], values[-1]


def _is_sequence(value: object) -> TypeIs[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _positive_part(axis: int, amount: SInt) -> SInt:
    if isinstance(amount, int):
        return max(amount, 0)
    check_within("pad", axis, amount, 0, None)
    return amount


def _at_least_one(size: SInt) -> SInt:
    """Replace a size of 0 by 1, for use as a divisor."""
    return max(size, 1) if isinstance(size, int) else size.maximum(1)


def _pad_node(node: UOp, pairs: Sequence[tuple[SInt, SInt]], value: UOp) -> UOp:
    if any(isinstance(s, int) and s == 0 for s in node.shape):
        # An empty tensor can still have a non-empty result, which consists of padding only.
        shape = tuple(s + b + a for s, (b, a) in zip(node.shape, pairs, strict=True))
        return broadcast_node(value, shape)
    padded = make_pad(node, pairs)
    # PAD fills with zeros; -0.0 needs a mask like any other value.
    if padded is node or _is_positive_zero(value):
        return padded
    inside = make_pad(broadcast_node(UOp.const(bool_, True), node.shape), pairs)
    return make_alu(Op.WHERE, inside, padded, value)


def _is_positive_zero(value: UOp) -> bool:
    return value.arg == 0 and not (
        isinstance(value.arg, float) and math.copysign(1.0, value.arg) < 0
    )
