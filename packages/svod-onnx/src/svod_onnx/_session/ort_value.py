"""`OrtValue`: a value of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from svod_onnx._session.host_values import check_device, to_numpy_dtype
from svod_onnx._session.metadata import name_tensor_type
from svod_onnx._types import get_element_type
from svod_onnx.capi.onnxruntime_pybind11_state import RuntimeException

__all__ = ["OrtValue", "get_value"]


class OrtValue:
    """An input or output of a session in host memory: an array, a list of arrays, or None.

    Example:
        >>> import numpy as np
        >>> from svod_onnx import OrtValue
        >>> x = np.zeros((2, 3), np.float32)
        >>> value = OrtValue.ortvalue_from_numpy(x)
        >>> value.shape(), value.data_type(), value.device_name(), value.is_tensor()
        ([2, 3], 'tensor(float)', 'cpu', True)
        >>> value.update_inplace(np.ones((2, 3), np.float32))
        >>> x.tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
        >>> value.data_ptr() == x.ctypes.data, value.tensor_size_in_bytes(), value.element_type()
        (True, 24, 1)
        >>> OrtValue.ortvalue_from_shape_and_type([2], np.int64).data_type()
        'tensor(int64)'
        >>> BFLOAT16 = 16
        >>> OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.uint16), BFLOAT16).data_type()
        'tensor(bfloat16)'
        >>> OrtValue.from_dlpack(x).has_value(), OrtValue(None).has_value()
        (True, False)
        >>> items = OrtValue([x, x])
        >>> items.is_tensor_sequence(), items.is_sparse_tensor(), items.data_type()
        (True, False, 'seq(tensor(float))')
    """

    __slots__ = ("_value",)

    def __init__(self, value: np.ndarray | list[np.ndarray] | None) -> None:
        self._value: Final = value

    @classmethod
    def ortvalue_from_numpy(
        cls,
        numpy_obj: np.ndarray,
        /,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A value in the memory of an array; an array that is not contiguous is copied."""
        del vendor_id
        check_device(device_type, device_id)
        return cls(np.asarray(numpy_obj, order="C"))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(
        cls, data: np.ndarray, /, onnx_element_type: int
    ) -> OrtValue:
        """A value in the memory of an array, whose bytes are elements of another type."""
        return cls(np.asarray(data, order="C").view(to_numpy_dtype(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A value in new memory. `element_type` is a numpy dtype, or an ONNX element type."""
        del vendor_id
        check_device(device_type, device_id)
        return cls(np.zeros(tuple(shape), to_numpy_dtype(element_type)))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value in the memory of a tensor of another library."""
        return cls(np.from_dlpack(data))

    def numpy(self) -> np.ndarray:
        """The array, which shares memory with the value."""
        return self._get_array()

    def shape(self) -> list[int]:
        """Sizes of the tensor."""
        return list(self._get_array().shape)

    def data_type(self) -> str:
        """Type of the value, such as "tensor(float)"."""
        if isinstance(self._value, list):
            first = self._value[0] if self._value else None
            # An empty list has no element to tell its type.
            name = "tensor(float)" if first is None else name_tensor_type(_get_type(first))
            return f"seq({name})"
        return name_tensor_type(self.element_type())

    def element_type(self) -> int:
        """Element type of the tensor as an `onnx.TensorProto.DataType`."""
        return _get_type(self._get_array())

    def tensor_size_in_bytes(self) -> int:
        """Number of bytes of the tensor."""
        return self._get_array().nbytes

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._get_array().ctypes.data

    def device_name(self) -> str:
        """Name of the device, always "cpu"."""
        return "cpu"

    def has_value(self) -> bool:
        """False for an optional without a value."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether the value is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """False: sparse tensors are not supported."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether the value is a sequence of tensors."""
        return isinstance(self._value, list)

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Copy `data` into the memory of the value.

        Raises:
            RuntimeException: if `data` has another number of bytes.
        """
        source = data.numpy() if isinstance(data, OrtValue) else data
        if not isinstance(cast("object", source), np.ndarray):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        target = self._get_array()
        if source.nbytes != target.nbytes or source.dtype != target.dtype:
            raise RuntimeException(
                f"cannot copy an array of {source.dtype}{source.shape} into a value of"
                f" {target.dtype}{target.shape}"
            )
        np.copyto(target, source.reshape(target.shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._get_array(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._get_array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._get_array().__dlpack_device__()

    def _get_array(self) -> np.ndarray:
        if not isinstance(self._value, np.ndarray):
            raise RuntimeException(
                "Only OrtValues that are Tensors can be converted to Numpy objects"
            )
        return self._value


def _get_type(array: np.ndarray) -> int:
    return get_element_type(array.dtype)


def get_value(value: OrtValue) -> Any:
    """The array, the list of arrays, or None."""
    return value._value  # pyright: ignore[reportPrivateUsage]
