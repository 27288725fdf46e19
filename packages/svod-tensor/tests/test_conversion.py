from __future__ import annotations

import math

import numpy as np
import pytest

from svod_ir import OperandError
from svod_tensor import Tensor
from svod_tensor.errors import NonFiniteCastError
from svod_testing import check, make_array


@pytest.mark.parametrize(
    "source", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
)
@pytest.mark.parametrize(
    "target", ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64"]
)
def test_casts_agree_with_numpy(rng, source, target):
    a = make_array(rng, (19,), source)
    if np.dtype(source).kind == "f" and np.dtype(target).kind == "u":
        a = np.abs(a)
    if np.dtype(source).kind == "f":
        a = np.clip(a, -100, 100).astype(source)
    with np.errstate(invalid="ignore"):
        check(Tensor(a).cast(target), a.astype(target))


def test_astype_copies_and_transfers_on_request():
    x = Tensor([1.0, 2.0])
    assert x.astype("float32", copy=False) is x
    assert x.astype("float32", copy=False, device="cpu:0") is x
    assert x.astype("float32") is not x
    assert x.astype("float32", device="CPU:1").device == "CPU:1"
    moved = x.astype("int8", copy=False, device="CPU:1")
    assert (moved.dtype.name, moved.device, moved.tolist()) == ("int8", "CPU:1", [1, 2])


def test_bitcast_reads_the_same_bits():
    check(Tensor([1.0, -2.5]).bitcast("int32"), np.array([1.0, -2.5], np.float32).view(np.int32))
    with pytest.raises(OperandError, match="bitcast"):
        Tensor([1.0]).bitcast("int64")


def test_a_non_finite_float_does_not_become_an_integer():
    for make in (
        lambda: Tensor.full((2,), math.nan, dtype="int32"),
        lambda: Tensor(math.inf, dtype="int8"),
        lambda: Tensor([1.0, math.nan], dtype="int64"),
        lambda: Tensor(np.array([np.inf]), dtype="int32"),
    ):
        with pytest.raises(NonFiniteCastError):
            make()
