"""The body of several kernels that go through the same loops: the STOREs of each, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svod_dtype import void
from svod_ir import KernelInfo, Op, ParamArg, UOp
from svod_ir.ops import ELEMENTWISE, MEMORY
from svod_schedule.kernelize.bodies.parts import split_parts

__all__ = ["Elementwise", "find_elementwise", "make_joined_body"]

_VALUES = ELEMENTWISE | {Op.INDEX, Op.PARAM, Op.CONST, Op.RANGE}


@dataclass(frozen=True, slots=True, eq=False)
class Elementwise:
    """A call of a kernel that stores one element of its result in each iteration, or one of each of
    its parts, and reduces nothing.

    Attributes:
        call: the CALL.
        loops: the loops, from outer to inner.
        stores: the STOREs in them, all in one memory.
        memory: what each of its slots stands for, below the AFTERs.
        reads: the INDEX nodes, and the memory that each is in.
    """

    call: UOp
    loops: tuple[UOp, ...]
    stores: tuple[UOp, ...]
    memory: tuple[UOp, ...]
    reads: tuple[tuple[UOp, UOp], ...]

    @property
    def result(self) -> UOp:
        """The memory that it fills."""
        return self.memory[_get_slot(self.stores[0].location)]

    @property
    def places(self) -> tuple[tuple[UOp, ...], ...]:
        """Where in it an iteration stores."""
        return tuple(store.location.src[1:] for store in self.stores)

    @property
    def joins_parts(self) -> bool:
        """Whether the result is a concatenation, of parts that are computed elsewhere."""
        return len(self.stores) > 1


def find_elementwise(call: UOp) -> Elementwise | None:
    """What is known of a CALL whose body may be joined with another one; None if it is of another
    kind.
    """
    body = call.body
    if (
        call.arg is not None
        or body.op is not Op.SINK
        or body.arg != KernelInfo()
        or len(body.src) != 1
    ):
        return None
    (effect,) = body.src
    loops, store = (effect.loops, effect.body) if effect.op is Op.END else ((), effect)
    memory = tuple(argument.unordered for argument in call.arguments)
    if store.op is not Op.STORE or any(m.op not in MEMORY for m in memory):
        return None
    location = store.location
    if (
        location.op is not Op.INDEX
        or location.gate is not None
        or not set(loops) <= location.ranges
    ):
        return None
    nodes = store.value.toposort()
    if any(n.op not in _VALUES for n in nodes) or any(
        n.op is Op.INDEX for p in location.src[1:] for n in p.toposort()
    ):
        return None
    parts = (
        None
        if any(n.memory is location.memory for n in nodes if n.op is Op.INDEX)
        else split_parts(loops, store)
    )
    loops, stores = (loops, (store,)) if parts is None else parts
    nodes = UOp.sink(*(made.value for made in stores)).toposort()
    reads = tuple((n, memory[_get_slot(n)]) for n in nodes if n.op is Op.INDEX)
    return Elementwise(call, loops, stores, memory, reads)


def make_joined_body(kernels: Sequence[Elementwise], memory: Sequence[UOp]) -> UOp:
    """The kernel that does what `kernels` do one after the other, each in the iterations that they
    have in common.

    What is read where an earlier one stores is its value.

    Args:
        memory: what the slots stand for; a result that is not among them is not stored.
    """
    slots = {m: slot for slot, m in enumerate(memory)}
    values: dict[tuple[UOp, tuple[UOp, ...]], UOp] = {}
    stores: list[UOp] = []
    for kernel in kernels:
        is_stored = kernel.result in slots
        done: dict[UOp, UOp] = {}
        for node in UOp.sink(
            *(store if is_stored else store.value for store in kernel.stores)
        ).toposort()[:-1]:
            if node.op is Op.PARAM:
                arg: ParamArg = node.arg
                slot = slots.get(kernel.memory[arg.slot])
                if slot is not None:
                    done[node] = UOp(Op.PARAM, node.dtype, (), ParamArg(slot, arg.size))
            else:
                found = (
                    values.get((kernel.memory[_get_slot(node)], node.src[1:]))
                    if node.op is Op.INDEX
                    else None
                )
                done[node] = node.with_images(done) if found is None else found
        if is_stored:
            stores += [done[store] for store in kernel.stores]
        values.update(
            ((kernel.result, store.location.src[1:]), done[store.value]) for store in kernel.stores
        )
    return UOp(
        Op.SINK, void, (UOp(Op.GROUP, void, tuple(stores)).end(*kernels[0].loops),), KernelInfo()
    )


def _get_slot(access: UOp) -> int:
    """The slot of the memory that an INDEX of a body is in."""
    arg: ParamArg = access.memory.arg
    return arg.slot
