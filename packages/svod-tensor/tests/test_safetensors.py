from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy as reference
from safetensors import safe_open

from svod_tensor import Tensor, load_safetensors, read_safetensors_metadata, save_safetensors
from svod_tensor._safetensors import read_header
from svod_tensor.errors import MissingFileError, SafetensorsError
from svod_testing import check


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def entry(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


ARRAYS = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.array([1.5, -2], np.float16),
    "ids": np.array([1, 2**40]),
    "flags": np.array([True, False, True]),
    "nothing": np.zeros((0, 3), np.float32),
    "scalar": np.array(3.5, np.float64),
}


def test_files_of_the_reference_library_load_as_views(path):
    reference.save_file(ARRAYS, path)
    loaded = load_safetensors(path)
    assert set(loaded) == set(ARRAYS)
    for name, array in ARRAYS.items():
        check(loaded[name], array)
        if array.size:
            assert loaded[name].device == f"DISK:{path}"
    buffers = [loaded[n].buffer() for n in ("weight", "ids")]
    assert buffers[0].storage_id == buffers[1].storage_id


def test_kernels_read_the_mapped_file_without_a_copy(path):
    reference.save_file(ARRAYS, path)
    weight = load_safetensors(path)["weight"]
    result = weight @ weight.T + 1
    plan = result.prepare()
    assert weight.buffer().storage_id in {b.storage_id for b in plan.buffers}
    plan.execute()
    check(result, ARRAYS["weight"] @ ARRAYS["weight"].T + 1)
    assert result.device == "CPU"


def test_tensors_of_two_files_mix_with_tensors_in_memory(tmp_path):
    for name in "ab":
        reference.save_file({"x": np.ones(3, np.float32)}, tmp_path / name)
    a, b = (load_safetensors(tmp_path / name)["x"] for name in "ab")
    assert (a + b + Tensor([1.0, 2.0, 3.0])).tolist() == [3.0, 4.0, 5.0]


def test_saved_files_load_in_the_reference_library(path):
    tensors = {name: Tensor(array) for name, array in ARRAYS.items()}
    tensors["computed"] = Tensor([1.0, 2.0]) * 2
    save_safetensors(tensors, path)
    loaded = reference.load_file(path)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], array)
    assert loaded["computed"].tolist() == [2.0, 4.0]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_bfloat16_and_float8_survive(path):
    save_safetensors(
        {d: Tensor([1.0, -2.5]).cast(d) for d in ("bfloat16", "float8_e4m3", "float8_e5m2")}, path
    )
    loaded = load_safetensors(path)
    assert {name: t.dtype.name for name, t in loaded.items()} == {n: n for n in loaded}
    assert all(t.tolist() == [1.0, -2.5] for t in loaded.values())


def test_a_tensor_at_an_unaligned_offset_is_copied(path):
    write(
        path,
        {"byte": entry("U8", (1,), 0, 1), "float": entry("F32", (2,), 1, 9)},
        b"\x07" + np.array([1.5, 2.5], np.float32).tobytes(),
    )
    loaded = load_safetensors(path)
    assert loaded["byte"].tolist() == [7]
    assert loaded["float"].tolist() == [1.5, 2.5]


def test_the_metadata_is_no_tensor(path):
    write(path, {"__metadata__": {"format": "pt"}, "x": entry()}, bytes(8))
    assert list(read_header(path)) == ["x"]


def test_metadata_are_read_by_the_reference_library_and_vice_versa(path):
    save_safetensors({"x": Tensor([1.0])}, path, metadata={"step": "7", "über": "ä"})
    with safe_open(path, "np") as file:
        assert file.metadata() == {"step": "7", "über": "ä"}
    reference.save_file(ARRAYS, path, metadata={"format": "pt"})
    assert read_safetensors_metadata(path) == {"format": "pt"}
    save_safetensors({"x": Tensor([1.0])}, path)
    assert read_safetensors_metadata(path) == {}


@pytest.mark.parametrize("metadata", [["format"], {"step": 7}])
def test_metadata_that_are_not_strings_are_an_error(path, metadata):
    write(path, {"__metadata__": metadata})
    with pytest.raises(SafetensorsError, match="metadata"):
        read_safetensors_metadata(path)


def test_a_missing_file_is_an_error(path):
    with pytest.raises(MissingFileError, match="no such file or directory"):
        load_safetensors(path)
    with pytest.raises(FileNotFoundError):
        load_safetensors(path.parent)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "too few"),
        (b"\x00" * 7, "too few"),
        (
            b"PK\x03\x04" + b"\x00" * 30,
            "a zip file, as torch.save writes one\n  hint: write it again with PyTorch",
        ),
        (b"\xff" * 8 + b"{}", "claims"),
        ((100).to_bytes(8, "little") + b"{}", "claims 100 bytes"),
        ((2).to_bytes(8, "little") + b"{x", "not valid JSON"),
        ((2).to_bytes(8, "little") + b"\xff\xfe", "not valid JSON"),
        ((2).to_bytes(8, "little") + b"[]", "a list, not a JSON object"),
    ],
)
def test_a_broken_header_is_an_error(path, content, problem):
    path.write_bytes(content)
    with pytest.raises(SafetensorsError, match=problem) as caught:
        load_safetensors(path)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("lie", "problem"),
    [
        (entry(dtype="F99"), "unknown dtype 'F99'"),
        (entry(dtype=3), "unknown dtype 3"),
        (entry(shape=(-2,)), "not a list of sizes"),
        (entry(shape=(2.0,)), "not a list of sizes"),
        (entry(shape=(True,)), "not a list of sizes"),
        (entry(end=16), "not within the 8 bytes"),
        (entry(begin=8, end=0), "not within"),
        (entry(begin=-4, end=4), "not a pair"),
        (entry(shape=(3,)), "takes 12 bytes, but it has 8"),
        (entry(shape=(2**62, 4)), "takes"),
        ({"dtype": "F32"}, "shape None"),
        ("x", "not a JSON object"),
    ],
)
def test_an_inconsistent_header_is_an_error_that_names_the_tensor(path, lie, problem):
    write(path, {"x": lie}, bytes(8))
    with pytest.raises(SafetensorsError, match=problem) as caught:
        load_safetensors(path)
    assert "'x'" in str(caught.value)


def test_overlaps_and_repeated_names_are_errors(path):
    write(path, {"x": entry(), "y": entry(begin=4, end=12)}, bytes(12))
    with pytest.raises(SafetensorsError, match="'y': its bytes overlap the bytes of tensor 'x'"):
        load_safetensors(path)
    write(path, b'{"x": %s, "x": %s}' % ((json.dumps(entry()).encode(),) * 2), bytes(8))
    with pytest.raises(SafetensorsError, match="duplicate name"):
        load_safetensors(path)


def test_a_truncated_file_is_an_error(path):
    reference.save_file(ARRAYS, path)
    content = path.read_bytes()
    for n in (4, 20, len(content) - 1):
        path.write_bytes(content[:n])
        with pytest.raises(SafetensorsError):
            load_safetensors(path)


def test_a_failed_write_leaves_no_file(path):
    class Broken(Exception):
        pass

    def fail(*_):
        raise Broken

    x = Tensor([1.0])
    good = {"a": x}
    save_safetensors(good, path)
    before = path.read_bytes()

    class Bad:
        dtype, itemsize, calls = x.dtype, 4, 0

        def numpy(self):
            self.calls += 1
            return x.numpy() if self.calls == 1 else fail()

    with pytest.raises(Broken):
        save_safetensors({"a": Bad()}, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
