"""Inverses and systems of linear equations, with their derivatives.

Sources: M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation, 2008; G. Golub and V. Pereyra, The differentiation of pseudo-inverses and nonlinear
least squares problems whose variables separate, 1973."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_dtype import float32
from svod_ir.sizes import max_size
from svod_tensor._data import make_constant
from svod_tensor._shapes import broadcast_shapes
from svod_tensor._shards import move_like
from svod_tensor.host_functions.derivatives import adjoint, matrix_rule, with_matrix_rule
from svod_tensor.host_functions.libraries import LINALG
from svod_tensor.host_functions.nodes import call_host
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.gradient_rules import collapse
from svod_tensor.ops.core.operands import slice_axis

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "exponential",
    "get_cutoff",
    "inverse",
    "least_squares",
    "pseudo_inverse",
    "solve",
    "solve_triangular",
]

Cotangents = Sequence["Tensor | None"]


def inverse(x: Tensor, *, is_total: bool = False) -> Tensor:
    """The inverse of each matrix; if `is_total`, NaN for singular matrices."""
    results = call_host(f"{LINALG}inv", [x], [(x.shape, x.dtype)], [is_total])
    return with_matrix_rule(_inverse_gradient, results, (x,))[0]


@matrix_rule("inv")
def _inverse_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], _: object
) -> tuple[Tensor | None]:
    (cotangent,), (value,) = cotangents, values
    adjoint_value = adjoint(value)
    return (
        None if cotangent is None else adjoint_value.matmul(cotangent).matmul(adjoint_value).neg(),
    )


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solution `x` of `a @ x = b`; leading axes broadcast."""
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    results = call_host(f"{LINALG}solve", [a, b], [(shape, b.dtype)])
    return with_matrix_rule(_solve_gradient, results, (a, b))[0]


@matrix_rule("solve")
def _solve_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    (cotangent,), (value,), (a, b) = cotangents, values, operands
    if cotangent is None:
        return None, None
    # Solved again: an inverse would be less accurate.
    b_bar = solve(adjoint(a), cotangent)
    return collapse(b_bar.matmul(adjoint(value)).neg(), a.shape), collapse(b_bar, b.shape)


def solve_triangular(
    a: Tensor, b: Tensor, *, is_upper: bool, has_unit_diagonal: bool = False
) -> Tensor:
    """The solution `x` of `a @ x = b` with triangular `a`, whose other triangle is not read."""
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    flags = [is_upper, has_unit_diagonal]
    results = call_host(f"{LINALG}solve_triangular", [a, b], [(shape, b.dtype)], flags)
    return with_matrix_rule(
        _solve_triangular_gradient, results, (a, b), is_upper, has_unit_diagonal
    )[0]


@matrix_rule("solve_triangular")
def _solve_triangular_gradient(
    cotangents: Cotangents,
    values: Sequence[Tensor],
    operands: Sequence[Tensor],
    is_upper: bool,
    has_unit_diagonal: bool,
) -> tuple[Tensor | None, Tensor | None]:
    (cotangent,), (value,), (a, b) = cotangents, values, operands
    if cotangent is None:
        return None, None
    b_bar = solve_triangular(
        adjoint(a), cotangent, is_upper=not is_upper, has_unit_diagonal=has_unit_diagonal
    )
    product = b_bar.matmul(adjoint(value)).neg()
    # A diagonal that is taken as 1 is not read, and has no derivative.
    offset = int(has_unit_diagonal)
    # The other triangle is not read.
    triangle = product.triu(offset) if is_upper else product.tril(-offset)
    return collapse(triangle, a.shape), collapse(b_bar, b.shape)


def pseudo_inverse(x: Tensor, cutoff: Tensor) -> Tensor:
    """The Moore-Penrose inverse; singular values up to `cutoff` times the largest count as 0."""
    *batch, rows, columns = x.shape
    results = call_host(f"{LINALG}pinv", [x, cutoff], [((*batch, columns, rows), x.dtype)])
    return with_matrix_rule(_pseudo_inverse_gradient, results, (x, cutoff))[0]


@matrix_rule("pinv")
def _pseudo_inverse_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None, None]:
    """Cotangents, on the assumption that the rank is locally constant."""
    (cotangent,), (value,), (x, _) = cotangents, values, operands
    if cotangent is None:
        return None, None
    adjoint_value, adjoint_cotangent = adjoint(value), adjoint(cotangent)
    left = adjoint_cotangent.matmul(value).matmul(adjoint_value)
    right = adjoint_value.matmul(value).matmul(adjoint_cotangent)
    projected = left.sub(x.matmul(value).matmul(left)).add(right).sub(right.matmul(value).matmul(x))
    return projected.sub(adjoint_value.matmul(cotangent).matmul(adjoint_value)), None


def least_squares(a: Tensor, b: Tensor, cutoff: Tensor) -> Tensor:
    """The minimum-norm solution `x` that minimizes the norm of `a @ x - b`.

    `cutoff` is as in `pseudo_inverse`.
    """
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    results = call_host(
        f"{LINALG}lstsq", [a, b, cutoff], [((*batch, a.shape[-1], b.shape[-1]), b.dtype)]
    )
    return with_matrix_rule(_least_squares_gradient, results, (a, b, cutoff))[0]


@matrix_rule("lstsq")
def _least_squares_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None, None]:
    """Cotangents, on the assumption that the rank is locally constant."""
    (cotangent,), (value,), (a, b, cutoff) = cotangents, values, operands
    if cotangent is None:
        return None, None, None
    # The same cutoff, so that the same singular values count as 0.
    inverted = pseudo_inverse(a, cutoff)
    adjoint_inverse = adjoint(inverted)
    b_bar = adjoint_inverse.matmul(cotangent)
    residual = b.sub(a.matmul(value))
    orthogonal = cotangent.sub(adjoint(a).matmul(b_bar))
    a_bar = residual.matmul(adjoint(inverted.matmul(b_bar))).add(
        adjoint_inverse.matmul(value).matmul(adjoint(orthogonal))
    )
    return (
        collapse(a_bar.sub(b_bar.matmul(adjoint(value))), a.shape),
        collapse(b_bar, b.shape),
        None,
    )


def get_cutoff(x: Tensor, rtol: float | Tensor | None) -> Tensor:
    """The relative threshold of singular values that count as 0: 0-d, or of the shape of the batch."""
    if rtol is None:
        rows, columns = x.shape[-2:]
        size = max(max_size(rows), max_size(columns))
        # numpy's default: the machine epsilon times the larger size.
        rtol = size * 2.0 ** (-23 if x.dtype.part is float32 else -52)
    if isinstance(rtol, TensorBase):
        return rtol.cast(x.dtype.part)
    return x.from_uop(move_like(make_constant(float(rtol), x.dtype.part), x.uop))


def exponential(x: Tensor) -> Tensor:
    """The exponential of each matrix: the limit of its power series."""
    results = call_host(f"{LINALG}expm", [x], [(x.shape, x.dtype)])
    return with_matrix_rule(_exponential_gradient, results, (x,))[0]


@matrix_rule("expm")
def _exponential_gradient(
    cotangents: Cotangents, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix: a corner of the exponential of a block matrix of twice the size.

    Source: R. Mathias, A chain rule for matrix functions and applications, 1996, theorem 2.1.
    """
    (cotangent,), (x,) = cotangents, operands
    if cotangent is None:
        return (None,)
    # The corner is linear in the cotangent, whose norm must not change the scaling of the matrix.
    size = cotangent.abs().max((-2, -1), keepdims=True).detach()
    size = size.eq(0).where(1, size)
    adjoint_x, axis = adjoint(x), x.ndim - 1
    upper = adjoint_x.concat(cotangent.div(size), axis=-1)
    lower = adjoint_x.zeros_like().concat(adjoint_x, axis=-1)
    n = x.shape[-1]
    block = exponential(upper.concat(lower, axis=-2))
    corner = slice_axis(slice_axis(block, axis - 1, 0, n), axis, n, n + n)
    return (corner.mul(size),)
