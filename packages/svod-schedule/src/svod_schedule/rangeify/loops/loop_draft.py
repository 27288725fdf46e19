"""A LOOP that is being changed: its operands by slot, what its body gives, and what was found to
stand for its results.
"""

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
    "is_named",
    "list_slots",
    "list_written_slots",
    "renumber",
    "replace_parameter",
    "slice_at",
]


class LoopDraft:
    """A LOOP in parts. PARAMs keep their slots until `make_results`.

    Attributes:
        size: the number of iterations, None where it is computed.
        operands: by slot; every operand is on one device.
        carried: the slots of what is carried; a carried value has the position of its slot.
        values: what the body gives for each position that is left, the next values first.
        results: what was found to stand for the results at other positions.
        read: the positions of the results that are read.
        scope: the names of the counters of the loops around this one.
    """

    def __init__(self, loop: UOp, read: Iterable[int], scope: frozenset[str]) -> None:
        arg: LoopArg = loop.arg
        self.loop, self.count, self.size, self.counter = (
            loop,
            loop.count,
            find_count(loop),
            arg.counter,
        )
        self.operands = dict(enumerate(loop.operands))
        end_sliced = arg.n_carried + arg.n_sliced
        self.carried = list(range(arg.n_carried))
        self.sliced = list(range(arg.n_carried, end_sliced))
        self.constants = list(range(end_sliced, len(self.operands)))
        (body,) = get_bodies(loop)
        self.values = dict(enumerate(body.src[: count_results(loop)]))
        *_, last = body.src
        self.go_on = last if arg.is_conditional else None
        self.read, self.scope = set(read), scope
        self.results: dict[int, UOp] = {}

    @property
    def body(self) -> UOp:
        """What the body gives, as one SINK."""
        return UOp.sink(*self.values.values(), *(() if self.go_on is None else (self.go_on,)))

    def set_body(self, body: UOp) -> None:
        """Change all that the body gives."""
        if self.go_on is not None:
            *_, self.go_on = body.src
        self.values = dict(zip(self.values, body.src, strict=False))

    def parameter(self, slot: int) -> UOp:
        """What the body has for the operand in a slot."""
        return make_parameter(self.operands[slot], slot, is_slice=slot in self.sliced)

    def replace(self, slot: int, value: UOp) -> bool:
        """Put `value` in the place of a parameter, if that can be; the operand is no longer
        read.
        """
        body = replace_parameter(self.body, self.parameter(slot), slot, value)
        if slot in list_slots(body):
            return False
        self.set_body(body)
        return True

    def take_slice(self, operand: UOp) -> UOp:
        """The slice of a sliced operand that an iteration reads, for use inside of the body."""
        assert self.size is not None
        if self.counter is None:
            self.counter = choose_counter(self.body, scope=self.scope)
        place = make_counter(self.counter, self.size)
        if self.loop.arg.is_reversed:
            place = to_node(self.size - 1 - place)
        return slice_at(operand, place)

    def add_operand(self, node: UOp, *, is_sliced: bool = False) -> UOp:
        """Make `node` an operand that every iteration reads, or a slice of it; gives what the body
        has for it.
        """
        slot = max(self.operands, default=-1) + 1
        self.operands[slot] = node
        (self.sliced if is_sliced else self.constants).append(slot)
        return self.parameter(slot)

    def settle(self, position: int, result: UOp) -> None:
        """Let `result` stand for a result; the operand that was carried there becomes a constant
        one.
        """
        self.results[position] = result
        del self.values[position]
        if position in self.carried:
            self.carried.remove(position)
            self.constants.insert(0, position)

    def drop_operands(self) -> None:
        """Forget the constant and sliced operands that the body does not read."""
        body = self.body
        slots = list_slots(body)
        variables = {n.arg.name for n in iter_nodes(body) if n.op is Op.DEFINE_VAR}
        for group in (self.sliced, self.constants):
            for slot in list(group):
                if slot not in slots and not is_named(self.operands[slot], variables):
                    group.remove(slot)
                    del self.operands[slot]

    def drop_unread(self) -> None:
        """Forget what nobody reads: stacked values, and what is carried only for its own next
        value.
        """
        needed = {p: v for p, v in self.values.items() if p in self.read}
        while True:
            gives = UOp.sink(*needed.values(), *(() if self.go_on is None else (self.go_on,)))
            slots = list_slots(gives)
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
        """What stands for each result."""
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
        made = {
            p: UOp(Op.RESULT, v.dtype, (loop,), k) for k, (p, v) in enumerate(self.values.items())
        }
        return {**self.results, **made}

    def _find_counter(self) -> str | None:
        names = {n.arg.name for n in iter_nodes(self.body) if n.op is Op.DEFINE_VAR}
        return self.counter if self.counter in names else None


def slice_at(operand: UOp, place: SInt) -> UOp:
    """The slice of a tensor at one place of its first axis, without the axis."""
    whole = [(0, size) for size in operand.shape[1:]]
    return make_reshape(make_shrink(operand, [(place, place + 1), *whole]), operand.shape[1:])


def replace_parameter(body: UOp, parameter: UOp, slot: int, value: UOp) -> UOp:
    """`body` with `value` in the place of what it has for an operand; in another shape too, where
    sizes are known.
    """
    body = body.substitute({parameter: value})
    left = [p for p in body.iter_ops(Op.PARAM) if p.arg.slot == slot]
    if not left or not all(isinstance(size, int) for size in value.shape):
        return body
    return body.substitute({param: make_reshape(value, (param.arg.size,)) for param in left})


def renumber(body: UOp, slots: Sequence[int]) -> UOp:
    """A body whose PARAMs, which have these slots, have the slots 0, 1, ..."""
    moved = {slot: number for number, slot in enumerate(slots)}
    params = (p for p in body.iter_ops(Op.PARAM) if moved[p.arg.slot] != p.arg.slot)
    return body.substitute({p: p.with_arg(p.arg._replace(slot=moved[p.arg.slot])) for p in params})


def can_bind(body: UOp, parameters: Mapping[int, UOp]) -> bool:
    """Whether a body reads its operands only as their parameters show them, or as memory of a known
    size.
    """
    symbolic = {
        slot: p
        for slot, p in parameters.items()
        if not all(isinstance(size, int) for size in p.shape)
    }
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
    """A body of the operands themselves, or of slices of them; None where it reads one in another
    way than as its parameter.
    """
    if not can_bind(body, parameters):
        return None
    replaced = {parameter: operands[slot] for slot, parameter in parameters.items()}
    for param in body.iter_ops(Op.PARAM):
        value = operands[param.arg.slot]
        if all(isinstance(size, int) for size in value.shape):
            replaced.setdefault(param, make_reshape(value, (param.arg.size,)))
    return body.substitute(replaced)


def is_named(operand: UOp, names: Collection[str]) -> bool:
    """Whether an operand is a variable with one of these names, or binds it."""
    symbol = operand.symbol if operand.op is Op.BIND else operand
    return symbol.op is Op.DEFINE_VAR and symbol.arg.name in names


def list_slots(body: UOp) -> set[int]:
    """The slots of the PARAMs of a body."""
    return {param.arg.slot for param in body.iter_ops(Op.PARAM)}


def list_written_slots(body: UOp) -> set[int]:
    """The slots of the PARAMs that a body assigns to."""
    found: set[int] = set()
    for node in body.iter_ops(Op.ASSIGN):
        memory = node.target
        while memory.src:
            memory = memory.source
        found.add(memory.arg.slot)
    return found
