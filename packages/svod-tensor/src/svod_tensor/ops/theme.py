"""The base of classes of methods that are no registered operations: syntax, reading, writing, devices and sampling.

`svod_tensor.Tensor` is composed of these classes, in an order that means nothing: no method is defined by two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from svod_ir import SInt
from svod_tensor._data import Scalar
from svod_tensor.ops.base import DTypeLike, TensorBase
from svod_tensor.ops.methods import Methods

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_tensor._generator import Generator, Seed
    from svod_tensor.ops.index_items import Index

__all__ = ["INFINITY", "Theme", "is_elsewhere"]

INFINITY = float("inf")


class Theme(Methods):
    """What classes of methods call of each other, for type checkers."""

    __slots__ = ()

    # What themes call of each other; each is defined, with its documentation, by one of them, or by `Tensor`.

    def __getitem__(self, index: Index, /) -> Self: ...
    def to(self, device: str) -> Self: ...
    def shards(self) -> tuple[Self, ...]: ...
    @classmethod
    def randn(
        cls,
        *shape: SInt | Sequence[SInt],
        seed: Seed | None = None,
        generator: Generator | None = None,
        dtype: DTypeLike = float,
        device: str | None = None,
    ) -> Self: ...
    def item(self) -> Scalar: ...
    def _host_array(self) -> NDArray[np.generic]: ...
    def _find_values(self) -> NDArray[np.generic] | None: ...
    def realize(self) -> Self: ...
    def _write(self, value: TensorBase) -> None: ...


def is_elsewhere(x: TensorBase, device: str) -> bool:
    """Whether `device` is another one than that which the tensor is on."""
    from svod_tensor._storage import check_device

    return x.device != check_device(device)
