"""What is written to the same place, reduced to one element, with its derivatives.

Tensors have one axis here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from svod_dtype import DType, bool_, int64
from svod_ir import OperandError, make_gather
from svod_tensor._shapes import concrete_shape
from svod_tensor.host_functions.derivatives import conjugate, matrix_rule, with_matrix_rule
from svod_tensor.host_functions.libraries import REDUCE_AT
from svod_tensor.host_functions.nodes import call_host

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["ReductionAt", "check_reduction", "reduce_at"]


ReductionAt: TypeAlias = Literal["sum", "prod", "mean", "amax", "amin"]
"""What becomes of several elements."""

_EXTREMES: Final = ("amax", "amin")


def check_reduction(reduction: object, dtype: DType) -> None:
    """Raise an OperandError if there is no such reduction of this dtype."""
    if reduction not in get_args(ReductionAt) or (reduction in _EXTREMES and dtype.is_complex):
        names = ", ".join(
            r for r in get_args(ReductionAt) if not (dtype.is_complex and r in _EXTREMES)
        )
        raise OperandError(
            operation="scatter_reduce",
            found=f"{reduction!r} as reduction of {dtype}",
            expected=f"one of {names}",
        )


def reduce_at(
    x: Tensor, places: Tensor, values: Tensor, reduction: ReductionAt, *, include_self: bool
) -> Tensor:
    """`x` with what `values` brings to each of `places`, of which negative ones are nowhere."""
    (size,) = concrete_shape("scatter_reduce", x.shape)
    if reduction in ("sum", "mean"):
        kept = x if include_self else _is_untouched(x, places).where(x, 0)
        total = kept.add(places.bincount(values, n_bins=size)).cast(x.dtype)
        if reduction == "sum":
            return total
        counts = places.bincount(n_bins=size)
        counts = counts.add(1) if include_self else counts.maximum(1)
        return (
            total.div(counts.cast(x.dtype))
            if x.dtype.is_inexact
            else total.floor_divide(counts).cast(x.dtype)
        )
    stored = (t.cast("uint8") if x.dtype is bool_ else t for t in (x, values))
    first, second = stored
    found = call_host(
        f"{REDUCE_AT}{reduction}", [first, places, second], [(x.shape, first.dtype)], [include_self]
    )
    if not x.dtype.is_inexact:
        return found[0].cast(x.dtype)
    rule = _product_gradient if reduction == "prod" else _extreme_gradient
    return with_matrix_rule(rule, found, (x, places, values), include_self)[0]


def _is_untouched(x: Tensor, places: Tensor) -> Tensor:
    """Where no value comes to."""
    (size,) = concrete_shape("scatter_reduce", x.shape)
    return places.bincount(n_bins=size).eq(0)


def _get_counted(x: Tensor, places: Tensor, include_self: bool) -> Tensor:
    """Where the element that was there counts."""
    return x.ones_like(dtype="bool") if include_self else _is_untouched(x, places)


def _look(x: Tensor, places: Tensor) -> Tensor:
    """What `x` has at the places, 0 for those that are nowhere."""
    return x.from_uop(make_gather(x.uop, places.uop, 0))


@matrix_rule("product-at")
def _product_gradient(
    cotangents: Sequence[Tensor | None], _: object, operands: Sequence[Tensor], include_self: bool
) -> tuple[Tensor | None, None, Tensor | None]:
    """The product of the others: 0 if one of them is 0, else a quotient."""
    (given,), (x, places, values) = cotangents, operands
    if given is None:
        return None, None, None
    counted, (size,) = (
        _get_counted(x, places, include_self),
        concrete_shape("scatter_reduce", x.shape),
    )
    is_none, is_zero = x.eq(0), values.eq(0)
    n_zeros = places.bincount(is_zero.cast(int64), n_bins=size).add(
        is_none.logical_and(counted).cast(int64)
    )
    whole = reduce_at(
        is_none.where(1, x), places, is_zero.where(1, values), "prod", include_self=include_self
    )
    # 0, with the derivatives of the factors that are 0.
    zero = places.bincount(is_zero.where(values, 0), n_bins=size).add(
        is_none.logical_and(counted).where(x, 0)
    )
    of_x = counted.where(_divide_out(whole, x, is_none, n_zeros, zero), 0)
    of_values = _divide_out(
        _look(whole, places), values, is_zero, _look(n_zeros, places), _look(zero, places)
    )
    return given.mul(conjugate(of_x)), None, _look(given, places).mul(conjugate(of_values))


def _divide_out(whole: Tensor, x: Tensor, is_zero: Tensor, n_zeros: Tensor, zero: Tensor) -> Tensor:
    """The product of all factors but `x`, with its first derivatives.

    Args:
        whole: the product of the factors that are not 0.
        x: the factor.
        is_zero: whether it is 0.
        n_zeros: the number of factors that are 0.
        zero: their sum, by which the product has a derivative if there is one besides `x`.
    """
    others = whole.div(is_zero.where(1, x))
    n_others = n_zeros.sub(is_zero.cast(int64))
    return n_others.eq(0).where(
        others, n_others.eq(1).where(others.mul(zero.sub(is_zero.where(x, 0))), 0)
    )


@matrix_rule("extreme-at")
def _extreme_gradient(
    cotangents: Sequence[Tensor | None],
    results: Sequence[Tensor],
    operands: Sequence[Tensor],
    include_self: bool,
) -> tuple[Tensor | None, None, Tensor | None]:
    """In equal parts to all that are the extreme."""
    (given,), (value,), (x, places, values) = cotangents, results, operands
    if given is None:
        return None, None, None
    (size,) = concrete_shape("scatter_reduce", x.shape)
    has_stayed = _is_equal(x, value).logical_and(_get_counted(x, places, include_self))
    is_chosen = _is_equal(values, _look(value, places))
    n_chosen = places.bincount(is_chosen.cast(int64), n_bins=size).add(has_stayed.cast(int64))
    part = given.div(n_chosen.cast(x.dtype))
    return has_stayed.where(part, 0), None, is_chosen.where(_look(part, places), 0)


def _is_equal(x: Tensor, y: Tensor) -> Tensor:
    return x.eq(y).logical_or(x.isnan().logical_and(y.isnan()))
