"""The reference meaning of a graph of any stage: slow, obvious, and independent of the compiler.

`evaluate` gives the values of tensors and expressions; `evaluate_kernel` runs a kernel body and
`evaluate_linear` a linearized one, both by writing into numpy arrays.  A graph is first laid out
as a list of steps in which each loop holds exactly the nodes that depend on its RANGE; a small
machine then runs the steps.  Uninitialised memory holds a pattern, and an access outside of a
memory object is an error, so that the tests of a pass see both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from svod_dtype import DType, float64
from svod_ir.arithmetic import Values, apply_elementwise, combine, constant, convert, identity_value, quiet
from svod_ir.errors import EvaluationError
from svod_ir.ops import ELEMENTWISE, MOVEMENT, Op
from svod_ir.uop import UOp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Inputs", "evaluate", "evaluate_kernel", "evaluate_linear"]

Inputs: TypeAlias = "Mapping[UOp | int | str, ArrayLike]"
"""Values by node (BUFFER, PARAM, DEFINE_VAR, RANGE, SPECIAL), by PARAM slot, or by variable name."""


def evaluate(node: UOp, inputs: Inputs | None = None) -> Any:
    """The value of `node` as a numpy array; for a SINK or GROUP, a tuple with one entry for each operand.

    Buffers are given as arrays and are written where the graph assigns to them.  Variables are
    ints, or, in a graph of elementwise ops alone, arrays that broadcast.

    Raises:
        EvaluationError: if an input is missing or does not fit, the graph reads or writes outside
            of a buffer, or it holds a node without a meaning of its own (CUSTOM, PROGRAM).
    """
    roots = node.src if node.op in (Op.SINK, Op.GROUP) else (node,)
    layout = _Layout(_Environment(inputs or {}), _find_writes(node))
    layout.add_block(roots, None)
    machine = _Machine(layout)
    machine.run_to_end()
    found = tuple(None if _is_effect(root) else np.asarray(machine.value_of(root)) for root in roots)
    return found if node.op in (Op.SINK, Op.GROUP) else found[0]


def evaluate_kernel(sink: UOp, buffers: Inputs, variables: Mapping[str, int] | None = None) -> None:
    """Run a kernel body of stage kernel or lowered; `buffers` are by PARAM slot or node, and are written.

    A DEFINE_VAR `core_id` and SPECIALs take each of their values in turn.
    """
    environment = _Environment({**buffers, **(variables or {})})
    _launch(
        environment, sink.toposort(), lambda layout: layout.add_block(sink.src if sink.op is Op.SINK else (sink,), None)
    )


def evaluate_linear(nodes: Sequence[UOp], buffers: Inputs, variables: Mapping[str, int] | None = None) -> None:
    """Run a linearized kernel, node by node in the given order; otherwise as `evaluate_kernel`."""
    environment = _Environment({**buffers, **(variables or {})})
    _launch(environment, nodes, lambda layout: layout.add_linear(nodes))


def _launch(environment: _Environment, nodes: Sequence[UOp], fill: Callable[[_Layout], None]) -> None:
    """Run a kernel for each core and workgroup; the threads of a workgroup advance from barrier to barrier together."""
    cores = [n for n in nodes if n.op is Op.DEFINE_VAR and n.arg[0] == "core_id" and not environment.has(n)]
    specials = sorted({n for n in nodes if n.op is Op.SPECIAL and not environment.has(n)}, key=lambda n: n.arg)
    grid = [*dict.fromkeys(cores), *(s for s in specials if not s.arg.startswith("l"))]
    local = [s for s in specials if s.arg.startswith("l")]
    writes = {_memory_of(n.src[0]) for n in nodes if n.op is Op.STORE}
    for group in _iter_positions(grid, environment):
        shared: dict[UOp, Values] = {}
        threads: list[Iterator[None]] = []
        for thread in _iter_positions(local, environment):
            layout = _Layout(environment.with_values({**group, **thread}), writes, shared)
            fill(layout)
            threads.append(_Machine(layout).run())
        while threads:
            threads = [t for t in threads if next(t, _FINISHED) is not _FINISHED]


_FINISHED: Final = object()


def _iter_positions(nodes: Sequence[UOp], environment: _Environment) -> Iterator[dict[UOp, int]]:
    extents: list[tuple[int, int]] = []
    for node in nodes:
        if node.op is Op.DEFINE_VAR:
            extents.append((node.arg[1], node.arg[2]))
        else:
            extents.append((0, int(evaluate(node.src[0], environment.given)) - 1))
    position = [low for low, _ in extents]
    if any(low > high for low, high in extents):
        return
    while True:
        yield dict(zip(nodes, position, strict=True))
        for axis in reversed(range(len(extents))):
            position[axis] += 1
            if position[axis] <= extents[axis][1]:
                break
            position[axis] = extents[axis][0]
        else:
            return


# -- inputs and memory ----------------------------------------------------------------------------------


class _Environment:
    """The caller's arrays and variables."""

    def __init__(self, given: Inputs, scratch: dict[UOp, Values] | None = None) -> None:
        self.given = given
        self.scratch: dict[UOp, Values] = {} if scratch is None else scratch

    def with_values(self, values: Mapping[UOp, int]) -> _Environment:
        return _Environment({**self.given, **values}, self.scratch) if values else self

    def has(self, node: UOp) -> bool:
        return self._find(node) is not None

    def _find(self, node: UOp) -> ArrayLike | None:
        if node in self.given:
            return self.given[node]
        if node.op is Op.PARAM:
            return self.given.get(node.arg.slot)
        if node.op is Op.DEFINE_VAR:
            return self.given.get(node.arg[0])
        return self.given.get(node.arg) if node.op is Op.SPECIAL else None

    def array(self, node: UOp) -> Values:
        """The elements of a BUFFER or PARAM as a flat view of the caller's array."""
        found = self._find(node)
        if found is None:
            if node.op is Op.BUFFER and node.arg.id < 0:
                # Numbered within one schedule: memory that only the graph's own kernels see.
                return self.scratch.setdefault(node, _new_memory(node.dtype, node.arg.size))
            raise EvaluationError(problem="no array is given for", node=node)
        array = np.asarray(found)
        if array.dtype != node.dtype.numpy:
            raise EvaluationError(problem=f"an array of {array.dtype} is given for", node=node)
        if array.size < node.arg.size:
            raise EvaluationError(problem=f"an array of {array.size} elements is given for", node=node)
        flat = array.reshape(-1)
        if array.size and not np.shares_memory(flat, array):
            raise EvaluationError(
                problem="an array that is not contiguous is given for", node=node, hint="use np.ascontiguousarray"
            )
        return flat

    def scalar(self, node: UOp) -> Values:
        found = self._find(node)
        if found is None:
            raise EvaluationError(problem="no value is given for", node=node)
        return found.astype(node.dtype.numpy) if isinstance(found, np.ndarray) else node.dtype.numpy.type(found)


_MEMORY_BASES: Final = frozenset({Op.BUFFER, Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG})


def _memory_of(node: UOp) -> UOp:
    """The node that stands for the memory below views and ordering edges."""
    while node.op in (Op.AFTER, Op.INDEX, Op.ASSIGN, Op.DETACH) or node.op in MOVEMENT:
        node = node.src[0]
    return node


def _is_location(node: UOp) -> bool:
    """Whether the value of `node` is the array of a memory object, not its content at a moment."""
    while node.op is Op.AFTER:
        node = node.src[0]
    return node.op in _MEMORY_BASES or node.op is Op.BUFFER_VIEW


def _find_writes(root: UOp) -> set[UOp]:
    found: set[UOp] = set()
    for node in root.toposort():
        if node.op in (Op.ASSIGN, Op.STORE):
            found.add(_memory_of(node.src[0]))
        elif node.op is Op.CALL:
            found.update(_memory_of(s) for s in node.src[1:])
    return found


def _new_memory(dtype: DType, size: int) -> Values:
    """Memory that nobody wrote yet: NaN, or a byte pattern for integers."""
    shape = (size, dtype.lanes) if dtype.lanes > 1 else (size,)
    if dtype.is_float:
        return np.full(shape, math.nan, dtype=dtype.numpy)
    return (
        np.full((math.prod(shape) * dtype.itemsize,), 0 if dtype.is_bool else 0x5A, np.uint8)
        .view(dtype.numpy)
        .reshape(shape)
    )


class _Poison:
    """What a read outside of memory gives where a WHERE may still discard it."""

    def __init__(self, problem: str, node: UOp) -> None:
        self.problem, self.node = problem, node

    def fail(self) -> EvaluationError:
        return EvaluationError(problem=self.problem, node=self.node)


# -- from a graph to steps ------------------------------------------------------------------------------

_STEP, _LOOP, _NEXT, _SKIP, _BARRIER = range(5)
_LOOPS: Final = {Op.REDUCE: 1, Op.END: 1, Op.BUFFERIZE: 1, Op.SCAN: 1}
_EFFECTS: Final = frozenset({
    Op.STORE, Op.END, Op.SINK, Op.GROUP, Op.BARRIER, Op.IF, Op.ENDIF, Op.NOOP, Op.CALL, Op.CUSTOM_FUNCTION,
})  # fmt: skip


def _is_effect(node: UOp) -> bool:
    return node.op in _EFFECTS


def _ranges_of(node: UOp) -> tuple[UOp, ...]:
    return tuple(r for r in node.src[1:] if r.op is Op.RANGE)


Operand: TypeAlias = "tuple[UOp, bool]"
"""A node, and whether the array itself (true) or its value is meant."""


class _Layout:
    """The steps of a graph: tuples of a kind and what the machine needs for it."""

    def __init__(self, environment: _Environment, writes: set[UOp], shared: dict[UOp, Values] | None = None) -> None:
        self.environment = environment
        self.writes = writes
        self.shared = {} if shared is None else shared
        self.code: list[tuple[Any, ...]] = []
        self.slots: dict[Operand, int] = {}
        self.initial: list[Any] = []
        self._needs: dict[UOp, list[Operand]] = {}

    def slot(self, node: UOp, is_memory: bool = False) -> int:
        """Where the machine keeps a node; memory and what the caller gives is filled in at once."""
        while is_memory and node.op is Op.AFTER:
            node = node.src[0]
        key = (node, is_memory)
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = len(self.initial)
            self.initial.append(None)
            if is_memory and node.op in _MEMORY_BASES:
                self.initial[found] = self._memory(node)
            elif node.op in _MEMORY_BASES:
                memory = self.initial[self.slot(node, True)]
                self.initial[found] = memory.copy() if node in self.writes else memory
        return found

    def new_slot(self) -> int:
        self.initial.append(None)
        return len(self.initial) - 1

    def _memory(self, node: UOp) -> Values:
        if node.op in (Op.BUFFER, Op.PARAM):
            return self.environment.array(node)[: node.arg.size]
        if node.op is Op.DEFINE_REG:
            return _new_memory(node.dtype, node.arg[1])
        return self.shared.setdefault(node, _new_memory(node.dtype, node.arg[1]))

    def step(self, run: Callable[..., Any], target: int, *operands: int) -> None:
        self.code.append((_STEP, run, target, operands))

    # What a node needs before it can run. A loop needs what its body needs from outside.

    def needs(self, node: UOp) -> list[Operand]:
        found = self._needs.get(node)
        if found is None:
            opened = _ranges_of(node) if node.op in _LOOPS else ()
            if opened:
                found = [o for r in opened for o in ((s, False) for s in r.src)] + self._walk(
                    self._body(node), frozenset(opened)
                )[1]
                found += [(s, False) for s in node.src[1:] if s.op is not Op.RANGE]
            elif node.op is Op.ENDIF:
                found = [(s, False) for s in node.src[0].src] + [o for e in node.src[1:] for o in self.needs(e)]
            else:
                found = self._direct(node)
            self._needs[node] = found
        return found

    def _direct(self, node: UOp) -> list[Operand]:
        match node.op:
            case Op.LOAD | Op.STORE:
                place = node.src[0]
                while place.op is Op.AFTER:
                    place = place.src[0]
                location = self._direct(place) if place.op is Op.INDEX else [(place, True)]
                order = [(d, False) for d in _dependencies(node.src[0])]
                return [*order, *location, *((s, False) for s in node.src[1:])]
            case Op.INDEX:
                return [(node.src[0], _is_location(node.src[0])), *((s, False) for s in node.src[1:])]
            case Op.AFTER:
                return [*((s, False) for s in node.src[1:]), (node.src[0], _is_location(node.src[0]))]
            case Op.ASSIGN:
                chain = _view_chain(node.src[0])
                sizes = [(s, False) for view in chain for s in view.src[1:]]
                base = _memory_of(node.src[0])
                order = [(s, False) for s in _assigned_before(node.src[0])]
                return [*order, (base, base.op in _MEMORY_BASES), (node.src[1], False), *sizes]
            case Op.BUFFER_VIEW:
                return [(node.src[0], _is_location(node.src[0]))]
            case Op.CALL:
                return [(s, _is_location(s)) for s in node.src[1:] if not _is_effect(s)]
            case Op.RANGE | Op.DEFINE_VAR | Op.SPECIAL:
                return []
            case _:
                return [(s, False) for s in node.src]

    def _body(self, node: UOp) -> list[UOp]:
        """The roots of a loop's body: its effects, seen through GROUPs, or its value."""
        if node.op is not Op.END:
            return [node.src[0]]
        roots: list[UOp] = []
        stack = [node.src[0]]
        while stack:
            root = stack.pop()
            if root.op in (Op.GROUP, Op.NOOP, Op.SINK):
                stack.extend(reversed(root.src))
            else:
                roots.append(root)
        return roots

    def _walk(self, roots: Sequence[UOp], opened: frozenset[UOp] | None) -> tuple[list[Operand], list[Operand]]:
        """The operands of a block in order, and those that it takes from outside: all that depend on no opened range."""
        is_effect_loop = {r for r in roots if _is_effect(r)}
        inside: list[Operand] = []
        outside: list[Operand] = []
        seen: set[Operand] = set()
        stack: list[tuple[Operand, bool]] = [((r, False), False) for r in reversed(roots)]
        while stack:
            operand, is_entered = stack.pop()
            if is_entered:
                inside.append(operand)
                continue
            if operand in seen:
                continue
            seen.add(operand)
            node = operand[0]
            if opened is None or node in is_effect_loop or (node.ranges & opened and node not in opened):
                stack.append((operand, True))
                stack.extend((o, False) for o in reversed(self._operands(operand)) if o not in seen)
            elif node not in opened:
                outside.append(operand)
        return inside, outside

    def _operands(self, operand: Operand) -> list[Operand]:
        node, is_memory = operand
        if is_memory and node.op is Op.AFTER:
            return [*((s, False) for s in node.src[1:]), (node.src[0], True)]
        return self.needs(node)

    def add_block(self, roots: Sequence[UOp], opened: frozenset[UOp] | None) -> None:
        for node, is_memory in self._walk(roots, opened)[0]:
            if is_memory and node.op is not Op.BUFFER_VIEW:
                self.slot(node, True)
            else:
                self.add(node)

    def add(self, node: UOp) -> None:
        """The steps of one node whose needs have run."""
        if node.op in _LOOPS and (node.op is not Op.REDUCE or _ranges_of(node)):
            self._add_loop(node)
        elif node.op is Op.ENDIF:
            self._add_conditional(node)
        elif node.op is Op.BARRIER:
            self.code.append((_BARRIER,))
        elif node.op is Op.IF or node.op in (Op.GROUP, Op.SINK, Op.NOOP):
            return
        else:
            self._add_plain(node)

    def _add_plain(self, node: UOp) -> None:
        needs = self._direct(node)
        if node.op in (Op.LOAD, Op.STORE):
            needs = needs[len(_dependencies(node.src[0])) :]
        elif node.op is Op.ASSIGN:
            needs = needs[len(_assigned_before(node.src[0])) :]
        elif node.op is Op.AFTER:
            needs = needs[-1:]
        target = self.slot(node, node.op is Op.BUFFER_VIEW)
        if node.op in _MEMORY_BASES:
            return
        self.step(_make_step(node, self.environment), target, *(self.slot(*o) for o in needs))
        if node.op is Op.BUFFER_VIEW:
            self.step(_copy, self.slot(node), target)

    # Loops.

    def _add_loop(self, node: UOp) -> None:
        opened = _ranges_of(node)
        ends = [r for r in opened]
        target = self.slot(node)
        if node.op is Op.REDUCE:
            wide = _accumulator_dtype(node.src[0].dtype)
            start = identity_value(node.arg, node.src[0].dtype).astype(wide)
            self.step(lambda: start, target)
        elif node.op is Op.BUFFERIZE:
            self.step(_allocate(node), target, *(self._extent_slot(p) for p in node.src[1:]))
        elif node.op is Op.SCAN:
            self._add_scan(node)
            return
        loops = [self._open(r) for r in ends]
        self.add_block(self._body(node), frozenset(opened))
        if node.op is Op.REDUCE:
            op, dtype = node.arg, node.src[0].dtype
            self.step(_accumulate(op, _accumulator_dtype(dtype)), target, target, self.slot(node.src[0]))
        elif node.op is Op.BUFFERIZE:
            self.step(_fill, target, target, self.slot(node.src[0]), *(self.slot(p) for p in node.src[1:]))
        for loop in reversed(loops):
            self._close(loop)
        if node.op is Op.REDUCE:
            self.step(_finish_reduce(node), target, target)

    def _extent_slot(self, position: UOp) -> int:
        return self.slot(position.src[0]) if position.op is Op.RANGE else self._one()

    def _one(self) -> int:
        slot = self.new_slot()
        self.initial[slot] = 1
        return slot

    def _open(self, node: UOp, start: int | None = None, end: int | None = None) -> tuple[int, int, int]:
        """Begin a loop; gives its position in the code, and the slots of its variable and end."""
        place, slot, end = len(self.code), self.slot(node), self.slot(node.src[0]) if end is None else end
        self.code.append(())
        self.code[place] = (_LOOP, slot, start, end, 0)
        return place, slot, end

    def _close(self, loop: tuple[int, int, int]) -> None:
        place, slot, end = loop
        self.code.append((_NEXT, slot, end, place + 1))
        kind, slot, start, end, _ = self.code[place]
        self.code[place] = (kind, slot, start, end, len(self.code))

    def _add_scan(self, node: UOp) -> None:
        """SCAN(x, r) at r = i combines x at 0 to i; it goes on from i - 1 where the loop came from there."""
        scanned, target, current = node.src[1], self.slot(node), self.slot(node.src[1])
        others = [self.slot(r) for r in sorted(node.src[0].ranges - {scanned}, key=lambda r: r.arg[0])]
        saved, start, end, state = self.new_slot(), self.new_slot(), self.new_slot(), {}
        self.step(lambda x: x, saved, current)
        self.step(_resume_scan(node, state), start, current, *others)
        self.step(lambda key: state[key][1], target, self._constant_step(_scan_key, others))
        self.step(lambda i: i + 1, end, saved)
        loop = self._open(scanned, start, end)
        self.add_block([node.src[0]], frozenset({scanned}))
        self.step(_accumulate(node.arg, _accumulator_dtype(node.dtype)), target, target, self.slot(node.src[0]))
        self._close(loop)
        self.step(lambda x: x, current, saved)
        self.step(_keep_scan(state), self.new_slot(), target, saved, *others)
        self.step(_finish_reduce(node), target, target)

    def _constant_step(self, run: Callable[..., Any], operands: Sequence[int]) -> int:
        slot = self.new_slot()
        self.step(run, slot, *operands)
        return slot

    def _add_conditional(self, node: UOp) -> None:
        place = len(self.code)
        self.code.append(())
        for effect in node.src[1:]:
            self.add(effect)
        self.code[place] = (_SKIP, self.slot(node.src[0].src[0]), len(self.code))

    # A linearized kernel: the order is given.

    def add_linear(self, nodes: Sequence[UOp]) -> None:
        loops: dict[UOp, tuple[int, int, int]] = {}
        conditions: dict[UOp, int] = {}
        for node in nodes:
            match node.op:
                case Op.RANGE:
                    loops[node] = self._open(node)
                case Op.END:
                    for opened in reversed(_ranges_of(node)):
                        self._close(loops.pop(opened))
                case Op.IF:
                    conditions[node] = len(self.code)
                    self.code.append(())
                case Op.ENDIF:
                    self.code[conditions.pop(node.src[0])] = (_SKIP, self.slot(node.src[0].src[0]), len(self.code))
                case Op.INDEX:
                    # Loads and stores compute their own address, at the moment of the access.
                    continue
                case Op.AFTER if _is_location(node):
                    continue
                case _:
                    self.add(node)
        if loops or conditions:
            raise EvaluationError(problem="a loop or condition is not closed", node=next(iter({**loops, **conditions})))


def _dependencies(location: UOp) -> tuple[UOp, ...]:
    """What a location is ordered after, by AFTERs around the INDEX (those below it are operands)."""
    found: tuple[UOp, ...] = ()
    while location.op is Op.AFTER:
        found += location.src[1:]
        location = location.src[0]
    return found


def _view_chain(node: UOp) -> list[UOp]:
    """The movement ops between an assignment's target and its memory, from the memory up."""
    chain: list[UOp] = []
    while True:
        if node.op in MOVEMENT:
            chain.append(node)
        elif node.op not in (Op.AFTER, Op.ASSIGN, Op.DETACH):
            return chain[::-1]
        node = node.src[0]


def _assigned_before(node: UOp) -> tuple[UOp, ...]:
    found: tuple[UOp, ...] = ()
    while node.op in MOVEMENT or node.op in (Op.AFTER, Op.ASSIGN, Op.DETACH):
        if node.op is Op.ASSIGN:
            found += (node,)
        elif node.op is Op.AFTER:
            found += node.src[1:]
        node = node.src[0]
    return found


# -- the machine ----------------------------------------------------------------------------------------


class _Machine:
    """Runs the steps of a layout; `run` stops at each barrier."""

    def __init__(self, layout: _Layout) -> None:
        self.layout = layout
        self.values = layout.initial

    def value_of(self, node: UOp) -> Any:
        found = self.values[self.layout.slot(node)]
        if isinstance(found, _Poison):
            raise found.fail()
        return found

    def run_to_end(self) -> None:
        for _ in self.run():
            pass

    def run(self) -> Iterator[None]:
        with quiet():
            yield from self._run()

    def _run(self) -> Iterator[None]:
        code, values, place = self.layout.code, self.values, 0
        while place < len(code):
            step = code[place]
            kind = step[0]
            if kind == _STEP:
                _, run, target, operands = step
                values[target] = run(*[values[o] for o in operands])
                place += 1
            elif kind == _NEXT:
                _, slot, end, body = step
                values[slot] = values[slot] + 1
                place = body if values[slot] < values[end] else place + 1
            elif kind == _LOOP:
                _, slot, start, end, after = step
                values[slot] = np.int64(0 if start is None else values[start])
                place = place + 1 if values[slot] < values[end] else after
            elif kind == _SKIP:
                place = place + 1 if values[step[1]] else step[2]
            else:
                place += 1
                yield


# -- the step of each op --------------------------------------------------------------------------------


def _make_step(node: UOp, environment: _Environment) -> Callable[..., Any]:
    op, dtype = node.op, node.dtype
    if op in ELEMENTWISE:
        return _elementwise(node)
    if op in _MOVES:
        return lambda x, *sizes: _MOVES[op](x, _fill_sizes(node.arg, sizes))
    match op:
        case Op.CONST | Op.VCONST:
            value = constant(node.arg, dtype)
            return lambda: value
        case Op.DEFINE_VAR | Op.SPECIAL | Op.RANGE:
            given = environment.scalar(node)
            return lambda: given
        case Op.INDEX:
            return _read(node)
        case Op.LOAD:
            return _load(node)
        case Op.STORE:
            return _store(node)
        case Op.AFTER:
            return _copy if _is_location(node.src[0]) else lambda x: x
        case Op.ASSIGN:
            return _assign(node)
        case Op.BUFFER_VIEW:
            offset, size = node.arg
            return lambda x: _view_bytes(node, x, offset, size)
        case Op.CALL:
            return _call(node, environment)
        case _:
            return _make_rare_step(node)


def _make_rare_step(node: UOp) -> Callable[..., Any]:
    dtype = node.dtype
    match node.op:
        case Op.IOTA:
            return lambda *size: np.arange(int(size[0]) if size else node.arg).astype(dtype.numpy)
        case Op.GATHER:
            return lambda x, positions: _gather(x, positions, node.arg)
        case Op.REDUCE_AXIS:
            return lambda x: _reduce_axes(x, node)
        case Op.SCAN_AXIS:
            return lambda x: _scan_axis(x, node)
        case Op.REDUCE:
            return _finish_reduce(node)
        case Op.BIND:
            return lambda _, value: value
        case Op.COPY | Op.DETACH | Op.CONTIGUOUS | Op.CONTIGUOUS_BACKWARD:
            return lambda x: x
        case Op.MSTACK:
            return lambda *shards: shards
        case Op.MSELECT:
            return lambda shards: shards[node.arg]
        case Op.MULTI:
            return lambda x: np.concatenate(x, axis=node.arg) if isinstance(x, tuple) else x
        case Op.ALLREDUCE:
            return lambda x: _all_reduce(x, node)
        case Op.VECTORIZE:
            return lambda *lanes: (
                _checked(np.array(lanes, dtype=dtype.numpy)) if not _any_poison(lanes) else _any_poison(lanes)
            )
        case Op.BROADCAST:
            return lambda x: x if isinstance(x, _Poison) else np.tile(x, dtype.lanes // node.src[0].dtype.lanes)
        case Op.GEP:
            lanes = list(node.arg) if len(node.arg) > 1 else node.arg[0]
            return lambda x: x if isinstance(x, _Poison) else x[lanes] if np.ndim(x) else x
        case Op.CAT:
            return lambda *parts: _any_poison(parts) or np.concatenate([np.atleast_1d(p) for p in parts])
        case _:
            raise EvaluationError(problem=f"{node.op.name} has no reference meaning", node=node)


def _any_poison(operands: Sequence[Any]) -> _Poison | None:
    return next((o for o in operands if isinstance(o, _Poison)), None)


def _checked(x: Any) -> Any:
    if isinstance(x, _Poison):
        raise x.fail()
    return x


def _copy(x: Values) -> Values:
    return x.copy()


def _elementwise(node: UOp) -> Callable[..., Any]:
    op, result = node.op, node.dtype
    source = node.src[1].dtype if op is Op.WHERE else node.src[0].dtype
    if op is Op.WHERE:
        return _select

    def run(*operands: Any) -> Any:
        try:
            return apply_elementwise(op, source, result, operands)
        except (AttributeError, TypeError, np.exceptions.DTypePromotionError):
            poison = _any_poison(operands)
            if poison is None:
                raise
            return poison

    return run


def _select(condition: Any, x: Any, y: Any) -> Any:
    if isinstance(condition, _Poison):
        return condition
    if isinstance(x, _Poison) or isinstance(y, _Poison):
        if np.all(condition):
            return x
        if not np.any(condition):
            return y
        return x if isinstance(x, _Poison) else y
    return np.where(condition, x, y) if np.ndim(condition) else x if condition else y


# Memory.


def _read(node: UOp) -> Callable[..., Any]:
    """The content of a location where a value is expected; out of range it is poison, which a WHERE may discard."""
    has_gate = node.gate is not None
    n_positions = len(node.src) - 1 - has_gate

    def run(memory: Values, *operands: Any) -> Any:
        gate = operands[n_positions] if has_gate else None
        if gate is not None and not np.ndim(gate) and not gate:
            return _zero(node.dtype)
        found = _access(node, memory, operands[:n_positions], gate, is_strict=False)
        return found

    return run


def _zero(dtype: DType) -> Values:
    return np.zeros(dtype.lanes, dtype.numpy) if dtype.lanes > 1 else dtype.numpy.type(0)


def _access(
    node: UOp, memory: Values, positions: Sequence[Any], gate: Any, *, is_strict: bool, alternative: Any = None
) -> Any:
    place = _place(node, memory, positions)
    if isinstance(place, _Poison):
        if is_strict:
            raise place.fail()
        return place
    mask = np.broadcast_to(np.asarray(gate), np.shape(place)) if gate is not None else True
    flat = _flat(node, memory)
    is_inside = (place >= 0) & (place < len(flat))
    if not np.all(is_inside | ~np.asarray(mask)):
        poison = _Poison(
            f"index {place} is out of range of the {len(flat)} elements of {_memory_of(node.src[0])} at", node
        )
        if is_strict:
            raise poison.fail()
        return poison
    if not np.ndim(place):
        return flat[place]
    found = flat[np.where(is_inside, place, 0)] if len(flat) else np.zeros(np.shape(place), flat.dtype)
    other = _zero(node.dtype) if alternative is None else alternative
    return np.where(mask, found, other).astype(flat.dtype)


def _flat(node: UOp, memory: Values) -> Values:
    """The elements in order; an element of a memory of vectors is a row."""
    base_lanes = node.src[0].dtype.lanes
    return memory.reshape(-1, base_lanes) if base_lanes > 1 else memory.reshape(-1)


def _place(node: UOp, memory: Values, positions: Sequence[Any]) -> Any:
    """The element number that INDEX `node` means, one for each lane."""
    poison = _any_poison(positions)
    if poison is not None:
        return poison
    if len(positions) > 1:
        extents = memory.shape
        if len(extents) != len(positions):
            raise EvaluationError(problem=f"{len(positions)} positions for a memory of shape {extents}", node=node)
        if any(not 0 <= p < n for p, n in zip(positions, extents, strict=True)):
            return _Poison(f"index {tuple(map(int, positions))} is out of range of shape {extents} at", node)
        place = np.int64(0)
        for position, extent in zip(positions, extents, strict=True):
            place = place * extent + position
    else:
        place = positions[0].astype(np.int64) if positions else np.int64(0)
    lanes = node.dtype.lanes // node.src[0].dtype.lanes
    return place + np.arange(lanes) if lanes > 1 and not np.ndim(place) else place


def _index_of(location: UOp) -> UOp:
    while location.op is Op.AFTER:
        location = location.src[0]
    return location


def _load(node: UOp) -> Callable[..., Any]:
    location = _index_of(node.src[0])
    if location.op is not Op.INDEX:
        return lambda memory, *_: memory.copy() if memory.size > 1 else memory.reshape(-1)[0]
    has_gate, has_alternative = location.gate is not None, len(node.src) > 1
    n_positions = len(location.src) - 1 - has_gate

    def run(memory: Values, *operands: Any) -> Any:
        gate = _checked(operands[n_positions]) if has_gate else None
        alternative = operands[-1] if has_alternative else None
        if gate is not None and not np.any(gate):
            return _zero(node.dtype) if alternative is None else alternative
        return _access(
            location,
            memory,
            operands[:n_positions],
            gate if np.ndim(gate) else None,
            is_strict=True,
            alternative=alternative,
        )

    return run


def _store(node: UOp) -> Callable[..., Any]:
    location = _index_of(node.src[0])
    if location.op is not Op.INDEX:
        raise EvaluationError(problem="STORE needs an INDEX", node=node)
    has_gate = location.gate is not None
    n_positions = len(location.src) - 1 - has_gate

    def run(memory: Values, *operands: Any) -> None:
        gate = _checked(operands[n_positions]) if has_gate else None
        if gate is not None and not np.any(gate):
            return
        value = _checked(operands[-1])
        place = _checked(_place(location, memory, operands[:n_positions]))
        flat = _flat(location, memory)
        mask = (
            np.broadcast_to(np.asarray(gate), np.shape(place)) if gate is not None else np.ones(np.shape(place), bool)
        )
        if not np.all(((place >= 0) & (place < len(flat))) | ~mask):
            raise EvaluationError(
                problem=f"index {place} is out of range of the {len(flat)} elements of", node=_memory_of(location)
            )
        if not np.ndim(place):
            flat[place] = value
        else:
            flat[place[mask]] = value if not np.ndim(value) else value[mask]

    return run


def _assign(node: UOp) -> Callable[..., Any]:
    chain = _view_chain(node.src[0])
    is_memory = _memory_of(node.src[0]).op in _MEMORY_BASES

    def run(memory: Values, value: Values, *sizes: Any) -> Values:
        place, rest = np.arange(memory.size).reshape(memory.shape) + 1, list(sizes)
        for view in chain:
            taken, rest = rest[: len(view.src) - 1], rest[len(view.src) - 1 :]
            place = _MOVES[view.op](place, _fill_sizes(view.arg, taken))
        full = np.broadcast_to(value, place.shape)
        if is_memory:
            # Padding stands for no element.
            memory.reshape(-1)[place[place > 0] - 1] = full[place > 0]
        return full

    return run


def _view_bytes(node: UOp, x: Values, offset: int, size: int) -> Values:
    raw = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    end = offset + size * node.dtype.itemsize
    if offset < 0 or end > raw.size:
        raise EvaluationError(
            problem=f"bytes {offset} to {end} are out of range of the {raw.size} bytes below", node=node
        )
    return raw[offset:end].view(node.dtype.numpy)


def _allocate(node: UOp) -> Callable[..., Any]:
    lanes = (node.dtype.lanes,) if node.dtype.lanes > 1 else ()

    def allocate(*extents: Any) -> Values:
        shape = (*map(int, extents), *lanes)
        return _new_memory(node.dtype.scalar, math.prod(shape)).reshape(shape)

    return allocate


def _fill(array: Values, value: Any, *positions: Any) -> Values:
    array[tuple(int(p) for p in positions)] = _checked(value)
    return array


def _call(node: UOp, environment: _Environment) -> Callable[..., Any]:
    body, arguments = node.src[0], [s for s in node.src[1:] if not _is_effect(s)]

    def run(*operands: Any) -> None:
        inputs: dict[UOp | int | str, Any] = dict(environment.given)
        for slot, (argument, value) in enumerate(zip(arguments, operands, strict=True)):
            if argument.op is Op.BIND:
                inputs[argument.src[0]] = int(value)
            else:
                inputs[slot] = value
        if body.op is Op.SINK:
            evaluate_kernel(body, inputs)
        elif body.op in (Op.COPY, Op.BUFFER_VIEW):
            operands[0].reshape(-1)[:] = evaluate(body, inputs).reshape(-1)
        else:
            raise EvaluationError(problem=f"a CALL of {body.op.name} has no reference meaning", node=node)

    return run


# Reductions. Narrow floats accumulate in float64 and are rounded once.


def _accumulator_dtype(dtype: DType) -> np.dtype[np.generic]:
    return np.dtype(np.float64) if dtype.is_float else dtype.numpy


def _accumulate(op: Op, wide: np.dtype[np.generic]) -> Callable[..., Any]:
    return lambda total, x: combine(op, total, _checked(x).astype(wide))


def _finish_reduce(node: UOp) -> Callable[..., Any]:
    """Reduce the lanes that the result does not have, and round."""
    source, result, op = node.src[0].dtype, node.dtype, node.arg

    def run(total: Any) -> Any:
        total = _checked(total)
        if source.lanes > result.lanes:
            lanes = total.astype(_accumulator_dtype(source)).reshape(-1, result.lanes)
            total = lanes[0]
            for lane in lanes[1:]:
                total = combine(op, total, lane)
            total = total if result.lanes > 1 else total[0]
        return convert(total, float64, result) if result.is_float else total

    return run


def _scan_key(*others: Any) -> tuple[int, ...]:
    return tuple(int(o) for o in others)


def _resume_scan(node: UOp, state: dict[tuple[int, ...], tuple[int, Any]]) -> Callable[..., Any]:
    start = identity_value(node.arg, node.src[0].dtype).astype(_accumulator_dtype(node.dtype))

    def run(current: Any, *others: Any) -> int:
        last, _ = state.get(_scan_key(*others), (-1, None))
        if (last != current and last + 1 != current) or current == 0:
            state[_scan_key(*others)] = (-1, start)
            return 0
        return last + 1

    return run


def _keep_scan(state: dict[tuple[int, ...], tuple[int, Any]]) -> Callable[..., Any]:
    def run(total: Any, current: Any, *others: Any) -> None:
        state[_scan_key(*others)] = (int(current), total)

    return run


def _reduce_axes(x: Values, node: UOp) -> Values:
    op, axes = node.arg
    wide = x.astype(_accumulator_dtype(node.dtype))
    if op in (Op.MAX, Op.MIN) and x.size == 0:
        shape = tuple(1 if a in axes else s for a, s in enumerate(x.shape))
        return np.full(shape, identity_value(op, node.dtype))
    found = _UFUNCS[op, wide.dtype.kind == "b"].reduce(wide, axis=axes, keepdims=True, dtype=wide.dtype)
    return convert(found, float64, node.dtype) if node.dtype.is_float else found


def _scan_axis(x: Values, node: UOp) -> Values:
    op, axis = node.arg
    wide = x.astype(_accumulator_dtype(node.dtype))
    found = _UFUNCS[op, wide.dtype.kind == "b"].accumulate(wide, axis=axis, dtype=wide.dtype)
    return convert(found, float64, node.dtype) if node.dtype.is_float else found


_UFUNCS: Final = {
    (Op.ADD, False): np.add, (Op.MUL, False): np.multiply, (Op.MAX, False): np.maximum, (Op.MIN, False): np.minimum,
    (Op.ADD, True): np.logical_or, (Op.MUL, True): np.logical_and, (Op.MAX, True): np.logical_or, (Op.MIN, True): np.logical_and,
}  # fmt: skip


def _all_reduce(shards: Any, node: UOp) -> Values:
    parts = shards if isinstance(shards, tuple) else (shards,)
    total = parts[0].astype(_accumulator_dtype(node.dtype))
    for part in parts[1:]:
        total = combine(node.arg[0], total, part.astype(total.dtype))
    return convert(total, float64, node.dtype) if node.dtype.is_float else total


# Movement.


def _fill_sizes(arg: tuple[Any, ...], sizes: Sequence[Any]) -> tuple[Any, ...]:
    symbolic = iter(sizes)
    return tuple(int(next(symbolic)) if a is None else a for a in arg) if sizes else arg


def _pairs(flat: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _gather(x: Values, positions: Values, axis: int) -> Values:
    size = x.shape[axis]
    # An unsigned position beyond int64 is out of range too.
    is_inside = (positions >= 0) & (positions < size)
    where = np.where(is_inside, positions, 0).astype(np.int64)
    shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :])
    found = np.take(x, where, axis=axis) if size else np.zeros(shape, x.dtype)
    inside = is_inside.reshape(positions.shape + (1,) * (x.ndim - axis - 1))
    return np.where(inside, found, np.zeros((), x.dtype))


_MOVES: Final[dict[Op, Callable[[Values, tuple[Any, ...]], Values]]] = {
    Op.RESHAPE: lambda x, sizes: np.reshape(x, sizes),
    Op.EXPAND: lambda x, sizes: np.broadcast_to(x, sizes),
    Op.PERMUTE: lambda x, axes: np.transpose(x, axes),
    Op.PAD: lambda x, flat: np.pad(x, _pairs(flat)),
    Op.SHRINK: lambda x, flat: x[tuple(slice(b, e) for b, e in _pairs(flat))],
    Op.FLIP: lambda x, flags: np.flip(x, tuple(a for a, f in enumerate(flags) if f)),
}
