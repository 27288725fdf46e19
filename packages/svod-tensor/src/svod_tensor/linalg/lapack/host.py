"""Functions of batches of matrices on the host, by numpy's LAPACK.

Each fills its outputs from its inputs, which do not alias. A matrix for which LAPACK fails is a
`MatrixError` with its index in the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from svod_tensor.errors import MatrixError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FUNCTIONS"]

Array: TypeAlias = "NDArray[Any]"


def _invert(out: Array, x: Array, is_total: bool) -> None:
    """Invert matrices; if `is_total`, the inverse of a singular matrix is NaN."""
    if not is_total:
        out[...] = _call_lapack("inv", "is singular", np.linalg.inv, x)
        return
    for index in np.ndindex(*x.shape[:-2]):
        try:
            out[index] = np.linalg.inv(x[index])
        except np.linalg.LinAlgError:
            out[index] = np.nan


def _solve(out: Array, a: Array, b: Array) -> None:
    try:
        if a.ndim == 2 < b.ndim:
            # numpy would factor a single matrix for each right-hand side: concatenate the columns.
            columns = np.moveaxis(b, -2, 0).reshape(len(a), -1)
            solution = np.linalg.solve(a, columns).reshape(len(a), *b.shape[:-2], b.shape[-1])
            out[...] = np.moveaxis(solution, 0, -2)
        else:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            out[...] = np.linalg.solve(a, np.broadcast_to(b, (*batch, *b.shape[-2:])))
    except np.linalg.LinAlgError:
        # To find the matrix: the error of `solve` does not name it.
        _call_lapack("solve", "is singular", np.linalg.inv, a)
        raise


def _solve_triangular(
    out: Array, a: Array, b: Array, is_upper: bool, has_unit_diagonal: bool
) -> None:
    """Solve by blocked substitution: LAPACK for diagonal blocks, products for the remaining rows."""
    size = a.shape[-1]
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    if not has_unit_diagonal and not diagonal.all():
        _raise("solve_triangular", "is singular", _get_first_index((diagonal == 0).any(-1)))
    out[...] = b
    blocks = [slice(begin, min(begin + _BLOCK, size)) for begin in range(0, size, _BLOCK)]
    for block in reversed(blocks) if is_upper else blocks:
        # The other triangle may hold anything.
        corner = np.triu(a[..., block, block]) if is_upper else np.tril(a[..., block, block])
        if has_unit_diagonal:
            np.einsum("...ii->...i", corner)[...] = 1
        # numpy has no triangular solver of LAPACK.
        out[..., block, :] = np.linalg.solve(corner, out[..., block, :])
        remaining = slice(0, block.start) if is_upper else slice(block.stop, size)
        out[..., remaining, :] -= a[..., remaining, block] @ out[..., block, :]


_BLOCK: Final = 64
"""Rows of a diagonal block of a triangular matrix."""


def _cholesky(out: Array, x: Array) -> None:
    out[...] = _call_lapack("cholesky", "is not positive definite", np.linalg.cholesky, x)


def _eig(values: Array, vectors: Array, x: Array) -> None:
    values[...], vectors[...] = _call_lapack("eig", _NOT_CONVERGED, np.linalg.eig, x)


def _eigvals(values: Array, x: Array) -> None:
    values[...] = _call_lapack("eigvals", _NOT_CONVERGED, np.linalg.eigvals, x)


def _eigh(values: Array, vectors: Array, x: Array) -> None:
    values[...], vectors[...] = _call_lapack("eigh", _NOT_CONVERGED, np.linalg.eigh, x)


def _eigvalsh(values: Array, x: Array) -> None:
    values[...] = _call_lapack("eigvalsh", _NOT_CONVERGED, np.linalg.eigvalsh, x)


def _svd(left: Array, values: Array, right: Array, x: Array, is_full: bool) -> None:
    decompose = np.linalg.svd if is_full else _decompose
    left[...], values[...], right[...] = _call_lapack("svd", _NOT_CONVERGED, decompose, x)


def _decompose(x: Array) -> tuple[Array, Array, Array]:
    """Reduced singular value decomposition."""
    return np.linalg.svd(x, full_matrices=False)


def _svdvals(values: Array, x: Array) -> None:
    values[...] = _call_lapack("svdvals", _NOT_CONVERGED, np.linalg.svdvals, x)


def _qr(q: Array, r: Array, x: Array, is_complete: bool) -> None:
    q[...], r[...] = np.linalg.qr(x, "complete" if is_complete else "reduced")


def _det(out: Array, x: Array) -> None:
    out[...] = np.linalg.det(x)


def _slogdet(sign: Array, log: Array, x: Array) -> None:
    sign[...], log[...] = np.linalg.slogdet(x)


def _cofactors(out: Array, x: Array, *directions: Array) -> None:
    """Derivative of the determinant by each element and along the directions, for all matrices.

    In the bases of the singular vectors the matrix is diagonal. A derivative of its determinant by
    the elements (a, p(a)), (b, p(b)), ... of different rows is 0 unless p is a permutation of these
    rows. Then it is the sign of p times the product of all other singular values, so no singular
    value is a divisor. With k directions, the products take n ** (k + 1) elements for each matrix.
    """
    left, values, right = _call_lapack("det", _NOT_CONVERGED, np.linalg.svd, x)
    n, order = x.shape[-1], len(directions) + 1
    products = _multiply_complements(values, order)
    rotated = [left.conj().mT @ direction @ right.conj().mT for direction in directions]
    is_diagonal = np.eye(n, dtype=bool)
    gradient = np.zeros_like(x)
    for rows in permutations(range(order)):
        operands: list[Any] = [products, [..., *range(order)]]
        for row, direction in enumerate(rotated):
            operands += [direction, [..., row, rows[row]]]
        last = order - 1
        if rows[last] == last:
            term = np.where(
                is_diagonal, np.einsum(*operands, [..., last], optimize=True)[..., None], 0
            )
        else:
            term = np.einsum(*operands, [..., last, rows[last]], optimize=True)
        gradient += term if _is_even(rows) else -term
    sign = np.linalg.det(left) * np.linalg.det(right)
    np.matmul(left.conj() @ gradient, right.conj(), out=out)
    out *= sign[..., None, None]


def _multiply_complements(values: Array, order: int) -> Array:
    """Products of all values except at `order` distinct indices, one axis for each index; 0 where two
    indices are equal.
    """
    unit = np.eye(values.shape[-1], dtype=bool)
    # `is_taken` tells whether the leading indices include the index of its last axis, `is_repeated`
    # whether two leading indices are equal.
    is_taken: Array = np.zeros(len(unit), dtype=bool)
    is_repeated: Array = np.zeros((), dtype=bool)
    rows = values
    for _ in range(order - 1):
        is_repeated = is_repeated[..., None] | is_taken
        is_taken = is_taken[..., None, :] | unit
        rows = rows[..., None, :]
    rows = np.where(is_taken, 1, rows)
    ones = np.ones_like(rows[..., :1])
    prefix = np.cumprod(np.concatenate([ones, rows[..., :-1]], -1), -1)
    suffix = np.cumprod(np.concatenate([ones, rows[..., :0:-1]], -1), -1)[..., ::-1]
    return np.where(is_repeated[..., None] | is_taken, 0, prefix * suffix)


def _is_even(order: Sequence[int]) -> bool:
    """Whether a permutation has an even number of inversions."""
    return sum(left > right for left, right in combinations(order, 2)) % 2 == 0


def _pinv(out: Array, x: Array, cutoff: Array) -> None:
    out[...] = _call_lapack("pinv", _NOT_CONVERGED, np.linalg.pinv, x, cutoff)


def _lstsq(out: Array, a: Array, b: Array, cutoff: Array) -> None:
    """Minimum-norm least-squares solution; relatively small singular values count as 0."""
    left, values, right = _call_lapack("lstsq", _NOT_CONVERGED, _decompose, a)
    limit = cutoff[..., None] * values.max(-1, keepdims=True, initial=0)
    is_kept = values > limit
    inverse = np.divide(1, values, out=np.zeros_like(values), where=is_kept)
    out[...] = right.conj().mT @ (inverse[..., None] * (left.conj().mT @ b))


def _expm(out: Array, x: Array) -> None:
    """Matrix exponential by scaling, a Pade approximant, and squaring.

    Source: N. J. Higham, The scaling and squaring method for the matrix exponential revisited,
    2005, algorithm 2.3."""
    is_single = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) == 4
    limit, coefficients = _SINGLE if is_single else _DOUBLE
    flat, results = x.reshape(-1, *x.shape[-2:]), out.reshape(-1, *x.shape[-2:])
    norms = np.abs(flat).sum(-2).max(-1, initial=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        doublings = np.maximum(np.ceil(np.log2(norms / limit)), 0)
    results[~np.isfinite(norms)] = np.nan
    # Matrices with the same number of squarings are computed together.
    for n in np.unique(doublings[np.isfinite(norms)]).astype(int).tolist():
        selected = doublings == n
        result = _quotient(np.ldexp(1.0, -n).astype(norms.dtype) * flat[selected], coefficients)
        for _ in range(n):
            result = result @ result
        results[selected] = result


_SINGLE: Final = (
    3.925724783138660,
    (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
)
_DOUBLE: Final = (
    5.371920351148152,
    (
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
)
"""Largest 1-norm for which the approximant is accurate to rounding, and the coefficients of its
numerator in ascending powers.
"""


def _quotient(x: Array, coefficients: tuple[float, ...]) -> Array:
    """The diagonal Pade approximant of the exponential function."""
    power = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    square = x @ x
    even, odd = np.zeros_like(x), np.zeros_like(x)
    for n, (a, b) in enumerate(zip(coefficients[::2], coefficients[1::2], strict=True)):
        if n:
            power = power @ square
        even, odd = even + x.dtype.type(a) * power, odd + x.dtype.type(b) * power
    odd = x @ odd
    return np.linalg.solve(even - odd, even + odd)


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    "inv": _invert,
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "cholesky": _cholesky,
    "eig": _eig,
    "eigh": _eigh,
    "eigvals": _eigvals,
    "eigvalsh": _eigvalsh,
    "svd": _svd,
    "svdvals": _svdvals,
    "qr": _qr,
    "det": _det,
    "slogdet": _slogdet,
    "cofactors": _cofactors,
    "pinv": _pinv,
    "lstsq": _lstsq,
    "expm": _expm,
}
"""Host functions by name; `svod.linalg.<name>` in graphs and profiles."""

_NOT_CONVERGED: Final = "has values for which the iteration does not converge"


def _call_lapack(
    operation: str, problem: str, function: Callable[..., Any], x: Array, *arguments: Any
) -> Any:
    """Call a function on a batch. An error names the first matrix for which it fails."""
    try:
        return function(x, *arguments)
    except np.linalg.LinAlgError:
        for index in np.ndindex(*x.shape[:-2]):
            try:
                function(
                    x[index],
                    *(np.broadcast_to(argument, x.shape[:-2])[index] for argument in arguments),
                )
            except np.linalg.LinAlgError:
                _raise(operation, problem, index)
        raise


def _get_first_index(mask: Array) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(int(mask.argmax()), mask.shape))


def _raise(operation: str, problem: str, index: tuple[int, ...]) -> None:
    raise _get_error_class()(operation=operation, problem=problem, index=index) from None


@cache
def _get_error_class() -> type[MatrixError]:
    """A `MatrixError` that handlers of numpy's `LinAlgError` catch too."""

    class NumpyMatrixError(MatrixError, np.linalg.LinAlgError):
        pass

    NumpyMatrixError.__name__ = NumpyMatrixError.__qualname__ = MatrixError.__name__
    NumpyMatrixError.__module__ = MatrixError.__module__
    return NumpyMatrixError
