"""What a row of the table of derivatives holds, and what rules are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from svod_dtype import DType, float32
from svod_ir.args import GradientRule
from svod_ir.build import (
    make_alu,
    make_cast,
    make_constant_like,
    make_expand,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.derivatives.marks import make_gradient
from svod_ir.errors import NotDifferentiableError
from svod_ir.ops import Op
from svod_ir.origins import get_origins
from svod_ir.uop import SInt, UOp

__all__ = [
    "Dependence",
    "Derivative",
    "Mode",
    "MultipleDerivative",
    "Parts",
    "Wanted",
    "add_up",
    "collapse",
    "is_zero",
    "make_refusal",
    "make_zeros",
    "scale",
    "scale_guarded",
    "spread",
    "widen",
]

Wanted: TypeAlias = tuple[bool, ...]
"""Of which operands the cotangents are asked for."""
Parts: TypeAlias = "Sequence[UOp | None]"
"""A cotangent or tangent for each operand; None is zero."""


class Derivative(NamedTuple):
    """The derivative of an op.

    Attributes:
        reverse: from a node, its cotangent, and what is wanted, to the cotangents of its inputs.
        forward: from a node and the tangents of its inputs, one of which is not zero, to its own.
        list_inputs: what a node depends on, in the order of both; None for its operands.
    """

    reverse: Callable[[UOp, UOp, Wanted], Parts]
    forward: Callable[[UOp, Parts], UOp | None]
    list_inputs: Callable[[UOp], Sequence[UOp]] | None = None


class Dependence(NamedTuple):
    """How outputs depend on sources.

    Attributes:
        order: the nodes below the outputs, inputs first.
        inputs: what each depends on.
        active: the nodes through which a derivative may flow: floats that depend on a source
            through floats.
    """

    order: list[UOp]
    inputs: dict[UOp, Sequence[UOp]]
    active: set[UOp]


class Mode(NamedTuple):
    """How derivatives of bodies are taken, which are graphs of their own.

    Attributes:
        derive: `make_cotangents` or `make_tangents`.
        get_dependence: from outputs and sources to how the ones depend on the others.
    """

    derive: Callable[[Sequence[UOp], Sequence[UOp], Sequence[UOp]], Parts]
    get_dependence: Callable[[Sequence[UOp], Sequence[UOp]], Dependence]


class MultipleDerivative(NamedTuple):
    """The derivative of an op of several results, whose parts have the positions of these.

    Attributes:
        reverse: from a node, the cotangents of those of its results that have one, what is wanted,
            and how derivatives of its bodies are taken, to the cotangents of its operands.
        forward: from a node, the tangents of its operands, and how derivatives of its bodies are
            taken, to the tangents of its results.
    """

    reverse: Callable[[UOp, Mapping[int, UOp], Wanted, Mode], Parts]
    forward: Callable[[UOp, Parts, Mode], dict[int, UOp]]


def make_refusal(node: UOp, reason: str, hint: str | None = None) -> NotDifferentiableError:
    """The error for an op without a derivative."""
    name, lines = _name(node), sorted(map(str, get_origins(node)))
    if hint is None:
        return NotDifferentiableError(operation=name, reason=reason, lines=lines)
    return NotDifferentiableError(operation=name, reason=reason, lines=lines, hint=hint)


def _name(node: UOp) -> str:
    """What somebody who wrote no line of this package knows a node by."""
    if node.op is Op.CUSTOM_FUNCTION:
        return f"custom function {node.arg!r}"
    shape = node.find_shape()
    return node.op.name if shape is None else f"{node.op.name} to {node.dtype} of shape {shape}"


def scale(cotangent: UOp, factor: UOp) -> UOp:
    """Product with a factor; the elements that `where` or a guard leaves out stay 0 whatever the
    factor is.
    """
    if _is_guarded(cotangent):
        product, _, before = cotangent.src
        return _guard(
            make_alu(Op.MUL, product.src[2], factor),
            cotangent.src[1],
            make_alu(Op.MUL, before, factor),
        )
    found = _split_choice(cotangent)
    if found is None:
        return make_alu(Op.MUL, cotangent, factor)
    condition, chosen, is_first = found
    product = make_alu(Op.MUL, chosen, factor)
    zero = UOp.const(cotangent.dtype, 0)
    return make_alu(Op.WHERE, condition, *((product, zero) if is_first else (zero, product)))


def scale_guarded(cotangent: UOp, factor: UOp) -> UOp:
    """Product with a factor that may be infinite or NaN, by which a cotangent of 0 stays 0.

    The derivative by a cotangent of 0 is the factor if that is finite, else 0. That of the `where`
    alone would be 0 for any factor: the second derivative of x exp(x) at 0 would lack a term.

    Example:
        >>> import numpy as np
        >>> from svod_ir.evaluate import evaluate
        >>> from svod_ir.testing.nodes import buffer
        >>> cotangent, factor = buffer(1, 2), buffer(2, 2)
        >>> given = {cotangent: np.array([0, 2], np.float32), factor: np.array([np.inf, 3], np.float32)}
        >>> evaluate(scale_guarded(cotangent, factor), given).tolist()
        [0.0, 6.0]
    """
    is_constant = cotangent.op is Op.CONST and cotangent.arg != 0
    if is_constant or _is_guarded(cotangent) or _split_choice(cotangent) is not None:
        return scale(cotangent, factor)
    return _guard(make_alu(Op.MUL, cotangent, factor), cotangent, factor)


def _guard(product: UOp, cotangent: UOp, factor: UOp) -> UOp:
    """`product`, which is that of a cotangent and a factor, and 0 where the cotangent is."""
    zero = UOp.const(product.dtype, 0)
    value = make_alu(Op.WHERE, make_alu(Op.EQ, cotangent, zero), zero, product)
    return make_gradient(value, (cotangent, factor), _GUARDED)


def _is_guarded(node: UOp) -> bool:
    return node.op is Op.GRADIENT and node.arg.rule is _GUARDED


def _list_partials(node: UOp) -> tuple[UOp, UOp]:
    """The partial derivatives of a guarded product: the factor, and the cotangent."""
    _, cotangent, factor = node.src
    zero = UOp.const(node.dtype, 0)
    # The difference is NaN if the factor is infinite or NaN.
    is_finite = make_alu(Op.EQ, make_alu(Op.SUB, factor, factor), zero)
    is_taken = make_alu(Op.OR, make_alu(Op.NE, cotangent, zero), is_finite)
    return make_alu(Op.WHERE, is_taken, factor, zero), cotangent


def _reverse_guarded(node: UOp, cotangent: UOp, wanted: Wanted) -> tuple[UOp | None, UOp | None]:
    by_cotangent, by_factor = _list_partials(node)
    return (
        collapse(scale_guarded(cotangent, by_cotangent), node.src[1]) if wanted[0] else None,
        collapse(scale(cotangent, by_factor), node.src[2]) if wanted[1] else None,
    )


def _forward_guarded(node: UOp, tangents: Parts) -> UOp | None:
    of_cotangent, of_factor = (None if t is None else spread(t, node.shape) for t in tangents)
    by_cotangent, by_factor = _list_partials(node)
    if of_cotangent is not None:
        of_cotangent = scale_guarded(of_cotangent, by_cotangent)
    if of_factor is not None:
        of_factor = scale_guarded(spread(by_factor, node.shape), of_factor)
    if of_cotangent is None or of_factor is None:
        return of_factor if of_cotangent is None else of_cotangent
    return make_alu(Op.ADD, of_cotangent, of_factor)


_GUARDED: Final = GradientRule("guarded_product", _reverse_guarded, _forward_guarded)


def _split_choice(node: UOp) -> tuple[UOp, UOp, bool] | None:
    """The condition of a WHERE of which one side is 0, the other side, and whether it is
    the first.
    """
    if node.op is not Op.WHERE:
        return None
    condition, x, y = node.src
    # A product of two 0-d nodes would lose the shape that the condition has.
    if is_zero(y) and x.shape == node.shape:
        return condition, x, True
    if is_zero(x) and y.shape == node.shape:
        return condition, y, False
    return None


def is_zero(node: UOp) -> bool:
    """Whether a node is the constant 0, in any shape."""
    while node.op in (Op.EXPAND, Op.RESHAPE):
        node = node.source
    return node.op is Op.CONST and node.arg == 0


def make_zeros(like: UOp) -> UOp:
    """The cotangent of what nothing depends on."""
    return make_constant_like(like, 0)


def add_up(x: UOp, axes: Sequence[int]) -> UOp:
    """The sums over axes, which stay with size 1; narrow floats are added up in float32."""
    wide = widen(x.dtype)
    return make_cast(make_reduce_axis(make_cast(x, wide), Op.ADD, axes), x.dtype)


def collapse(cotangent: UOp, operand: UOp) -> UOp:
    """The cotangent of an operand of an elementwise op: of a 0-d one, which stands for all
    elements, their sum.
    """
    if operand.shape or not cotangent.shape:
        return cotangent
    return make_reshape(add_up(cotangent, range(len(cotangent.shape))), ())


def spread(value: UOp, shape: tuple[SInt, ...]) -> UOp:
    """A value of this shape, or a 0-d one in the place of all its elements."""
    return (
        value
        if value.shape == shape
        else make_expand(make_reshape(value, (1,) * len(shape)), shape)
    )


def widen(dtype: DType) -> DType:
    """The dtype in which values of `dtype` are added up."""
    return float32 if dtype.is_float and dtype.itemsize < 4 else dtype
