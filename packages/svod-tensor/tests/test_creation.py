from __future__ import annotations

import ctypes
import math

import ml_dtypes
import numpy as np
import pytest

from svod_device import ReadOnlyError, UnknownDeviceError
from svod_dtype import ALL_DTYPES, DeviceNameError, UnknownDTypeError, float32, int32, int64, uint64
from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor
from svod_tensor.errors import DataError, IntegerOverflowError, MissingFileError, RaggedDataError
from svod_testing import SHAPES, check, make_array


def test_python_data_gets_the_smallest_default_dtype_that_holds_it():
    assert Tensor([1, 2]).dtype is int32
    assert Tensor([1, 2**40]).dtype is int64
    assert Tensor([-1, 2**40]).tolist() == [-1, 2**40]
    assert Tensor([2**63]).dtype is uint64
    assert Tensor([1, 2.5]).dtype is float32
    assert Tensor([True, False]).dtype.is_bool
    assert Tensor([True, 2]).dtype is int32
    assert Tensor([]).dtype is float32
    assert Tensor(2**40).dtype is int64


def test_integers_that_fit_no_dtype_are_an_error():
    for data in ([2**64], [-1, 2**63], [-(2**63) - 1], 2**64):
        with pytest.raises(IntegerOverflowError):
            Tensor(data)
    with pytest.raises(OverflowError, match="128 does not fit int8"):
        Tensor([1, 128], dtype="int8")
    with pytest.raises(OverflowError):
        Tensor([-1], dtype="uint8")


def test_nested_lists_keep_their_shape():
    check(Tensor([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2, 3], [4, 5, 6]], np.int32))
    assert Tensor([[[1.0]], [[2.0]]]).shape == (2, 1, 1)
    assert Tensor([[], []]).shape == (2, 0)
    assert Tensor(((1, 2), [3, 4])).shape == (2, 2)


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1], 2], [1, [2]], [[[1]], [[1, 2]]]])
def test_ragged_lists_are_an_error(data):
    with pytest.raises(RaggedDataError, match="inhomogeneous shape"):
        Tensor(data)


def test_invalid_data_is_an_error_with_a_hint():
    for data in ("text", object(), {"a": 1}, [None]):
        with pytest.raises(DataError):
            Tensor(data)
    with pytest.raises(UnknownDTypeError):
        Tensor(np.array(["a"]))
    with pytest.raises(UnknownDTypeError, match="floaty"):
        Tensor([1], dtype="floaty")


@pytest.mark.parametrize("dtype", [d.name for d in ALL_DTYPES])
def test_arrays_of_every_dtype_come_back_unchanged(rng, dtype):
    native = {
        "bfloat16": ml_dtypes.bfloat16,
        "float8_e4m3": ml_dtypes.float8_e4m3fn,
        "float8_e5m2": ml_dtypes.float8_e5m2,
    }.get(dtype, dtype)
    array = (
        make_array(rng, (3, 5), "float32").astype(native)
        if dtype in ("bfloat16", "float8_e4m3", "float8_e5m2")
        else make_array(rng, (3, 5), dtype)
    )
    tensor = Tensor(array)
    assert tensor.dtype.name == dtype
    np.testing.assert_array_equal(tensor.numpy().view(np.uint8), array.view(np.uint8))
    assert (
        tensor.tolist()
        == array.astype(np.float64 if array.dtype.kind not in "biu" else array.dtype).tolist()
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_of_every_shape_come_back_unchanged(rng, shape):
    array = make_array(rng, shape, "float64")
    check(Tensor(array), array)
    check(Tensor(array.T), array.T)
    if array.ndim:
        check(Tensor(array[::-1]), array[::-1])


def test_an_array_in_foreign_byte_order_is_converted():
    check(Tensor(np.array([1, 2, 300], ">i4")), np.array([1, 2, 300], np.int32))
    check(Tensor(np.array([1.5, -2.0], ">f8")), np.array([1.5, -2.0]))


def _aligned(n):
    raw = np.zeros(n * 4 + 80, np.uint8)
    # What malloc gives, and no more.
    offset = -raw.ctypes.data % 64 + 16
    return raw[offset : offset + n * 4].view(np.float32)


def test_an_aligned_array_is_shared_and_a_copy_is_not():
    array = _aligned(8)
    shared, copied = Tensor.from_numpy(array, copy=False), Tensor.from_numpy(array, copy=True)
    array[:] = 3
    assert shared.tolist() == [3.0] * 8
    assert copied.tolist() == [0.0] * 8
    with pytest.raises(OperandError, match="aligned to 16 bytes"):
        Tensor.from_numpy(_aligned(9)[1:], copy=False)


def test_numpy_scalars_and_zero_dimensional_arrays_keep_their_dtype():
    assert Tensor(np.float64(1.5)).dtype.name in ("float64", "float32")
    assert Tensor(np.int8(3)).dtype.name == "int8"
    assert Tensor(np.array(2.5)).dtype.name == "float64"
    assert Tensor([np.int64(1), np.int64(2)]).tolist() == [1, 2]


def test_constants_take_no_memory_until_they_are_realized():
    x = Tensor.full((1000, 1000), 2.5)
    assert not x.is_realized
    assert "2.5, 2.5" in repr(x)
    assert not x.is_realized
    check(Tensor.zeros(2, 3), np.zeros((2, 3), np.float32))
    check(Tensor.ones((2, 3), dtype="int64"), np.ones((2, 3), np.int64))
    check(Tensor.full((), 7), np.array(7, np.int32))
    check(Tensor.full(3, True), np.array([True] * 3))
    check(Tensor([1.0, 2.0]).ones_like(), np.ones(2, np.float32))
    check(Tensor([1.0, 2.0]).full_like(3, dtype="int8"), np.array([3, 3], np.int8))


def test_sizes_are_checked():
    with pytest.raises(ShapeError, match=r"zeros: negative dimensions are not allowed: \(2, -1\)"):
        Tensor.zeros(2, -1)
    with pytest.raises(OperandError, match="integer sizes"):
        Tensor.zeros(2.5)


@pytest.mark.parametrize(
    "arguments",
    [(5,), (2, 9), (2, 9, 3), (10, -3, -4), (0,), (5, 2), (0.0, 1.0, 0.1), (1, 2, 0.25), (-3, 3)],
)
def test_arange_agrees_with_numpy(arguments):
    expected = np.arange(*arguments)
    check(
        Tensor.arange(*arguments),
        expected.astype(np.float32 if expected.dtype.kind == "f" else np.int32),
    )


def test_arange_picks_a_dtype_that_holds_its_numbers():
    assert Tensor.arange(2**40, 2**40 + 3).tolist() == [2**40 + i for i in range(3)]
    check(Tensor.arange(-128, 128, dtype="int8"), np.arange(-128, 128).astype(np.int8))
    with pytest.raises(OverflowError):
        Tensor.arange(300, dtype="uint8")
    with pytest.raises(ShapeError, match="arange: step must not be zero"):
        Tensor.arange(0, 5, 0)


def test_linspace_eye_and_meshgrid_agree_with_numpy():
    check(Tensor.linspace(-2, 5, 9), np.linspace(-2, 5, 9).astype(np.float32), rtol=1e-6)
    check(
        Tensor.linspace(0, 1, 4, endpoint=False, dtype="float64"),
        np.linspace(0, 1, 4, endpoint=False),
    )
    assert Tensor.linspace(0.1, 0.7, 1).tolist() == [np.float32(0.1)]
    check(Tensor.eye(4), np.eye(4, dtype=np.float32))
    check(Tensor.eye(2, 5, k=-1, dtype="int32"), np.eye(2, 5, -1, dtype=np.int32))
    for indexing in ("xy", "ij"):
        for found, expected in zip(
            Tensor.meshgrid(Tensor([1, 2, 3]), Tensor([4, 5]), indexing=indexing),
            np.meshgrid([1, 2, 3], [4, 5], indexing=indexing),
            strict=True,
        ):
            assert found.tolist() == expected.tolist()


def test_empty_has_memory_that_can_be_filled():
    x = Tensor.empty(2, 2)
    x.buffer().copyin(np.arange(4, dtype=np.float32))
    assert (x + 1).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_file_is_a_byte_tensor_on_its_disk_device(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(100)))
    x = Tensor.from_file(path)
    assert x.device == f"DISK:{path}"
    assert x.shape == (100,)
    assert (x[10:13] + 1).tolist() == [11, 12, 13]
    assert x.cast("int32").sum().item() == sum(range(100))
    assert x.to("CPU").device == "CPU"
    assert (x[:2] + Tensor([1, 1], dtype="uint8")).tolist() == [1, 2]


def test_a_missing_file_is_an_error_at_the_call(tmp_path):
    with pytest.raises(MissingFileError, match="no such file or directory") as caught:
        Tensor.from_file(tmp_path / "nothing")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(MissingFileError, match="is a directory"):
        Tensor.from_file(tmp_path)


def test_an_empty_file_is_an_empty_tensor(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    assert Tensor.from_file(path).tolist() == []


def test_devices_are_checked_at_the_call():
    with pytest.raises(UnknownDeviceError, match="NOPE"):
        Tensor([1]).to("NOPE")
    with pytest.raises(DeviceNameError):
        Tensor.zeros(2, device="C PU")
    with pytest.raises(ReadOnlyError):
        Tensor([1]).to("DISK:/tmp/x")
    assert Tensor([1], device="cpu:0").device == "CPU"


def test_numpy_gives_a_read_only_view_or_a_copy():
    x = Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    own = x.numpy(copy=True)
    own[0] = 5
    assert x.tolist() == [1.0, 2.0]
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype=np.float64).tolist() == [1.0, 2.0]
    assert np.add(1, np.asarray(x)).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float8_e4m3", "bool", "int64", "uint8", "float64"]
)
def test_item_and_tolist_give_python_numbers(dtype):
    value = Tensor([1], dtype=dtype).item()
    assert type(value) in (bool, int, float)
    assert value == 1
    assert type(Tensor([[1]], dtype=dtype).tolist()[0][0]) in (bool, int, float)


class _Exporter:
    """An array of another library: integers that it declares to be elements of another type, or to
    lie elsewhere.
    """

    def __init__(self, words: np.ndarray, code: int, device: int = 1) -> None:
        self.words, self.code, self.device = words, code, device

    def __dlpack__(self, **_options: object) -> object:
        capsule = self.words.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # The code of the type stands behind an address and three 32-bit numbers.
        ctypes.c_uint8.from_address(get(capsule, b"dltensor") + 20).value = self.code
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


@pytest.mark.parametrize(
    ("code", "words", "dtype"),
    [(4, np.uint16, "bfloat16"), (10, np.uint8, "float8_e4m3"), (12, np.uint8, "float8_e5m2")],
)
@pytest.mark.parametrize(
    "view", [lambda a: a, lambda a: a.T, lambda a: a[:, 1:2], lambda a: a[::2]]
)
def test_dlpack_imports_floats_that_numpy_lacks(code, words, dtype, view):
    bits = np.array([[0x3F80, 0x4000], [0xC040, 0x0000], [0x4100, 0x3F00]]).astype(np.uint16)
    stored = np.ascontiguousarray(bits if words is np.uint16 else bits >> 8).astype(words)
    y = Tensor.from_dlpack(_Exporter(view(stored), code))
    expected = Tensor(view(stored).copy()).bitcast(dtype)
    assert str(y.dtype) == dtype
    assert y.cast("float32").tolist() == expected.cast("float32").tolist()


def test_dlpack_errors_name_the_unsupported_property():
    words = np.zeros(4, np.uint16)
    with pytest.raises(
        OperandError,
        match="from_dlpack: expected a dtype of svod, got elements of DLPack's type 9 with 16 bits",
    ):
        Tensor.from_dlpack(_Exporter(words, 9))
    with pytest.raises(
        OperandError,
        match="from_dlpack: expected memory of the CPU, got memory of _Exporter on a device of another kind",
    ):
        Tensor.from_dlpack(_Exporter(words, 4, device=2))


def test_dlpack_shares_memory_with_numpy():
    x = Tensor([1.0, 2.0, 3.0])
    assert np.from_dlpack(x).tolist() == [1.0, 2.0, 3.0]
    array = _aligned(4)
    array[:] = 2
    y = Tensor.from_dlpack(array)
    assert y.tolist() == [2.0] * 4


def test_ranges_with_a_float_among_their_numbers_are_floats():
    for arguments in ((0, 3.0), (3.5,), (0.0, 3), (0, 3, 1.0), (2.0, 2)):
        check(Tensor.arange(*arguments), np.arange(*arguments, dtype=np.float32))
    check(Tensor.arange(0, 3.0, dtype="int64"), np.arange(3))
    check(Tensor.arange(0.5, 3, 0.5, dtype="int32"), np.arange(0.5, 3, 0.5).astype(np.int32))


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ((-129, -120), "int8"),
        ((-3, 3), "uint8"),
        ((250, 257), "uint8"),
        ((5, -2, -1), "uint32"),
        ((-1.0, 1.0), "uint8"),
    ],
)
def test_ranges_that_their_dtype_does_not_hold_are_an_error(arguments, dtype):
    with pytest.raises(IntegerOverflowError, match=f"does not fit {dtype}"):
        Tensor.arange(*arguments, dtype=dtype)
    assert Tensor.arange(300, 300, dtype="int8").tolist() == []


@pytest.mark.parametrize(
    "arguments", [(math.inf,), (math.nan,), (0.0, 1.0, math.nan), (-math.inf, 0.0)]
)
def test_ranges_without_an_end_are_an_error(arguments):
    with pytest.raises(ShapeError, match=r"arange: cannot compute the length of arange\("):
        Tensor.arange(*arguments)


def test_lists_may_hold_tensors():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    check(Tensor([x[0, 0] * 2, x.sum(), 7]), np.array([2, 10, 7], np.float32))
    check(Tensor([[x[0, 0], 1], [2, x[1, 0]]], dtype="int8"), np.array([[1, 1], [2, 3]], np.int8))
    check(Tensor([x[1], x[0] + 1]), np.array([[3, 4], [2, 3]], np.float32))
    check(Tensor([Tensor(1, dtype="int8"), 2]), np.array([1, 2], np.int8))
    check(Tensor([Tensor(1, dtype="int8"), np.float16(2)]), np.array([1, 2], np.float16))
    with pytest.raises(RaggedDataError, match="shape after 1 dimension: lengths a scalar, 2"):
        Tensor([x[0, 0], x[0]])
    with pytest.raises(DataError, match="cannot convert str to a tensor"):
        Tensor([x[0, 0], "1"])


class _Versioned:
    """What a consumer of the newer protocol gets of a tensor."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **_options):
        return self._tensor.__dlpack__(max_version=(1, 0))

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3", "float8_e5m2", "float16", "int8", "bool"]
)
@pytest.mark.parametrize("wrap", [lambda x: x, _Versioned])
def test_dlpack_exports_every_dtype(dtype, wrap):
    x = Tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 2.0]], dtype=dtype)
    for source in (x, x.T, x[0, 0], x[1:] | True if dtype == "bool" else x * 2):
        y = Tensor.from_dlpack(wrap(source))
        assert y.dtype is x.dtype
        assert y.tolist() == source.tolist()


def test_scalars_of_numpy_become_numbers_of_python() -> None:
    for value in (
        np.float64(2.5),
        np.float32(2.5),
        np.int64(-3),
        np.bool_(True),
        np.complex128(1 + 2j),
    ):
        made = Tensor(value, dtype=str(value.dtype))
        assert made.uop.src or type(made.uop.arg) in (float, int, bool)
        np.testing.assert_array_equal(made.numpy(), np.asarray(value), strict=True)


def test_arrays_of_one_shape_are_not_confused():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    unaligned = np.frombuffer(bytearray(28), np.float32, offset=4)[:6].reshape(2, 3)
    unaligned[:] = values
    arrays = [
        values,
        values.astype(">f4"),
        values.astype(np.int32),
        values.astype(bool),
        values.astype("<f2"),
        np.asfortranarray(values),
        np.repeat(values, 2, 1)[:, ::2],
        unaligned,
        values[::-1],
        np.broadcast_to(np.float32(3), (2, 3)),
        values.astype(np.complex64),
        values.astype(ml_dtypes.bfloat16),
    ]
    read_only = values.copy()
    read_only.flags.writeable = False
    for array in (*arrays, read_only, *arrays):
        made = Tensor.from_numpy(array)
        assert made.shape == (2, 3)
        assert made.dtype.numpy == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(made.numpy(), array)
        assert not made.numpy().flags.writeable
    whole = Tensor.from_numpy(values)
    assert np.shares_memory(whole.numpy(), values)
    whole += 1
    assert values[0, 0] == 0


def test_an_array_that_was_read_can_grow_once_its_tensor_is_gone():
    array = np.zeros(4, np.float32)
    made = Tensor.from_numpy(array)
    del made
    array.resize(8)  # refused while something else holds the memory
    assert array.shape == (8,)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8", "uint64", "bool"]
)
def test_a_number_of_numpy_keeps_its_dtype(dtype):
    number = np.dtype(dtype).type(1)
    for tensor in (Tensor(number), Tensor([number]), Tensor.full((2,), number)):
        assert tensor.dtype.numpy == np.dtype(dtype)
    # In operations it is as weak as a Python number of its kind.
    if dtype in ("float64", "float32"):
        assert (Tensor([1.0]) * number).dtype.name == "float32"
