"""Closure conversion: from traced bodies, which read placeholders and outer tensors, to closed bodies
and their operands.

    ADD(BUFFER 7, EXP(BUFFER 3))      BUFFER 7: the placeholder of a carry
    ->  body ADD(PARAM 0, PARAM 1), operand 1: EXP(BUFFER 3)

Loop-invariant values are hoisted: each is computed once and becomes an operand that every iteration
reads. Views of memory stay in the body, so that they are not copied, and so do values of constants
only, since recomputation costs less than memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from svod_ir import Op, ParamArg, UOp, make_empty
from svod_ir.derivatives import RECOMPUTED
from svod_ir.loops import (
    count_slots,
    get_bodies,
    get_slots,
    list_free_variables,
    make_parameter,
    map_bodies,
)
from svod_ir.ops import ELEMENTWISE, MOVEMENT
from svod_ir.origins import make_images
from svod_tensor._data import copy_to_device
from svod_tensor.engine import versions
from svod_tensor.options import DEFAULT_DEVICE

__all__ = ["ClosedBodies", "OpenBody", "OperandShard", "close", "depends_on"]

_REMATERIALIZED: Final = (
    # THREEFRY is 20 rounds of arithmetic for each number: reading it from memory costs less.
    (ELEMENTWISE - {Op.THREEFRY})
    | MOVEMENT
    | {Op.CONST, Op.VCONST, Op.IOTA, Op.DEFINE_VAR, Op.BIND, Op.DETACH}
)
_RESHAPING: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP, Op.DETACH})
_SLICING: Final = frozenset({Op.SHRINK, Op.PAD})
# TRACED distinguishes differentiated values by identity, which a copy in the body would lose.
_MEMORY: Final = frozenset({Op.BUFFER, Op.BUFFER_VIEW, Op.PARAM, Op.TRACED})
_STORED: Final = frozenset(
    {
        Op.TRACED,
        Op.BUFFER,
        Op.AFTER,
        Op.RESULT,
        Op.MULTI,
        Op.RESHARD,
        Op.CONTIGUOUS,
        Op.COPY,
        Op.BUFFER_VIEW,
    }
)


class OperandShard(NamedTuple):
    """The operand behind a placeholder, and the index of its shard."""

    operand: int
    shard: int


class OpenBody(NamedTuple):
    """A traced body.

    Attributes:
        roots: the results.
        shards: the operand behind each placeholder.
        counter: the name of the loop counter; None for a branch.
    """

    roots: Sequence[UOp]
    shards: Mapping[UOp, OperandShard]
    counter: str | None = None


class ClosedBodies(NamedTuple):
    """Bodies of PARAMs, and their operands: the explicit operands, then the captured values."""

    bodies: tuple[UOp, ...]
    operands: tuple[UOp, ...]


def close(
    bodies: Sequence[OpenBody], operands: Sequence[UOp], hoistable: Collection[UOp] | None = None
) -> ClosedBodies:
    """Close bodies over common operands, of which `operands` are the first.

    Args:
        bodies: the traced bodies.
        operands: the values behind their placeholders.
        hoistable: the nodes that may be computed outside of the bodies, besides memory. By default
            all nodes that do not depend on placeholders: a branch must not hoist values that only
            it needs.
    """
    invariants: dict[UOp, None] = {}
    binds: dict[UOp, None] = {}
    dependents_of_bodies = [_add_recomputed(body, _collect_inside(body)) for body in bodies]
    rematerialized, shards = _collect_rematerialized(bodies), _collect_shards(bodies)
    for body, inside in zip(bodies, dependents_of_bodies, strict=True):
        for node in _list_live_ins(body, inside):
            _collect(node, rematerialized, shards, hoistable, invariants, binds)
    # Bound variables are last: they take slots, but bodies have no PARAM for them.
    device = _find_device(bodies, (*operands, *invariants))
    all_operands = [*(_ensure_device(node, device) for node in (*operands, *invariants)), *binds]
    slots = get_slots(all_operands)
    images = {
        node: _make_parameter_on(all_operands[len(operands) + n], slots[len(operands) + n], device)
        for n, node in enumerate(invariants)
    }
    images.update((bind, bind.symbol) for bind in binds)
    return ClosedBodies(
        tuple(_rebuild(body, slots, images, device) for body in bodies), tuple(all_operands)
    )


def _find_device(bodies: Sequence[OpenBody], operands: Sequence[UOp]) -> str | None:
    """The single device of bodies, which values without memory are placed on; None for several."""
    placements = {operand.placement for operand in operands}
    for node in UOp.sink(*(root for body in bodies for root in body.roots)).iter_ops(Op.COPY):
        placements.add(node.arg)
    # None follows any device.
    devices = placements - {None} or {DEFAULT_DEVICE}
    device = devices.pop()
    return device if isinstance(device, str) and not devices else None


def _ensure_device(node: UOp, device: str | None) -> UOp:
    return node if device is None or node.placement is not None else copy_to_device(node, device)


def _make_parameter_on(node: UOp, slot: int, device: str | None) -> UOp:
    parameter = make_parameter(node, slot)
    return parameter.substitute(
        {
            param: param.with_arg(param.arg._replace(device=device))
            for param in parameter.iter_ops(Op.PARAM)
            if param.arg.device is None
        }
    )


def depends_on(node: UOp, memories: Iterable[UOp], counters: Iterable[str]) -> bool:
    """Whether a graph depends on placeholders or loop counters."""
    return node in _collect_inside(
        OpenBody((node,), dict.fromkeys(memories, OperandShard(0, 0))), counters
    )


def _collect_inside(body: OpenBody, counters: Iterable[str] = ()) -> set[UOp]:
    """The nodes that depend on placeholders or on the loop counter."""
    names = {*counters, *([] if body.counter is None else [body.counter])}
    dependents: set[UOp] = set()
    for node in UOp.sink(*body.roots).toposort()[:-1]:
        # A nested body reads this loop's counter as a free variable, without an operand for it.
        is_source = node in body.shards or (node.op is Op.DEFINE_VAR and node.arg.name in names)
        free = (
            {variable.arg.name for variable in list_free_variables(node)}
            if get_bodies(node)
            else set[str]()
        )
        if is_source or not dependents.isdisjoint(node.src) or not names.isdisjoint(free):
            dependents.add(node)
    return dependents


def _add_recomputed(body: OpenBody, dependents: set[UOp]) -> set[UOp]:
    """Add to `dependents` the values that checkpoints recompute in each iteration.

    They stay in the body, since the derivative is taken by operands that the body has too.

    GRADIENT(f(h, EXP(w)), h, w; RECOMPUTED)    a hoisted EXP(w) would cut the path to w
    """
    for node in UOp.sink(*body.roots).iter_ops(Op.GRADIENT):
        if node.arg.rule is not RECOMPUTED or node not in dependents:
            continue
        values, operands = node.src[: node.arg.n_values], set(node.src[node.arg.n_values :])
        recomputed: set[UOp] = set()
        for value in UOp.sink(*values).toposort(stop=operands)[:-1]:
            if value not in operands and not (
                operands.isdisjoint(value.src) and recomputed.isdisjoint(value.src)
            ):
                recomputed.add(value)
        dependents |= recomputed
    return dependents


def _list_live_ins(body: OpenBody, dependents: set[UOp]) -> list[UOp]:
    """The loop-invariant nodes that dependents read or that are results, in topological order."""
    live_ins: dict[UOp, None] = {}
    for node in UOp.sink(*body.roots).toposort()[:-1]:
        if node in dependents:
            # The third operand of an assignment is its ordinal, not a value.
            operands = node.src[:2] if versions.is_pending_version(node) else node.src
            live_ins.update((operand, None) for operand in operands if operand not in dependents)
    live_ins.update((root, None) for root in body.roots if root not in dependents)
    return list(live_ins)


def _collect_rematerialized(bodies: Sequence[OpenBody]) -> set[UOp]:
    """The elementwise nodes over constants and variables only."""
    rematerialized: set[UOp] = set()
    for node in UOp.sink(*(root for body in bodies for root in body.roots)).toposort()[:-1]:
        if node.op in _REMATERIALIZED and rematerialized.issuperset(node.src):
            rematerialized.add(node)
    return rematerialized


def _collect_shards(bodies: Sequence[OpenBody]) -> set[UOp]:
    """The nodes below stacks of shards, which may be empty although the sharded value is not."""
    sink = UOp.sink(*(root for body in bodies for root in body.roots))
    # An empty shard stays in its stack: replaced by a constant, it would lose its device.
    return {node for stack in sink.iter_ops(Op.MSTACK) for node in stack.toposort()}


def _collect(
    root: UOp,
    rematerialized: set[UOp],
    shards: set[UOp],
    hoistable: Collection[UOp] | None,
    invariants: dict[UOp, None],
    binds: dict[UOp, None],
) -> None:
    """Collect the invariants and the bound variables that `root` is built from."""
    stack = [root]
    seen: set[UOp] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.BIND:
            binds[node] = None
        # Reversed, so that the stack keeps the order of the operands.
        elif node in rematerialized or _is_view(node):
            stack.extend(reversed(node.src))
        elif node not in shards and node.find_shape() is not None and 0 in node.shape:
            continue
        elif (
            hoistable is None
            or node in hoistable
            or node.op in _MEMORY
            or versions.is_pending_version(node)
        ):
            invariants[node] = None
        else:
            stack.extend(reversed(node.src))


def _is_view(node: UOp) -> bool:
    """Whether a node is a view: a reordering or reshape, or a slice of stored memory."""
    if node.op in _RESHAPING:
        return True
    return node.op in _SLICING and node.strip(MOVEMENT).op in _STORED


def _rebuild(
    body: OpenBody, slots: Sequence[int], replacements: Mapping[UOp, UOp], device: str | None
) -> UOp:
    images = make_images()
    images.update(replacements)
    sink = UOp.sink(*body.roots)
    shards = _collect_shards([body])
    for node in sink.toposort(stop=set(replacements)):
        # Replaced before: an operand or a bound variable.
        if node in images:
            continue
        operand_shard = body.shards.get(node)
        if operand_shard is not None:
            images[node] = UOp(
                Op.PARAM,
                node.dtype,
                (),
                ParamArg(
                    slots[operand_shard.operand] + operand_shard.shard,
                    node.arg.size,
                    node.arg.device or device,
                ),
            )
        elif (
            node.op is not Op.SINK
            and node not in shards
            and node.find_shape() is not None
            and 0 in node.shape
        ):
            images[node] = make_empty(node.dtype, node.shape)
        elif versions.is_pending_version(node):
            # Without the ordinal of an assignment, equal bodies are one node.
            images[node] = UOp(
                node.op, node.dtype, (images[node.source], images[node.dependency]), node.arg
            )
        elif get_bodies(node):
            bare = _drop_binds(node)
            images[node] = bare.with_src(tuple([images[s] for s in bare.src]))
        else:
            images[node] = node.with_images(images)
    return images[sink]


def _drop_binds(node: UOp) -> UOp:
    """A LOOP or SWITCH without BIND operands: variables are bound around the outermost loop."""
    operands = node.src[1:]
    kept = [n for n, operand in enumerate(operands) if operand.op is not Op.BIND]
    if len(kept) == len(operands):
        return node
    # Derivatives of a SWITCH append operands, so that BINDs, which take slots, precede other operands.
    before, after = get_slots(operands), get_slots([operands[n] for n in kept])
    moved = {
        before[n] + shard: slot + shard
        for n, slot in zip(kept, after, strict=True)
        for shard in range(count_slots(operands[n]))
    }

    def renumber(body: UOp) -> UOp:
        params = (p for p in body.iter_ops(Op.PARAM) if moved[p.arg.slot] != p.arg.slot)
        return body.substitute(
            {p: p.with_arg(p.arg._replace(slot=moved[p.arg.slot])) for p in params}
        )

    return map_bodies(node, renumber).with_operands(tuple([operands[n] for n in kept]))
