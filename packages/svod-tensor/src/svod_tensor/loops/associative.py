"""The results of an associative function over the first 1, 2, ... elements along an axis, in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from svod_ir import OperandError, ShapeError
from svod_tensor._shapes import concrete_shape, normalize_axis
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

    Source: Blelloch, Prefix sums and their applications (1990), section 1.2.

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
    scan = _Scan(fn, structure, axes)
    given = [t if t.is_realized else t.contiguous() for t in tensors]
    if not reverse:
        return cast("Tree", structure.unflatten(scan.run(given, n)))
    made = scan.run([t.flip(a) for t, a in zip(given, axes, strict=True)], n)
    return cast("Tree", structure.unflatten([t.flip(a).clone() for t, a in zip(made, axes, strict=True)]))


def _get_size(tensors: Sequence[Tensor], axes: Sequence[int], structure: Structure) -> int:
    sizes = [concrete_shape("associative_scan", (t.shape[a],))[0] for t, a in zip(tensors, axes, strict=True)]
    for size, tensor, path in zip(sizes, tensors, structure.paths, strict=True):
        if size != sizes[0]:
            problem = f"of elems{path} has {size} elements along the axis, and elems{structure.paths[0]} has {sizes[0]}"
            raise ShapeError(operation="associative_scan", shape=tensor.shape, problem=problem)
    return sizes[0]


class _Scan:
    """A function on lists of tensors, each with an axis of elements."""

    def __init__(self, fn: Callable[[Tree, Tree], Tree], structure: Structure, axes: Sequence[int]) -> None:
        self._fn, self._structure, self._axes = cast("Callable[[object, object], object]", fn), structure, axes

    def run(self, xs: list[Tensor], n: int) -> list[Tensor]:
        """The results for `n` elements. Those at odd places are the results for pairs of neighbours."""
        if n == 1:
            return xs
        # Stored: pairs are read by the next step and for the places between, and would be combined there again and again.
        pairs = self._combine(self._take(xs, 0, n - 1, 2), self._take(xs, 1, n, 2))
        odd = self.run([t.contiguous() for t in pairs], n // 2)
        first = self._take(xs, 0, 1)
        if n == 2:
            return self._join(first, odd)
        even = self._combine(self._take(odd, 0, (n - 1) // 2), self._take(xs, 2, n, 2))
        return [t.contiguous() for t in self._interleave(self._join(first, even), odd, n)]

    def _combine(self, left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        made, structure = flatten(self._fn(self._structure.unflatten(left), self._structure.unflatten(right)))
        difference = structure.find_difference(self._structure)
        if difference is not None:
            path, found, wanted = difference
            raise OperandError(
                operation="associative_scan",
                found=f"{found} for elems{path}",
                expected=f"a function that returns a nested value like elems, {wanted}",
            )
        return [_check_like(t, like, path) for t, like, path in zip(made, right, self._structure.paths, strict=True)]

    def _take(self, xs: list[Tensor], begin: int, end: int, step: int = 1) -> list[Tensor]:
        return [t[(*(slice(None),) * a, slice(begin, end, step))] for t, a in zip(xs, self._axes, strict=True)]

    def _join(self, xs: list[Tensor], ys: list[Tensor]) -> list[Tensor]:
        return [x.concat(y, axis=a) for x, y, a in zip(xs, ys, self._axes, strict=True)]

    def _interleave(self, even: list[Tensor], odd: list[Tensor], n: int) -> list[Tensor]:
        """What stands at even and at odd places, in turn."""
        if n % 2:
            odd = self._join(odd, self._take(even, 0, 1))
        pairs = [x.stack(y, axis=a + 1) for x, y, a in zip(even, odd, self._axes, strict=True)]
        return self._take([t.flatten(a, a + 1) for t, a in zip(pairs, self._axes, strict=True)], 0, n)


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
