"""DISK device: mapped files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from svod_device import Buffer, DiskAllocator, DiskError, HostAllocator, ReadOnlyError, copy_buffer
from svod_dtype import float32, uint8


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "Weights.bin"
    path.write_bytes(b"head" * 2 + np.arange(6, dtype=np.float32).tobytes())
    return path


def test_a_view_of_a_file_is_not_a_copy(weights: Path) -> None:
    disk = DiskAllocator(f"disk:{weights}")
    file = Buffer(disk, uint8, disk.file_bytes)
    view = file.view(8, 24, float32)
    assert not file.is_allocated
    array = view.as_numpy()
    assert array.tolist() == [0, 1, 2, 3, 4, 5]
    assert not array.flags.writeable
    assert view.is_host_addressable
    assert array.ctypes.data == view.address == file.address + 8


def test_a_file_is_copied_to_a_device(weights: Path) -> None:
    disk = DiskAllocator(f"DISK:{weights}")
    target = Buffer(HostAllocator(), float32, 6)
    copy_buffer(target, Buffer(disk, uint8, 32).view(8, 24))
    assert target.as_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    out = bytearray(4)
    Buffer(disk, uint8, 4).copyout(out)
    assert out == b"head"


def test_a_buffer_larger_than_the_file_is_an_error(weights: Path) -> None:
    with pytest.raises(DiskError) as caught:
        Buffer(DiskAllocator(f"DISK:{weights}"), uint8, 33).ensure_allocated()
    assert (
        str(caught.value)
        == f"DISK:{weights}: cannot map 33 bytes, the file has 32\n  hint: make the buffer at most"
        " as large as the file"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    disk = DiskAllocator(f"DISK:{tmp_path / 'nothing'}")
    with pytest.raises(DiskError) as caught:
        Buffer(disk, uint8, 1).ensure_allocated()
    assert (
        str(caught.value) == f"DISK:{tmp_path}/nothing: No such file or directory\n  hint: write"
        " DISK:/path/to/a/readable/file"
    )
    assert isinstance(caught.value, OSError)
    with pytest.raises(DiskError, match="No such file"):
        _ = disk.file_bytes
    with pytest.raises(DiskError, match="Is a directory"):
        Buffer(DiskAllocator(f"DISK:{tmp_path}"), uint8, 1).ensure_allocated()


def test_an_empty_file_is_an_empty_buffer(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert Buffer(DiskAllocator(f"DISK:{tmp_path / 'empty'}"), uint8, 0).to_bytes() == b""


def test_a_file_cannot_be_written(weights: Path) -> None:
    buffer = Buffer(DiskAllocator(f"DISK:{weights}"), uint8, 4)
    with pytest.raises(ReadOnlyError) as caught:
        buffer.copyin(b"tail")
    assert caught.value.headline == f"memory of DISK:{weights} is read-only"
    assert caught.value.hint == 'copy it first, as in x.to("CPU")'
    with pytest.raises(ReadOnlyError):
        copy_buffer(buffer, Buffer(HostAllocator(), uint8, 4))
    with pytest.raises(ReadOnlyError):
        Buffer(DiskAllocator(f"DISK:{weights}"), uint8, 4, zeroed=True).ensure_allocated()
    assert weights.read_bytes()[:4] == b"head"
    with pytest.raises(TypeError, match="read-only"):
        buffer.as_memoryview()[0] = 1
