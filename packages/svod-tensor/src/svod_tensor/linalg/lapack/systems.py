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

Parts = Sequence["Tensor | None"]


def inverse(x: Tensor, *, is_total: bool = False) -> Tensor:
    """The inverse of each matrix; if it `is_total`, NaN for those that have none."""
    found = call_host(f"{LINALG}inv", [x], [(x.shape, x.dtype)], [is_total])
    return with_matrix_rule(_inverse_gradient, found, (x,))[0]


@matrix_rule("inv")
def _inverse_gradient(
    cotangents: Parts, values: Sequence[Tensor], _: object
) -> tuple[Tensor | None]:
    (given,), (value,) = cotangents, values
    turned = adjoint(value)
    return (None if given is None else turned.matmul(given).matmul(turned).neg(),)


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The matrices whose products with `a` are `b`; axes in front of the last two broadcast."""
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    found = call_host(f"{LINALG}solve", [a, b], [(shape, b.dtype)])
    return with_matrix_rule(_solve_gradient, found, (a, b))[0]


@matrix_rule("solve")
def _solve_gradient(
    cotangents: Parts, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    (given,), (value,), (a, b) = cotangents, values, operands
    if given is None:
        return None, None
    of_b = solve(adjoint(a), given)
    return collapse(of_b.matmul(adjoint(value)).neg(), a.shape), collapse(of_b, b.shape)


def solve_triangular(
    a: Tensor, b: Tensor, *, is_upper: bool, has_unit_diagonal: bool = False
) -> Tensor:
    """The matrices whose products with triangular ones are `b`; the other triangle of `a` is not
    read.
    """
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    flags = [is_upper, has_unit_diagonal]
    found = call_host(f"{LINALG}solve_triangular", [a, b], [(shape, b.dtype)], flags)
    return with_matrix_rule(_solve_triangular_gradient, found, (a, b), is_upper, has_unit_diagonal)[
        0
    ]


@matrix_rule("solve_triangular")
def _solve_triangular_gradient(
    cotangents: Parts,
    values: Sequence[Tensor],
    operands: Sequence[Tensor],
    is_upper: bool,
    has_unit_diagonal: bool,
) -> tuple[Tensor | None, Tensor | None]:
    (given,), (value,), (a, b) = cotangents, values, operands
    if given is None:
        return None, None
    of_b = solve_triangular(
        adjoint(a), given, is_upper=not is_upper, has_unit_diagonal=has_unit_diagonal
    )
    whole = of_b.matmul(adjoint(value)).neg()
    offset = int(has_unit_diagonal)
    part = whole.triu(offset) if is_upper else whole.tril(-offset)
    return collapse(part, a.shape), collapse(of_b, b.shape)


def pseudo_inverse(x: Tensor, cutoff: Tensor) -> Tensor:
    """The Moore-Penrose inverse; singular values up to `cutoff` times the largest one count
    as 0.
    """
    *batch, rows, columns = x.shape
    found = call_host(f"{LINALG}pinv", [x, cutoff], [((*batch, columns, rows), x.dtype)])
    return with_matrix_rule(_pseudo_inverse_gradient, found, (x, cutoff))[0]


@matrix_rule("pinv")
def _pseudo_inverse_gradient(
    cotangents: Parts, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None, None]:
    """As long as the rank does not change."""
    (given,), (value,), (x, _) = cotangents, values, operands
    if given is None:
        return None, None
    turned, back = adjoint(value), adjoint(given)
    left = back.matmul(value).matmul(turned)
    right = turned.matmul(value).matmul(back)
    whole = left.sub(x.matmul(value).matmul(left)).add(right).sub(right.matmul(value).matmul(x))
    return whole.sub(turned.matmul(given).matmul(turned)), None


def least_squares(a: Tensor, b: Tensor, cutoff: Tensor) -> Tensor:
    """The shortest `x` of those for which `a @ x - b` has the least norm; `cutoff` as in
    `pseudo_inverse`.
    """
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    found = call_host(
        f"{LINALG}lstsq", [a, b, cutoff], [((*batch, a.shape[-1], b.shape[-1]), b.dtype)]
    )
    return with_matrix_rule(_least_squares_gradient, found, (a, b, cutoff))[0]


@matrix_rule("lstsq")
def _least_squares_gradient(
    cotangents: Parts, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None, None]:
    """As long as the rank does not change."""
    (given,), (value,), (a, b, cutoff) = cotangents, values, operands
    if given is None:
        return None, None, None
    inverted = pseudo_inverse(a, cutoff)
    turned = adjoint(inverted)
    of_b = turned.matmul(given)
    rest = b.sub(a.matmul(value))
    beyond = given.sub(adjoint(a).matmul(of_b))
    of_a = rest.matmul(adjoint(inverted.matmul(of_b))).add(
        turned.matmul(value).matmul(adjoint(beyond))
    )
    return collapse(of_a.sub(of_b.matmul(adjoint(value))), a.shape), collapse(of_b, b.shape), None


def get_cutoff(x: Tensor, given: float | Tensor | None) -> Tensor:
    """Up to how much of the largest singular value the others of each matrix count as 0: 0-d, or of
    the shape of the batch.
    """
    if given is None:
        rows, columns = x.shape[-2:]
        size = max(max_size(rows), max_size(columns))
        given = size * 2.0 ** (-23 if x.dtype.part is float32 else -52)
    if isinstance(given, TensorBase):
        return given.cast(x.dtype.part)
    return x.from_uop(move_like(make_constant(float(given), x.dtype.part), x.uop))


def exponential(x: Tensor) -> Tensor:
    """The exponential of each matrix: the limit of its power series."""
    found = call_host(f"{LINALG}expm", [x], [(x.shape, x.dtype)])
    return with_matrix_rule(_exponential_gradient, found, (x,))[0]


@matrix_rule("expm")
def _exponential_gradient(
    cotangents: Parts, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """A corner of the exponential of a matrix of twice the size.

    Source: R. Mathias, A chain rule for matrix functions and applications, 1996, theorem 2.1.
    """
    (given,), (x,) = cotangents, operands
    if given is None:
        return (None,)
    # The corner is linear in the cotangent, whose size must not decide how the matrix is scaled.
    size = given.abs().max((-2, -1), keepdims=True).detach()
    size = size.eq(0).where(1, size)
    turned, axis = adjoint(x), x.ndim - 1
    upper = turned.concat(given.div(size), axis=-1)
    lower = turned.zeros_like().concat(turned, axis=-1)
    n = x.shape[-1]
    whole = exponential(upper.concat(lower, axis=-2))
    corner = slice_axis(slice_axis(whole, axis - 1, 0, n), axis, n, n + n)
    return (corner.mul(size),)
