"""The one base of all themes: nodes of one dtype from operands, and a tensor from a node.

A theme is a file with a class of operations. `svod_tensor.Tensor` is composed of all themes, in an order that means nothing: no
operation is defined by two. What a theme calls of another one is declared at the end of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from svod_dtype import DType
from svod_ir import Op, SInt, UOp, make_alu
from svod_tensor._data import Scalar
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.base import DTypeLike, TensorBase
from svod_tensor.ops.methods import Methods
from svod_tensor.ops.operands import (
    apply_binary,
    apply_unary,
    as_tensor,
    as_value,
    cast_to,
    promote,
    promote_to_float,
    slice_axis,
    through_float64,
    to_float,
)  # fmt: skip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_tensor._generator import Generator, Seed
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.index_items import Index

__all__ = ["INFINITY", "Theme", "is_elsewhere"]

T = TypeVar("T", bound="Theme")

INFINITY = float("inf")


class Theme(Methods):
    """What every theme needs: operands of one dtype, and tensors of what is computed from them."""

    __slots__ = ()

    def _wrap(self, value: Operand) -> Self:
        return as_tensor(value, self)

    def _to_value(self, value: Operand) -> Self:
        return as_value(value, self)

    _pair = promote
    _float_pair = promote_to_float
    _of_dtype = cast_to
    _to_float = to_float

    def _through_float64(self, function: Callable[[Self], Self]) -> Self:
        return through_float64(function, self)

    def _unary(self, op: Op) -> Self:
        return apply_unary(op, self)

    def _binary(self, op: Op, other: Operand, *, refused: tuple[DType, ...] = ()) -> Self:
        return apply_binary(op, self, other, refused=refused)

    def _apply(self, op: Op, x: UOp, y: UOp, *operands: TensorBase) -> Self:
        """The op on two nodes, broadcast against each other; a 0-d node stands for all elements as it is."""
        left, right = x.shape, y.shape
        if left != right and left and right:
            shape = broadcast_shapes(left, right)
            x, y = broadcast_node(x, shape), broadcast_node(y, shape)
        return self._make(make_alu(op, x, y), *operands)

    _slice_axis = slice_axis

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
