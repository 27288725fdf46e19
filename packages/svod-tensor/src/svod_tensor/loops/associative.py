"""Inclusive prefix scan by an associative function: a sequential loop over the elements.

A loop applies the function once to each element and is one kernel if the function is elementwise. A
tree of pairs applies it twice as often, and stores the intermediate results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from svod_ir import OperandError, ShapeError, SInt, format_shape, format_size
from svod_ir.sizes import bounds_of_size
from svod_tensor._shapes import normalize_axis
from svod_tensor._trees import Structure, flatten
from svod_tensor.loops.scan import scan
from svod_tensor.tensor import Tensor

__all__ = ["associative_scan"]

Tree = TypeVar("Tree")


def associative_scan(
    fn: Callable[[Tree, Tree], Tree], elems: Tree, reverse: bool = False, axis: int = 0
) -> Tree:
    """Inclusive prefix scan along an axis: `[x0, fn(x0, x1), fn(fn(x0, x1), x2), ...]`.

    The elements are combined sequentially, as in a loop. `fn` must be associative, since other
    devices may combine them in another order.

    Args:
        fn: an associative function of two nested values like `elems`, with any size along the axis,
            that combines them elementwise along it. It returns a nested value of the same
            structure, shapes and dtypes.
        elems: a tensor, or nested lists, tuples and dicts of tensors of equal sizes along the
            axis.
        reverse: whether to scan from the last element; `fn` gets the accumulated value of the
            trailing elements first.
        axis: the axis of the elements in each tensor.

    Returns:
        a nested value with the structure, shapes and dtypes of `elems`.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if sizes along the axis differ, or `fn` returns other shapes.
        OperandError: if `fn` returns another structure, or other dtypes.
        TraceError: if `fn` reads values.

    Example:
        >>> from svod_tensor import Tensor, associative_scan
        >>> associative_scan(lambda x, y: x * y, Tensor([1, 2, 3, 4])).tolist()
        [1, 2, 6, 24]
        >>> def compose(f, g):  # x -> a * x + b, composed
        ...     return {"a": f["a"] * g["a"], "b": f["b"] * g["a"] + g["b"]}
        >>> associative_scan(compose, {"a": Tensor([2, 3, 4]), "b": Tensor([1, 1, 1])})["b"].tolist()
        [1, 4, 17]
    """
    leaves, structure = flatten(elems)
    tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]  # pyright: ignore[reportArgumentType]
    if not tensors:
        return elems
    axes = [normalize_axis("associative_scan", axis, t.ndim) for t in tensors]
    n = _get_size(tensors, axes, structure)
    # Nothing to combine. A copy, so that a write to the result leaves `elems` as it is.
    if n in (0, 1):
        return cast("Tree", structure.unflatten([t.clone() for t in tensors]))
    call = _make_call(cast("Callable[[object, object], object]", fn), structure)

    def step(
        carry: tuple[Tensor, list[Tensor]], slices: list[Tensor]
    ) -> tuple[tuple[Tensor, list[Tensor]], list[Tensor]]:
        is_first, accumulated = carry
        xs = [x.unsqueeze(a) for x, a in zip(slices, axes, strict=True)]
        # The first element has no predecessor: its result is the element itself.
        combined = [is_first.where(x, y) for x, y in zip(xs, call(accumulated, xs), strict=True)]
        return (Tensor(False), combined), [
            y.squeeze(a) for y, a in zip(combined, axes, strict=True)
        ]

    start = [_make_start(t, a, n) for t, a in zip(tensors, axes, strict=True)]
    _, results = scan(
        step,
        (Tensor(True), start),
        [t.moveaxis(a, 0) for t, a in zip(tensors, axes, strict=True)],
        reverse=reverse,
    )
    return cast(
        "Tree", structure.unflatten([y.moveaxis(0, a) for y, a in zip(results, axes, strict=True)])
    )


def _get_size(tensors: Sequence[Tensor], axes: Sequence[int], structure: Structure) -> SInt:
    sizes = [t.shape[a] for t, a in zip(tensors, axes, strict=True)]
    for size, tensor, path in zip(sizes, tensors, structure.paths, strict=True):
        if size != sizes[0]:
            problem = (
                f"elems{path} of shape {format_shape(tensor.shape)} and elems{structure.paths[0]}"
                f" must have the same size along the axis, {format_size(sizes[0])}"
            )
            raise ShapeError(operation="associative_scan", shape=tensor.shape, problem=problem)
    return sizes[0]


def _make_start(x: Tensor, axis: int, n: SInt) -> Tensor:
    """Initial carry, an arbitrary element that `fn` accepts: the first one; zeros if the axis may be
    empty, or is sharded.
    """
    sizes = [1 if a == axis else size for a, size in enumerate(x.shape)]
    # A first element need not exist, or is on one of the devices only.
    if bounds_of_size(n)[0] < 1 or (x.sharding is not None and x.sharding.axis == axis):
        return Tensor.zeros(sizes, dtype=x.dtype)
    return x.shrink(*((0, size) for size in sizes))


def _make_call(
    fn: Callable[[object, object], object], structure: Structure
) -> Callable[[list[Tensor], list[Tensor]], list[Tensor]]:
    """`fn` as a function from two flat lists of tensors to one."""

    def call(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        leaves, result = flatten(fn(structure.unflatten(left), structure.unflatten(right)))
        # The carry of `scan` keeps its structure, shapes and dtypes.
        difference = result.find_difference(structure)
        if difference is not None:
            path, returned, expected = difference
            raise OperandError(
                operation="associative_scan",
                found=f"{returned} for elems{path}",
                expected=f"a function that returns a nested value like elems, {expected}",
            )
        return [
            _check_like(t, like, path)
            for t, like, path in zip(leaves, right, structure.paths, strict=True)
        ]

    return call


def _check_like(result: object, like: Tensor, path: str) -> Tensor:
    """The function's result as a tensor, after a check of its shape and dtype."""
    tensor = result if isinstance(result, Tensor) else Tensor(result)  # pyright: ignore[reportArgumentType]
    if tensor.dtype != like.dtype:
        raise OperandError(
            operation="associative_scan",
            found=tensor.dtype,
            expected=f"a function that returns {like.dtype} for elems{path}",
            hint=f"cast the result with .cast({like.dtype})",
        )
    if tensor.shape != like.shape:
        problem = (
            f"the function returned shape {format_shape(tensor.shape)} for elems{path} of shape"
            f" {format_shape(like.shape)}"
        )
        raise ShapeError(operation="associative_scan", shape=tensor.shape, problem=problem)
    return tensor
