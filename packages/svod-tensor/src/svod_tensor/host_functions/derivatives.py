"""Derivative rules of matrix functions, which may have several results.

    @matrix_rule("eigh")
    def _eigh_gradient(cotangents, values, operands, *parameters): ...

    return with_matrix_rule(_eigh_gradient, values, (x,), *parameters)

A rule defines reverse mode; forward mode transposes it. The operations of a rule have derivatives
themselves, so that derivatives of every order exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from svod_ir import UOp
from svod_ir.args import GradientRule
from svod_ir.derivatives import list_operands, list_values, make_gradients, split_parts
from svod_tensor._scopes import leave_scope
from svod_tensor.ops.core.operands import cast_to
from svod_tensor.tensor import Tensor

__all__ = [
    "adjoint",
    "conjugate",
    "diagonal_matrix",
    "is_diagonal",
    "matrix_rule",
    "scale_columns",
    "with_matrix_rule",
]

Backward = Callable[..., "Sequence[Tensor | None]"]


def matrix_rule(name: str) -> Callable[[Backward], GradientRule]:
    """Make a rule from a function `(cotangents, values, operands, *parameters)` of tensors.

    The function returns the cotangent of each operand, or None. The cotangent of an unused value is
    None. Inside of rules, the cotangent of a complex number z = x + iy is x_bar + i * y_bar, so that
    formulas have adjoints as in the literature; outside of rules it is the conjugate, as in JAX."""

    def make(function: Backward) -> GradientRule:
        def backward(node: UOp, cotangent: UOp, wanted: tuple[bool, ...]) -> tuple[UOp | None, ...]:
            make_tensor = Tensor.from_uop
            raw_cotangents = split_parts(node, cotangent)
            cotangents = [
                None if x_bar is None else conjugate(make_tensor(x_bar)) for x_bar in raw_cotangents
            ]
            values, operands = (
                list(map(make_tensor, list_values(node))),
                list(map(make_tensor, list_operands(node))),
            )
            parameters: tuple[Any, ...] = node.arg.parameters
            # The kernels have the origin of the line that called the operation.
            with leave_scope():
                results = function(cotangents, values, operands, *parameters)
            # The operands of the node begin with the values, which have no cotangent here.
            padding = [None] * (len(wanted) - len(results))
            return (
                *padding,
                *(_fit(x_bar, operand) for x_bar, operand in zip(results, operands, strict=True)),
            )

        return GradientRule(name, backward)

    return make


def _fit(cotangent: Tensor | None, operand: Tensor) -> UOp | None:
    """The cotangent of an operand in the convention outside of rules; the real part for a real
    operand."""
    if cotangent is None:
        return None
    if cotangent.dtype.is_complex:
        # A real operand changes along the real axis only.
        cotangent = cotangent.conj() if operand.dtype.is_complex else cotangent.real
    return cast_to(cotangent, operand.dtype).uop


def with_matrix_rule(
    rule: GradientRule, values: Sequence[Tensor], operands: Sequence[Tensor], *parameters: object
) -> tuple[Tensor, ...]:
    """`values` with the derivative rule by `operands`; `parameters` must have a text form."""
    # Graphs are printed and parsed for the caches on disk, so parameters need a text form.
    nodes = make_gradients([v.uop for v in values], [x.uop for x in operands], rule, parameters)
    return tuple(v.from_uop(node) for v, node in zip(values, nodes, strict=True))


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return conjugate(x.transpose(-2, -1))


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; `x` itself if it is real."""
    return x.conj() if x.dtype.is_complex else x


def is_diagonal(x: Tensor) -> Tensor:
    """Mask of the diagonal of the square matrices of `x`, in their shape."""
    indices = x.arange(x.shape[-1])
    return indices.unsqueeze(1).eq(indices)


def diagonal_matrix(x: Tensor) -> Tensor:
    """The diagonal matrices of the elements along the last axis of `x`."""
    return is_diagonal(x).where(x.unsqueeze(-1), 0)


def scale_columns(x: Tensor, factors: Tensor) -> Tensor:
    """The matrices with each column scaled by a factor."""
    return x.mul(factors.unsqueeze(-2))
