"""Capture of a function: it runs once on placeholders, and the graph that it builds becomes
a plan.
"""

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
from svod_tensor._shards import join_parts, parts_of
from svod_tensor.capture.calls import Captured, Home, Input, Watched, iter_symbolic, list_storages
from svod_tensor.capture.dependencies import Dependency, Guards
from svod_tensor.capture.direct import DirectCall, DirectRead
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

__all__ = ["make_captured", "name_inputs"]


def make_captured(
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
) -> Captured | None:
    """Run the function on placeholders and make a plan of its graph.

    Args:
        name: of the function.
        function: what to run.
        given: its inputs.
        args: its arguments.
        kwargs: its arguments by name.
        names: the name of each input, and whether it is donated.
        config: how to compile.
        objects: which objects are trees.
        weak: arguments that the plan does not keep alive: it is for no call without them.

    Returns:
        None if it must run again: a tensor that it writes to, or a deferred one that it reads, got
            memory only now, or another thread
        wrote to one that it reads.
    """
    from svod_tensor._realize import realize_tensors

    binds = bind_to_call(list(iter_symbolic(given)))
    replacer = _Replacer(given, binds, objects)
    positional = cast("tuple[object, ...]", replacer.replace(tuple(args)))
    named = cast("dict[str, object]", replacer.replace(dict(kwargs)))
    placeholders = replacer.placeholders
    positions = [n for n, value in enumerate(given) if isinstance(value, Tensor)]
    inputs = [
        Input(position, memory, *names[position], part=number)
        for position, placeholder in zip(positions, placeholders, strict=True)
        for number, part in enumerate(() if placeholder is None else parts_of(placeholder.uop))
        if (memory := memory_nodes.find_base(part)) is not None
    ]
    outputs: list[Tensor] = []
    weak_ids = set(map(id, weak))
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
            id(p.content): n for n, p in zip(positions, placeholders, strict=True) if p is not None
        }
        recipes, sources = _list_recipes(capture, inputs, given_cells, outputs)
        memories = {i.memory for i in inputs}
        # From here on nothing refers to the results, unless the function stored one somewhere else
        # too.
        positional, named = (), {}
        del replacer
        outputs.clear()
        _check_leaks(capture, memories, ())
        capture.drop_dependents(lambda node: not memories.isdisjoint(node.iter_ops(Op.BUFFER)))
    foreign = (
        versions.get_pending_versions(*graphs).keys() - capture.assigned.keys()
        if graphs
        else set[UOp]()
    )
    if capture.without_memory:
        # Calls write to memory, which has to be there.
        realize_tensors([cell for cell, _ in capture.without_memory], resolve_config(None))
        return None
    if foreign:
        _compute(foreign)
        return None
    if _realize_deferred(cell for ref, _ in capture.reads.values() if (cell := ref()) is not None):
        # Read in a way that its code does not show.
        return None
    try:
        captured = _finish(name, capture, inputs, recipes, sources, build, config, tuple(bound))
    except BufferNotFoundError:
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
        captured.direct = _find_direct(captured)
    return captured


@contextlib.contextmanager
def _start_capture(name: str) -> Generator[Capture]:
    """Record what this thread does to tensors from now on; at the end all that was there before is
    as it was before.
    """
    from svod_tensor._realize import realize_tensors

    while True:
        with registry.lock:
            registry.wait_for_capture()
            # Assignments of this thread that pend are done now, so that they are not part of a
            # plan.
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
            # Everything is as it was before, also what other threads made of it meanwhile.
            for cell, node in reversed(capture.without_memory):
                cell.set_node(node)
            overwriting.commit_writes(capture.assigned)


def _compute(pending: Set[UOp]) -> None:
    """Do these assignments."""
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
    """Compute the deferred cells among `cells`, so that a plan reads their memory; whether there
    were any.
    """
    from svod_tensor._realize import realize_tensors

    if not deferred.has_entries():
        return False
    found = deferred.list_deferred(cells)
    if found:
        realize_tensors(found, resolve_config(None))
        deferred.discard(found)
    return bool(found)


def name_inputs(
    name: str, arguments: Sequence[Argument], donated: DonatedParameters
) -> list[tuple[str, bool]]:
    """Return the name of each input, and whether it is donated."""
    for root in {
        argument.root for argument in arguments if donated.get_name(argument.root) in donated.names
    }:
        parts = [argument for argument in arguments if argument.root == root]
        if not any(part.is_input for part in parts):
            raise DonationError(
                function=name,
                argument=donated.get_name(root),
                problem=f"is {parts[0].text}, which has no memory",
                hint="donate parameters that are tensors, or lists, tuples and dicts of tensors",
            )
    return [
        (donated.get_name(a.root) + a.place, donated.get_name(a.root) in donated.names)
        for a in arguments
        if a.is_input
    ]


def _list_objects(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    objects: Objects,
) -> tuple[dict[str, object], list[object]]:
    """Return the arguments that are no inputs, by parameter, and others that trees hold, with the
    classes of these.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    names = names[1:] if isinstance(function, MethodType) else names
    named = {
        **{names[n] if n < len(names) else f"args[{n}]": value for n, value in enumerate(args)},
        **kwargs,
    }
    whole: dict[str, object] = {}
    inside: list[object] = []
    for name, value in named.items():
        if not is_leaf(value):
            parts = flatten_one_level(value, objects=objects)
            if parts is None:
                whole[name] = value
            else:
                inside += _iter_objects(value, parts, objects)
    return whole, inside


def _iter_objects(tree: object, parts: Parts, objects: Objects) -> Iterator[object]:
    if parts.is_object:
        yield type(tree)
    for item in parts.items:
        inner = None if is_leaf(item) else flatten_one_level(item, objects=objects)
        if inner is not None:
            yield from _iter_objects(item, inner, objects)
        elif not is_leaf(item):
            yield item


class _Copy(NamedTuple):
    """A list, dict or object on placeholders that the function got for an argument, and its content
    before the function ran.
    """

    tree: object
    content: dict[object, object]

    def check(self, function: str) -> None:
        """Raise if the function changed it: the argument of a later call would not be changed.

        Raises:
            CaptureError: if it was.
        """
        before, after = self.content, _list_content(self.tree)
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


def _list_content(tree: object) -> dict[object, object]:
    if isinstance(tree, list):
        return dict(enumerate(cast("list[object]", tree)))
    if isinstance(tree, dict):
        return dict(cast("dict[object, object]", tree))
    return {**list_attributes(tree)}


class _Replacer:
    """Copies of arguments with placeholders for tensors and arrays, and with bound variables of the
    plan.

    Attributes:
        placeholders: one for each input that is a tensor, in order; None for a tensor without
            elements, which stays.
        copies: the lists, dicts and objects that were copied.
    """

    def __init__(
        self, given: Sequence[Tensor | UOp], binds: Mapping[UOp, UOp], objects: Objects
    ) -> None:
        self._binds, self._objects = binds, objects
        tensors = [value for value in given if isinstance(value, Tensor)]
        self.placeholders = [_make_placeholder(t, binds) if t.size != 0 else None for t in tensors]
        self.copies: list[_Copy] = []
        self._tensors = iter(zip(tensors, self.placeholders, strict=True))
        # A tensor that is in trees twice is one input.
        self._known: dict[int, Tensor] = {}
        self._is_each_once = len({id(t.content) for t in tensors}) == len(tensors)

    def replace(self, value: object) -> object:
        parts = flatten_one_level(value, objects=self._objects)
        if parts is not None:
            if parts.is_object and not parts.items:
                return value
            new = parts.build([self.replace(item) for item in parts.items])
            if parts.is_object or type(value) in (list, dict):
                self.copies.append(_Copy(new, _list_content(new)))
            return new
        if isinstance(value, UOp):
            return value.substitute(self._binds)
        if not isinstance(value, Tensor):
            return self._take_next() if is_array(value) else value
        if not self._is_each_once:
            return self._take_next()
        key = id(value.content)
        if key not in self._known:
            self._known[key] = self._take_next()
        return self._known[key]

    def _take_next(self) -> Tensor:
        given, placeholder = next(self._tensors)
        return given if placeholder is None else placeholder


def _make_placeholder(tensor: Tensor, binds: Mapping[UOp, UOp]) -> Tensor:
    sharding = tensor.sharding
    if sharding is None:
        return Tensor.from_uop(_make_empty(tensor.uop, str(tensor.device), binds), owns=True)
    parts = [
        part if 0 in part.shape else _make_empty(part, device, binds)
        for part, device in zip(parts_of(tensor.uop), sharding.devices, strict=True)
    ]
    return Tensor.from_uop(join_parts(parts, sharding.axis), owns=True)


def _make_empty(like: UOp, device: str, binds: Mapping[UOp, UOp]) -> UOp:
    """Memory for what `like` is on one device, with `binds` for the variables in its shape."""
    dtype = like.dtype.part
    size = math.prod(max_size(s) for s in like.shape) * (like.dtype.itemsize // dtype.itemsize)
    buffer = Buffer(get_allocator(device), dtype, size)
    shape = tuple([s if isinstance(s, int) else s.substitute(binds) for s in like.shape])
    return view_prefix(memory_nodes.make_memory(dtype, size, device, buffer), shape, like.dtype)


def _make_builder(
    name: str, result: object, outputs: list[Tensor]
) -> Callable[[Iterator[object]], object]:
    """Return a function that arranges results as the captured function did; its tensors are
    appended to `outputs`.
    """
    if isinstance(result, Tensor):
        outputs.append(result)
        return next
    if result is None:
        return _build_none
    parts = flatten_one_level(result)
    if parts is None:
        raise CaptureError(
            function=name,
            problem=f"it returns {type(result).__name__}, which is no tensor",
            hint="return tensors, or lists, tuples and dicts of tensors",
        )
    builders = [_make_builder(name, item, outputs) for item in parts.items]
    build = parts.build
    return lambda made: build([builder(made) for builder in builders])


def _build_none(_made: Iterator[object]) -> None:
    return None


def _check_leaks(capture: Capture, memories: set[UOp], outputs: Sequence[Tensor]) -> None:
    """Raise if a tensor of this run lives on somewhere: it would read a placeholder."""
    # What was assigned is memory afterwards.
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
        hint=(
            "return the tensor alone, or assign it to one that was there before, as in"
            " state.assign(...)"
        ),
    )


def _list_recipes(
    capture: Capture,
    inputs: Sequence[Input],
    given_cells: Mapping[int, int],
    outputs: Sequence[Tensor],
) -> tuple[list[Recipe], list[UOp]]:
    """Return how each result is made from graphs, arguments and tensors that the function holds;
    and the graphs.
    """
    donated = {given.position for given in inputs if given.is_donated}
    whole = {id(t.content) for t in outputs if not t.content.path}
    sources: dict[int, UOp] = {}
    recipes: list[Recipe] = []
    for tensor in outputs:
        cell, path = tensor.content.cell, tensor.content.path
        key = id(cell)
        position = given_cells.get(key)
        if position in donated:
            key, path, position = id(tensor), (), None
            sources.setdefault(key, tensor.uop)
        elif position is not None:
            recipes.append(Recipe(position=position, path=path))
            continue
        elif capture.existed_before(cell):
            # Where a variable says what is seen, each call has its own view.
            recipes.append(
                Recipe(held=Tensor.from_content(cell), path=path)
                if is_symbolic(path)
                else Recipe(held=tensor)
            )
            continue
        elif key in whole:
            sources.setdefault(key, cell.node)
        else:
            # Nobody has what it is a view of.
            key, path = id(tensor), ()
            sources.setdefault(key, tensor.uop)
        recipes.append(Recipe(list(sources).index(key), path=path))
    return recipes, [_settle_result(node, capture) for node in sources.values()]


def _settle_result(node: UOp, capture: Capture) -> UOp:
    """`node`, copied where it is a content of memory that is overwritten later."""
    if not versions.is_memory(node):
        return node
    last = {
        capture.last_versions.get(memory)
        for memory in map(versions.memory_of, versions.list_versions(node))
    } - {None}
    if last <= set(versions.list_versions(node)):
        return node
    return _make_result(node, list(map(versions.copy_of, parts_of(node))))


def _finish(
    name: str,
    capture: Capture,
    inputs: list[Input],
    recipes: Sequence[Recipe],
    sources: Sequence[UOp],
    build: Callable[[Iterator[object]], object],
    config: PrepareConfig,
    bound: Sequence[UOp],
) -> Captured:
    from svod_tensor.cells.work import make_job
    from svod_tensor.engine.compute import make_plan

    parts = [parts_of(node) for node in sources]
    written = versions.get_pending_versions(*capture.last_versions.values(), *sources)
    computed = [
        (source, number, part)
        for source, found in enumerate(parts)
        for number, part in enumerate(found)
        if 0 not in part.shape
        and not memory_nodes.is_buffer_identity(part)
        and versions.find_whole_version(part) is None
    ]
    effects = list(capture.last_versions.values())
    # What is returned as it is, or assigned to, keeps its content.
    kept = {
        *capture.last_versions,
        *(memory_nodes.find_base(part) for found in parts for part in found),
    }
    donated = {given.memory for given in inputs if given.is_donated} - kept
    graphs = [*(part for *_, part in computed), *effects]
    plan = make_plan(make_job(graphs, config, donated), config) if graphs else None
    index_of: Mapping[int, int] = {} if plan is None else plan.ast_to_buffer
    for given in inputs:
        given.index, given.is_written = (
            index_of.get(given.memory.arg.id),
            given.memory in capture.last_versions,
        )
    memories = (
        []
        if plan is None
        else [
            (
                memory_nodes.make_memory(
                    part.dtype.part, plan.buffers[index].size, plan.buffers[index].device
                ),
                index,
            )
            for (*_, part), index in zip(
                computed, plan.output_indices[: len(computed)], strict=True
            )
        ]
    )
    made = {
        (source, number): view_prefix(memory, part.shape, part.dtype)
        for (source, number, part), (memory, _) in zip(computed, memories, strict=True)
    }
    nodes = [
        _make_result(
            node,
            [
                made.get((source, n)) or part.substitute(written)
                for n, part in enumerate(parts[source])
            ],
        )
        for source, node in enumerate(sources)
    ]
    leaves = [*(given.memory for given in inputs), *(memory for memory, _ in memories)]
    own = {memory for memory, _ in memories} | {
        given.memory for given in inputs if given.is_donated
    }
    results = Results(recipes, nodes, leaves, own)
    if plan is not None:
        registry.add_plan(plan)
    for given in inputs:
        # Each call has memory in its place.
        memory_nodes.remove_buffer(given.memory)
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
        watched=_list_watched(capture),
        homes=_list_homes(capture, nodes, leaves),
        held_written=capture.get_written(),
    )


def _find_direct(captured: Captured) -> DirectCall | None:
    """Return the way of calls without variables that assign to nothing; None if there is none."""
    results, index_of = captured.results.direct, dict(captured.outputs)
    if captured.plan is None or captured.written or results is None:
        return None
    if any(result.memory not in index_of for result in results):
        return None
    reads = [
        DirectRead(i.position, i.index, i.argument if i.is_donated else None)
        for i in captured.inputs
    ]
    return DirectCall(captured.name, reads, results, index_of)


def _list_watched(capture: Capture) -> list[Watched]:
    """The tensors that the function holds, and that it read where they are not at home: they are
    part of the plan as they were.
    """
    reads = [
        read
        for read in capture.reads.values()
        # What is lent to an array is read from a copy.
        if (cell := read[0]()) is not None and (not cell.is_realized or cell.is_lent)
    ]
    return [Watched(cell, node) for cell, node in (*reads, *capture.unshared)]


def _list_homes(capture: Capture, results: Sequence[UOp], own: Iterable[UOp]) -> list[Home]:
    """The tensors in memory of their own that the function holds, and reads or writes."""
    placeholders = set(own)
    returned = {memory for node in results for memory in node.iter_ops(Op.BUFFER)}
    written = capture.get_written()
    refs = [*(ref for ref, _ in capture.reads.values()), *written]
    homes: dict[int, Home] = {}
    for cell in [cell for ref in refs if (cell := ref()) is not None]:
        if cell.is_donated or cell.is_lent or not cell.is_realized:
            continue
        memories = set(versions.iter_memories(cell.node))
        if placeholders.isdisjoint(memories):
            is_kept = not returned.isdisjoint(memories) or any(ref() is cell for ref in written)
            homes[id(cell)] = Home(weakref.ref(cell), list_storages(cell), is_kept)
    return list(homes.values())


def _make_result(node: UOp, parts: Sequence[UOp]) -> UOp:
    """Return `node` with each of its shards in memory."""
    placement = node.placement
    return join_parts(parts, placement.axis) if isinstance(placement, Sharding) else parts[0]


def _get_held(plan: ExecutionPlan | None, inputs: Sequence[Input]) -> dict[str, Buffer]:
    """The memory of tensors that a function uses without getting them as arguments."""
    if plan is None:
        return {}
    own = {given.memory.arg.id for given in inputs}
    return {
        f"a tensor that the function holds (buffer {number})": plan.buffers[index]
        for number, index in plan.ast_to_buffer.items()
        if number > 0 and number not in own
    }
