"""cut-kernels: assign each materialized value a buffer and a kernel that fills it.

before → after:

    BUFFERIZE(ADD(INDEX(x, r0), 1), r0)
    AFTER(BUFFER, CALL(SINK(END(STORE(INDEX(PARAM 0, r0), ADD(INDEX(PARAM 1, r0), 1)), r0)), BUFFER, x))

Inside a kernel, memory is PARAM 0, PARAM 1, ... in the order of the CALL's arguments, outputs
first; ranges are numbered from 0, and variables are unbound. So equal computations on different
buffers are the same SINK node, which is optimized and compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from svod_dtype import AddressSpace, index, void
from svod_ir import AxisType, FreshIds, KernelInfo, Op, ParamArg, UOp
from svod_ir.custom_function import read_signature
from svod_ir.ops import MEMORY
from svod_ir.origins import propagate_labels
from svod_ir.sizes import max_size
from svod_schedule.errors import UnsupportedGraphError
from svod_schedule.kernelize.bodies.arguments import get_argument, has_control_dependency
from svod_schedule.kernelize.bodies.repeated_calls import MakeBody, NewBuffers, fill_results
from svod_schedule.rangeify.analysis.coordinates import flatten_index
from svod_schedule.rangeify.fuse_loops import fuse_loop

__all__ = ["cut_kernels", "order_loops"]


# Nodes that refer to the graph, and are rewritten for the kernel.
_RENUMBERED = frozenset({Op.BIND, Op.RANGE, Op.BUFFERIZE, Op.INDEX})
# Nodes with loops of their own, which are nested inside the loops over the result.
_INNER_LOOPS = frozenset({Op.REDUCE, Op.BUFFERIZE})


def cut_kernels(sink: UOp, make_body: MakeBody, max_buffers: int | None = None) -> UOp:
    """Cut a ranged graph into kernels, one per stored value: `SINK(AFTER(BUFFER, CALL), ...)`.

    A kernel that overwrites memory runs after the kernels that read the old elements. New buffers
    have the ids -1, -2, ..., which no buffer of a tensor has.

    Args:
        sink: the ranged graph.
        make_body: makes the kernel graph of a loop body, for the device of its results.
        max_buffers: the maximum number of arguments of a fused loop; a loop that needs more runs
            kernel by kernel. The pass `limit-buffers` has limited all other kernels.
    """
    filled: dict[UOp, UOp] = {}
    stored = [n for n in sink.toposort() if _is_stored(n)]
    new = NewBuffers()
    for node, readers in _order_writes(stored):
        if node in filled:
            continue
        if node.op is Op.BUFFERIZE and node.source.op is Op.RESULT:
            loop = node.source.source
            results = [
                n
                for n in stored
                if n.op is Op.BUFFERIZE and n.source.op is Op.RESULT and n.source.source is loop
            ]
            fused = _fill_fused(loop, results, filled, new, max_buffers)
            filled |= (
                fill_results(loop, results, filled, new, make_body) if fused is None else fused
            )
            continue
        if node.op is Op.BUFFERIZE:
            buffer = new.make(node.dtype, prod(max_size(s) for s in node.shape), node.arg.device)
        else:
            memory = node.source
            buffer = filled.get(memory, memory)
        effects = [effect for reader in readers for effect in filled[reader].dependencies]
        call = _make_call(node, buffer.after(*effects), filled)
        propagate_labels(call, (node,))
        filled[node] = buffer.unordered.after(call)
    return UOp(Op.SINK, void, tuple(filled[s] for s in sink.src), sink.arg)


def _is_stored(node: UOp) -> bool:
    """Whether a node of the ranged graph is memory that a kernel fills: a BUFFERIZE, or memory
    after an assignment.
    """
    if node.op is Op.BUFFERIZE:
        return node.arg.space is AddressSpace.GLOBAL
    return node.op is Op.AFTER and node.dependency.op in (Op.END, Op.STORE)


def _order_writes(stored: list[UOp]) -> list[tuple[UOp, tuple[UOp, ...]]]:
    """Sort the stored nodes so that each comes after the nodes that it reads.

    Returns for each node the nodes that must run before it because they read the version of memory
    that it overwrites."""
    assigned = {n.source for n in stored if n.op is Op.AFTER}
    if not assigned:
        return [(n, ()) for n in stored]
    units = set(stored)
    below = {n: _read_by(n, units) for n in stored}
    readers_of: dict[UOp, list[UOp]] = {memory: [] for memory in assigned}
    for n in stored:
        for memory in below[n]:
            if memory in assigned:
                readers_of[memory].append(n)
    readers = {
        n: tuple(u for u in readers_of[n.source] if u is not n) if n.op is Op.AFTER else ()
        for n in stored
    }
    order: dict[UOp, tuple[UOp, ...]] = {}
    entered: set[UOp] = set()
    stack = stored[::-1]
    while stack:
        node = stack[-1]
        needed = [
            n for n in (*(u for u in below[node] if u in units), *readers[node]) if n not in order
        ]
        if node in order or not needed:
            order.setdefault(node, readers[node])
            stack.pop()
        elif node in entered:
            raise UnsupportedGraphError(
                what="a kernel that reads memory both before and after an assignment to it",
                hint="realize the tensors that read the memory before assigning to it",
            )
        else:
            entered.add(node)
            stack.extend(needed)
    return list(order.items())


def _read_by(node: UOp, units: set[UOp]) -> dict[UOp, None]:
    """Return the memory that the kernel of `node` reads: stored nodes and buffers."""
    # The target of an assignment is no input, but earlier assignments to it come before this one.
    target = node.src[:1] if node.op is Op.AFTER else ()
    effect = node.src[len(target)]
    read = {n: None for n in target if n in units}
    for n in effect.toposort(stop=units):
        if n in units or (n.op in MEMORY and n not in target):
            read[n] = None
        while n.op is Op.BUFFERIZE and n.source.op is Op.BUFFER_VIEW:
            # A reader of a view reads the memory that the view aliases.
            n = n.source.memory
            read[n] = None
    return read


def _fill_fused(
    loop: UOp, results: list[UOp], filled: dict[UOp, UOp], new: NewBuffers, max_buffers: int | None
) -> dict[UOp, UOp] | None:
    """Fuse a LOOP into kernels. Returns the memory of its results after these; None if the loop
    does not fuse.
    """
    devices = {d for n in (*results, *loop.src) if (d := n.placement) is not None}
    if loop.op is not Op.LOOP or len(devices) != 1:
        return None
    sizes = {n: prod(max_size(s) for s in n.shape) for n in results}
    # Placeholders: buffers are only numbered once the loop is known to fuse.
    placeholders = {
        n.source.arg: UOp(Op.PARAM, n.dtype, (), ParamArg(-1 - i, sizes[n]))
        for i, n in enumerate(results)
    }
    effects = fuse_loop(loop, loop.src, placeholders)
    if effects is None:
        return None
    written = [
        [
            m
            for m in placeholders.values()
            if any(n.op is Op.INDEX and n.memory is m for n in e.toposort(stop=filled))
        ]
        for e in effects
    ]
    kernels = [_Numbering(memory, filled) for memory in written]
    bodies = [kernel.make_body(effect) for kernel, effect in zip(kernels, effects, strict=True)]
    if max_buffers is not None and any(len(kernel.arguments) > max_buffers for kernel in kernels):
        return None
    memory_of: dict[UOp, UOp] = {}
    for memory, kernel, body in zip(written, kernels, bodies, strict=True):
        nodes = [n for n in results if placeholders[n.source.arg] in memory]
        buffers = [new.make(n.dtype, sizes[n], n.arg.device) for n in nodes]
        call = UOp(
            Op.CALL, void, (body, *buffers, *kernel.arguments[len(buffers) :], *kernel.bindings)
        )
        propagate_labels(call, loop.arg.body.toposort())
        propagate_labels(call, nodes)
        memory_of |= {n: b.after(call) for n, b in zip(nodes, buffers, strict=True)}
    return memory_of


def _make_call(node: UOp, buffer: UOp, filled: dict[UOp, UOp]) -> UOp:
    kernel = _Numbering([buffer], filled)
    if node.op is Op.AFTER:
        # In place: reads and writes of the target are the same argument.
        kernel.params[node.source] = kernel.params[buffer]
        effect = node.dependency
        ranges = order_loops(effect.body, effect.loops, filled) if effect.op is Op.END else ()
        # Loops of a scatter-add over rows are sequential; loops over a row's elements go inside.
        ranges = tuple(sorted(ranges, key=lambda r: r.arg.kind is not AxisType.SCAN))
        store = effect.body if effect.op is Op.END else effect
        return kernel.make_call(store, ranges)
    value = node.source
    if value.op in (Op.COPY, Op.BUFFER_VIEW):
        body = value.with_src(
            (kernel.param(value.source if value.op is Op.COPY else value.memory),)
        )
        return UOp(Op.CALL, void, (body, *kernel.arguments))
    if value.op is Op.CUSTOM_FUNCTION:
        read = read_signature(value).arrays
        arguments = tuple(get_argument(s, filled) for s in read)
        body = UOp(
            Op.CUSTOM_FUNCTION, void, tuple(s for s in value.src if s not in read), value.arg
        )
        return UOp(Op.CALL, void, (body, *kernel.arguments, *arguments))
    ranges = order_loops(value, tuple(r for r in node.loops if r.op is Op.RANGE), filled)
    flat = flatten_index(node.loops, node.shape) if node.shape else UOp.const(index, 0)
    return kernel.make_call(UOp(Op.STORE, void, (buffer.index(flat), value)), ranges)


def order_loops(value: UOp, ranges: tuple[UOp, ...], stop: Mapping[UOp, UOp]) -> tuple[UOp, ...]:
    """Order loops from outer to inner: the loops that an inner reduction depends on enclose the
    other loops.

    The loop of a scan is innermost: it runs once for each index along the other axes."""
    depth = dict.fromkeys(ranges, 0)
    for node in value.toposort(stop=stop):
        if node.op in _INNER_LOOPS and node not in stop:
            for r in node.ranges:
                if r in depth:
                    depth[r] += 1
    return tuple(sorted(ranges, key=lambda r: (r.arg.kind is AxisType.SCAN, -depth[r])))


class _Numbering:
    """The numbering of one kernel's arguments and ranges."""

    def __init__(self, written: Sequence[UOp], filled: dict[UOp, UOp]) -> None:
        self.filled = filled
        self.arguments: list[UOp] = list(written)
        self.bindings: list[UOp] = []
        # Keys are memory of the graph, values PARAMs of the kernel. A PARAM of the graph may be the
        # same node as a PARAM of the kernel, so only nodes that are not rewritten yet are keys.
        self.params: dict[UOp, UOp] = {
            m: UOp(Op.PARAM, m.dtype, (), ParamArg(i, m.unordered.arg.size))
            for i, m in enumerate(written)
        }
        self.ranges: dict[UOp, UOp] = {}
        self.fresh = FreshIds()

    def make_call(self, store: UOp, ranges: tuple[UOp, ...]) -> UOp:
        """Make the CALL of a kernel that runs `store` for each value of `ranges`."""
        for r in ranges:
            self.renumber(r)
        body = self.make_body(store.end(*ranges))
        return UOp(Op.CALL, void, (body, *self.arguments, *self.bindings))

    def make_body(self, effect: UOp) -> UOp:
        """Make the SINK of a kernel with this effect."""
        return UOp(Op.SINK, void, (self.rewrite(effect),), KernelInfo())

    def param(self, memory: UOp) -> UOp:
        """Return the PARAM for a BUFFERIZE, a buffer, or a PARAM of the graph."""
        parameter = self.params.get(memory)
        if parameter is None and has_control_dependency(memory, self.filled):
            # Both are the same memory: one argument waits for the events of all its readers.
            parameter = self.params[memory] = self.param(memory.source)
            slot: int = parameter.arg.slot
            self.arguments[slot] = self.arguments[slot].after(
                *(self.filled[event] for event in memory.dependencies)
            )
        if parameter is None:
            argument = self.filled.get(memory, memory)
            size = prod(max_size(s) for s in memory.shape)
            parameter = UOp(Op.PARAM, memory.dtype, (), ParamArg(len(self.arguments), size))
            self.params[memory] = parameter
            self.arguments.append(argument)
        return parameter

    def renumber(self, r: UOp) -> UOp:
        renumbered = self.ranges.get(r)
        if renumbered is None:
            renumbered = self.ranges[r] = self.fresh.make_range(r.stop, r.arg.kind)
        return renumbered

    def rewrite(self, body: UOp) -> UOp:
        """Rewrite `body` with numbered PARAMs and ranges, and unbound variables."""
        done: dict[UOp, UOp] = {}
        # Stored operands are arguments here; their own expressions belong to other kernels.
        for node in body.toposort(stop=self.filled):
            if (
                node in self.filled
                or node in self.params
                or node.op in MEMORY
                or has_control_dependency(node, self.filled)
            ):
                continue
            if node.op is Op.AFTER and node.source in self.params and node.source not in done:
                # The version of memory in an iteration of a loop.
                done[node] = self.params[node.source].after(*(done[r] for r in node.dependencies))
            elif node.op not in _RENUMBERED:
                done[node] = node.with_images(done)
            elif node.op is Op.BIND:
                done[node] = self._unbind(node)
            elif node.op is Op.RANGE:
                done[node] = self.renumber(node).with_src((done[node.stop],))
            elif node.op is Op.BUFFERIZE:
                done[node] = self._make_private(tuple(done[s] for s in node.src), node)
            else:
                done[node] = self._rewrite_index(node, done)
        return done[body]

    def _rewrite_index(self, node: UOp, done: dict[UOp, UOp]) -> UOp:
        memory, gate = node.memory, node.gate
        indices = [done[p] for p in (node.src[1:] if gate is None else node.src[1:-1])]
        sizes = [s if isinstance(s, int) else self._unbind_size(s) for s in memory.shape]
        flat = indices[0] if len(indices) == 1 else flatten_index(indices, sizes)
        parameter = done[memory] if memory in done else self.param(memory)
        return parameter.index(flat, gate=None if gate is None else done[gate])

    def _make_private(self, src: tuple[UOp, ...], node: UOp) -> UOp:
        """Make the private memory of a thread for a row, filled in loops of its own."""
        ranges = tuple(r for r in src[1:] if r.op is Op.RANGE)
        size = prod(max_size(s) for s in node.shape)
        register = self.fresh.make_register(node.dtype, size)
        sizes = [s if isinstance(s, int) else self._unbind_size(s) for s in node.shape]
        store = register.index(flatten_index(src[1:], sizes)).store(src[0])
        return register.after(store.end(*ranges))

    def _unbind(self, node: UOp) -> UOp:
        if node not in self.bindings:
            self.bindings.append(node)
        return node.symbol

    def _unbind_size(self, size: UOp) -> UOp:
        return size.substitute({n: self._unbind(n) for n in size.iter_ops(Op.BIND)})
