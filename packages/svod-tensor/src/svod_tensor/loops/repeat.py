"""Making LOOPs: a body is traced until what it carries has settled, and becomes one node of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from svod_dtype import DType, bool_, promote_types, promote_with_scalar
from svod_ir import Op, Sharding, SInt, UOp, make_empty
from svod_ir.loops import make_counter, make_loop
from svod_tensor._counters import name_counter
from svod_tensor._generator import default_generator
from svod_tensor.cells.writing import write
from svod_tensor.errors import CarriedValueError, TraceError
from svod_tensor.loops.closing import Open, OperandPart, close
from svod_tensor.loops.tracing import Mask, Placeholder, Trace, count_loops, make_placeholder, start_trace
from svod_tensor.loops.values import Leaf, cast, describe, is_number, place, read_leaf, unbind_shape
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = ["RepeatOutcome", "Repeated", "check_condition", "make_repeated"]


class RepeatOutcome(NamedTuple):
    """What one iteration gave.

    Attributes:
        carried: what the next one gets, by leaf.
        stacked: what is kept of each iteration.
        find_go_on: whether there is a next one, of the values that it would get.
    """

    carried: Sequence[object]
    stacked: Sequence[Leaf] = ()
    find_go_on: Callable[[list[Tensor]], UOp] | None = None


@dataclass(frozen=True)
class Repeated:
    """A loop that is to be made.

    Attributes:
        operation: what messages call it.
        function: the name of the body.
        carried: the initial values.
        count: how many iterations there are at most: a size, or a computed integer.
        run: one iteration, of what is carried, the slices, and the number of the iteration.
        sliced: what each iteration gets one slice of.
        is_reversed: whether the last slice comes first.
    """

    operation: str
    function: str
    carried: Sequence[Leaf]
    count: SInt
    run: Callable[[list[Tensor], list[Tensor], UOp], RepeatOutcome]
    sliced: Sequence[Leaf] = ()
    is_reversed: bool = False


class _Traced(NamedTuple):
    """What one run of a body gave, over placeholders."""

    operands: list[UOp]
    placeholders: list[Placeholder | None]
    slices: list[Placeholder | None]
    next_values: list[UOp]
    stacked: Sequence[Leaf]
    go_on: UOp | None
    masks: list[Mask]
    mask_values: list[UOp]


@dataclass
class _CarriedForm:
    """What is known so far of a carried value: its dtype, and where it is."""

    dtype: DType
    placement: str | Sharding | None


def make_repeated(wanted: Repeated) -> tuple[list[Tensor], list[Tensor]]:
    """The values of a loop after its last iteration, and what it stacks. What its body assigns to is assigned.

    Raises:
        CarriedValueError: if an iteration gives other values than it gets.
        TraceError: if the body does what no graph can do.
    """
    # A generator outlives the body that is the first to draw from it.
    default_generator()
    counter = make_counter(name_counter(count_loops()), wanted.count)
    kinds = [_CarriedForm(leaf.node.dtype, leaf.node.placement) for leaf in wanted.carried]
    written: dict[int, Cell] = {}
    traced = None
    while traced is None:
        traced = _trace(wanted, counter, kinds, written)
    return _finish(wanted, counter, traced)


def _trace(wanted: Repeated, counter: UOp, kinds: list[_CarriedForm], written: dict[int, Cell]) -> _Traced | None:
    """One run of the body; None if it must run again, with other `kinds`, or for what it wrote to."""
    device = next((p for k in kinds if (p := k.placement) is not None), None)
    device = device if isinstance(device, str) else DEFAULT_DEVICE
    operands = [
        place(cast(leaf, kind.dtype), kind.placement or device)
        for leaf, kind in zip(wanted.carried, kinds, strict=True)
    ]
    trace = Trace(wanted.operation, wanted.function, counter.arg.name)
    with start_trace(trace, written):
        placeholders = [None if 0 in node.shape else make_placeholder(node) for node in operands]
        slices = [None if leaf.is_empty else make_placeholder(leaf.node, is_slice=True) for leaf in wanted.sliced]
        carried = [_make_carried(trace, o, p) for o, p in zip(operands, placeholders, strict=True)]
        sliced = [_make_slice(leaf, p) for leaf, p in zip(wanted.sliced, slices, strict=True)]
        outcome = wanted.run(carried, sliced, counter)
        has_changed = False
        next_values: list[UOp] = []
        for leaf, operand, kind, value in zip(wanted.carried, operands, kinds, outcome.carried, strict=True):
            node = _settle(wanted, leaf, operand, kind, value)
            has_changed = has_changed or node is None
            next_values.append(operand if node is None else node)
        go_on = None
        if outcome.find_go_on is not None and not has_changed:
            go_on = outcome.find_go_on([Tensor.from_uop(node) for node in next_values])
        masks = list(trace.masks.values())
        kept = [value for value in outcome.carried if isinstance(value, Tensor)]
        del carried, sliced
        stacked = outcome.stacked
        mask_values = [mask.cell.node for mask in masks]
        if not has_changed and not trace.has_missed:
            memories = [m for p in (*placeholders, *slices) if p is not None for m in p.memories]
            trace.check_leaks(memories, kept)
    for mask in masks:
        written[id(mask.cell)] = mask.cell
    if has_changed or trace.has_missed:
        return None
    return _Traced(operands, placeholders, slices, next_values, stacked, go_on, masks, mask_values)


def _make_carried(trace: Trace, operand: UOp, placeholder: Placeholder | None) -> Tensor:
    if placeholder is None:
        return Tensor.from_uop(operand)
    tensor = Tensor.from_uop(placeholder.node)
    trace.let_carry(tensor.content.cell, placeholder)
    return tensor


def _make_slice(leaf: Leaf, placeholder: Placeholder | None) -> Tensor:
    return Tensor.from_uop(
        make_empty(leaf.node.dtype, leaf.node.shape[1:]) if placeholder is None else placeholder.node
    )


def _settle(wanted: Repeated, leaf: Leaf, operand: UOp, kind: _CarriedForm, value: object) -> UOp | None:
    """What becomes of a carried value, as it is carried; None if `kind`, which is changed, must be that of another run."""
    if is_number(value):
        dtype = promote_with_scalar(operand.dtype, value)  # pyright: ignore[reportArgumentType]
        node = UOp.const(dtype, value)  # pyright: ignore[reportArgumentType]
    else:
        node = read_leaf(wanted.operation, leaf.path, value).node
    if unbind_shape(node) != unbind_shape(operand):
        raise _make_error(wanted, leaf, operand, node)
    if node.dtype is not operand.dtype:
        if not leaf.is_weak or (wider := promote_types(operand.dtype, node.dtype)) is operand.dtype:
            raise _make_error(wanted, leaf, operand, node)
        kind.dtype = wider
        return None
    if node.placement in (None, operand.placement or DEFAULT_DEVICE) or 0 in node.shape:
        return node
    if kind.placement is None:
        kind.placement = node.placement
        return None
    if isinstance(operand.placement, Sharding) and node.device == operand.device:
        return place(node, operand.placement)
    raise CarriedValueError(
        operation=wanted.operation, path=leaf.path, before=describe(operand, with_place=True),
        after=describe(node, with_place=True),
    )  # fmt: skip


def _make_error(wanted: Repeated, leaf: Leaf, operand: UOp, node: UOp) -> CarriedValueError:
    return CarriedValueError(operation=wanted.operation, path=leaf.path, before=describe(operand), after=describe(node))


def _finish(wanted: Repeated, counter: UOp, traced: _Traced) -> tuple[list[Tensor], list[Tensor]]:
    """The LOOP of what a body gave, and its results; what it assigned to is assigned."""
    everything = [
        (operand, placeholder, value)
        for operand, placeholder, value in zip(traced.operands, traced.placeholders, traced.next_values, strict=True)
        if placeholder is not None
    ]
    everything += [
        (mask.node, mask.placeholder, value) for mask, value in zip(traced.masks, traced.mask_values, strict=True)
    ]
    values = [value for *_, value in everything]
    slices = [(leaf.node, p) for leaf, p in zip(wanted.sliced, traced.slices, strict=True) if p is not None]
    stacked = [leaf for leaf in traced.stacked if not leaf.is_empty]
    roots = [*values, *(leaf.node for leaf in stacked), *([] if traced.go_on is None else [traced.go_on])]
    assigned = {m for node in UOp.sink(*roots).iter_ops(Op.ASSIGN) for m in node.target.iter_ops(Op.BUFFER)}
    # What no iteration changes is one of the things that each reads.
    carried = [e for e in everything if e[2] is not e[1].node or not assigned.isdisjoint(e[1].memories)]
    fixed = [e for e in everything if e not in carried]
    results: dict[UOp, UOp] = {placeholder.node: operand for operand, placeholder, _ in fixed}
    stacks: list[UOp] = []
    if wanted.count == 0:
        results.update((placeholder.node, operand) for operand, placeholder, _ in carried)
    elif carried or stacked:
        operands = [e[0] for e in carried] + [node for node, _ in slices] + [e[0] for e in fixed]
        shown = [e[1] for e in carried] + [p for _, p in slices] + [e[1] for e in fixed]
        places = {m: OperandPart(n, s) for n, p in enumerate(shown) for s, m in enumerate(p.memories)}
        roots = [
            *(e[2] for e in carried), *(leaf.node for leaf in stacked), *([] if traced.go_on is None else [traced.go_on])
        ]  # fmt: skip
        closed = close([Open(roots, places, counter.arg.name)], operands)
        found = make_loop(
            closed.bodies[0], wanted.count, closed.operands, n_carried=len(carried), n_sliced=len(slices),
            counter=counter.arg.name, is_reversed=wanted.is_reversed, is_conditional=traced.go_on is not None,
        )  # fmt: skip
        results.update((e[1].node, result) for e, result in zip(carried, found, strict=False))
        stacks = list(found[len(carried) :])
    if wanted.count != 0:
        for mask, value in zip(traced.masks, traced.mask_values, strict=True):
            if value is not mask.placeholder.node:
                write(mask.cell, (), results[mask.placeholder.node])
    after = [
        operand if placeholder is None else results[placeholder.node]
        for operand, placeholder in zip(traced.operands, traced.placeholders, strict=True)
    ]
    return [Tensor.from_uop(node) for node in after], _list_stacked(wanted, traced.stacked, stacks)


def _list_stacked(wanted: Repeated, stacked: Sequence[Leaf], stacks: Sequence[UOp]) -> list[Tensor]:
    found = iter(stacks)
    return [
        Tensor.from_uop(make_empty(leaf.node.dtype, (wanted.count, *leaf.node.shape)))
        if leaf.is_empty or wanted.count == 0
        else Tensor.from_uop(next(found))
        for leaf in stacked
    ]


def check_condition(operation: str, function: str, value: object) -> UOp:
    """The bool scalar that a condition gives.

    Raises:
        TraceError: if it gives anything else.
    """
    if isinstance(value, bool):
        return UOp.const(bool_, value)
    if isinstance(value, Tensor) and value.dtype is bool_ and value.shape == ():
        return value.uop
    found = describe(value.uop) if isinstance(value, Tensor) else type(value).__name__
    raise TraceError(
        operation=operation, function=function, problem=f"it returns {found}, not a bool of shape ()",
        hint="compare numbers, as in x < 3, and combine elements with x.all() or x.any()",
    )  # fmt: skip
