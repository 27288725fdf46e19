"""Tracing: run a function once on placeholders and make a plan of the graph that it builds."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from types import MethodType
from typing import TYPE_CHECKING, NamedTuple, cast

from svod_device import Buffer, get_allocator
from svod_ir import Op, Sharding, UOp
from svod_ir.forks import make_lock
from svod_ir.sizes import max_size
from svod_tensor._memory_views import view_prefix
from svod_tensor._shards import join_shards, shards_of
from svod_tensor.capture.calls import (
    Captured,
    HeldMemory,
    Input,
    Watched,
    iter_symbolic,
    list_storages,
)
from svod_tensor.capture.dependencies import Dependency, Guards
from svod_tensor.capture.direct import DirectCall, DirectRead, DirectResult
from svod_tensor.capture.donation import DonatedParameters
from svod_tensor.capture.keys import is_array
from svod_tensor.capture.nested import Objects, Parts, flatten_one_level, list_attributes
from svod_tensor.capture.outside_values import MISSING, Edge, is_leaf, list_outside_values
from svod_tensor.capture.recipes import Recipe, Results
from svod_tensor.capture.signature import Argument
from svod_tensor.cells import deferred, overwriting, registry
from svod_tensor.cells.recording import Capture
from svod_tensor.cells.views import is_symbolic
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.bindings import bind_to_call, check_variables
from svod_tensor.errors import BufferNotFoundError, CaptureError, DonationError
from svod_tensor.options import resolve_config
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.cells.cell import Cell
    from svod_tensor.options import PrepareConfig

__all__ = ["find_direct", "make_captured", "name_inputs"]


def make_captured(  # noqa: PLR0913 - a call, and how to compile it
    name: str,
    function: Callable[..., object],
    given: Sequence[Tensor | UOp],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    names: Sequence[tuple[str, bool]],
    config: PrepareConfig,
    *,
    objects: Objects,
    weak: Collection[object],
    may_resize: bool,
) -> Captured | None:
    """Run the function on placeholders and make a plan of its graph.

    Args:
        name: name of the function.
        function: the function to trace.
        given: its inputs.
        args: its positional arguments.
        kwargs: its keyword arguments.
        names: the name of each input, and whether it is donated.
        config: how to compile.
        objects: which objects are trees.
        weak: arguments that the plan does not keep alive: it is valid only as long as they live.
        may_resize: whether kernels with symbolic sizes will do.

    Returns:
        None if the function must run again: a tensor that it writes to, or a deferred one that it
            reads, got memory only now, or another thread wrote to one that it reads.
    """
    from svod_tensor._realize import realize_tensors

    binds = bind_to_call(list(iter_symbolic(given)))
    replacer = _PlaceholderMap(given, binds, objects)
    positional = cast("tuple[object, ...]", replacer.replace(tuple(args)))
    named = cast("dict[str, object]", replacer.replace(dict(kwargs)))
    placeholders = replacer.placeholders
    positions = [index for index, value in enumerate(given) if isinstance(value, Tensor)]
    inputs = [
        Input(position, memory, *names[position], shard=shard)
        for position, placeholder in zip(positions, placeholders, strict=True)
        for shard, node in enumerate(() if placeholder is None else shards_of(placeholder.uop))
        if (memory := memory_nodes.find_base(node)) is not None
    ]
    outputs: list[Tensor] = []
    weak_ids = set(map(id, weak))
    # Listed before the function runs: a value that the run changes then differs at the next call,
    # which captures again.
    edges = [
        edge.weaken() if id(edge.owner) in weak_ids else edge
        for edge in list_outside_values(function, *_list_objects(function, args, kwargs, objects))
    ]
    _realize_deferred(_iter_cells(edges))
    with _start_capture(name) as capture:
        build = _make_builder(name, function(*positional, **named), outputs)
        for copied in replacer.copies:
            copied.check(name)
        _check_leaks(capture, {i.memory for i in inputs}, outputs)
        graphs = [*capture.last_versions.values(), *(t.uop for t in outputs)]
        check_variables([*binds, *graphs])
        own = set(binds.values())
        bound = dict.fromkeys(
            bind for bind in UOp.sink(*graphs).iter_ops(Op.BIND) if bind not in own
        )
        given_cells = {
            id(p.content): index
            for index, p in zip(positions, placeholders, strict=True)
            if p is not None
        }
        returned = _list_recipes(capture, inputs, given_cells, outputs)
        memories = {i.memory for i in inputs}
        # Drop all references to the results: one that is still alive now was stored by the
        # function.
        positional, named = (), {}
        del replacer
        outputs.clear()
        _check_leaks(capture, memories, ())
        # A graph on an assigned version stays live: it is rebound to the memory below.
        capture.drop_dependents(
            lambda node: not memories.isdisjoint(node.toposort(stop=capture.assigned))
        )
    # Pending writes of other threads. As part of the plan they would happen again at each call, so
    # they are committed and the function runs once more.
    foreign = (
        versions.get_pending_versions(*graphs).keys() - capture.assigned.keys()
        if graphs
        else set[UOp]()
    )
    if capture.without_memory:
        # Calls write in place, so the tensors need memory before the plan is made.
        realize_tensors([cell for cell, _ in capture.without_memory], resolve_config(None))
        return None
    if foreign:
        _compute(foreign)
        return None
    if _realize_deferred(cell for ref, _ in capture.reads.values() if (cell := ref()) is not None):
        # Static analysis of the code did not see this read.
        return None
    try:
        captured = _build_captured(
            name,
            capture,
            inputs,
            returned,
            build,
            config,
            tuple(bound),
            may_resize=may_resize and not binds,
        )
    except BufferNotFoundError:
        # Another thread overwrote memory that the trace read: run again. Any other missing buffer
        # is an error.
        memories = set(UOp.sink(*graphs).iter_ops(Op.BUFFER))
        if all(registry.get_latest_version(memory) is memory for memory in memories):
            raise
        return None
    reads = list(
        {read: Dependency(name, read, value) for name, read, value in capture.dependencies}.values()
    )
    captured.dependencies = [*reads, *map(Dependency.on, edges)]
    captured.guards = Guards(edges, reads) if captured.dependencies else None
    if not binds and not bound:
        captured.direct = find_direct(captured)
    return captured


@contextlib.contextmanager
def _start_capture(name: str) -> Generator[Capture]:
    """Record this thread's operations on tensors in the block; afterwards all existing tensors are
    as before.
    """
    from svod_tensor._realize import realize_tensors

    while True:
        with registry.lock:
            registry.wait_for_capture()
            # Commit pending writes of this thread first, so that they do not become part of the
            # plan and happen again at each call.
            cells = registry.iter_pending_cells()
            pending = [
                cell
                for cell in cells
                if any(map(versions.is_own_write, versions.get_pending_versions(cell.node)))
            ]
            if not pending:
                capture = Capture(name)
                registry.start_capture(capture)
                break
        realize_tensors(pending, resolve_config(None))
    try:
        yield capture
    finally:
        with registry.lock:
            registry.end_capture()
            # Undo the writes, in graphs that other threads built on them meanwhile too.
            # Backwards, so that a cell with several writes ends with the node from before the
            # first.
            for cell, node in reversed(capture.without_memory):
                cell.set_node(node)
            overwriting.commit_writes(capture.assigned)


def _compute(pending: Set[UOp]) -> None:
    """Commit pending writes."""
    from svod_tensor._realize import realize_tensors

    with registry.lock:
        needed = [
            c
            for c in registry.iter_pending_cells()
            if not pending.isdisjoint(versions.get_pending_versions(c.node))
        ]
    realize_tensors(needed, resolve_config(None))


def _iter_cells(edges: Iterable[Edge]) -> Iterator[Cell]:
    """Yield the cells of the tensors that code can read."""
    for edge in edges:
        values = (
            cast("tuple[object, ...]", edge.value) if edge.kind == "elements" else (edge.value,)
        )
        for value in values:
            if isinstance(value, Tensor):
                yield value.content.cell


def _realize_deferred(cells: Iterable[Cell]) -> bool:
    """Compute the deferred cells among `cells`, so that a plan reads their memory; return whether
    there were any.
    """
    from svod_tensor._realize import realize_tensors

    if not deferred.has_entries():
        return False
    pending = deferred.list_deferred(cells)
    if pending:
        realize_tensors(pending, resolve_config(None))
        deferred.discard(pending)
    return bool(pending)


def name_inputs(
    name: str, arguments: Sequence[Argument], donated: DonatedParameters
) -> list[tuple[str, bool]]:
    """Return the name of each input, and whether it is donated."""
    for root in {
        argument.root for argument in arguments if donated.get_name(argument.root) in donated.names
    }:
        items = [argument for argument in arguments if argument.root == root]
        if not any(item.is_input for item in items):
            raise DonationError(
                function=name,
                argument=donated.get_name(root),
                problem=f"is {items[0].text}, which has no memory",
                hint="donate parameters that are tensors, or lists, tuples and dicts of tensors",
            )
    return [
        (donated.get_name(a.root) + a.path_in_root, donated.get_name(a.root) in donated.names)
        for a in arguments
        if a.is_input
    ]


def _list_objects(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    objects: Objects,
) -> tuple[dict[str, object], list[object]]:
    """Return the non-input arguments by parameter, and the objects that trees contain, with the
    classes of these trees.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    names = names[1:] if isinstance(function, MethodType) else names
    named = {
        **{names[n] if n < len(names) else f"args[{n}]": value for n, value in enumerate(args)},
        **kwargs,
    }
    opaque: dict[str, object] = {}
    nested: list[object] = []
    for name, value in named.items():
        if not is_leaf(value):
            level = flatten_one_level(value, objects=objects)
            if level is None:
                opaque[name] = value
            else:
                nested += _iter_objects(value, level, objects)
    return opaque, nested


def _iter_objects(tree: object, level: Parts, objects: Objects) -> Iterator[object]:
    if level.is_object:
        # Methods of the class may read outside values, too.
        yield type(tree)
    for item in level.items:
        inner = None if is_leaf(item) else flatten_one_level(item, objects=objects)
        if inner is not None:
            yield from _iter_objects(item, inner, objects)
        elif not is_leaf(item):
            yield item


class _CopiedTree(NamedTuple):
    """A copied list, dict or object on placeholders, and its entries before the function ran."""

    tree: object
    content: dict[object, object]

    def check(self, function: str) -> None:
        """Raise if the function changed it: the argument of a later call would not be changed.

        Raises:
            CaptureError: if the function changed it.
        """
        before, after = self.content, _list_entries(self.tree)
        changed = [
            key
            for key in {**before, **after}
            if before.get(key, MISSING) is not after.get(key, MISSING)
        ]
        if not changed:
            return
        kind = type(self.tree).__name__
        is_container = isinstance(self.tree, (list, dict))
        where = (
            f"an element of a {kind}"
            if is_container
            else f"the attribute `{changed[0]}` of a {kind}"
        )
        raise CaptureError(
            function=function,
            problem=f"it sets {where} that is an argument",
            hint="return the new value, or write to a tensor that is there, as in x.assign(...)",
        )


def _list_entries(tree: object) -> dict[object, object]:
    if isinstance(tree, list):
        return dict(enumerate(cast("list[object]", tree)))
    if isinstance(tree, dict):
        return dict(cast("dict[object, object]", tree))
    return {**list_attributes(tree)}


class _PlaceholderMap:
    """Copies of arguments, with placeholders for tensors and arrays and with the plan's bound
    variables.

    Attributes:
        placeholders: one for each tensor input, in order; None for a tensor without elements, which
            is not replaced.
        copies: the lists, dicts and objects that were copied.
    """

    def __init__(
        self, given: Sequence[Tensor | UOp], binds: Mapping[UOp, UOp], objects: Objects
    ) -> None:
        self._binds, self._objects = binds, objects
        tensors = [value for value in given if isinstance(value, Tensor)]
        self.placeholders = [_make_placeholder(t, binds) if t.size != 0 else None for t in tensors]
        self.copies: list[_CopiedTree] = []
        self._tensors = iter(zip(tensors, self.placeholders, strict=True))
        # A tensor that occurs twice in trees is one input.
        self._known: dict[int, Tensor] = {}
        self._is_unique = len({id(t.content) for t in tensors}) == len(tensors)

    def replace(self, value: object) -> object:
        level = flatten_one_level(value, objects=self._objects)
        if level is not None:
            if level.is_object and not level.items:
                return value
            new = level.build([self.replace(item) for item in level.items])
            if level.is_object or type(value) in (list, dict):
                self.copies.append(_CopiedTree(new, _list_entries(new)))
            return new
        if isinstance(value, UOp):
            return value.substitute(self._binds)
        if not isinstance(value, Tensor):
            return self._take_next() if is_array(value) else value
        if not self._is_unique:
            return self._take_next()
        key = id(value.content)
        if key not in self._known:
            self._known[key] = self._take_next()
        return self._known[key]

    def _take_next(self) -> Tensor:
        tensor, placeholder = next(self._tensors)
        return tensor if placeholder is None else placeholder


def _make_placeholder(tensor: Tensor, binds: Mapping[UOp, UOp]) -> Tensor:
    sharding = tensor.sharding
    if sharding is None:
        return Tensor.from_uop(_make_empty(tensor.uop, str(tensor.device), binds), owns=True)
    shards = [
        shard if 0 in shard.shape else _make_empty(shard, device, binds)
        for shard, device in zip(shards_of(tensor.uop), sharding.devices, strict=True)
    ]
    return Tensor.from_uop(join_shards(shards, sharding.axis), owns=True)


def _make_empty(like: UOp, device: str, binds: Mapping[UOp, UOp]) -> UOp:
    """New memory for `like` on one device, with `binds` for the variables in its shape."""
    dtype = like.dtype.part
    size = math.prod(max_size(s) for s in like.shape) * (like.dtype.itemsize // dtype.itemsize)
    buffer = Buffer(get_allocator(device), dtype, size)
    shape = tuple([s if isinstance(s, int) else s.substitute(binds) for s in like.shape])
    return view_prefix(memory_nodes.make_memory(dtype, size, device, buffer), shape, like.dtype)


def _make_builder(
    name: str, result: object, outputs: list[Tensor]
) -> Callable[[Iterator[object]], object]:
    """Return a function that arranges results as the traced function did; append its tensors to
    `outputs`.
    """
    if isinstance(result, Tensor):
        outputs.append(result)
        # `next` itself: the fast path recognizes a single result by it (`quick.QuickCall`).
        return next
    if result is None:
        return _build_none
    level = flatten_one_level(result)
    if level is None:
        raise CaptureError(
            function=name,
            problem=f"it returns {type(result).__name__}, which is not a tensor",
            hint="return tensors, or lists, tuples and dicts of tensors",
        )
    builders = [_make_builder(name, item, outputs) for item in level.items]
    build = level.build
    return lambda results: build([builder(results) for builder in builders])


def _build_none(_made: Iterator[object]) -> None:
    return None


def _check_leaks(capture: Capture, memories: set[UOp], outputs: Sequence[Tensor]) -> None:
    """Raise if a tensor of this trace outlives it: it would read a placeholder."""
    # Stop at versions: assigned tensors are rebound to memory after the trace.
    leaked = capture.find_leak(
        [t.content for t in outputs],
        lambda node: not memories.isdisjoint(node.toposort(stop=capture.assigned)),
    )
    if leaked is None:
        return
    raise CaptureError(
        function=capture.name,
        problem=(
            f"a tensor of shape {leaked.shape} that it computes is still held after it returned"
        ),
        hint=("only return the tensor, or assign it to an existing one, as in state.assign(...)"),
    )


def _list_recipes(
    capture: Capture,
    inputs: Sequence[Input],
    given_cells: Mapping[int, int],
    outputs: Sequence[Tensor],
) -> tuple[list[Recipe], list[UOp]]:
    """Return how each result is made from graphs, arguments and held tensors, and the graphs."""
    donated = {input_.position for input_ in inputs if input_.is_donated}
    returned_whole = {id(t.content) for t in outputs if not t.content.path}
    sources: dict[int, UOp] = {}
    recipes: list[Recipe] = []
    for tensor in outputs:
        cell, path = tensor.content.cell, tensor.content.path
        key = id(cell)
        position = given_cells.get(key)
        # A donated argument that is returned becomes a result in its memory: the argument itself
        # cannot be used after the call.
        if position in donated:
            key, path, position = id(tensor), (), None
            sources.setdefault(key, tensor.uop)
        elif position is not None:
            recipes.append(Recipe(position=position, path=path))
            continue
        elif capture.existed_before(cell):
            # The bounds of the view depend on a variable: each call makes its own view.
            recipes.append(
                Recipe(held=Tensor.from_content(cell), path=path)
                if is_symbolic(path)
                else Recipe(held=tensor)
            )
            continue
        # The view shares memory with another result, as it does in the plain function.
        elif key in returned_whole:
            sources.setdefault(key, cell.node)
        else:
            # The viewed tensor is not returned, so the view itself is computed.
            key, path = id(tensor), ()
            sources.setdefault(key, tensor.uop)
        recipes.append(Recipe(list(sources).index(key), path=path))
    return recipes, [_copy_overwritten(node, capture) for node in sources.values()]


def _copy_overwritten(node: UOp, capture: Capture) -> UOp:
    """`node`, copied if it is a version of memory that a later write of the plan overwrites."""
    if not versions.is_memory(node):
        return node
    last = {
        capture.last_versions.get(memory)
        for memory in map(versions.memory_of, versions.list_versions(node))
    } - {None}
    # No later write overwrites this version: it can be returned without a copy.
    if last <= set(versions.list_versions(node)):
        return node
    return _make_result(node, list(map(versions.copy_of, shards_of(node))))


def _build_captured(
    name: str,
    capture: Capture,
    inputs: list[Input],
    returned: tuple[Sequence[Recipe], Sequence[UOp]],
    build: Callable[[Iterator[object]], object],
    config: PrepareConfig,
    bound: Sequence[UOp],
    *,
    may_resize: bool,
) -> Captured:
    from svod_tensor.cells.work import make_job
    from svod_tensor.engine.compute import make_plan
    from svod_tensor.engine.size_history import note_sizes

    recipes, sources = returned
    shards = [shards_of(node) for node in sources]
    written = versions.get_pending_versions(*capture.last_versions.values(), *sources)
    computed = [
        (source, index, shard)
        for source, node_shards in enumerate(shards)
        for index, shard in enumerate(node_shards)
        if 0 not in shard.shape
        and not memory_nodes.is_buffer_identity(shard)
        and versions.find_whole_version(shard) is None
    ]
    effects = list(capture.last_versions.values())
    # Memory that is returned unchanged, or assigned to, must not be reused for donation.
    kept = {
        *capture.last_versions,
        *(memory_nodes.find_base(shard) for node_shards in shards for shard in node_shards),
    }
    donated = {input_.memory for input_ in inputs if input_.is_donated} - kept
    graphs = [*(shard for *_, shard in computed), *effects]
    plan, is_resized = None, False
    if graphs:
        job = make_job(graphs, config, donated)
        if not may_resize:
            note_sizes(job, config)
        plan = make_plan(job, config, may_resize=may_resize)
        # A graph without variables has none in its plan, except for sizes.
        is_resized = bool(plan.template.bounds) and not job.graph.values
    index_of: Mapping[int, int] = {} if plan is None else plan.ast_to_buffer
    for input_ in inputs:
        input_.index, input_.is_written = (
            index_of.get(input_.memory.arg.id),
            input_.memory in capture.last_versions,
        )
    memories = (
        []
        if plan is None
        else [
            (
                memory_nodes.make_memory(
                    shard.dtype.part, plan.buffers[index].size, plan.buffers[index].device
                ),
                index,
            )
            for (*_, shard), index in zip(
                computed, plan.output_indices[: len(computed)], strict=True
            )
        ]
    )
    realized = {
        (source, index): view_prefix(memory, shard.shape, shard.dtype)
        for (source, index, shard), (memory, _) in zip(computed, memories, strict=True)
    }
    nodes = [
        _make_result(
            node,
            [
                realized.get((source, n)) or shard.substitute(written)
                for n, shard in enumerate(shards[source])
            ],
        )
        for source, node in enumerate(sources)
    ]
    leaves = [*(input_.memory for input_ in inputs), *(memory for memory, _ in memories)]
    own = {memory for memory, _ in memories} | {
        input_.memory for input_ in inputs if input_.is_donated
    }
    results = Results(recipes, nodes, leaves, own)
    if plan is not None:
        registry.add_plan(plan)
    for input_ in inputs:
        # Placeholders need no storage: each call binds its own.
        memory_nodes.remove_buffer(input_.memory)
    return Captured(
        name,
        plan,
        inputs,
        memories,
        results,
        build,
        set(capture.last_versions),
        _get_held(plan, inputs),
        bound,
        make_lock(),
        is_resized=is_resized,
        watched=_list_watched(capture),
        held_memory=_list_held_memory(capture, nodes, leaves),
        held_written=capture.get_written(),
    )


def find_direct(captured: Captured) -> DirectCall | None:
    """Return the direct calls of a function without variables; None if a result shares memory, or
    the function writes and takes memory.
    """
    results, index_of = captured.results.direct, dict(captured.outputs)
    if captured.plan is None or results is None:
        return None
    if captured.written and any(i.is_donated for i in captured.inputs):
        return None
    if any(isinstance(r, DirectResult) and r.memory not in index_of for r in results):
        return None
    reads = [
        DirectRead(i.position, i.index, i.argument if i.is_donated else None)
        for i in captured.inputs
    ]
    return DirectCall(captured.name, reads, results, index_of, captured.sizes)


def _list_watched(capture: Capture) -> list[Watched]:
    """The tensors without memory of their own that the function read: the plan contains their
    graphs as they were.
    """
    reads = [
        read
        for read in capture.reads.values()
        # Of lent memory, the plan reads a snapshot.
        if (cell := read[0]()) is not None and (not cell.is_realized or cell.is_lent)
    ]
    return [Watched(cell, node) for cell, node in (*reads, *capture.unshared)]


def _list_held_memory(
    capture: Capture, results: Sequence[UOp], own: Iterable[UOp]
) -> list[HeldMemory]:
    """The held tensors in memory of their own that the function reads or writes."""
    placeholders = set(own)
    returned = {memory for node in results for memory in node.iter_ops(Op.BUFFER)}
    written = capture.get_written()
    refs = [*(ref for ref, _ in capture.reads.values()), *written]
    held_memory: dict[int, HeldMemory] = {}
    for cell in [cell for ref in refs if (cell := ref()) is not None]:
        if cell.is_donated or cell.is_lent or not cell.is_realized:
            continue
        memories = set(versions.iter_memories(cell.node))
        if placeholders.isdisjoint(memories):
            # An array on such memory would change with a later call, or change a result.
            is_kept = not returned.isdisjoint(memories) or any(ref() is cell for ref in written)
            held_memory[id(cell)] = HeldMemory(weakref.ref(cell), list_storages(cell), is_kept)
    return list(held_memory.values())


def _make_result(node: UOp, shards: Sequence[UOp]) -> UOp:
    """Return `node` with each of its shards in memory."""
    placement = node.placement
    return join_shards(shards, placement.axis) if isinstance(placement, Sharding) else shards[0]


def _get_held(plan: ExecutionPlan | None, inputs: Sequence[Input]) -> dict[str, Buffer]:
    """The memory that a plan uses besides its arguments, by its name in messages."""
    if plan is None:
        return {}
    own = {input_.memory.arg.id for input_ in inputs}
    return {
        f"a tensor that the function holds (buffer {node_id})": plan.buffers[index]
        for node_id, index in plan.ast_to_buffer.items()
        # Negative ids are intermediates of the plan.
        if node_id > 0 and node_id not in own
    }
