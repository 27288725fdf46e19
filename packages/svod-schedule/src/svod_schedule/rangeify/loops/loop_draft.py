"""Editable form of a LOOP: operands by slot, values of the body by position, known results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from svod_ir import Op, SInt, UOp, make_reshape, make_shrink
from svod_ir.args import LoopArg
from svod_ir.loops import (
    choose_counter,
    count_results,
    find_count,
    get_bodies,
    iter_nodes,
    make_counter,
    make_parameter,
)
from svod_ir.uop import to_node

__all__ = [
    "LoopDraft",
    "bind_operands",
    "can_bind",
    "has_known_sizes",
    "is_named",
    "list_slots",
    "list_written_slots",
    "renumber",
    "replace_parameter",
    "slice_at",
]


class LoopDraft:
    """Editable form of a LOOP. PARAMs keep their slots until `make_results`.

    Attributes:
        size: the trip count; None if it is computed at run time.
        operands: the operands by slot; every operand is on one device.
        carried: the slots of the carries. The next value of a carry has its slot as position.
        sliced: the slots of the operands of which each iteration reads a slice.
        constants: the slots of the operands that every iteration reads whole.
        values: the values of the body by position, the next values of the carries first.
        condition: the value that says whether to continue, if the loop is conditional.
        results: the replacements of results that the loop no longer computes.
        read: the positions of the results that have readers.
        scope: the names of the counters of the enclosing loops.
    """

    def __init__(self, loop: UOp, read: Iterable[int], scope: frozenset[str]) -> None:
        arg: LoopArg = loop.arg
        self.loop, self.count, self.size, self.counter = (
            loop,
            loop.count,
            find_count(loop),
            arg.counter,
        )
        # By slot, not in a list: steps that remove an operand leave the numbers of the others
        # alone.
        self.operands = dict(enumerate(loop.operands))
        end_sliced = arg.n_carried + arg.n_sliced
        self.carried = list(range(arg.n_carried))
        self.sliced = list(range(arg.n_carried, end_sliced))
        self.constants = list(range(end_sliced, len(self.operands)))
        (body,) = get_bodies(loop)
        self.values = dict(enumerate(body.src[: count_results(loop)]))
        *_, last = body.src
        self.condition = last if arg.is_conditional else None
        self.read, self.scope = set(read), scope
        # Results that a step has replaced; the others are computed by the loop of `make_results`.
        self.results: dict[int, UOp] = {}

    @property
    def body(self) -> UOp:
        """The values of the body, and the condition, as one SINK."""
        return UOp.sink(
            *self.values.values(), *(() if self.condition is None else (self.condition,))
        )

    def set_body(self, body: UOp) -> None:
        """Replace the values of the body and the condition."""
        if self.condition is not None:
            *_, self.condition = body.src
        self.values = dict(zip(self.values, body.src, strict=False))

    def parameter(self, slot: int) -> UOp:
        """Return the parameter of the body for the operand in a slot."""
        return make_parameter(self.operands[slot], slot, is_slice=slot in self.sliced)

    def replace(self, slot: int, value: UOp) -> bool:
        """Replace a parameter by `value`. Returns False, without a change, if the body reads the
        operand in another way too.
        """
        body = replace_parameter(self.body, self.parameter(slot), slot, value)
        if slot in list_slots(body):
            return False
        self.set_body(body)
        return True

    def take_slice(self, operand: UOp) -> UOp:
        """Slice `operand` inside the body at the index of the iteration."""
        assert self.size is not None
        if self.counter is None:
            self.counter = choose_counter(self.body, scope=self.scope)
        i = make_counter(self.counter, self.size)
        if self.loop.arg.is_reversed:
            i = to_node(self.size - 1 - i)
        return slice_at(operand, i)

    def add_operand(self, node: UOp, *, is_sliced: bool = False) -> UOp:
        """Add `node` as a constant or sliced operand. Returns its parameter in the body."""
        # A slot is not used twice while the body may still read the old operand.
        slot = max(self.operands, default=-1) + 1
        self.operands[slot] = node
        (self.sliced if is_sliced else self.constants).append(slot)
        return self.parameter(slot)

    def set_result(self, position: int, result: UOp) -> None:
        """Replace a result, which the loop no longer computes. The operand of a carry becomes a
        constant operand.
        """
        self.results[position] = result
        del self.values[position]
        if position in self.carried:
            self.carried.remove(position)
            # It keeps its slot: the body may still read the value that no iteration changes.
            self.constants.insert(0, position)

    def drop_operands(self) -> None:
        """Remove the constant and sliced operands that the body does not read."""
        body = self.body
        slots = list_slots(body)
        variables = {n.arg.name for n in iter_nodes(body) if n.op is Op.DEFINE_VAR}
        for group in (self.sliced, self.constants):
            for slot in list(group):
                # A variable that a size names has no PARAM, but the loop has to bind it.
                if slot not in slots and not is_named(self.operands[slot], variables):
                    group.remove(slot)
                    del self.operands[slot]

    def drop_unread(self) -> None:
        """Remove stacked values without readers, and carries that only their own next value reads."""
        needed = {p: v for p, v in self.values.items() if p in self.read}
        # To a fixed point: a needed carry reads others, which are then needed too.
        while True:
            roots = UOp.sink(
                *needed.values(), *(() if self.condition is None else (self.condition,))
            )
            slots = list_slots(roots)
            more = {
                p: v
                for p, v in self.values.items()
                if p in needed or (p in self.carried and p in slots)
            }
            if len(more) == len(needed):
                break
            needed = more
        for slot in [p for p in self.carried if p not in needed]:
            self.carried.remove(slot)
            del self.operands[slot]
        self.values = {p: v for p, v in self.values.items() if p in needed}

    def make_results(self) -> dict[int, UOp]:
        """Build the LOOP. Returns the replacement of each result by position."""
        if not self.values:
            return self.results
        order = [*self.carried, *self.sliced, *self.constants]
        arg: LoopArg = self.loop.arg
        arg = arg._replace(
            body=renumber(self.body, order),
            n_carried=len(self.carried),
            n_sliced=len(self.sliced),
            counter=self._find_counter(),
        )
        loop = UOp(
            Op.LOOP, self.loop.dtype, (self.count, *(self.operands[slot] for slot in order)), arg
        )
        computed = {
            p: UOp(Op.RESULT, v.dtype, (loop,), k) for k, (p, v) in enumerate(self.values.items())
        }
        return {**self.results, **computed}

    def _find_counter(self) -> str | None:
        # A counter that nothing reads would make kernels take a variable, and equal loops differ.
        names = {n.arg.name for n in iter_nodes(self.body) if n.op is Op.DEFINE_VAR}
        return self.counter if self.counter in names else None


def slice_at(operand: UOp, i: SInt) -> UOp:
    """Return `operand[i]`."""
    trailing = [(0, size) for size in operand.shape[1:]]
    return make_reshape(make_shrink(operand, [(i, i + 1), *trailing]), operand.shape[1:])


def replace_parameter(body: UOp, parameter: UOp, slot: int, value: UOp) -> UOp:
    """Replace a parameter of `body` by `value`, and if its size is known also the other PARAMs of
    the slot.
    """
    body = body.substitute({parameter: value})
    params = [p for p in body.iter_ops(Op.PARAM) if p.arg.slot == slot]
    if not params or not all(isinstance(size, int) for size in value.shape):
        return body
    return body.substitute({param: make_reshape(value, (param.arg.size,)) for param in params})


def renumber(body: UOp, slots: Sequence[int]) -> UOp:
    """Renumber the PARAMs of a body, which have these slots, as 0, 1, ..."""
    new_slot = {old: new for new, old in enumerate(slots)}
    params = (p for p in body.iter_ops(Op.PARAM) if new_slot[p.arg.slot] != p.arg.slot)
    return body.substitute(
        {p: p.with_arg(p.arg._replace(slot=new_slot[p.arg.slot])) for p in params}
    )


def can_bind(body: UOp, parameters: Mapping[int, UOp]) -> bool:
    """Whether `bind_operands` can bind a body: it reads each operand of symbolic size only through
    its parameter.
    """
    symbolic = {
        slot: p
        for slot, p in parameters.items()
        if not all(isinstance(size, int) for size in p.shape)
    }
    # An operand of constant size is its PARAM reshaped, so every read of it can be rebuilt.
    if not symbolic:
        return True
    below: set[UOp] = set()
    for node in symbolic.values():
        while node.src:
            node = node.source
            below.add(node)
    views = below.union(symbolic.values())
    return all(n in views or below.isdisjoint(n.src) for n in body.toposort())


def bind_operands(
    body: UOp, parameters: Mapping[int, UOp], operands: Mapping[int, UOp]
) -> UOp | None:
    """Substitute operands, or slices of them, for the parameters of a body; None if `can_bind` is
    false.
    """
    if not can_bind(body, parameters):
        return None
    replacements = {parameter: operands[slot] for slot, parameter in parameters.items()}
    for param in body.iter_ops(Op.PARAM):
        value = operands[param.arg.slot]
        if all(isinstance(size, int) for size in value.shape):
            # Not where the parameter is the PARAM itself, which has its replacement already.
            replacements.setdefault(param, make_reshape(value, (param.arg.size,)))
    return body.substitute(replacements)


def has_known_sizes(shape: tuple[SInt, ...]) -> bool:
    """True if no size of the shape is symbolic."""
    return all(isinstance(size, int) for size in shape)


def is_named(operand: UOp, names: Collection[str]) -> bool:
    """Whether an operand is a variable with one of these names, or a BIND of it."""
    symbol = operand.symbol if operand.op is Op.BIND else operand
    return symbol.op is Op.DEFINE_VAR and symbol.arg.name in names


def list_slots(body: UOp) -> set[int]:
    """Return the slots of the PARAMs of a body."""
    return {param.arg.slot for param in body.iter_ops(Op.PARAM)}


def list_written_slots(body: UOp) -> set[int]:
    """Return the slots of the PARAMs that a body assigns to."""
    slots: set[int] = set()
    for node in body.iter_ops(Op.ASSIGN):
        memory = node.target
        while memory.src:
            memory = memory.source
        slots.add(memory.arg.slot)
    return slots
