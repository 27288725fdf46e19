"""Factors of matrices, with their derivatives.

Sources: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation, 2008; S. Walter and L. Lehmann, Algorithmic differentiation of linear algebra
functions, 2010 (QR); I. Murray, Differentiation of the Cholesky decomposition, 2016; J. Townsend,
Differentiating the singular value decomposition, 2016."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from svod_dtype import DType, complex64, promote_types
from svod_ir import NotDifferentiableError, SInt
from svod_ir.sizes import normalize_size
from svod_ir.uop import to_node
from svod_tensor.host_functions.derivatives import (
    adjoint,
    conjugate,
    diagonal_matrix,
    is_diagonal,
    matrix_rule,
    scale_columns,
    with_matrix_rule,
)
from svod_tensor.host_functions.libraries import LINALG
from svod_tensor.host_functions.nodes import call_host
from svod_tensor.linalg.lapack.systems import solve, solve_triangular
from svod_tensor.ops.core.operands import slice_axis

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "min_size",
    "qr",
    "singular_values",
    "svd",
    "to_complex_dtype",
]

Parts = Sequence["Tensor | None"]


def cholesky(x: Tensor) -> Tensor:
    """The lower triangular factor whose product with its adjoint is the matrix, of which the lower
    triangle is read.
    """
    found = call_host(f"{LINALG}cholesky", [x], [(x.shape, x.dtype)])
    return with_matrix_rule(_cholesky_gradient, found, (x,))[0]


@matrix_rule("cholesky")
def _cholesky_gradient(
    cotangents: Parts, values: Sequence[Tensor], _: object
) -> tuple[Tensor | None]:
    """As if the matrix were made symmetric first, as it is meant to be."""
    (given,), (lower,) = cotangents, values
    if given is None:
        return (None,)
    product = adjoint(lower).matmul(given.tril())
    middle = _halve_diagonal(product.tril())
    half = solve_triangular(adjoint(lower), middle, is_upper=True)
    whole = solve_triangular(adjoint(lower), adjoint(half), is_upper=True)
    return (_make_symmetric(whole),)


def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues, smallest first, and in columns the eigenvectors of symmetric matrices; the
    lower triangle is read.
    """
    found = call_host(f"{LINALG}eigh", [x], [(x.shape[:-1], x.dtype.part), (x.shape, x.dtype)])
    values, vectors = with_matrix_rule(_eigh_gradient, found, (x,))
    return values, vectors


@matrix_rule("eigh")
def _eigh_gradient(cotangents: Parts, found: Sequence[Tensor], _: object) -> tuple[Tensor | None]:
    """That of vectors is infinite where two values are equal, since any vectors of their plane are
    right then.
    """
    (of_values, of_vectors), (values, vectors) = cotangents, found
    inner: Tensor | None = None if of_values is None else diagonal_matrix(of_values)
    if of_vectors is not None:
        turned = adjoint(vectors).matmul(of_vectors)
        turned = is_diagonal(turned).where(0, turned.div(_get_distances(values)))
        inner = turned if inner is None else inner.add(turned)
    if inner is None:
        return (None,)
    return (_make_symmetric(vectors.matmul(inner).matmul(adjoint(vectors))),)


def eigvalsh(x: Tensor) -> Tensor:
    """The eigenvalues of symmetric matrices, smallest first."""
    found = call_host(f"{LINALG}eigvalsh", [x], [(x.shape[:-1], x.dtype.part)])
    return with_matrix_rule(_eigvalsh_gradient, found, (x,))[0]


@matrix_rule("eigvalsh")
def _eigvalsh_gradient(
    cotangents: Parts, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """The vectors are computed for the derivative alone."""
    (given,), (x,) = cotangents, operands
    if given is None:
        return (None,)
    vectors = eigh(x)[1]
    return (_make_symmetric(scale_columns(vectors, given).matmul(adjoint(vectors))),)


def eig(x: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues of matrices, in any order, and in columns the eigenvectors: complex
    numbers.
    """
    dtype = to_complex_dtype(x.dtype)
    found = call_host(f"{LINALG}eig", [x], [(x.shape[:-1], dtype), (x.shape, dtype)])
    values, vectors = with_matrix_rule(_eig_gradient, found, (x,))
    return values, vectors


@matrix_rule("eig")
def _eig_gradient(cotangents: Parts, found: Sequence[Tensor], _: object) -> tuple[Tensor | None]:
    """Vectors have length 1 whatever the matrix is. Infinite where two values are equal.

    Source: C. Boeddeker et al., On the computation of complex-valued gradients with application to
    statistically optimum beamforming, 2017, equation 4.77."""
    (of_values, of_vectors), (values, vectors) = cotangents, found
    turned = adjoint(vectors)
    inner: Tensor | None = None if of_values is None else diagonal_matrix(of_values)
    if of_vectors is not None:
        along = turned.matmul(of_vectors)
        lengths = is_diagonal(along).where(along.real, 0).sum(-2)
        part = along.sub(turned.matmul(scale_columns(vectors, lengths)))
        part = is_diagonal(part).where(0, part.div(conjugate(_get_distances(values))))
        inner = part if inner is None else inner.add(part)
    return (None if inner is None else solve(turned, inner.matmul(turned)),)


def eigvals(x: Tensor) -> Tensor:
    """The eigenvalues of matrices, in any order: complex numbers."""
    found = call_host(f"{LINALG}eigvals", [x], [(x.shape[:-1], to_complex_dtype(x.dtype))])
    return with_matrix_rule(_eigvals_gradient, found, (x,))[0]


@matrix_rule("eigvals")
def _eigvals_gradient(
    cotangents: Parts, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """The vectors are computed for the derivative alone.

    LAPACK may find the values of both in two orders.
    """
    (given,), (value,), (x,) = cotangents, values, operands
    if given is None or x.shape[-1] == 0:
        return (None,)
    values_too, vectors = eig(x)
    turned = adjoint(vectors)
    nearest = value.unsqueeze(-2).sub(values_too.unsqueeze(-1)).abs().argmin(-1)
    placed = given.take_along_axis(nearest, -1)
    return (solve(turned, diagonal_matrix(placed).matmul(turned)),)


def to_complex_dtype(dtype: DType) -> DType:
    """The dtype of complex numbers whose parts have the precision of `dtype`."""
    return promote_types(dtype, complex64)


def svd(x: Tensor, *, is_full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The left singular vectors in columns, the singular values, largest first, and the right
    vectors in rows.
    """
    *batch, rows, columns = x.shape
    n = min_size(rows, columns)
    shapes = (
        (*batch, rows, rows if is_full else n),
        (*batch, n),
        (*batch, columns if is_full else n, columns),
    )
    dtypes = x.dtype, x.dtype.part, x.dtype
    found = call_host(f"{LINALG}svd", [x], list(zip(shapes, dtypes, strict=True)), [is_full])
    left, values, right = with_matrix_rule(_svd_gradient, found, (x,))
    return left, values, right


@matrix_rule("svd")
def _svd_gradient(
    cotangents: Parts, found: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """That of vectors is infinite where two values are equal, and where one is 0 in a matrix that
    is not square.
    """
    (of_left, of_values, of_right), (left, values, right), (x,) = cotangents, found, operands
    rows, columns = x.shape[-2:]
    n = values.shape[-1]
    if left.shape[-1] != n or right.shape[-2] != n:
        if of_left is not None or of_right is not None:
            raise _refuse(
                "svd",
                "its vectors beyond the singular values are any that fill the space",
                "full_matrices",
            )
        left, _, right = svd(x, is_full=False)
    inner: Tensor | None = None if of_values is None else diagonal_matrix(of_values)
    outer: Tensor | None = None
    between = _get_distances(values.square())
    if of_left is not None:
        turned = adjoint(left).matmul(of_left)
        part = is_diagonal(turned).where(0, scale_columns(_make_skew(turned).div(between), values))
        inner = part if inner is None else inner.add(part)
        if x.dtype.is_complex:
            # What turns the phases of a pair of vectors.
            phases = is_diagonal(turned).where(_make_skew(turned).mul(0.5), 0)
            inner = inner.add(scale_columns(phases, values.reciprocal()))
        if rows != n:
            scaled = scale_columns(of_left, values.reciprocal())
            outer = scaled.sub(left.matmul(adjoint(left).matmul(scaled))).matmul(right)
    if of_right is not None:
        given = adjoint(of_right)
        turned = right.matmul(given)
        part = is_diagonal(turned).where(
            0, _make_skew(turned).div(between).mul(values.unsqueeze(-1))
        )
        inner = part if inner is None else inner.add(part)
        if columns != n:
            scaled = scale_columns(given, values.reciprocal())
            rest = scaled.sub(adjoint(right).matmul(right.matmul(scaled)))
            across = left.matmul(adjoint(rest))
            outer = across if outer is None else outer.add(across)
    if inner is None:
        return (None,)
    whole = left.matmul(inner).matmul(right)
    return (whole if outer is None else whole.add(outer),)


def singular_values(x: Tensor) -> Tensor:
    """The singular values, largest first."""
    *batch, rows, columns = x.shape
    found = call_host(f"{LINALG}svdvals", [x], [((*batch, min_size(rows, columns)), x.dtype.part)])
    return with_matrix_rule(_singular_values_gradient, found, (x,))[0]


@matrix_rule("svdvals")
def _singular_values_gradient(
    cotangents: Parts, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """The vectors are computed for the derivative alone."""
    (given,), (x,) = cotangents, operands
    if given is None:
        return (None,)
    left, _, right = svd(x, is_full=False)
    return (scale_columns(left, given).matmul(right),)


def qr(x: Tensor, *, is_complete: bool) -> tuple[Tensor, Tensor]:
    """A matrix with orthonormal columns, and an upper triangular one."""
    *batch, rows, columns = x.shape
    n = rows if is_complete else min_size(rows, columns)
    shapes = (*batch, rows, n), (*batch, n, columns)
    found = call_host(f"{LINALG}qr", [x], [(shape, x.dtype) for shape in shapes], [is_complete])
    q, r = with_matrix_rule(_qr_gradient, found, (x,))
    return q, r


@matrix_rule("qr")
def _qr_gradient(
    cotangents: Parts, found: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """An error where a diagonal element of `r` is 0: the first columns depend on each other then.

    Of a wide matrix, these alone make the first factor.
    """
    (of_q, of_r), (q, r), (x,) = cotangents, found, operands
    rows, columns = x.shape[-2:]
    if of_q is None and of_r is None:
        return (None,)
    if rows == columns or min_size(rows, columns) == columns:
        if q.shape[-1] != columns:
            raise _refuse(
                "qr", "its columns beyond those of the matrix are any that fill the space", "mode"
            )
        return (_tall_qr_gradient(of_q, of_r, q, r),)
    last = x.ndim - 1
    others, square = slice_axis(x, last, rows, columns), slice_axis(r, last, 0, rows)
    of_square: Tensor | None = None
    of_others: Tensor | None = None
    if of_r is not None:
        of_square, of_rest = slice_axis(of_r, last, 0, rows), slice_axis(of_r, last, rows, columns)
        through = others.matmul(adjoint(of_rest))
        of_q = through if of_q is None else of_q.add(through)
        of_others = q.matmul(of_rest)
    of_first = _tall_qr_gradient(of_q, of_square, q, square)
    return (of_first.concat(others.zeros_like() if of_others is None else of_others, axis=-1),)


def _tall_qr_gradient(of_q: Tensor | None, of_r: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    inner: Tensor | None = None if of_r is None else of_r.triu().matmul(adjoint(r))
    if of_q is not None:
        turned = adjoint(q).matmul(of_q)
        inner = turned.neg() if inner is None else inner.sub(turned)
    assert inner is not None
    upper = inner.triu()
    symmetric = upper.add(adjoint(upper))
    symmetric = is_diagonal(upper).where(symmetric.mul(0.5), symmetric)
    whole = q.matmul(symmetric)
    if of_q is not None:
        whole = whole.add(of_q)
    return adjoint(solve_triangular(r, adjoint(whole), is_upper=True))


def min_size(left: SInt, right: SInt) -> SInt:
    """The smaller of two sizes."""
    return normalize_size(to_node(left).minimum(right))


def _get_distances(values: Tensor) -> Tensor:
    """How far each value of a row is from each one of a column; 1 from itself."""
    between = values.unsqueeze(-2).sub(values.unsqueeze(-1))
    return is_diagonal(between).where(1, between)


def _make_symmetric(x: Tensor) -> Tensor:
    return x.add(adjoint(x)).mul(0.5)


def _make_skew(x: Tensor) -> Tensor:
    return x.sub(adjoint(x))


def _halve_diagonal(x: Tensor) -> Tensor:
    return is_diagonal(x).where(x.mul(0.5), x)


def _refuse(operation: str, reason: str, argument: str) -> NotDifferentiableError:
    values: Final = {"full_matrices": "full_matrices=False", "mode": 'mode="reduced"'}
    return NotDifferentiableError(
        operation=operation, reason=reason, hint=f"ask for {values[argument]}"
    )
