"""Matrix factorizations, with their derivatives. `x_bar` is the cotangent of `x`, as in Giles.

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

Cotangents = Sequence["Tensor | None"]


def cholesky(x: Tensor) -> Tensor:
    """The lower Cholesky factor of a matrix, of which the lower triangle is read."""
    results = call_host(f"{LINALG}cholesky", [x], [(x.shape, x.dtype)])
    return with_matrix_rule(_cholesky_gradient, results, (x,))[0]


@matrix_rule("cholesky")
def _cholesky_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], _: object
) -> tuple[Tensor | None]:
    """Symmetrized cotangent, as if the matrix were symmetrized first."""
    (cotangent,), (lower,) = cotangents, values
    if cotangent is None:
        return (None,)
    product = adjoint(lower).matmul(cotangent.tril())
    # The diagonal is part of both triangles, and would count twice.
    inner = _halve_diagonal(product.tril())
    solved = solve_triangular(adjoint(lower), inner, is_upper=True)
    x_bar = solve_triangular(adjoint(lower), adjoint(solved), is_upper=True)
    return (_make_symmetric(x_bar),)


def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order and eigenvectors in columns of symmetric matrices.

    The lower triangle is read.
    """
    results = call_host(f"{LINALG}eigh", [x], [(x.shape[:-1], x.dtype.part), (x.shape, x.dtype)])
    values, vectors = with_matrix_rule(_eigh_gradient, results, (x,))
    return values, vectors


@matrix_rule("eigh")
def _eigh_gradient(
    cotangents: Cotangents, results: Sequence[Tensor], _: object
) -> tuple[Tensor | None]:
    """Cotangent of the matrix. Infinite for vectors of equal eigenvalues, whose basis is arbitrary."""
    (values_bar, vectors_bar), (values, vectors) = cotangents, results
    inner: Tensor | None = None if values_bar is None else diagonal_matrix(values_bar)
    if vectors_bar is not None:
        rotated = adjoint(vectors).matmul(vectors_bar)
        # The length of a vector is fixed, so its cotangent along itself has no effect.
        rotated = is_diagonal(rotated).where(0, rotated.div(_pairwise_differences(values)))
        inner = rotated if inner is None else inner.add(rotated)
    if inner is None:
        return (None,)
    return (_make_symmetric(vectors.matmul(inner).matmul(adjoint(vectors))),)


def eigvalsh(x: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order."""
    results = call_host(f"{LINALG}eigvalsh", [x], [(x.shape[:-1], x.dtype.part)])
    return with_matrix_rule(_eigvalsh_gradient, results, (x,))[0]


@matrix_rule("eigvalsh")
def _eigvalsh_gradient(
    cotangents: Cotangents, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix. Only the derivative needs the vectors."""
    (cotangent,), (x,) = cotangents, operands
    if cotangent is None:
        return (None,)
    # Computed only here: eigenvalues without vectors take a fraction of the time.
    vectors = eigh(x)[1]
    return (_make_symmetric(scale_columns(vectors, cotangent).matmul(adjoint(vectors))),)


def eig(x: Tensor) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues of matrices, in no particular order, and eigenvectors in columns."""
    dtype = to_complex_dtype(x.dtype)
    results = call_host(f"{LINALG}eig", [x], [(x.shape[:-1], dtype), (x.shape, dtype)])
    values, vectors = with_matrix_rule(_eig_gradient, results, (x,))
    return values, vectors


@matrix_rule("eig")
def _eig_gradient(
    cotangents: Cotangents, results: Sequence[Tensor], _: object
) -> tuple[Tensor | None]:
    """Cotangent of the matrix for normalized vectors. Infinite where two eigenvalues are equal.

    Source: C. Boeddeker et al., On the computation of complex-valued gradients with application to
    statistically optimum beamforming, 2017, equation 4.77."""
    (values_bar, vectors_bar), (values, vectors) = cotangents, results
    adjoint_vectors = adjoint(vectors)
    inner: Tensor | None = None if values_bar is None else diagonal_matrix(values_bar)
    if vectors_bar is not None:
        rotated = adjoint_vectors.matmul(vectors_bar)
        lengths = is_diagonal(rotated).where(rotated.real, 0).sum(-2)
        vectors_part = rotated.sub(adjoint_vectors.matmul(scale_columns(vectors, lengths)))
        vectors_part = is_diagonal(vectors_part).where(
            0, vectors_part.div(conjugate(_pairwise_differences(values)))
        )
        inner = vectors_part if inner is None else inner.add(vectors_part)
    return (None if inner is None else solve(adjoint_vectors, inner.matmul(adjoint_vectors)),)


def eigvals(x: Tensor) -> Tensor:
    """Complex eigenvalues of matrices, in no particular order."""
    results = call_host(f"{LINALG}eigvals", [x], [(x.shape[:-1], to_complex_dtype(x.dtype))])
    return with_matrix_rule(_eigvals_gradient, results, (x,))[0]


@matrix_rule("eigvals")
def _eigvals_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix. Only the derivative needs the vectors.

    LAPACK may order the eigenvalues of `eig` and `eigvals` differently, so that they are matched.
    """
    (cotangent,), (value,), (x,) = cotangents, values, operands
    if cotangent is None or x.shape[-1] == 0:
        return (None,)
    eig_values, vectors = eig(x)
    adjoint_vectors = adjoint(vectors)
    # By the nearest value: rounding makes the two results differ.
    nearest = value.unsqueeze(-2).sub(eig_values.unsqueeze(-1)).abs().argmin(-1)
    reordered = cotangent.take_along_axis(nearest, -1)
    return (solve(adjoint_vectors, diagonal_matrix(reordered).matmul(adjoint_vectors)),)


def to_complex_dtype(dtype: DType) -> DType:
    """The complex dtype with the precision of `dtype`."""
    return promote_types(dtype, complex64)


def svd(x: Tensor, *, is_full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Left singular vectors in columns, singular values in descending order, right vectors in rows."""
    *batch, rows, columns = x.shape
    n = min_size(rows, columns)
    shapes = (
        (*batch, rows, rows if is_full else n),
        (*batch, n),
        (*batch, columns if is_full else n, columns),
    )
    dtypes = x.dtype, x.dtype.part, x.dtype
    results = call_host(f"{LINALG}svd", [x], list(zip(shapes, dtypes, strict=True)), [is_full])
    left, values, right = with_matrix_rule(_svd_gradient, results, (x,))
    return left, values, right


@matrix_rule("svd")
def _svd_gradient(
    cotangents: Cotangents, results: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix.

    Infinite for vectors of equal singular values, and for a singular value 0 of a rectangular
    matrix.
    """
    (left_bar, values_bar, right_bar), (left, values, right), (x,) = cotangents, results, operands
    rows, columns = x.shape[-2:]
    n = values.shape[-1]
    if left.shape[-1] != n or right.shape[-2] != n:
        if left_bar is not None or right_bar is not None:
            raise _make_error(
                "svd",
                "its vectors beyond the singular values are an arbitrary basis",
                "full_matrices",
            )
        # The derivatives of the values need the first vectors only.
        left, _, right = svd(x, is_full=False)
    inner: Tensor | None = None if values_bar is None else diagonal_matrix(values_bar)
    outer: Tensor | None = None
    # Squares, since the vectors are eigenvectors of x x^H and x^H x.
    differences = _pairwise_differences(values.square())
    if left_bar is not None:
        rotated = adjoint(left).matmul(left_bar)
        term = is_diagonal(rotated).where(
            0, scale_columns(_make_skew(rotated).div(differences), values)
        )
        inner = term if inner is None else inner.add(term)
        if x.dtype.is_complex:
            # Relative rotation of the phases of a pair of complex vectors.
            phases = is_diagonal(rotated).where(_make_skew(rotated).mul(0.5), 0)
            inner = inner.add(scale_columns(phases, values.reciprocal()))
        # Directions outside of the span of the vectors, where a tall matrix has some.
        if rows != n:
            scaled = scale_columns(left_bar, values.reciprocal())
            outer = scaled.sub(left.matmul(adjoint(left).matmul(scaled))).matmul(right)
    if right_bar is not None:
        cotangent = adjoint(right_bar)
        rotated = right.matmul(cotangent)
        term = is_diagonal(rotated).where(
            0, _make_skew(rotated).div(differences).mul(values.unsqueeze(-1))
        )
        inner = term if inner is None else inner.add(term)
        if columns != n:
            scaled = scale_columns(cotangent, values.reciprocal())
            orthogonal = scaled.sub(adjoint(right).matmul(right.matmul(scaled)))
            term_outside = left.matmul(adjoint(orthogonal))
            outer = term_outside if outer is None else outer.add(term_outside)
    if inner is None:
        return (None,)
    x_bar = left.matmul(inner).matmul(right)
    return (x_bar if outer is None else x_bar.add(outer),)


def singular_values(x: Tensor) -> Tensor:
    """Singular values in descending order."""
    *batch, rows, columns = x.shape
    results = call_host(
        f"{LINALG}svdvals", [x], [((*batch, min_size(rows, columns)), x.dtype.part)]
    )
    return with_matrix_rule(_singular_values_gradient, results, (x,))[0]


@matrix_rule("svdvals")
def _singular_values_gradient(
    cotangents: Cotangents, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix. Only the derivative needs the vectors."""
    (cotangent,), (x,) = cotangents, operands
    if cotangent is None:
        return (None,)
    left, _, right = svd(x, is_full=False)
    return (scale_columns(left, cotangent).matmul(right),)


def qr(x: Tensor, *, is_complete: bool) -> tuple[Tensor, Tensor]:
    """A matrix with orthonormal columns, and an upper triangular matrix."""
    *batch, rows, columns = x.shape
    n = rows if is_complete else min_size(rows, columns)
    shapes = (*batch, rows, n), (*batch, n, columns)
    results = call_host(f"{LINALG}qr", [x], [(shape, x.dtype) for shape in shapes], [is_complete])
    q, r = with_matrix_rule(_qr_gradient, results, (x,))
    return q, r


@matrix_rule("qr")
def _qr_gradient(
    cotangents: Cotangents, results: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix.

    A diagonal element 0 of `r`, from linearly dependent leading columns, is an error. `q` of a wide
    matrix depends on its leading columns only.
    """
    (q_bar, r_bar), (q, r), (x,) = cotangents, results, operands
    rows, columns = x.shape[-2:]
    if q_bar is None and r_bar is None:
        return (None,)
    if rows == columns or min_size(rows, columns) == columns:
        if q.shape[-1] != columns:
            raise _make_error(
                "qr", "its columns beyond the columns of the matrix are an arbitrary basis", "mode"
            )
        return (_tall_qr_gradient(q_bar, r_bar, q, r),)
    last = x.ndim - 1
    # A wide matrix: the first columns determine q, and the others are only multiplied by it.
    trailing, leading = slice_axis(x, last, rows, columns), slice_axis(r, last, 0, rows)
    square_bar: Tensor | None = None
    trailing_bar: Tensor | None = None
    if r_bar is not None:
        square_bar, rest_bar = (
            slice_axis(r_bar, last, 0, rows),
            slice_axis(r_bar, last, rows, columns),
        )
        contribution = trailing.matmul(adjoint(rest_bar))
        q_bar = contribution if q_bar is None else q_bar.add(contribution)
        trailing_bar = q.matmul(rest_bar)
    leading_bar = _tall_qr_gradient(q_bar, square_bar, q, leading)
    return (
        leading_bar.concat(
            trailing.zeros_like() if trailing_bar is None else trailing_bar, axis=-1
        ),
    )


def _tall_qr_gradient(q_bar: Tensor | None, r_bar: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    inner: Tensor | None = None if r_bar is None else r_bar.triu().matmul(adjoint(r))
    if q_bar is not None:
        rotated = adjoint(q).matmul(q_bar)
        inner = rotated.neg() if inner is None else inner.sub(rotated)
    assert inner is not None
    upper = inner.triu()
    symmetric = upper.add(adjoint(upper))
    # The sum of a triangle and its adjoint has the diagonal twice.
    symmetric = is_diagonal(upper).where(symmetric.mul(0.5), symmetric)
    product = q.matmul(symmetric)
    if q_bar is not None:
        product = product.add(q_bar)
    return adjoint(solve_triangular(r, adjoint(product), is_upper=True))


def min_size(left: SInt, right: SInt) -> SInt:
    """The smaller of two sizes."""
    return normalize_size(to_node(left).minimum(right))


def _pairwise_differences(values: Tensor) -> Tensor:
    """Differences between each pair of values; 1 on the diagonal, which divisions ignore."""
    differences = values.unsqueeze(-2).sub(values.unsqueeze(-1))
    return is_diagonal(differences).where(1, differences)


def _make_symmetric(x: Tensor) -> Tensor:
    return x.add(adjoint(x)).mul(0.5)


def _make_skew(x: Tensor) -> Tensor:
    return x.sub(adjoint(x))


def _halve_diagonal(x: Tensor) -> Tensor:
    return is_diagonal(x).where(x.mul(0.5), x)


def _make_error(operation: str, reason: str, argument: str) -> NotDifferentiableError:
    values: Final = {"full_matrices": "full_matrices=False", "mode": 'mode="reduced"'}
    return NotDifferentiableError(
        operation=operation, reason=reason, hint=f"use {values[argument]}"
    )
