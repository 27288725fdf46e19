"""Loops and branches in graphs of tensors: LOOP, SWITCH, and the RESULTs of both.

    LOOP[body, n_carried, n_sliced, counter, is_reversed, is_conditional] count, carried..., sliced..., constants...
    SWITCH[bodies] index, operands...
    RESULT[position] loop

A body is a closed graph of its own: a SINK of values computed from PARAMs, which read the operands
in order, and from variables. A PARAM is flat, and is viewed in the shape of its operand; the PARAM
of a sliced operand is one slice, without the first axis. A sharded operand has one PARAM for each
shard (`make_parameter` makes these views). Complex operands and values of a body are split into
their parts along a last axis (AS_REAL), and the results are joined again (AS_COMPLEX), so that a
LOOP or SWITCH computes on real numbers only.

A variable that a body reads and the surrounding graph binds is a constant operand, its BIND. The
BIND takes a slot like any operand, but the body has no PARAM for it.

A LOOP binds its counter in its body. No nested LOOP may bind a variable of the same name, so that a
graph can move into or out of a body without changing the meaning of its variables. Derivatives nest
loops that were made separately: `make_loop` renames the inner counters then.

Example:
    >>> import numpy as np
    >>> from svod_dtype import int32
    >>> from svod_ir import Op, UOp, make_iota, make_reshape
    >>> from svod_ir.evaluate import evaluate
    >>> from svod_ir.loops import find_count, get_bodies, get_slots, make_loop, make_parameter, read_loop
    >>> x, start = make_reshape(make_iota(6, int32), (3, 2)), make_iota(2, int32)
    >>> slots = get_slots((start, x))
    >>> state, row = make_parameter(start, slots[0]), make_parameter(x, slots[1], is_slice=True)
    >>> state.shape, row.shape
    ((2,), (2,))
    >>> body = UOp.sink(state + row, state * 10)  # the next carry, and the value to stack
    >>> total, seen = make_loop(body, 3, (start, x), n_carried=1, n_sliced=1)
    >>> evaluate(total).tolist(), evaluate(seen).tolist()
    ([6, 10], [[0, 10], [0, 20], [20, 50]])
    >>> loop = total.source
    >>> find_count(loop), get_bodies(loop) == (body,), read_loop(loop).carried == (start,)
    (3, True, True)
    >>> from svod_ir.loops import count_results, get_result_placement, get_result_shape, make_results
    >>> count_results(loop), make_results(loop) == (total, seen)
    (2, True)
    >>> get_result_shape(seen), get_result_placement(seen)
    ((3, 2), None)
    >>> from svod_ir.loops import find_loop_fault, iter_nodes, map_bodies
    >>> [node.op for node in iter_nodes(total) if node.op in (Op.ADD, Op.MUL)]
    [ADD, MUL]
    >>> doubled = map_bodies(loop, lambda body: body.with_src((body.src[0] * 2, body.src[1])))
    >>> evaluate(make_results(doubled)[0]).tolist()
    [16, 38]
    >>> find_loop_fault(loop.with_src(loop.src[:2]))
    'a LOOP needs an operand for each carry and slice, and a next value for each carry'
    >>> from svod_ir.loops import COUNTER_PREFIX, MAX_ITERATIONS, choose_counter
    >>> counter = UOp.variable(choose_counter(body), 0, MAX_ITERATIONS - 1)
    >>> counter.arg.name.removeprefix(COUNTER_PREFIX)
    '0'
    >>> evaluate(make_results(loop.with_operands((start * 2, x)))[0]).tolist()
    [6, 11]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from svod_dtype import bool_, index, int64, void
from svod_ir._bodies import get_bodies, iter_nodes, map_bodies
from svod_ir._counters import (
    COUNTER_PREFIX,
    choose_counter,
    list_bound_names,
    list_free_variables,
    rename_inner_counters,
    replace_variable,
)
from svod_ir._sharding import Placement, Sharding
from svod_ir._size_text import format_shape
from svod_ir.args import LoopArg, ParamArg, SwitchArg
from svod_ir.build import make_as_complex, make_as_real, make_cast, make_reshape, make_shrink
from svod_ir.errors import GraphError
from svod_ir.ops import ELEMENTWISE, Op
from svod_ir.sizes import max_size, normalize_size, product, unbind
from svod_ir.uop import SInt, UOp, to_node

__all__ = [
    "COUNTER_PREFIX",
    "MAX_ITERATIONS",
    "LoopParts",
    "choose_counter",
    "count_results",
    "count_slots",
    "find_count",
    "find_loop_fault",
    "get_bodies",
    "get_result_placement",
    "get_result_shape",
    "get_slots",
    "iter_nodes",
    "list_free_variables",
    "make_counter",
    "make_loop",
    "make_parameter",
    "make_results",
    "make_switch",
    "map_bodies",
    "read_loop",
    "rename_inner_counters",
    "replace_variable",
]

MAX_ITERATIONS: Final = (1 << 31) - 1
"""Upper bound of a computed trip count."""


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The operands of a LOOP and the results of its body, by name.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.loops import LoopParts, make_loop, make_parameter, read_loop
        >>> one = UOp.const(int32, 1)
        >>> (power,) = make_loop(UOp.sink(make_parameter(one, 0) * 2), 10, (one,), n_carried=1)
        >>> parts = read_loop(power.source)
        >>> isinstance(parts, LoopParts), parts.count.arg, parts.carried == (one,), parts.stacked, parts.go_on
        (True, 10, True, (), None)
    """

    count: UOp
    carried: tuple[UOp, ...]
    sliced: tuple[UOp, ...]
    constants: tuple[UOp, ...]
    next_values: tuple[UOp, ...]
    stacked: tuple[UOp, ...]
    go_on: UOp | None


def read_loop(loop: UOp) -> LoopParts:
    """Split a LOOP into its named operands and the results of its body."""
    arg: LoopArg = loop.arg
    operands, sources = loop.src[1:], arg.body.src
    end_sliced = arg.n_carried + arg.n_sliced
    end_stacked = len(sources) - arg.is_conditional
    return LoopParts(
        loop.src[0],
        operands[: arg.n_carried],
        operands[arg.n_carried : end_sliced],
        operands[end_sliced:],
        sources[: arg.n_carried],
        sources[arg.n_carried : end_stacked],
        sources[-1] if arg.is_conditional else None,
    )


def make_loop(  # noqa: PLR0913 - the fields of a LoopArg
    body: UOp,
    count: SInt,
    operands: Sequence[UOp],
    *,
    n_carried: int,
    n_sliced: int = 0,
    counter: str | None = None,
    is_reversed: bool = False,
    is_conditional: bool = False,
    is_recomputed: bool = False,
) -> tuple[UOp, ...]:
    """Build a LOOP; return its RESULTs: the final carries, then the stacked values (see
    `svod_ir.args.LoopArg`).

    Args:
        body: a SINK; its PARAMs come from `make_parameter` for the operands, in the slots of
            `get_slots`.
        count: the maximum trip count: a size, or a 0-d integer tensor; a negative one means 0.
        operands: the initial carries, the operands to slice, and the loop-invariant operands.
        n_carried: number of leading operands that are carried from one iteration to the next.
        n_sliced: number of operands after the carries of which each iteration reads one slice,
            along the first axis.
        counter: the name of the body's variable that counts iterations; nested loops with this
            counter are renamed.
        is_reversed: whether to run from the last slice to the first.
        is_conditional: whether the last source of the body is the condition to continue, a bool.
        is_recomputed: whether derivatives store only the carries, and recompute other residuals.

    Raises:
        GraphError: if the body and the operands do not fit each other.
    """
    # Before the check below, which refuses nested loops with the same counter.
    body = rename_inner_counters(body, counter)
    arg = LoopArg(
        _with_real_values(body),
        n_carried,
        n_sliced,
        counter,
        is_reversed,
        is_conditional,
        is_recomputed,
    )
    results = _make_checked(UOp(Op.LOOP, void, (_make_count(count), *map(_to_real, operands)), arg))
    return _with_dtypes(results, body)


def make_switch(index: UOp, bodies: Sequence[UOp], operands: Sequence[UOp]) -> tuple[UOp, ...]:
    """Build a SWITCH; return its RESULTs: the values of `bodies[index]`, with the index clipped to
    the valid range.

    Raises:
        GraphError: if the bodies return different numbers, shapes or dtypes of values, or do not
            fit the operands.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.evaluate import evaluate
        >>> from svod_ir.loops import make_parameter, make_switch
        >>> x = UOp.const(int32, 5)
        >>> same = make_parameter(x, 0)
        >>> (chosen,) = make_switch(UOp.const(int32, 1), [UOp.sink(same), UOp.sink(-same)], [x])
        >>> evaluate(chosen).item()
        -5
    """
    arg = SwitchArg(tuple(map(_with_real_values, bodies)))
    results = _make_checked(
        UOp(Op.SWITCH, void, (make_cast(index, int64), *map(_to_real, operands)), arg)
    )
    return _with_dtypes(results, bodies[0])


def _to_real(x: UOp) -> UOp:
    return make_as_real(x) if x.dtype.is_complex else x


def _with_real_values(body: UOp) -> UOp:
    if not any(value.dtype.is_complex for value in body.src):
        return body
    return body.with_src(tuple(map(_to_real, body.src)))


def _with_dtypes(results: Sequence[UOp], body: UOp) -> tuple[UOp, ...]:
    """Join results that are pairs of parts where the body returns complex values."""
    return tuple(
        [
            make_as_complex(r) if v.dtype.is_complex else r
            for r, v in zip(results, body.src, strict=False)
        ]
    )


def make_parameter(operand: UOp, slot: int, *, is_slice: bool = False) -> UOp:
    """The PARAM that reads an operand in a body, viewed in the shape of the operand, or of one
    slice of it.

    A sharded operand has one PARAM for each shard, in consecutive slots from `slot` on.

    Raises:
        GraphError: if a sliced operand is 0-d, or is sharded along its first axis.
    """
    # A body is closed: it names variables, and the surrounding graph binds them.
    shape = tuple(map(_unbind_size, operand.shape))
    if is_slice and not shape:
        raise GraphError(rule="a sliced operand needs at least one axis", node=operand)
    shape = shape[1:] if is_slice else shape
    placement = operand.placement
    if not isinstance(placement, Sharding):
        return _make_shaped(operand, shape, slot, placement)
    if is_slice:
        if placement.splits(0):
            raise GraphError(
                rule="a sliced operand must not be sharded along its first axis", node=operand
            )
        # A slice lacks the first axis.
        placement = placement.shift(-1)
    shards = [
        _make_shaped(operand, placement.shard_shape(shape, i), slot + i, device)
        for i, device in enumerate(placement.devices)
    ]
    stack = UOp(Op.MSTACK, operand.dtype, tuple(shards))
    return UOp(Op.MULTI, operand.dtype, (stack,), placement.arrangement)


def make_counter(name: str, count: SInt) -> UOp:
    """The variable of a body that counts its iterations, of at most `count`.

    Example:
        >>> from svod_ir import UOp
        >>> from svod_ir.loops import make_counter
        >>> make_counter("i", 10).bounds, make_counter("i", UOp.variable("n", 1, 8)).bounds
        ((0, 9), (0, 7))
    """
    return UOp.variable(name, 0, max((count if isinstance(count, int) else int(count.vmax)) - 1, 0))


def make_results(node: UOp) -> tuple[UOp, ...]:
    """All RESULTs of a LOOP or SWITCH."""
    sources = get_bodies(node)[0].src
    return tuple(UOp(Op.RESULT, sources[k].dtype, (node,), k) for k in range(count_results(node)))


def count_results(node: UOp) -> int:
    """Number of results of a LOOP or SWITCH."""
    sources = get_bodies(node)[0].src
    return len(sources) - (node.op is Op.LOOP and node.arg.is_conditional)


def count_slots(operand: UOp) -> int:
    """Number of slots of an operand: one for each of its shards.

    Example:
        >>> from svod_ir.loops import count_slots
        >>> from svod_ir.testing.nodes import buffer, stack
        >>> count_slots(buffer(1)), count_slots(stack(buffer(1), buffer(2, device="CPU:1")))
        (1, 2)
    """
    placement = operand.placement
    return len(placement.devices) if isinstance(placement, Sharding) else 1


def get_slots(operands: Sequence[UOp]) -> tuple[int, ...]:
    """The first slot of each operand."""
    slots = [0]
    for operand in operands:
        slots.append(slots[-1] + count_slots(operand))
    return tuple(slots[:-1])


def find_count(loop: UOp) -> SInt | None:
    """The trip count of a LOOP as a size, or None if it is computed at run time.

    A conditional loop may run fewer iterations.
    """
    count = loop.src[0]
    if count.op is Op.CONST:
        return max(int(count.arg), 0)
    return normalize_size(count) if _is_size(count) else None


def get_result_shape(result: UOp) -> tuple[SInt, ...]:
    """The shape of a RESULT: the shape of the carry, or (trip count, *shape) of stacked values.

    Raises:
        GraphError: if values are stacked and the trip count is not a size.
    """
    node = result.source
    position: int = result.arg
    shape = get_bodies(node)[0].src[position].shape
    if any(not isinstance(size, int) for size in shape):
        # The surrounding graph binds the variables of a body.
        binds = {bind.symbol: bind for bind in _iter_binds(node)}
        shape = tuple(
            s if isinstance(s, int) else normalize_size(s.substitute(binds)) for s in shape
        )
    if node.op is Op.SWITCH or position < node.arg.n_carried:
        return shape
    count = find_count(node)
    if count is None:
        raise GraphError(
            rule="a loop that stacks values needs a trip count that is a size", node=node
        )
    return (count, *shape)


def get_result_placement(result: UOp) -> Placement:
    """The placement of a RESULT: the placement of the value in the body. Stacking adds a leading
    axis, so it shifts a sharded axis by one.
    """
    node = result.source
    position: int = result.arg
    # A branch may return a constant, which has no device; another branch decides then.
    placement = next(
        (p for body in get_bodies(node) if (p := body.src[position].placement) is not None), None
    )
    is_loop = node.op is Op.LOOP
    is_carried = is_loop and position < node.arg.n_carried
    if is_carried and placement is None:
        # The next value is a constant, so the initial one decides.
        placement = node.src[1 + position].placement
    if placement is None:
        # A value computed from no memory is stored on the device of the operands.
        known = next((p for s in node.src if (p := s.placement) is not None), None)
        return known.replicated if isinstance(known, Sharding) else known
    if is_loop and not is_carried and isinstance(placement, Sharding):
        return placement.shift(1)
    return placement


def find_loop_fault(node: UOp) -> str | None:
    """The rule that a LOOP or SWITCH breaks, or None."""
    return _find_loop_fault(node) if node.op is Op.LOOP else _find_switch_fault(node)


def _make_checked(node: UOp) -> tuple[UOp, ...]:
    fault = find_loop_fault(node)
    if fault is not None:
        raise GraphError(rule=fault, node=node)
    return make_results(node)


def _make_count(count: SInt) -> UOp:
    if isinstance(count, int):
        return to_node(max(count, 0))
    # A computed count is read from memory, as int64.
    return count if _is_size(count) else make_cast(count, int64)


def _make_shaped(operand: UOp, shape: Sequence[SInt], slot: int, device: str | None) -> UOp:
    if operand.dtype.is_complex:
        return make_as_complex(_make_shaped(make_as_real(operand), (*shape, 2), slot, device))
    memory = UOp(
        Op.PARAM, operand.dtype, (), ParamArg(slot, math.prod(map(max_size, shape)), device)
    )
    # Memory has room for the largest values of variables; the view has the current size.
    return make_reshape(make_shrink(memory, [(0, product(shape))]), shape)


def _unbind_size(size: SInt) -> SInt:
    return size if isinstance(size, int) else normalize_size(unbind(size))


def _is_size(count: UOp) -> bool:
    # Arithmetic of variables is known before a plan runs; any other count is computed by kernels.
    return count.dtype is index and all(
        n.op in ELEMENTWISE or n.op in (Op.CONST, Op.DEFINE_VAR, Op.BIND) for n in count.toposort()
    )


def _iter_binds(node: UOp) -> Iterator[UOp]:
    yield from node.src[0].iter_ops(Op.BIND) if _is_size(node.src[0]) else ()
    for operand in node.src[1:]:
        if operand.op is Op.BIND:
            yield operand
        for size in operand.shape:
            if not isinstance(size, int):
                yield from size.iter_ops(Op.BIND)


def _find_loop_fault(loop: UOp) -> str | None:
    arg: LoopArg = loop.arg
    n_sources, n_operands = len(arg.body.src), len(loop.src) - 1
    if n_sources < arg.n_carried + arg.is_conditional or n_operands < arg.n_carried + arg.n_sliced:
        # First, since `read_loop` below relies on these numbers.
        return "a LOOP needs an operand for each carry and slice, and a next value for each carry"
    fields = read_loop(loop)
    if not fields.count.dtype.is_int or fields.count.shape != ():
        return "the trip count of a LOOP is an integer scalar"
    # Slices and results are memory, which is allocated before the loop runs.
    if (fields.sliced or fields.stacked) and find_count(loop) is None:
        return "a LOOP that slices or stacks needs a trip count that is a size"
    for k, operand in enumerate(fields.sliced):
        if operand.shape[:1] != (find_count(loop),):
            return f"the first axis of sliced operand {k} has the size of the trip count"
    # The number of iterations, and so the size of a stack, would be known only after the loop.
    if fields.go_on is not None and fields.stacked:
        return "a conditional LOOP must not stack values"
    if fields.go_on is not None and (fields.go_on.dtype is not bool_ or fields.go_on.shape != ()):
        return "the condition of a LOOP is a bool scalar"
    for k, (operand, value) in enumerate(zip(fields.carried, fields.next_values, strict=True)):
        fault = _find_difference(f"carry {k}", operand, value)
        if fault is not None:
            return fault
    if arg.counter is not None and arg.counter in list_bound_names(arg.body):
        return f"loops nested in a LOOP with the counter {arg.counter} need other counters"
    fault = _find_body_fault(arg.body, _list_slots(loop))
    end_carried = sum(map(count_slots, fields.carried))
    return _find_written_fault(arg.body, end_carried) if fault is None else fault


def _find_switch_fault(switch: UOp) -> str | None:
    bodies: tuple[UOp, ...] = switch.arg.bodies
    if not switch.src[0].dtype.is_int or switch.src[0].shape != () or not bodies:
        return "a SWITCH needs an integer scalar and at least one body"
    slots = _list_slots(switch)
    for body in bodies:
        fault = _find_body_fault(body, slots)
        if fault is not None:
            return fault
        if len(body.src) != len(bodies[0].src):
            return "the bodies of a SWITCH return equally many values"
        for k, (first, second) in enumerate(zip(bodies[0].src, body.src, strict=True)):
            # A value without a device adapts to the other.
            first, second = (second, first) if first.placement is None else (first, second)
            fault = _find_difference(f"result {k}", first, second)
            if fault is not None:
                return fault
    return None


def _find_difference(what: str, first: UOp, second: UOp) -> str | None:
    if first.dtype is not second.dtype:
        return f"{what} keeps its dtype, {first.dtype}, not {second.dtype}"
    shapes = [tuple(map(_unbind_size, x.shape)) for x in (first, second)]
    if shapes[0] != shapes[1]:
        return f"{what} keeps its shape, {format_shape(shapes[0])}, not {format_shape(shapes[1])}"
    first_placement, placement = first.placement, second.placement
    # A value computed from no memory is stored with the other value, unless that one is sharded:
    # its parameter would need to know the shards.
    is_free = placement is None or (first_placement is None and not isinstance(placement, Sharding))
    return (
        None
        if is_free or first_placement == placement
        else f"{what} keeps its placement, {first_placement}, not {placement}"
    )


def _find_written_fault(body: UOp, end_carried: int) -> str | None:
    for node in body.iter_ops(Op.ASSIGN):
        memory = node.target
        while memory.op is not Op.PARAM and memory.src:
            memory = memory.src[0]
        # Carries are copied or double-buffered; a write to another operand would be an effect of
        # the body, seen by other readers of that memory.
        if memory.op is not Op.PARAM or memory.arg.slot >= end_carried:
            return "the body of a LOOP writes only the memory of carries"
    return None


class _Slot(NamedTuple):
    """The PARAM that a slot requires.

    `n_elements` is None if variables decide it, `device` None if it is not known yet.
    """

    operand: UOp
    n_elements: int | None
    device: str | None


def _list_slots(node: UOp) -> list[_Slot]:
    first_sliced, end_sliced = 0, 0
    if node.op is Op.LOOP:
        first_sliced, end_sliced = node.arg.n_carried, node.arg.n_carried + node.arg.n_sliced
    count = find_count(node) if end_sliced > first_sliced else None
    slots: list[_Slot] = []
    for position, operand in enumerate(node.src[1:]):
        shape, placement = operand.shape, operand.placement
        divisor = count if first_sliced <= position < end_sliced else 1
        if not isinstance(placement, Sharding):
            slots.append(_Slot(operand, _divide(shape, divisor), placement))
            continue
        for i, device in enumerate(placement.devices):
            shard_shape = placement.shard_shape(shape, i)
            slots.append(_Slot(operand, _divide(shard_shape, divisor), device))
    return slots


def _divide(shape: Sequence[SInt], divisor: SInt | None) -> int | None:
    total = product(shape)
    return (
        total // divisor
        if isinstance(total, int) and isinstance(divisor, int) and divisor
        else None
    )


def _find_body_fault(body: UOp, slots: Sequence[_Slot]) -> str | None:
    if body.op is not Op.SINK:
        return "the body of a LOOP or SWITCH is a SINK"
    for node in body.toposort():
        # Closed bodies of equal loops are one object, so their kernels are compiled once.
        if node.op is Op.BUFFER or node.op is Op.BIND:
            return f"a body has no {node.op.name}: memory and variables are operands"
        if node.op is not Op.PARAM:
            continue
        param: ParamArg = node.arg
        slot, size, device = param
        if not 0 <= slot < len(slots):
            return f"a PARAM's slot is below {len(slots)}, the number of slots, not {slot}"
        operand, n_elements, operand_device = slots[slot]
        if node.dtype is not operand.dtype or (n_elements is not None and size != n_elements):
            return (
                f"the PARAM in slot {slot} has the spec of its operand: {n_elements} elements of"
                f" {operand.dtype}"
            )
        if device is not None and operand_device is not None and device != operand_device:
            return f"the PARAM in slot {slot} is on the device of its operand, {operand_device}"
    return None
