"""Matrix factorizations: Cholesky, eigenvalues, singular values, and QR.

Example:
    >>> from svod_tensor import Tensor, linalg
    >>> a = Tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> isinstance(linalg.eigh(a), linalg.EighResult), linalg.eigh(a).eigenvalues.tolist()
    (True, [1.0, 2.0])
    >>> isinstance(linalg.eig(a), linalg.EigResult), isinstance(linalg.qr(a), linalg.QRResult)
    (True, True)
    >>> isinstance(linalg.svd(a), linalg.SVDResult), linalg.svd(a).S.tolist()
    (True, [2.0, 1.0])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from svod_ir import OperandError
from svod_tensor.host_functions.derivatives import adjoint
from svod_tensor.linalg._operands import check_matrices, check_square, read_floats, round_to
from svod_tensor.linalg.lapack import factors
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand

__all__ = [
    "EigResult",
    "EighResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "qr",
    "svd",
    "svdvals",
]


class EigResult(NamedTuple):
    """Result of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Result of `qr`."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Operand, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of symmetric, or complex Hermitian, positive definite matrices, by
    LAPACK (potrf). Integers become float32.

    Args:
        x: of shape (..., n, n); only the triangle of the result is read.
        upper: whether the result is `U` of `x = U.conj().mT @ U`, or `L` of `x = L @ L.conj().mT`.

    Returns:
        the factors, of shape (..., n, n), with 0 in the other triangle. The derivative assumes a
        symmetric perturbation.

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if a matrix is not positive definite.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.cholesky(sv.Tensor([[4.0, 2.0], [2.0, 10.0]])).tolist()
        [[2.0, 0.0], [1.0, 3.0]]
    """
    (a,), kind = read_floats(x)
    check_square("cholesky", a)
    # The adjoint moves the upper triangle to the lower one, the only one that LAPACK reads.
    factor = adjoint(factors.cholesky(adjoint(a))) if upper else factors.cholesky(a)
    return round_to(kind, factor)[0]


def eig(x: Operand, /) -> EigResult:
    """Complex eigenvalues and eigenvectors of matrices, by LAPACK (geev). They are complex64, or
    complex128 for float64 and complex128 matrices.

    Args:
        x: of shape (..., n, n). For symmetric matrices, `eigh` is more accurate and faster.

    Returns:
        `eigenvalues` of shape (..., n), in no particular order, and normalized `eigenvectors` of
        shape (..., n, n), in columns. Equal eigenvalues have no derivative, so that it is infinite
        or NaN.

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.eig(sv.Tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.tolist()
        [1j, -1j]
    """
    (a,), _ = read_floats(x)
    check_square("eig", a)
    return EigResult(*factors.eig(a))


def eigvals(x: Operand, /) -> Tensor:
    """Complex eigenvalues of matrices, in no particular order, by LAPACK (geev). They are
    complex64, or complex128 for float64 and complex128 matrices.

    Args:
        x: of shape (..., n, n). For symmetric matrices, `eigvalsh` is more accurate and faster.

    Returns:
        the eigenvalues, of shape (..., n).

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.eigvals(sv.Tensor([[2.0, 1.0], [0.0, 3.0]])).tolist()
        [(2+0j), (3+0j)]
    """
    (a,), _ = read_floats(x)
    check_square("eigvals", a)
    return factors.eigvals(a)


def eigh(x: Operand, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric or complex Hermitian matrices, by LAPACK (syevd).
    Integers become float32; eigenvalues of complex matrices are real.

    Args:
        x: of shape (..., n, n); the lower triangle is read.

    Returns:
        `eigenvalues` of shape (..., n), in ascending order, and normalized `eigenvectors` of shape
        (..., n, n), in columns. Derivatives assume a symmetric perturbation. Vectors of equal
        eigenvalues have no derivative, so that it is infinite or NaN.

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> values, vectors = sv.linalg.eigh(sv.Tensor([[2.0, 1.0], [1.0, 2.0]]))
        >>> values.round(3).tolist(), abs(vectors).round(3).tolist()[0]
        ([1.0, 3.0], [0.7070000171661377, 0.7070000171661377])
    """
    (a,), kind = read_floats(x)
    check_square("eigh", a)
    return EighResult(*round_to(kind, *factors.eigh(a)))


def eigvalsh(x: Operand, /) -> Tensor:
    """Eigenvalues of symmetric or complex Hermitian matrices in ascending order, by LAPACK (syevd).
    Integers become float32; eigenvalues of complex matrices are real.

    Args:
        x: of shape (..., n, n); the lower triangle is read.

    Returns:
        the eigenvalues, of shape (..., n).

    Raises:
        ShapeError: if the matrices are not square.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.eigvalsh(sv.Tensor([[2.0, 1.0], [1.0, 2.0]])).round(3).tolist()
        [1.0, 3.0]
    """
    (a,), kind = read_floats(x)
    check_square("eigvalsh", a)
    return round_to(kind, factors.eigvalsh(a))[0]


def svd(x: Operand, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values and vectors, `x = U @ diag(S) @ Vh`, by LAPACK (gesdd). Integers become
    float32.

    Args:
        x: of shape (..., m, n), with k as the smaller of m and n.
        full_matrices: whether `U` has shape (..., m, m) and `Vh` (..., n, n), or (..., m, k) and
            (..., k, n).

    Returns:
        `U` with the left vectors in columns, `S` of shape (..., k), in descending order, and `Vh`
        with the right vectors in rows. Vectors of equal singular values have no derivative, so that
        it is infinite or NaN.

    Raises:
        AxisError: if there are fewer than two axes.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.
        NotDifferentiableError (when a derivative is taken): for vectors beyond the first k.

    Example:
        >>> import svod_tensor as sv
        >>> u, s, vh = sv.linalg.svd(sv.Tensor([[3.0, 0.0], [0.0, -2.0], [0.0, 0.0]]), full_matrices=False)
        >>> u.shape, s.tolist(), vh.shape
        ((3, 2), [3.0, 2.0], (2, 2))
    """
    (a,), kind = read_floats(x)
    check_matrices("svd", a)
    return SVDResult(*round_to(kind, *factors.svd(a, is_full=full_matrices)))


def svdvals(x: Operand, /) -> Tensor:
    """Singular values of matrices of shape (..., m, n), in descending order, by LAPACK (gesdd). The
    shape is (..., min(m, n)). Integers become float32.

    Args:
        x: the matrices.

    Raises:
        AxisError: if there are fewer than two axes.
        MatrixError (when the result is computed): if the iteration does not converge, as with NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.svdvals(sv.Tensor([[3.0, 0.0], [0.0, -2.0]])).tolist()
        [3.0, 2.0]
    """
    (a,), kind = read_floats(x)
    check_matrices("svdvals", a)
    return round_to(kind, factors.singular_values(a))[0]


def qr(x: Operand, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """`x = Q @ R` with orthonormal columns in `Q` and 0 below the diagonal of `R`, by LAPACK
    (geqrf). Integers become float32.

    Args:
        x: of shape (..., m, n), with k as the smaller of m and n.
        mode: `"reduced"` for `Q` of shape (..., m, k) and `R` of (..., k, n), `"complete"` for
            (..., m, m) and (..., m, n).

    Returns:
        `Q` and `R`, whose derivatives are infinite or NaN if the first k columns are linearly
        dependent.

    Raises:
        AxisError: if there are fewer than two axes.
        OperandError: if the mode is unknown.
        NotDifferentiableError (when a derivative is taken): for columns of `Q` beyond the columns
            of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> q, r = sv.linalg.qr(sv.Tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> abs(r).round(3).tolist()
        [[5.0, 2.200000047683716], [0.0, 0.4000000059604645]]
    """
    if mode not in ("reduced", "complete"):
        raise OperandError(
            operation="qr", found=repr(mode), expected='"reduced" or "complete" as mode'
        )
    (a,), kind = read_floats(x)
    check_matrices("qr", a)
    return QRResult(*round_to(kind, *factors.qr(a, is_complete=mode == "complete")))
