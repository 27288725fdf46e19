"""Results of a captured call: tensors on the memory of that call, arguments, and views of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from svod_ir import Op, UOp
from svod_tensor._shards import shards_of
from svod_tensor.capture.direct import DirectResult, make_direct_result
from svod_tensor.cells import registry
from svod_tensor.cells.cell import get_spec
from svod_tensor.cells.views import Path, list_sizes, substitute_path
from svod_tensor.engine import memory_nodes
from svod_tensor.tensor import Tensor

__all__ = ["Recipe", "Results"]


class Recipe(NamedTuple):
    """Construction of one result.

    Attributes:
        source: index of its graph, or -1.
        position: index among the call's tensors, of the argument that it is or is a view of, or -1.
        held: the held tensor that it is or is a view of.
        path: from the graph, argument or held tensor to the result.
    """

    source: int = -1
    position: int = -1
    held: Tensor | None = None
    path: Path = ()


class Results:
    """Graphs over placeholders, rebuilt on the memory of each call, and views of them and of
    arguments.

    Attributes:
        binds: the bound variables in them.
        nodes: the graphs.
        recipes: how each result is made from them, or from arguments and held tensors.
        direct: the results, if each is in memory of its own, or is an argument or a held tensor
            itself; otherwise None.
    """

    __slots__ = (
        "_changing",
        "_forms",
        "_held",
        "_is_plain",
        "_owns",
        "binds",
        "direct",
        "nodes",
        "recipes",
    )

    def __init__(
        self,
        recipes: Sequence[Recipe],
        nodes: Sequence[UOp],
        placeholders: Iterable[UOp],
        own: set[UOp],
    ) -> None:
        self.nodes, self.recipes = tuple(nodes), recipes
        self._is_plain = recipes == [Recipe(index) for index in range(len(nodes))]
        # A signature fixes the spec of each result, so it is computed once.
        self._forms = [get_spec(node) for node in nodes]
        self._owns = [
            all(memory_nodes.find_base(p) in own for p in shards_of(n) if 0 not in p.shape)
            for n in nodes
        ]
        sizes = [size for recipe in recipes for size in list_sizes(recipe.path)]
        self.binds = [bind for node in (*nodes, *sizes) for bind in node.iter_ops(Op.BIND)]
        changing = {*placeholders, *self.binds}
        # Memory that is neither an argument nor a result: its BUFFER is replaced by each write.
        self._held = [
            n
            for n in dict.fromkeys(n for node in nodes for n in node.iter_ops(Op.BUFFER))
            if n not in changing
        ]
        changing.update(self._held)
        self._changing: list[UOp] = []
        # Only nodes that depend on what changes from call to call are rebuilt in each call.
        for node in UOp.sink(*nodes).toposort(stop=changing)[:-1]:
            if node not in changing and not changing.isdisjoint(node.src):
                changing.add(node)
                self._changing.append(node)
        direct = [self._find_direct(recipe) for recipe in recipes]
        # Two results on one memory share a cell, which the general path makes.
        is_once = sorted(r.source for r in recipes if r.source >= 0) == [*range(len(nodes))]
        results = [result for result in direct if result is not None]
        self.direct = results if is_once and len(results) == len(direct) else None

    def _find_direct(self, recipe: Recipe) -> DirectResult | int | Tensor | None:
        """A result in memory of its own, the position of the argument that it is, or the held tensor
        that it is.
        """
        if recipe.path:
            return None
        if recipe.source < 0:
            return recipe.position if recipe.held is None else recipe.held
        # A result that shares memory with an argument must be a view of the argument's cell, so
        # that each sees writes to the other.
        source = recipe.source
        if not self._owns[source]:
            return None
        return make_direct_result(self.nodes[source], self._forms[source])

    def make(
        self,
        node_of: dict[UOp, UOp],
        given: Sequence[Tensor | UOp],
        borrowed: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """The results for the nodes that `node_of` has for each placeholder and bound variable;
        nodes between are added to it.
        """
        for memory in self._held:
            node_of[memory] = registry.get_latest_version(memory)
        for node in self._changing:
            node_of[node] = node.with_src(
                tuple([node_of.get(operand, operand) for operand in node.src])
            )
        tensors = [
            Tensor.from_uop(node_of.get(n, n), form, owns=owns)
            for n, form, owns in zip(self.nodes, self._forms, self._owns, strict=True)
        ]
        if self._is_plain:
            return tensors
        if borrowed:
            # A program may write to the array of an argument later.
            given = [_copy_borrowed(value, borrowed) for value in given]
        return [
            _follow(recipe, tensors, given, {bind: node_of.get(bind, bind) for bind in self.binds})
            for recipe in self.recipes
        ]


def _copy_borrowed(value: Tensor | UOp, borrowed: Sequence[Tensor]) -> Tensor | UOp:
    if isinstance(value, Tensor) and any(value is tensor for tensor in borrowed):
        return Tensor(value.numpy(copy=True))
    return value


def _follow(
    recipe: Recipe,
    tensors: Sequence[Tensor],
    given: Sequence[Tensor | UOp],
    binds: Mapping[UOp, UOp],
) -> Tensor:
    source = (
        recipe.held
        if recipe.held is not None
        else tensors[recipe.source]
        if recipe.source >= 0
        else given[recipe.position]
    )
    assert isinstance(source, Tensor)
    return (
        source.along(*(substitute_path(recipe.path, binds) if binds else recipe.path))
        if recipe.path
        else source
    )
