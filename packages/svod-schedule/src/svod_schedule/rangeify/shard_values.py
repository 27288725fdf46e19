"""shard-values: replace sharded values by one value per shard, computed on the shard's device.

before → after, for the sum of each row of x, which is sharded over two devices:

    REDUCE_AXIS(MULTI(MSTACK(x0, x1), 0), (1,))     REDUCE_AXIS(x0, (1,)) and REDUCE_AXIS(x1, (1,))

and for the sum over the sharded axis, which needs the other shard:

    REDUCE_AXIS(MULTI(MSTACK(x0, x1), 0), (0,))     ALLREDUCE(MSTACK(REDUCE_AXIS(x0, (0,)), REDUCE_AXIS(x1, (0,))), device) for each device

The sharding of each result is derived from the shardings of its operands by `svod_ir.placement`;
this pass writes the shards. An operand whose sharding differs from the one that the op needs is
resharded: sliced if it is replicated, else concatenated from copies of other devices' shards.
Results are replaced by their shards, in the order of the devices; shards without elements are left
out.

On a mesh, only the shard of this process is written, and what needs other shards is a collective
(`mesh.collectives`), a custom function that all processes call in the same order:

    REDUCE_AXIS(MULTI(MSTACK(x0), layout), (0,))    CUSTOM_FUNCTION[mesh.reduce](REDUCE_AXIS(x0, (0,)))

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
from svod_ir.placement import Placement, keep_between, lay_out
from svod_schedule.rangeify.mesh.calls import drop_shape, narrow
from svod_schedule.rangeify.mesh.collectives import Collectives
from svod_schedule.rangeify.mesh.join_reductions import join_reductions
from svod_schedule.rangeify.mesh.loop_order import LoopOrder
from svod_schedule.rangeify.mesh.scattered import list_scattered

__all__ = ["shard_values"]

Shards = tuple[UOp, ...]


def shard_values(sink: UOp) -> UOp:
    """Replace the MULTI nodes of `sink` by their shards, so that each node is on one device, or on
    none.
    """
    if not any(node.op in _SHARDED for node in iter_nodes(sink)):
        return sink
    writer = _Writer(sink, Collectives())
    results = [s for operand in sink.src for s in writer.iter_results(operand)]
    collectives = writer.collectives
    last = collectives.last
    # The last collective is kept as a result that nobody reads, unless it is one already.
    if last is not None and all(drop_shape(result) is not last for result in results):
        results.append(last)
    return join_reductions(sink.with_src(tuple(results)), collectives.groups)


_SHARDED: Final = frozenset({Op.MULTI, Op.MSELECT, Op.RESHARD})

_LONG: Final = frozenset({Op.REDUCE_AXIS, Op.LOOP, Op.SWITCH})
"""Ops that take time; elementwise operations become part of them."""


def _sort_by_depth(sink: UOp) -> Sequence[UOp]:
    """The nodes in an order of execution, those behind fewer reductions and loops first.

    Collectives are called in this order, and may go on while later values are computed: gradients of
    the last layer are known first.
    """
    depths: dict[UOp, int] = {}
    for node in sink.toposort():
        depth = max((depths[operand] for operand in node.src), default=0)
        depths[node] = depth + (node.op in _LONG)
    return sorted(depths, key=depths.__getitem__)


class _Writer:
    def __init__(self, sink: UOp, collectives: Collectives) -> None:
        self.plain = make_images()
        self.shards: dict[UOp, Shards] = {}
        self.placements: dict[UOp, list[Placement]] = {}
        self.ordered: set[UOp] = set()
        self.needs: dict[UOp, int] = {}
        self.collectives = collectives
        nodes = _sort_by_depth(sink)
        self.scattered = list_scattered(nodes)
        self.partial = frozenset(self.scattered.values())
        for node in nodes:
            self.visit(node)

    def visit(self, node: UOp) -> None:
        """Write the shards of `node`, whose operands are written already."""
        # By the whole graph, which is the same in all processes.
        if self.collectives.count:
            needs = 0
            for operand in node.src:
                needs |= self.needs.get(operand, 0)
            if needs:
                self.needs[node] = needs
        self._write(node, node.placement)
        # Each shard is computed for the source line of the whole.
        for shard in self.shards.get(node, ()):
            propagate_labels(shard, (node,))

    def _write(self, node: UOp, placement: Placement) -> None:
        if node.op is Op.MULTI:
            self.shards[node] = self._operands(node.source)
        elif node.op is Op.MSELECT and node.source in self.shards:
            self.plain[node] = self.shards[node.source][node.arg]
        elif node.op is Op.MSELECT:
            self.plain[node] = self._operands(node.source)[node.arg]
        elif get_bodies(node):
            self.plain[node] = self._write_bodies(node)
        elif node.op is Op.RESULT:
            self._write_result(node, placement)
        elif node.op is Op.CONTROL_DEPENDENCY:
            self._write_control_dependency(node)
        elif node.op is Op.GRADIENT and node.source in self.shards:
            # The other operands only name the values that derivatives were taken with respect to.
            self.shards[node] = self.shards[node.source]
        elif node.op is Op.GRADIENT:
            self.plain[node] = self.plain[node.source]
        elif node.op is Op.COPY and node.source in self.shards:
            # A copy of a sharded value to one device gathers the shards there: a sharding over one
            # device.
            source, have = node.source, node.source.placement
            assert isinstance(have, Sharding)
            want = Sharding((node.arg,)) if have.layout is None else have.replicated
            self.plain[node] = make_copy(self._fetch(source, have, want, 0), node.arg)
        elif node.op is Op.ASSIGN and node.target in self.plain and node.value in self.shards:
            # Memory of each process that is on no mesh takes the whole value.
            have = node.value.placement
            assert isinstance(have, Sharding)
            value = self._fetch(node.value, have, have.replicated, 0)
            self.plain[node] = node.with_src((self.plain[node.target], value))
        elif node in self.scattered:
            self.shards[node] = (self._scatter_reduction(node),)
        elif isinstance(placement, Sharding) and node.op is not Op.MSTACK:
            self.shards[node] = self._split(node, placement)
        elif node.op is not Op.SINK:
            self.plain[node] = node.with_src(self._operands(node))

    def iter_results(self, node: UOp) -> Iterator[UOp]:
        """Yield the nodes that replace an operand of the SINK."""
        if node in self.shards:
            yield from (s for s in self.shards[node] if 0 not in s.shape)
        else:
            yield self.plain[node]

    def _operands(self, node: UOp) -> Shards:
        return tuple(self.plain[s] for s in node.src)

    def _split(self, node: UOp, placement: Sharding) -> Shards:
        """Compute each shard of `node` from the shards of its operands."""
        layout = lay_out(node)
        operands = [
            tuple(
                self.plain[s] if wanted is None else self._fetch(s, s.placement, wanted, position)
                for s, wanted in zip(node.src, layout.operands, strict=True)
            )
            for position in range(len(placement.devices))
        ]
        if node.op is Op.RESHARD:
            return tuple(shards[0] for shards in operands)
        if placement.layout is not None:
            reduced = self._reduce_on_mesh(node, placement, layout.operands, operands[0])
            if reduced is not None:
                return (reduced,)
        if node.op is Op.REDUCE_AXIS:
            return _reduce(node, layout.operands[0], operands)
        if node.op is Op.SCATTER:
            return _scatter(node, layout.operands[0], operands)
        if node.op is Op.FLIP:
            return _flip(node, layout.operands[0], operands)
        # Movement ops have the sizes of the whole tensor in their arg; each shard needs its own.
        make = _MOVES.get(node.op)
        if make is not None:
            own = layout.operands[0] or placement
            return tuple(
                make(node, shards[0], own, placement, position)
                for position, shards in enumerate(operands)
            )
        return tuple(_rebuild(node, shards) for shards in operands)

    def _scatter_reduction(self, reshard: UOp) -> UOp:
        """The own part of a reduction that is split, of which the shards have the terms."""
        have, want = reshard.source.placement, reshard.arg
        assert isinstance(have, Sharding) and have.layout is not None
        (mesh_axis,) = (m for m, axis in enumerate(want.axes) if axis != have.layout.axes[m])
        op, _ = self.scattered[reshard].arg
        part, axis = self.shards[reshard.source][0], want.axes[mesh_axis]
        return self.collectives.scatter(part, op, want.mesh, mesh_axis, axis, want.sizes[mesh_axis])

    def _reduce_on_mesh(
        self,
        node: UOp,
        placement: Sharding,
        wanted: Sequence[Sharding | None],
        operands: Shards,
    ) -> UOp | None:
        """The result of a node that combines shards of other processes, or None."""
        own = wanted[0]
        if own is None or own.layout is None or placement.layout is None:
            return None
        layout = own.layout
        match node.op:
            case Op.REDUCE_AXIS:
                op, axes = node.arg
                x = operands[0]
                # A single element is its own sum.
                is_one = {x.shape[axis] for axis in axes} == {1}
                part = x if is_one else make_reduce_axis(x, op, axes)
                if node in self.partial:
                    return part
                along = [m for m, axis in enumerate(layout.axes) if axis in axes]
            case Op.SCATTER:
                op, part = Op.ADD, _rebuild(node, operands)
                end = node.arg.axis + len(node.position.shape)
                along = [
                    m
                    for m, axis in enumerate(layout.axes)
                    if axis is not None and node.arg.axis <= axis < end
                ]
            case Op.FLIP:
                # Each process flips its part; the parts then change places.
                part = make_flip(operands[0], node.arg)
                return self.collectives.mirror(part, layout, node.arg)
            case Op.SHRINK:
                return self._shrink_on_mesh(node, operands[0], own, placement)
            case _:
                return None
        needs = self.needs.get(node, 0)
        reduced, self.needs[node] = self.collectives.reduce(part, op, layout.mesh, along, needs)
        return reduced

    def _shrink_on_mesh(self, node: UOp, x: UOp, own: Sharding, result: Sharding) -> UOp:
        """Slice each part; where few elements are left, all processes get all of them."""
        assert own.layout is not None and result.layout is not None
        x = _shrink(node, x, own, result, 0)
        layouts = zip(own.layout.axes, own.layout.sizes, result.layout.axes, strict=True)
        for mesh_axis, (axis, sizes, new_axis) in enumerate(layouts):
            if axis is not None and new_axis is None:
                begin, end = _pairs(node)[axis]
                assert isinstance(begin, int) and isinstance(end, int)
                kept = keep_between(sizes, begin, end)
                x = self.collectives.gather(x, own.layout.mesh, mesh_axis, axis, kept)
        return x

    def _write_bodies(self, node: UOp) -> UOp:
        """Write a LOOP or SWITCH with the shards of its operands."""
        original, node = node, self._place_operands(node)
        operands = [self._expand(operand) for operand in node.src[1:]]
        # An operand that has a device now decides only where no value did before.
        placements = [
            _get_placement(original, position) or _get_placement(node, position)
            for position in range(len(get_bodies(node)[0].src))
        ]
        self.placements[original] = placements
        device = next(
            (p.devices[0] for s in node.src[1:] if isinstance(p := s.placement, Sharding)), None
        )
        inputs = [shard for shards in operands for shard in shards]
        order = LoopOrder(self.collectives, len(inputs))
        written = map_bodies(node, lambda body: _write_body(body, placements, device, order))
        if node.op is Op.LOOP:
            # Each shard is a carry or slice of its own, so the counts grow with the devices.
            n_carried, end_sliced = node.arg.n_carried, node.arg.n_carried + node.arg.n_sliced
            n_carried, n_sliced = (
                sum(map(len, group))
                for group in (operands[:n_carried], operands[n_carried:end_sliced])
            )
            written = written.with_arg(written.arg._replace(n_carried=n_carried, n_sliced=n_sliced))
        control, *_ = self._expand(node.count if node.op is Op.LOOP else node.choice)
        if order.has_collectives:
            self.ordered.add(original)
        return order.finish(written, control, inputs)

    def _place_operands(self, node: UOp) -> UOp:
        """Copy the operands of a LOOP or SWITCH that have no device to the devices that need them.

        The parameters of the bodies change with them.
        """
        sharding = next((p for s in node.src[1:] if isinstance(p := s.placement, Sharding)), None)
        slots = get_slots(node.src[1:])
        operands = [
            (
                self._place(node, position, slots[position], sharding.replicated)
                if sharding is not None and _has_no_device(s)
                else s
            )
            for position, s in enumerate(node.src[1:])
        ]
        if operands == list(node.src[1:]):
            return node
        pairs = zip(node.src[1:], slots, operands, get_slots(operands), strict=True)
        end_sliced = node.arg.n_carried + node.arg.n_sliced if node.op is Op.LOOP else 0
        first_sliced = node.arg.n_carried if node.op is Op.LOOP else 0
        # Sharded parameters replace whole ones, and shift the slots of the parameters after them.
        parameters: dict[UOp, UOp] = {}
        shifts: dict[int, int] = {}
        for position, (old, old_slot, new, new_slot) in enumerate(pairs):
            if new is old or isinstance(new.placement, str):
                shifts.update((old_slot + i, new_slot + i) for i in range(count_slots(old)))
                continue
            is_slice = first_sliced <= position < end_sliced
            parameter = make_parameter(new, new_slot, is_slice=is_slice)
            memory = make_parameter(old, old_slot, is_slice=is_slice)
            parameters[memory] = parameter
            while memory.op is not Op.PARAM:
                memory = memory.source
            if all(isinstance(size, int) for size in parameter.shape):
                parameters.setdefault(memory, make_reshape(parameter, memory.shape))
        return map_bodies(
            node, lambda body: _replace_parameters(body, parameters, shifts)
        ).with_operands(tuple(operands))

    def _place(self, node: UOp, position: int, slot: int, sharding: Sharding) -> UOp:
        """Copy an operand without a device to the device of its PARAM or its result, else to all
        devices of `sharding`.
        """
        operand = node.src[1 + position]
        device = next(
            (
                p.arg.device
                for b in get_bodies(node)
                for p in b.iter_ops(Op.PARAM)
                if p.arg.slot == slot
            ),
            None,
        )
        is_carried = node.op is Op.LOOP and position < node.arg.n_carried
        # A carry and its next value alternate between two buffers, so both are on one device.
        if device is None and is_carried:
            device = make_results(node)[position].placement
        if any(_is_read_by_loop(body, slot) for body in get_bodies(node)):
            # The nested bodies take it as one value, not as shards.
            first = sharding.devices[0]
            device = (device if isinstance(device, str) else first) if is_carried else device
            if not isinstance(device, str):
                return operand
        if isinstance(device, str):
            placed = make_copy(operand, device)
            self.visit(placed)
            return placed
        return self._copy_to(operand, sharding)

    def _copy_to(self, node: UOp, sharding: Sharding) -> UOp:
        """Replicate a value on the devices of `sharding`."""
        if sharding.layout is not None:
            resharded = UOp(Op.RESHARD, node.dtype, (node,), sharding.layout)
            self.visit(resharded)
            return resharded
        copies = tuple(UOp(Op.COPY, node.dtype, (node,), device) for device in sharding.devices)
        stack = UOp(Op.MSTACK, node.dtype, copies)
        multi = UOp(Op.MULTI, node.dtype, (stack,))
        for new in (*copies, stack, multi):
            self.visit(new)
        return multi

    def _write_result(self, node: UOp, placement: Placement) -> None:
        """Write a RESULT as one for each shard, or as one that is copied to every device."""
        owner, written = self.plain[node.source], node.source
        counts = [_count_devices(p) for p in self.placements[node.source][: node.arg + 1]]
        # Results of sharded values take several positions, which shifts those after them.
        first = sum(counts[:-1])
        is_loop = written.op is Op.LOOP
        if is_loop and written in self.ordered and node.arg >= written.arg.n_carried:
            # After the carries comes what orders the collectives.
            first += 1
        results = tuple(UOp(Op.RESULT, node.dtype, (owner,), first + i) for i in range(counts[-1]))
        if not isinstance(placement, Sharding):
            (self.plain[node],) = results
        elif len(results) == len(placement.devices):
            self.shards[node] = results
        else:
            self.shards[node] = tuple(make_copy(results[0], device) for device in placement.devices)

    def _write_control_dependency(self, node: UOp) -> None:
        """Make each shard depend on all shards of the events."""
        # All shards, since any of them may read the memory that is overwritten next.
        events = tuple(shard for event in node.src[1:] for shard in self._expand(event))
        dependent = tuple(node.with_src((shard, *events)) for shard in self._expand(node.source))
        if node.source in self.shards:
            self.shards[node] = dependent
        else:
            (self.plain[node],) = dependent

    def _expand(self, node: UOp) -> Shards:
        return self.shards[node] if node in self.shards else (self.plain[node],)

    def fetch_all(self, node: UOp, want: Placement) -> Shards:
        """Return `node` on one device, or its shards in the sharding `want`."""
        if not isinstance(want, Sharding):
            return self._expand(node)[:1]
        return tuple(
            self._fetch(node, node.placement, want, position)
            for position in range(len(want.devices))
        )

    def _fetch(self, node: UOp, have: Placement, want: Sharding, position: int) -> UOp:
        """Return shard `position` of `node` in the sharding `want`, on the shard's device."""
        device = want.devices[position]
        if not isinstance(have, Sharding):
            return _cut(self.plain[node], want, position)
        shards = self.shards[node]
        if have == want:
            return shards[position]
        if node.op is Op.EXPAND and not have.is_replicated:
            # Only the operand is sent: an operand of a matmul is far smaller than its products.
            source, own = node.source, _get_operand_sharding(node, want)
            operand = self._fetch(source, source.placement, own, position)
            return make_expand(operand, want.shard_shape(node.shape, position))
        if have.layout is not None and want.layout is not None:
            return self.collectives.reshard(node, shards[0], have.layout, want.layout)
        if have.axis is None:
            # The replica on the same device, if there is one, is read without a transfer.
            own = have.devices.index(device) if device in have.devices else 0
            return make_copy(_cut(shards[own], want, position), device)
        # Along the same axis only the overlap is copied; along another one, a piece of each shard.
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
        # The COPY gives the empty shard its device, since it depends on no memory.
        return make_copy(make_empty(node.dtype, tuple(shape)), device)


def _get_operand_sharding(expand: UOp, want: Sharding) -> Sharding:
    """The sharding of the operand of an EXPAND for a sharding of its result."""
    pairs = zip(expand.source.shape, expand.shape, strict=True)
    repeated = {axis for axis, (size, new) in enumerate(pairs) if size != new}
    if want.layout is None:
        return want.replicated if want.axis in repeated else want
    layout = want.layout
    for mesh_axis, axis in enumerate(layout.axes):
        if axis in repeated:
            layout = layout.with_axis(mesh_axis, None)
    return want._replace(layout=layout)


def _has_no_device(operand: UOp) -> bool:
    """Whether an operand is a value that depends on no memory; variables are not values."""
    return operand.placement is None and operand.op not in (Op.BIND, Op.DEFINE_VAR)


def _is_read_by_loop(body: UOp, slot: int) -> bool:
    """Whether a LOOP or SWITCH in a body depends on the PARAM in a slot."""
    reads: set[UOp] = set()
    for node in body.toposort():
        if (node.op is Op.PARAM and node.arg.slot == slot) or not reads.isdisjoint(node.src):
            reads.add(node)
    return any(get_bodies(node) for node in reads)


def _replace_parameters(body: UOp, parameters: Mapping[UOp, UOp], shifts: Mapping[int, int]) -> UOp:
    """Replace parameters of a body, and shift the slots of the remaining PARAMs."""
    # One substitution for both: in two, a shifted PARAM could be mistaken for one that is replaced.
    shifted = {
        p: p.with_arg(p.arg._replace(slot=shifts[p.arg.slot]))
        for p in body.iter_ops(Op.PARAM)
        if p.arg.slot in shifts
    }
    return body.substitute({**shifted, **parameters})


def _get_placement(node: UOp, position: int) -> Placement:
    """Return the placement of value `position` of the bodies of a LOOP or SWITCH, or None for the
    condition of a while loop, which is on one device.
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


def _write_body(
    body: UOp, placements: Sequence[Placement], device: str | None, order: LoopOrder
) -> UOp:
    """Write a body with shards. Values without a placement are computed on `device`."""
    writer = _Writer(body, order.enter())
    values: list[UOp] = []
    for x, placement in zip(body.src, placements, strict=True):
        devices = placement.devices if isinstance(placement, Sharding) else (placement or device,)
        values += map(_copy_if_unplaced, writer.fetch_all(x, placement), devices)
    return body.with_src(tuple(values))


def _copy_if_unplaced(x: UOp, device: str | None) -> UOp:
    return x if device is None or x.placement is not None else make_copy(x, device)


def _rebuild(node: UOp, operands: Shards) -> UOp:
    # `make_alu` folds integer constants, as when the graph was built.
    is_exact = (
        node.op in ELEMENTWISE and node.op not in (Op.CAST, Op.BITCAST) and not node.dtype.is_float
    )
    return make_alu(node.op, *operands) if is_exact else node.with_src(operands)


def _cut(x: UOp, want: Sharding, position: int) -> UOp:
    """Slice shard `position` out of a whole tensor."""
    for cut in want.cuts(position):
        x = narrow(x, cut.axis, cut.begin, cut.end)
    return x


def _overlap(shard: UOp, have: Sharding, want: Sharding, source: int, position: int) -> UOp:
    """Return the overlap of shard `source` of `have` with shard `position` of `want`, which is
    sharded along the same axis.
    """
    assert have.axis is not None
    first, last = have.bounds(source)
    begin, end = want.bounds(position)
    low = min(max(begin, first), last)
    return narrow(shard, have.axis, low - first, max(low, min(end, last)) - first)


def _reduce(node: UOp, own: Sharding | None, operands: Sequence[Shards]) -> Shards:
    """REDUCE_AXIS over the sharded axis -> ALLREDUCE of each shard's REDUCE_AXIS."""
    op, axes = node.arg
    # Shards are reduced before they are sent, so that only results travel.
    reduced = tuple(make_reduce_axis(shards[0], op, axes) for shards in operands)
    if own is None or own.axis not in axes:
        return reduced
    stack = UOp(Op.MSTACK, node.dtype, reduced)
    return tuple(UOp(Op.ALLREDUCE, node.dtype, (stack,), (op, device)) for device in own.devices)


def _scatter(node: UOp, own: Sharding | None, operands: Sequence[Shards]) -> Shards:
    """SCATTER of sums with sharded indices -> ALLREDUCE of each shard's SCATTER."""
    added = tuple(_rebuild(node, shards) for shards in operands)
    axis = node.arg.axis
    if own is None or own.axis is None or not axis <= own.axis < axis + len(node.position.shape):
        return added
    stack = UOp(Op.MSTACK, node.dtype, added)
    return tuple(
        UOp(Op.ALLREDUCE, node.dtype, (stack,), (Op.ADD, device)) for device in own.devices
    )


def _flip(node: UOp, own: Sharding | None, operands: Sequence[Shards]) -> Shards:
    """FLIP of the sharded axis -> FLIP of each shard, copied to the devices in reverse order."""
    flipped = tuple(make_flip(shards[0], node.arg) for shards in operands)
    if own is None or own.axis is None or not node.arg[own.axis]:
        return flipped
    return tuple(make_copy(x, device) for x, device in zip(flipped[::-1], own.devices, strict=True))


def _reshape(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """RESHAPE -> RESHAPE to the size of the shard."""
    return make_reshape(x, result.shard_shape(node.shape, position))


def _expand(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """EXPAND -> EXPAND to the size of the shard."""
    return make_expand(x, result.shard_shape(node.shape, position))


def _permute(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """PERMUTE -> PERMUTE of the shard."""
    return make_permute(x, node.arg)


def _pad(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """PAD of the sharded axis -> PAD of the first shard in front, and of the last one behind."""
    pairs = _pairs(node)
    for cut in own.cuts(position):
        before, after = pairs[cut.axis]
        pairs[cut.axis] = (before if cut.is_first else 0, after if cut.is_last else 0)
    return make_pad(x, pairs)


def _shrink(node: UOp, x: UOp, own: Sharding, result: Sharding, position: int) -> UOp:
    """SHRINK of the sharded axis -> SHRINK of each shard to its overlap with the bounds."""
    pairs = _pairs(node)
    for cut in own.cuts(position):
        begin, end = pairs[cut.axis]
        assert isinstance(begin, int) and isinstance(end, int)
        low = min(max(begin, cut.begin), cut.end)
        pairs[cut.axis] = (low - cut.begin, max(low, min(end, cut.end)) - cut.begin)
    return make_shrink(x, pairs)


def _pairs(node: UOp) -> list[tuple[SInt, SInt]]:
    return list(zip(node.sizes[::2], node.sizes[1::2], strict=True))


_MOVES: Final[dict[Op, Callable[[UOp, UOp, Sharding, Sharding, int], UOp]]] = {
    Op.RESHAPE: _reshape,
    Op.EXPAND: _expand,
    Op.PERMUTE: _permute,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
}
