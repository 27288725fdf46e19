"""Differentiable functions of `svod_tensor.linalg`: a call of each on real matrices, and in JAX.

Factors are differentiated if the result does not depend on their signs or phases, or if both
libraries have the signs of LAPACK."""

# jax has no types here: it is not installed where this is checked.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from svod_tensor import linalg

__all__ = ["CASES", "MatrixCase", "draw"]


@dataclass(frozen=True)
class MatrixCase:
    """Call of a function of matrices.

    Attributes:
        name: name of the function.
        call: function of tensors that returns nested tensors.
        peer: counterpart: a function of the module `jax` and its arrays.
        shapes: shapes of the arguments.
    """

    name: str
    call: Callable[..., Any]
    peer: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return self.name


def draw(rng: np.random.Generator, case: MatrixCase, dtype: str = "float64") -> list[np.ndarray]:
    """Return random arguments; square matrices are well-conditioned."""
    arguments: list[np.ndarray] = []
    for shape in case.shapes:
        x = rng.normal(size=shape)
        if np.dtype(dtype).kind == "c":
            x = x + 1j * rng.normal(size=shape)
        if len(shape) > 1 and shape[-1] == shape[-2]:
            x = x + 2 * np.diag(np.arange(1, shape[-1] + 1))
        arguments.append(x.astype(dtype))
    return arguments


def _positive(x: Any) -> Any:
    return x @ _turned(x)


def _symmetric(x: Any) -> Any:
    return x + _turned(x)


def _turned(x: Any) -> Any:
    return x.mT.conj()


def _case(
    name: str, call: Callable[..., Any], peer: Callable[..., Any], *shapes: tuple[int, ...]
) -> MatrixCase:
    return MatrixCase(name, call, peer, shapes)


_SQUARE, _MANY, _TALL, _WIDE = (3, 3), (2, 3, 3), (5, 3), (3, 5)

_ORDERS: Final[tuple[Literal["nuc"] | int, ...]] = ("nuc", 2, -2, 1)

# fmt: off
CASES: Final = (
    _case("inv", linalg.inv, lambda j, x: j.numpy.linalg.inv(x), _MANY),
    _case("det", linalg.det, lambda j, x: j.numpy.linalg.det(x), _MANY),
    _case("slogdet", lambda x: linalg.slogdet(x).logabsdet, lambda j, x: j.numpy.linalg.slogdet(x)[1], _MANY),
    _case("solve", linalg.solve, lambda j, a, b: j.numpy.linalg.solve(a, b), _MANY, (3, 2)),
    _case("solve of a vector", linalg.solve, lambda j, a, b: j.numpy.linalg.solve(a, b), _SQUARE, (3,)),
    _case("solve of many vectors", linalg.solve, lambda j, a, b: j.numpy.linalg.solve(a, b), _SQUARE, (2, 3, 2)),
    _case("lower solve", linalg.solve_triangular, lambda j, a, b: j.scipy.linalg.solve_triangular(a, b, lower=True), _SQUARE, (3, 2)),
    _case("upper solve", lambda a, b: linalg.solve_triangular(a, b, upper=True, unit_diagonal=True), lambda j, a, b: j.scipy.linalg.solve_triangular(a, b, unit_diagonal=True), _SQUARE, (3, 2)),
    _case("cholesky", lambda x: linalg.cholesky(_positive(x)), lambda j, x: j.numpy.linalg.cholesky(_positive(x)), _MANY),
    _case("upper cholesky", lambda x: linalg.cholesky(_positive(x), upper=True), lambda j, x: j.numpy.linalg.cholesky(_positive(x), upper=True), _MANY),
    _case("eigvalsh", lambda x: linalg.eigvalsh(_symmetric(x)), lambda j, x: j.numpy.linalg.eigvalsh(_symmetric(x)), _MANY),
    _case("eigh", lambda x: _rebuild(linalg.eigh(_symmetric(x))), lambda j, x: _rebuild(j.numpy.linalg.eigh(_symmetric(x))), _MANY),
    _case("eigvals", lambda x: _add_powers(linalg.eigvals(x)), lambda j, x: _add_powers(j.numpy.linalg.eigvals(x)), _MANY),
    _case("svdvals", linalg.svdvals, lambda j, x: j.numpy.linalg.svdvals(x), (2, *_TALL)),
    *(_case(f"svd {shape}", lambda x: _rejoin(linalg.svd(x, full_matrices=False)), lambda j, x: _rejoin(j.numpy.linalg.svd(x, full_matrices=False)), shape) for shape in (_TALL, _WIDE, _MANY)),
    *(_case(f"qr {shape}", lambda x: tuple(linalg.qr(x)), lambda j, x: tuple(j.numpy.linalg.qr(x)), shape) for shape in ((2, *_TALL), _SQUARE)),
    *(_case(f"pinv {shape}", linalg.pinv, lambda j, x: j.numpy.linalg.pinv(x), shape) for shape in (_TALL, _WIDE)),
    _case("matrix_power", lambda x: linalg.matrix_power(x, -3), lambda j, x: j.numpy.linalg.matrix_power(x, -3), _MANY),
    _case("expm", linalg.expm, lambda j, x: j.scipy.linalg.expm(x), _MANY),
    *(_case(f"lstsq {shape}", lambda a, b: linalg.lstsq(a, b).x, lambda j, a, b: j.numpy.linalg.pinv(a) @ b, shape, (shape[0], 2)) for shape in (_TALL, _WIDE)),
    *(_case(f"matrix_norm {order}", partial(linalg.matrix_norm, ord=order), lambda j, x, order=order: j.numpy.linalg.norm(x, order, (-2, -1)), (2, *_TALL)) for order in _ORDERS),
    _case("cond", lambda x: linalg.cond(x, "fro"), lambda j, x: j.numpy.linalg.cond(x, "fro"), _MANY),
    _case("multi_dot", lambda x, y, z: linalg.multi_dot([x, y, z]), lambda j, x, y, z: x @ y @ z, (4, 2), (2, 5), (5,)),
    _case("cross", linalg.cross, lambda j, x, y: j.numpy.cross(x, y), (2, 3), (3,)),
    _case("tensorsolve", linalg.tensorsolve, lambda j, a, b: j.numpy.linalg.tensorsolve(a, b), (2, 3, 6), (2, 3)),
)
# fmt: on


def _rebuild(results: Any) -> Any:
    """Function of eigenvalues and eigenvectors that does not depend on signs and phases."""
    values, vectors = results
    return (vectors * values[..., None, :] ** 3) @ _turned(vectors), values


def _add_powers(values: Any) -> Any:
    """Function of values that does not depend on their order."""
    total = (values**2).sum() + (values * (values + 1) * (values - 2)).sum()
    return total.real


def _rejoin(results: Any) -> Any:
    left, values, right = results
    return (left * values[..., None, :] ** 2) @ right, left @ _turned(left), _turned(right) @ right
