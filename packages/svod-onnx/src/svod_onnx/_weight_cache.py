"""What is computed of weights alone, once for all calls: in branches and loops too, whose nodes appear while a program is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from svod_onnx._folding import FOLDED_SIZE
from svod_tensor import Tensor

__all__ = ["WeightCache"]


class WeightCache:
    """The tensors of a program that are the same in each call.

    They are collected by a walk over the nodes before the program is built, and are in memory when it is.
    """

    def __init__(self, tensors: Iterable[object]) -> None:
        self._known: Final = {id(tensor): tensor for tensor in tensors if isinstance(tensor, Tensor)}
        self._computed: Final[dict[object, tuple[object, ...]]] = {}
        self._of_arrays: Final[dict[object, tuple[np.ndarray, Tensor]]] = {}
        self.is_collecting = False

    def get_tensor(self, array: np.ndarray, make: Callable[[], Tensor]) -> Tensor:
        """The tensor of an array that the model holds: the same one in each walk."""
        # Small ones are computed anew in each walk.
        key = id(array) if array.size > FOLDED_SIZE else (array.shape, array.dtype, array.tobytes())
        found = self._of_arrays.get(key)
        if found is not None:
            return found[1]
        made = make()
        if self.is_collecting:
            self._of_arrays[key] = array, made
            self._known[id(made)] = made
        return made

    def are_weights(self, operands: Iterable[object]) -> bool:
        """Whether all tensors among `operands` are weights."""
        return all(id(operand) in self._known for operand in operands if isinstance(operand, Tensor))

    def get_or_compute(
        self, key: object, operands: Sequence[object], compute: Callable[[], tuple[object, ...]]
    ) -> tuple[object, ...]:
        """The results of `compute`, kept where all operands are weights.

        Args:
            key: what is computed.
            operands: of what; other things than tensors among them are part of `key`.
            compute: from the operands alone.
        """
        if not self.are_weights(operands):
            return compute()
        key = key, tuple(id(operand) for operand in operands if isinstance(operand, Tensor))
        found = self._computed.get(key)
        if found is not None:
            return found
        made = compute()
        tensors = [one for one in made if isinstance(one, Tensor)]
        if self.is_collecting and len(tensors) == len(made):
            n_read = sum(_count_bytes(operand) for operand in operands if isinstance(operand, Tensor))
            # What takes much more memory than what it is made of is left to kernels, which may never store it.
            if sum(map(_count_bytes, tensors)) <= 2 * n_read + FOLDED_SIZE:
                self._computed[key] = made
                self._known.update((id(tensor), tensor) for tensor in tensors)
        return made

    def realize(self) -> None:
        """Compute what was collected."""
        found = [one for made in self._computed.values() for one in made if isinstance(one, Tensor)]
        Tensor.realize_batch([tensor for tensor in found if not tensor.is_realized])


def _count_bytes(tensor: Tensor) -> int:
    size = tensor.size
    return size * tensor.dtype.nbytes if isinstance(size, int) else 1 << 62
