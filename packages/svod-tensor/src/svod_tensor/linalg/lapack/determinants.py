"""Determinants, with their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.host_functions.derivatives import adjoint, conjugate, matrix_rule, with_matrix_rule
from svod_tensor.host_functions.libraries import LINALG
from svod_tensor.host_functions.nodes import call_host
from svod_tensor.linalg.lapack.systems import inverse

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["determinant", "log_determinant"]

Cotangents = Sequence["Tensor | None"]


def determinant(x: Tensor) -> Tensor:
    """The determinant of each matrix."""
    results = call_host(f"{LINALG}det", [x], [(x.shape[:-2], x.dtype)])
    return with_matrix_rule(_determinant_gradient, results, (x,))[0]


@matrix_rule("det")
def _determinant_gradient(
    cotangents: Cotangents, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    (cotangent,), (x,) = cotangents, operands
    return (
        None
        if cotangent is None
        else cotangent.unsqueeze(-1).unsqueeze(-1).mul(conjugate(_cofactors(x))),
    )


def _cofactors(x: Tensor, *directions: Tensor) -> Tensor:
    """Gradient of the determinant, differentiated along each of the `directions`; without directions,
    the cofactors.

    It is linear and symmetric in the directions, and defined for singular matrices too."""
    # Not det(x) times the inverse, which a singular matrix does not have.
    results = call_host(f"{LINALG}cofactors", [x, *directions], [(x.shape, x.dtype)])
    return with_matrix_rule(_cofactors_gradient, results, (x, *directions))[0]


@matrix_rule("cofactors")
def _cofactors_gradient(
    cotangents: Cotangents, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Cotangents of the matrix and the directions.

    The derivatives of a polynomial are symmetric: the cotangent is an additional direction, or
    replaces one.
    """
    (cotangent,), (x, *directions) = cotangents, operands
    if cotangent is None:
        return (None,) * len(operands)
    direction = conjugate(cotangent)
    without_each = (directions[:n] + directions[n + 1 :] for n in range(len(directions)))
    return tuple(
        conjugate(_cofactors(x, *remaining, direction)) for remaining in (directions, *without_each)
    )


def log_determinant(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant of each matrix, and the logarithm of its absolute value."""
    shape = x.shape[:-2]
    results = call_host(f"{LINALG}slogdet", [x], [(shape, x.dtype), (shape, x.dtype.part)])
    sign, log = with_matrix_rule(_log_determinant_gradient, results, (x,))
    return sign, log


@matrix_rule("slogdet")
def _log_determinant_gradient(
    cotangents: Cotangents, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """Cotangent of the matrix. A real sign has derivative 0; a complex one rotates."""
    (sign_bar, log_bar), (sign, _), (x,) = cotangents, values, operands
    factor = log_bar
    # A real sign is constant wherever the determinant is not 0.
    if sign_bar is not None and x.dtype.is_complex:
        phase_bar = conjugate(sign_bar).mul(sign).imag.neg()
        factor = (phase_bar.zeros_like() if log_bar is None else log_bar).complex(phase_bar)
    return (
        None if factor is None else factor.unsqueeze(-1).unsqueeze(-1).mul(adjoint(inverse(x))),
    )
