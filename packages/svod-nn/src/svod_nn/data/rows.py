"""Rows of nested arrays: counting, selecting and splitting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from svod_nn._walk import iter_leaves
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor

__all__ = ["Indices", "count_rows", "make_permutation", "split_rows", "take_rows", "to_arrays"]

A = TypeVar("A")
Indices = NDArray[np.int64]


def split_rows(arrays: A, fraction: float = 0.2, generator: Generator | None = None) -> tuple[A, A]:
    """Split the rows of nested arrays into a training set and a held-out set.

    Args:
        arrays: nested lists, tuples and dicts of NumPy arrays and tensors, whose first axes have
            the same size.
        fraction: fraction of the rows to hold out, between 0 and 1; rounded to whole rows.
        generator: random generator that selects the held-out rows; by default the last rows are
            held out.

    Returns:
        the training set and the held-out set, nested as `arrays` is, in the original order of the
        rows. Without a generator, the parts of NumPy arrays are views.

    Raises:
        LayerArgumentError: if the fraction is not between 0 and 1, or the arrays have different
            numbers of rows.

    Example:
        >>> import numpy as np
        >>> from svod_nn import split_rows
        >>> (x, y), (held_x, held_y) = split_rows((np.arange(10.0), np.arange(10)), 0.3)
        >>> y, held_y
        (array([0, 1, 2, 3, 4, 5, 6]), array([7, 8, 9]))
    """
    if not 0 <= fraction <= 1:
        raise LayerArgumentError(
            name="split_rows", problem=f"fraction must be between 0 and 1, got {fraction}"
        )
    n_rows = count_rows("split_rows", arrays)
    n_kept = n_rows - round(n_rows * fraction)
    if generator is None:
        # Slices, so that the parts are views. Data ordered by time is split into past and future.
        kept, held_out = slice(0, n_kept), slice(n_kept, n_rows)
    else:
        order = make_permutation(n_rows, generator)
        # Sorted: rows keep their order, and memory is read in order.
        kept, held_out = np.sort(order[:n_kept]), np.sort(order[n_kept:])
    split = (
        _map_arrays(arrays, lambda leaf: leaf[kept]),
        _map_arrays(arrays, lambda leaf: leaf[held_out]),
    )
    return cast("tuple[A, A]", split)


def make_permutation(n_rows: int, generator: Generator) -> Indices:
    """Return the row indices in random order."""
    # By the project's generator, not NumPy's, so that one seed determines a run.
    return Tensor.permutation(n_rows, generator=generator).numpy().astype(np.int64, copy=False)


def count_rows(function: str, arrays: object) -> int:
    """Return the common size of the first axes of nested arrays.

    Raises:
        LayerArgumentError: if there are no arrays, one is 0-d, or the sizes differ.
    """
    sizes: dict[str, int] = {}
    for path, leaf in iter_leaves(arrays, (np.ndarray, Tensor), "arrays"):
        shape = cast("Tensor", leaf).shape
        if not shape:
            raise LayerArgumentError(name=function, problem=f"{path} is 0-d: it has no rows")
        sizes[path] = int(cast("int", shape[0]))
    if len(set(sizes.values())) != 1:
        listed = ", ".join(f"{path} has {size}" for path, size in sizes.items())
        raise LayerArgumentError(
            name=function,
            problem=(
                f"the arrays have different numbers of rows: {listed}"
                if listed
                else "there are no arrays"
            ),
        )
    return next(iter(sizes.values()))


def to_arrays(arrays: object) -> object:
    """Convert the tensors in nested arrays to NumPy arrays, once."""
    return _map_arrays(arrays, lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf)


def take_rows(arrays: object, rows: slice | Indices) -> object:
    """Copy some rows of nested NumPy arrays to new tensors."""
    # Indexing by an array copies already; a slice is a view.
    copy = True if isinstance(rows, slice) else None
    return _map_arrays(arrays, lambda leaf: Tensor.from_numpy(leaf[rows], copy=copy))


def _map_arrays(value: object, function: Callable[[Any], object]) -> object:
    if isinstance(value, (np.ndarray, Tensor)):
        return function(value)
    if isinstance(value, (list, tuple)):
        elements = [_map_arrays(element, function) for element in cast("list[object]", value)]
        if isinstance(value, list):
            return elements
        # A named tuple takes its fields as separate arguments.
        kind = cast("Callable[..., object]", type(cast("object", value)))
        return kind(*elements) if hasattr(kind, "_fields") else kind(elements)
    if isinstance(value, dict):
        return {
            key: _map_arrays(element, function)
            for key, element in cast("Mapping[object, object]", value).items()
        }
    raise LayerArgumentError(
        name="arrays",
        problem=f"expected an array or tensor, got {type(value).__name__}",
        hint="convert it with numpy.asarray(...)",
    )
