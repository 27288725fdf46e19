"""The results of an associative function over the first 1, 2, ... elements along an axis, in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from svod_ir import OperandError, ShapeError
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor.loops.pairs import Combine, scan_pairs
from svod_tensor.loops.trees import Structure, flatten
from svod_tensor.tensor import Tensor

__all__ = ["associative_scan"]

Tree = TypeVar("Tree")


def associative_scan(fn: Callable[[Tree, Tree], Tree], elems: Tree, reverse: bool = False, axis: int = 0) -> Tree:
    """`fn` over the first 1, 2, ... elements along an axis: `[x0, fn(x0, x1), fn(fn(x0, x1), x2), ...]`.

    Pairs of neighbours are combined first, then those of the pairs, and so on: `fn` is called on some `2 * log2(n)` runs of
    elements, in all on less than `2 * n` of them, and floats are rounded in another order than one by one.

    Args:
        fn: an associative function of two nested values like `elems`, with any size along the axis, that combines each
            element of the one with that of the other: it returns a nested value of the same kind, shapes and dtypes.
        elems: a tensor, or nested lists, tuples and dicts of tensors, which have the same size along the axis.
        reverse: whether to begin with the last element: `fn` gets what is behind first.
        axis: of the elements, in each tensor.

    Returns:
        a nested value like `elems`, in the same shapes and dtypes.

    Raises:
        ShapeError: if sizes along the axis differ, or `fn` returns other shapes.
        OperandError: if `fn` returns another nested value, or other dtypes.
        SymbolicShapeError: if the size along the axis is symbolic.

    Example:
        >>> from svod_tensor import associative_scan
        >>> associative_scan(lambda x, y: x * y, Tensor([1, 2, 3, 4])).tolist()
        [1, 2, 6, 24]
        >>> def follow(first, then):  # x -> a * x + b, one after the other
        ...     return {"a": first["a"] * then["a"], "b": first["b"] * then["a"] + then["b"]}
        >>> associative_scan(follow, {"a": Tensor([2, 3, 4]), "b": Tensor([1, 1, 1])})["b"].tolist()
        [1, 4, 17]
    """
    leaves, structure = flatten(elems)
    tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]  # pyright: ignore[reportArgumentType]
    if not tensors:
        return elems
    axes = [normalize_axis("associative_scan", axis, t.ndim) for t in tensors]
    n = _get_size(tensors, axes, structure)
    if n < 2:
        return cast("Tree", structure.unflatten([t.clone() for t in tensors]))
    combine = _make_combine(cast("Callable[[object, object], object]", fn), structure)
    if not reverse:
        return cast("Tree", structure.unflatten(scan_pairs(combine, tensors, axes, n)))
    made = scan_pairs(combine, [t.flip(a) for t, a in zip(tensors, axes, strict=True)], axes, n)
    return cast("Tree", structure.unflatten([t.flip(a).clone() for t, a in zip(made, axes, strict=True)]))


def _get_size(tensors: Sequence[Tensor], axes: Sequence[int], structure: Structure) -> int:
    sizes = [concrete_shape("associative_scan", (t.shape[a],))[0] for t, a in zip(tensors, axes, strict=True)]
    for size, tensor, path in zip(sizes, tensors, structure.paths, strict=True):
        if size != sizes[0]:
            problem = f"of elems{path} has {size} elements along the axis, and elems{structure.paths[0]} has {sizes[0]}"
            raise ShapeError(operation="associative_scan", shape=tensor.shape, problem=problem)
    return sizes[0]


def _make_combine(fn: Callable[[object, object], object], structure: Structure) -> Combine[Tensor]:
    """`fn` on lists of tensors, of which it returns as many as it gets."""

    def combine(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        made, found = flatten(fn(structure.unflatten(left), structure.unflatten(right)))
        difference = found.find_difference(structure)
        if difference is not None:
            path, what, wanted = difference
            raise OperandError(
                operation="associative_scan",
                found=f"{what} for elems{path}",
                expected=f"a function that returns a nested value like elems, {wanted}",
            )
        return [_check_like(t, like, path) for t, like, path in zip(made, right, structure.paths, strict=True)]

    return combine


def _check_like(made: object, like: Tensor, path: str) -> Tensor:
    """What the function made, which must have the shape and dtype of what it was given."""
    tensor = made if isinstance(made, Tensor) else Tensor(made)  # pyright: ignore[reportArgumentType]
    if tensor.dtype != like.dtype:
        raise OperandError(
            operation="associative_scan",
            found=tensor.dtype,
            expected=f"a function that returns {like.dtype} for elems{path}",
            hint=f"cast what it returns with .cast({like.dtype})",
        )
    if tensor.shape != like.shape:
        problem = f"is what the function returns for elems{path}, of which it got {like.shape}"
        raise ShapeError(operation="associative_scan", shape=tensor.shape, problem=problem)
    return tensor
