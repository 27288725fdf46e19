"""Moments and norms.

In all functions `axis` is one axis, several, or None for all; `keepdims` keeps reduced axes with
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
from svod_tensor.ops.core.reuse import reuse_graph
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
    A large common offset does not reduce accuracy, since the error is the mean of the differences,
    which are small.

    Args:
        x: the elements.
        axis: axis or axes of the mean.
        weights: weights of the elements, with the same number of axes; equal by default.

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
    squares = weigh(difference.square()).sum(axis, keepdims=True).sub(total.mul(error))
    # Rounding may leave a small negative number, whose root would be NaN. Subtracted as a constant:
    # `maximum` would halve the second derivative of equal elements, whose sum is 0.
    return difference, error, squares.sub(squares.minimum(0.0).detach())


@gradient_rule("variance")
def _variance_gradient(
    cotangent: Tensor, _: Tensor, operands: tuple[Tensor], __: object, axis: Axes, correction: float
) -> tuple[Tensor]:
    """The mean contributes nothing, since the differences from it sum to 0."""
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
    """0 at 0, where every element equals the mean."""
    return (value.eq(0).where(0.0, value.reciprocal().mul(0.5)),)


def take_root(variance: Tensor) -> Tensor:
    """Square root of a variance, with derivative 0 at 0."""
    return with_rule(_root_gradient, variance.sqrt(), (variance,))


@gradient_rule("logsumexp")
def _logsumexp_gradient(
    cotangent: Tensor, _: Tensor, operands: tuple[Tensor, Tensor, Tensor], __: object
) -> tuple[Tensor, None, None]:
    """Gradient of logsumexp: the softmax; 0 where all elements are -inf.

    The maximum and the small logarithm are subtracted sequentially, since their sum, the value, is
    rounded."""
    x, shift, log = operands
    log_sum = log.eq(-math.inf).where(0.0, log)
    return cotangent.mul(x.sub(shift).sub(log_sum).exp()), None, None


@gradient_rule("norm")
def _norm_gradient(
    cotangent: Tensor, value: Tensor, operands: tuple[Tensor], _: object, order: float
) -> tuple[Tensor]:
    """Gradient of a norm: 0 at 0, the center of the subdifferential, as is the second derivative;
    also 0 for elements that are 0.
    """
    (operand,) = operands
    # Convention: the cotangent of a complex number is that of its real part, minus i times that of
    # its imaginary part.
    x = operand.conj() if operand.dtype.is_complex else operand
    # x / inf is 0, in derivatives of every order.
    direction = x.div(value.eq(0).where(math.inf, value))
    if order == 2:
        return (cotangent.mul(direction),)
    is_zero = x.eq(0)
    magnitude = is_zero.where(1.0, direction).abs().pow(order - 1)
    return (is_zero.where(0.0, cotangent.mul(magnitude.mul(x.sign()))),)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
@reuse_graph
@rounds_once
def mean(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over axes; NaN for no elements. Integers accumulate in float64 and give float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.mean(sv.Tensor([[1, 2], [3, 5]]), axis=1).tolist()
        [1.5, 4.0]
    """
    total = _to_wide(x).sum(axis, keepdims=keepdims)
    return total.div(count_elements(x, axis, total.dtype)).cast(to_float(x).dtype)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
@reuse_graph
@rounds_once
def var(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """Variance over axes: the sum of squared differences from the mean, divided by the number of
    elements minus `correction`.

    Integers accumulate in float64 and give float32. The variance of complex numbers is real: the
    squared differences are `abs(x - mean(x)) ** 2`.

    Args:
        axis: axis or axes to reduce; None reduces all.
        correction: degrees of freedom subtracted from the number of elements; 1 is unbiased.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.var(sv.Tensor([1.0, 3.0])).item(), sv.var(sv.Tensor([1.0, 3.0]), correction=1).item())
        (1.0, 2.0)
    """
    if x.dtype.is_complex:
        # |z - mean|^2 is the sum of the squared differences of both parts.
        variances = (
            part.var(axis, correction=correction, keepdims=keepdims) for part in (x.real, x.imag)
        )
        return next(variances).add(next(variances))
    wide = _to_wide(x)
    _, _, squares = center(wide, axis)
    axes = normalize_axes("var", axis, x.ndim)
    total = squares if keepdims else squares.squeeze(axes)
    count = count_elements(x, axis, total.dtype)
    # As in numpy: a correction beyond the count is a division by 0.
    divisor = count.sub(correction).maximum(0.0) if correction else count
    value = with_rule(_variance_gradient, total.div(divisor), (wide,), axes, float(correction))
    return value.cast(to_float(x).dtype)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
@reuse_graph
@rounds_once
def std(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """Standard deviation over axes, the square root of the variance. Integers give float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        correction: degrees of freedom subtracted from the number of elements.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.std(sv.Tensor([1.0, 3.0])).item()
        1.0
    """
    variance = _to_wide(x).var(axis, correction=correction, keepdims=keepdims)
    return take_root(variance).cast(to_float(x).dtype.part)


@operation(test="test_reduction.py::test_reductions_without_nans")
@reuse_graph
@rounds_once
def nanmean(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over axes, ignoring NaN; NaN for all-NaN slices. Integers give float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmean(sv.Tensor([1.0, float("nan"), 2.0])).item()
        1.5
    """
    if not x.dtype.is_float:
        return x.mean(axis, keepdims=keepdims)
    count = x.isnan().logical_not().count_nonzero(axis, keepdims=keepdims)
    # 0 / 0 is NaN for a slice of NaN only, as in numpy.
    return x.nansum(axis, keepdims=keepdims).div(count.cast(x.dtype))


@operation(test="test_reduction.py::test_logsumexp_does_not_overflow")
@reuse_graph
@rounds_once
def logsumexp(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials `log(sum(exp(x)))` over axes, without overflow. Integers
    become float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logsumexp(sv.Tensor([1000.0, 1000.0])).round(4).numpy()
        array(1000.6932, dtype=float32)
    """
    x = to_float(x)
    peak = x.max(axis, keepdims=True)
    # For an infinite maximum the result is infinite, and subtracting it would give NaN.
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
@reuse_graph
@rounds_once
def norm(
    x: Tensor, /, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False
) -> Tensor:
    """Vector norm over axes: `sum(abs(x) ** ord) ** (1 / ord)`. Integers become float32.

    `matrix_norm` computes matrix norms.

    Args:
        axis: axis or axes to reduce; None reduces all.
        ord: order of the norm. inf is the maximum magnitude, -inf the minimum, 0 the number of
            nonzero elements, and `"fro"` the Frobenius norm over two axes.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        OperandError: if `ord` is invalid.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([3.0, -4.0]).norm().item(), Tensor([3.0, -4.0]).norm(ord=1).item()
        (5.0, 7.0)
    """
    if isinstance(ord, str):
        n_axes = len(normalize_axes("norm", axis, x.ndim))
        if ord != "fro" or n_axes != 2:
            expected = 'a number as ord, or "fro" for two axes'
            raise OperandError(
                operation="norm", found=f"ord={ord!r} for {n_axes} axes", expected=expected
            )
        ord = 2
    if x.dtype.is_complex:
        # Norms depend on magnitudes only.
        return x.abs().norm(axis, ord=ord, keepdims=keepdims)
    operand = to_float(x)
    x = operand.abs()
    if ord == math.inf:
        return _max_magnitude(x, axis, keepdims=keepdims)
    if ord == -math.inf:
        return x.min(axis, keepdims=keepdims)
    if ord == 1:
        return x.sum(axis, keepdims=keepdims)
    if ord == 0:
        return x.ne(0).cast(x.dtype).sum(axis, keepdims=keepdims)
    total = x.pow(ord).sum(axis, keepdims=True)
    value = total.sqrt() if ord == 2 else total.pow(1.0 / ord)
    value = with_rule(_norm_gradient, value, (operand,), float(ord))
    return value if keepdims else value.squeeze(axis)


@operation(
    test="test_reduction.py::test_norms_of_matrices_agree_with_numpy",
    standard="linalg.matrix_norm",
    is_function=False,
)
@reuse_graph
@rounds_once
def matrix_norm(
    x: Tensor, /, *, ord: float | Literal["fro", "nuc"] = "fro", keepdims: bool = False
) -> Tensor:
    """Matrix norm over the last two axes. Integers become float32.

    Args:
        ord: `"fro"`, the Frobenius norm; 1 and -1, the maximum and minimum absolute column sum; inf
            and -inf, the maximum and minimum absolute row sum; 2 and -2, the maximum and minimum
            singular value, computed by LAPACK; `"nuc"`, the nuclear norm.
        keepdims: whether to keep both axes with size 1.

    Raises:
        AxisError: if there are fewer than two axes.
        OperandError: if `ord` is invalid.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1.0, -2.0], [3.0, 4.0]]).matrix_norm(ord=1).item()
        6.0
    """
    if x.ndim < 2:
        raise AxisError(operation="matrix_norm", axis=-2, ndim=x.ndim)
    if ord == "fro":
        return x.norm((-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        values = singular_values(to_float(x))
        value = (
            values.sum(-1)
            if ord == "nuc"
            else _max_magnitude(values, -1)
            if ord == 2
            else values.min(-1)
        )
        return value.unsqueeze(-1).unsqueeze(-1) if keepdims else value
    if isinstance(ord, str) or ord not in (1, -1, math.inf, -math.inf):
        expected = '"fro", "nuc", 1, -1, 2, -2 or an infinity as ord'
        raise OperandError(operation="matrix_norm", found=ord, expected=expected)
    summed_axis, reduced_axis = (-2, -1) if abs(ord) == 1 else (-1, -2)
    sums = x.norm(summed_axis, ord=1, keepdims=True)
    result = (
        _max_magnitude(sums, reduced_axis, keepdims=True)
        if ord > 0
        else sums.min(reduced_axis, keepdims=True)
    )
    return result if keepdims else result.squeeze((-2, -1))


def _to_wide(x: Tensor) -> Tensor:
    """Cast integers to float64 for accumulation, since float32 sums of them are inexact."""
    return x if x.dtype.is_inexact else x.cast(float64)


def _max_magnitude(x: Tensor, axis: Axes, *, keepdims: bool = False) -> Tensor:
    """Maximum of non-negative numbers; 0 for no elements, as numpy's norms."""
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
