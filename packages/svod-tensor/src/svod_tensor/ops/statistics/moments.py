"""Moments and norms.

In every function `axis` is one axis, several, or None for all; `keepdims` keeps reduced axes with
size 1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from svod_dtype import DType, float64
from svod_ir import AxisError, OperandError, UOp
from svod_ir.sizes import max_size, product
from svod_tensor._shapes import Axes, normalize_axes
from svod_tensor.linalg.lapack.factors import singular_values
from svod_tensor.ops.core.gradient_rules import elementwise_rule, gradient_rule, with_rule
from svod_tensor.ops.core.operands import to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "center",
    "count_elements",
    "logsumexp",
    "matrix_norm",
    "mean",
    "nanmean",
    "norm",
    "std",
    "take_root",
    "var",
]


def center(x: Tensor, axis: Axes, weights: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Differences from the rounded mean, the rounding error of that mean, and the sum of squared
    distances from the true mean.

    The last two keep `axis` with size 1. `difference - error` is the distance from the true mean.
    An offset of all elements harms none of them, since the error is the mean of the differences,
    which are small.

    Args:
        x: the elements.
        axis: along which the mean is taken.
        weights: how much each element counts, in as many axes; by default all the same.

    Source: Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (1983), equation
    1.7."""
    count = (
        count_elements(x, axis, x.dtype) if weights is None else weights.sum(axis, keepdims=True)
    )

    def weigh(values: Tensor) -> Tensor:
        return values if weights is None else weights.mul(values)

    difference = x.sub(
        x.mean(axis, keepdims=True)
        if weights is None
        else weigh(x).sum(axis, keepdims=True).div(count)
    )
    total = weigh(difference).sum(axis, keepdims=True)
    error = total.div(count)
    squares = weigh(difference.square()).sum(axis, keepdims=True).sub(total.mul(error)).maximum(0.0)
    return difference, error, squares


@gradient_rule("variance")
def _variance_gradient(
    cotangent: Tensor, _: Tensor, operands: tuple[Tensor], __: object, axis: Axes, correction: float
) -> tuple[Tensor]:
    """The mean has no part in it: distances from it add up to 0."""
    (x,) = operands
    axes = normalize_axes("var", axis, x.ndim)
    count = count_elements(x, axis, x.dtype)
    divisor = count.sub(correction).maximum(0.0) if correction else count
    spread = (
        cotangent.mul(2)
        .div(divisor)
        .reshape([1 if a in axes else s for a, s in enumerate(x.shape)])
    )
    difference, error, _squares = center(x, axis)
    return (difference.sub(error).mul(spread),)


@elementwise_rule("root-of-variance")
def _root_gradient(value: Tensor, _: object, __: object) -> tuple[Tensor]:
    """0 at 0: there every element is the mean."""
    return (value.eq(0).where(0.0, value.reciprocal().mul(0.5)),)


def take_root(variance: Tensor) -> Tensor:
    """The square root, whose derivative is 0 at 0."""
    return with_rule(_root_gradient, variance.sqrt(), (variance,))


@gradient_rule("logsumexp")
def _logsumexp_gradient(
    cotangent: Tensor, _: Tensor, operands: tuple[Tensor, Tensor, Tensor], __: object
) -> tuple[Tensor, None, None]:
    """The softmax; 0 where all elements are minus infinity.

    What is subtracted is the largest element and a small logarithm, one after the other: their sum,
    the value, is rounded."""
    x, shift, log = operands
    rest = log.eq(-math.inf).where(0.0, log)
    return cotangent.mul(x.sub(shift).sub(rest).exp()), None, None


@gradient_rule("norm")
def _norm_gradient(
    cotangent: Tensor, value: Tensor, operands: tuple[Tensor], _: object, order: float
) -> tuple[Tensor]:
    """0 at 0, which is the middle of all subgradients, and so is the second derivative; elements
    that are 0 have none.
    """
    (given,) = operands
    # The cotangent of complex numbers is that of the real part, minus i times that of the imaginary
    # one.
    x = given.conj() if given.dtype.is_complex else given
    direction = x.div(value.eq(0).where(math.inf, value))
    if order == 2:
        return (cotangent.mul(direction),)
    is_zero = x.eq(0)
    size = is_zero.where(1.0, direction).abs().pow(order - 1)
    return (is_zero.where(0.0, cotangent.mul(size.mul(x.sign()))),)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
@rounds_once
def mean(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean; NaN over no elements. Integers are added as float64, and their mean is float32.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.mean(Tensor([[1, 2], [3, 5]]), axis=1).tolist()
        [1.5, 4.0]
    """
    total = _to_wide(x).sum(axis, keepdims=keepdims)
    return total.div(count_elements(x, axis, total.dtype)).cast(to_float(x).dtype)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
@rounds_once
def var(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The variance: squared distances from the mean, summed and divided by the number of elements
    minus `correction`.

    Integers are added as float64, and their variance is float32. Of complex numbers it is that of
    the distances, and real.

    Args:
        axis: one axis, several, or None for all.
        correction: 1 for an estimate without bias from a sample.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.var(Tensor([1.0, 3.0])).item(), sv.var(Tensor([1.0, 3.0]), correction=1).item())
        (1.0, 2.0)
    """
    if x.dtype.is_complex:
        # The squares of distances are those of both parts.
        parts = (
            part.var(axis, correction=correction, keepdims=keepdims) for part in (x.real, x.imag)
        )
        return next(parts).add(next(parts))
    wide = _to_wide(x)
    _, _, squares = center(wide, axis)
    axes = normalize_axes("var", axis, x.ndim)
    total = squares if keepdims else squares.squeeze(axes)
    count = count_elements(x, axis, total.dtype)
    divisor = count.sub(correction).maximum(0.0) if correction else count
    value = with_rule(_variance_gradient, total.div(divisor), (wide,), axes, float(correction))
    return value.cast(to_float(x).dtype)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
@rounds_once
def std(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation, which is the square root of the variance. That of integers is
    float32.

    Args:
        axis: one axis, several, or None for all.
        correction: what the number of elements is reduced by in the variance.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.std(Tensor([1.0, 3.0])).item()
        1.0
    """
    variance = _to_wide(x).var(axis, correction=correction, keepdims=keepdims)
    return take_root(variance).cast(to_float(x).dtype.part)


@operation(test="test_reduction.py::test_reductions_without_nans")
@rounds_once
def nanmean(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean without NaNs; NaN where there is nothing else. That of integers is float32.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmean(Tensor([1.0, float("nan"), 2.0])).item()
        1.5
    """
    if not x.dtype.is_float:
        return x.mean(axis, keepdims=keepdims)
    count = x.isnan().logical_not().count_nonzero(axis, keepdims=keepdims)
    return x.nansum(axis, keepdims=keepdims).div(count.cast(x.dtype))


@operation(test="test_reduction.py::test_logsumexp_does_not_overflow")
@rounds_once
def logsumexp(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`log(sum(exp(x)))` without overflow. Integers become float32.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logsumexp(Tensor([1000.0, 1000.0])).round(4).numpy()
        array(1000.6932, dtype=float32)
    """
    x = to_float(x)
    peak = x.max(axis, keepdims=True)
    # Where the peak is infinite, so is the result; subtracting it would give NaN.
    shift = peak.isfinite().where(peak, 0.0).detach()
    log = x.sub(shift).exp().sum(axis, keepdims=True).log()
    total = with_rule(_logsumexp_gradient, log.add(shift), (x, shift, log))
    return total if keepdims else total.squeeze(axis)


@operation(
    test="test_reduction.py::test_norms_of_every_order_agree_with_numpy",
    standard="linalg.vector_norm",
    methods=("vector_norm",),
    is_function=False,
)
@rounds_once
def norm(
    x: Tensor, /, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False
) -> Tensor:
    """The norm of the elements along `axis` as one vector: `sum(abs(x) ** ord) ** (1 / ord)`.
    Integers become float32.

    `matrix_norm` has the norms of matrices.

    Args:
        axis: one axis, several, or None for all.
        ord: a number. Infinity gives the largest size, minus infinity the smallest one, 0 the
            number of elements that are not zero, and `"fro"`, of two axes, their norm of order 2.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if `ord` is something else.

    Example:
        >>> Tensor([3.0, -4.0]).norm().item(), Tensor([3.0, -4.0]).norm(ord=1).item()
        (5.0, 7.0)
    """
    if isinstance(ord, str):
        n_axes = len(normalize_axes("norm", axis, x.ndim))
        if ord != "fro" or n_axes != 2:
            expected = 'a number as ord, or "fro" of two axes'
            raise OperandError(operation="norm", found=f"{ord!r} of {n_axes}", expected=expected)
        ord = 2
    if x.dtype.is_complex:
        return x.abs().norm(axis, ord=ord, keepdims=keepdims)
    given = to_float(x)
    x = given.abs()
    if ord == math.inf:
        return _max_of_sizes(x, axis, keepdims=keepdims)
    if ord == -math.inf:
        return x.min(axis, keepdims=keepdims)
    if ord == 1:
        return x.sum(axis, keepdims=keepdims)
    if ord == 0:
        return x.ne(0).cast(x.dtype).sum(axis, keepdims=keepdims)
    total = x.pow(ord).sum(axis, keepdims=True)
    value = total.sqrt() if ord == 2 else total.pow(1.0 / ord)
    value = with_rule(_norm_gradient, value, (given,), float(ord))
    return value if keepdims else value.squeeze(axis)


@operation(
    test="test_reduction.py::test_norms_of_matrices_agree_with_numpy",
    standard="linalg.matrix_norm",
    is_function=False,
)
@rounds_once
def matrix_norm(
    x: Tensor, /, *, ord: float | Literal["fro", "nuc"] = "fro", keepdims: bool = False
) -> Tensor:
    """The norm of the matrices in the last two axes. Integers become float32.

    Args:
        ord: `"fro"`, the root of the sum of squares; 1 and -1, the largest and the smallest sum of
            a column's sizes; infinity and minus infinity, those of a row's; 2 and -2, the largest
            and the smallest singular value, which LAPACK computes; `"nuc"`, the sum of these.
        keepdims: whether both axes stay, with size 1.

    Raises:
        AxisError: if there are less than two axes.
        OperandError: if `ord` is something else.

    Example:
        >>> Tensor([[1.0, -2.0], [3.0, 4.0]]).matrix_norm(ord=1).item()
        6.0
    """
    if x.ndim < 2:
        raise AxisError(operation="matrix_norm", axis=-2, ndim=x.ndim)
    if ord == "fro":
        return x.norm((-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        values = singular_values(to_float(x))
        found = (
            values.sum(-1)
            if ord == "nuc"
            else _max_of_sizes(values, -1)
            if ord == 2
            else values.min(-1)
        )
        return found.unsqueeze(-1).unsqueeze(-1) if keepdims else found
    if isinstance(ord, str) or ord not in (1, -1, math.inf, -math.inf):
        expected = '"fro", "nuc", 1, -1, 2, -2 or an infinity as ord'
        raise OperandError(operation="matrix_norm", found=ord, expected=expected)
    added, compared = (-2, -1) if abs(ord) == 1 else (-1, -2)
    sums = x.norm(added, ord=1, keepdims=True)
    result = (
        _max_of_sizes(sums, compared, keepdims=True)
        if ord > 0
        else sums.min(compared, keepdims=True)
    )
    return result if keepdims else result.squeeze((-2, -1))


def _to_wide(x: Tensor) -> Tensor:
    """The elements as they are added up for a mean, which sums of integers in float32 would
    miss.
    """
    return x if x.dtype.is_inexact else x.cast(float64)


def _max_of_sizes(x: Tensor, axis: Axes, *, keepdims: bool = False) -> Tensor:
    """The largest of numbers that are not negative; 0 where there are none, as numpy's norms have
    it.
    """
    axes = normalize_axes("norm", axis, x.ndim)
    if any(max_size(x.shape[a]) == 0 for a in axes):
        return x.sum(axes, keepdims=keepdims)
    return x.max(axes, keepdims=keepdims)


def count_elements(x: Tensor, axis: Axes, dtype: DType) -> Tensor:
    """Number of elements that a reduction over `axis` combines, as a 0-d tensor."""
    count = product(tuple(x.shape[a] for a in normalize_axes("count", axis, x.ndim)))
    return x.from_uop(
        count.cast(dtype) if isinstance(count, UOp) else UOp.const(dtype, float(count))
    )
