"""Checked constructors of nodes, with cheap constant folding.

Folding here is limited to integer constants and to identities that graphs would otherwise be full
of; simplification proper is in `svod_schedule.symbolic`.

Example:
    >>> from svod_dtype import complex64, float32, int32
    >>> from svod_ir import BufferArg, Op, UOp, build
    >>> x = build.make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU")), (3, 4))
    >>> build.make_permute(x, (1, 0)).shape, build.make_shrink(x, ((0, 2), (1, 4))).shape
    ((4, 3), (2, 3))
    >>> build.make_pad(x, ((0, 1), (2, 0))).shape, build.make_flip(x, (True, False)).shape
    ((4, 6), (3, 4))
    >>> build.make_expand(build.make_reshape(x, (3, 4, 1)), (3, 4, 5)).shape
    (3, 4, 5)
    >>> build.make_reduce_axis(x, Op.MAX, (0, 1)).shape, build.make_scan_axis(x, Op.ADD, 1).shape
    ((1, 1), (3, 4))
    >>> build.make_cast(x, int32).dtype, build.make_alu(Op.ADD, x, x).op, build.make_constant_like(x, 2.0).dtype
    (int32, ADD, float32)
    >>> rows = build.make_iota(2, int32)
    >>> build.make_gather(x, build.make_expand(build.make_reshape(rows, (2, 1)), (2, 4)), 0).shape
    (2, 4, 4)
    >>> z = build.make_complex(x, x)
    >>> z.dtype, build.make_real(z).dtype, build.make_imag(z).shape, build.make_as_real(z).shape
    (complex64, float32, (3, 4), (3, 4, 2))
    >>> build.make_as_complex(build.make_as_real(z)).shape, build.make_copy(x, "CPU:1").shape
    ((3, 4), (3, 4))
    >>> build.make_check(rows, "take", axis=0, size=3).shape
    (2,)
    >>> build.with_sizes(Op.SHRINK, x, (0, UOp.variable("n", 1, 3), 0, 4)).arg
    (0, None, 0, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from svod_dtype import DType, bool_, complex64, complex128, float32, float64, void
from svod_ir._constant import evaluate_scalar
from svod_ir._size_text import format_shape, format_size
from svod_ir.args import CheckArg, ReduceArg, ScanArg, ScatterArg
from svod_ir.errors import AxisError, OperandError, ShapeError
from svod_ir.ops import BINARY, COMPARISON, DTYPE_CLASSES, TABLE, UNARY, Op, takes
from svod_ir.sizes import normalize_size, product
from svod_ir.uop import SInt, UOp, defines

__all__ = [
    "make_alu",
    "make_as_complex",
    "make_as_real",
    "make_cast",
    "make_check",
    "make_complex",
    "make_constant_like",
    "make_copy",
    "make_expand",
    "make_flip",
    "make_gather",
    "make_imag",
    "make_iota",
    "make_pad",
    "make_permute",
    "make_real",
    "make_reduce_axis",
    "make_reshape",
    "make_scan_axis",
    "make_scatter",
    "make_scatter_add",
    "make_shrink",
    "with_sizes",
]

# Ops that accept any dtype need no check.
_RESTRICTED = {op: row.takes for op, row in TABLE.items() if row.takes != "any"}
_EXPECTED = {
    "float": "floating-point numbers",
    "integer": "integers",
    "bits": "bool or integers",
    "uint64": "uint64",
}
_SHIFTS = frozenset({Op.SHL, Op.SHR})
_UNEVEN = _SHIFTS | {Op.WHERE}
# Associative ops whose constants are moved to the right and merged.
_REGROUPED = frozenset({Op.ADD, Op.MUL})
# Cached: reading a member from the enum takes longer than the comparison.
_CONST, _WHERE = Op.CONST, Op.WHERE


@defines("cast")
def make_cast(x: UOp, dtype: DType) -> UOp:
    """Cast `x` to the scalar type of `dtype`, keeping the lanes of `x`; constants are folded.

    Raises:
        OperandError: if `x` is complex and the target is neither complex nor bool.
    """
    # Callers name the scalar; the number of lanes is the same as in the operand.
    target = dtype.vec(x.dtype.lanes) if dtype.lanes == 1 else dtype
    if x.dtype is target:
        return x
    if x.dtype.is_complex and not (target.is_complex or target.is_bool):
        raise OperandError(
            operation="cast",
            found=x.dtype,
            expected=f"real numbers, to be cast to {target}",
            hint="take a part: x.real or x.imag, or x.abs()",
        )
    # `evaluate_scalar` has no complex numbers; `UOp.const` converts the value.
    if x.op is Op.CONST and target.is_complex:
        return UOp.const(target, x.arg)
    if x.op is Op.CONST:
        folded = evaluate_scalar(Op.CAST, target, (x.arg,))
        if folded is not None:
            return UOp.const(target, folded)
    return UOp(Op.CAST, target, (x,))


@defines("alu")
def make_alu(op: Op, *operands: UOp) -> UOp:
    """An elementwise node, its operands checked and integer constants folded.

    Raises:
        OperandError: if the op does not take the operands' dtypes, or they differ.
    """
    dtype = _check_operands(op, operands)
    folded = _fold_integers(op, dtype, operands)
    if folded is not None:
        return folded
    return UOp(op, bool_.vec(dtype.lanes) if op in COMPARISON else dtype, operands)


def _check_operands(op: Op, operands: Sequence[UOp]) -> DType:
    """The common dtype of the operands, apart from a condition and a shift amount."""
    values = operands
    if op in _UNEVEN:
        # The condition is bool, and a shift amount may be any integer.
        values = operands[1:] if op is _WHERE else operands[:1]
    dtype = values[0].dtype
    for value in values:
        if value.dtype is not dtype:
            dtypes = " and ".join(str(v.dtype) for v in values)
            raise OperandError(operation=op.name, found=dtypes, expected="operands of one dtype")
    if op is _WHERE and operands[0].dtype.kind != "bool":
        raise OperandError(operation="WHERE", found=operands[0].dtype, expected="a bool condition")
    _check_dtype(op, dtype)
    if op in _SHIFTS and not operands[1].dtype.is_int:
        raise OperandError(operation=op.name, found=operands[1].dtype, expected="an integer amount")
    return dtype


def _check_dtype(op: Op, dtype: DType) -> None:
    if dtype is void:
        raise OperandError(operation=op.name, found="void", expected="values")
    kind = _RESTRICTED.get(op)
    if dtype.is_complex:
        if not takes(op, dtype):
            raise OperandError(
                operation=op.name,
                found=dtype,
                expected="real numbers",
                hint="take x.real, x.imag or x.abs()",
            )
        return
    if kind is not None and not DTYPE_CLASSES[kind](dtype):
        hint = "cast with x.cast(float32)" if kind == "float" else None
        raise OperandError(operation=op.name, found=dtype, expected=_EXPECTED[kind], hint=hint)


def _fold_integers(op: Op, dtype: DType, operands: tuple[UOp, ...]) -> UOp | None:
    # Folding floats has side conditions (-0.0, NaN, rounding), which rules state and prove.
    if dtype.is_inexact or dtype.lanes > 1:
        return None
    for operand in operands:
        if operand.op is not _CONST:
            break
    else:
        result_type = bool_ if op in COMPARISON else dtype
        value = evaluate_scalar(op, result_type, tuple(o.arg for o in operands))
        return None if value is None else UOp.const(result_type, value)
    if op in UNARY or op not in BINARY or not dtype.is_int:
        return None
    x, y = operands
    # Constants go to the right, so that `1 + x` and `x + 1` are one node.
    if x.op is _CONST and op in _REGROUPED:
        x, y = y, x
    if y.op is not _CONST or (
        x.find_shape() != (operands[0] if x is operands[1] else operands[1]).find_shape()
        and x.find_shape() is None
    ):
        return None
    if y.arg == 0 and op in (Op.ADD, Op.SUB, Op.SHL, Op.SHR):
        return x
    if y.arg == 1 and op in (Op.MUL, Op.IDIV):
        return x
    # Otherwise each step of index arithmetic would lengthen a chain of constants.
    if op is Op.ADD and x.op is Op.ADD and x.right.op is Op.CONST:
        return make_alu(Op.ADD, x.left, make_alu(Op.ADD, x.right, y))
    if op is Op.MUL and x.op is Op.MUL and x.right.op is Op.CONST:
        return make_alu(Op.MUL, x.left, make_alu(Op.MUL, x.right, y))
    # Built here, with the operands swapped.
    return UOp(op, dtype, (x, y)) if op in _REGROUPED else None


def with_sizes(op: Op, x: UOp, sizes: Sequence[SInt]) -> UOp:
    """Movement node `op` on `x` with `sizes` in normal form: integers in `arg`, symbolic sizes as
    operands. Sizes are not checked.
    """
    sizes = tuple(map(normalize_size, sizes))
    # Integers in `arg` keep graphs small and comparisons fast; symbolic sizes are operands, which
    # substitution reaches.
    symbolic = tuple(s for s in sizes if isinstance(s, UOp))
    return UOp(
        op, x.dtype, (x, *symbolic), tuple(None if isinstance(s, UOp) else int(s) for s in sizes)
    )


def make_complex(real: UOp, imag: UOp) -> UOp:
    """Complex numbers from their real and imaginary parts: complex64 from float32, complex128 from
    float64.

    Raises:
        OperandError: if the parts have other dtypes.
    """
    if real.dtype is not imag.dtype or real.dtype not in _COMPLEX_OF:
        dtypes = f"{real.dtype} and {imag.dtype}"
        raise OperandError(
            operation="complex",
            found=dtypes,
            expected="parts that are both float32, or both float64",
        )
    return UOp(Op.COMPLEX, _COMPLEX_OF[real.dtype], (real, imag))


_COMPLEX_OF = {float32: complex64, float64: complex128}


def make_real(x: UOp) -> UOp:
    """The real part of `x`; `x` itself if it is real."""
    return UOp(Op.REAL, x.dtype.part, (x,)) if x.dtype.is_complex else x


def make_imag(x: UOp) -> UOp:
    """The imaginary part of complex numbers."""
    return UOp(Op.IMAG, x.dtype.part, (x,))


def make_as_complex(x: UOp) -> UOp:
    """View pairs along the last axis of `x`, of size 2, as complex numbers.

    Raises:
        OperandError: if `x` is neither float32 nor float64.
        ShapeError: if the last axis has another size.
    """
    if x.dtype not in _COMPLEX_OF:
        raise OperandError(operation="as_complex", found=x.dtype, expected="float32 or float64")
    if x.shape[-1:] != (2,):
        raise ShapeError(
            operation="as_complex",
            shape=x.shape,
            problem=f"last axis must have size 2: {format_shape(x.shape)}",
        )
    return UOp(Op.AS_COMPLEX, _COMPLEX_OF[x.dtype], (x,))


def make_as_real(x: UOp) -> UOp:
    """View complex numbers as pairs along a new last axis: the real part, then the imaginary one."""
    return UOp(Op.AS_REAL, x.dtype.part, (x,))


def make_copy(x: UOp, device: str) -> UOp:
    """Copy `x` to a device; `x` itself if it is there."""
    return x if x.placement == device else UOp(Op.COPY, x.dtype, (x,), device)


def make_reshape(x: UOp, shape: Sequence[SInt]) -> UOp:
    """Reshape `x` to `shape`, in row-major order. No size may be -1: the caller resolves it.

    Raises:
        ShapeError: if a size is negative, or the shapes have different numbers of elements.
    """
    shape = tuple(map(normalize_size, shape))
    # A node that changes nothing would be visited by each pass.
    if shape == x.shape:
        return x
    if any(isinstance(s, int) and s < 0 for s in shape):
        problem = f"negative dimensions are not allowed: {format_shape(shape)}"
        raise ShapeError(operation="reshape", shape=shape, problem=problem)
    old, new = product(x.shape), product(shape)
    if old != new:
        raise ShapeError(
            operation="reshape",
            shape=x.shape,
            problem=(
                f"cannot reshape tensor of size {format_size(old)} into shape"
                f" {format_shape(shape)}, which has size {format_size(new)}"
            ),
        )
    # Elements keep their row-major order, so an intermediate shape does not matter.
    if x.op is Op.RESHAPE:
        return make_reshape(x.source, shape)
    return with_sizes(Op.RESHAPE, x, shape)


def make_expand(x: UOp, shape: Sequence[SInt]) -> UOp:
    """Repeat axes of size 1 to the sizes of `shape`, which has as many axes.

    Raises:
        ShapeError: if a size is negative, the number of axes differs, or the size of an axis
            differs and is not 1.
    """
    shape = tuple(map(normalize_size, shape))
    if shape == x.shape:
        return x
    if any(isinstance(s, int) and s < 0 for s in shape):
        problem = f"negative dimensions are not allowed: {format_shape(shape)}"
        raise ShapeError(operation="expand", shape=shape, problem=problem)
    if len(shape) != len(x.shape):
        raise ShapeError(
            operation="expand",
            shape=x.shape,
            problem=(
                f"the target shape {format_shape(shape)} must have as many dimensions as the shape {format_shape(x.shape)}"
            ),
        )
    for axis, (old, new) in enumerate(zip(x.shape, shape, strict=True)):
        if old != new and old != 1:
            raise ShapeError(
                operation="expand",
                shape=x.shape,
                problem=(
                    f"the expanded size {format_size(new)} must match the existing size"
                    f" {format_size(old)} at axis {axis} of shape {format_shape(x.shape)}"
                ),
            )
    return with_sizes(Op.EXPAND, x, shape)


def make_permute(x: UOp, axes: Sequence[int]) -> UOp:
    """Permute the axes of `x`: axis i of the result is axis `axes[i]`.

    Raises:
        ShapeError: if `axes` is not a permutation of 0 to the number of axes - 1.
    """
    axes = tuple(axes)
    if sorted(axes) != list(range(len(x.shape))):
        raise ShapeError(
            operation="permute",
            shape=x.shape,
            problem=(
                f"axes {axes} are not a permutation of the axes of shape {format_shape(x.shape)}"
            ),
        )
    if axes == tuple(range(len(axes))):
        return x
    if x.op is Op.PERMUTE:
        return make_permute(x.source, tuple(x.arg[a] for a in axes))
    return UOp(Op.PERMUTE, x.dtype, (x,), axes)


def make_pad(x: UOp, padding: Sequence[tuple[SInt, SInt]]) -> UOp:
    """Pad each axis with zeros: `padding` has the widths (before, after) of each axis.

    Raises:
        ShapeError: if the number of pairs differs from the number of axes, or a width is negative.
    """
    flat = tuple(n for pair in padding for n in pair)
    if len(padding) != len(x.shape):
        raise ShapeError(
            operation="pad",
            shape=x.shape,
            problem=f"expected {len(x.shape)} pairs of widths, one per axis, got {len(padding)}",
        )
    if any(isinstance(n, int) and n < 0 for n in flat):
        raise ShapeError(
            operation="pad",
            shape=x.shape,
            problem=f"widths must not be negative: {tuple(padding)}",
            hint="crop with shrink",
        )
    return (
        x
        if all(n == 0 for n in flat if isinstance(n, int)) and all(isinstance(n, int) for n in flat)
        else with_sizes(Op.PAD, x, flat)
    )


def make_shrink(x: UOp, bounds: Sequence[tuple[SInt, SInt]]) -> UOp:
    """Slice each axis: `bounds` has the half-open interval [begin, end) of each axis.

    Raises:
        ShapeError: if the number of pairs differs from the number of axes, or an interval is out of
            bounds.
    """
    flat = tuple(n for pair in bounds for n in pair)
    if len(bounds) != len(x.shape):
        raise ShapeError(
            operation="shrink",
            shape=x.shape,
            problem=f"expected {len(x.shape)} pairs of bounds, one per axis, got {len(bounds)}",
        )
    for size, (begin, end) in zip(x.shape, bounds, strict=True):
        if (
            isinstance(begin, int)
            and isinstance(end, int)
            and isinstance(size, int)
            and not 0 <= begin <= end <= size
        ):
            raise ShapeError(
                operation="shrink",
                shape=x.shape,
                problem=f"slice {begin}:{end} is out of bounds for shape {format_shape(x.shape)}",
            )
    if all((b, e) == (0, s) for s, (b, e) in zip(x.shape, bounds, strict=True)):
        return x
    return with_sizes(Op.SHRINK, x, flat)


def make_flip(x: UOp, flags: Sequence[bool]) -> UOp:
    """Reverse the axes whose flag is True; `flags` has one flag for each axis.

    Raises:
        ShapeError: if the number of flags differs from the number of axes.
    """
    if len(flags) != len(x.shape):
        raise ShapeError(
            operation="flip",
            shape=x.shape,
            problem=f"expected {len(x.shape)} flags, one per axis, got {len(flags)}",
        )
    return UOp(Op.FLIP, x.dtype, (x,), tuple(bool(f) for f in flags)) if any(flags) else x


def make_gather(x: UOp, indices: UOp, axis: int) -> UOp:
    """Gather elements along `axis`; the axes of the integer tensor `indices` replace it.

    An index outside of [0, size) gives 0.

    Raises:
        AxisError: if `axis` is negative or out of bounds.
        OperandError: if the indices are not integers.
    """
    if not 0 <= axis < len(x.shape):
        raise AxisError(operation="gather", axis=axis, ndim=len(x.shape))
    if not indices.dtype.is_int:
        raise OperandError(operation="gather", found=indices.dtype, expected="integer indices")
    return UOp(Op.GATHER, x.dtype, (x, indices), axis)


def make_scatter_add(x: UOp, indices: UOp, axis: int, size: SInt) -> UOp:
    """Scatter-add, the transpose of `make_gather`: an axis of `size` replaces the axes of the
    integer tensor `indices`.

    Element i is the sum of the elements of `x` whose index is i, or 0; for bool, their logical or.
    Elements with an index out of range are ignored. Narrow floats are summed in float32 and rounded
    once.

    Args:
        x: the summed values; their shape contains the shape of `indices` from `axis` on.

    Raises:
        AxisError: if `x` has fewer axes.
        OperandError: if the indices are not integers.
        ShapeError: if the sizes of `x` and `indices` differ, or the size is negative.

    Example:
        >>> from svod_dtype import float32, int32
        >>> from svod_ir import make_iota, make_reshape, make_scatter_add
        >>> make_scatter_add(make_reshape(make_iota(6, float32), (3, 2)), make_iota(3, int32), 0, 10).shape
        (10, 2)
    """
    n_axes = len(indices.shape)
    if not 0 <= axis <= len(x.shape) - n_axes:
        raise AxisError(operation="scatter_add", axis=axis + max(n_axes - 1, 0), ndim=len(x.shape))
    if not indices.dtype.is_int:
        raise OperandError(operation="scatter_add", found=indices.dtype, expected="integer indices")
    named = x.shape[axis : axis + n_axes]
    if named != indices.shape:
        raise ShapeError(
            operation="scatter_add",
            shape=x.shape,
            problem=(
                f"indices of shape {format_shape(indices.shape)} do not match the sizes"
                f" {format_shape(named)} of the values from axis {axis}"
            ),
        )
    size = normalize_size(size)
    if isinstance(size, int) and size < 0:
        raise ShapeError(
            operation="scatter_add", shape=(size,), problem=f"size must not be negative: {size}"
        )
    shape = (*x.shape[:axis], size, *x.shape[axis + n_axes :])
    zeros = make_expand(make_reshape(UOp.const(x.dtype, 0), (1,) * len(shape)), shape)
    return make_scatter(zeros, indices, x, axis, op=Op.ADD)


def make_scatter(
    base: UOp, indices: UOp, x: UOp, axis: int, *, op: Literal[Op.ADD] | None = None
) -> UOp:
    """Replace the rows of `base` at `indices` along `axis` by the rows of `x`, or add to them.

    The axes of `indices` are those of `x` from `axis` on. For repeated indices, the last row in
    row-major order replaces the others, or all are added in this order. An index outside of [0, size)
    is ignored.

    Args:
        base: the tensor whose rows are written.
        indices: integers.
        x: the rows, of the dtype of `base`.
        axis: the axis of `base`.
        op: ADD adds the rows; for bool, their logical or. Narrow floats are summed in float32 and
            rounded once.

    Raises:
        AxisError: if `axis` is negative or out of bounds.
        OperandError: if the indices are not integers, or the dtypes of `base` and `x` differ.
        ShapeError: if the shape of `x` is not that of `base` gathered at `indices`.

    Example:
        >>> from svod_dtype import float32, int32
        >>> from svod_ir import make_iota, make_reshape, make_scatter
        >>> base, rows = make_reshape(make_iota(6, float32), (3, 2)), make_reshape(make_iota(2, float32), (1, 2))
        >>> make_scatter(base, make_iota(1, int32), rows, 0).shape
        (3, 2)
    """
    if not 0 <= axis < len(base.shape):
        raise AxisError(operation="scatter", axis=axis, ndim=len(base.shape))
    if not indices.dtype.is_int:
        raise OperandError(operation="scatter", found=indices.dtype, expected="integer indices")
    if x.dtype is not base.dtype:
        raise OperandError(operation="scatter", found=x.dtype, expected=str(base.dtype))
    expected = (*base.shape[:axis], *indices.shape, *base.shape[axis + 1 :])
    if x.shape != expected:
        raise ShapeError(
            operation="scatter",
            shape=x.shape,
            problem=(
                f"rows of shape {format_shape(x.shape)} do not match"
                f" {format_shape(expected)}, the shape of the base at the indices"
            ),
        )
    # A sum of many narrow floats would stop growing once the terms are below its last bit.
    is_narrow = op is Op.ADD and x.dtype.is_float and x.dtype.itemsize < float32.itemsize
    wide, wide_base = (make_cast(s, float32) if is_narrow else s for s in (x, base))
    node = UOp(Op.SCATTER, wide.dtype, (wide, indices, wide_base), ScatterArg(axis, op))
    return make_cast(node, x.dtype)


def make_check(x: UOp, operation: str, axis: int | None = None, size: SInt | None = None) -> UOp:
    """Mark integers `x` to be checked as indices on `axis`, of `size`, or as divisors if `axis` is
    None.

    An index counts from 0, or from the end if it is negative; a divisor must not be 0. Conditions
    that provably hold are not marked."""
    # A check costs an output and a test after each execution, so none is made where bounds suffice.
    low, high = x.bounds
    holds = (
        (low > 0 or high < 0)
        if size is None
        else isinstance(size, int) and -size <= low and high < size
    )
    if holds:
        return x
    # A symbolic size is an operand, which substitution reaches; a known one is in the arg.
    operands, known = ((x, size), None) if isinstance(size, UOp) else ((x,), size)
    return UOp(Op.CHECK, x.dtype, operands, CheckArg(operation, axis, known))


def make_iota(size: SInt, dtype: DType) -> UOp:
    """The integers from 0 to `size` - 1."""
    return UOp(Op.IOTA, dtype, (), size) if isinstance(size, int) else UOp(Op.IOTA, dtype, (size,))


def make_reduce_axis(x: UOp, op: Op, axes: Sequence[int]) -> UOp:
    """Reduce `x` over `axes` with `op`; reduced axes keep size 1.

    Args:
        x: tensor to reduce.
        op: ADD, MUL, MAX or MIN.
        axes: axes to reduce, not negative. Axes of size 1 need no work.

    Raises:
        AxisError: if an axis is negative or out of bounds.
        OperandError: if the dtype is complex and `op` is not ADD.
    """
    for axis in axes:
        if not 0 <= axis < len(x.shape):
            raise AxisError(operation="reduce", axis=axis, ndim=len(x.shape))
    _check_reduced("reduce", op, x.dtype)
    # Sorted and without axes of size 1, so that equal reductions are one node.
    live = tuple(sorted({a for a in axes if x.shape[a] != 1}))
    return UOp(Op.REDUCE_AXIS, x.dtype, (x,), ReduceArg(op, live)) if live else x


def make_scan_axis(x: UOp, op: Op, axis: int) -> UOp:
    """Inclusive prefix reduction of `x` along `axis`, of the same shape.

    Args:
        x: tensor to scan.
        op: ADD, MUL, MAX or MIN.
        axis: axis to scan, not negative.

    Raises:
        AxisError: if `axis` is negative or out of bounds.
        OperandError: if the dtype is complex and `op` is not ADD.
    """
    if not 0 <= axis < len(x.shape):
        raise AxisError(operation="scan", axis=axis, ndim=len(x.shape))
    _check_reduced("scan", op, x.dtype)
    return UOp(Op.SCAN_AXIS, x.dtype, (x,), ScanArg(op, axis))


def _check_reduced(operation: str, op: Op, dtype: DType) -> None:
    # Complex numbers have no order, and of their reductions only a sum can be split into parts.
    if dtype.is_complex and op is not Op.ADD:
        raise OperandError(
            operation=operation,
            found=dtype,
            expected="real numbers",
            hint="take x.real, x.imag or x.abs()",
        )


def make_constant_like(x: UOp, value: bool | int | float) -> UOp:
    """A constant of the dtype and shape of `x`, as rewrite rules need."""
    constant = UOp.const(x.dtype, value)
    shape = x.shape
    return make_expand(make_reshape(constant, (1,) * len(shape)), shape) if shape else constant
