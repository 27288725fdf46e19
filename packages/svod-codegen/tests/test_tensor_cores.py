"""Dot units: vector instructions that multiply groups of neighbours and add to one lane for each
group.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from svod_codegen.errors import RenderError
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import host_target
from svod_codegen.llvm.tensor_cores import UNITS, Unit
from svod_codegen.testing.calls import call_llvm
from svod_dtype import DType, bfloat16, float32, int8, int32, uint8
from svod_ir import AxisType, Op, Target, TensorCore, UOp
from svod_ir.testing import nodes
from svod_ir.testing.nodes import group, param
from svod_schedule.linearize import linearize

if TYPE_CHECKING:
    pass

DOTS = [unit for unit in UNITS if not unit.core.tiles]
NATIVE = [unit.core for unit in DOTS if unit.core in host_target().tensor_cores]
NO_UNIT = TensorCore((16, 1, 2), 2, (float32, float32, float32))
TARGET = replace(Target.generic(), tensor_cores=(*(unit.core for unit in DOTS), NO_UNIT))
CPUS = {"avx512bf16": "znver4", "avx512vnni": "cascadelake", "avxvnni": "alderlake"}


def const(value: int) -> UOp:
    return UOp.const(int32, value)


def rows_times_panel(core: TensorCore, rows: int, steps: int) -> UOp:
    """out[rows, n] = a[rows, steps * k] b[steps * k, n]: a where it lies, b in groups, accumulators
    in registers.
    """
    n, _, k = core.dims
    a_type, b_type, c_type = core.operand_dtypes
    out = param(0, rows * n, c_type.scalar)
    a, b = param(1, rows * steps * k, a_type.scalar), param(2, steps * k * n, b_type.scalar)
    register = nodes.register(0, rows, c_type)
    starts = [register.index(const(row)).store(UOp.const(c_type, 0)) for row in range(rows)]
    step = UOp(Op.RANGE, int32, (const(steps),), (0, AxisType.REDUCE))
    inside = register.after(*starts, step)
    y = b.index(step * (n * k), lanes=n * k).load()
    updates: list[UOp] = []
    for row in range(rows):
        x = a.index((step + row * steps) * k, lanes=k).load()
        place = inside.index(const(row))
        updates.append(place.store(UOp(Op.WMMA, c_type, (x, y, place.load()), core)))
    done = register.after(group(*updates).end(step))
    return UOp.sink(
        *(
            out.index(const(row * n), lanes=n).store(done.index(const(row)).load())
            for row in range(rows)
        )
    )


def rendered(sink: UOp) -> str:
    return render(linearize(sink), "kernel", TARGET)


def values(dtype: DType, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype.is_float:
        return rng.integers(-64, 65, shape).astype(np.float32).astype(dtype.numpy)
    whole = rng.integers(int(dtype.min), int(dtype.max), shape, endpoint=True).astype(dtype.numpy)
    whole[0, :2] = dtype.min
    return whole


@pytest.mark.parametrize("core", NATIVE, ids=str)
@pytest.mark.parametrize(("rows", "steps"), [(1, 1), (4, 7), (12, 2)])
def test_sums_of_products_are_exact_modulo_their_type(core: TensorCore, rows: int, steps: int):
    n, _, k = core.dims
    a, b = values(core.dtypes[0], (rows, steps * k)), values(core.dtypes[1], (steps * k, n))
    out = np.zeros((rows, n), core.dtypes[2].numpy)
    packed = np.ascontiguousarray(b.reshape(steps, k, n).transpose(0, 2, 1))
    call_llvm(rendered(rows_times_panel(core, rows, steps)), [out, a, packed])
    wide = np.float64 if core.dtypes[2].is_float else np.int64
    expected = a.astype(np.float32).astype(wide) @ b.astype(np.float32).astype(wide)
    np.testing.assert_array_equal(out, expected.astype(out.dtype))


@pytest.mark.skipif(
    bfloat16 not in [core.dtypes[0] for core in NATIVE], reason="this processor has no such unit"
)
def test_denormal_bfloat16_counts_as_zero():
    core = next(core for core in NATIVE if core.dtypes[0] is bfloat16)
    a, b = np.zeros((1, 2), bfloat16.numpy), np.zeros((16, 2), bfloat16.numpy)
    a[0, 0], b[0, 0], out = 2.0**-130, 2.0**20, np.ones((1, 16), np.float32)
    call_llvm(rendered(rows_times_panel(core, 1, 1)), [out, a, b])
    assert not out.any()


_ASSEMBLE = """
import sys
from svod_codegen.llvm.compiler import compile_assembly
from svod_codegen.llvm.target import HostCpu, host_cpu
cpu = HostCpu(triple="x86_64-unknown-linux-gnu", name=sys.argv[1], features="", llvm_version=host_cpu().llvm_version)
print(compile_assembly(sys.stdin.read(), cpu=cpu))
"""


@pytest.mark.parametrize("unit", DOTS, ids=lambda unit: f"{unit.core}")
def test_a_dot_unit_is_one_instruction_for_each_row_and_a_broadcast(unit: Unit):
    """In a child process: LLVM ends the process on what it cannot select."""
    (cpu,) = (CPUS[feature] for feature in unit.features & CPUS.keys())
    source = rendered(rows_times_panel(unit.core, 4, 8))
    child = subprocess.run(
        [sys.executable, "-c", _ASSEMBLE, cpu],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    name = unit.intrinsic.split(".")[-2].removeprefix("v")
    assert len(re.findall(rf"\bv{name}\b", child.stdout)) == 4
    assert "call" not in child.stdout and "(%rsp)" not in child.stdout


def test_the_operands_may_be_any_values():
    """A constant row and a panel that is computed."""
    core = next(u.core for u in DOTS if u.core.dtypes == (uint8, int8, int32))
    a_type, b_type, c_type = core.operand_dtypes
    b = param(1, b_type.lanes, int8).index(const(0), lanes=b_type.lanes).load()
    value = UOp(Op.WMMA, c_type, (UOp.const(a_type, 2), b + b, UOp.const(c_type, 5)), core)
    source = rendered(
        UOp.sink(param(0, c_type.lanes, int32).index(const(0), lanes=c_type.lanes).store(value))
    )
    if core not in NATIVE:
        pytest.skip("this processor has no such unit")
    panel, out = np.arange(b_type.lanes, dtype=np.int8) // 4, np.zeros(c_type.lanes, np.int32)
    call_llvm(source, [out, panel])
    np.testing.assert_array_equal(out, 5 + 4 * 2 * 2 * np.arange(c_type.lanes))


def test_a_unit_that_does_not_exist_is_refused():
    with pytest.raises(RenderError, match="no x86 processor"):
        rendered(rows_times_panel(NO_UNIT, 1, 1))


def test_a_unit_that_the_target_does_not_have_is_refused():
    """LLVM would end the process."""
    with pytest.raises(RenderError, match="WMMA_16_1_2_bf16_bf16_f32, which generic does not have"):
        render(linearize(rows_times_panel(DOTS[0].core, 1, 1)), "kernel", Target.generic())


def test_a_target_may_override_the_speed_of_a_unit():
    slow = replace(DOTS[0].core, cycles=9.0)
    source = render(linearize(rows_times_panel(slow, 1, 1)), "kernel", TARGET)
    assert "dpbf16ps" in source
