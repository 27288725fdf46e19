"""`scan`: a loop over slices of tensors with a carry and stacked results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from svod_ir import Sharding, SInt, UOp
from svod_tensor._function_name import name_function
from svod_tensor._trees import Structure, flatten
from svod_tensor._variable import Variable
from svod_tensor.errors import CarriedValueError, LoopArgumentError, TraceError
from svod_tensor.loops.repeat import IterationResult, LoopSpec, trace_loop
from svod_tensor.loops.values import FlatTree, Leaf, read_tree, transfer
from svod_tensor.tensor import Tensor

__all__ = ["check_structure", "read_interval", "scan"]

C = TypeVar("C")


def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: Any = None,
    length: int | Variable | UOp | None = None,
    reverse: bool = False,
    *,
    checkpoint_every: int | None = None,
) -> tuple[C, Any]:
    """Scan `carry, y = f(carry, x)` over the slices `x` of `xs` along the first axis.

    The loop is one node of the graph. `f` is traced once, on tensors without values, and computed
    lazily. The semantics are

        carry = init
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Loop-invariant values are computed once. Assignments to other tensors, and sampling from
    generators, happen in each iteration. An assignment to the carry, as in `carry[i] = x`, happens
    in place, and does not change `init`.

    Args:
        f: a function from the carry and a slice to the next carry and a result to stack.
        init: the initial carry: nested lists, tuples and dicts of tensors, arrays and numbers, or
            None. A number takes the dtype of the first iteration's carry, if that is wider.
        xs: nested tensors to slice, whose first axes have the same size (length, ...); None for no
            slices.
        length: the number of iterations; by default the number of slices.
        reverse: whether to scan from the last slice. Results are stacked in the order of the slices
            nevertheless.
        checkpoint_every: the number of iterations between saved carries. Gradients recompute the
            iterations in between. By default each iteration saves the residuals that its gradient
            needs. The square root of the length minimizes memory.

    Returns:
        the final carry, and the stacked results (length, ...), nested like the result of `f`.

    Raises:
        LoopArgumentError: if the number of iterations is missing or ambiguous, or a leaf is not a
            tensor.
        CarriedValueError: if `f` changes the structure, shapes, dtypes or devices of the carry.
        TraceError: if `f` reads values, keeps a tensor, or does not return a pair.

    Example:
        >>> from svod_tensor import Tensor, scan
        >>> total, totals = scan(lambda total, x: (total + x, total + x), 0, Tensor([1, 2, 3, 4]))
        >>> total.item(), totals.tolist()
        (10, [1, 3, 6, 10])
    """
    count = _get_count(read_tree("scan", "xs", xs), length)
    if checkpoint_every is None:
        return _scan(f, init, xs, count, is_reversed=bool(reverse))
    every = read_interval("scan", checkpoint_every, count)
    if every == 1:
        return _scan(f, init, xs, count, is_reversed=bool(reverse), is_recomputed=True)
    assert isinstance(count, int)
    return _scan_chunks(f, init, xs, count, every, is_reversed=bool(reverse))


def _scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    count: SInt,
    *,
    is_reversed: bool,
    is_recomputed: bool = False,
) -> tuple[Any, Any]:
    name = name_function(f)
    carry_tree, sliced_tree = read_tree("scan", "init", init), read_tree("scan", "xs", xs)
    sliced = [leaf._replace(node=_gather_first_axis(leaf.node)) for leaf in sliced_tree.leaves]
    structures: list[Structure] = []

    def run(values: list[Tensor], slices: list[Tensor], _counter: UOp) -> IterationResult:
        result = f(carry_tree.structure.unflatten(values), sliced_tree.structure.unflatten(slices))
        if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
            raise TraceError(
                operation="scan",
                function=name,
                problem=f"it returns {_show_result(result)}, not a pair",
                hint=(
                    "return carry, y: the next carry, and the result to stack (None for no result)"
                ),
            )
        leaves, structure = flatten(result[0])
        check_structure("scan", "carry", carry_tree.structure, structure)
        stacked = read_tree("scan", "y", result[1])
        # The body may be traced several times; the last trace counts.
        structures[:] = [stacked.structure]
        return IterationResult(leaves, stacked.leaves)

    after, stacks = trace_loop(
        LoopSpec(
            "scan",
            name,
            _rename(carry_tree, "carry"),
            count,
            run,
            sliced,
            is_reversed,
            is_recomputed,
        )
    )
    return carry_tree.structure.unflatten(after), structures[0].unflatten(stacks)


def _scan_chunks(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    count: int,
    every: int,
    *,
    is_reversed: bool,
) -> tuple[Any, Any]:
    """A scan over chunks of `every` slices, each of which is a scan, and a scan over the remainder."""
    n_chunks, n_remaining = divmod(count, every)
    leaves, structure = flatten(xs)
    tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]  # pyright: ignore[reportArgumentType]
    # The remainder is executed last: in a reverse scan it is at the front.
    begin = n_remaining if is_reversed else 0
    chunks = [
        t[begin : begin + n_chunks * every].reshape(n_chunks, every, *t.shape[1:]) for t in tensors
    ]
    remainders = [t[:n_remaining] if is_reversed else t[n_chunks * every :] for t in tensors]

    def scan_chunk(carry: Any, chunk: Any) -> tuple[Any, Any]:
        return _scan(f, carry, chunk, every, is_reversed=is_reversed)

    carry, rows = _scan(
        scan_chunk,
        init,
        structure.unflatten(chunks),
        n_chunks,
        is_reversed=is_reversed,
        is_recomputed=True,
    )
    # Not recomputed: it has fewer iterations than a chunk, so its residuals take no more memory
    # than those of a chunk that is being recomputed.
    carry, remaining_rows = _scan(
        f, carry, structure.unflatten(remainders), n_remaining, is_reversed=is_reversed
    )
    stacks, nested = flatten(rows)
    results: list[Tensor] = []
    for stack, remainder in zip(stacks, flatten(remaining_rows)[0], strict=True):
        assert isinstance(stack, Tensor) and isinstance(remainder, Tensor)
        main = stack.reshape(n_chunks * every, *stack.shape[2:])
        results.append(remainder.concat(main) if is_reversed else main.concat(remainder))
    return carry, nested.unflatten(results)


def read_interval(operation: str, checkpoint_every: int, count: SInt) -> int:
    """The number of iterations between saved carries.

    Raises:
        LoopArgumentError: if it is not a positive integer, or above 1 where the trip count is not
            known.
    """
    if (
        # In Python, True is an int.
        isinstance(checkpoint_every, bool)
        or not isinstance(checkpoint_every, int)  # pyright: ignore[reportUnnecessaryIsInstance]
        or checkpoint_every < 1
    ):
        raise LoopArgumentError(
            operation=operation,
            problem=f"checkpoint_every is {checkpoint_every!r}, not a number of iterations",
            hint="use a positive integer",
        )
    if not isinstance(count, int) and checkpoint_every > 1:
        raise LoopArgumentError(
            operation=operation,
            problem="the number of iterations is not known, so that it cannot be divided",
            hint="use checkpoint_every=1, which recomputes each iteration",
        )
    return checkpoint_every


def check_structure(operation: str, name: str, before: Structure, after: Structure) -> None:
    """Check that the carry keeps its structure.

    Raises:
        CarriedValueError: if it does not.
    """
    difference = before.find_difference(after)
    if difference is not None:
        raise CarriedValueError(
            operation=operation,
            path=name + difference.path,
            before=difference.left,
            after=difference.right,
        )


def _rename(tree: FlatTree, name: str) -> Sequence[Leaf]:
    return [
        leaf._replace(path=name + path)
        for leaf, path in zip(tree.leaves, tree.structure.paths, strict=True)
    ]


def _show_result(result: object) -> str:
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__  # pyright: ignore[reportUnknownArgumentType]


def _get_count(tree: FlatTree, length: int | Variable | UOp | None) -> SInt:
    """The number of iterations."""
    count = _read_length(length)
    source = "length"
    for leaf in tree.leaves:
        if not leaf.node.shape:
            raise LoopArgumentError(
                operation="scan",
                problem=f"{leaf.path} has no axis to slice",
                hint="use x[None] for one slice",
            )
        size = leaf.node.shape[0]
        if count is None:
            count, source = size, leaf.path
        elif count is not size and count != size:
            raise LoopArgumentError(
                operation="scan",
                problem=f"{leaf.path} has {_show(size)} slices, but {source} says {_show(count)}",
                hint="slice tensors whose first axes have the same size",
            )
    if count is None:
        raise LoopArgumentError(
            operation="scan",
            problem="xs has no tensor to slice, and length is None",
            hint="pass the number of iterations, as in length=10",
        )
    return count


def _show(size: SInt) -> str:
    from svod_ir import format_size

    return str(size) if isinstance(size, int) else format_size(size)


def _read_length(length: object) -> SInt | None:
    if length is None:
        return None
    if isinstance(length, Variable):
        return length.uop
    if isinstance(length, UOp):
        return length
    try:
        count = operator.index(length)  # pyright: ignore[reportArgumentType]
    except TypeError:
        count = -1
    if count < 0 or isinstance(length, Tensor):
        raise LoopArgumentError(
            operation="scan",
            problem=f"length is {length!r}, not a number of iterations",
            hint=("use a non-negative integer or a variable; fori_loop takes computed numbers"),
        )
    return count


def _gather_first_axis(node: UOp) -> UOp:
    """`node`, replicated if it is sharded along its first axis, which is sliced."""
    placement = node.placement
    return (
        transfer(node, placement.replicated)
        if isinstance(placement, Sharding) and placement.splits(0)
        else node
    )
