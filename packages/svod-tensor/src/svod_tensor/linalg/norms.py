"""Norms, ranks and condition numbers of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from svod_dtype import int64
from svod_ir import OperandError
from svod_ir.sizes import max_size
from svod_tensor._shapes import normalize_axes
from svod_tensor.linalg._operands import (
    check_matrices,
    check_square,
    names_itself,
    read_floats,
    round_to,
)
from svod_tensor.linalg.lapack import factors, systems
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.core.base import Operand

__all__ = ["MatrixOrder", "cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

MatrixOrder = float | Literal["fro", "nuc"]


@names_itself
def vector_norm(
    x: Operand, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Vector norms along `axis`: `sum(abs(x) ** ord) ** (1 / ord)`.
    Integers become float32.

    Args:
        x: the elements.
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.
        ord: a number. Infinity is the largest absolute value, minus infinity the smallest one, and
            0 the number of nonzero elements.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.vector_norm(sv.Tensor([3.0, -4.0])).item()
        5.0
    """
    return to_tensor(x).norm(axis, ord=ord, keepdims=keepdims)


def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: MatrixOrder = "fro") -> Tensor:
    """Norms of matrices of shape (..., m, n). Integers become float32.

    Args:
        x: the matrices.
        keepdims: whether the last two axes stay, with size 1.
        ord: `"fro"`, the root of the sum of squares; 1 and -1, the largest and the smallest sum of
            absolute values of a column; infinity and minus infinity, the same for rows; 2 and -2,
            the largest and the smallest singular value; `"nuc"`, the sum of singular values.

    Raises:
        AxisError: if there are fewer than two axes.
        OperandError: if `ord` is not a norm.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.matrix_norm(sv.Tensor([[3.0, 0.0], [0.0, -2.0]]), ord="nuc").item()
        5.0
    """
    return to_tensor(x).matrix_norm(ord=ord, keepdims=keepdims)


def norm(
    x: Operand, /, ord: MatrixOrder | None = None, axis: Axes = None, *, keepdims: bool = False
) -> Tensor:
    """The norm of vectors or matrices, as `numpy.linalg.norm`. Integers become float32.

    `vector_norm` and `matrix_norm` are explicit.

    Args:
        x: the elements.
        ord: as in `matrix_norm` for two axes, as in `vector_norm` for one. None is the root of the
            sum of squares.
        axis: one axis for vectors, two for matrices. None without `ord` flattens the tensor; with
            `ord`, the tensor must have one or two axes.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if `ord` is not a norm for the number of axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.norm(sv.Tensor([[3.0, 0.0], [0.0, -4.0]])).item(), sv.linalg.norm(sv.Tensor([[3.0], [4.0]]), 1).item()
        (5.0, 7.0)
    """
    tensor = to_tensor(x)
    axes = normalize_axes("norm", axis, tensor.ndim)
    # As in numpy: the 2-norm of all elements, for any number of axes.
    if ord is None:
        return tensor.norm(axes, keepdims=keepdims)
    if len(axes) == 1 and not isinstance(ord, str):
        return tensor.norm(axes[0], ord=ord, keepdims=keepdims)
    if len(axes) != 2:
        raise OperandError(
            operation="norm",
            found=f"{ord!r} of {len(axes)} axes",
            expected="one or two axes with an ord",
        )
    result = tensor.moveaxis(axes, (-2, -1)).matrix_norm(ord=ord, keepdims=keepdims)
    return result.moveaxis((-2, -1), axes) if keepdims else result


def matrix_rank(x: Operand, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Ranks (int64) of matrices of shape (..., m, n): numbers of significant singular values, of
    shape (...).

    Args:
        x: the matrices.
        rtol: the relative threshold, times the largest singular value; a number, or a tensor of
            shape (...). By default max(m, n) times the machine epsilon.

    Raises:
        AxisError: if there are fewer than two axes.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.matrix_rank(sv.Tensor([[1.0, 2.0], [2.0, 4.0]])).item()
        1
    """
    (a,), _ = read_floats(x)
    check_matrices("matrix_rank", a)
    values = factors.singular_values(a)
    if not max_size(values.shape[-1]):
        return values.sum(-1).cast(int64)
    # As in numpy: relative to the largest value, so that scaling a matrix keeps its rank.
    limit = values.max(-1, keepdims=True) * systems.get_cutoff(a, rtol).unsqueeze(-1)
    return values.gt(limit).sum(-1, dtype=int64)


def cond(x: Operand, /, p: MatrixOrder | None = None) -> Tensor:
    """Condition numbers of matrices of shape (..., m, n). Integers become float32.

    Args:
        x: the matrices, square unless `p` is 2, -2 or None.
        p: the order of the norm, as `ord` in `matrix_norm`: the result is the norm times the norm of
            the inverse, infinite for singular matrices. None is 2, the quotient of the largest and
            the smallest singular value.

    Raises:
        ShapeError: if the matrices are not square.
        OperandError: if there is no such norm.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.cond(sv.Tensor([[4.0, 0.0], [0.0, 2.0]])).item()
        2.0
    """
    (a,), kind = read_floats(x)
    if p is None or p in (2, -2):
        check_matrices("cond", a)
        values = factors.singular_values(a)
        # In descending order.
        first, last = values[..., 0], values[..., -1]
        quotient = last / first if p == -2 else first / last
    else:
        check_square("cond", a)
        # A singular matrix has a condition number, so its inverse is NaN here instead of an error.
        quotient = a.matrix_norm(ord=p) * systems.inverse(a, is_total=True).matrix_norm(ord=p)
    # 0 / 0 and singular matrices are infinite; matrices with NaN stay NaN, as in numpy.
    is_singular = quotient.isnan() & ~a.isnan().any((-2, -1))
    return round_to(kind, is_singular.where(math.inf, quotient))[0]
