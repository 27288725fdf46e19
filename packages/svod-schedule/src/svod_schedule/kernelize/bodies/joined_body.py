"""The body of several joined kernels with the same loops: a GROUP of the STOREs of all."""

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
    """A CALL of a kernel without reductions, which stores one element of its result in each
    iteration, or one element of each operand of a concatenation.

    Attributes:
        call: the CALL.
        loops: the loops, from outer to inner.
        stores: the STOREs in the loops, all to the same memory.
        memory: the memory of each slot, below its AFTERs.
        reads: the INDEX nodes, each with its memory.
    """

    call: UOp
    loops: tuple[UOp, ...]
    stores: tuple[UOp, ...]
    memory: tuple[UOp, ...]
    reads: tuple[tuple[UOp, UOp], ...]

    @property
    def result(self) -> UOp:
        """The memory that the kernel fills."""
        return self.memory[_get_slot(self.stores[0].location)]

    @property
    def reads_result(self) -> bool:
        """Whether the kernel updates its result, which another one has filled before."""
        return any(memory is self.result for _, memory in self.reads)

    @property
    def stored_indices(self) -> tuple[tuple[UOp, ...], ...]:
        """The indices of each STORE of an iteration."""
        return tuple(store.location.src[1:] for store in self.stores)

    @property
    def joins_parts(self) -> bool:
        """Whether the result is a concatenation of operands that other kernels compute."""
        return len(self.stores) > 1


def find_elementwise(call: UOp) -> Elementwise | None:
    """Analyze a CALL whose body can be joined with another one; None for other CALLs."""
    body = call.body
    # Only kernels as cut-kernels makes them: no repeated body, no copy, and no opts yet.
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
    # An index that is loaded may name any element, also one that another kernel of the group
    # writes.
    nodes = store.value.toposort()
    if any(n.op not in _VALUES for n in nodes) or any(
        n.op is Op.INDEX for p in location.src[1:] for n in p.toposort()
    ):
        return None
    # A kernel that reads its own result, as an update in place, is not a concatenation.
    parts = (
        None
        if any(n.memory is location.memory for n in nodes if n.op is Op.INDEX)
        else split_parts(loops, store)
    )
    loops, stores = (loops, (store,)) if parts is None else parts
    nodes = UOp.sink(*(s.value for s in stores)).toposort()
    reads = tuple((n, memory[_get_slot(n)]) for n in nodes if n.op is Op.INDEX)
    return Elementwise(call, loops, stores, memory, reads)


def make_joined_body(kernels: Sequence[Elementwise], memory: Sequence[UOp]) -> UOp:
    """Make the body that computes `kernels` sequentially in each iteration of their common loops.

    A load of an element that an earlier kernel stores becomes the stored value.

    Args:
        memory: the memory of each slot; a result that is not in it is not stored.
    """
    slots = {m: slot for slot, m in enumerate(memory)}
    values: dict[tuple[UOp, tuple[UOp, ...]], UOp] = {}
    stores: list[UOp] = []
    for kernel in kernels:
        is_stored = kernel.result in slots
        done: dict[UOp, UOp] = {}
        # The SINK itself, last in the order, is left out: only the stores are joined.
        for node in UOp.sink(
            *(store if is_stored else store.value for store in kernel.stores)
        ).toposort()[:-1]:
            if node.op is Op.PARAM:
                arg: ParamArg = node.arg
                slot = slots.get(kernel.memory[arg.slot])
                if slot is not None:
                    done[node] = UOp(Op.PARAM, node.dtype, (), ParamArg(slot, arg.size))
            else:
                value = (
                    values.get((kernel.memory[_get_slot(node)], node.src[1:]))
                    if node.op is Op.INDEX
                    else None
                )
                done[node] = node.with_images(done) if value is None else value
        if is_stored:
            stores += [done[store] for store in kernel.stores]
        values.update(
            ((kernel.result, store.location.src[1:]), done[store.value]) for store in kernel.stores
        )
    return UOp(
        Op.SINK, void, (UOp(Op.GROUP, void, tuple(stores)).end(*kernels[0].loops),), KernelInfo()
    )


def _get_slot(access: UOp) -> int:
    """Return the slot of the memory of an INDEX."""
    arg: ParamArg = access.memory.arg
    return arg.slot
