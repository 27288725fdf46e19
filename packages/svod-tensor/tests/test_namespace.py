"""`svod_tensor` as the namespace of the array API standard: what no method does."""

from __future__ import annotations

import array
import math

import numpy as np
import pytest

import svod_tensor as sv
from svod_dtype import ALL_DTYPES, DType
from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor
from svod_tensor.errors import ApiVersionError, CopyRequiredError
from svod_testing import check

# ml_dtypes enters its own among numpy's names.
NUMPY = [d for d in ALL_DTYPES if d.numpy.isbuiltin == 1]


def name_of(dtype: DType) -> str:
    return dtype.name


def test_a_tensor_knows_its_namespace():
    x = Tensor([1.0])
    assert x.__array_namespace__() is sv
    assert x.__array_namespace__(api_version="2024.12") is sv
    with pytest.raises(ApiVersionError, match="no array API"):
        x.__array_namespace__(api_version="2020.01")


def test_all_names_exist_and_are_listed():
    assert set(sv.__all__) <= set(dir(sv))
    for name in sv.__all__:
        assert getattr(sv, name) is getattr(sv, name)
    assert sv.bool is sv.bool_
    assert (sv.newaxis, sv.pi, sv.e, sv.inf) == (None, math.pi, math.e, math.inf)
    assert math.isnan(sv.nan)


@pytest.mark.parametrize("dtype", [d for d in NUMPY if d.is_float], ids=name_of)
def test_limits_of_floats_agree_with_numpy(dtype: DType):
    found, expected = sv.finfo(dtype), np.finfo(dtype.numpy)
    assert (found.bits, found.eps, found.max, found.min, found.smallest_normal) == (
        expected.bits,
        expected.eps,
        expected.max,
        expected.min,
        expected.smallest_normal,
    )
    assert found.dtype is dtype
    assert sv.finfo(Tensor([1], dtype=dtype)) == found


@pytest.mark.parametrize("dtype", [d for d in NUMPY if d.is_int], ids=name_of)
def test_limits_of_integers_agree_with_numpy(dtype: DType):
    found, expected = sv.iinfo(dtype), np.iinfo(dtype.numpy)
    assert (found.bits, found.max, found.min) == (expected.bits, expected.max, expected.min)
    assert found.dtype is dtype
    assert sv.iinfo(Tensor([1], dtype=dtype)) == found


def test_limits_of_another_kind_are_errors():
    with pytest.raises(OperandError, match="finfo: expected a float dtype, got int8"):
        sv.finfo(sv.int8)
    with pytest.raises(OperandError, match="iinfo: expected an integer dtype, got float32"):
        sv.iinfo("float32")
    assert sv.finfo("bfloat16").smallest_normal == 2.0**-126
    assert sv.finfo(sv.float8_e4m3).max == 448


@pytest.mark.parametrize("source", NUMPY, ids=name_of)
@pytest.mark.parametrize("target", NUMPY, ids=name_of)
def test_can_cast_matches_numpy_safe_casts(source: DType, target: DType):
    # numpy has no promotion of integers that keeps every value of 8 bits in float16 and in nothing
    # less.
    assert sv.can_cast(source, target) == np.can_cast(source.numpy, target.numpy)
    assert sv.can_cast(Tensor([0], dtype=source), target) == sv.can_cast(source, target)


def test_kinds_of_dtypes():
    assert sv.isdtype(sv.bool, "bool")
    assert not sv.isdtype(sv.bool, "numeric")
    assert sv.isdtype(sv.uint8, ("bool", "unsigned integer"))
    assert sv.isdtype(sv.bfloat16, "real floating")
    assert not sv.isdtype(sv.float32, "complex floating")
    assert sv.isdtype(sv.float32, sv.float32)
    assert not sv.isdtype(sv.float32, "integral")
    with pytest.raises(TypeError):
        sv.isdtype(sv.float32, "whole")


def test_the_dtype_of_several():
    assert sv.result_type(sv.int8, sv.uint8) is sv.int16
    assert sv.result_type(Tensor([1], dtype="int8"), 3) is sv.int8
    assert sv.result_type(1, 2.0) is sv.float32
    assert sv.result_type(True, 1) is sv.int32
    with pytest.raises(OperandError, match="nothing"):
        sv.result_type()


def test_the_namespace_describes_its_capabilities():
    info = sv.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": None,
    }
    assert Tensor([1.0]).device == info.default_device()
    assert info.default_device() in info.devices()
    assert "DISK" not in info.devices()
    found = info.dtypes()
    assert found["bool"] is sv.bool
    assert set(info.dtypes(kind="integral")) == {
        f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)
    }
    assert info.dtypes(device="CPU", kind=("real floating", "bool")).keys() == {
        "float32",
        "float64",
        "bool",
    }
    defaults = info.default_dtypes(device="CPU")
    assert (defaults["real floating"], defaults["integral"], defaults["indexing"]) == (
        sv.float32,
        sv.int32,
        sv.int64,
    )
    assert sv.argmax(Tensor([1])).dtype is defaults["indexing"]
    with pytest.raises(LookupError):
        info.dtypes(device="NOWHERE")


def test_asarray_returns_a_tensor_unchanged():
    x = Tensor([1.0, 2.0])
    assert sv.asarray(x) is x
    assert sv.asarray(x, dtype="float32", device="CPU", copy=False) is x
    copied = sv.asarray(x, copy=True)
    x.assign(0.0)
    assert copied.tolist() == [1.0, 2.0]
    assert sv.asarray(x, dtype=sv.int8).dtype is sv.int8
    with pytest.raises(
        CopyRequiredError, match=r"asarray\(copy=False\): cannot convert float32 on CPU to int8"
    ):
        sv.asarray(x, dtype=sv.int8, copy=False)
    with pytest.raises(CopyRequiredError, match="on CPU"):
        sv.asarray(x, device="CPU:1", copy=False)
    assert sv.asarray(x, device="CPU:1").device == "CPU:1"


def test_arrays_are_shared_where_kernels_can_read_them():
    a = np.arange(64, dtype=np.float64).reshape(8, 8)
    shared, copied = sv.asarray(a, copy=False), sv.asarray(a, copy=True)
    a[:] = 7
    check(shared, np.full((8, 8), 7.0))
    check(copied, np.arange(64.0).reshape(8, 8))
    with pytest.raises(CopyRequiredError, match="kernels cannot read"):
        sv.asarray(a.T, copy=False)
    check(sv.asarray(a.T), a.T)
    with pytest.raises(CopyRequiredError, match="a list has no memory"):
        sv.asarray([1, 2], copy=False)


def test_buffers_and_nested_numbers_become_tensors():
    check(sv.asarray(array.array("d", [1.0, 2.5])), np.array([1.0, 2.5]))
    check(sv.asarray(memoryview(b"\x01\x02")), np.array([1, 2], np.uint8))
    check(sv.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], np.int32))
    check(sv.asarray(True), np.array(True))
    check(sv.asarray(2.5, dtype=sv.float64), np.array(2.5))
    assert sv.asarray([0.1], dtype=sv.float64).item() == 0.1
    assert sv.asarray(np.float64(0.1)).item() == 0.1
    with pytest.raises(OverflowError):
        sv.asarray([300], dtype=sv.uint8)
    assert sv.asarray([1], device="CPU:1").device == "CPU:1"
    with pytest.raises(TypeError):
        sv.asarray(object())


def test_dlpack_copies_and_moves_on_request():
    a = np.arange(64, dtype=np.float32)
    shared, copied = sv.from_dlpack(a, copy=False), sv.from_dlpack(a, copy=True)
    a[:] = 3
    check(shared, a)
    check(copied, np.arange(64, dtype=np.float32))
    assert sv.from_dlpack(a, device="CPU:1").device == "CPU:1"
    with pytest.raises(CopyRequiredError, match="CPU:1"):
        sv.from_dlpack(a, device="CPU:1", copy=False)
    with pytest.raises(CopyRequiredError):
        sv.from_dlpack(np.arange(64.0)[::-1], copy=False)


def test_the_consumer_of_a_capsule_passes_options():
    x = Tensor([1.0, 2.0]).realize()
    own = np.from_dlpack(x, copy=True)
    own[:] = 0
    assert x.tolist() == [1.0, 2.0]
    assert x.__dlpack_device__() == (1, 0)
    x.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=None)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(CopyRequiredError, match="the elements are on"):
        x.shard(("CPU", "CPU:1"), 0).__dlpack__(copy=False)


def test_a_number_may_be_on_either_side():
    x = Tensor([2, 4], dtype="int8")
    assert (sv.subtract(1, x).dtype, sv.subtract(1, x).tolist()) == (sv.int8, [-1, -3])
    assert (sv.divide(1, x).dtype, sv.divide(1, x).tolist()) == (sv.float32, [0.5, 0.25])
    assert sv.pow(2, Tensor([1.0, 3.0], dtype="float64")).dtype is sv.float64
    assert sv.add(1.5, x).dtype is sv.float32
    assert sv.less(3, x).tolist() == [False, True]
    with pytest.raises(OverflowError):
        sv.add(300, x)
    assert sv.add(1, 2).item() == 3
    check(sv.add(np.float64([1.0]), [2.0]), np.array([3.0]))


def test_devices_are_names_that_compare_with_strings():
    x = sv.ones((2,), device="CPU:1")
    assert x.device == "CPU:1"
    assert sv.zeros_like(x).device == "CPU:1"
    assert sv.zeros_like(x, device="CPU").device == "CPU"
    assert sv.empty_like(x).device == "CPU:1"
    assert sv.empty_like(x, dtype=sv.int8, device="CPU").dtype is sv.int8
    assert x.to_device("CPU:1").device == "CPU:1"
    assert x.to_device("CPU", stream=None).device == "CPU"
    with pytest.raises(OperandError, match="stream=3"):
        x.to_device("CPU", stream=3)


def test_reshape_respects_copy():
    x = Tensor([[1, 2], [3, 4]])
    copied = sv.reshape(x, (4,), copy=True)
    view = sv.reshape(x, (4,), copy=False)
    x.assign(0)
    assert copied.tolist() == [1, 2, 3, 4]
    assert view.tolist() == [0, 0, 0, 0]
    with pytest.raises(
        ShapeError, match=r"reshape: shape \(2, 2\) cannot be viewed as \(4,\) without a copy"
    ):
        sv.reshape(x.T, (4,), copy=False)
    assert sv.reshape(Tensor([[1, 2], [3, 4]]).T, (4,)).tolist() == [1, 3, 2, 4]


def test_several_axes_move():
    a = np.zeros((2, 3, 4, 5))
    for source, destination in (
        ((0, 1), (-1, -2)),
        ((3, 0), (0, 2)),
        (1, 3),
        ((), ()),
        ((2, 0, 1), (0, 1, 2)),
    ):
        assert (
            sv.moveaxis(Tensor(a), source, destination).shape
            == np.moveaxis(a, source, destination).shape
        )
    with pytest.raises(ShapeError, match=r"moveaxis: source \(0, 1\) and destination \(2,\) must"):
        sv.moveaxis(Tensor(a), (0, 1), (2,))
    with pytest.raises(
        ShapeError, match=r"moveaxis: source \(0, 0\) and destination \(1, 2\) must"
    ):
        sv.moveaxis(Tensor(a), (0, 0), (1, 2))


@pytest.mark.parametrize("offset", [-4, -3, -1, 0, 2, 4, 6])
def test_diagonals_with_offsets(offset: int):
    a = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(np.float32)
    check(Tensor(a).diagonal(offset), np.diagonal(a, offset, -2, -1))
    check(Tensor(a).trace(offset), np.trace(a, offset, -2, -1))


def test_searchsorted_takes_a_sorter():
    a, sought = np.float32([5, 1, 4, 2, 2]), np.float32([2, 3, 9])
    for side in ("left", "right"):
        found = sv.searchsorted(Tensor(a), Tensor(sought), side=side, sorter=sv.argsort(Tensor(a)))
        check(found, np.searchsorted(a, sought, side, np.argsort(a)))


def test_shapes_broadcast_without_tensors():
    assert sv.broadcast_shapes() == ()
    assert sv.broadcast_shapes((2, 1), (1, 3), (1,)) == (2, 3)
    with pytest.raises(ValueError):
        sv.broadcast_shapes((2,), (3,))


@pytest.mark.parametrize(
    "make",
    [sv.asarray, sv.Tensor, lambda a: sv.zeros(a.size) + a, lambda a: sv.zeros(a.size).assign(a)],
)
@pytest.mark.parametrize("begin", [0, 1])
def test_a_tensor_made_from_an_array_keeps_its_elements(make, begin):
    array = np.zeros(65, np.float32)[begin:]
    results = []
    for i in range(3):
        array[:] = i
        results.append(make(array) * 2)
    assert [r[0].item() for r in results] == [0, 2, 4]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_read_only_memory_goes_to_consumers_of_old_dlpack_as_a_copy(dtype):
    array = np.arange(4).astype(Tensor.zeros(1, dtype=dtype).numpy().dtype)
    array.flags.writeable = False
    for x in (Tensor.from_numpy(array), Tensor(array)):
        for options in ({}, {"max_version": (0, 8)}, {"max_version": (0, 8), "copy": True}):
            assert "dltensor_versioned" not in repr(x.__dlpack__(**options))
    assert "dltensor_versioned" in repr(Tensor.from_numpy(array).__dlpack__(max_version=(1, 0)))
    with pytest.raises(CopyRequiredError, match="read-only"):
        Tensor.from_numpy(array).__dlpack__(copy=False)
