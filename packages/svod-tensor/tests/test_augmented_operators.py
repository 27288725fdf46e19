"""`x += y` and its like write to the tensor on their left, as numpy's do: numpy is the oracle."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import svod_tensor as sv
from svod_device import ReadOnlyError
from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor, jit
from svod_tensor.errors import (
    DerivativeError,
    IntegerOverflowError,
    RepeatedWriteError,
    ResultDtypeError,
    ShardError,
)
from svod_testing import check

INTEGER_OPERATORS = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
]
FLOAT_OPERATORS = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]
CASES = [(f, "int32") for f in INTEGER_OPERATORS] + [(f, "float32") for f in FLOAT_OPERATORS]


@pytest.mark.parametrize(("augment", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", v))
@pytest.mark.parametrize(
    "other", [3, [3, 2], np.array([[1], [2]], np.int32)], ids=["number", "list", "array"]
)
def test_an_augmented_operator_writes_through_views(
    augment: Callable[[Any, Any], Any], dtype: str, other: Any
) -> None:
    a = np.arange(1, 7, dtype=dtype).reshape(3, 2)
    x = Tensor(a)
    other_of_numpy = np.array(other, dtype) if not isinstance(other, int) else other
    for index in (np.s_[1:], np.s_[::2]):
        expected = a.copy()
        view = expected[index]
        augment(view, other_of_numpy)
        for tensor in (Tensor(a), x * 1, Tensor(a).realize()):
            before, part = tensor + 0, tensor[index]
            assert (
                augment(part, Tensor(other_of_numpy) if not isinstance(other, int) else other)
                is part
            )
            check(part, view)
            check(tensor, expected)
            check(before, a)


def test_matmul_writes_in_place() -> None:
    a, b = np.arange(4.0).reshape(2, 2), np.array([[1.0, 2.0], [3.0, 4.0]])
    x = Tensor(a)
    y = x.reshape(4)
    x @= b
    check(x, a @ b)
    check(y, (a @ b).reshape(4))
    v = Tensor([1.0, 2.0])
    with pytest.raises(
        ShapeError,
        match=r"matmul: output operand with shape \(2,\) doesn't match the broadcast shape \(\)",
    ):
        v @= v


def test_augmented_assignment_in_loops_and_functions_writes_to_the_bound_tensor() -> None:
    x = Tensor([[1.0, 3.0], [2.0, 2.0]])
    for row in x:
        row /= row.sum()
    assert x.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    weights = [Tensor([1, 2]), Tensor([3])]
    for weight in weights:
        weight *= 10
    assert [w.tolist() for w in weights] == [[10, 20], [30]]

    def subtract_one(a: Tensor) -> None:
        a -= 1

    subtract_one(x)
    assert x.tolist() == [[-0.75, -0.25], [-0.5, -0.5]]


def test_operands_that_alias_the_target_are_read_before_the_write() -> None:
    a = np.arange(6, dtype=np.int32)
    x = Tensor(a)
    x += x
    a += a
    x[1:] += x[:-1]
    a[1:] += a[:-1].copy()
    x -= x[::-1]
    a -= a[::-1].copy()
    check(x, a)


@pytest.mark.parametrize(
    "index",
    [0, np.s_[1:], np.s_[::2], np.s_[..., 0], [0, 2], np.array([True, False, True])],
    ids=str,
)
@pytest.mark.parametrize("is_realized", [True, False])
def test_an_augmented_assignment_to_an_item_runs_once(index: Any, is_realized: bool) -> None:
    a = np.arange(6, dtype=np.int32).reshape(3, 2)
    x = Tensor(a) if is_realized else Tensor(a) * 1
    x[index] += 5
    a[index] += 5
    check(x, a)


def test_an_augmented_assignment_to_a_slice_is_one_assignment() -> None:
    from svod_tensor.cells.tables import get_last_write_id

    x = Tensor([1, 2, 3, 4])
    before = get_last_write_id()
    x[1:3] += 5
    assert get_last_write_id() - before <= 1
    y = Tensor([1, 2, 3, 4]) * 1
    view = y[1:3]
    view += 5
    node = y.uop
    y[1:3] = view
    assert y.uop is node


def test_dtype_and_shape_are_kept() -> None:
    half = Tensor([1.0, 2.0], dtype="float16")
    half += 0.1
    check(half, np.array([1.0, 2.0], np.float16) + np.float16(0.1))
    half += Tensor([1.0, 1.0])
    assert half.dtype == "float16"
    for narrow in ("bfloat16", "float8_e4m3"):
        x = Tensor([1.0, 2.0], dtype=narrow)
        x *= 2.0
        assert (x.dtype, x.tolist()) == (narrow, [2.0, 4.0])
    small = Tensor([100, -100], dtype="int8")
    small += Tensor([1000, 1000])
    a = np.array([100, -100], np.int8)
    a += np.array([1000, 1000], np.int32)
    check(small, a)
    z = Tensor([1 + 2j])
    z *= 1j
    z += Tensor([1.0])
    assert z.tolist() == [-1 + 1j]
    mask = Tensor([True, False])
    mask |= Tensor([False, False])
    assert mask.tolist() == [True, False]


@pytest.mark.parametrize(
    ("target", "augment", "other", "message"),
    [
        (
            "int32",
            operator.iadd,
            0.5,
            "add: cannot cast the result from float32 to int32 with casting rule 'same_kind'",
        ),
        ("int32", operator.itruediv, 2, "divide: cannot cast the result from float32 to int32"),
        (
            "float32",
            operator.imul,
            1j,
            "multiply: cannot cast the result from complex64 to float32",
        ),
        (
            "uint8",
            operator.iadd,
            Tensor([1], dtype="int8"),
            "add: cannot cast the result from int16 to uint8",
        ),
        ("bool", operator.iadd, 1, "add: cannot cast the result from int32 to bool"),
    ],
)
def test_a_result_of_a_higher_kind_is_an_error(
    target: str, augment: Any, other: Any, message: str
) -> None:
    x = Tensor([1, 1]).cast(target)
    a = np.array([1, 1]).astype(target)
    with pytest.raises(TypeError):
        augment(a, other.numpy() if isinstance(other, Tensor) else other)
    with pytest.raises(ResultDtypeError) as caught:
        augment(x, other)
    assert caught.value.headline.startswith(message)
    assert x.tolist() == a.tolist()


def test_mismatched_operands_are_errors() -> None:
    x = Tensor([1, 2], dtype="uint8")
    with pytest.raises(
        ShapeError,
        match=r"add: output operand with shape \(2,\) doesn't match the broadcast shape \(2, 2\)",
    ):
        x += Tensor([[1], [2]], dtype="uint8")
    with pytest.raises(
        ShapeError, match=r"add: output operand with shape \(\) doesn't match the broadcast"
    ):
        scalar = Tensor(1)
        scalar += [1, 2]
    with pytest.raises(IntegerOverflowError):
        x += 300
    with pytest.raises(RepeatedWriteError):
        wide = Tensor([1]).expand(3)
        wide += 1
    with pytest.raises(OperandError):
        flags = Tensor([True])
        flags -= True
    assert x.tolist() == [1, 2]


def test_constants_numbers_and_empty_tensors_are_written() -> None:
    x = sv.zeros(4)
    y = x[:2]
    y += 1
    assert x.tolist() == [1.0, 1.0, 0.0, 0.0]
    number = Tensor(2)
    same = number
    number **= 3
    assert same.item() == 8
    empty = sv.zeros((0, 3))
    empty += 1
    assert empty.shape == (0, 3)
    with pytest.raises(ShapeError):
        empty += sv.zeros((2, 0, 3))


def test_shared_memory_of_numpy_is_never_written() -> None:
    a = np.arange(64, dtype=np.float32)
    x = Tensor.from_numpy(a)
    view = x[1:]
    view += 1
    assert a.tolist() == list(range(64))
    assert x.tolist() == [0, *range(2, 65)]


def test_a_sharded_tensor_is_written_and_a_shard_is_not() -> None:
    x = Tensor([1, 2, 3, 4]).shard(("CPU", "CPU:1"), axis=0)
    x += x
    x[1:] += 1
    assert x.tolist() == [2, 5, 7, 9]
    with pytest.raises(ShardError):
        shard = x.shards()[0]
        shard += 1


def test_a_file_is_not_written(tmp_path: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes([1, 2, 3]))
    x = Tensor.from_file(path)
    with pytest.raises(ReadOnlyError):
        x += 1
    assert path.read_bytes() == bytes([1, 2, 3])


def test_captured_functions_write_their_arguments() -> None:
    def step(x: Any, y: Any) -> Any:
        x += y
        x[1:] *= 2
        return x + 1

    a, b = np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, 1.0, 1.0], np.float32)
    x, y, captured = Tensor(a), Tensor(b), jit(step)
    for _ in range(3):
        check(captured(x, y), step(a, b))
        check(x, a)


def test_derivatives_pass_through_in_place_writes() -> None:
    def write(x: Tensor) -> Tensor:
        y = x * x
        y += x
        y[1:] *= 3
        return y.sum()

    x = Tensor([1.0, 2.0])
    assert sv.grad(write)(x).tolist() == [3.0, 15.0]
    assert sv.jvp(write, (x,), (Tensor([1.0, 1.0]),))[1].item() == 18.0
    with pytest.raises(DerivativeError, match="assigns to its argument"):

        def change(x: Tensor) -> Tensor:
            x += 1
            return x.sum()

        sv.grad(change)(x)


def test_loops_carry_tensors_that_their_bodies_write() -> None:
    def step(i: Any, carry: Tensor) -> Tensor:
        carry += i
        carry[0] += 1
        return carry

    assert sv.fori_loop(0, 4, step, Tensor([0, 10])).tolist() == [10, 16]
    total = Tensor([0, 0])

    def add(carry: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal total
        total += x
        return carry + x, total

    _, sums = sv.scan(add, Tensor([0, 0]), Tensor([[1, 2], [3, 4]]))
    assert sums.tolist() == [[1, 2], [4, 6]]
    assert total.tolist() == [4, 6]
