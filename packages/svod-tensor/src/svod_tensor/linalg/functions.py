"""Functions of square matrices: determinants, powers and the exponential.

Example:
    >>> from svod_tensor import Tensor, linalg
    >>> a = Tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> isinstance(linalg.slogdet(a), linalg.SlogdetResult), linalg.slogdet(a).sign.item()
    (True, 1.0)
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, NamedTuple

from svod_tensor.host_functions.derivatives import is_diagonal
from svod_tensor.linalg._operands import check_square, read_floats, round_to
from svod_tensor.linalg.lapack import determinants, systems
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.ops.core.rounding import accumulation_dtype
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand

__all__ = ["SlogdetResult", "det", "expm", "matrix_power", "slogdet"]


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


def det(x: Operand, /) -> Tensor:
    """The determinants of matrices of shape (..., n, n): shape (...). By LAPACK (getrf); `slogdet`
    cannot overflow.

    Derivatives of every order are there for singular matrices too.

    Args:
        x: the matrices.

    Raises:
        ShapeError: if they are not square.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.det(Tensor([[1.0, 2.0], [3.0, 4.0]])).round(3).item()
        -2.0
    """
    (a,), kind = read_floats(x)
    check_square("det", a)
    return round_to(kind, determinants.determinant(a))[0]


def slogdet(x: Operand, /) -> SlogdetResult:
    """The signs of determinants, and the logarithms of their sizes, by LAPACK (getrf).

    Args:
        x: matrices of shape (..., n, n).

    Returns:
        `sign` (1, -1, or 0) and `logabsdet` (minus infinity where the sign is 0), both of shape
        (...).

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when a derivative is computed): if one is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sign, log = sv.linalg.slogdet(Tensor([[0.0, 1e30], [1e30, 0.0]]))
        >>> sign.item(), f"{log.item():.3f}"
        (-1.0, '138.155')
    """
    (a,), kind = read_floats(x)
    check_square("slogdet", a)
    return SlogdetResult(*round_to(kind, *determinants.log_determinant(a)))


def matrix_power(x: Operand, n: int, /) -> Tensor:
    """The product of `n` factors `x`: of matrices of shape (..., m, m), by squaring. Integers stay
    integers if `n` is not negative.

    Args:
        x: the matrices.
        n: how often; negative for powers of the inverse.

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if `n` is negative and one is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.matrix_power(Tensor([[1, 1], [1, 0]]), 10).tolist()
        [[89, 55], [55, 34]]
    """
    given, n = to_tensor(x), operator.index(n)
    check_square("matrix_power", given)
    kind = given.dtype
    if n < 0:
        (given,), kind = read_floats(given)
        given = systems.inverse(given)
    power = given.cast(accumulation_dtype(given.dtype))
    result: Tensor | None = None
    left = abs(n)
    while left:
        if left & 1:
            result = power if result is None else result.matmul(power)
        left >>= 1
        power = power.matmul(power) if left else power
    if result is None:
        result = is_diagonal(power).cast(power.dtype).broadcast_to(power.shape).clone()
    return round_to(kind, result)[0]


def expm(x: Operand, /) -> Tensor:
    """The exponentials of matrices of shape (..., n, n), the limits of `I + x + x @ x / 2 + ...`,
    by scaling and squaring.

    Args:
        x: the matrices. The name is SciPy's.

    Raises:
        ShapeError: if they are not square.

    Source:
        N. J. Higham, The scaling and squaring method for the matrix exponential revisited, 2005.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.expm(Tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    (a,), kind = read_floats(x)
    check_square("expm", a)
    return round_to(kind, systems.exponential(a))[0]
