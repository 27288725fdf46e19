"""Weights: arrays over the bytes of the file they lie in, which is mapped and not read."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

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
"""How many elements share a byte."""


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, which are read when they are looked at.

    Raises:
        OSError: if the file cannot be read.
    """
    with Path(path).open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@dataclass(frozen=True, slots=True)
class WeightReader:
    """The tensors of a model, as arrays.

    Attributes:
        title: of the model, for errors.
        folder: where its external data is; None where it has no place.
    """

    title: str
    folder: Path | None
    _files: dict[Path, memoryview] = field(default_factory=dict[Path, memoryview])

    def read(self, tensor: onnx.TensorProto, data: memoryview | None = None) -> np.ndarray:
        """The elements of a tensor.

        Args:
            tensor: what the model says of it.
            data: its bytes, where they do not lie in `tensor`.

        Raises:
            ModelFileError: if what it says contradicts itself.
        """
        if tensor.data_location == _T.EXTERNAL:
            data = self._map_external(tensor)
        elif data is None and tensor.HasField("raw_data"):
            data = memoryview(tensor.raw_data)
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape):
            raise self._refuse(tensor, f"has shape {shape}")
        if data is None:
            return self._read_fields(tensor, shape)
        dtype = find_host_type(tensor.data_type)
        if dtype is None:
            raise self._refuse(tensor, f"has bytes, and is of {_name_type(tensor.data_type)}")
        per_byte = _PER_BYTE.get(int(tensor.data_type), 1)
        wanted = -(-prod(shape) // per_byte) * dtype.itemsize
        if data.nbytes != wanted:
            raise self._refuse(
                tensor, f"of shape {shape} takes {wanted} bytes, and has {data.nbytes}"
            )
        if per_byte > 1:
            return self._unpack(tensor, data)
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)

    def read_sparse(self, sparse: onnx.SparseTensorProto) -> np.ndarray:
        """The elements of a sparse tensor, with the zeros between them.

        Raises:
            ModelFileError: if what it says contradicts itself, or it is nearly empty and very
                large.
        """
        values, indices = self.read(sparse.values), self.read(sparse.indices)
        shape = tuple(sparse.dims)
        if min(shape, default=0) < 0 or prod(shape) > _MAX_SPREAD * max(values.size, 1024):
            raise self._refuse(sparse.values, f"is spread over shape {shape}")
        dense = np.zeros(shape, values.dtype)
        try:
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
        except (IndexError, ValueError) as error:
            raise self._refuse(sparse.values, f"has wrong positions: {error}") from error
        return dense

    def _read_fields(self, tensor: onnx.TensorProto, shape: tuple[int, ...]) -> np.ndarray:
        """Elements that are numbers of the message, and not bytes."""
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError) as error:
            raise self._refuse(tensor, f"of shape {shape} cannot be read: {error}") from error

    def _unpack(self, tensor: onnx.TensorProto, data: memoryview) -> np.ndarray:
        whole = _T(data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(data))
        return numpy_helper.to_array(whole).astype(HOST_TYPES[tensor.data_type], copy=False)

    def _map_external(self, tensor: onnx.TensorProto) -> memoryview:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise self._refuse(
                tensor, f"lies in {location!r}, and the model in no folder: load it by its path"
            )
        folder = self.folder.resolve()
        # A path that leaves the folder, through ".." or a link, would let a model read any file of
        # its user.
        path = (folder / location).resolve()
        if not location or not path.is_relative_to(folder) or path == folder:
            raise self._refuse(tensor, f"lies in {location!r}, which is outside the model's folder")
        if path not in self._files:
            if not path.is_file():
                raise self._refuse(tensor, f"lies in {location!r}, and there is no such file")
            try:
                self._files[path] = map_file(path)
            except OSError as error:
                raise self._refuse(
                    tensor, f"lies in {location!r}, which cannot be read: {error.strerror}"
                ) from error
        data = self._files[path]
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries.get("length") or data.nbytes - offset)
        except ValueError as error:
            raise self._refuse(
                tensor, f"has a place in {location!r} that is no number: {error}"
            ) from error
        if offset < 0 or length < 0 or offset + length > data.nbytes:
            raise self._refuse(
                tensor,
                f"lies in bytes {offset} to {offset + length} of {location!r}, which has"
                f" {data.nbytes}",
            )
        return data[offset : offset + length]

    def _refuse(self, tensor: onnx.TensorProto, problem: str) -> ModelFileError:
        return ModelFileError(path=self.title, problem=f"the tensor {tensor.name!r} {problem}")


_MAX_SPREAD: Final = 1000
"""How many zeros of a sparse tensor are written out for each of its elements."""


def _name_type(kind: int) -> str:
    return _T.DataType.Name(kind) if kind in _T.DataType.values() else f"type {kind}"
