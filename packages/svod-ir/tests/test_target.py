"""Targets: machines as data."""

from __future__ import annotations

import dataclasses

import pytest

from svod_dtype import bfloat16, bool_, float16, float32, float64, index, int8, int32, uint8, void
from svod_ir import Op, Target, TargetError, TensorCore


def test_lanes_count_the_elements_of_a_register() -> None:
    target = Target.generic()
    assert target.vector_bits == 256
    assert [target.lanes(d) for d in (int8, float16, float32, float64, index, bool_)] == [
        32,
        16,
        8,
        4,
        4,
        32,
    ]
    assert target.lanes(void) == 1
    scalar = dataclasses.replace(target, vector_bits=32)
    assert scalar.lanes(float64) == 1


def test_the_generic_target_has_only_ordinary_arithmetic() -> None:
    target = Target.generic(cores=3)
    assert target.cores == 3
    assert {Op.ADD, Op.CDIV, Op.WHERE, Op.SQRT} <= target.native_ops
    assert not {Op.IDIV, Op.MOD, Op.SIN, Op.POW, Op.THREEFRY, Op.MULACC} & target.native_ops
    assert float32 in target.native_dtypes
    assert bfloat16 not in target.native_dtypes
    assert target.tensor_cores == ()


def test_targets_are_values() -> None:
    assert Target.generic() == Target.generic()
    assert hash(Target.generic()) == hash(Target.generic())
    assert dataclasses.replace(Target.generic(), has_fma=True) != Target.generic()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Target.generic().cores = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_an_op_is_native_or_shared() -> None:
    generic = Target.generic()
    assert dataclasses.replace(generic, shared_ops=frozenset({Op.SIN, Op.COS})).shared_ops == {
        Op.SIN,
        Op.COS,
    }
    native = generic.native_ops | {Op.SIN, Op.COS, Op.TAN}
    with pytest.raises(
        TargetError, match="target 'generic' has COS, SIN in native_ops and in shared_ops"
    ) as caught:
        dataclasses.replace(generic, native_ops=native, shared_ops=frozenset({Op.SIN, Op.COS}))
    assert caught.value.target == "generic"


def test_a_tensor_core_names_its_tile() -> None:
    core = TensorCore((16, 8, 4), 2, (bfloat16, bfloat16, float32))
    assert str(core) == "WMMA_16_8_4_bf16_bf16_f32"


def test_the_tiles_of_a_tensor_core_are_lanes() -> None:
    core = TensorCore((16, 8, 4), 2, (uint8, int8, int32))
    assert core.operand_dtypes == (uint8.vec(8 * 4), int8.vec(4 * 16), int32.vec(8 * 16))
