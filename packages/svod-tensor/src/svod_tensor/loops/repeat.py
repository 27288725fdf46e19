"""Making LOOPs: a body is traced until what it carries has settled, and becomes one node of the
graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from svod_dtype import DType, bool_, promote_types, promote_with_scalar
from svod_ir import DeviceMismatchError, Op, Sharding, SInt, UOp, make_empty, make_reshape
from svod_ir.loops import choose_counter, make_counter, make_loop, replace_variable
from svod_ir.sizes import product
from svod_tensor._counters import name_traced_counter
from svod_tensor._generator import default_generator, sample_ahead
from svod_tensor._random_keys import count_samplings
from svod_tensor.cells import registry
from svod_tensor.cells.writing import write
from svod_tensor.engine.bindings import find_size
from svod_tensor.errors import CarriedValueError, TraceError
from svod_tensor.loops.closing import Open, OperandPart, close, reads
from svod_tensor.loops.tracing import (
    Mask,
    Placeholder,
    Trace,
    count_loops,
    make_placeholder,
    start_trace,
)
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
        is_recomputed: whether derivatives compute the iterations again from what is carried.
    """

    operation: str
    function: str
    carried: Sequence[Leaf]
    count: SInt
    run: Callable[[list[Tensor], list[Tensor], UOp], RepeatOutcome]
    sliced: Sequence[Leaf] = ()
    is_reversed: bool = False
    is_recomputed: bool = False


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
    drawn: Mapping[int, Cell]


@dataclass
class _CarriedForm:
    """What is known so far of a carried value: its dtype, and where it is."""

    dtype: DType
    placement: str | Sharding | None


def make_repeated(wanted: Repeated) -> tuple[list[Tensor], list[Tensor]]:
    """The values of a loop after its last iteration, and what it stacks. What its body assigns to
    is assigned.

    Raises:
        CarriedValueError: if an iteration gives other values than it gets.
        TraceError: if the body does what no graph can do.
    """
    # A generator outlives the body that is the first to draw from it.
    default_generator()
    counter = make_counter(name_traced_counter(count_loops()), wanted.count)
    kinds = [_CarriedForm(leaf.node.dtype, leaf.node.placement) for leaf in wanted.carried]
    written: dict[int, Cell] = {}
    traced = None
    placements = {leaf.node.placement for leaf in (*wanted.carried, *wanted.sliced)}
    # Nearly always there is one device; else what comes from no memory is where what it meets in
    # the body is.
    device = DEFAULT_DEVICE if placements <= {None, DEFAULT_DEVICE} else None
    while traced is None:
        try:
            traced = _trace(wanted, counter, kinds, written, device)
        except DeviceMismatchError:
            if device is None or None not in placements:
                raise
            device = None
    return _finish(wanted, counter, traced)


def _trace(
    wanted: Repeated,
    counter: UOp,
    kinds: list[_CarriedForm],
    written: dict[int, Cell],
    device: str | None,
) -> _Traced | None:
    """One run of the body; None if it must run again, with other `kinds`, or for what it wrote to.

    What comes from no memory is on `device`, or on none.
    """
    operands = [
        place(cast(leaf, kind.dtype), kind.placement)
        for leaf, kind in zip(wanted.carried, kinds, strict=True)
    ]
    trace = Trace(wanted.operation, wanted.function, counter.arg.name)
    with start_trace(trace, written):
        placeholders = [
            None
            if 0 in node.shape
            else make_placeholder(node, device=_get_device(kind.placement, device))
            for node, kind in zip(operands, kinds, strict=True)
        ]
        slices = [
            None if leaf.is_empty else make_placeholder(leaf.node, is_slice=True, device=device)
            for leaf in wanted.sliced
        ]
        carried = [_make_carried(trace, o, p) for o, p in zip(operands, placeholders, strict=True)]
        sliced = [_make_slice(leaf, p) for leaf, p in zip(wanted.sliced, slices, strict=True)]
        outcome = wanted.run(carried, sliced, counter)
        has_changed = False
        next_values: list[UOp] = []
        for leaf, operand, kind, value in zip(
            wanted.carried, operands, kinds, outcome.carried, strict=True
        ):
            node = _settle(wanted, leaf, operand, kind, value, device)
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
    return _Traced(
        operands, placeholders, slices, next_values, stacked, go_on, masks, mask_values, trace.drawn
    )


def _get_device(placement: str | Sharding | None, device: str | None) -> str | None:
    return placement if isinstance(placement, str) else device


def _make_carried(trace: Trace, operand: UOp, placeholder: Placeholder | None) -> Tensor:
    if placeholder is None:
        return Tensor.from_uop(operand)
    tensor = Tensor.from_uop(placeholder.node)
    trace.let_carry(tensor.content.cell, placeholder)
    return tensor


def _make_slice(leaf: Leaf, placeholder: Placeholder | None) -> Tensor:
    return Tensor.from_uop(
        make_empty(leaf.node.dtype, leaf.node.shape[1:])
        if placeholder is None
        else placeholder.node
    )


def _settle(
    wanted: Repeated,
    leaf: Leaf,
    operand: UOp,
    kind: _CarriedForm,
    value: object,
    device: str | None,
) -> UOp | None:
    """What becomes of a carried value, as it is carried; None if `kind`, which is changed, must be
    that of another run.
    """
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
    if node.placement in (None, kind.placement or device) or 0 in node.shape:
        return node
    if kind.placement is None:
        kind.placement = node.placement
        return None
    if isinstance(kind.placement, Sharding) and node.device == kind.placement.devices:
        return place(node, kind.placement)
    raise CarriedValueError(
        operation=wanted.operation,
        path=leaf.path,
        before=describe(operand, with_place=True),
        after=describe(node, with_place=True),
    )


def _make_error(wanted: Repeated, leaf: Leaf, operand: UOp, node: UOp) -> CarriedValueError:
    return CarriedValueError(
        operation=wanted.operation, path=leaf.path, before=describe(operand), after=describe(node)
    )


@dataclass(eq=False)
class _Entry:
    """A value that changes from iteration to iteration, or might.

    Attributes:
        operand: its initial value.
        placeholder: what stands for it.
        value: what an iteration makes of it.
        result: what it is after the loop.
        mask: the cell that it is the content of, if it is no value of the caller's.
        is_done: whether the cell has the result already.
    """

    operand: UOp
    placeholder: Placeholder
    value: UOp
    result: UOp
    mask: Mask | None = None
    is_done: bool = False


def _finish(wanted: Repeated, counter: UOp, traced: _Traced) -> tuple[list[Tensor], list[Tensor]]:
    """The LOOP of what a body gave, and its results; what it assigned to is assigned."""
    entries = _list_entries(traced)
    slices = [
        (leaf.node, p)
        for leaf, p in zip(wanted.sliced, traced.slices, strict=True)
        if p is not None
    ]
    stacked = [leaf.node for leaf in traced.stacked if not leaf.is_empty]
    go_on = [] if traced.go_on is None else [traced.go_on]
    stacks: list[UOp] = []
    if wanted.count != 0:
        roots = [*(entry.value for entry in entries), *stacked, *go_on]
        assigned = {
            m
            for node in UOp.sink(*roots).iter_ops(Op.ASSIGN)
            for m in node.target.iter_ops(Op.BUFFER)
        }
        free = [entry for entry in entries if assigned.isdisjoint(entry.placeholder.memories)]
        # What no iteration changes is one of the things that each reads; what each adds the same
        # to, it can compute.
        fixed = [entry for entry in free if entry.value is entry.placeholder.node]
        memories = {
            m
            for p in (*(e.placeholder for e in entries), *(p for _, p in slices))
            for m in p.memories
        }
        counted = {} if go_on else _count_up(wanted.count, counter, free, memories, traced.drawn)
        carried = [
            e
            for e in entries
            if e not in fixed and counted.keys().isdisjoint(e.placeholder.memories)
        ]
        if carried or stacked:
            operands = [
                *(e.operand for e in carried),
                *(node for node, _ in slices),
                *(e.operand for e in fixed),
            ]
            shown = [
                *(e.placeholder for e in carried),
                *(p for _, p in slices),
                *(e.placeholder for e in fixed),
            ]
            places = {
                m: OperandPart(n, s) for n, p in enumerate(shown) for s, m in enumerate(p.memories)
            }
            roots = UOp.sink(*(e.value for e in carried), *stacked, *go_on).substitute(counted).src
            closed = close([Open(roots, places, counter.arg.name)], operands)
            (body,) = closed.bodies
            name = choose_counter(body, count_loops())
            body = replace_variable(body, counter, make_counter(name, wanted.count))
            found = make_loop(
                body,
                wanted.count,
                closed.operands,
                n_carried=len(carried),
                n_sliced=len(slices),
                counter=name,
                is_reversed=wanted.is_reversed,
                is_conditional=bool(go_on),
                is_recomputed=wanted.is_recomputed,
            )
            for entry, result in zip(carried, found, strict=False):
                entry.result = result
            stacks = list(found[len(carried) :])
        for entry in entries:
            if (
                entry.mask is not None
                and entry.value is not entry.placeholder.node
                and not entry.is_done
            ):
                write(entry.mask.cell, (), entry.result)
    results = {entry.placeholder.node: entry.result for entry in entries}
    after = [
        operand if placeholder is None else results[placeholder.node]
        for operand, placeholder in zip(traced.operands, traced.placeholders, strict=True)
    ]
    return [Tensor.from_uop(node) for node in after], _list_stacked(wanted, traced.stacked, stacks)


def _list_entries(traced: _Traced) -> list[_Entry]:
    own = [
        _Entry(operand, placeholder, value, operand)
        for operand, placeholder, value in zip(
            traced.operands, traced.placeholders, traced.next_values, strict=True
        )
        if placeholder is not None
    ]
    pairs = zip(traced.masks, traced.mask_values, strict=True)
    return [
        *own,
        *(_Entry(mask.node, mask.placeholder, value, mask.node, mask) for mask, value in pairs),
    ]


def _count_up(
    count: SInt,
    counter: UOp,
    entries: Sequence[_Entry],
    memories: set[UOp],
    drawn: Mapping[int, Cell],
) -> dict[UOp, UOp]:
    """What the placeholders of integers are in each iteration, by their memory, where all
    iterations add the same to them.
    """
    found: dict[UOp, UOp] = {}
    for entry in entries:
        step = _find_step(entry, memories, counter.arg.name)
        if step is None:
            continue
        dtype, shape = entry.operand.dtype, entry.operand.shape
        cell = None if entry.mask is None else drawn.get(id(entry.mask.cell))
        n_draws = None if cell is None else count_samplings(step)
        start = entry.operand
        capture = registry.find_capture()
        # Outside of captured functions a variable has its value.
        n_iterations = (
            count if isinstance(count, int) else find_size(count) if capture is None else None
        )
        if cell is not None and n_draws is not None and n_iterations is not None:
            if capture is None:
                # The generator goes on at once: what it draws next does not wait for the loop.
                start, entry.is_done = sample_ahead(cell, n_draws * max(n_iterations, 0)), True
            else:
                capture.record_sampling(cell)
        entry.result = start + step * _to_number(count, dtype)
        found[entry.placeholder.memories[0]] = make_reshape(
            start + step * counter.cast(dtype), (product(shape),)
        )
    return found


def _find_step(entry: _Entry, memories: set[UOp], counter: str) -> UOp | None:
    """What each iteration adds to an integer; None where it does anything else."""
    is_plain = len(entry.placeholder.memories) == 1 and all(
        isinstance(s, int) for s in entry.operand.shape
    )
    if not is_plain or not entry.operand.dtype.is_int:
        return None
    steps: list[UOp] = []
    node = entry.value
    while node is not entry.placeholder.node:
        if node.op is not Op.ADD or reads(node.right, memories, [counter]):
            return None
        steps.append(node.right)
        node = node.left
    return reduce(operator.add, steps) if steps else None


def _to_number(count: SInt, dtype: DType) -> UOp:
    """A number of iterations as a number of a dtype."""
    return UOp.const(dtype, count) if isinstance(count, int) else count.maximum(0).cast(dtype)


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
        operation=operation,
        function=function,
        problem=f"it returns {found}, not a bool of shape ()",
        hint="compare numbers, as in x < 3, and combine elements with x.all() or x.any()",
    )
