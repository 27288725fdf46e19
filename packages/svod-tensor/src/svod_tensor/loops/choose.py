"""`cond` and `switch`: branches selected by a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from svod_dtype import DType, bool_, index, result_type
from svod_ir import OperandError, Sharding, UOp, make_empty
from svod_ir.loops import make_switch
from svod_ir.placement import is_on_mesh
from svod_tensor._data import make_constant
from svod_tensor._function_name import name_function
from svod_tensor._generator import default_generator
from svod_tensor._trees import Structure, flatten
from svod_tensor._variable import Variable
from svod_tensor.cells.writing import write
from svod_tensor.errors import BranchError, LoopArgumentError
from svod_tensor.loops.closing import OpenBody, OperandShard, close
from svod_tensor.loops.tracing import (
    Placeholder,
    Redirection,
    Trace,
    list_live_nodes,
    make_placeholder,
    start_trace,
)
from svod_tensor.loops.values import (
    FlatTree,
    describe,
    is_number,
    read_leaf,
    read_tree,
    transfer,
    unbind_shape,
)
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = ["cond", "switch"]


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)`, as one node of the graph.

    Both functions are traced once, on tensors without values, as in `scan`. Only the selected
    branch is computed, and only its assignments to other tensors take effect.

    Args:
        pred: a bool of shape ().
        true_fun: a function of the operands that returns nested lists, tuples and dicts of
            tensors, arrays and numbers.
        false_fun: a function of the operands whose result has the same structure, shapes, dtypes
            and devices.
        operands: nested tensors, arrays and numbers.

    Returns:
        the result of the selected function.

    Raises:
        OperandError: if `pred` is not a bool of shape ().
        BranchError: if the results differ in structure, shape, dtype or device.
        LoopArgumentError: if an operand or a result is not a tensor.
        TraceError: if a function reads values, or keeps a tensor.

    Example:
        >>> from svod_tensor import Tensor, cond
        >>> x = Tensor([3.0, 4.0])
        >>> cond(x.sum() > 5, lambda x: x / x.sum(), lambda x: x, x).tolist()
        [0.4285714328289032, 0.5714285969734192]
    """
    names = f"true_fun ({name_function(true_fun)})", f"false_fun ({name_function(false_fun)})"
    # False selects body 0.
    return _choose("cond", _read_predicate(pred), (false_fun, true_fun), names[::-1], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, as one node of the graph, as in `cond`.

    An index out of bounds is clamped to the first or last branch.

    Args:
        index: an integer, a variable, or a tensor of one integer.
        branches: functions of the operands, whose results have the same structure, shapes, dtypes
            and devices.
        operands: nested lists, tuples and dicts of tensors, arrays and numbers.

    Returns:
        the result of the selected branch.

    Raises:
        OperandError: if `index` is not an integer of shape ().
        BranchError: if the results differ in structure, shape, dtype or device.
        LoopArgumentError: if there is no branch, or an operand or a result is not a tensor.
        TraceError: if a branch reads values, or keeps a tensor.

    Example:
        >>> from svod_tensor import Tensor, switch
        >>> switch(Tensor(1), [lambda x: x + 1, lambda x: x * 10, lambda x: -x], Tensor([1, 2])).tolist()
        [10, 20]
    """
    if not branches:
        raise LoopArgumentError(
            operation="switch", problem="there is no branch", hint="give at least one function"
        )
    names = [
        f"branches[{position}] ({name_function(branch)})"
        for position, branch in enumerate(branches)
    ]
    return _choose("switch", _read_index(index), branches, names, operands)


def _read_predicate(pred: object) -> UOp:
    if isinstance(pred, bool):
        return UOp.const(index, int(pred))
    if isinstance(pred, Tensor) and pred.dtype is bool_ and pred.shape == ():
        return pred.cast("int64").uop
    if hasattr(pred, "__array_interface__"):
        return _read_predicate(Tensor(pred))  # pyright: ignore[reportArgumentType]
    description = describe(pred.uop) if isinstance(pred, Tensor) else repr(pred)
    raise OperandError(
        operation="cond",
        found=f"pred {description}",
        expected="a bool of shape (), as x > 0 gives for a number x",
    )


def _read_index(selector: object) -> UOp:
    if isinstance(selector, Variable):
        return selector.uop
    if isinstance(selector, UOp):
        return selector
    if isinstance(selector, Tensor) and selector.dtype.is_int and selector.shape == ():
        return selector.uop
    if isinstance(selector, (Tensor, bool)) or not hasattr(selector, "__index__"):
        description = describe(selector.uop) if isinstance(selector, Tensor) else repr(selector)
        raise OperandError(
            operation="switch", found=f"index {description}", expected="an integer of shape ()"
        )
    return UOp.const(index, int(selector.__index__()))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


class _Branch(NamedTuple):
    """Results of a trace of a branch, in terms of placeholders."""

    name: str
    structure: Structure
    values: list[object]
    shards: dict[UOp, OperandShard]
    redirections: dict[int, tuple[Redirection, UOp]]


def _choose(
    operation: str,
    selector: UOp,
    functions: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: Sequence[object],
) -> Any:
    # The default generator must exist before a branch, which may be the first to sample from it.
    default_generator()
    tree = read_tree(operation, "operands", tuple(operands))
    # Before the branches run: only values that other tensors need may be hoisted. A value that one
    # branch needs would otherwise be computed for the others, too.
    live_nodes = list_live_nodes()
    branches = [_trace(operation, f, n, tree) for f, n in zip(functions, names, strict=True)]
    for branch in branches[1:]:
        difference = branches[0].structure.find_difference(branch.structure)
        if difference is not None:
            raise _make_error(
                operation,
                f"result{difference.path}",
                difference.left,
                difference.right,
                branches[0],
                branch,
            )
    results = [
        _unify(operation, f"result{path}", branches, position)
        for position, path in enumerate(branches[0].structure.paths)
    ]
    # A cell that only some branches write to keeps its value in the other branches.
    written = list(dict.fromkeys(key for branch in branches for key in branch.redirections))
    cells = [
        next(b.redirections[key][0] for b in branches if key in b.redirections) for key in written
    ]
    for key, redirection in zip(written, cells, strict=True):
        results.append(
            [
                b.redirections[key][1] if key in b.redirections else redirection.node
                for b in branches
            ]
        )
    operand_nodes = [leaf.node for leaf in tree.leaves] + [
        redirection.node for redirection in cells
    ]
    n_leaves = len(tree.leaves)
    # Values without elements have no memory, and need no result of the SWITCH.
    nonempty_results = [values for values in results if 0 not in values[0].shape]
    bodies: list[OpenBody] = []
    for position, branch in enumerate(branches):
        shards = dict(branch.shards)
        for n, key in enumerate(written):
            if key in branch.redirections:
                memories = branch.redirections[key][0].placeholder.memories
                shards.update(
                    (memory, OperandShard(n_leaves + n, shard))
                    for shard, memory in enumerate(memories)
                )
        bodies.append(OpenBody([values[position] for values in nonempty_results], shards))
    outputs = iter(())
    if nonempty_results:
        closed = close(bodies, operand_nodes, live_nodes)
        outputs = iter(make_switch(selector, closed.bodies, closed.operands))
    nodes = [values[0] if 0 in values[0].shape else next(outputs) for values in results]
    for redirection, node in zip(cells, nodes[branches[0].structure.n_leaves :], strict=True):
        write(redirection.cell, (), node)
    return branches[0].structure.unflatten(
        [Tensor.from_uop(n) for n in nodes[: branches[0].structure.n_leaves]]
    )


def _trace(operation: str, function: Callable[..., Any], name: str, tree: FlatTree) -> _Branch:
    """Trace a branch, a second time if it writes to cells that were not redirected."""
    written: dict[int, Cell] = {}
    while True:
        trace = Trace(operation, name, None)
        with start_trace(trace, written):
            placeholders = [
                None if leaf.is_empty else make_placeholder(leaf.node) for leaf in tree.leaves
            ]
            arguments = tree.structure.unflatten(
                [
                    Tensor.from_uop(leaf.node if placeholder is None else placeholder.node)
                    for leaf, placeholder in zip(tree.leaves, placeholders, strict=True)
                ]
            )
            leaves, structure = flatten(function(*arguments))  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]
            del arguments
            values = [
                leaf if is_number(leaf) else read_leaf(operation, f"result{path}", leaf).node
                for leaf, path in zip(leaves, structure.paths, strict=True)
            ]
            redirections = {
                key: (redirection, redirection.cell.node)
                for key, redirection in trace.redirections.items()
            }
            shards = _list_shards(placeholders)
            if not trace.has_new_writes:
                trace.check_leaks(shards, [leaf for leaf in leaves if isinstance(leaf, Tensor)])
        # Otherwise the branch read a cell before its write redirected it: trace again with the
        # placeholder from the start.
        if not trace.has_new_writes:
            return _Branch(name, structure, values, shards, redirections)
        written.update((key, redirection.cell) for key, (redirection, _) in redirections.items())


def _list_shards(placeholders: Sequence[Placeholder | None]) -> dict[UOp, OperandShard]:
    return {
        memory: OperandShard(operand, shard)
        for operand, placeholder in enumerate(placeholders)
        if placeholder is not None
        for shard, memory in enumerate(placeholder.memories)
    }


def _unify(operation: str, path: str, branches: Sequence[_Branch], position: int) -> list[UOp]:
    """The values of all branches for one leaf of the result, in one dtype and placement.

    Python numbers take the dtype of the tensors.
    """
    values = [branch.values[position] for branch in branches]
    # Tensors decide the dtype: Python numbers are weak, as in JAX.
    first = next((n for n, value in enumerate(values) if isinstance(value, UOp)), None)
    dtype = result_type(*values) if first is None else _get_dtype(values[first])
    nodes = [_to_node(value, dtype) for value in values]
    like = nodes[first or 0]
    placed = next(
        (node for node in nodes if is_on_mesh(node.placement)),
        next((node for node in nodes if node.placement is not None), like),
    )
    for i, node in enumerate(nodes):
        if node.dtype is not dtype or unbind_shape(node) != unbind_shape(like):
            raise _make_error(
                operation, path, describe(like), describe(node), branches[first or 0], branches[i]
            )
        if node.placement not in (None, placed.placement):
            is_movable = is_on_mesh(placed.placement) or (
                isinstance(placed.placement, Sharding) and node.device == placed.device
            )
            if not is_movable:
                texts = (describe(placed, with_device=True), describe(node, with_device=True))
                raise _make_error(
                    operation, path, *texts, branches[nodes.index(placed)], branches[i]
                )
            nodes[i] = transfer(node, placed.placement)
    return [make_empty(dtype, node.shape) if 0 in node.shape else node for node in nodes]


def _get_dtype(value: object) -> DType:
    assert isinstance(value, UOp)
    return value.dtype


def _to_node(value: object, dtype: DType) -> UOp:
    if isinstance(value, UOp):
        return value
    assert isinstance(value, (bool, int, float))
    # A number that does not fit gets a wider dtype, which the caller refuses.
    wider = result_type(dtype, value)
    return make_constant(value, wider)


def _make_error(
    operation: str, path: str, first: str, second: str, left: _Branch, right: _Branch
) -> BranchError:
    return BranchError(
        operation=operation, path=path, first=first, other=second, branches=(left.name, right.name)
    )
