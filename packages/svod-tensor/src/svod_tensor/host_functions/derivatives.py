"""Derivatives of functions of matrices, some of which have several results.

    @matrix_rule("eigh")
    def _eigh_gradient(cotangents, values, operands, *parameters): ...

    return with_matrix_rule(_eigh_gradient, values, (x,), *parameters)

A rule says what reverse mode does; forward mode transposes it. What it computes with values has
derivatives too, so that derivatives of every order are there."""

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
    """Make a rule of a function `(cotangents, values, operands, *parameters)` of tensors.

    The function gives the cotangent of each operand, or None. A cotangent that it gets is None
    where nothing depends on the value. Those of complex numbers z = x + iy are that of x plus i
    times that of y here, so that formulas have adjoints as they do in books; outside of rules it is
    minus i times."""

    def make(function: Backward) -> GradientRule:
        def backward(node: UOp, cotangent: UOp, wanted: tuple[bool, ...]) -> tuple[UOp | None, ...]:
            make_tensor = Tensor.from_uop
            given = split_parts(node, cotangent)
            cotangents = [None if part is None else conjugate(make_tensor(part)) for part in given]
            values, operands = (
                list(map(make_tensor, list_values(node))),
                list(map(make_tensor, list_operands(node))),
            )
            parameters: tuple[Any, ...] = node.arg.parameters
            # Its kernels are those of the line that called the operation.
            with leave_scope():
                found = function(cotangents, values, operands, *parameters)
            # The node has the other values among its operands.
            others = [None] * (len(wanted) - len(found))
            return (
                *others,
                *(_fit(part, operand) for part, operand in zip(found, operands, strict=True)),
            )

        return GradientRule(name, backward)

    return make


def _fit(part: Tensor | None, operand: Tensor) -> UOp | None:
    """The cotangent of an operand as derivatives have it; of a real one, the real part."""
    if part is None:
        return None
    if part.dtype.is_complex:
        part = part.conj() if operand.dtype.is_complex else part.real
    return cast_to(part, operand.dtype).uop


def with_matrix_rule(
    rule: GradientRule, values: Sequence[Tensor], operands: Sequence[Tensor], *parameters: object
) -> tuple[Tensor, ...]:
    """`values`, whose derivatives by `operands` the rule gives; `parameters` have a text form."""
    nodes = make_gradients([v.uop for v in values], [x.uop for x in operands], rule, parameters)
    return tuple(v.from_uop(node) for v, node in zip(values, nodes, strict=True))


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return conjugate(x.transpose(-2, -1))


def conjugate(x: Tensor) -> Tensor:
    """The conjugates of complex numbers; real ones as they are."""
    return x.conj() if x.dtype.is_complex else x


def is_diagonal(x: Tensor) -> Tensor:
    """Where the diagonal of the square matrices of `x` is, as bools in their shape."""
    places = x.arange(x.shape[-1])
    return places.unsqueeze(1).eq(places)


def diagonal_matrix(x: Tensor) -> Tensor:
    """The matrices that have the elements along the last axis of `x` on their diagonal, and 0
    elsewhere.
    """
    return is_diagonal(x).where(x.unsqueeze(-1), 0)


def scale_columns(x: Tensor, factors: Tensor) -> Tensor:
    """Each column of the matrices times one number."""
    return x.mul(factors.unsqueeze(-2))
