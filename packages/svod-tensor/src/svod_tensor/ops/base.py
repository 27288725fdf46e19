"""The core of a tensor: a node of the graph, its device, and its place in the registry.

The operations are classes that stand on each other, one a file, in this order: `TensorBase`,
`Movement`, `Elementwise`, `Operators`, `Functions`, `Creation`, `Placing`, `Reduction`, `Indexing`, `Products`,
`Neural`, `Updating`, `Windows`, `Random`, `Sorting`, `Standard`, `Assigning`; each uses only what stands below it,
and `svod_tensor.Tensor` stands on top.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypeAlias

from svod_dtype import DType, to_dtype
from svod_ir.placement import Sharding, check_devices
from svod_ir.sizes import format_shape, max_size, product, unbind
from svod_ir.uop import SInt, UOp
from svod_tensor import registry
from svod_tensor.data import DEFAULT_DEVICE
from svod_tensor.origins import add_line, current_scope
from svod_tensor.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    NestedData: TypeAlias = Sequence["bool | int | float | NestedData"]
    TensorData: TypeAlias = (
        "TensorBase | NDArray[np.generic] | np.generic | NestedData | bool | int | float | bytes | UOp"
    )

__all__ = ["DTypeLike", "Form", "TensorBase", "find_form"]

DTypeLike: TypeAlias = DType | str | type

Form: TypeAlias = tuple[Shape, DType, "Sharding | str"]
"""The shape of a tensor, with variables but not with their values, its dtype, and where it is or will be."""


def find_form(node: UOp) -> Form:
    """The form of the tensor that stands for `node`."""
    shape = tuple([s if isinstance(s, int) else unbind(s) for s in node.shape])
    return shape, node.dtype, node.placement or DEFAULT_DEVICE


class TensorBase:
    """What every tensor has, before it has operations."""

    __slots__ = ("__weakref__", "_form", "_uop")

    _form: Form | None
    _uop: UOp

    def __init__(self, data: TensorData, dtype: DTypeLike | None = None, device: str | None = None) -> None:
        """Make a tensor from numbers, a numpy array, a tensor, or nested lists of these.

        Python floats give float32; integers give int32, or int64 (uint64) where they do not fit. Beside tensors in a list
        they are weak, as in arithmetic.
        A numpy array keeps its dtype, and is copied; `Tensor.from_numpy` can share its memory.

        Args:
            data: the elements.
            dtype: the dtype of the tensor; by default that of the data.
            device: where the tensor lives; by default where its data is if that is a tensor, else on the device that
                `SVOD_DEVICE` names, the CPU if it names none.

        Raises:
            RaggedDataError: if nested lists have no common shape.
            IntegerOverflowError: if an integer does not fit `dtype`, or any dtype.
            NonFiniteCastError: if NaN or an infinity should become an integer.
            DataError: if `data` is no tensor data.
        """
        from svod_tensor.data import make_node, place_by_default

        wanted = None if dtype is None else to_dtype(dtype)
        if isinstance(data, TensorBase):
            self._uop = data._uop if wanted is None else data._uop.cast(wanted)
        else:
            self._uop = make_node(data, wanted)
        if device is not None:
            self._place_on(device)
        elif not isinstance(data, (TensorBase, UOp)):
            self._uop = place_by_default(self._uop, data)
        self._form = None
        if current_scope.get() is not None:
            add_line(self._uop)
        registry.add_tensor(self)

    @classmethod
    def from_uop(cls, uop: UOp, form: Form | None = None) -> Self:
        """The tensor that stands for `uop`, a node of the graph stage with a shape.

        Args:
            uop: the node.
            form: its form, where that is known.
        """
        self = object.__new__(cls)
        self._uop, self._form = uop, form
        if form is None:
            # A mistake about devices is raised by the call that makes it.
            _ = uop.placement
        if current_scope.get() is not None:
            add_line(self._uop)
        registry.add_tensor(self)
        return self

    def _make(self, uop: UOp, *operands: TensorBase) -> Self:
        """The tensor of `uop`, which was computed from this tensor and `operands`.

        Raises:
            DeviceMismatchError: if they are on different devices.
        """
        # An operand of which only the shape is used, or no element, is not in the graph.
        placement = self._uop.placement
        for operand in operands:
            if operand._uop.placement != placement:
                check_devices(self._uop, *[o._uop for o in operands])
                break
        return self.from_uop(uop)

    def _place_on(self, device: str) -> None:
        from svod_tensor.data import copy_to_device

        self._uop = copy_to_device(self._uop, device)

    def set_node(self, uop: UOp) -> None:
        """Let this tensor stand for `uop`, which has the same value, shape and dtype."""
        with registry.lock:
            self._uop, self._form = uop, None
            registry.note_new_node(self)

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
    def device(self) -> str | tuple[str, ...]:
        """The name of the device that the tensor is or will be on; of a sharded one, the names of all its devices."""
        return self._uop.device or DEFAULT_DEVICE

    @property
    def sharding(self) -> Sharding | None:
        """How this tensor is spread over devices; None if it is on one."""
        placement = self._uop.placement
        return placement if isinstance(placement, Sharding) else None

    @property
    def form(self) -> Form:
        """What is known without memory and without the values of variables; equal for tensors that one plan serves."""
        found = self._form
        if found is None:
            found = self._form = find_form(self._uop)
        return found

    @property
    def is_realized(self) -> bool:
        """Whether the tensor is a whole buffer, so that reading it computes nothing."""
        return registry.is_buffer_identity(self._uop)

    def __repr__(self) -> str:
        state = "realized" if self.is_realized else f"lazy {self._uop.op.name}"
        return (
            f"<{type(self).__name__} shape={format_shape(self.shape)} dtype={self.dtype} device={self.device} {state}>"
        )

    def __hash__(self) -> int:
        return id(self)
