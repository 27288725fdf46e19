"""Functions of matrices on the host: LAPACK through numpy, on the last two axes, for any axes in
front of them.

Each fills its outputs from its inputs, which have no elements in common. A matrix for which LAPACK
fails is a `MatrixError` that says which of several it is."""

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
    """If it `is_total`, singular matrices have an inverse of NaNs."""
    if not is_total:
        out[...] = _take_apart("inv", "is singular", np.linalg.inv, x)
        return
    for place in np.ndindex(*x.shape[:-2]):
        try:
            out[place] = np.linalg.inv(x[place])
        except np.linalg.LinAlgError:
            out[place] = np.nan


def _solve(out: Array, a: Array, b: Array) -> None:
    try:
        if a.ndim == 2 < b.ndim:
            # One matrix is factored once, for all columns.
            columns = np.moveaxis(b, -2, 0).reshape(len(a), -1)
            found = np.linalg.solve(a, columns).reshape(len(a), *b.shape[:-2], b.shape[-1])
            out[...] = np.moveaxis(found, 0, -2)
        else:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            out[...] = np.linalg.solve(a, np.broadcast_to(b, (*batch, *b.shape[-2:])))
    except np.linalg.LinAlgError:
        _take_apart("solve", "is singular", np.linalg.inv, a)
        raise


def _solve_triangular(
    out: Array, a: Array, b: Array, is_upper: bool, has_unit_diagonal: bool
) -> None:
    """By substitution of blocks: a block of rows by LAPACK, what it leaves of the others by
    products.
    """
    size = a.shape[-1]
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    if not has_unit_diagonal and not diagonal.all():
        _raise("solve_triangular", "is singular", _get_first((diagonal == 0).any(-1)))
    out[...] = b
    blocks = [slice(begin, min(begin + _BLOCK, size)) for begin in range(0, size, _BLOCK)]
    for block in reversed(blocks) if is_upper else blocks:
        corner = np.triu(a[..., block, block]) if is_upper else np.tril(a[..., block, block])
        if has_unit_diagonal:
            np.einsum("...ii->...i", corner)[...] = 1
        out[..., block, :] = np.linalg.solve(corner, out[..., block, :])
        rest = slice(0, block.start) if is_upper else slice(block.stop, size)
        out[..., rest, :] -= a[..., rest, block] @ out[..., block, :]


_BLOCK: Final = 64
"""How many rows of a triangular matrix are one block."""


def _cholesky(out: Array, x: Array) -> None:
    out[...] = _take_apart("cholesky", "is not positive definite", np.linalg.cholesky, x)


def _eig(values: Array, vectors: Array, x: Array) -> None:
    values[...], vectors[...] = _take_apart("eig", _NOT_CONVERGED, np.linalg.eig, x)


def _eigvals(values: Array, x: Array) -> None:
    values[...] = _take_apart("eigvals", _NOT_CONVERGED, np.linalg.eigvals, x)


def _eigh(values: Array, vectors: Array, x: Array) -> None:
    values[...], vectors[...] = _take_apart("eigh", _NOT_CONVERGED, np.linalg.eigh, x)


def _eigvalsh(values: Array, x: Array) -> None:
    values[...] = _take_apart("eigvalsh", _NOT_CONVERGED, np.linalg.eigvalsh, x)


def _svd(left: Array, values: Array, right: Array, x: Array, is_full: bool) -> None:
    decompose = np.linalg.svd if is_full else _decompose
    left[...], values[...], right[...] = _take_apart("svd", _NOT_CONVERGED, decompose, x)


def _decompose(x: Array) -> tuple[Array, Array, Array]:
    """Singular values, and as many vectors."""
    return np.linalg.svd(x, full_matrices=False)


def _svdvals(values: Array, x: Array) -> None:
    values[...] = _take_apart("svdvals", _NOT_CONVERGED, np.linalg.svdvals, x)


def _qr(q: Array, r: Array, x: Array, is_complete: bool) -> None:
    q[...], r[...] = np.linalg.qr(x, "complete" if is_complete else "reduced")


def _det(out: Array, x: Array) -> None:
    out[...] = np.linalg.det(x)


def _slogdet(sign: Array, log: Array, x: Array) -> None:
    sign[...], log[...] = np.linalg.slogdet(x)


def _cofactors(out: Array, x: Array, *directions: Array) -> None:
    """The derivative of the determinant by each element and along the directions; of singular
    matrices too.

    In the bases of the singular vectors the matrix is diagonal. A derivative of its determinant by
    the elements (a, p(a)), (b, p(b)), ... of different rows is 0 unless p is a permutation of these
    rows. Then it is the sign of p times the product of all other singular values, so no singular
    value is a divisor. With k directions, the products take n ** (k + 1) elements for each matrix.
    """
    left, values, right = _take_apart("det", _NOT_CONVERGED, np.linalg.svd, x)
    n, order = x.shape[-1], len(directions) + 1
    products = _multiply_others(values, order)
    turned = [left.conj().mT @ direction @ right.conj().mT for direction in directions]
    is_diagonal = np.eye(n, dtype=bool)
    found = np.zeros_like(x)
    for rows in permutations(range(order)):
        operands: list[Any] = [products, [..., *range(order)]]
        for row, direction in enumerate(turned):
            operands += [direction, [..., row, rows[row]]]
        last = order - 1
        if rows[last] == last:
            part = np.where(
                is_diagonal, np.einsum(*operands, [..., last], optimize=True)[..., None], 0
            )
        else:
            part = np.einsum(*operands, [..., last, rows[last]], optimize=True)
        found += part if _is_even(rows) else -part
    sign = np.linalg.det(left) * np.linalg.det(right)
    np.matmul(left.conj() @ found, right.conj(), out=out)
    out *= sign[..., None, None]


def _multiply_others(values: Array, order: int) -> Array:
    """The products of all values but those at `order` different indices, one axis for each index; 0
    where two are equal.
    """
    unit = np.eye(values.shape[-1], dtype=bool)
    # Along the last axis of `is_taken`: whether the indices before it have this one. `is_repeated`
    # is of those alone.
    is_taken: Array = np.zeros(len(unit), dtype=bool)
    is_repeated: Array = np.zeros((), dtype=bool)
    rows = values
    for _ in range(order - 1):
        is_repeated = is_repeated[..., None] | is_taken
        is_taken = is_taken[..., None, :] | unit
        rows = rows[..., None, :]
    rows = np.where(is_taken, 1, rows)
    ones = np.ones_like(rows[..., :1])
    before = np.cumprod(np.concatenate([ones, rows[..., :-1]], -1), -1)
    behind = np.cumprod(np.concatenate([ones, rows[..., :0:-1]], -1), -1)[..., ::-1]
    return np.where(is_repeated[..., None] | is_taken, 0, before * behind)


def _is_even(order: Sequence[int]) -> bool:
    """Whether a permutation has an even number of inversions."""
    return sum(left > right for left, right in combinations(order, 2)) % 2 == 0


def _pinv(out: Array, x: Array, cutoff: Array) -> None:
    out[...] = _take_apart("pinv", _NOT_CONVERGED, np.linalg.pinv, x, cutoff)


def _lstsq(out: Array, a: Array, b: Array, cutoff: Array) -> None:
    """The shortest of the vectors that leave the least: singular values that are small beside the
    largest count as 0.
    """
    left, values, right = _take_apart("lstsq", _NOT_CONVERGED, _decompose, a)
    limit = cutoff[..., None] * values.max(-1, keepdims=True, initial=0)
    is_kept = values > limit
    inverse = np.divide(1, values, out=np.zeros_like(values), where=is_kept)
    out[...] = right.conj().mT @ (inverse[..., None] * (left.conj().mT @ b))


def _expm(out: Array, x: Array) -> None:
    """By scaling, a quotient of polynomials, and squaring.

    Source: N. J. Higham, The scaling and squaring method for the matrix exponential revisited,
    2005, algorithm 2.3."""
    is_single = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) == 4
    limit, coefficients = _SINGLE if is_single else _DOUBLE
    flat, results = x.reshape(-1, *x.shape[-2:]), out.reshape(-1, *x.shape[-2:])
    sizes = np.abs(flat).sum(-2).max(-1, initial=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        doublings = np.maximum(np.ceil(np.log2(sizes / limit)), 0)
    results[~np.isfinite(sizes)] = np.nan
    for n in np.unique(doublings[np.isfinite(sizes)]).astype(int).tolist():
        chosen = doublings == n
        found = _quotient(np.ldexp(1.0, -n).astype(sizes.dtype) * flat[chosen], coefficients)
        for _ in range(n):
            found = found @ found
        results[chosen] = found


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
"""Up to which 1-norm the quotient is exact to the last place, and the coefficients of its
numerator, by rising powers.
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
"""What each function of matrices is called, which is named `svod.linalg.<name>` in graphs and
profiles.
"""

_NOT_CONVERGED: Final = "has values for which the iteration does not converge"


def _take_apart(
    operation: str, problem: str, function: Callable[..., Any], x: Array, *others: Any
) -> Any:
    """What `function` gives; of several matrices for which it fails, the error names the
    first one.
    """
    try:
        return function(x, *others)
    except np.linalg.LinAlgError:
        for place in np.ndindex(*x.shape[:-2]):
            try:
                function(
                    x[place], *(np.broadcast_to(other, x.shape[:-2])[place] for other in others)
                )
            except np.linalg.LinAlgError:
                _raise(operation, problem, place)
        raise


def _get_first(is_found: Array) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(int(is_found.argmax()), is_found.shape))


def _raise(operation: str, problem: str, place: tuple[int, ...]) -> None:
    raise _get_error_class()(operation=operation, problem=problem, index=place) from None


@cache
def _get_error_class() -> type[MatrixError]:
    """A `MatrixError` that is caught as numpy's error too."""

    class NumpyMatrixError(MatrixError, np.linalg.LinAlgError):
        pass

    NumpyMatrixError.__name__ = NumpyMatrixError.__qualname__ = MatrixError.__name__
    NumpyMatrixError.__module__ = MatrixError.__module__
    return NumpyMatrixError
