"""Cache of values computed from weights only, shared by all calls and by the nodes of branches and
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from svod_onnx._folding import FOLDED_SIZE
from svod_tensor import Tensor

__all__ = ["WeightCache"]


class WeightCache:
    """Tensors of a program that are equal in each call.

    A walk over the nodes collects them before the program is built. They are in memory when the
    program is captured."""

    def __init__(self, tensors: Iterable[object]) -> None:
        self._known: Final = {
            id(tensor): tensor for tensor in tensors if isinstance(tensor, Tensor)
        }
        self._computed: Final[dict[object, tuple[object, ...]]] = {}
        self._of_arrays: Final[dict[object, tuple[np.ndarray, Tensor]]] = {}
        self.is_collecting = False

    def get_tensor(self, array: np.ndarray, make: Callable[[], Tensor]) -> Tensor:
        """Tensor of an array that the model holds; each walk gets the same tensor."""
        # Each walk folds small arrays anew, so equal values share a key. Large arrays belong to the
        # model and keep their identity.
        key = id(array) if array.size > FOLDED_SIZE else (array.shape, array.dtype, array.tobytes())
        cached = self._of_arrays.get(key)
        if cached is not None:
            return cached[1]
        tensor = make()
        if self.is_collecting:
            self._of_arrays[key] = array, tensor
            self._known[id(tensor)] = tensor
        return tensor

    def are_weights(self, operands: Iterable[object]) -> bool:
        """Whether all tensors among `operands` are weights."""
        return all(
            id(operand) in self._known for operand in operands if isinstance(operand, Tensor)
        )

    def get_or_compute(
        self, key: object, operands: Sequence[object], compute: Callable[[], tuple[object, ...]]
    ) -> tuple[object, ...]:
        """Results of `compute`, cached if all operands are weights.

        Args:
            key: identifies the computation, including operands that are not tensors.
            operands: operands of the computation.
            compute: computes the results from the operands only.
        """
        if not self.are_weights(operands):
            return compute()
        key = key, tuple(id(operand) for operand in operands if isinstance(operand, Tensor))
        cached = self._computed.get(key)
        if cached is not None:
            return cached
        results = compute()
        tensors = [value for value in results if isinstance(value, Tensor)]
        if self.is_collecting and len(tensors) == len(results):
            n_read = sum(
                _count_bytes(operand) for operand in operands if isinstance(operand, Tensor)
            )
            # Do not cache results much larger than their operands: a fused kernel may never store
            # them.
            if sum(map(_count_bytes, tensors)) <= 2 * n_read + FOLDED_SIZE:
                self._computed[key] = results
                self._known.update((id(tensor), tensor) for tensor in tensors)
        return results

    def realize(self) -> None:
        """Compute the collected values."""
        tensors = [
            value
            for values in self._computed.values()
            for value in values
            if isinstance(value, Tensor)
        ]
        Tensor.realize_batch([tensor for tensor in tensors if not tensor.is_realized])


def _count_bytes(tensor: Tensor) -> int:
    size = tensor.size
    # A symbolic size counts as huge, so that such results are never cached.
    return size * tensor.dtype.nbytes if isinstance(size, int) else 1 << 62
