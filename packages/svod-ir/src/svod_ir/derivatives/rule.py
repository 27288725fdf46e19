"""Types of the rows of the derivative table, and functions that rules are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from svod_dtype import DType, float32
from svod_ir._constant import is_zero
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
    "make_refusal",
    "make_zeros",
    "scale",
    "scale_guarded",
    "spread",
    "widen",
]

Wanted: TypeAlias = tuple[bool, ...]
"""For each operand, whether its cotangent is needed."""
Parts: TypeAlias = "Sequence[UOp | None]"
"""A cotangent or tangent for each operand; None means zero."""


class Derivative(NamedTuple):
    """The derivative of an op.

    Attributes:
        reverse: maps a node, its cotangent and the `Wanted` flags to the cotangents of its inputs.
        forward: maps a node and the tangents of its inputs, at least one nonzero, to its tangent.
        list_inputs: inputs that a node depends on, in the order of both modes; None for its
        operands.
    """

    reverse: Callable[[UOp, UOp, Wanted], Parts]
    forward: Callable[[UOp, Parts], UOp | None]
    list_inputs: Callable[[UOp], Sequence[UOp]] | None = None


class Dependence(NamedTuple):
    """Dependence of outputs on sources.

    Attributes:
        order: the nodes below the outputs, inputs first.
        inputs: the inputs of each node.
        active: the nodes through which a derivative may flow: floats that depend on a source
            through floats.
    """

    order: list[UOp]
    inputs: dict[UOp, Sequence[UOp]]
    active: set[UOp]


class Mode(NamedTuple):
    """Functions that differentiate bodies, which are graphs of their own.

    Attributes:
        derive: `make_cotangents` or `make_tangents`.
        get_dependence: maps outputs and sources to the dependence of the outputs on the sources.
    """

    derive: Callable[[Sequence[UOp], Sequence[UOp], Sequence[UOp]], Parts]
    get_dependence: Callable[[Sequence[UOp], Sequence[UOp]], Dependence]


class MultipleDerivative(NamedTuple):
    """The derivative of an op with several results, indexed by their positions.

    Attributes:
        reverse: maps a node, the known cotangents of its results, the `Wanted` flags and the mode
            for its bodies to the cotangents of its operands.
        forward: maps a node, the tangents of its operands and the mode for its bodies to the
            tangents of its results.
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
    """Name of a node for users who do not know the IR."""
    if node.op is Op.CUSTOM_FUNCTION:
        return f"custom function {node.arg!r}"
    shape = node.find_shape()
    return node.op.name if shape is None else f"{node.op.name} to {node.dtype} of shape {shape}"


def scale(cotangent: UOp, factor: UOp) -> UOp:
    """Product with a factor. Elements masked out by a WHERE or a guard stay 0 for every factor."""
    if _is_guarded(cotangent):
        # The new factor goes inside of the guard: multiplied outside, an infinite one would turn
        # the guarded 0 into NaN.
        product, _, before = cotangent.src
        return _guard(
            make_alu(Op.MUL, product.src[2], factor),
            cotangent.src[1],
            make_alu(Op.MUL, before, factor),
        )
    choice = _split_choice(cotangent)
    if choice is None:
        return make_alu(Op.MUL, cotangent, factor)
    condition, chosen, is_first = choice
    product = make_alu(Op.MUL, chosen, factor)
    zero = UOp.const(cotangent.dtype, 0)
    return make_alu(Op.WHERE, condition, *((product, zero) if is_first else (zero, product)))


def scale_guarded(cotangent: UOp, factor: UOp) -> UOp:
    """Product with a factor that may be infinite or NaN; a cotangent of 0 stays 0.

    The derivative by a cotangent of 0 is the factor if the factor is finite, else 0. A plain
    `where` would have the derivative 0 for any factor: the second derivative of x exp(x) at 0 would
    lack a term.

    Example:
        >>> import numpy as np
        >>> from svod_ir.derivatives import scale_guarded
        >>> from svod_ir.evaluate import evaluate
        >>> from svod_ir.testing.nodes import buffer
        >>> cotangent, factor = buffer(1, 2), buffer(2, 2)
        >>> inputs = {cotangent: np.array([0, 2], np.float32), factor: np.array([np.inf, 3], np.float32)}
        >>> evaluate(scale_guarded(cotangent, factor), inputs).tolist()
        [0.0, 6.0]
    """
    # A cotangent that is never 0, or is guarded already, needs no test for each element.
    is_constant = cotangent.op is Op.CONST and cotangent.arg != 0
    if is_constant or _is_guarded(cotangent) or _split_choice(cotangent) is not None:
        return scale(cotangent, factor)
    return _guard(make_alu(Op.MUL, cotangent, factor), cotangent, factor)


def _guard(product: UOp, cotangent: UOp, factor: UOp) -> UOp:
    """`product` of `cotangent` and `factor`, with 0 where the cotangent is 0."""
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
    """Condition and nonzero branch of a WHERE with one zero branch; True if the nonzero one is
    first.
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


def make_zeros(like: UOp) -> UOp:
    """The cotangent of a node that no output depends on."""
    return make_constant_like(like, 0)


def add_up(x: UOp, axes: Sequence[int]) -> UOp:
    """Sum over axes, which keep size 1; floats of under four bytes are accumulated in float32."""
    # In the dtype itself, a long sum of narrow floats would stop growing.
    wide = widen(x.dtype)
    return make_cast(make_reduce_axis(make_cast(x, wide), Op.ADD, axes), x.dtype)


def collapse(cotangent: UOp, operand: UOp) -> UOp:
    """Cotangent of an operand of an elementwise op: the sum of all elements for a broadcast 0-d
    operand.
    """
    # Elementwise operands have the shape of the node or none, so no other sum is needed.
    if operand.shape or not cotangent.shape:
        return cotangent
    return make_reshape(add_up(cotangent, range(len(cotangent.shape))), ())


def spread(value: UOp, shape: tuple[SInt, ...]) -> UOp:
    """Broadcast a 0-d value to `shape`; a value of that shape is returned as it is."""
    return (
        value
        if value.shape == shape
        else make_expand(make_reshape(value, (1,) * len(shape)), shape)
    )


def widen(dtype: DType) -> DType:
    """The accumulator dtype for sums of `dtype`."""
    return float32 if dtype.is_float and dtype.itemsize < 4 else dtype
