"""`scan`: a loop over the slices of tensors, which carries values along and stacks what each
iteration gives.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from svod_ir import Sharding, SInt, UOp
from svod_tensor._trees import Structure, flatten
from svod_tensor._variable import Variable
from svod_tensor.errors import CarriedValueError, LoopArgumentError, TraceError
from svod_tensor.loops.repeat import Repeated, RepeatOutcome, make_repeated
from svod_tensor.loops.values import Given, Leaf, name_function, place, read_given
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
    """Call `carry, y = f(carry, x)` for each slice `x` of `xs` along the first axis, from `init`
    on; one node of the graph.

    The function runs once, on tensors without values, and what it computes is repeated; nothing is
    computed before a result is asked for. It means

        carry = init
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    What it computes from other tensors alone is computed once. What it assigns to other tensors,
    and draws from generators, happens in each iteration. What it assigns to its carry, as in
    `carry[i] = x`, happens in place, and does not change `init`.

    Args:
        f: from what is carried, and a slice, to the next of what is carried, and what is stacked.
        init: nested lists, tuples and dicts of tensors, arrays and numbers, or None. A number takes
            the dtype that the first iteration gives, if that is a wider one.
        xs: such nested tensors, whose first axes have one size (length, ...); None for no slices.
        length: the number of iterations; by default that of the slices.
        reverse: whether the last slice comes first. The results are stacked in the order of the
            slices all the same.
        checkpoint_every: keep for gradients what is carried after each so many iterations, and
            compute the others again from it; by default what the gradient of an iteration needs is
            kept of each. The root of the length keeps least.

    Returns:
        what is carried after the last iteration; what is stacked (length, ...), nested as `f` gives
        it.

    Raises:
        LoopArgumentError: if there is no number of iterations, or there are two, or something is no
            tensor.
        CarriedValueError: if `f` gives a carry of other structure, shapes, dtypes or devices than
            it gets.
        TraceError: if `f` reads values, keeps a tensor, or returns no pair.

    Example:
        >>> from svod_tensor import Tensor, scan
        >>> total, totals = scan(lambda total, x: (total + x, total + x), 0, Tensor([1, 2, 3, 4]))
        >>> total.item(), totals.tolist()
        (10, [1, 3, 6, 10])
    """
    count = _get_count(read_given("scan", "xs", xs), length)
    if checkpoint_every is None:
        return _scan(f, init, xs, count, is_reversed=bool(reverse))
    every = read_interval("scan", checkpoint_every, count)
    if every == 1:
        return _scan(f, init, xs, count, is_reversed=bool(reverse), is_recomputed=True)
    assert isinstance(count, int)
    return _scan_parts(f, init, xs, count, every, is_reversed=bool(reverse))


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
    carried, given = read_given("scan", "init", init), read_given("scan", "xs", xs)
    sliced = [leaf._replace(node=_gather_first_axis(leaf.node)) for leaf in given.leaves]
    structures: list[Structure] = []

    def run(values: list[Tensor], slices: list[Tensor], _counter: UOp) -> RepeatOutcome:
        result = f(
            carried.structure.unflatten(values),
            given.structure.unflatten(slices),
        )
        if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
            raise TraceError(
                operation="scan",
                function=name,
                problem=f"it returns {_show_result(result)}, no pair",
                hint=(
                    "return carry, y: what the next iteration gets, and what is stacked (None for"
                    " nothing)"
                ),
            )
        leaves, structure = flatten(result[0])
        check_structure("scan", "carry", carried.structure, structure)
        stacked = read_given("scan", "y", result[1])
        structures[:] = [stacked.structure]
        return RepeatOutcome(leaves, stacked.leaves)

    after, stacks = make_repeated(
        Repeated(
            "scan", name, _rename(carried, "carry"), count, run, sliced, is_reversed, is_recomputed
        )
    )
    return carried.structure.unflatten(after), structures[0].unflatten(stacks)


def _scan_parts(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    count: int,
    every: int,
    *,
    is_reversed: bool,
) -> tuple[Any, Any]:
    """A scan over parts of so many slices, each of which is a scan, and one over what is left."""
    n_parts, n_left = divmod(count, every)
    leaves, structure = flatten(xs)
    tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]  # pyright: ignore[reportArgumentType]
    # What comes last in the order of execution is left.
    begin = n_left if is_reversed else 0
    parts = [
        t[begin : begin + n_parts * every].reshape(n_parts, every, *t.shape[1:]) for t in tensors
    ]
    left = [t[:n_left] if is_reversed else t[n_parts * every :] for t in tensors]

    def run_part(carry: Any, part: Any) -> tuple[Any, Any]:
        return _scan(f, carry, part, every, is_reversed=is_reversed)

    carry, rows = _scan(
        run_part,
        init,
        structure.unflatten(parts),
        n_parts,
        is_reversed=is_reversed,
        is_recomputed=True,
    )
    carry, last = _scan(f, carry, structure.unflatten(left), n_left, is_reversed=is_reversed)
    stacks, nested = flatten(rows)
    joined: list[Tensor] = []
    for stack, rest in zip(stacks, flatten(last)[0], strict=True):
        assert isinstance(stack, Tensor) and isinstance(rest, Tensor)
        whole = stack.reshape(n_parts * every, *stack.shape[2:])
        joined.append(rest.concat(whole) if is_reversed else whole.concat(rest))
    return carry, nested.unflatten(joined)


def read_interval(operation: str, checkpoint_every: int, count: SInt) -> int:
    """After how many of `count` iterations what is carried is kept.

    Raises:
        LoopArgumentError: if it is no positive number, or there are not so many iterations as a
            number says.
    """
    if (
        isinstance(checkpoint_every, bool)
        or not isinstance(checkpoint_every, int)  # pyright: ignore[reportUnnecessaryIsInstance]
        or checkpoint_every < 1
    ):
        raise LoopArgumentError(
            operation=operation,
            problem=f"checkpoint_every is {checkpoint_every!r}, no number of iterations",
            hint="use an integer from 1 on",
        )
    if not isinstance(count, int) and checkpoint_every > 1:
        raise LoopArgumentError(
            operation=operation,
            problem="the number of iterations is no number, and has no parts of one size",
            hint="use checkpoint_every=1, which computes each iteration again",
        )
    return checkpoint_every


def check_structure(operation: str, name: str, before: Structure, after: Structure) -> None:
    """Check that what is carried is nested in the same way.

    Raises:
        CarriedValueError: if it is not.
    """
    found = before.find_difference(after)
    if found is not None:
        raise CarriedValueError(
            operation=operation, path=name + found.path, before=found.left, after=found.right
        )


def _rename(given: Given, name: str) -> Sequence[Leaf]:
    return [
        leaf._replace(path=name + path)
        for leaf, path in zip(given.leaves, given.structure.paths, strict=True)
    ]


def _show_result(result: object) -> str:
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__  # pyright: ignore[reportUnknownArgumentType]


def _get_count(given: Given, length: int | Variable | UOp | None) -> SInt:
    """The number of iterations."""
    count = _read_length(length)
    shown = "length"
    for leaf in given.leaves:
        if not leaf.node.shape:
            raise LoopArgumentError(
                operation="scan",
                problem=f"{leaf.path} has no axis to slice",
                hint="use x[None] for one slice",
            )
        size = leaf.node.shape[0]
        if count is None:
            count, shown = size, leaf.path
        elif count is not size and count != size:
            raise LoopArgumentError(
                operation="scan",
                problem=f"{leaf.path} has {_show(size)} slices, but {shown} says {_show(count)}",
                hint="let the first axes of all that is sliced have one size",
            )
    if count is None:
        raise LoopArgumentError(
            operation="scan",
            problem="there is nothing to slice, and no length",
            hint="name the length, as in length=10",
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
            problem=f"length is {length!r}, no number of iterations",
            hint=(
                "use an integer from 0 on, or a variable; fori_loop takes numbers that are computed"
            ),
        )
    return count


def _gather_first_axis(node: UOp) -> UOp:
    """`node`, whole on each device where it is split along its first axis."""
    placement = node.placement
    return (
        place(node, placement.replicated)
        if isinstance(placement, Sharding) and placement.axis == 0
        else node
    )
