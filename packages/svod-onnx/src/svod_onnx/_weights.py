"""Initializers as arrays over the memory-mapped file."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from svod_onnx._types import HOST_TYPES, find_host_type
from svod_onnx.errors import ModelFileError

__all__ = ["WeightReader", "map_file"]

_T: Final = onnx.TensorProto

_PER_BYTE: Final[dict[int, int]] = {
    _T.INT4: 2,
    _T.UINT4: 2,
    _T.FLOAT4E2M1: 2,
    _T.INT2: 4,
    _T.UINT2: 4,
}
"""Number of elements per byte."""


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """Memory-map a file.

    Raises:
        OSError: if the file cannot be read.
    """
    with Path(path).open("rb") as file:
        # mmap rejects empty files.
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@dataclass(frozen=True, slots=True)
class WeightReader:
    """Reader of a model's tensors as arrays.

    Attributes:
        title: title of the model, for errors.
        folder: folder of its external data; None for a model without a path.
    """

    title: str
    folder: Path | None
    _files: dict[Path, memoryview] = field(default_factory=dict[Path, memoryview])

    def read(self, tensor: onnx.TensorProto, data: memoryview | None = None) -> np.ndarray:
        """Elements of a tensor.

        Args:
            tensor: message of the tensor.
            data: its bytes, if they are not in the message.

        Raises:
            ModelFileError: if the message is inconsistent.
        """
        if tensor.data_location == _T.EXTERNAL:
            data = self._map_external(tensor)
        elif data is None and tensor.HasField("raw_data"):
            data = memoryview(tensor.raw_data)
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape):
            raise self._refuse(tensor, f"has the invalid shape {shape}")
        if data is None:
            return self._read_fields(tensor, shape)
        dtype = find_host_type(tensor.data_type)
        if dtype is None:
            raise self._refuse(
                tensor, f"of type {_name_type(tensor.data_type)} must not have raw data"
            )
        per_byte = _PER_BYTE.get(int(tensor.data_type), 1)
        n_bytes = -(-prod(shape) // per_byte) * dtype.itemsize
        if data.nbytes != n_bytes:
            raise self._refuse(tensor, f"of shape {shape} needs {n_bytes} bytes, got {data.nbytes}")
        try:
            if per_byte > 1:
                return self._unpack(tensor, data)
            # ONNX stores little-endian elements; on such machines this is a view of the file.
            array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
            return array.reshape(shape)
        # numpy refuses some shapes without elements, and more than 64 axes.
        except ValueError as error:
            raise self._refuse(tensor, f"has the invalid shape {shape}: {error}") from error

    def read_sparse(self, sparse: onnx.SparseTensorProto) -> np.ndarray:
        """Elements of a sparse tensor as a dense array.

        Raises:
            ModelFileError: if the message is inconsistent, or if the dense array would be much
                larger.
        """
        values, indices = self.read(sparse.values), self.read(sparse.indices)
        shape = tuple(sparse.dims)
        if min(shape, default=0) < 0 or prod(shape) > _MAX_DENSITY_FACTOR * max(values.size, 1024):
            raise self._refuse(
                sparse.values,
                f"has {values.size} elements, and cannot become dense with shape {shape}",
            )
        try:
            dense = np.zeros(shape, values.dtype)
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
        # A scalar as indices is a TypeError, indices that are not integers an IndexError.
        except (IndexError, TypeError, ValueError) as error:
            raise self._refuse(
                sparse.values, f"has an invalid shape or indices: {error}"
            ) from error
        return dense

    def _read_fields(self, tensor: onnx.TensorProto, shape: tuple[int, ...]) -> np.ndarray:
        """Elements in typed fields of the message, and not in `raw_data`."""
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError) as error:
            raise self._refuse(tensor, f"of shape {shape} cannot be decoded: {error}") from error

    def _unpack(self, tensor: onnx.TensorProto, data: memoryview) -> np.ndarray:
        message = _T(data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(data))
        return numpy_helper.to_array(message).astype(HOST_TYPES[tensor.data_type], copy=False)

    def _map_external(self, tensor: onnx.TensorProto) -> memoryview:
        entries: dict[str, Any] = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise self._refuse(
                tensor, f"has external data in {location!r}: load the model by its path"
            )
        folder = self.folder.resolve()
        if not isinstance(location, str):  # protobuf returns bytes for invalid UTF-8
            raise self._refuse(tensor, f"has external data in {location!r}, which is not UTF-8")
        # A path that leaves the folder, through ".." or a link, would let a model read any file of
        # its user.
        try:
            path = (folder / location).resolve()
        # A path with a null character, or links that form a circle.
        except (OSError, ValueError, RuntimeError) as error:
            raise self._refuse(
                tensor, f"has external data in {location!r}, which is not a path: {error}"
            ) from error
        if not location or not path.is_relative_to(folder) or path == folder:
            raise self._refuse(
                tensor, f"has external data in {location!r}, which is outside the model's folder"
            )
        if path not in self._files:
            try:
                if not path.is_file():
                    raise self._refuse(
                        tensor, f"has external data in {location!r}, which does not exist"
                    )
                self._files[path] = map_file(path)
            except OSError as error:
                problem = (
                    f"has external data in {location!r}, which cannot be read: {error.strerror}"
                )
                raise self._refuse(tensor, problem) from error
        # One mapping per file, which all of its tensors share.
        data = self._files[path]
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries.get("length") or data.nbytes - offset)
        except ValueError as error:
            raise self._refuse(
                tensor, f"has an invalid offset or length in {location!r}: {error}"
            ) from error
        if offset < 0 or length < 0 or offset + length > data.nbytes:
            raise self._refuse(
                tensor,
                f"has external data in bytes {offset} to {offset + length} of {location!r}, which has {data.nbytes} bytes",
            )
        return data[offset : offset + length]

    def _refuse(self, tensor: onnx.TensorProto, problem: str) -> ModelFileError:
        return ModelFileError(path=self.title, problem=f"tensor {tensor.name!r} {problem}")


_MAX_DENSITY_FACTOR: Final = 1000
"""Largest number of dense elements per element of a sparse tensor.

A small file must not allocate much memory.
"""


def _name_type(kind: int) -> str:
    return _T.DataType.Name(kind) if kind in _T.DataType.values() else f"type {kind}"
