"""Rows of nested arrays: how many there are, and some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from svod_nn._walk import iter_leaves
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor

__all__ = ["Positions", "count_rows", "draw_order", "split_rows", "take_rows", "to_arrays"]

A = TypeVar("A")
Positions = NDArray[np.int64]


def split_rows(arrays: A, fraction: float = 0.2, generator: Generator | None = None) -> tuple[A, A]:
    """Two parts of the data: what is trained on, and a `fraction` of the rows that is held out.

    Args:
        arrays: nested lists, tuples and dicts of numpy arrays and tensors, whose first axes have
            one size.
        fraction: of the rows, rounded to whole ones, in the second part; between 0 and 1.
        generator: draws which ones; without it they are the last ones.

    Returns:
        both parts, nested as `arrays` is, in the order of the rows. Of arrays without a generator
        they are views.

    Raises:
        LayerArgumentError: if the fraction is none, or the arrays have different numbers of rows.

    Example:
        >>> import numpy as np
        >>> from svod_nn import split_rows
        >>> (x, y), (held_x, held_y) = split_rows((np.arange(10.0), np.arange(10)), 0.3)
        >>> y, held_y
        (array([0, 1, 2, 3, 4, 5, 6]), array([7, 8, 9]))
    """
    if not 0 <= fraction <= 1:
        raise LayerArgumentError(
            name="split_rows", problem=f"fraction {fraction} is not between 0 and 1"
        )
    n_rows = count_rows("split_rows", arrays)
    n_kept = n_rows - round(n_rows * fraction)
    if generator is None:
        first, second = slice(0, n_kept), slice(n_kept, n_rows)
    else:
        order = draw_order(n_rows, generator)
        first, second = np.sort(order[:n_kept]), np.sort(order[n_kept:])
    parts = (
        _exchange(arrays, lambda leaf: leaf[first]),
        _exchange(arrays, lambda leaf: leaf[second]),
    )
    return cast("tuple[A, A]", parts)


def draw_order(n_rows: int, generator: Generator) -> Positions:
    """The numbers of the rows in random order."""
    return Tensor.permutation(n_rows, generator=generator).numpy().astype(np.int64, copy=False)


def count_rows(function: str, arrays: object) -> int:
    """The size of the first axes of nested arrays.

    Raises:
        LayerArgumentError: if there is none, or they differ.
    """
    sizes: dict[str, int] = {}
    for path, leaf in iter_leaves(arrays, (np.ndarray, Tensor), "arrays"):
        shape = cast("Tensor", leaf).shape
        if not shape:
            raise LayerArgumentError(
                name=function, problem=f"{path} is one number, which has no rows"
            )
        sizes[path] = int(cast("int", shape[0]))
    if len(set(sizes.values())) != 1:
        found = (
            ", ".join(f"{path} has {size}" for path, size in sizes.items()) or "there are no arrays"
        )
        raise LayerArgumentError(
            name=function, problem=f"the arrays have no common number of rows: {found}"
        )
    return next(iter(sizes.values()))


def to_arrays(arrays: object) -> object:
    """The same nested arrays, with tensors read once."""
    return _exchange(arrays, lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf)


def take_rows(arrays: object, rows: slice | Positions) -> object:
    """Tensors of some rows of nested numpy arrays, in memory of their own."""
    return _exchange(
        arrays,
        lambda leaf: Tensor.from_numpy(leaf[rows], copy=True if isinstance(rows, slice) else None),
    )


def _exchange(value: object, exchange: Callable[[Any], object]) -> object:
    if isinstance(value, (np.ndarray, Tensor)):
        return exchange(value)
    if isinstance(value, (list, tuple)):
        made = [_exchange(element, exchange) for element in cast("list[object]", value)]
        if isinstance(value, list):
            return made
        # A named tuple takes its fields one by one.
        kind = cast("Callable[..., object]", type(cast("object", value)))
        return kind(*made) if hasattr(kind, "_fields") else kind(made)
    if isinstance(value, dict):
        return {
            key: _exchange(element, exchange)
            for key, element in cast("Mapping[object, object]", value).items()
        }
    raise LayerArgumentError(
        name="arrays",
        problem=f"a {type(value).__name__} has no rows",
        hint="numpy.asarray(...) makes an array of it",
    )
