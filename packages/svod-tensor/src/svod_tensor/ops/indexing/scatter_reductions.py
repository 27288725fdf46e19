"""Reductions of the values scattered to the same index, with their derivatives.

All tensors are 1-d here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from svod_dtype import DType, bool_, int64
from svod_ir import OperandError, make_gather
from svod_tensor.host_functions.derivatives import conjugate, matrix_rule, with_matrix_rule
from svod_tensor.host_functions.libraries import REDUCE_AT
from svod_tensor.host_functions.nodes import call_host

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["ReductionAt", "check_reduction", "reduce_at"]


ReductionAt: TypeAlias = Literal["sum", "prod", "mean", "amax", "amin"]
"""Reductions of the values scattered to one index."""

_EXTREMES: Final = ("amax", "amin")


def check_reduction(reduction: object, dtype: DType) -> None:
    """Raise an OperandError if the reduction is unknown or not defined for this dtype."""
    if reduction not in get_args(ReductionAt) or (reduction in _EXTREMES and dtype.is_complex):
        names = ", ".join(
            r for r in get_args(ReductionAt) if not (dtype.is_complex and r in _EXTREMES)
        )
        raise OperandError(
            operation="scatter_reduce",
            found=f"reduce={reduction!r} for {dtype}",
            expected=f"one of {names}",
        )


def reduce_at(
    x: Tensor, indices: Tensor, values: Tensor, reduction: ReductionAt, *, include_self: bool
) -> Tensor:
    """Reduce `values` into `x` at `indices`; negative indices are dropped."""
    (size,) = x.shape
    if reduction in ("sum", "mean"):
        # Elements without values keep their own; the others start from 0.
        kept = x if include_self else _is_untouched(x, indices).where(x, 0)
        total = kept.add(indices.bincount(values, n_bins=size)).cast(x.dtype)
        if reduction == "sum":
            return total
        counts = indices.bincount(n_bins=size)
        # An element without values is divided by 1.
        counts = counts.add(1) if include_self else counts.maximum(1)
        return (
            total.div(counts.cast(x.dtype))
            if x.dtype.is_inexact
            else total.floor_divide(counts).cast(x.dtype)
        )
    stored = (t.cast("uint8") if x.dtype is bool_ else t for t in (x, values))
    first, second = stored
    results = call_host(
        f"{REDUCE_AT}{reduction}",
        [first, indices, second],
        [(x.shape, first.dtype)],
        [include_self],
    )
    if not x.dtype.is_inexact:
        return results[0].cast(x.dtype)
    rule = _product_gradient if reduction == "prod" else _extreme_gradient
    return with_matrix_rule(rule, results, (x, indices, values), include_self)[0]


def _is_untouched(x: Tensor, indices: Tensor) -> Tensor:
    """True where no value is scattered."""
    (size,) = x.shape
    return indices.bincount(n_bins=size).eq(0)


def _get_counted(x: Tensor, indices: Tensor, include_self: bool) -> Tensor:
    """True where the original element takes part in the reduction."""
    return x.ones_like(dtype="bool") if include_self else _is_untouched(x, indices)


def _gather(x: Tensor, indices: Tensor) -> Tensor:
    """Gather `x` at `indices`, 0 for dropped indices."""
    return x.from_uop(make_gather(x.uop, indices.uop, 0))


@matrix_rule("product-at")
def _product_gradient(
    cotangents: Sequence[Tensor | None], _: object, operands: Sequence[Tensor], include_self: bool
) -> tuple[Tensor | None, None, Tensor | None]:
    """Gradient of a product: the product of the other factors, by division unless a factor is 0."""
    (cotangent,), (x, indices, values) = cotangents, operands
    if cotangent is None:
        return None, None, None
    counted, (size,) = _get_counted(x, indices, include_self), x.shape
    is_none, is_zero = x.eq(0), values.eq(0)
    n_zeros = indices.bincount(is_zero.cast(int64), n_bins=size).add(
        is_none.logical_and(counted).cast(int64)
    )
    product = reduce_at(
        is_none.where(1, x), indices, is_zero.where(1, values), "prod", include_self=include_self
    )
    # The value is 0; the sum carries the derivatives of the zero factors.
    zero = indices.bincount(is_zero.where(values, 0), n_bins=size).add(
        is_none.logical_and(counted).where(x, 0)
    )
    of_x = counted.where(_divide_out(product, x, is_none, n_zeros, zero), 0)
    of_values = _divide_out(
        _gather(product, indices),
        values,
        is_zero,
        _gather(n_zeros, indices),
        _gather(zero, indices),
    )
    return (
        cotangent.mul(conjugate(of_x)),
        None,
        _gather(cotangent, indices).mul(conjugate(of_values)),
    )


def _divide_out(
    product: Tensor, x: Tensor, is_zero: Tensor, n_zeros: Tensor, zero: Tensor
) -> Tensor:
    """Product of all factors except `x`, with correct first derivatives.

    Args:
        product: product of the nonzero factors.
        x: the excluded factor.
        is_zero: whether `x` is 0.
        n_zeros: number of factors that are 0.
        zero: sum of these factors, which carries their derivative if there is one besides `x`.
    """
    other_product = product.div(is_zero.where(1, x))
    n_others = n_zeros.sub(is_zero.cast(int64))
    # With one other zero, only the derivative by that factor remains; with two, none.
    return n_others.eq(0).where(
        other_product, n_others.eq(1).where(other_product.mul(zero.sub(is_zero.where(x, 0))), 0)
    )


@matrix_rule("extreme-at")
def _extreme_gradient(
    cotangents: Sequence[Tensor | None],
    results: Sequence[Tensor],
    operands: Sequence[Tensor],
    include_self: bool,
) -> tuple[Tensor | None, None, Tensor | None]:
    """Gradient of an extreme: split equally among the elements that attain it."""
    (cotangent,), (value,), (x, indices, values) = cotangents, results, operands
    if cotangent is None:
        return None, None, None
    (size,) = x.shape
    has_stayed = _is_equal(x, value).logical_and(_get_counted(x, indices, include_self))
    is_chosen = _is_equal(values, _gather(value, indices))
    n_chosen = indices.bincount(is_chosen.cast(int64), n_bins=size).add(has_stayed.cast(int64))
    # As in torch: equal extremes share the cotangent.
    share = cotangent.div(n_chosen.cast(x.dtype))
    return has_stayed.where(share, 0), None, is_chosen.where(_gather(share, indices), 0)


def _is_equal(x: Tensor, y: Tensor) -> Tensor:
    # A NaN among the values is the result, but does not equal itself.
    return x.eq(y).logical_or(x.isnan().logical_and(y.isnan()))
