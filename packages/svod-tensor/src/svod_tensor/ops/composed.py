"""Derivatives of operations that are composed of several nodes: what an operation says of its value, in place of what they give.

    @gradient_rule("softmax")
    def _softmax_gradient(cotangent, value, operands, wanted, axis): ...

    return with_rule(_softmax_gradient, value, (x,), axis)

A rule is for accuracy, where what the nodes give would cancel or overflow, and for speed, where it keeps less between the
value and the derivative. Forward mode takes the derivative of the nodes, so that each checks the other. Of a function of
single elements it takes the rule too, since the nodes may have no derivative where the function has one:

    @elementwise_rule("asin")
    def asin(value, operands, wanted): return (1 / (1 - operands[0] ** 2).sqrt(),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from svod_ir import UOp
from svod_ir.args import GradientRule
from svod_ir.derivatives import make_gradient, scale_guarded
from svod_tensor._scopes import leave_scope
from svod_tensor._shapes import Shape, broadcast_node

if TYPE_CHECKING:
    from svod_tensor.ops.theme import Theme

__all__ = ["collapse", "elementwise_rule", "get_tensor_kind", "gradient_rule", "take_rules", "with_rule"]

T = TypeVar("T", bound="Theme")
C = TypeVar("C", bound=type)
Backward = Callable[..., "Sequence[Theme | None]"]
Partials = Callable[..., "Sequence[Theme | None]"]

_kinds: Final[list[type[Theme]]] = []


def take_rules(cls: C) -> C:
    """Let rules compute with tensors of this class."""
    _kinds.append(cls)  # pyright: ignore[reportArgumentType]
    return cls


def get_tensor_kind() -> type[Theme]:
    """The class of tensors that rules compute with."""
    return _kinds[0]


def gradient_rule(name: str) -> Callable[[Backward], GradientRule]:
    """Make a rule of a function `(cotangent, value, operands, wanted, *parameters)` of tensors.

    The function gives the cotangent of each operand, or None of one that is not wanted or that the value does not depend on.
    """
    return lambda function: _make_rule(name, function, is_checked=True)


def elementwise_rule(name: str) -> Callable[[Partials], GradientRule]:
    """Make a rule of a function `(value, operands, wanted, *parameters)` of tensors that gives the partial derivatives.

    Operands broadcast. A cotangent of 0 stays 0 by a partial derivative that is infinite or NaN.
    """

    def make(function: Partials) -> GradientRule:
        def backward(
            cotangent: T, value: T, operands: tuple[T, ...], wanted: tuple[bool, ...], *parameters: Any
        ) -> list[T | None]:
            partials: Sequence[T | None] = function(value, operands, wanted, *parameters)  # pyright: ignore[reportAssignmentType]
            return [
                None if partial is None or not is_wanted else collapse(_scale(cotangent, partial), operand.shape)
                for partial, operand, is_wanted in zip(partials, operands, wanted, strict=True)
            ]

        return _make_rule(name, backward, is_checked=False)

    return make


def _make_rule(name: str, function: Backward, *, is_checked: bool) -> GradientRule:
    def backward(node: UOp, cotangent: UOp, wanted: tuple[bool, ...]) -> tuple[UOp | None, ...]:
        make_tensor = _kinds[0].from_uop
        operands = tuple(map(make_tensor, node.src[1:]))
        parameters: tuple[Any, ...] = node.arg.parameters
        # Its kernels are those of the line that called the operation.
        with leave_scope():
            found = function(make_tensor(cotangent), make_tensor(node), operands, wanted, *parameters)
        return tuple(None if part is None else part.uop for part in found)

    return GradientRule(name, backward, is_checked=is_checked)


def _scale(cotangent: T, partial: T) -> T:
    node = broadcast_node(partial.uop, cotangent.shape) if partial.shape else partial.uop
    return cotangent.from_uop(scale_guarded(cotangent.uop, node))


def collapse(cotangent: T, shape: Shape) -> T:
    """The cotangent of an operand from those of all elements that it was broadcast to."""
    if cotangent.shape == shape:
        return cotangent
    lead = cotangent.ndim - len(shape)
    spread = [lead + axis for axis, size in enumerate(shape) if size != cotangent.shape[lead + axis]]
    return cotangent.sum((*range(lead), *spread), keepdims=True).reshape(shape)


def with_rule(rule: GradientRule, value: T, operands: Sequence[T], *parameters: object) -> T:
    """`value`, whose derivatives by `operands` the rule gives; `parameters` have a text form."""
    if not value.dtype.is_inexact:
        return value
    return value.from_uop(make_gradient(value.uop, [operand.uop for operand in operands], rule, parameters))
