"""Tracing: run a function once on placeholders and record what it reads, writes and returns."""

from __future__ import annotations

import contextlib
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import MethodType
from typing import TYPE_CHECKING, NamedTuple, cast

from svod_ir import Op, UOp
from svod_tensor._shards import join_like, shards_of
from svod_tensor.capture.calls import iter_symbolic
from svod_tensor.capture.inputs import Input
from svod_tensor.capture.nested import Objects, Parts, flatten_one_level
from svod_tensor.capture.outside_values import Edge, is_leaf, list_outside_values
from svod_tensor.capture.placeholders import PlaceholderMap
from svod_tensor.capture.recipes import Recipe
from svod_tensor.cells import deferred, overwriting, registry
from svod_tensor.cells.recording import Capture
from svod_tensor.cells.views import is_symbolic
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.bindings import bind_to_call, check_variables
from svod_tensor.errors import CaptureError
from svod_tensor.options import resolve_config
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = ["FunctionTrace", "TracedCall", "compute_missing", "trace_call"]


class TracedCall(NamedTuple):
    """The call for which a function is traced.

    Attributes:
        name: name of the function.
        function: the function to trace.
        args: its positional arguments.
        kwargs: its keyword arguments.
        given: the tensors and variables among them.
        names: the name of each of these, and whether it is donated.
        objects: which objects are trees.
        weak: arguments that the plan does not keep alive: it is valid only as long as they live.
    """

    name: str
    function: Callable[..., object]
    args: Sequence[object]
    kwargs: Mapping[str, object]
    given: Sequence[Tensor | UOp]
    names: Sequence[tuple[str, bool]]
    objects: Objects
    weak: Collection[object]


class FunctionTrace(NamedTuple):
    """Record of one run of a function on placeholders.

    Attributes:
        capture: the tensors that it read, wrote and made.
        inputs: the placeholders with memory.
        recipes: how each result is made.
        sources: the graphs of results.
        build: arranges results as the function did.
        binds: the bound variables among the arguments, by those of the plan.
        bound: the bound variables that it used without getting them as arguments.
        edges: the outside values that its code can read.
        graphs: the graphs of results and of the memory that it assigned to.
    """

    capture: Capture
    inputs: list[Input]
    recipes: Sequence[Recipe]
    sources: Sequence[UOp]
    build: Callable[[Iterator[object]], object]
    binds: Mapping[UOp, UOp]
    bound: Sequence[UOp]
    edges: Sequence[Edge]
    graphs: Sequence[UOp]


def trace_call(call: TracedCall) -> FunctionTrace:
    """Run a function on placeholders.

    Raises:
        CaptureError: if it returns or keeps what a plan cannot give it, or changes an argument.
        VariableConflictError: if a variable has two values.
        BoundsConflictError: if two variables have one name.
    """
    name, given = call.name, call.given
    binds = bind_to_call(list(iter_symbolic(given)))
    replacer = PlaceholderMap(given, binds, call.objects)
    positional = cast("tuple[object, ...]", replacer.replace(tuple(call.args)))
    named = cast("dict[str, object]", replacer.replace(dict(call.kwargs)))
    placeholders = replacer.placeholders
    positions = [index for index, value in enumerate(given) if isinstance(value, Tensor)]
    inputs = [
        Input(position, memory, *call.names[position], shard=shard)
        for position, placeholder in zip(positions, placeholders, strict=True)
        for shard, node in enumerate(() if placeholder is None else shards_of(placeholder.uop))
        if (memory := memory_nodes.find_base(node)) is not None
    ]
    outputs: list[Tensor] = []
    weak_ids = set(map(id, call.weak))
    # Listed before the function runs: a value that the run changes then differs at the next call,
    # which captures again.
    edges = [
        edge.weaken() if id(edge.owner) in weak_ids else edge
        for edge in list_outside_values(call.function, *_list_objects(call))
    ]
    _realize_deferred(_iter_cells(edges))
    with _start_capture(name) as capture:
        build = _make_builder(name, call.function(*positional, **named), outputs)
        for copied in replacer.copies:
            copied.check(name)
        memories = {i.memory for i in inputs}
        _check_leaks(capture, memories, outputs)
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
        recipes, sources = _list_recipes(capture, inputs, given_cells, outputs)
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
    return FunctionTrace(
        capture, inputs, recipes, sources, build, binds, tuple(bound), edges, graphs
    )


def compute_missing(trace: FunctionTrace) -> bool:
    """Compute what must be in memory before a plan is made; return whether there was anything, so
    that the function must be traced again.
    """
    from svod_tensor._realize import realize_tensors

    capture = trace.capture
    if capture.without_memory:
        # Calls write in place, so the tensors need memory before the plan is made.
        realize_tensors([cell for cell, _ in capture.without_memory], resolve_config(None))
        return True
    # Pending writes of other threads. As part of the plan they would happen again at each call, so
    # they are committed.
    foreign = versions.get_pending_versions(*trace.graphs).keys() - capture.assigned.keys()
    if foreign:
        with registry.lock:
            writers = [
                cell
                for cell in registry.iter_pending_cells()
                if not foreign.isdisjoint(versions.get_pending_versions(cell.node))
            ]
        realize_tensors(writers, resolve_config(None))
        return True
    # Static analysis of the code did not see these reads.
    return _realize_deferred(
        cell for ref, _ in capture.reads.values() if (cell := ref()) is not None
    )


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


def _list_objects(call: TracedCall) -> tuple[dict[str, object], list[object]]:
    """Return the non-input arguments by parameter, and the objects that trees contain, with the
    classes of these trees.
    """
    function = call.function
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    names = names[1:] if isinstance(function, MethodType) else names
    named = {
        **{
            names[n] if n < len(names) else f"args[{n}]": value for n, value in enumerate(call.args)
        },
        **call.kwargs,
    }
    opaque: dict[str, object] = {}
    nested: list[object] = []
    for name, value in named.items():
        if not is_leaf(value):
            level = flatten_one_level(value, objects=call.objects)
            if level is None:
                opaque[name] = value
            else:
                nested += _iter_objects(value, level, call.objects)
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
    return join_like(node, list(map(versions.copy_of, shards_of(node))))
