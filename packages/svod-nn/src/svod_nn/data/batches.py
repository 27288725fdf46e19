"""Resumable iteration over batches of nested arrays, in order or shuffled."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Final

from svod_nn.data.prefetch import prefetch
from svod_nn.data.rows import Indices, count_rows, make_permutation, take_rows, to_arrays
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, default_generator

__all__ = ["Batches", "batches"]

_N_AHEAD: Final = 2


def batches(
    arrays: Any,
    size: int,
    generator: Generator | None = None,
    *,
    shuffle: bool | None = None,
    drop_last: bool = False,
    prefetch: int = _N_AHEAD,
) -> Batches:
    """Iterate over batches of rows of nested arrays; each `for` over the result is one epoch.

    Args:
        arrays: nested lists, tuples and dicts of NumPy arrays (memory-mapped files too) and
            tensors, whose first axes have the same size.
        size: number of rows of a batch.
        generator: random generator of the order, from which one seed is sampled now.
        shuffle: if True, each epoch has a new random order; by default if there is a generator.
            Without a generator, the one seeded by `manual_seed` is used.
        drop_last: if True, drop a smaller last batch of each epoch: all batches have one shape, a
            captured step is captured once, and no batch normalization trains on a single row.
        prefetch: number of batches that a thread makes ahead; 0 makes each batch on demand.

    Returns:
        an iterable of tensors, nested as `arrays` is.

    Raises:
        LayerArgumentError: if the arrays have different numbers of rows, or `size` is not positive.

    Example:
        >>> import numpy as np
        >>> from svod_nn import batches
        >>> for x, y in batches((np.arange(5.0), np.arange(5)), 2):
        ...     print(x.tolist(), y.tolist())
        [0.0, 1.0] [0, 1]
        [2.0, 3.0] [2, 3]
        [4.0] [4]
    """
    return Batches(arrays, size, generator, shuffle=shuffle, drop_last=drop_last, prefetch=prefetch)


class Batches:
    """Resumable iterable of batches, the result of `batches`, which describes the arguments.

    Attributes:
        position: number of batches returned so far, over all epochs. Set it to continue elsewhere:
            the next `for` starts at that batch and ends with its epoch.

    Example:
        >>> import numpy as np
        >>> from svod_nn import Batches
        >>> rows = Batches(np.arange(4), 2)
        >>> rows.position = 1
        >>> [x.tolist() for x in rows], [x.tolist() for x in rows]
        ([[2, 3]], [[0, 1], [2, 3]])
        >>> resumed = Batches(np.arange(4), 2)
        >>> resumed.load_state_dict(rows.state_dict())
        >>> resumed.position, resumed.epoch
        (4, 2)
    """

    def __init__(
        self,
        arrays: Any,
        size: int,
        generator: Generator | None = None,
        *,
        shuffle: bool | None = None,
        drop_last: bool = False,
        prefetch: int = _N_AHEAD,
    ) -> None:
        # A size of 2.5 would fail only in a slice.
        self._n_rows, self._size = count_rows("batches", arrays), operator.index(size)
        if self._size < 1:
            raise LayerArgumentError(name="batches", problem=f"size must be positive, got {size}")
        # Rows are taken on the host, where a thread can do it while the device computes.
        self._arrays, self._drops_last, self._n_ahead = to_arrays(arrays), drop_last, prefetch
        is_shuffled = generator is not None if shuffle is None else shuffle
        self._seed: int | None = None
        if is_shuffled:
            # A seed of its own: the order of an epoch depends on the seed and the epoch alone,
            # whatever else draws from the generator, and a resumed run needs no other state.
            (source,) = (generator or default_generator()).spawn(1)
            self._seed = source.get_state()[0]
        self.position = 0

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        # Rounded up in integers: floats are inexact for large counts.
        return self._n_rows // self._size if self._drops_last else -(-self._n_rows // self._size)

    @property
    def epoch(self) -> int:
        """Number of completed epochs."""
        # Without rows there are no batches to divide by.
        return self.position // max(len(self), 1)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the batches from `position` to the end of the epoch."""
        n_batches = len(self)
        if not n_batches:
            return
        epoch, start = divmod(self.position, n_batches)
        order = self._get_order(epoch)
        for offset, batch in enumerate(
            prefetch(lambda n: self._make(order, n), range(start, n_batches), self._n_ahead), 1
        ):
            # Set before `yield`: a checkpoint that is saved in the loop counts the current batch.
            self.position = epoch * n_batches + start + offset
            yield batch

    def state_dict(self) -> dict[str, object]:
        """Return the state as a dict, for `load_state_dict` in this or another process."""
        return {"position": self.position, "seed": self._seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that came next when `state_dict` was called.

        The arrays and the size must be the same.

        Raises:
            LayerArgumentError: if the state is shuffled and these batches are not, or vice versa.
        """
        # The position alone would fit, and the run would go on with other batches.
        if (state["seed"] is None) != (self._seed is None):
            raise LayerArgumentError(
                name="batches",
                problem=(
                    f"cannot load the state of {'un' * (state['seed'] is None)}shuffled batches"
                    f" into {'un' * (self._seed is None)}shuffled ones"
                ),
            )
        self.position, self._seed = state["position"], state["seed"]

    def _get_order(self, epoch: int) -> Indices | None:
        """Return the order of the rows in an epoch, a function of the seed and the epoch only."""
        if self._seed is None:
            return None
        return make_permutation(self._n_rows, Generator.from_state((self._seed, epoch)))

    def _make(self, order: Indices | None, index: int) -> object:
        rows = slice(index * self._size, (index + 1) * self._size)
        return take_rows(self._arrays, rows if order is None else order[rows])
