"""shard-values: compute what lies on several devices on each of them, shard by shard.

before → after, for the sum of the rows of x, which is split in two:

    REDUCE_AXIS(MULTI(MSTACK(x0, x1), 0), (1,))     REDUCE_AXIS(x0, (1,)) and REDUCE_AXIS(x1, (1,))

and for the sum over the split axis, which needs the other shard:

    REDUCE_AXIS(MULTI(MSTACK(x0, x1), 0), (0,))     ALLREDUCE(MSTACK(REDUCE_AXIS(x0, (0,)), REDUCE_AXIS(x1, (0,))), device) for each device

How each result lies is derived from how its operands lie (`svod_ir.placement`); here its shards are
written. An operand that lies otherwise than the op needs is cut where each device has all of it,
and put together from copies of other devices' parts where it has not. Results are replaced by their
shards, in the order of the devices; shards without elements are left out.

A LOOP or SWITCH takes the shards of its operands, each as an operand of its own, and has a RESULT
for each shard:

    LOOP(count, MULTI(MSTACK(x0, x1), 0)), its body f(MULTI(MSTACK(PARAM 0, PARAM 1), 0))    LOOP(count, x0, x1), f(PARAM 0) and f(PARAM 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from svod_ir import (
    Op,
    Sharding,
    SInt,
    UOp,
    make_alu,
    make_concat,
    make_empty,
    make_expand,
    make_flip,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
)
from svod_ir.build import make_copy
from svod_ir.loops import (
    count_results,
    count_slots,
    get_bodies,
    get_slots,
    iter_nodes,
    make_parameter,
    make_results,
    map_bodies,
)
from svod_ir.ops import ELEMENTWISE
from svod_ir.origins import make_images, propagate_labels
from svod_ir.placement import Placement, lay_out

__all__ = ["shard_values"]

Shards = tuple[UOp, ...]


def shard_values(sink: UOp) -> UOp:
    """`sink` without MULTI: each of its nodes is on one device, or on none."""
    if not any(node.op is Op.MULTI or node.op is Op.MSELECT for node in iter_nodes(sink)):
        return sink
    writer = _Writer(sink)
    return sink.with_src(tuple(s for operand in sink.src for s in writer.iter_results(operand)))


class _Writer:
    def __init__(self, sink: UOp) -> None:
        self.plain = make_images()
        self.shards: dict[UOp, Shards] = {}
        self.placed: dict[UOp, UOp] = {}
        for node in sink.toposort():
            self.visit(node)

    def visit(self, node: UOp) -> None:
        """Write `node`, whose operands are written."""
        self._write(node, node.placement)
        for shard in self.shards.get(node, ()):
            propagate_labels(shard, (node,))

    def _write(self, node: UOp, placement: Placement) -> None:
        if node.op is Op.MULTI:
            self.shards[node] = self._operands(node.source)
        elif node.op is Op.MSELECT:
            self.plain[node] = self._operands(node.source)[node.arg]
        elif get_bodies(node):
            self.plain[node] = self._write_bodies(node)
        elif node.op is Op.RESULT:
            self._write_result(node, placement)
        elif node.op is Op.CONTROL_DEPENDENCY:
            self._write_control_dependency(node)
        elif node.op is Op.GRADIENT and node.source in self.shards:
            # The operands say only by what derivatives were taken.
            self.shards[node] = self.shards[node.source]
        elif node.op is Op.GRADIENT:
            self.plain[node] = self.plain[node.source]
        elif node.op is Op.COPY and node.source in self.shards:
            source = node.source
            self.plain[node] = self._fetch(source, source.placement, Sharding((node.arg,)), 0)
        elif isinstance(placement, Sharding) and node.op is not Op.MSTACK:
            self.shards[node] = self._split(node, placement)
        elif node.op is not Op.SINK:
            self.plain[node] = node.with_src(self._operands(node))

    def iter_results(self, node: UOp) -> Iterator[UOp]:
        """What stands for an operand of the SINK."""
        if node in self.shards:
            yield from (s for s in self.shards[node] if 0 not in s.shape)
        else:
            yield self.plain[node]

    def _operands(self, node: UOp) -> Shards:
        return tuple(self.plain[s] for s in node.src)

    def _split(self, node: UOp, placement: Sharding) -> Shards:
        """The shards of `node`, each of the shards of its operands."""
        layout = lay_out(node)
        parts = [
            tuple(
                self.plain[s] if wanted is None else self._fetch(s, s.placement, wanted, position)
                for s, wanted in zip(node.src, layout.operands, strict=True)
            )
            for position in range(len(placement.devices))
        ]
        if node.op is Op.REDUCE_AXIS:
            return _reduce(node, layout.operands[0], parts)
        if node.op is Op.SCATTER_ADD:
            return _scatter(node, layout.operands[0], parts)
        if node.op is Op.FLIP:
            return _flip(node, layout.operands[0], parts)
        make = _MOVES.get(node.op)
        if make is not None:
            own = layout.operands[0] or placement
            return tuple(
                make(node, part[0], own, placement, position) for position, part in enumerate(parts)
            )
        return tuple(_rebuild(node, part) for part in parts)

    def _write_bodies(self, node: UOp) -> UOp:
        """A LOOP or SWITCH on shards."""
        self.placed[node] = node = self._place_operands(node)
        operands = [self._expand(operand) for operand in node.src[1:]]
        placements = [
            _get_placement(node, position) for position in range(len(get_bodies(node)[0].src))
        ]
        device = next(
            (p.devices[0] for s in node.src[1:] if isinstance(p := s.placement, Sharding)), None
        )
        written = map_bodies(node, lambda body: _write_body(body, placements, device))
        if node.op is Op.LOOP:
            n_carried, end_sliced = node.arg.n_carried, node.arg.n_carried + node.arg.n_sliced
            n_carried, n_sliced = (
                sum(map(len, part))
                for part in (operands[:n_carried], operands[n_carried:end_sliced])
            )
            written = written.with_arg(written.arg._replace(n_carried=n_carried, n_sliced=n_sliced))
        control, *_ = self._expand(node.count if node.op is Op.LOOP else node.choice)
        return written.with_src((control, *(shard for part in operands for shard in part)))

    def _place_operands(self, node: UOp) -> UOp:
        """A LOOP or SWITCH of shards in which every device has what comes from no memory."""
        devices = next(
            (p.devices for s in node.src[1:] if isinstance(p := s.placement, Sharding)), ()
        )
        slots = get_slots(node.src[1:])
        operands = [
            (
                self._place(node, position, slots[position], devices)
                if devices and _is_nowhere(s)
                else s
            )
            for position, s in enumerate(node.src[1:])
        ]
        if operands == list(node.src[1:]):
            return node
        pairs = zip(node.src[1:], slots, operands, get_slots(operands), strict=True)
        end_sliced = node.arg.n_carried + node.arg.n_sliced if node.op is Op.LOOP else 0
        first_sliced = node.arg.n_carried if node.op is Op.LOOP else 0
        forms: dict[UOp, UOp] = {}
        shifts: dict[int, int] = {}
        for position, (old, old_slot, new, new_slot) in enumerate(pairs):
            if new is old or isinstance(new.placement, str):
                shifts.update((old_slot + i, new_slot + i) for i in range(count_slots(old)))
                continue
            is_slice = first_sliced <= position < end_sliced
            form = make_parameter(new, new_slot, is_slice=is_slice)
            memory = make_parameter(old, old_slot, is_slice=is_slice)
            forms[memory] = form
            while memory.op is not Op.PARAM:
                memory = memory.source
            if all(isinstance(size, int) for size in form.shape):
                forms.setdefault(memory, make_reshape(form, memory.shape))
        return map_bodies(node, lambda body: _move_parameters(body, forms, shifts)).with_operands(
            tuple(operands)
        )

    def _place(self, node: UOp, position: int, slot: int, devices: Sequence[str]) -> UOp:
        """An operand that is nowhere yet, where its PARAM or its result is, or on all devices."""
        operand = node.src[1 + position]
        place = next(
            (
                p.arg.device
                for b in get_bodies(node)
                for p in b.iter_ops(Op.PARAM)
                if p.arg.slot == slot
            ),
            None,
        )
        is_carried = node.op is Op.LOOP and position < node.arg.n_carried
        if place is None and is_carried:
            place = make_results(node)[position].placement
        if any(_is_read_by_loop(body, slot) for body in get_bodies(node)):
            # The bodies in the body know it as one value.
            place = (place if isinstance(place, str) else devices[0]) if is_carried else place
            if not isinstance(place, str):
                return operand
        if isinstance(place, str):
            placed = make_copy(operand, place)
            self.visit(placed)
            return placed
        return self._copy_to(operand, devices)

    def _copy_to(self, node: UOp, devices: Sequence[str]) -> UOp:
        """A value on each of some devices."""
        copies = tuple(UOp(Op.COPY, node.dtype, (node,), device) for device in devices)
        stack = UOp(Op.MSTACK, node.dtype, copies)
        multi = UOp(Op.MULTI, node.dtype, (stack,))
        for made in (*copies, stack, multi):
            self.visit(made)
        return multi

    def _write_result(self, node: UOp, placement: Placement) -> None:
        """A RESULT: those of all shards, or one that is then copied to every device."""
        owner, placed = self.plain[node.source], self.placed[node.source]
        counts = [_count_devices(_get_placement(placed, p)) for p in range(node.arg + 1)]
        first = sum(counts[:-1])
        results = tuple(UOp(Op.RESULT, node.dtype, (owner,), first + i) for i in range(counts[-1]))
        if not isinstance(placement, Sharding):
            (self.plain[node],) = results
        elif len(results) == len(placement.devices):
            self.shards[node] = results
        else:
            self.shards[node] = tuple(make_copy(results[0], device) for device in placement.devices)

    def _write_control_dependency(self, node: UOp) -> None:
        """Make each shard depend on all shards of the events."""
        events = tuple(shard for event in node.src[1:] for shard in self._expand(event))
        made = tuple(node.with_src((shard, *events)) for shard in self._expand(node.source))
        if node.source in self.shards:
            self.shards[node] = made
        else:
            (self.plain[node],) = made

    def _expand(self, node: UOp) -> Shards:
        return self.shards[node] if node in self.shards else (self.plain[node],)

    def fetch_all(self, node: UOp, want: Placement) -> Shards:
        """`node` on one device, or its shards as `want` splits it."""
        if not isinstance(want, Sharding):
            return self._expand(node)[:1]
        return tuple(
            self._fetch(node, node.placement, want, position)
            for position in range(len(want.devices))
        )

    def _fetch(self, node: UOp, have: Placement, want: Sharding, position: int) -> UOp:
        """Shard `position` of `node` as `want` splits it, on its device."""
        device = want.devices[position]
        if not isinstance(have, Sharding):
            return _cut(self.plain[node], want, position)
        shards = self.shards[node]
        if have == want:
            return shards[position]
        if have.axis is None:
            own = have.devices.index(device) if device in have.devices else 0
            return make_copy(_cut(shards[own], want, position), device)
        if want.axis == have.axis:
            pieces = [_overlap(s, have, want, i, position) for i, s in enumerate(shards)]
        else:
            pieces = [_cut(s, want, position) for s in shards]
        copied = [make_copy(p, device) for p in pieces if 0 not in p.shape]
        if copied:
            return make_concat(copied, have.axis)
        shape = (
            sum(p.shape[a] for p in pieces) if a == have.axis else s
            for a, s in enumerate(pieces[0].shape)
        )
        return make_copy(make_empty(node.dtype, tuple(shape)), device)


def _is_nowhere(operand: UOp) -> bool:
    """Whether an operand is a value that comes from no memory; a variable is none."""
    return operand.placement is None and operand.op not in (Op.BIND, Op.DEFINE_VAR)


def _is_read_by_loop(body: UOp, slot: int) -> bool:
    """Whether a loop or choice in a body depends on the PARAM in a slot."""
    reads: set[UOp] = set()
    for node in body.toposort():
        if (node.op is Op.PARAM and node.arg.slot == slot) or not reads.isdisjoint(node.src):
            reads.add(node)
    return any(get_bodies(node) for node in reads)


def _move_parameters(body: UOp, forms: Mapping[UOp, UOp], shifts: Mapping[int, int]) -> UOp:
    """A body with other parameters, and with other slots for those that stay."""
    moved = {
        p: p.with_arg(p.arg._replace(slot=shifts[p.arg.slot]))
        for p in body.iter_ops(Op.PARAM)
        if p.arg.slot in shifts
    }
    return body.substitute({**moved, **forms})


def _get_placement(node: UOp, position: int) -> Placement:
    """Where the value at `position` of the bodies of a LOOP or SWITCH is; what decides whether to
    go on is on one device.
    """
    if node.op is Op.LOOP and position < node.arg.n_carried:
        return node.src[1 + position].placement
    if position == count_results(node):
        return None
    return next(
        (p for body in get_bodies(node) if (p := body.src[position].placement) is not None), None
    )


def _count_devices(placement: Placement) -> int:
    return len(placement.devices) if isinstance(placement, Sharding) else 1


def _write_body(body: UOp, placements: Sequence[Placement], device: str | None) -> UOp:
    """The body on shards; what no shard and no memory says the place of is on the `device`."""
    writer = _Writer(body)
    values: list[UOp] = []
    for x, place in zip(body.src, placements, strict=True):
        devices = place.devices if isinstance(place, Sharding) else (place or device,)
        values += map(_put_on, writer.fetch_all(x, place), devices)
    return body.with_src(tuple(values))


def _put_on(x: UOp, device: str | None) -> UOp:
    return x if device is None or x.placement is not None else make_copy(x, device)


def _rebuild(node: UOp, operands: Shards) -> UOp:
    # Integers are folded as they are when the graph is built.
    is_exact = (
        node.op in ELEMENTWISE and node.op not in (Op.CAST, Op.BITCAST) and not node.dtype.is_float
    )
    return make_alu(node.op, *operands) if is_exact else node.with_src(operands)


def _cut(x: UOp, want: Sharding, position: int) -> UOp:
    """The part of a whole tensor that a shard holds."""
    return x if want.axis is None else _narrow(x, want.axis, *want.bounds(position))


def _overlap(shard: UOp, have: Sharding, want: Sharding, source: int, position: int) -> UOp:
    """What of one shard belongs to shard `position` of another split along the same axis."""
    assert have.axis is not None
    first, last = have.bounds(source)
    begin, end = want.bounds(position)
    low = min(max(begin, first), last)
    return _narrow(shard, have.axis, low - first, max(low, min(end, last)) - first)


def _narrow(x: UOp, axis: int, begin: int, end: int) -> UOp:
    return make_shrink(x, [(begin, end) if a == axis else (0, s) for a, s in enumerate(x.shape)])


def _reduce(node: UOp, own: Sharding | None, parts: Sequence[Shards]) -> Shards:
    """REDUCE_AXIS over the split axis -> ALLREDUCE of what each device reduces."""
    op, axes = node.arg
    reduced = tuple(make_reduce_axis(part[0], op, axes) for part in parts)
    if own is None or own.axis not in axes:
        return reduced
    stack = UOp(Op.MSTACK, node.dtype, reduced)
    return tuple(UOp(Op.ALLREDUCE, node.dtype, (stack,), (op, device)) for device in own.devices)


def _scatter(node: UOp, own: Sharding | None, parts: Sequence[Shards]) -> Shards:
    """SCATTER_ADD of split positions -> ALLREDUCE of what each device adds up."""
    added = tuple(_rebuild(node, part) for part in parts)
    axis = node.arg.axis
    if own is None or own.axis is None or not axis <= own.axis < axis + len(node.position.shape):
        return added
    stack = UOp(Op.MSTACK, node.dtype, added)
    return tuple(
        UOp(Op.ALLREDUCE, node.dtype, (stack,), (Op.ADD, device)) for device in own.devices
    )


def _flip(node: UOp, own: Sharding | None, parts: Sequence[Shards]) -> Shards:
    """FLIP of the split axis -> the flipped shards, moved to the devices in reverse order."""
    flipped = tuple(make_flip(part[0], node.arg) for part in parts)
    if own is None or own.axis is None or not node.arg[own.axis]:
        return flipped
    return tuple(make_copy(x, device) for x, device in zip(flipped[::-1], own.devices, strict=True))


def _reshape(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """RESHAPE -> the same with the size of the shard."""
    return make_reshape(x, _shard_shape(node, result, position))


def _expand(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """EXPAND -> the same with the size of the shard."""
    return make_expand(x, _shard_shape(node, result, position))


def _permute(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """PERMUTE -> the same."""
    return make_permute(x, node.arg)


def _pad(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """PAD of the split axis -> of the first shard before, and of the last one after."""
    pairs = _pairs(node)
    if own.axis is not None:
        before, after = pairs[own.axis]
        is_last = position == len(own.devices) - 1
        pairs[own.axis] = (before if position == 0 else 0, after if is_last else 0)
    return make_pad(x, pairs)


def _shrink(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """SHRINK of the split axis -> what of it each shard holds."""
    pairs = _pairs(node)
    if own.axis is not None:
        first, last = own.bounds(position)
        begin, end = pairs[own.axis]
        assert isinstance(begin, int) and isinstance(end, int)
        low = min(max(begin, first), last)
        pairs[own.axis] = (low - first, max(low, min(end, last)) - first)
    return make_shrink(x, pairs)


def _pairs(node: UOp) -> list[tuple[SInt, SInt]]:
    return list(zip(node.sizes[::2], node.sizes[1::2], strict=True))


def _shard_shape(node: UOp, result: Sharding, position: int) -> tuple[SInt, ...]:
    return tuple(
        result.sizes[position] if a == result.axis else s for a, s in enumerate(node.shape)
    )


_MOVES: Final[dict[Op, Callable[[UOp, UOp, Sharding, Sharding, int], UOp]]] = {
    Op.RESHAPE: _reshape,
    Op.EXPAND: _expand,
    Op.PERMUTE: _permute,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
}
