"""Batches of nested arrays, in an order that a run which is resumed goes on with."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Final

from svod_nn.data.prefetch import prefetch
from svod_nn.data.rows import Positions, count_rows, draw_order, take_rows, to_arrays
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
    """The rows of nested arrays, some at a time; each `for` over the result is one epoch.

    Args:
        arrays: nested lists, tuples and dicts of numpy arrays (mapped files too) and tensors, whose
            first axes have one size.
        size: of a batch.
        generator: the order of the rows depends on: one seed is drawn from it now.
        shuffle: whether each epoch has an order of its own; by default if there is a generator.
            Without one the order comes from the generator that `manual_seed` seeds.
        drop_last: whether the last batch of an epoch is left out where it would be smaller, so that
            all have one shape, a captured step is captured once, and no batch normalization trains
            on a single row.
        prefetch: how many batches a thread makes ahead; 0 makes each when it is asked for.

    Returns:
        an iterable of tensors, nested as `arrays` is.

    Raises:
        LayerArgumentError: if the arrays have different numbers of rows, or the size is none.

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
    """What `batches` makes.

    Attributes:
        position: how many batches were given out, over all epochs. It can be set: the next `for`
            begins with the batch of that number, whatever came before, and has what is left of its
            epoch.

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
        self._n_rows, self._size = count_rows("batches", arrays), operator.index(size)
        if self._size < 1:
            raise LayerArgumentError(name="batches", problem=f"a batch of {size} rows")
        self._arrays, self._drops_last, self._n_ahead = to_arrays(arrays), drop_last, prefetch
        is_shuffled = generator is not None if shuffle is None else shuffle
        self._seed: int | None = None
        if is_shuffled:
            (source,) = (generator or default_generator()).spawn(1)
            self._seed = source.get_state()[0]
        self.position = 0

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self._n_rows // self._size if self._drops_last else -(-self._n_rows // self._size)

    @property
    def epoch(self) -> int:
        """How many epochs are over."""
        return self.position // max(len(self), 1)

    def __iter__(self) -> Iterator[Any]:
        """The batches from `position` to the end of the epoch."""
        n_batches = len(self)
        if not n_batches:
            return
        epoch, start = divmod(self.position, n_batches)
        order = self._get_order(epoch)
        for number, batch in enumerate(
            prefetch(lambda n: self._make(order, n), range(start, n_batches), self._n_ahead)
        ):
            self.position = epoch * n_batches + start + number + 1
            yield batch

    def state_dict(self) -> dict[str, object]:
        """What `load_state_dict` goes on from, in another process too."""
        return {"position": self.position, "seed": self._seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the batches that came next where `state_dict` was called; the arrays and the
        size are the same.

        Raises:
            LayerArgumentError: if one of the two shuffles and the other does not.
        """
        if (state["seed"] is None) != (self._seed is None):
            raise LayerArgumentError(
                name="batches",
                problem="one of the state and these batches is shuffled, the other is not",
            )
        self.position, self._seed = state["position"], state["seed"]

    def _get_order(self, epoch: int) -> Positions | None:
        """The order of the rows in an epoch, which depends on nothing but the seed and its
        number.
        """
        if self._seed is None:
            return None
        return draw_order(self._n_rows, Generator.from_state((self._seed, epoch)))

    def _make(self, order: Positions | None, number: int) -> object:
        rows = slice(number * self._size, (number + 1) * self._size)
        return take_rows(self._arrays, rows if order is None else order[rows])
