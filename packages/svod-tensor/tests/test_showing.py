"""The text of a tensor: its values where they are in memory, in the form of numpy; nothing is
computed for it.
"""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import sys

import numpy as np
import pytest

from svod_dtype import ALL_DTYPES
from svod_tensor import Tensor, Variable, grad, jit
from svod_tensor.errors import CaptureError

N = Variable("n", 1, 4)


def test_repr_of_a_lazy_tensor_does_not_compute_it():
    x = Tensor([1.0]) + 1
    assert repr(x) == str(x) == "<Tensor shape=(1,) dtype=float32 device=CPU lazy ADD>"
    assert not x.is_realized
    assert math.isclose(x.item(), 2.0)
    assert repr(x) == str(x) == "Tensor([2.], shape=(1,), dtype=float32, device=CPU)"


def test_repr_of_a_lazy_tensor_names_the_operation_and_not_a_derivative_mark():
    x = Tensor([1.0, 2.0])
    assert "lazy softmax" in repr(x.softmax())
    assert "lazy MUL" in repr((x * 2).detach())


def test_values_are_written_as_numpy_writes_them():
    for array in (
        np.arange(6).reshape(2, 3),
        np.linspace(-1, 1e6, 7),
        np.array([np.nan, -np.inf, 0.0]),
        np.array([True, False]),
        np.arange(3000, dtype=np.float32).reshape(3, 1000),
        np.zeros((2, 0)),
        np.float32(2.5).reshape(()),
    ):
        text = repr(Tensor(array))
        values = np.array2string(array, separator=", ", prefix="Tensor(", suffix=",")
        assert text.startswith(f"Tensor({values},")
        assert text.replace("\n", "").endswith(
            f" shape={array.shape}, dtype={array.dtype}, device=CPU)"
        )
        assert max(map(len, text.split("\n"))) <= np.get_printoptions()["linewidth"]
    with np.printoptions(precision=2, linewidth=40):
        assert (
            repr(Tensor([1 / 3])) == "Tensor([0.33],\n       shape=(1,), dtype=float32, device=CPU)"
        )


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype_shows_its_values(dtype):
    x = Tensor([1, 0], dtype=dtype).realize()
    assert repr(x).endswith(f"], shape=(2,), dtype={dtype}, device=CPU)")
    assert float(f"{x[0]:.1f}") == 1.0
    assert str(x[0].item()) in (f"{x[0]}", f"{x[0]}.0")


def test_views_copies_and_constants_show_values_without_a_computation():
    x = Tensor([[1, 2, 3], [4, 5, 6]])
    same = x.clone()
    for seen, values in (
        (x.T[1:], "[[2, 5],\n        [3, 6]]"),
        (x[0, ::-1], "[3, 2, 1]"),
        (same, "[[1, 2, 3],\n        [4, 5, 6]]"),
        (same[1], "[4, 5, 6]"),
        (Tensor.full((2, 2), 7).T, "[[7, 7],\n        [7, 7]]"),
        (Tensor(5), "5"),
    ):
        assert repr(seen).startswith(f"Tensor({values}, shape=")
    x.assign(x + 1)
    assert "lazy" in repr(x)
    assert repr(same).startswith("Tensor([[1, 2, 3]")
    x.realize()
    assert repr(x).startswith("Tensor([[2, 3, 4]")
    assert repr(same).startswith("Tensor([[1, 2, 3]")


def test_shards_are_shown_as_one():
    devices = ("CPU", "CPU:1")
    whole = (Tensor([1, 2, 3, 4]) * 2).shard(devices, axis=0)
    assert "lazy" in repr(whole)
    whole.realize()
    assert repr(whole) == f"Tensor([2, 4, 6, 8], shape=(4,), dtype=int32, device={devices})"
    assert repr(whole[1:]) == f"Tensor([4, 6, 8], shape=(3,), dtype=int32, device={devices})"
    assert repr(Tensor([1, 2]).shard(devices).realize()).startswith("Tensor([1, 2],")


def test_a_symbolic_size_shows_its_value():
    x = Tensor(np.arange(8, dtype=np.int32).reshape(4, 2))[: N.bind(3)]
    assert repr(x.shape) == "(n=3, 2)"
    assert (
        repr(x) == "Tensor([[0, 1],\n        [2, 3],\n        [4, 5]], shape=(n=3, 2), dtype=int32,"
        " device=CPU)"
    )
    y = x + 1
    assert repr(y) == "<Tensor shape=(n=3, 2) dtype=int32 device=CPU lazy ADD>"
    plan = y.prepare()
    plan.execute_with_vars({"n": 2})
    assert repr(y).startswith("Tensor([[1, 2],\n        [3, 4]], shape=(n=2, 2),")


def test_functions_that_are_captured_or_differentiated_may_print(capsys):
    @jit
    def double(x):
        print(x, f"{x[0]}")
        return x * 2

    x = Tensor([1.5, 2.5])
    assert double(x).tolist() == [3.0, 5.0]
    assert capsys.readouterr().out.count("<Tensor shape=") == 2
    with pytest.raises(CaptureError, match="reads values"):
        jit(lambda x: x + float(f"{x[0]:.1f}"))(x)

    def loss(x):
        print(f"loss {(x * x).sum():.2f}")
        return (x * x).sum()

    assert grad(loss)(x).tolist() == [3.0, 5.0]
    assert capsys.readouterr().out == "loss 8.50\n"


def test_text_of_large_memory_elsewhere_does_not_copy_it(monkeypatch):
    x = (Tensor([1, 2, 3, 4]) + 1).shard(("CPU", "CPU:1"), axis=0).realize()
    monkeypatch.setattr("svod_tensor.ops.interface.reading._MOST_COPIED", 8)
    assert repr(x) == "<Tensor shape=(4,) dtype=int32 device=('CPU', 'CPU:1') realized>"


def test_numbers_are_formatted_as_numbers():
    x = Tensor([[1.0, 2.5], [3.25, 10.0]])
    assert f"{x.sum()} {x.sum():.2f} {x[0, 1]:8.3f}|{x[:1, :1]:.1f}" == "16.75 16.75    2.500|1.0"
    assert f"{Tensor(0.1)}" == "0.1"
    assert f"{Tensor(7):04d} {Tensor([255])[0]:x}" == "0007 ff"
    assert f"{x[0]:.2f}" == "[1.00, 2.50]"
    assert f"{x}" == str(x)
    with pytest.raises(ValueError, match="Unknown format code"):
        f"{x.sum():d}"


def test_numbers_are_rounded_as_python_rounds():
    x = Tensor([0.5, 1.5, -2.675])
    assert round(x).tolist() == [0.0, 2.0, -3.0]
    assert round(x, 1).numpy().tolist() == np.round(x.numpy(), 1).tolist()
    assert round(Tensor([149, 151]), 1).tolist() == [149, 151]
    assert math.trunc(Tensor(-1.5)) == -1
    assert (math.floor(Tensor(-1.5)), math.ceil(Tensor(-1.5))) == (-2, -1)


def test_membership_compares_all_elements():
    x = Tensor([[1, 2], [3, 4]])
    assert 3 in x
    assert 5 not in x
    assert Tensor([1, 9]) in x
    assert Tensor(2.0) in x


def test_pickles_keep_bytes_out_of_band():
    x = Tensor(np.arange(1000, dtype=np.float32).reshape(10, 100)).T
    buffers = []
    text = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(text) < 500
    (buffer,) = buffers
    assert buffer.raw().nbytes == 4000
    back = pickle.loads(text, buffers=buffers)
    assert np.array_equal(back.numpy(), x.numpy())
    assert back.dtype is x.dtype
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(text)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_pickles_of_every_protocol_come_back(protocol, dtype):
    for x in (
        Tensor([[1, 0, 1]], dtype=dtype),
        Tensor(1, dtype=dtype),
        Tensor.zeros(0, 3, dtype=dtype),
    ):
        back = pickle.loads(pickle.dumps(x, protocol))
        assert (back.tolist(), back.dtype, back.shape) == (x.tolist(), x.dtype, x.shape)


def test_out_of_band_memory_is_read_in_place_and_never_written():
    memory = np.zeros(80, np.uint8)
    at = -memory.ctypes.data % 16
    memory = memory[at : at + 64]
    memory.view(np.float32)[:] = 3.0
    text = pickle.dumps(Tensor.ones(16).realize(), 5, buffer_callback=lambda _: False)
    x = pickle.loads(text, buffers=[memory])
    assert x.tolist() == [3.0] * 16
    assert x.numpy().ctypes.data == memory.ctypes.data
    x[0] = 5.0
    assert x.tolist() == [5.0] + [3.0] * 15
    assert memory.view(np.float32).tolist() == [3.0] * 16


def test_copies_are_tensors_of_their_own():
    x = Tensor([1, 2])
    for y in (copy.copy(x), copy.deepcopy(x), copy.deepcopy({"x": [x]})["x"][0]):
        y[0] = 9
        assert (x.tolist(), y.tolist()) == ([1, 2], [9, 2])


def test_tolist_is_serializable_as_json():
    for dtype in ("float32", "bfloat16", "int64", "uint64", "bool"):
        x = Tensor([[1, 0], [1, 1]], dtype=dtype)
        assert json.loads(json.dumps(x.tolist())) == [[1, 0], [1, 1]]


def test_bytes_and_buffers_are_the_memory():
    x = Tensor([[1, 2], [3, 4]], dtype="uint16").T
    assert bytes(x) == x.numpy().tobytes()
    assert bytes(Tensor(3, dtype="uint8")) == b"\3"
    view = x.__buffer__(0)
    assert (view.format, view.shape, view.tolist(), view.readonly) == (
        "H",
        (2, 2),
        [[1, 3], [2, 4]],
        True,
    )
    with pytest.raises(BufferError, match="read-only"):
        x.__buffer__(1)
    with pytest.raises(BufferError, match="no bfloat16"):
        Tensor([1.0], dtype="bfloat16").__buffer__(0)


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="Python 3.12 has the buffer protocol for classes"
)
def test_memoryviews_share_the_memory():
    x = Tensor([1.0, 2.0, 3.0])
    assert memoryview(x).tolist() == [1.0, 2.0, 3.0]
    with open(os.devnull, "wb") as file:
        assert file.write(x) == 12
