"""Elements that are missing: NaNs, which these operations leave out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypeVar

from svod_ir import OperandError
from svod_tensor._shapes import Axes
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.statistics import center, take_root
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike

__all__ = ["Missing"]

T = TypeVar("T", bound=Theme)


@operations
class Missing(Theme):
    """Statistics and running sums that ignore NaN."""

    __slots__ = ()

    @rounds_once
    def nanvar(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The variance of the elements that are not NaN; NaN where there are no more of them than `correction`.

        Args:
            axis: one axis, several, or None for all.
            correction: what their number is reduced by.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([1.0, float("nan"), 3.0]).nanvar().item()
            1.0
        """
        _check_real("nanvar", self)
        if not self.dtype.is_float:
            return self.var(axis, correction=correction, keepdims=keepdims)
        is_there = self.isnan().logical_not()
        _, _, squares = center(is_there.where(self, 0.0), axis, is_there.cast(self.dtype))
        free = is_there.count_nonzero(axis, keepdims=True).cast(self.dtype).sub(correction)
        value = free.gt(0).where(squares.div(free), math.nan)
        return value if keepdims else value.squeeze(axis)

    @rounds_once
    def nanstd(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The square root of `nanvar`.

        Args:
            axis: one axis, several, or None for all.
            correction: what the number of elements is reduced by in the variance.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([1.0, float("nan"), 3.0]).nanstd().item()
            1.0
        """
        _check_real("nanstd", self)
        if not self.dtype.is_float:
            return self.std(axis, correction=correction, keepdims=keepdims)
        return take_root(self.nanvar(axis, correction=correction, keepdims=keepdims))

    def nanargmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the largest element that is not NaN, the first of several; 0 where there is none.

        Args:
            axis: along which; None flattens first.
            keepdims: whether the axis stays, with size 1.

        Example:
            >>> Tensor([float("nan"), 1.0, 3.0]).nanargmax().item()
            2
        """
        return _get_extremum(self, axis, -math.inf, keepdims=keepdims)

    def nanargmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the smallest element that is not NaN, the first of several; 0 where there is none.

        Args:
            axis: along which; None flattens first.
            keepdims: whether the axis stays, with size 1.

        Example:
            >>> Tensor([float("nan"), 1.0, 3.0]).nanargmin().item()
            1
        """
        return _get_extremum(self, axis, math.inf, keepdims=keepdims)

    def nancumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """`cumsum` in which NaNs count as 0.

        Args:
            axis: along which; None flattens first.
            dtype: of the result and the additions; by default as for `sum`.

        Example:
            >>> Tensor([1.0, float("nan"), 3.0]).nancumsum().tolist()
            [1.0, 1.0, 4.0]
        """
        return _without_nans(self, 0.0).cumsum(axis, dtype=dtype)

    def nancumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """`cumprod` in which NaNs count as 1.

        Args:
            axis: along which; None flattens first.
            dtype: of the result and the products; by default as for `prod`.

        Example:
            >>> Tensor([2.0, float("nan"), 3.0]).nancumprod().tolist()
            [2.0, 2.0, 6.0]
        """
        return _without_nans(self, 1.0).cumprod(axis, dtype=dtype)

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Numbers in place of NaN and the infinities, in the dtype of this tensor.

        Args:
            nan: in place of NaN.
            posinf: in place of infinity; by default the largest finite number.
            neginf: in place of minus infinity; by default the smallest finite number.

        Example:
            >>> Tensor([1.0, float("nan")]).nan_to_num(5.0).tolist()
            [1.0, 5.0]
        """
        if self.dtype.is_complex:
            return self.as_real().nan_to_num(nan, posinf, neginf).as_complex()
        if not self.dtype.is_float:
            return self.clone()
        limit = self.dtype.finfo_max
        high = self.eq(math.inf).where(limit if posinf is None else posinf, self)
        low = self.eq(-math.inf).where(-limit if neginf is None else neginf, high)
        return self.isnan().where(nan, low)


def _check_real(name: str, x: Theme) -> None:
    if x.dtype.is_complex:
        raise OperandError(
            operation=name, found=x.dtype, expected="real numbers", hint="take x.real, x.imag or x.abs()"
        )


def _without_nans(x: T, value: float) -> T:
    return x.isnan().where(value, x) if x.dtype.is_inexact else x


def _get_extremum(x: T, axis: int | None, worst: float, *, keepdims: bool) -> T:
    """Where the extremum stands; `worst` itself is one where all others are NaN."""
    if not x.dtype.is_float:
        return x.argmax(axis, keepdims=keepdims) if worst < 0 else x.argmin(axis, keepdims=keepdims)
    is_there = x.isnan().logical_not()
    filled = is_there.where(x if worst < 0 else x.neg(), -math.inf)
    is_worst = filled.max(axis, keepdims=keepdims).eq(-math.inf)
    return is_worst.where(is_there.argmax(axis, keepdims=keepdims), filled.argmax(axis, keepdims=keepdims))
