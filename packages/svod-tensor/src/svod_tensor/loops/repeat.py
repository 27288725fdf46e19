"""Tracing of loops: a body is traced until the dtypes and devices of its carry are stable, and
becomes one LOOP node.
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
from svod_ir.placement import is_on_mesh
from svod_ir.sizes import product
from svod_tensor._counters import name_traced_counter
from svod_tensor._generator import default_generator, sample_ahead
from svod_tensor._random_keys import count_samplings
from svod_tensor.cells import registry
from svod_tensor.cells.writing import write
from svod_tensor.engine.bindings import find_size
from svod_tensor.errors import CarriedValueError, TraceError
from svod_tensor.loops.closing import OpenBody, OperandShard, close, depends_on
from svod_tensor.loops.tracing import (
    Placeholder,
    Redirection,
    Trace,
    count_loops,
    make_placeholder,
    start_trace,
)
from svod_tensor.loops.values import (
    Leaf,
    cast,
    describe,
    is_number,
    read_leaf,
    transfer,
    unbind_shape,
)
from svod_tensor.options import DEFAULT_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = ["IterationResult", "LoopSpec", "check_condition", "trace_loop"]


class IterationResult(NamedTuple):
    """Results of the traced iteration.

    Attributes:
        carried: the leaves of the next carry.
        stacked: the leaves that are stacked over the iterations.
        find_condition: from the next carry to the condition of another iteration; None if the
            trip count decides.
    """

    carried: Sequence[object]
    stacked: Sequence[Leaf] = ()
    find_condition: Callable[[list[Tensor]], UOp] | None = None


@dataclass(frozen=True)
class LoopSpec:
    """Description of a loop to trace.

    Attributes:
        operation: the operation's name in messages.
        function: the name of the body.
        carried: the initial carry.
        count: the maximum number of iterations: a size, or a computed integer.
        run: the body, from the carry, the slices and the loop counter.
        sliced: values that each iteration gets one slice of.
        is_reversed: whether the last slice comes first.
        is_recomputed: whether derivatives recompute the iterations from their carries.
    """

    operation: str
    function: str
    carried: Sequence[Leaf]
    count: SInt
    run: Callable[[list[Tensor], list[Tensor], UOp], IterationResult]
    sliced: Sequence[Leaf] = ()
    is_reversed: bool = False
    is_recomputed: bool = False


class _Traced(NamedTuple):
    """Results of a trace of the body, in terms of placeholders."""

    operands: list[UOp]
    placeholders: list[Placeholder | None]
    slices: list[Placeholder | None]
    next_values: list[UOp]
    stacked: Sequence[Leaf]
    condition: UOp | None
    redirections: list[Redirection]
    written_values: list[UOp]
    generators: Mapping[int, Cell]


@dataclass
class _CarrySpec:
    """Dtype and placement of a carry, as far as the traces have determined them."""

    dtype: DType
    placement: str | Sharding | None


def trace_loop(loop: LoopSpec) -> tuple[list[Tensor], list[Tensor]]:
    """The final carry of a loop, and its stacked results. The assignments of the body are applied.

    Raises:
        CarriedValueError: if the structure, shape, dtype or device of the carry changes.
        TraceError: if the body reads values, or leaks a tensor.
    """
    # The default generator must exist before the body, which may be the first to sample from it.
    default_generator()
    counter = make_counter(name_traced_counter(count_loops()), loop.count)
    specs = [_CarrySpec(leaf.node.dtype, leaf.node.placement) for leaf in loop.carried]
    written: dict[int, Cell] = {}
    traced = None
    placements = {leaf.node.placement for leaf in (*loop.carried, *loop.sliced)}
    # Usually there is one device. Otherwise values without memory follow the device of their
    # operands in the body.
    device = DEFAULT_DEVICE if placements <= {None, DEFAULT_DEVICE} else None
    # It ends: dtypes only get wider, and placements are only added.
    while traced is None:
        try:
            traced = _trace(loop, counter, specs, written, device)
        # Values without memory were put on the default device, and the other operands are not
        # there.
        except DeviceMismatchError:
            if device is None or None not in placements:
                raise
            device = None
    return _finish(loop, counter, traced)


def _trace(
    loop: LoopSpec,
    counter: UOp,
    specs: list[_CarrySpec],
    written: dict[int, Cell],
    device: str | None,
) -> _Traced | None:
    """Trace the body once.

    Returns None if it must be traced again, since `specs` changed or it wrote to a cell that was
    not redirected. Values without memory are on `device`, if that is not None.
    """
    operands = [
        transfer(cast(leaf, spec.dtype), spec.placement)
        for leaf, spec in zip(loop.carried, specs, strict=True)
    ]
    trace = Trace(loop.operation, loop.function, counter.arg.name)
    with start_trace(trace, written):
        placeholders = [
            None
            if 0 in node.shape
            else make_placeholder(node, device=_get_device(spec.placement, device))
            for node, spec in zip(operands, specs, strict=True)
        ]
        slices = [
            None if leaf.is_empty else make_placeholder(leaf.node, is_slice=True, device=device)
            for leaf in loop.sliced
        ]
        carried = [_make_carried(trace, o, p) for o, p in zip(operands, placeholders, strict=True)]
        sliced = [_make_slice(leaf, p) for leaf, p in zip(loop.sliced, slices, strict=True)]
        outcome = loop.run(carried, sliced, counter)
        has_changed = False
        next_values: list[UOp] = []
        for leaf, operand, spec, value in zip(
            loop.carried, operands, specs, outcome.carried, strict=True
        ):
            node = _match_carry(loop, leaf, operand, spec, value, device)
            has_changed = has_changed or node is None
            next_values.append(operand if node is None else node)
        condition = None
        # The condition is traced on the final dtypes only.
        if outcome.find_condition is not None and not has_changed:
            condition = outcome.find_condition([Tensor.from_uop(node) for node in next_values])
        redirections = list(trace.redirections.values())
        kept = [value for value in outcome.carried if isinstance(value, Tensor)]
        # What still lives without these references was stored by the body.
        del carried, sliced
        stacked = outcome.stacked
        written_values = list(map(_match_written, redirections))
        if not has_changed and not trace.has_new_writes:
            memories = [m for p in (*placeholders, *slices) if p is not None for m in p.memories]
            trace.check_leaks(memories, kept)
    for redirection in redirections:
        written[id(redirection.cell)] = redirection.cell
    if has_changed or trace.has_new_writes:
        return None
    return _Traced(
        operands,
        placeholders,
        slices,
        next_values,
        stacked,
        condition,
        redirections,
        written_values,
        trace.generators,
    )


def _match_written(redirection: Redirection) -> UOp:
    """The value of a written cell, placed as before: its memory stays where it is."""
    node = redirection.cell.node
    placement, own = node.placement, redirection.placeholder.node.placement
    if not is_on_mesh(placement) or placement == own:
        return node
    assert isinstance(placement, Sharding)
    return transfer(node, own or placement.devices[0])


def _get_device(placement: str | Sharding | None, device: str | None) -> str | None:
    return placement if isinstance(placement, str) else device


def _make_carried(trace: Trace, operand: UOp, placeholder: Placeholder | None) -> Tensor:
    if placeholder is None:
        return Tensor.from_uop(operand)
    tensor = Tensor.from_uop(placeholder.node)
    trace.allow_in_place_writes(tensor.content.cell, placeholder)
    return tensor


def _make_slice(leaf: Leaf, placeholder: Placeholder | None) -> Tensor:
    return Tensor.from_uop(
        make_empty(leaf.node.dtype, leaf.node.shape[1:])
        if placeholder is None
        else placeholder.node
    )


def _match_carry(
    loop: LoopSpec, leaf: Leaf, operand: UOp, spec: _CarrySpec, value: object, device: str | None
) -> UOp | None:
    """The next value of a carry, in its dtype and placement.

    Returns None if `spec` had to be changed, so that the body must be traced again.
    """
    if is_number(value):
        dtype = promote_with_scalar(operand.dtype, value)  # pyright: ignore[reportArgumentType]
        node = UOp.const(dtype, value)  # pyright: ignore[reportArgumentType]
    else:
        node = read_leaf(loop.operation, leaf.path, value).node
    if unbind_shape(node) != unbind_shape(operand):
        raise _make_error(loop, leaf, operand, node)
    if node.dtype is not operand.dtype:
        # As in JAX, only a Python number as the initial value may get a wider dtype.
        if not leaf.is_weak or (wider := promote_types(operand.dtype, node.dtype)) is operand.dtype:
            raise _make_error(loop, leaf, operand, node)
        spec.dtype = wider
        return None
    if node.placement in (None, spec.placement or device) or 0 in node.shape:
        return node
    # A value of this process alone is the same in all, so that it may become one on a mesh.
    if spec.placement is None or (is_on_mesh(node.placement) and not is_on_mesh(spec.placement)):
        spec.placement = node.placement
        return None
    if isinstance(spec.placement, Sharding) and (
        node.device == spec.placement.devices or is_on_mesh(spec.placement)
    ):
        return transfer(node, spec.placement)
    raise CarriedValueError(
        operation=loop.operation,
        path=leaf.path,
        before=describe(operand, with_device=True),
        after=describe(node, with_device=True),
    )


def _make_error(loop: LoopSpec, leaf: Leaf, operand: UOp, node: UOp) -> CarriedValueError:
    return CarriedValueError(
        operation=loop.operation, path=leaf.path, before=describe(operand), after=describe(node)
    )


# Compared by identity: two carries may have equal nodes.
@dataclass(eq=False)
class _Entry:
    """A value that an iteration may change: a carry of the caller, or a cell that the body writes.

    Attributes:
        operand: the initial value.
        placeholder: the value in the body.
        value: the next value.
        result: the value after the loop.
        redirection: the written cell; None for a carry of the caller.
        is_done: whether the cell is already bound to the result.
    """

    operand: UOp
    placeholder: Placeholder
    value: UOp
    result: UOp
    redirection: Redirection | None = None
    is_done: bool = False


def _finish(loop: LoopSpec, counter: UOp, traced: _Traced) -> tuple[list[Tensor], list[Tensor]]:
    """Build the LOOP of a traced body, apply its assignments, and return its results."""
    entries = _list_entries(traced)
    slices = [
        (leaf.node, p) for leaf, p in zip(loop.sliced, traced.slices, strict=True) if p is not None
    ]
    stacked = [leaf.node for leaf in traced.stacked if not leaf.is_empty]
    condition = [] if traced.condition is None else [traced.condition]
    stacks: list[UOp] = []
    # A loop without iterations returns its operands.
    if loop.count != 0:
        roots = [*(entry.value for entry in entries), *stacked, *condition]
        assigned = {
            m
            for node in UOp.sink(*roots).iter_ops(Op.ASSIGN)
            for m in node.target.iter_ops(Op.BUFFER)
        }
        free = [entry for entry in entries if assigned.isdisjoint(entry.placeholder.memories)]
        # A carry that no iteration changes becomes an invariant operand, and an integer that each
        # iteration adds the same step to, a function of the counter.
        invariant = [entry for entry in free if entry.value is entry.placeholder.node]
        memories = {
            m
            for p in (*(e.placeholder for e in entries), *(p for _, p in slices))
            for m in p.memories
        }
        # With a condition the number of iterations is unknown, and with it the last value.
        inductions = (
            {}
            if condition
            else _list_inductions(loop.count, counter, free, memories, traced.generators)
        )
        carried = [
            e
            for e in entries
            if e not in invariant and inductions.keys().isdisjoint(e.placeholder.memories)
        ]
        if carried or stacked:
            operands = [
                *(e.operand for e in carried),
                *(node for node, _ in slices),
                *(e.operand for e in invariant),
            ]
            placeholders = [
                *(e.placeholder for e in carried),
                *(p for _, p in slices),
                *(e.placeholder for e in invariant),
            ]
            shards = {
                m: OperandShard(n, s)
                for n, p in enumerate(placeholders)
                for s, m in enumerate(p.memories)
            }
            roots = (
                UOp.sink(*(e.value for e in carried), *stacked, *condition)
                .substitute(inductions)
                .src
            )
            closed = close([OpenBody(roots, shards, counter.arg.name)], operands)
            (body,) = closed.bodies
            name = choose_counter(body, count_loops())
            body = replace_variable(body, counter, make_counter(name, loop.count))
            outputs = make_loop(
                body,
                loop.count,
                closed.operands,
                n_carried=len(carried),
                n_sliced=len(slices),
                counter=name,
                is_reversed=loop.is_reversed,
                is_conditional=bool(condition),
                is_recomputed=loop.is_recomputed,
            )
            for entry, result in zip(carried, outputs, strict=False):
                entry.result = result
            stacks = list(outputs[len(carried) :])
        for entry in entries:
            if (
                entry.redirection is not None
                and entry.value is not entry.placeholder.node
                and not entry.is_done
            ):
                write(entry.redirection.cell, (), entry.result)
    results = {entry.placeholder.node: entry.result for entry in entries}
    after = [
        operand if placeholder is None else results[placeholder.node]
        for operand, placeholder in zip(traced.operands, traced.placeholders, strict=True)
    ]
    return [Tensor.from_uop(node) for node in after], _list_stacked(loop, traced.stacked, stacks)


def _list_entries(traced: _Traced) -> list[_Entry]:
    own = [
        _Entry(operand, placeholder, value, operand)
        for operand, placeholder, value in zip(
            traced.operands, traced.placeholders, traced.next_values, strict=True
        )
        if placeholder is not None
    ]
    pairs = zip(traced.redirections, traced.written_values, strict=True)
    return [
        *own,
        *(
            _Entry(redirection.node, redirection.placeholder, value, redirection.node, redirection)
            for redirection, value in pairs
        ),
    ]


def _list_inductions(
    count: SInt,
    counter: UOp,
    entries: Sequence[_Entry],
    memories: set[UOp],
    generators: Mapping[int, Cell],
) -> dict[UOp, UOp]:
    """List induction variables: integers that all iterations add the same step to.

    Returns their values as functions of the counter, by the memory of their placeholders. Sets the
    results of their entries.
    """
    inductions: dict[UOp, UOp] = {}
    for entry in entries:
        step = _find_step(entry, memories, counter.arg.name)
        if step is None:
            continue
        dtype, shape = entry.operand.dtype, entry.operand.shape
        cell = None if entry.redirection is None else generators.get(id(entry.redirection.cell))
        n_samplings = None if cell is None else count_samplings(step)
        start = entry.operand
        capture = registry.find_capture()
        # A variable has a value only outside of captured functions.
        n_iterations = (
            count if isinstance(count, int) else find_size(count) if capture is None else None
        )
        if cell is not None and n_samplings is not None and n_iterations is not None:
            if capture is None:
                # The generator advances immediately, so that later samples do not depend on the loop.
                start, entry.is_done = sample_ahead(cell, n_samplings * max(n_iterations, 0)), True
            else:
                capture.record_sampling(cell)
        entry.result = start + step * _to_number(count, dtype)
        inductions[entry.placeholder.memories[0]] = make_reshape(
            start + step * counter.cast(dtype), (product(shape),)
        )
    return inductions


def _find_step(entry: _Entry, memories: set[UOp], counter: str) -> UOp | None:
    """The step that each iteration adds to an integer; None if the body does anything else."""
    is_unsharded = not isinstance(entry.operand.placement, Sharding) and all(
        isinstance(s, int) for s in entry.operand.shape
    )
    if not is_unsharded or not entry.operand.dtype.is_int:
        return None
    steps: list[UOp] = []
    node = entry.value
    while node is not entry.placeholder.node:
        # A step that depends on the iteration has no closed form.
        if node.op is not Op.ADD or depends_on(node.right, memories, [counter]):
            return None
        steps.append(node.right)
        node = node.left
    return reduce(operator.add, steps) if steps else None


def _to_number(count: SInt, dtype: DType) -> UOp:
    """A trip count as a scalar of a dtype."""
    # A negative count means no iterations.
    return UOp.const(dtype, count) if isinstance(count, int) else count.maximum(0).cast(dtype)


def _list_stacked(loop: LoopSpec, stacked: Sequence[Leaf], stacks: Sequence[UOp]) -> list[Tensor]:
    remaining = iter(stacks)
    return [
        Tensor.from_uop(make_empty(leaf.node.dtype, (loop.count, *leaf.node.shape)))
        if leaf.is_empty or loop.count == 0
        else Tensor.from_uop(next(remaining))
        for leaf in stacked
    ]


def check_condition(operation: str, function: str, value: object) -> UOp:
    """The condition as a node.

    Raises:
        TraceError: if it is not a bool of shape ().
    """
    if isinstance(value, bool):
        return UOp.const(bool_, value)
    if isinstance(value, Tensor) and value.dtype is bool_ and value.shape == ():
        return value.uop
    returned = describe(value.uop) if isinstance(value, Tensor) else type(value).__name__
    raise TraceError(
        operation=operation,
        function=function,
        problem=f"it returns {returned}, not a bool of shape ()",
        hint="compare numbers, as in x < 3, and combine elements with x.all() or x.any()",
    )
