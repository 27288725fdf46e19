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
    """Result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


def det(x: Operand, /) -> Tensor:
    """Determinants of matrices of shape (..., n, n), of shape (...), by LAPACK (getrf). Integers
    become float32.

    `slogdet` cannot overflow. Singular matrices have derivatives of every order too.

    Args:
        x: the matrices.

    Raises:
        ShapeError: if they are not square.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.det(sv.Tensor([[1.0, 2.0], [3.0, 4.0]])).round(3).item()
        -2.0
    """
    (a,), kind = read_floats(x)
    check_square("det", a)
    return round_to(kind, determinants.determinant(a))[0]


def slogdet(x: Operand, /) -> SlogdetResult:
    """Signs of determinants, and logarithms of their absolute values, by LAPACK (getrf). Integers
    become float32.

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
        >>> sign, log = sv.linalg.slogdet(sv.Tensor([[0.0, 1e30], [1e30, 0.0]]))
        >>> sign.item(), f"{log.item():.3f}"
        (-1.0, '138.155')
    """
    (a,), kind = read_floats(x)
    check_square("slogdet", a)
    return SlogdetResult(*round_to(kind, *determinants.log_determinant(a)))


def matrix_power(x: Operand, n: int, /) -> Tensor:
    """The `n`-th power of matrices of shape (..., m, m), by repeated squaring.

    Integers stay integers if `n` is not negative.

    Args:
        x: the matrices.
        n: the exponent; negative for powers of the inverse.

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if `n` is negative and one is singular.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.matrix_power(sv.Tensor([[1, 1], [1, 0]]), 10).tolist()
        [[89, 55], [55, 34]]
    """
    base, n = to_tensor(x), operator.index(n)
    check_square("matrix_power", base)
    kind = base.dtype
    if n < 0:
        (base,), kind = read_floats(base)
        base = systems.inverse(base)
    # Narrow floats would be rounded in each product.
    power = base.cast(accumulation_dtype(base.dtype))
    result: Tensor | None = None
    remaining = abs(n)
    while remaining:
        if remaining & 1:
            result = power if result is None else result.matmul(power)
        remaining >>= 1
        power = power.matmul(power) if remaining else power
    if result is None:
        # The power 0 of every matrix, a singular one too, is the identity.
        result = is_diagonal(power).cast(power.dtype).broadcast_to(power.shape).clone()
    return round_to(kind, result)[0]


def expm(x: Operand, /) -> Tensor:
    """Exponentials of matrices of shape (..., n, n), the limits of `I + x + x @ x / 2 + ...`, by
    scaling and squaring. Integers become float32.

    Args:
        x: the matrices. The name is SciPy's.

    Raises:
        ShapeError: if they are not square.

    Source:
        N. J. Higham, The scaling and squaring method for the matrix exponential revisited, 2005.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.expm(sv.Tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    (a,), kind = read_floats(x)
    check_square("expm", a)
    return round_to(kind, systems.exponential(a))[0]
