"""Builder of a LOOP: its PARAMs have provisional slots until the loop is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svod_ir._sharding import Sharding
from svod_ir.args import LoopArg
from svod_ir.build import make_alu, make_constant_like, make_copy, make_reshape, make_shrink
from svod_ir.derivatives.rule import spread
from svod_ir.derivatives.shards import distribute, replicate_first_axis
from svod_ir.loops import (
    count_slots,
    get_slots,
    iter_nodes,
    make_loop,
    make_parameter,
    replace_variable,
)
from svod_ir.ops import Op
from svod_ir.sizes import product
from svod_ir.uop import UOp

__all__ = ["NewLoop", "group_params", "make_placed", "make_shaped", "make_view", "number_back"]


class NewLoop:
    """Builder of a LOOP like an existing one, whose operands it may read in their original slots.

    Attributes:
        like: the arg of the existing loop.
        count: the trip count of both loops.
        first_slot: the first slot that the existing loop does not use.
        n_slots: the first slot that is free.
    """

    def __init__(self, loop: UOp) -> None:
        self.like: LoopArg = loop.arg
        self.count, self._operands = loop.src[0], loop.src[1:]
        self._slots = get_slots(self._operands)
        # A sharded operand takes one slot for each shard.
        self.first_slot = self.n_slots = sum(map(count_slots, self._operands))
        self._carried: dict[int, UOp] = {}
        self._sliced: dict[int, UOp] = {}
        self._constants: dict[int, UOp] = {}

    def carry(self, operand: UOp) -> UOp:
        """Carry a value; return the PARAM that reads it in the body."""
        return self._add(self._carried, operand, is_slice=False)

    def slice(self, operand: UOp) -> UOp:
        """Slice a value along its first axis; return the PARAM that reads a slice in the body."""
        return self._add(self._sliced, replicate_first_axis(operand), is_slice=True)

    def read(self, operand: UOp) -> UOp:
        """Read a value in each iteration; return the PARAM that reads it in the body."""
        return self._add(self._constants, operand, is_slice=False)

    def _add(self, group: dict[int, UOp], operand: UOp, *, is_slice: bool) -> UOp:
        slot = self.n_slots
        self.n_slots += count_slots(operand)
        # Slots follow the order of the calls here, but the kind of an operand in a LOOP: `make`
        # renumbers them once all are known.
        group[slot] = operand
        return make_parameter(operand, slot, is_slice=is_slice)

    def keep_carried(self) -> None:
        """Carry the existing loop's carries, in their slots; to be called first."""
        self._carried.update(zip(self._slots[: self.like.n_carried], self._operands, strict=False))

    def make(
        self,
        next_values: Sequence[UOp],
        stacked: Sequence[UOp],
        go_on: UOp | None = None,
        *,
        is_reversed: bool,
    ) -> tuple[UOp, ...]:
        """Build the loop and return its RESULTs; unread slices and constants are dropped.

        Args:
            next_values: the next carries, in the order in which the initial values were added.
            stacked: the values stacked over the iterations.
            go_on: the loop condition: true if there is a next iteration.
            is_reversed: whether to iterate from the last slice to the first.
        """
        arg = self.like
        end = arg.n_carried + arg.n_sliced
        pairs = list(zip(self._slots, self._operands, strict=True))
        body = UOp.sink(*next_values, *stacked, *(() if go_on is None else (go_on,)))
        # Operands that only the original body read would keep their memory alive until this loop
        # runs.
        read = {node.arg.slot for node in body.iter_ops(Op.PARAM)}
        variables = {node.arg.name for node in iter_nodes(body) if node.op is Op.DEFINE_VAR}
        sliced = _choose({**dict(pairs[arg.n_carried : end]), **self._sliced}, read)
        constants = _choose({**dict(pairs[end:]), **self._constants}, read)
        binds = {
            o: None for o in (*self._operands, *self.count.iter_ops(Op.BIND)) if o.op is Op.BIND
        }
        # A loop that only stacks results computed from slices needs no carry.
        carried = self._carried if next_values else {}
        chosen = {**carried, **sliced, **constants}
        operands = [
            *chosen.values(),
            *(bind for bind in binds if bind.symbol.arg.name in variables),
        ]
        moved = {
            before + n: after + n
            for before, operand, after in zip(chosen, operands, get_slots(operands), strict=False)
            for n in range(count_slots(operand))
        }
        body = body.substitute(
            {p: p.with_arg(p.arg._replace(slot=moved[p.arg.slot])) for p in body.iter_ops(Op.PARAM)}
        )
        return make_loop(
            body,
            self.count,
            operands,
            n_carried=len(carried),
            n_sliced=len(sliced),
            counter=arg.counter,
            is_reversed=is_reversed,
            is_conditional=go_on is not None,
        )


def _choose(group: Mapping[int, UOp], read: set[int]) -> dict[int, UOp]:
    return {
        slot: operand
        for slot, operand in group.items()
        # BINDs are added back by the names of the variables that the body reads: no PARAM reads
        # them.
        if operand.op is not Op.BIND
        and not read.isdisjoint(range(slot, slot + count_slots(operand)))
    }


def group_params(bodies: Sequence[UOp], operands: Sequence[UOp]) -> list[list[UOp]]:
    """For each operand, the PARAMs that read it in the bodies."""
    owners = {
        slot + n: index
        for index, (operand, slot) in enumerate(zip(operands, get_slots(operands), strict=True))
        for n in range(count_slots(operand))
    }
    groups: list[list[UOp]] = [[] for _ in operands]
    for body in bodies:
        for param in body.iter_ops(Op.PARAM):
            group = groups[owners[param.arg.slot]]
            if param not in group:
                group.append(param)
    return groups


def make_view(form: UOp, by_param: Mapping[UOp, UOp | None]) -> UOp | None:
    """A value shaped like the operand `form`, from flat values of its PARAMs; None where all are
    None.

    If `form` is replicated on several devices, each device gets the sum over the replicas.
    """
    by_slot: dict[int, UOp] = {}
    for param, value in by_param.items():
        if value is not None:
            known = by_slot.get(param.arg.slot)
            by_slot[param.arg.slot] = value if known is None else make_alu(Op.ADD, known, value)
    if not by_slot:
        return None
    shards = form.source.src if form.op is Op.MULTI else (form,)
    views = [_view_shard(shard, by_slot) for shard in shards]
    known = [view for view in views if view is not None]
    placement = form.placement
    if not isinstance(placement, Sharding):
        return known[0]
    # Each replica was read by its own device, so the cotangent is the sum over all of them.
    if placement.is_replicated:
        total = known[0]
        for view in known[1:]:
            total = make_alu(Op.ADD, total, make_copy(view, placement.devices[0]))
        return distribute(total, placement)
    # A shard that no result depends on still is a part of the tensor.
    filled = [
        make_copy(make_constant_like(shard, 0), device) if view is None else view
        for shard, view, device in zip(shards, views, placement.devices, strict=True)
    ]
    return form.with_src((form.source.with_src(tuple(filled)),))


def _view_shard(shard: UOp, by_slot: Mapping[int, UOp]) -> UOp | None:
    memory = shard
    while memory.src:
        memory = memory.src[0]
    flat = by_slot.get(memory.arg.slot)
    return (
        None
        if flat is None
        # Memory of a symbolic size has room for its largest value; the remainder is cut off.
        else make_reshape(make_shrink(flat, [(0, product(shard.shape))]), shard.shape)
    )


def make_placed(value: UOp, like: UOp) -> UOp:
    """A value broadcast to the shape of `like`, on the devices of `like`."""
    value = make_shaped(value, like)
    placement = like.placement
    if isinstance(placement, str) and value.placement != placement:
        return make_copy(value, placement)
    return value


def make_shaped(value: UOp, like: UOp) -> UOp:
    """A value broadcast to the shape of `like`, sharded like it."""
    value, placement = spread(value, like.shape), like.placement
    if isinstance(placement, Sharding) and value.placement != placement:
        return distribute(value, placement)
    return value


def number_back(root: UOp, counter: UOp, last: UOp) -> UOp:
    """Replace the loop counter by a counter that runs down from `last`, in nested bodies too."""
    return replace_variable(root, counter, make_alu(Op.SUB, last, counter))
