from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import to_dtype
from svod_ir import OperandError
from svod_tensor import Tensor
from svod_tensor.errors import AmbiguousTruthError
from svod_testing import check, make_array


def test_where_selects_and_promotes(rng):
    a, b = make_array(rng, (4, 5), "float32"), make_array(rng, (5,), "float32")
    check((Tensor(a) > 0).where(Tensor(a), Tensor(b)), np.where(a > 0, a, b))
    check(Tensor.where(Tensor(a) > 0, 1, 0), np.where(a > 0, 1, 0).astype(np.int32))
    check((Tensor(a) > 0).where(1.0, Tensor(b)), np.where(a > 0, np.float32(1), b))
    assert (Tensor(a) > 0).where(Tensor([1], dtype="int8"), 2.5).dtype is to_dtype("float32")
    with pytest.raises(OperandError, match="where: expected a boolean condition, got int32"):
        Tensor([1, 0]).where(1, 2)


def test_logic_takes_any_dtype(rng):
    a, b = np.array([0, 1, 2, 0]), np.array([0.0, 0.0, 3.5, 1.0], np.float32)
    check(Tensor(a).logical_and(Tensor(b)), np.logical_and(a, b))
    check(Tensor(a).logical_or(Tensor(b)), np.logical_or(a, b))
    check(Tensor(a).logical_xor(Tensor(b)), np.logical_xor(a, b))
    check(Tensor(a).logical_not(), np.logical_not(a))


def test_only_one_element_has_a_truth_value():
    assert bool(Tensor(3) > 2)
    with pytest.raises(AmbiguousTruthError):
        bool(Tensor([1, 2]) == Tensor([1, 2]))
