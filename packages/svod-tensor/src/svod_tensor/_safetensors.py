"""Reading safetensors files: each tensor is a view of the mapped file, and nothing is copied before
a kernel reads it.

Source: the safetensors format, https://github.com/huggingface/safetensors#format. A file is the
size of the header (8 bytes, little-endian), the header (JSON: name → dtype, shape, [begin, end) in
the data), and the data. Every statement of the header is checked against the file before a tensor
is made."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard, cast

from svod_dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from svod_tensor._data import make_array_node, make_buffer_node
from svod_tensor.errors import MissingFileError, SafetensorsError
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_device import Buffer

__all__ = [
    "TensorEntry",
    "load_safetensors",
    "read_header",
    "read_safetensors_metadata",
    "save_safetensors",
]

_DTYPES: Final[Mapping[str, DType]] = {
    "BOOL": bool_,
    "U8": uint8,
    "I8": int8,
    "U16": uint16,
    "I16": int16,
    "U32": uint32,
    "I32": int32,
    "U64": uint64,
    "I64": int64,
    "F8_E4M3": float8_e4m3,
    "F8_E5M2": float8_e5m2,
    "F16": float16,
    "BF16": bfloat16,
    "F32": float32,
    "F64": float64,
    "C64": complex64,
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_ZIP: Final = b"PK\x03\x04"
_FROM_TORCH: Final = (
    "write it again with PyTorch: safetensors.torch.save_file(torch.load(path, weights_only=True),"
    " other)"
)
_MAX_HEADER_BYTES: Final = 100_000_000
"""The format's own limit, against files that claim a header as large as memory."""


class TensorEntry(NamedTuple):
    """One tensor of a file: dtype, shape, and the interval of its bytes from the start of
    the file.
    """

    dtype: DType
    shape: tuple[int, ...]
    begin: int
    end: int


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a file by name, in the order of the header, on the file's DISK device.

    CPU kernels read the mapped file where it lies; a tensor whose bytes do not start at a multiple
    of its element size is copied.

    Raises:
        MissingFileError: if the file does not exist.
        SafetensorsError: if it is truncated or contradicts itself.

    Example:
        >>> import os, tempfile
        >>> from svod_tensor import Tensor, load_safetensors, save_safetensors
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_safetensors({"weight": Tensor([1.0, 2.0])}, os.path.join(folder, "model.safetensors"))
        ...     load_safetensors(os.path.join(folder, "model.safetensors"))["weight"].tolist()
        [1.0, 2.0]
    """
    from svod_tensor import _storage as storage

    name = os.path.abspath(str(os.fspath(path)))
    entries = read_header(name)
    device = f"DISK:{name}"
    # Mapped once, as bytes: the tensors are views of it.
    base = storage.open_file(device, uint8, os.path.getsize(name))
    return {key: _make_tensor(entry, base, device) for key, entry in entries.items()}


def read_safetensors_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the metadata of a file: strings by name.

    Raises:
        MissingFileError: if the file does not exist.
        SafetensorsError: if the file is truncated, or a value is not a string.

    Example:
        >>> import os, tempfile
        >>> from svod_tensor import Tensor, read_safetensors_metadata, save_safetensors
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     save_safetensors({"weight": Tensor([1.0])}, path, metadata={"step": "7"})
        ...     read_safetensors_metadata(path)
        {'step': '7'}
    """
    name = os.path.abspath(str(os.fspath(path)))
    raw_metadata = _read_text(name)[0].get("__metadata__", {})
    if not isinstance(raw_metadata, dict):
        raise SafetensorsError(path=name, problem="__metadata__ is not a JSON object")
    metadata = cast("dict[str, object]", raw_metadata)
    if not all(isinstance(value, str) for value in metadata.values()):
        raise SafetensorsError(path=name, problem="the values of __metadata__ are not all strings")
    return cast("dict[str, str]", metadata)


def read_header(path: str | os.PathLike[str]) -> dict[str, TensorEntry]:
    """Read and check the entries of a file's header.

    Raises:
        MissingFileError: if the file does not exist.
        SafetensorsError: if it is truncated or contradicts itself.
    """
    name = os.path.abspath(str(os.fspath(path)))
    header, data_start, file_bytes = _read_text(name)
    entries = {
        key: _read_entry(name, key, value, data_start, file_bytes)
        for key, value in header.items()
        if key != "__metadata__"
    }
    _check_overlaps(name, entries)
    return entries


def _read_text(name: str) -> tuple[dict[str, object], int, int]:
    """The header of a file, where its data begin, and its size."""
    if not os.path.isfile(name):
        is_folder = os.path.isdir(name)
        raise MissingFileError(
            path=name, problem="is a directory" if is_folder else "no such file or directory"
        )
    file_bytes = os.path.getsize(name)
    with open(name, "rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise SafetensorsError(
                path=name, problem=f"{file_bytes} bytes are too few for the size of the header"
            )
        # The most frequent wrong file is PyTorch's own format.
        if prefix.startswith(_ZIP):
            raise SafetensorsError(
                path=name, problem="it is a zip file, as torch.save writes one", hint=_FROM_TORCH
            )
        header_bytes = int.from_bytes(prefix, "little")
        if header_bytes > min(_MAX_HEADER_BYTES, file_bytes - 8):
            raise SafetensorsError(
                path=name,
                problem=f"the header claims {header_bytes} bytes, but the file has {file_bytes}",
            )
        text = file.read(header_bytes)
    return _parse(name, text), 8 + header_bytes, file_bytes


def save_safetensors(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file, which appears under its name only when it is complete.

    Args:
        tensors: the tensors to write, by name; they are computed first if need be.
        path: path of the file; an existing file is replaced.
        metadata: strings by name, which `read_safetensors_metadata` reads.

    Example:
        >>> import os, tempfile
        >>> from svod_tensor import Tensor, save_safetensors
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_safetensors({"weight": Tensor([1.0, 2.0])}, os.path.join(folder, "model.safetensors"))
        ...     os.listdir(folder)
        ['model.safetensors']
    """
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    offset = 0
    for name, tensor in tensors.items():
        shape = list(tensor.numpy().shape)
        nbytes = math.prod(shape) * tensor.itemsize
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": shape,
            "data_offsets": [offset, offset + nbytes],
        }
        offset += nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    # The format allows spaces after the header: the data then begin at a multiple of 8, so that a
    # mapped file has aligned elements.
    text += b" " * (-len(text) % 8)
    target = str(os.fspath(path))
    # In the same folder: `os.replace` is atomic only within a file system.
    partial = f"{target}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            # One after another: at most one tensor is copied to bytes at a time.
            for tensor in tensors.values():
                file.write(tensor.numpy().tobytes())
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise


def _parse(path: str, text: bytes) -> dict[str, object]:
    def check_unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names = [key for key, _ in pairs]
            raise SafetensorsError(
                path=path,
                problem="duplicate name in the header",
                name=next(n for n in names if names.count(n) > 1),
            )
        return entries

    try:
        # Without the hook, json would keep the last of two entries silently.
        header: object = json.loads(text.decode("utf-8"), object_pairs_hook=check_unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SafetensorsError(
            path=path, problem=f"the header is not valid JSON: {error}"
        ) from error
    if not isinstance(header, dict):
        raise SafetensorsError(
            path=path, problem=f"the header is a {type(header).__name__}, not a JSON object"
        )
    return cast("dict[str, object]", header)


def _read_entry(
    path: str, name: str, value: object, data_start: int, file_bytes: int
) -> TensorEntry:
    if not isinstance(value, dict):
        raise SafetensorsError(
            path=path, name=name, problem="its header entry is not a JSON object"
        )
    entry = cast("dict[str, object]", value)
    spelling, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    dtype = _DTYPES.get(spelling) if isinstance(spelling, str) else None
    if dtype is None:
        raise SafetensorsError(
            path=path,
            name=name,
            problem=f"unknown dtype {spelling!r}; expected one of {', '.join(_DTYPES)}",
        )
    if not _is_sizes(shape):
        raise SafetensorsError(
            path=path, name=name, problem=f"shape {shape!r} is not a list of sizes"
        )
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise SafetensorsError(
            path=path, name=name, problem=f"data_offsets {offsets!r} is not a pair of byte offsets"
        )
    begin, end = offsets
    data_bytes = file_bytes - data_start
    if not begin <= end <= data_bytes:
        raise SafetensorsError(
            path=path,
            name=name,
            problem=f"bytes {begin} to {end} are not within the {data_bytes} bytes of data",
        )
    expected = math.prod(shape) * dtype.itemsize
    if end - begin != expected:
        raise SafetensorsError(
            path=path,
            name=name,
            problem=(
                f"shape {tuple(shape)} of {dtype} takes {expected} bytes, but it has {end - begin}"
            ),
        )
    return TensorEntry(dtype, tuple(shape), data_start + begin, data_start + end)


def _is_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        # Not `isinstance`: JSON's `true` becomes a bool, which is an int.
        type(n) is int and n >= 0
        for n in cast("list[object]", value)
    )  # pyright: ignore[reportOperatorIssue]


def _check_overlaps(path: str, entries: Mapping[str, TensorEntry]) -> None:
    # Overlapping tensors would let a file claim more data than it has.
    spans = sorted((e.begin, e.end, name) for name, e in entries.items() if e.begin < e.end)
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            raise SafetensorsError(
                path=path, name=second, problem=f"its bytes overlap the bytes of tensor {first!r}"
            )


def _make_tensor(entry: TensorEntry, base: Buffer, device: str) -> Tensor:
    nbytes = entry.end - entry.begin
    if nbytes == 0:
        return Tensor.zeros(entry.shape, dtype=entry.dtype)
    # Kernels load aligned elements only.
    if entry.begin % entry.dtype.itemsize:
        data = base.view(entry.begin, nbytes).as_numpy().copy().view(entry.dtype.numpy)
        return Tensor.from_uop(
            make_array_node(data.reshape(entry.shape), may_share=False), owns=True
        )
    view = base.view(entry.begin, nbytes, entry.dtype)
    return Tensor.from_uop(make_buffer_node(view, entry.dtype, entry.shape, device), owns=True)
