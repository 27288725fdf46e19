"""Determinants, with their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from svod_ir.derivatives import make_cotangents, make_traced
from svod_tensor.matrices.call import call_host
from svod_tensor.matrices.rules import adjoint, conjugate, matrix_rule, with_matrix_rule
from svod_tensor.matrices.systems import inverse
from svod_tensor.ops.theme import Theme
from svod_tensor.python_functions.libraries import LINALG

__all__ = ["determinant", "log_determinant"]

T = TypeVar("T", bound=Theme)
Parts = Sequence["T | None"]


def determinant(x: T) -> T:
    """The determinant of each matrix."""
    found = call_host(f"{LINALG}det", [x], [(x.shape[:-2], x.dtype)])
    return with_matrix_rule(_determinant_gradient, found, (x,))[0]


@matrix_rule("det")
def _determinant_gradient(cotangents: Parts[T], _: object, operands: Sequence[T]) -> tuple[T | None]:
    """Of singular matrices too."""
    (given,), (x,) = cotangents, operands
    return (None if given is None else given.unsqueeze(-1).unsqueeze(-1).mul(conjugate(_cofactors(x))),)


def _cofactors(x: T) -> T:
    """The determinant of what is left of a matrix without a row and a column, with its sign, for each element."""
    found = call_host(f"{LINALG}cofactors", [x], [(x.shape, x.dtype)])
    return with_matrix_rule(_cofactors_gradient, found, (x,))[0]


@matrix_rule("cofactors")
def _cofactors_gradient(cotangents: Parts[T], _: object, operands: Sequence[T]) -> tuple[T | None]:
    """Of singular matrices too."""
    (given,), (x,) = cotangents, operands
    return (None if given is None else conjugate(_second_cofactors(x, conjugate(given))),)


def _second_cofactors(x: T, weights: T) -> T:
    """Derivative of the weighted sum of the cofactors of `x` by each element of `x`."""
    found = call_host(f"{LINALG}second_cofactors", [x, weights], [(x.shape, x.dtype)])
    return with_matrix_rule(_second_cofactors_gradient, found, (x, weights))[0]


@matrix_rule("second_cofactors")
def _second_cofactors_gradient(cotangents: Parts[T], _: object, operands: Sequence[T]) -> tuple[T | None, T | None]:
    """By the weights, of which they are a symmetric linear function; by the matrix only where that has an inverse."""
    (given,), (x, weights) = cotangents, operands
    if given is None:
        return None, None
    raw = conjugate(given)
    # The cofactors are the determinant times the transposed inverse, which have derivatives of all orders.
    traced = x.from_uop(make_traced(x.uop))
    cofactors, turned = _cofactors(traced), inverse(traced).transpose(-2, -1)
    total = weights.mul(cofactors).sum((-2, -1), keepdims=True)
    value = total.mul(turned).sub(cofactors.matmul(weights.transpose(-2, -1)).matmul(turned))
    (found,) = make_cotangents([value.uop], [raw.uop], [traced.uop])
    of_x = None if found is None else conjugate(x.from_uop(found))
    return of_x, conjugate(_second_cofactors(x, raw))


def log_determinant(x: T) -> tuple[T, T]:
    """The sign of the determinant of each matrix, and the logarithm of its size."""
    shape = x.shape[:-2]
    found = call_host(f"{LINALG}slogdet", [x], [(shape, x.dtype), (shape, x.dtype.part)])
    sign, log = with_matrix_rule(_log_determinant_gradient, found, (x,))
    return sign, log


@matrix_rule("slogdet")
def _log_determinant_gradient(cotangents: Parts[T], values: Sequence[T], operands: Sequence[T]) -> tuple[T | None]:
    """A sign that is 1 or -1 has none; one of complex numbers turns."""
    (of_sign, of_log), (sign, _), (x,) = cotangents, values, operands
    factor = of_log
    if of_sign is not None and x.dtype.is_complex:
        turn = conjugate(of_sign).mul(sign).imag.neg()
        factor = (turn.zeros_like() if of_log is None else of_log).complex(turn)
    return (None if factor is None else factor.unsqueeze(-1).unsqueeze(-1).mul(adjoint(inverse(x))),)
