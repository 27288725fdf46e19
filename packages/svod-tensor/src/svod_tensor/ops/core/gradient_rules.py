"""Custom gradient rules for operations composed of several nodes, in place of differentiating the
nodes.

    @gradient_rule("softmax")
    def _softmax_gradient(cotangent, value, operands, wanted, axis): ...

    return with_rule(_softmax_gradient, value, (x,), axis)

A rule exists for accuracy (the derivatives of the nodes cancel or overflow), for kinks and poles
(the derivative of the nodes differs from that of the function), and for memory (fewer residuals
are kept for the backward pass).

One rule serves both modes. The cotangents that a `gradient_rule` returns are linear in the cotangent
of the value, so forward mode transposes them; the rule of a linear function may return the tangent
too. An elementwise function returns its partial derivatives, by which reverse mode multiplies
cotangents, and forward mode tangents:

    @elementwise_rule("asin")
    def asin(value, operands, wanted): return (1 / (1 - operands[0] ** 2).sqrt(),)

The formula of a rule is itself differentiated for second derivatives. So it may use `where` only at
points where the function has no derivative: `x.eq(0).where(0.0, x.div(y))` would be constant at
0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from svod_ir import Op, UOp, make_alu
from svod_ir.args import GradientRule
from svod_ir.derivatives import make_gradient, scale_guarded
from svod_tensor._scopes import leave_scope
from svod_tensor._shapes import Shape, broadcast_node
from svod_tensor.tensor import Tensor

__all__ = ["collapse", "elementwise_rule", "gradient_rule", "with_rule"]

Backward = Callable[..., "Sequence[Tensor | None]"]
Forward = Callable[..., "Tensor"]
Partials = Callable[..., "Sequence[Tensor | None]"]


def gradient_rule(
    name: str, *, forward: Forward | None = None, is_symmetric: bool = False
) -> Callable[[Backward], GradientRule]:
    """Make a gradient rule from a function `(cotangent, value, operands, wanted, *parameters)`.

    The function returns the cotangent of each operand, or None for an operand that is not wanted or
    that the value does not depend on.

    Args:
        name: unique name of the rule.
        forward: a function `(tangents, value, operands, *parameters)` that returns the tangent of
            the value, where transposing the cotangents would compute more; a tangent of None is
            zero.
        is_symmetric: whether the function has one operand and a symmetric Jacobian, so that it maps
            tangents as well as cotangents.
    """

    def make(function: Backward) -> GradientRule:
        def backward(node: UOp, cotangent: UOp, wanted: tuple[bool, ...]) -> tuple[UOp | None, ...]:
            value, operands = _read(node)
            # Kernels of the gradient are attributed to the source line of the operation.
            with leave_scope():
                cotangents = function(
                    value.from_uop(cotangent), value, operands, wanted, *node.arg.parameters
                )
            return tuple(
                None if operand_cotangent is None else operand_cotangent.uop
                for operand_cotangent in cotangents
            )

        def push(node: UOp, tangents: tuple[UOp | None, ...]) -> UOp | None:
            # A symmetric Jacobian maps tangents as it maps cotangents.
            if forward is None:
                (tangent,) = tangents
                return None if tangent is None else backward(node, tangent, (True,))[0]
            value, operands = _read(node)
            tensor_tangents = tuple(
                None if tangent is None else value.from_uop(tangent) for tangent in tangents
            )
            with leave_scope():
                return forward(tensor_tangents, value, operands, *node.arg.parameters).uop

        # None: forward mode transposes `backward`, which is linear in the cotangent.
        return GradientRule(name, backward, push if is_symmetric or forward is not None else None)

    return make


def elementwise_rule(name: str) -> Callable[[Partials], GradientRule]:
    """Make a gradient rule from a function `(value, operands, wanted, *parameters)` that returns
    the partial derivatives.

    Operands broadcast. A cotangent or tangent of 0 stays 0 where the partial derivative is infinite
    or NaN."""

    def make(function: Partials) -> GradientRule:
        def list_partials(node: UOp, wanted: tuple[bool, ...]) -> Sequence[Tensor | None]:
            value, operands = _read(node)
            with leave_scope():
                return function(value, operands, wanted, *node.arg.parameters)

        def backward(node: UOp, cotangent: UOp, wanted: tuple[bool, ...]) -> tuple[UOp | None, ...]:
            partials = list_partials(node, wanted)
            with leave_scope():
                return tuple(
                    collapse(partial.from_uop(_scale(cotangent, partial)), operand.shape).uop
                    if is_wanted and partial is not None
                    else None
                    for partial, operand, is_wanted in zip(
                        partials, node.src[1:], wanted, strict=True
                    )
                )

        def forward(node: UOp, tangents: tuple[UOp | None, ...]) -> UOp | None:
            # Partial derivatives that meet no tangent are not built.
            partials = list_partials(node, tuple(tangent is not None for tangent in tangents))
            terms = [
                _scale(broadcast_node(tangent, node.shape), partial)
                for partial, tangent in zip(partials, tangents, strict=True)
                if partial is not None and tangent is not None
            ]
            return reduce(_add, terms) if terms else None

        return GradientRule(name, backward, forward)

    return make


def _read(node: UOp) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Value and operands of a GRADIENT node, as tensors."""
    make_tensor = Tensor.from_uop
    return make_tensor(node), tuple(map(make_tensor, node.src[1:]))


def _scale(tangent: UOp, partial: Tensor) -> UOp:
    """A cotangent or tangent times a partial derivative."""
    # 0 * inf would be NaN where a value that is not selected has an infinite derivative.
    return scale_guarded(
        tangent, broadcast_node(partial.uop, tangent.shape) if partial.shape else partial.uop
    )


def _add(x: UOp, y: UOp) -> UOp:
    return make_alu(Op.ADD, x, y)


def collapse(cotangent: Tensor, shape: Shape) -> Tensor:
    """Sum the cotangent over the axes along which the operand was broadcast."""
    if cotangent.shape == shape:
        return cotangent
    lead = cotangent.ndim - len(shape)
    spread = [
        lead + axis for axis, size in enumerate(shape) if size != cotangent.shape[lead + axis]
    ]
    return cotangent.sum((*range(lead), *spread), keepdims=True).reshape(shape)


def with_rule(
    rule: GradientRule, value: Tensor, operands: Sequence[Tensor], *parameters: object
) -> Tensor:
    """Attach a gradient rule to `value`; `parameters` must have a text form."""
    # Integers and bools have no derivative.
    if not value.dtype.is_inexact:
        return value
    return value.from_uop(
        make_gradient(value.uop, [operand.uop for operand in operands], rule, parameters)
    )
