"""Loops and choices in graphs of tensors: LOOP, SWITCH, and the RESULTs of both.

    LOOP[body, n_carried, n_sliced, counter, is_reversed, is_conditional] count, carried..., sliced..., constants...
    SWITCH[bodies] index, operands...
    RESULT[position] loop

A body is a graph of its own, closed: a SINK of values made of PARAMs, which stand for the operands
in their order, and of variables. A PARAM is flat, and is seen in the shape of its operand as memory
is; of a sliced operand it is one slice, without the first axis. A sharded operand takes a PARAM for
each of its shards (`make_parameter` makes these forms). Of complex operands, and values of a body,
a LOOP or SWITCH has the parts, along a last axis (AS_REAL), and its results are complex again
(AS_COMPLEX): what is repeated and chosen is real.

A variable that a body reads and the graph around it binds stands among the constant operands, as
its BIND: it takes a slot as any operand does, of which the body has no PARAM.

A LOOP binds its counter in its body. No LOOP inside of the body binds a variable of the same name,
so that a graph may move into a body, or out of it, without its variables changing their meaning.
Derivatives put loops into loops that were made apart from them: `make_loop` renames the inner
counters there.

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
    >>> body = UOp.sink(state + row, state * 10)  # what is carried, and what is stacked
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
    'a LOOP has an operand for all that is carried and sliced, and a next value for all that is carried'
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
"""A computed number of iterations is at most this."""


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of a LOOP: its operands, and the values that its body gives.

    Example:
        >>> from svod_dtype import int32
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
    """The parts of a LOOP by name."""
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


def make_loop(
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
    """The RESULTs of a LOOP: the carried values after the last iteration, then what is stacked (see
    `svod_ir.args.LoopArg`).

    Args:
        body: a SINK; its PARAMs are what `make_parameter` makes of the operands, in the slots of
            `get_slots`.
        count: the largest number of iterations: a size, or a 0-d integer tensor; below 0 means 0.
        operands: what is carried, what is sliced, and what every iteration reads whole.
        counter: the name of the body's variable that counts iterations; loops in the body that have
            it get another one.

    Raises:
        GraphError: if the body and the operands do not fit each other.
    """
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
    """The RESULTs of a SWITCH: the values of `bodies[index]`; an index below 0 takes the first, one
    beyond the last the last.

    Raises:
        GraphError: if the bodies differ in what they give, or do not fit the operands.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir.evaluate import evaluate
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
    """Results that are pairs of parts as the complex numbers that the body gives."""
    return tuple(
        [
            make_as_complex(r) if v.dtype.is_complex else r
            for r, v in zip(results, body.src, strict=False)
        ]
    )


def make_parameter(operand: UOp, slot: int, *, is_slice: bool = False) -> UOp:
    """What stands for an operand in a body: its PARAM, in the shape of the operand, or of one slice
    of it.

    A sharded operand has as many PARAMs as shards, in slots from `slot` on.

    Raises:
        GraphError: if an operand that is sliced has no axis, or is split between devices along its
            first one.
    """
    shape = tuple(map(_unbind_size, operand.shape))
    if is_slice and not shape:
        raise GraphError(rule="a sliced operand has an axis", node=operand)
    shape = shape[1:] if is_slice else shape
    placement = operand.placement
    if not isinstance(placement, Sharding):
        return _make_shaped(operand, shape, slot, placement)
    axis = placement.axis
    if is_slice and axis is not None:
        if axis == 0:
            raise GraphError(
                rule="a sliced operand is not split along its first axis", node=operand
            )
        axis -= 1
    shapes = [shape] * len(placement.devices)
    if axis is not None:
        shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in placement.sizes]
    shards = [
        _make_shaped(operand, part, slot + i, device)
        for i, (part, device) in enumerate(zip(shapes, placement.devices, strict=True))
    ]
    return UOp(Op.MULTI, operand.dtype, (UOp(Op.MSTACK, operand.dtype, tuple(shards)),), axis)


def make_counter(name: str, count: SInt) -> UOp:
    """The variable of a body that is the number of the iteration, of at most `count`.

    Example:
        >>> make_counter("i", 10).bounds, make_counter("i", UOp.variable("n", 1, 8)).bounds
        ((0, 9), (0, 7))
    """
    return UOp.variable(name, 0, max((count if isinstance(count, int) else int(count.vmax)) - 1, 0))


def make_results(node: UOp) -> tuple[UOp, ...]:
    """All RESULTs of a LOOP or SWITCH."""
    sources = get_bodies(node)[0].src
    return tuple(UOp(Op.RESULT, sources[k].dtype, (node,), k) for k in range(count_results(node)))


def count_results(node: UOp) -> int:
    """How many results a LOOP or SWITCH has."""
    sources = get_bodies(node)[0].src
    return len(sources) - (node.op is Op.LOOP and node.arg.is_conditional)


def count_slots(operand: UOp) -> int:
    """How many slots an operand takes: one for each of its shards.

    Example:
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
    """The number of iterations of a LOOP as a size, or None where it is computed.

    A conditional loop may have fewer.
    """
    count = loop.src[0]
    if count.op is Op.CONST:
        return max(int(count.arg), 0)
    return normalize_size(count) if _is_size(count) else None


def get_result_shape(result: UOp) -> tuple[SInt, ...]:
    """The shape of a RESULT."""
    node = result.source
    position: int = result.arg
    shape = get_bodies(node)[0].src[position].shape
    if any(not isinstance(size, int) for size in shape):
        # Variables of a body are bound around it.
        binds = {bind.symbol: bind for bind in _iter_binds(node)}
        shape = tuple(
            s if isinstance(s, int) else normalize_size(s.substitute(binds)) for s in shape
        )
    if node.op is Op.SWITCH or position < node.arg.n_carried:
        return shape
    count = find_count(node)
    if count is None:
        raise GraphError(
            rule="a loop that stacks values has a number of iterations that is a size", node=node
        )
    return (count, *shape)


def get_result_placement(result: UOp) -> Placement:
    """The placement of a RESULT: that of the value in the body, shifted by the axis that stacking
    puts before the others.
    """
    node = result.source
    position: int = result.arg
    placement = next(
        (p for body in get_bodies(node) if (p := body.src[position].placement) is not None), None
    )
    is_loop = node.op is Op.LOOP
    is_carried = is_loop and position < node.arg.n_carried
    if is_carried and placement is None:
        placement = node.src[1 + position].placement
    if placement is None:
        # What is made from no memory is stored where the others are.
        found = next((p for s in node.src if (p := s.placement) is not None), None)
        return found.replicated if isinstance(found, Sharding) else found
    if (
        is_loop
        and not is_carried
        and isinstance(placement, Sharding)
        and placement.axis is not None
    ):
        return placement._replace(axis=placement.axis + 1)
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
    # What is computed is read from memory.
    return count if _is_size(count) else make_cast(count, int64)


def _make_shaped(operand: UOp, shape: Sequence[SInt], slot: int, device: str | None) -> UOp:
    if operand.dtype.is_complex:
        return make_as_complex(_make_shaped(make_as_real(operand), (*shape, 2), slot, device))
    memory = UOp(
        Op.PARAM, operand.dtype, (), ParamArg(slot, math.prod(map(max_size, shape)), device)
    )
    return make_reshape(make_shrink(memory, [(0, product(shape))]), shape)


def _unbind_size(size: SInt) -> SInt:
    return size if isinstance(size, int) else normalize_size(unbind(size))


def _is_size(count: UOp) -> bool:
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
        return (
            "a LOOP has an operand for all that is carried and sliced, and a next value for all"
            " that is carried"
        )
    parts = read_loop(loop)
    if not parts.count.dtype.is_int or parts.count.shape != ():
        return "a LOOP is repeated a whole number of times, a scalar"
    if (parts.sliced or parts.stacked) and find_count(loop) is None:
        return "a LOOP that slices or stacks has a number of iterations that is a size"
    for k, operand in enumerate(parts.sliced):
        if operand.shape[:1] != (find_count(loop),):
            return f"the operand sliced at {k} has as many slices as there are iterations"
    if parts.go_on is not None and parts.stacked:
        return "a LOOP that may end early stacks nothing"
    if parts.go_on is not None and (parts.go_on.dtype is not bool_ or parts.go_on.shape != ()):
        return "what says whether a LOOP goes on is a bool scalar"
    for k, (operand, value) in enumerate(zip(parts.carried, parts.next_values, strict=True)):
        fault = _find_difference(f"the value carried at {k}", operand, value)
        if fault is not None:
            return fault
    if arg.counter is not None and arg.counter in list_bound_names(arg.body):
        return (
            f"the loops in the body of a LOOP that counts by {arg.counter} count by other variables"
        )
    fault = _find_body_fault(arg.body, _list_slots(loop))
    end_carried = sum(map(count_slots, parts.carried))
    return _find_written_fault(arg.body, end_carried) if fault is None else fault


def _find_switch_fault(switch: UOp) -> str | None:
    bodies: tuple[UOp, ...] = switch.arg.bodies
    if not switch.src[0].dtype.is_int or switch.src[0].shape != () or not bodies:
        return "a SWITCH takes an integer scalar and has a body"
    slots = _list_slots(switch)
    for body in bodies:
        fault = _find_body_fault(body, slots)
        if fault is not None:
            return fault
        if len(body.src) != len(bodies[0].src):
            return "the bodies of a SWITCH give as many values"
        for k, (first, other) in enumerate(zip(bodies[0].src, body.src, strict=True)):
            first, other = (other, first) if first.placement is None else (first, other)
            fault = _find_difference(f"the value at {k}", first, other)
            if fault is not None:
                return fault
    return None


def _find_difference(what: str, first: UOp, other: UOp) -> str | None:
    if first.dtype is not other.dtype:
        return f"{what} keeps its dtype, {first.dtype}, not {other.dtype}"
    shapes = [tuple(map(_unbind_size, x.shape)) for x in (first, other)]
    if shapes[0] != shapes[1]:
        return f"{what} keeps its shape, {format_shape(shapes[0])}, not {format_shape(shapes[1])}"
    first_place, place = first.placement, other.placement
    # What comes from no memory is stored where the other one is, but for that its parameter would
    # need to know the shards.
    is_free = place is None or (first_place is None and not isinstance(place, Sharding))
    return (
        None
        if is_free or first_place == place
        else f"{what} keeps its placement, {first_place}, not {place}"
    )


def _find_written_fault(body: UOp, end_carried: int) -> str | None:
    for node in body.iter_ops(Op.ASSIGN):
        memory = node.target
        while memory.op is not Op.PARAM and memory.src:
            memory = memory.src[0]
        if memory.op is not Op.PARAM or memory.arg.slot >= end_carried:
            return "the body of a LOOP writes only what is carried"
    return None


class _Slot(NamedTuple):
    """What the PARAM of a slot is:

    None for sizes that variables decide, and for places that are not known yet.
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
            axis = placement.axis
            part = (
                shape if axis is None else (*shape[:axis], placement.sizes[i], *shape[axis + 1 :])
            )
            slots.append(_Slot(operand, _divide(part, divisor), device))
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
        if node.op is Op.BUFFER or node.op is Op.BIND:
            return f"a body has no {node.op.name}: memory and variables are operands"
        if node.op is not Op.PARAM:
            continue
        param: ParamArg = node.arg
        slot, size, device = param
        if not 0 <= slot < len(slots):
            return f"a body has PARAMs for its {len(slots)} slots, not {slot}"
        operand, n_elements, place = slots[slot]
        if node.dtype is not operand.dtype or (n_elements is not None and size != n_elements):
            return (
                f"the PARAM in slot {slot} is as its operand: {n_elements} elements of"
                f" {operand.dtype}"
            )
        if device is not None and place is not None and device != place:
            return f"the PARAM in slot {slot} is where its operand is, on {place}"
    return None
