"""Base class of tensors: storage, graph node, dtype, shape and device."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from svod_dtype import DType, to_dtype
from svod_ir import Sharding, SInt, UOp
from svod_ir.placement import check_devices
from svod_ir.sizes import max_size, product
from svod_tensor._origins import add_line
from svod_tensor._scopes import current_scope
from svod_tensor._shapes import ElementCount, Shape
from svod_tensor.cells.cell import Cell, TensorSpec, View, find_result_spec
from svod_tensor.cells.registry import record_read_of
from svod_tensor.cells.tables import captured
from svod_tensor.cells.views import Step
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import ApiVersionError
from svod_tensor.ops.core.argument_names import explain_arguments
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    NestedData: TypeAlias = Sequence["bool | int | float | complex | NestedData"]
    Number: TypeAlias = bool | int | float | complex
    TensorData: TypeAlias = (
        "TensorBase | NDArray[np.generic] | np.generic | NestedData | Number | bytes | UOp"
    )
    Operand: TypeAlias = TensorData
    """Value that an operation accepts together with a tensor."""

    Amounts: TypeAlias = "SInt | Sequence[SInt] | None"
    """Padding of one axis: a width for both sides, a pair (before, after), or None."""

__all__ = ["DTypeLike", "TensorBase", "set_content"]

DTypeLike: TypeAlias = DType | str | type

_API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Supported versions of the array API standard."""


class TensorBase:
    """The properties of every tensor, apart from operations.

    Attributes:
        content: the storage cell of the tensor, or a view of one.
    """

    __slots__ = ("__weakref__", "content")

    content: Cell | View

    __array_priority__ = 100.0
    """As in numpy: of several kinds of arrays, the kind that determines the result. numpy's own
    arrays have 0."""

    @explain_arguments("Tensor")
    def __init__(
        self, data: TensorData, dtype: DTypeLike | None = None, device: str | None = None
    ) -> None:
        """Create a tensor from numbers, a numpy array, a tensor, or nested lists of these.

        Python floats give float32; integers give int32, or int64 (uint64) where they do not fit.
        In a list with tensors they are weakly typed, as in arithmetic. A numpy array keeps its dtype, and
        is copied; `Tensor.from_numpy` can share its memory.

        Args:
            data: the elements.
            dtype: dtype of the tensor; by default the dtype of the data.
            device: device of the tensor; by default the device of `data` if it is a tensor, else
                the device that `SVOD_DEVICE` names, or the CPU.

        Raises:
            RaggedDataError: if nested lists have no common shape.
            IntegerOverflowError: if an integer does not fit `dtype`, or any dtype.
            NonFiniteCastError: if NaN or an infinity should become an integer.
            DataError: if `data` cannot be converted to a tensor.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([[1, 2], [3, 4]]).shape, Tensor(1.5).dtype
            ((2, 2), float32)
        """
        from svod_tensor._data import copy_to_device, make_node, place_by_default

        target_dtype = None if dtype is None else to_dtype(dtype)
        is_graph = isinstance(data, (TensorBase, UOp))
        if isinstance(data, TensorBase):
            node = data.uop if target_dtype is None else data.uop.cast(target_dtype)
        else:
            node = make_node(data, target_dtype)
        if device is not None:
            node = copy_to_device(node, device)
        elif not is_graph:
            node = place_by_default(node)
        set_content(self, Cell(node, owns=not is_graph and memory_nodes.is_buffer_identity(node)))
        if current_scope.get() is not None:
            add_line(node)

    @classmethod
    def from_uop(cls, uop: UOp, spec: TensorSpec | None = None, *, owns: bool = False) -> Self:
        """Create a tensor from `uop`, a node of the graph stage with a shape.

        Args:
            uop: the node.
            spec: its spec, if already known.
            owns: whether the node is memory allocated for this tensor, which in-place writes may
                modify.

        Raises:
            DeviceMismatchError: if the inputs of the node are on different devices.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1.0, 2.0])
            >>> Tensor.from_uop(x.uop + x.uop).tolist()
            [2.0, 4.0]
        """
        self = object.__new__(cls)
        set_content(self, Cell(uop, spec, owns=owns))
        if spec is None:
            # Computed eagerly, so that a device mismatch is raised by the call that causes it.
            _ = uop.placement
        if current_scope.get() is not None:
            add_line(uop)
        return self

    def _make(self, uop: UOp, *operands: TensorBase) -> Self:
        """Create the tensor of `uop`, which is computed from this tensor and `operands`.

        Raises:
            DeviceMismatchError: if they are on different devices.
        """
        # An operand of which only the shape is used is not in the graph, so it is checked here.
        placement = self.uop.placement
        for operand in operands:
            if operand.uop.placement != placement:
                check_devices(self.uop, *[o.uop for o in operands])
                break
        return self.from_uop(uop)

    def _make_alike(self, uop: UOp) -> Self:
        """Create the tensor of `uop`, whose inputs are all on the device of this tensor."""
        return self.from_content(Cell(uop))

    def along(self, *steps: Step) -> Self:
        """Return a view of the elements through further `steps`; a copy where numpy's reshape would
        copy.

        Args:
            steps: view steps of `svod_tensor.cells.views`, such as `Flip((True,))`.

        Example:
            >>> from svod_tensor import Tensor
            >>> from svod_tensor.cells.views import Flip
            >>> Tensor([1, 2, 3]).along(Flip((True,))).tolist()
            [3, 2, 1]
        """
        content = self.content
        # Empty outside of captures: all other reads pay one test.
        if captured:
            record_read_of(content)
        return self.from_content(content.along(steps))

    @classmethod
    def from_content(cls, content: Cell | View) -> Self:
        """Create a tensor that shares `content`: a storage cell, or a view of one.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1, 2, 3])
            >>> y = Tensor.from_content(x[1:].content)
            >>> x.assign(0).tolist(), y.tolist()
            ([0, 0, 0], [0, 0])
        """
        self = object.__new__(cls)
        set_content(self, content)
        if current_scope.get() is not None:
            add_line(content.node)
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return the module with the functions of the array API standard: `svod_tensor`.

        Args:
            api_version: version of the standard; the newest by default.

        Raises:
            ApiVersionError: if that version is not supported.
        """
        if api_version not in (None, *_API_VERSIONS):
            raise ApiVersionError(given=api_version, known=_API_VERSIONS)
        return import_module("svod_tensor")

    @property
    def uop(self) -> UOp:
        """The current graph node of this tensor; an assignment changes it.

        Example:
            >>> from svod_tensor import Tensor
            >>> (Tensor([1]) + 1).uop.op.name
            'ADD'
        """
        content = self.content
        if captured:
            record_read_of(content)
        return content.node

    @property
    def dtype(self) -> DType:
        """The dtype of the elements.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([1.5]).dtype
            float32
        """
        spec = None if captured else find_result_spec(self.content)
        return self.uop.dtype if spec is None else spec[1]

    @property
    def shape(self) -> Shape:
        """Size of each axis: an int, or an index-typed node where it depends on a `Variable`.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([[1, 2, 3]]).shape
            (1, 3)
        """
        spec = None if captured else find_result_spec(self.content)
        return self.uop.shape if spec is None else spec[0]

    @property
    def ndim(self) -> int:
        """The number of axes.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([[1, 2, 3]]).ndim
            2
        """
        return len(self.shape)

    @property
    def size(self) -> SInt:
        """The number of elements: an int, or an index-typed node where it depends on a `Variable`.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([[1, 2, 3]]).size
            3
        """
        size = product(self.shape)
        return ElementCount(size) if isinstance(size, int) else size

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([1.5]).itemsize
            4
        """
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes, at the largest values of the variables in the shape.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([1.5, 2.5]).nbytes
            8
        """
        return math.prod(max_size(s) for s in self.shape) * self.itemsize

    @property
    def device(self) -> str | tuple[str, ...]:
        """Name of the device of the tensor; for a sharded tensor, the names of all its devices.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([1], device="CPU").device
            'CPU'
        """
        spec = None if captured else find_result_spec(self.content)
        if spec is None:
            return self.uop.device or DEFAULT_DEVICE
        placement = spec[2]
        return placement if isinstance(placement, str) else placement.devices

    @property
    def sharding(self) -> Sharding | None:
        """The tensor's split over devices; None if it is on one device.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1, 2, 3, 4]).shard(("CPU", "CPU:1"), axis=0)
            >>> x.sharding.devices, x.sharding.axis
            (('CPU', 'CPU:1'), 0)
        """
        spec = None if captured else find_result_spec(self.content)
        placement = self.uop.placement if spec is None else spec[2]
        return placement if isinstance(placement, Sharding) else None

    @property
    def spec(self) -> TensorSpec:
        """Spec of the tensor: all that is known without memory and the values of variables. Tensors
        with equal specs can share one plan.

        Example:
            >>> from svod_tensor import Tensor
            >>> Tensor([1, 2]).spec == Tensor([3, 4]).spec
            True
        """
        return self.content.spec

    @property
    def is_realized(self) -> bool:
        """True if the tensor is a buffer in memory, or a view of one, so that reading it needs no
        computation.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1, 2]) * 2
            >>> x.is_realized, x.realize().is_realized
            (False, True)
        """
        return self.content.is_realized

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Only called for attributes that do not exist.
            from svod_tensor._foreign_names import find_foreign_attribute

            # numpy probes several dunder protocols, which would be much of the cost of
            # `np.asarray(x)`.
            if (
                not name.startswith("__")
                and (foreign := find_foreign_attribute(type(self), name)) is not None
            ):
                raise foreign
            # Raises Python's own AttributeError, which names the attribute missing in a property.
            return object.__getattribute__(self, name)

        def __setattr__(self, name: str, value: object) -> None:
            try:
                object.__setattr__(self, name, value)
            except AttributeError:
                from svod_tensor._foreign_names import find_foreign_attribute

                if (foreign := find_foreign_attribute(type(self), name)) is None:
                    raise
                raise foreign from None

    def __sizeof__(self) -> int:
        # As in numpy, the elements count: caches and schedulers weigh objects by `sys.getsizeof`.
        return object.__sizeof__(self) + self.nbytes

    # By identity: `==` compares elements, as in numpy, and is no equality of tensors.
    def __hash__(self) -> int:
        return id(self)


# Bypasses `__setattr__`, whose check for names of other libraries every new tensor would pay.
set_content: Final = TensorBase.__dict__["content"].__set__
