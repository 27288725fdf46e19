"""Inverses and solutions of linear systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_ir import ShapeError, format_shape
from svod_ir.sizes import product
from svod_tensor._shapes import normalize_axes
from svod_tensor.linalg._operands import (
    check_matrices,
    check_square,
    names_itself,
    read_floats,
    round_to,
)
from svod_tensor.linalg.lapack import factors, systems
from svod_tensor.linalg.norms import matrix_rank
from svod_tensor.ops.core.operands import to_tensor, to_tensors
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand

__all__ = [
    "LstsqResult",
    "inv",
    "lstsq",
    "pinv",
    "solve",
    "solve_triangular",
    "tensorinv",
    "tensorsolve",
]


class LstsqResult(NamedTuple):
    """Result of `lstsq`.

    Example:
        >>> import svod_tensor as sv
        >>> x1, x2 = sv.asarray([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), sv.asarray([0.0, 1.0, 5.0])
        >>> result = sv.linalg.lstsq(x1, x2)
        >>> result.x.round(3).tolist(), result.residuals.round(3).tolist(), result.rank.item()
        ([-0.5, 2.5], [1.5], 2)
    """

    x: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def inv(x: Operand, /) -> Tensor:
    """Inverses of matrices of shape (..., n, n), by LAPACK (gesv). Integers become float32.

    Args:
        x: the matrices. For linear systems, `solve` is more accurate and faster.

    Raises:
        ShapeError: if they are not square.
        MatrixError (when the result is computed): if a matrix is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.inv(sv.Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    (a,), kind = read_floats(x)
    check_square("inv", a)
    return round_to(kind, systems.inverse(a))[0]


def pinv(x: Operand, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Moore-Penrose inverses of matrices of shape (..., m, n), of shape (..., n, m), by LAPACK
    (gesdd). Integers become float32.

    Args:
        x: the matrices.
        rtol: singular values up to this times the largest one count as 0; a number, or a tensor of
            shape (...). By default max(m, n) times the machine epsilon.

    Returns:
        the inverses. The derivative assumes that the rank is locally constant.

    Raises:
        AxisError: if there are fewer than two axes.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.pinv(sv.Tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    (a,), kind = read_floats(x)
    check_matrices("pinv", a)
    return round_to(kind, systems.pseudo_inverse(a, systems.get_cutoff(a, rtol)))[0]


def solve(x1: Operand, x2: Operand, /) -> Tensor:
    """The solution `x` of `x1 @ x = x2`, by LAPACK (gesv). Integers become float32.

    Args:
        x1: of shape (..., n, n).
        x2: of shape (n,) for one vector, otherwise (..., n, k). Leading axes broadcast.

    Returns:
        shape (..., n) for one vector, otherwise (..., n, k).

    Raises:
        ShapeError: if the matrices are not square, or the sizes differ.
        MatrixError (when the result is computed): if a matrix is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.solve(sv.Tensor([[2.0, 0.0], [0.0, 4.0]]), sv.Tensor([1.0, 1.0])).tolist()
        [0.5, 0.25]
    """
    (a, b), kind = read_floats(x1, x2)
    check_square("solve", a)
    columns = _to_columns("solve", a, b)
    solution = systems.solve(a, columns)
    return round_to(kind, solution.squeeze(-1) if b.ndim == 1 else solution)[0]


def solve_triangular(
    x1: Operand, x2: Operand, /, *, upper: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """The solution `x` of `x1 @ x = x2` with triangular matrices, by substitution. The name is
    SciPy's. Integers become float32.

    Args:
        x1: of shape (..., n, n); the other triangle is not read.
        x2: of shape (n,) for one vector, otherwise (..., n, k). Leading axes broadcast.
        upper: whether the matrices are upper triangular instead of lower triangular.
        unit_diagonal: whether the diagonal is taken as 1 and not read.

    Raises:
        ShapeError: if the matrices are not square, or the sizes differ.
        MatrixError (when the result is computed): if a matrix has a 0 on its diagonal.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.solve_triangular(sv.Tensor([[2.0, 0.0], [1.0, 4.0]]), sv.Tensor([2.0, 5.0])).tolist()
        [1.0, 1.0]
    """
    (a, b), kind = read_floats(x1, x2)
    check_square("solve_triangular", a)
    columns = _to_columns("solve_triangular", a, b)
    solution = systems.solve_triangular(a, columns, is_upper=upper, has_unit_diagonal=unit_diagonal)
    return round_to(kind, solution.squeeze(-1) if b.ndim == 1 else solution)[0]


def lstsq(x1: Operand, x2: Operand, /, rcond: float | None = None) -> LstsqResult:
    """The minimum-norm least-squares solution `x` of `x1 @ x = x2`, by LAPACK (gesdd). Integers
    become float32.

    Args:
        x1: of shape (..., m, n).
        x2: of shape (m,) for one vector, otherwise (..., m, k). Leading axes broadcast.
        rcond: singular values up to this times the largest one count as 0; by default max(m, n)
            times the machine epsilon.

    Returns:
        `x` of shape (n,) or (..., n, k), the squared norms of the residuals of shape (1,) or (...,
        k), which numpy omits where the rank is not n, the ranks (int64), and the singular values of
        `x1`. The derivative of `x` assumes that the rank is locally constant.

    Raises:
        ShapeError: if the sizes differ.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> result = sv.linalg.lstsq(sv.Tensor([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]), sv.Tensor([1.0, 2.0, 3.0]))
        >>> abs(result.x.round(3)).tolist(), result.rank.item()
        ([0.0, 1.0], 2)
    """
    (a, b), kind = read_floats(x1, x2)
    check_matrices("lstsq", a)
    columns = _to_columns("lstsq", a, b)
    cutoff = systems.get_cutoff(a, rcond)
    solution = systems.least_squares(a, columns, cutoff)
    # Computed for every rank: in a graph, the shape of a result cannot depend on values.
    residuals = columns.sub(a.matmul(solution)).abs().square().sum(-2)
    values = factors.singular_values(a)
    x, residuals, values = round_to(
        kind, solution.squeeze(-1) if b.ndim == 1 else solution, residuals, values
    )
    return LstsqResult(x, residuals, matrix_rank(a, rtol=cutoff), values)


@names_itself
def tensorinv(x: Operand, /, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a matrix, with the first `ind` axes as rows and the trailing axes
    as columns. Integers become float32.

    Args:
        x: a tensor with equal products of its first `ind` sizes and of its trailing sizes.
        ind: the number of row axes.

    Returns:
        the inverse, with the trailing axes first: `tensordot(tensorinv(x, ind), x, axes=ind)` is
            the identity.

    Raises:
        ShapeError: if the matrix is not square, or `ind` is not positive.
        MatrixError (when the result is computed): if the matrix is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.tensorinv(sv.eye(6).reshape((2, 3, 6))).shape
        (6, 2, 3)
    """
    a = to_tensor(x)
    if not 0 < ind <= a.ndim:
        raise ShapeError(
            operation="tensorinv",
            shape=a.shape,
            problem=f"ind must be between 1 and {a.ndim}, got {ind}",
        )
    rows, columns = a.shape[:ind], a.shape[ind:]
    return inv(a.reshape(product(rows), product(columns))).reshape(*columns, *rows)


@names_itself
def tensorsolve(x1: Operand, x2: Operand, /, axes: Sequence[int] | None = None) -> Tensor:
    """The solution `x` of `tensordot(x1, x, axes=x.ndim) == x2`. Integers become float32.

    Args:
        x1: the coefficients, with the shape of `x2` followed by the shape of the result; both have
            the same number of elements.
        x2: the right-hand side.
        axes: axes of `x1` to move to the end first.

    Raises:
        ShapeError: if `x1` is not square in this sense.
        MatrixError (when the result is computed): if `x1` is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.tensorsolve(sv.eye(6).reshape((2, 3, 6)), sv.Tensor.ones(2, 3)).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    a, b = to_tensors(x1, x2)
    trailing = normalize_axes("tensorsolve", axes, a.ndim) if axes is not None else ()
    a = a.permute([n for n in range(a.ndim) if n not in trailing] + list(trailing))
    shape = a.shape[b.ndim :]
    if a.ndim < b.ndim or product(a.shape[: b.ndim]) != b.size:
        raise ShapeError(
            operation="tensorsolve",
            shape=a.shape,
            problem=(
                f"the first {b.ndim} sizes of x1 {format_shape(a.shape)} must have the same product"
                f" as the sizes of x2 {format_shape(b.shape)}"
            ),
        )
    return solve(a.reshape(b.size, product(shape)), b.flatten()).reshape(*shape)


def _to_columns(operation: str, a: Tensor, b: Tensor) -> Tensor:
    """The right-hand sides as matrices with the number of rows of `a`."""
    # As in numpy 2: only a 1-d right-hand side is one vector, anything else a batch of matrices.
    columns = b.unsqueeze(-1) if b.ndim == 1 else b
    if columns.ndim < 2 or columns.shape[-2] != a.shape[-2]:
        raise ShapeError(
            operation=operation,
            shape=b.shape,
            problem=(
                f"right-hand side {format_shape(b.shape)} does not match matrices"
                f" {format_shape(a.shape)}"
            ),
        )
    return columns
