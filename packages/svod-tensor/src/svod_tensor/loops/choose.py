"""`cond` and `switch`: computing one of several things, which a value says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from svod_dtype import DType, bool_, index, result_type
from svod_ir import OperandError, Sharding, UOp, make_empty
from svod_ir.loops import make_switch
from svod_tensor._data import make_constant
from svod_tensor._generator import default_generator
from svod_tensor._trees import Structure, flatten
from svod_tensor._variable import Variable
from svod_tensor.cells.writing import write
from svod_tensor.errors import BranchError, LoopArgumentError
from svod_tensor.loops.closing import Open, OperandPart, close
from svod_tensor.loops.tracing import (
    Mask,
    Placeholder,
    Trace,
    list_known,
    make_placeholder,
    start_trace,
)
from svod_tensor.loops.values import (
    Given,
    describe,
    is_number,
    name_function,
    place,
    read_given,
    read_leaf,
    unbind_shape,
)
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = ["cond", "switch"]


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """`true_fun(*operands)` where `pred` holds, else `false_fun(*operands)`; one node of the graph,
    which computes one of them.

    Both functions run once, on tensors without values, as that of `scan` does. Only what the
    function that is taken computes is computed, and only what it assigns to other tensors is
    assigned.

    Args:
        pred: a bool of shape ().
        true_fun: from the operands to nested lists, tuples and dicts of tensors, arrays and
            numbers.
        false_fun: likewise, to values of the same structure, shapes, dtypes and devices.
        operands: nested tensors, arrays and numbers.

    Returns:
        what the function gives.

    Raises:
        OperandError: if `pred` is no bool of shape ().
        BranchError: if the functions give values of different kinds.
        LoopArgumentError: if an operand, or a result, is no tensor.
        TraceError: if a function reads values, or keeps a tensor.

    Example:
        >>> from svod_tensor import Tensor, cond
        >>> x = Tensor([3.0, 4.0])
        >>> cond(x.sum() > 5, lambda x: x / x.sum(), lambda x: x, x).tolist()
        [0.4285714328289032, 0.5714285969734192]
    """
    names = f"true_fun ({name_function(true_fun)})", f"false_fun ({name_function(false_fun)})"
    # The first body of the two is that of 0.
    return _choose("cond", _read_predicate(pred), (false_fun, true_fun), names[::-1], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, as `cond` does it; an index below 0 takes the first, one beyond
    the last the last.

    Args:
        index: an integer, a variable, or a tensor of one integer.
        branches: functions from the operands to values of the same structure, shapes, dtypes and
            devices.
        operands: nested lists, tuples and dicts of tensors, arrays and numbers.

    Returns:
        what the branch gives.

    Raises:
        OperandError: if `index` is no integer of shape ().
        BranchError: if the branches give values of different kinds.
        LoopArgumentError: if there is no branch, or an operand, or a result, is no tensor.
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
        f"branches[{number}] ({name_function(branch)})" for number, branch in enumerate(branches)
    ]
    return _choose("switch", _read_index(index), branches, names, operands)


def _read_predicate(pred: object) -> UOp:
    if isinstance(pred, bool):
        return UOp.const(index, int(pred))
    if isinstance(pred, Tensor) and pred.dtype is bool_ and pred.shape == ():
        return pred.cast("int64").uop
    if hasattr(pred, "__array_interface__"):
        return _read_predicate(Tensor(pred))  # pyright: ignore[reportArgumentType]
    found = describe(pred.uop) if isinstance(pred, Tensor) else repr(pred)
    raise OperandError(
        operation="cond",
        found=f"pred {found}",
        expected="a bool of shape (), as x > 0 gives for a number x",
    )


def _read_index(number: object) -> UOp:
    if isinstance(number, Variable):
        return number.uop
    if isinstance(number, UOp):
        return number
    if isinstance(number, Tensor) and number.dtype.is_int and number.shape == ():
        return number.uop
    if isinstance(number, (Tensor, bool)) or not hasattr(number, "__index__"):
        found = describe(number.uop) if isinstance(number, Tensor) else repr(number)
        raise OperandError(
            operation="switch", found=f"index {found}", expected="an integer of shape ()"
        )
    return UOp.const(index, int(number.__index__()))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


class _Branch(NamedTuple):
    """What one run of a branch gave, over placeholders."""

    name: str
    structure: Structure
    values: list[object]
    places: dict[UOp, OperandPart]
    masks: dict[int, tuple[Mask, UOp]]


def _choose(
    operation: str,
    number: UOp,
    functions: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: Sequence[object],
) -> Any:
    # A generator outlives the branch that is the first to draw from it.
    default_generator()
    given = read_given(operation, "operands", tuple(operands))
    known = list_known()
    branches = [_trace(operation, f, n, given) for f, n in zip(functions, names, strict=True)]
    for branch in branches[1:]:
        found = branches[0].structure.find_difference(branch.structure)
        if found is not None:
            raise _differ(
                operation, f"result{found.path}", found.left, found.right, branches[0], branch
            )
    results = [
        _unify(operation, f"result{path}", branches, position)
        for position, path in enumerate(branches[0].structure.paths)
    ]
    # What some of them write to keeps its value in the others.
    written = list(dict.fromkeys(key for branch in branches for key in branch.masks))
    cells = [next(b.masks[key][0] for b in branches if key in b.masks) for key in written]
    for key, mask in zip(written, cells, strict=True):
        results.append([b.masks[key][1] if key in b.masks else mask.node for b in branches])
    shown = [leaf.node for leaf in given.leaves] + [mask.node for mask in cells]
    n_leaves = len(given.leaves)
    kept = [values for values in results if 0 not in values[0].shape]
    bodies: list[Open] = []
    for position, branch in enumerate(branches):
        places = dict(branch.places)
        for n, key in enumerate(written):
            if key in branch.masks:
                memories = branch.masks[key][0].placeholder.memories
                places.update(
                    (memory, OperandPart(n_leaves + n, shard))
                    for shard, memory in enumerate(memories)
                )
        bodies.append(Open([values[position] for values in kept], places))
    made = iter(())
    if kept:
        closed = close(bodies, shown, known)
        made = iter(make_switch(number, closed.bodies, closed.operands))
    nodes = [values[0] if 0 in values[0].shape else next(made) for values in results]
    for mask, node in zip(cells, nodes[branches[0].structure.n_leaves :], strict=True):
        write(mask.cell, (), node)
    return branches[0].structure.unflatten(
        [Tensor.from_uop(n) for n in nodes[: branches[0].structure.n_leaves]]
    )


def _trace(operation: str, function: Callable[..., Any], name: str, given: Given) -> _Branch:
    """What a branch computes; it runs once more for what it writes to."""
    written: dict[int, Cell] = {}
    while True:
        trace = Trace(operation, name, None)
        with start_trace(trace, written):
            placeholders = [
                None if leaf.is_empty else make_placeholder(leaf.node) for leaf in given.leaves
            ]
            arguments = given.structure.unflatten(
                [
                    Tensor.from_uop(leaf.node if placeholder is None else placeholder.node)
                    for leaf, placeholder in zip(given.leaves, placeholders, strict=True)
                ]
            )
            leaves, structure = flatten(function(*arguments))  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]
            del arguments
            values = [
                leaf if is_number(leaf) else read_leaf(operation, f"result{path}", leaf).node
                for leaf, path in zip(leaves, structure.paths, strict=True)
            ]
            masks = {key: (mask, mask.cell.node) for key, mask in trace.masks.items()}
            places = _list_places(placeholders)
            if not trace.has_missed:
                trace.check_leaks(places, [leaf for leaf in leaves if isinstance(leaf, Tensor)])
        if not trace.has_missed:
            return _Branch(name, structure, values, places, masks)
        written.update((key, mask.cell) for key, (mask, _) in masks.items())


def _list_places(placeholders: Sequence[Placeholder | None]) -> dict[UOp, OperandPart]:
    return {
        memory: OperandPart(number, shard)
        for number, placeholder in enumerate(placeholders)
        if placeholder is not None
        for shard, memory in enumerate(placeholder.memories)
    }


def _unify(operation: str, path: str, branches: Sequence[_Branch], position: int) -> list[UOp]:
    """The values of all branches at one place, of one shape, dtype and placement; numbers of Python
    take the dtype of the others.
    """
    values = [branch.values[position] for branch in branches]
    first = next((n for n, value in enumerate(values) if isinstance(value, UOp)), None)
    dtype = result_type(*values) if first is None else _get_dtype(values[first])
    nodes = [_to_node(value, dtype) for value in values]
    like = nodes[first or 0]
    placed = next((node for node in nodes if node.placement is not None), like)
    for number, node in enumerate(nodes):
        if node.dtype is not dtype or unbind_shape(node) != unbind_shape(like):
            raise _differ(
                operation,
                path,
                describe(like),
                describe(node),
                branches[first or 0],
                branches[number],
            )
        if node.placement not in (None, placed.placement):
            if not isinstance(placed.placement, Sharding) or node.device != placed.device:
                texts = (describe(placed, with_place=True), describe(node, with_place=True))
                raise _differ(
                    operation, path, *texts, branches[nodes.index(placed)], branches[number]
                )
            nodes[number] = place(node, placed.placement)
    return [make_empty(dtype, node.shape) if 0 in node.shape else node for node in nodes]


def _get_dtype(value: object) -> DType:
    assert isinstance(value, UOp)
    return value.dtype


def _to_node(value: object, dtype: DType) -> UOp:
    if isinstance(value, UOp):
        return value
    assert isinstance(value, (bool, int, float))
    wider = result_type(dtype, value)
    return make_constant(value, wider)


def _differ(
    operation: str, path: str, first: str, other: str, one: _Branch, two: _Branch
) -> BranchError:
    return BranchError(
        operation=operation, path=path, first=first, other=other, branches=(one.name, two.name)
    )
