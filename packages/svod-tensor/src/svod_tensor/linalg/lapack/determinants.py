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

Parts = Sequence["Tensor | None"]


def determinant(x: Tensor) -> Tensor:
    """The determinant of each matrix."""
    found = call_host(f"{LINALG}det", [x], [(x.shape[:-2], x.dtype)])
    return with_matrix_rule(_determinant_gradient, found, (x,))[0]


@matrix_rule("det")
def _determinant_gradient(
    cotangents: Parts, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    (given,), (x,) = cotangents, operands
    return (
        None if given is None else given.unsqueeze(-1).unsqueeze(-1).mul(conjugate(_cofactors(x))),
    )


def _cofactors(x: Tensor, *directions: Tensor) -> Tensor:
    """Gradient of the determinant, differentiated along each of the `directions`: without these,
    the cofactors.

    It is linear in each direction, does not depend on their order, and is computed for singular
    matrices too."""
    found = call_host(f"{LINALG}cofactors", [x, *directions], [(x.shape, x.dtype)])
    return with_matrix_rule(_cofactors_gradient, found, (x, *directions))[0]


@matrix_rule("cofactors")
def _cofactors_gradient(
    cotangents: Parts, _: object, operands: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """The derivatives of a polynomial are symmetric: the cotangent is one more direction, or takes
    the position of one.
    """
    (given,), (x, *directions) = cotangents, operands
    if given is None:
        return (None,) * len(operands)
    raw = conjugate(given)
    others = (directions[:n] + directions[n + 1 :] for n in range(len(directions)))
    return tuple(conjugate(_cofactors(x, *kept, raw)) for kept in (directions, *others))


def log_determinant(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant of each matrix, and the logarithm of its size."""
    shape = x.shape[:-2]
    found = call_host(f"{LINALG}slogdet", [x], [(shape, x.dtype), (shape, x.dtype.part)])
    sign, log = with_matrix_rule(_log_determinant_gradient, found, (x,))
    return sign, log


@matrix_rule("slogdet")
def _log_determinant_gradient(
    cotangents: Parts, values: Sequence[Tensor], operands: Sequence[Tensor]
) -> tuple[Tensor | None]:
    """A sign that is 1 or -1 has none; one of complex numbers turns."""
    (of_sign, of_log), (sign, _), (x,) = cotangents, values, operands
    factor = of_log
    if of_sign is not None and x.dtype.is_complex:
        turn = conjugate(of_sign).mul(sign).imag.neg()
        factor = (turn.zeros_like() if of_log is None else of_log).complex(turn)
    return (
        None if factor is None else factor.unsqueeze(-1).unsqueeze(-1).mul(adjoint(inverse(x))),
    )
