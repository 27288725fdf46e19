"""The core of a tensor: a node of the graph, its device, and its place in the registry.

The operations are classes that stand on each other, one a file, in this order: `TensorBase`,
`Movement`, `Elementwise`, `Operators`, `Functions`, `Creation`, `Reduction`, `Indexing`, `Products`,
`Neural`, `Updating`, `Windows`, `Random`, `Sorting`, `Assigning`; each uses only what stands below it,
and `svod_tensor.Tensor` stands on top.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypeAlias

from svod_dtype import DType, to_dtype
from svod_ir.shape import max_size
from svod_ir.sizes import product
from svod_ir.uop import SInt, UOp
from svod_tensor import registry
from svod_tensor.errors import DeviceMismatchError
from svod_tensor.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    NestedData: TypeAlias = Sequence["bool | int | float | NestedData"]
    TensorData: TypeAlias = (
        "TensorBase | NDArray[np.generic] | np.generic | NestedData | bool | int | float | bytes | UOp"
    )

__all__ = ["DEFAULT_DEVICE", "DTypeLike", "TensorBase"]

DTypeLike: TypeAlias = DType | str | type
DEFAULT_DEVICE = "CPU"


class TensorBase:
    """What every tensor has, before it has operations."""

    __slots__ = ("__weakref__", "_device", "_uop")

    _uop: UOp
    _device: str | None

    def __init__(self, data: TensorData, dtype: DTypeLike | None = None, device: str | None = None) -> None:
        """Make a tensor from numbers, nested lists, a numpy array or a tensor.

        Python floats give float32; integers give int32, or int64 (uint64) where they do not fit.
        A numpy array keeps its dtype, and is copied; `Tensor.from_numpy` can share its memory.

        Args:
            data: the elements.
            dtype: the dtype of the tensor; by default that of the data.
            device: where the tensor lives, `"CPU"` by default.

        Raises:
            RaggedDataError: if nested lists have no common shape.
            IntegerOverflowError: if an integer does not fit `dtype`, or any dtype.
            NonFiniteCastError: if NaN or an infinity should become an integer.
            DataError: if `data` is no tensor data.
        """
        from svod_tensor.data import make_node

        wanted = None if dtype is None else to_dtype(dtype)
        if isinstance(data, TensorBase):
            self._uop = data._uop if wanted is None else data._uop.cast(wanted)
            self._device = data._device
        else:
            self._uop, self._device = make_node(data, wanted)
        if device is not None:
            self._place_on(device)
        registry.add_tensor(self)

    @classmethod
    def from_uop(cls, uop: UOp, device: str | None = None) -> Self:
        """The tensor that stands for `uop`, a node of the graph stage with a shape."""
        self = object.__new__(cls)
        self._uop = uop
        self._device = uop.device if device is None else device
        registry.add_tensor(self)
        return self

    def _make(self, uop: UOp, *operands: TensorBase) -> Self:
        """The tensor of `uop`, which was computed from this tensor and `operands`."""
        made = object.__new__(type(self))
        made._uop = uop
        made._device = self._compute_device
        for operand in operands:
            device = operand._compute_device
            if device is not None and device != made._device:
                if made._device is not None:
                    raise DeviceMismatchError(left=made._device, right=device)
                made._device = device
        registry.add_tensor(made)
        return made

    @property
    def _compute_device(self) -> str | None:
        """Where results of this tensor are: its own device, except that nothing is computed on DISK."""
        device = self._device
        return None if device is not None and device.startswith("DISK:") else device

    def _place_on(self, device: str) -> None:
        from svod_tensor.data import copy_to_device

        self._uop, self._device = copy_to_device(self._uop, self._device, device)

    def set_node(self, uop: UOp) -> None:
        """Let this tensor stand for `uop`, which has the same value, shape and dtype."""
        with registry.lock:
            self._uop = uop

    @property
    def uop(self) -> UOp:
        """The node of the graph that this tensor stands for."""
        return self._uop

    @property
    def dtype(self) -> DType:
        return self._uop.dtype

    @property
    def shape(self) -> Shape:
        """Sizes of each axis: ints, or index-typed nodes where they depend on a `Variable`."""
        return self._uop.shape

    @property
    def ndim(self) -> int:
        return len(self._uop.shape)

    @property
    def size(self) -> SInt:
        """The number of elements."""
        return product(self._uop.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._uop.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, at the largest values of the variables in the shape."""
        return math.prod(max_size(s) for s in self._uop.shape) * self.itemsize

    @property
    def device(self) -> str:
        """The name of the device that the tensor is or will be on."""
        return self._device or DEFAULT_DEVICE

    @property
    def is_realized(self) -> bool:
        """Whether the tensor is a whole buffer, so that reading it computes nothing."""
        return registry.is_buffer_identity(self._uop)

    def __repr__(self) -> str:
        state = "realized" if self.is_realized else f"lazy {self._uop.op.name}"
        return f"<{type(self).__name__} shape={_show(self.shape)} dtype={self.dtype} device={self.device} {state}>"

    def __hash__(self) -> int:
        return id(self)


def _show(shape: Shape) -> str:
    sizes = [str(s) if isinstance(s, int) else _show_size(s) for s in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _show_size(size: UOp) -> str:
    names = [node.arg[0] for node in size.toposort() if node.op.name == "DEFINE_VAR"]
    return names[0] if len(names) == 1 and size.op.name in ("DEFINE_VAR", "BIND") else f"<{', '.join(names)}>"
