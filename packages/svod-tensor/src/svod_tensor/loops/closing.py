"""From the nodes that a body was traced to, which read placeholders and tensors outside, to closed
bodies and their operands.

    ADD(BUFFER 7, EXP(BUFFER 3))      BUFFER 7: the placeholder of what is carried
    ->  body ADD(PARAM 0, PARAM 1), operand 1: EXP(BUFFER 3)

What does not depend on placeholders is computed once, outside of the loop: it is an operand that
every iteration reads. Movements of memory stay in the body, so that nothing is copied, and so does
what is made of constants alone, which costs less than memory."""

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

__all__ = ["Closed", "Open", "OperandPart", "close", "reads"]

_CHEAP: Final = (
    (ELEMENTWISE - {Op.THREEFRY})
    | MOVEMENT
    | {Op.CONST, Op.VCONST, Op.IOTA, Op.DEFINE_VAR, Op.BIND, Op.DETACH}
)
_SEEN_THROUGH: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP, Op.DETACH})
_PARTS: Final = frozenset({Op.SHRINK, Op.PAD})
# What derivatives are taken by is told apart outside of the loop.
_MEMORY: Final = frozenset({Op.BUFFER, Op.BUFFER_VIEW, Op.PARAM, Op.TRACED})
_STORED: Final = frozenset(
    {Op.TRACED, Op.BUFFER, Op.AFTER, Op.RESULT, Op.MULTI, Op.CONTIGUOUS, Op.COPY, Op.BUFFER_VIEW}
)


class OperandPart(NamedTuple):
    """Which operand a placeholder stands for, and which of its shards."""

    operand: int
    shard: int


class Open(NamedTuple):
    """What a body was traced to.

    Attributes:
        roots: its values.
        places: what each BUFFER that is a placeholder stands for.
        counter: the name of the variable that counts iterations, if one does.
    """

    roots: Sequence[UOp]
    places: Mapping[UOp, OperandPart]
    counter: str | None = None


class Closed(NamedTuple):
    """Bodies of PARAMs, and the operands that these stand for: those that were given, then what the
    bodies read besides.
    """

    bodies: tuple[UOp, ...]
    operands: tuple[UOp, ...]


def close(
    bodies: Sequence[Open], operands: Sequence[UOp], known: Collection[UOp] | None = None
) -> Closed:
    """The closed bodies, and their common operands, of which `operands` are the first.

    Args:
        bodies: the bodies.
        operands: what their placeholders stand for.
        known: what may be computed outside besides memory. By default it is all that does not
            depend on placeholders.
    """
    constants: dict[UOp, None] = {}
    binds: dict[UOp, None] = {}
    inner = [_add_recomputed(body, _collect_inside(body)) for body in bodies]
    cheap, shards = _collect_cheap(bodies), _collect_shards(bodies)
    for body, inside in zip(bodies, inner, strict=True):
        for node in _list_borders(body, inside):
            _collect(node, cheap, shards, known, constants, binds)
    # Bound variables come last: they take slots, of which bodies have no PARAM.
    device = _find_device(bodies, (*operands, *constants))
    found = [*(_place(node, device) for node in (*operands, *constants)), *binds]
    slots = get_slots(found)
    images = {
        node: _make_form(found[len(operands) + n], slots[len(operands) + n], device)
        for n, node in enumerate(constants)
    }
    images.update((bind, bind.symbol) for bind in binds)
    return Closed(tuple(_rebuild(body, slots, images, device) for body in bodies), tuple(found))


def _find_device(bodies: Sequence[Open], operands: Sequence[UOp]) -> str | None:
    """The only device of bodies, on which what comes from no memory is too; None where there are
    several.
    """
    places = {operand.placement for operand in operands}
    for node in UOp.sink(*(root for body in bodies for root in body.roots)).iter_ops(Op.COPY):
        places.add(node.arg)
    only = places - {None} or {DEFAULT_DEVICE}
    device = only.pop()
    return device if isinstance(device, str) and not only else None


def _place(node: UOp, device: str | None) -> UOp:
    return node if device is None or node.placement is not None else copy_to_device(node, device)


def _make_form(node: UOp, slot: int, device: str | None) -> UOp:
    form = make_parameter(node, slot)
    return form.substitute(
        {
            p: p.with_arg(p.arg._replace(device=device))
            for p in form.iter_ops(Op.PARAM)
            if p.arg.device is None
        }
    )


def reads(node: UOp, memories: Iterable[UOp], counters: Iterable[str]) -> bool:
    """Whether a graph depends on placeholders, or on variables that count iterations."""
    return node in _collect_inside(
        Open((node,), dict.fromkeys(memories, OperandPart(0, 0))), counters
    )


def _collect_inside(body: Open, counters: Iterable[str] = ()) -> set[UOp]:
    """The nodes that depend on placeholders, or on the number of the iteration."""
    names = {*counters, *([] if body.counter is None else [body.counter])}
    inside: set[UOp] = set()
    for node in UOp.sink(*body.roots).toposort()[:-1]:
        is_source = node in body.places or (node.op is Op.DEFINE_VAR and node.arg.name in names)
        free = (
            {variable.arg.name for variable in list_free_variables(node)}
            if get_bodies(node)
            else set[str]()
        )
        if is_source or not inside.isdisjoint(node.src) or not names.isdisjoint(free):
            inside.add(node)
    return inside


def _add_recomputed(body: Open, inside: set[UOp]) -> set[UOp]:
    """`inside`, and what is computed again in each iteration: its derivative is by operands that
    the body has, too.

    GRADIENT(f(h, EXP(w)), h, w; RECOMPUTED)    EXP(w) stays in the body, since w would have no derivative by it
    """
    for node in UOp.sink(*body.roots).iter_ops(Op.GRADIENT):
        if node.arg.rule is not RECOMPUTED or node not in inside:
            continue
        values, operands = node.src[: node.arg.n_values], set(node.src[node.arg.n_values :])
        between: set[UOp] = set()
        for other in UOp.sink(*values).toposort(stop=operands)[:-1]:
            if other not in operands and not (
                operands.isdisjoint(other.src) and between.isdisjoint(other.src)
            ):
                between.add(other)
        inside |= between
    return inside


def _list_borders(body: Open, inside: set[UOp]) -> list[UOp]:
    """The nodes that do not depend on the iteration, and are read by some that do, or are values of
    the body; in their order.
    """
    borders: dict[UOp, None] = {}
    for node in UOp.sink(*body.roots).toposort()[:-1]:
        if node in inside:
            # The number of an assignment is no value.
            operands = node.src[:2] if versions.is_pending_version(node) else node.src
            borders.update((operand, None) for operand in operands if operand not in inside)
    borders.update((root, None) for root in body.roots if root not in inside)
    return list(borders)


def _collect_cheap(bodies: Sequence[Open]) -> set[UOp]:
    """The nodes that are made of constants and variables, element by element."""
    cheap: set[UOp] = set()
    for node in UOp.sink(*(root for body in bodies for root in body.roots)).toposort()[:-1]:
        if node.op in _CHEAP and cheap.issuperset(node.src):
            cheap.add(node)
    return cheap


def _collect_shards(bodies: Sequence[Open]) -> set[UOp]:
    """The nodes that shards are made of, which may be empty where the value is not."""
    sink = UOp.sink(*(root for body in bodies for root in body.roots))
    return {node for stack in sink.iter_ops(Op.MSTACK) for node in stack.toposort()}


def _collect(
    root: UOp,
    cheap: set[UOp],
    shards: set[UOp],
    known: Collection[UOp] | None,
    constants: dict[UOp, None],
    binds: dict[UOp, None],
) -> None:
    """Enter what `root` is made of: nodes to be operands, and bound variables."""
    stack = [root]
    seen: set[UOp] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.BIND:
            binds[node] = None
        elif node in cheap or _is_view(node):
            stack.extend(reversed(node.src))
        elif node not in shards and node.find_shape() is not None and 0 in node.shape:
            continue
        elif (
            known is None
            or node in known
            or node.op in _MEMORY
            or versions.is_pending_version(node)
        ):
            constants[node] = None
        else:
            stack.extend(reversed(node.src))


def _is_view(node: UOp) -> bool:
    """Whether a node shows what it is of in another order or shape, or a part of what is stored."""
    if node.op in _SEEN_THROUGH:
        return True
    return node.op in _PARTS and node.strip(MOVEMENT).op in _STORED


def _rebuild(
    body: Open, slots: Sequence[int], images: Mapping[UOp, UOp], device: str | None
) -> UOp:
    done = make_images()
    done.update(images)
    sink = UOp.sink(*body.roots)
    shards = _collect_shards([body])
    for node in sink.toposort(stop=set(images)):
        if node in done:
            continue
        place = body.places.get(node)
        if place is not None:
            done[node] = UOp(
                Op.PARAM,
                node.dtype,
                (),
                ParamArg(
                    slots[place.operand] + place.shard, node.arg.size, node.arg.device or device
                ),
            )
        elif (
            node.op is not Op.SINK
            and node not in shards
            and node.find_shape() is not None
            and 0 in node.shape
        ):
            done[node] = make_empty(node.dtype, node.shape)
        elif versions.is_pending_version(node):
            # Equal bodies are one: the number of an assignment is left out.
            done[node] = UOp(
                node.op, node.dtype, (done[node.source], done[node.dependency]), node.arg
            )
        elif get_bodies(node):
            bare = _drop_binds(node)
            done[node] = bare.with_src(tuple([done[s] for s in bare.src]))
        else:
            done[node] = node.with_images(done)
    return done[sink]


def _drop_binds(node: UOp) -> UOp:
    """A LOOP or SWITCH without the BINDs among its operands: variables are bound around the
    outermost loop.
    """
    operands = node.src[1:]
    kept = [n for n, operand in enumerate(operands) if operand.op is not Op.BIND]
    if len(kept) == len(operands):
        return node
    # Derivatives of a SWITCH append operands, so that BINDs, which take slots, stand before others.
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
