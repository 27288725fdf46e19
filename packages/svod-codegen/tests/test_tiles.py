"""Kernels on AMX tiles: run with the instructions emulated, natively where there are any, and as
assembly.
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
from svod_codegen.llvm.tensor_cores import UNITS
from svod_codegen.testing import emulate_tiles
from svod_codegen.testing.calls import call_llvm
from svod_dtype import DType, bfloat16, float16, float32, int8, int32, uint8
from svod_ir import AxisType, Op, Target, TensorCore, UOp
from svod_ir.testing import nodes
from svod_ir.testing.nodes import group, param
from svod_schedule.linearize import linearize

if TYPE_CHECKING:
    pass

CORES = [unit.core for unit in UNITS if unit.core.tiles]
BF16 = CORES[0]
NO_UNIT = TensorCore((16, 16, 32), 2, (float16, bfloat16, float32), tiles=8)
TARGET = replace(Target.generic(), tensor_cores=(*CORES, NO_UNIT))
TILE = 16 * 16


def const(value: int) -> UOp:
    return UOp.const(int32, value)


def loop(size: int, axis: int) -> UOp:
    return UOp(Op.RANGE, int32, (const(size),), (axis, AxisType.REDUCE))


def accumulators(core: TensorCore, n: int) -> UOp:
    return nodes.register(0, n, core.operand_dtypes[2])


def zero(core: TensorCore) -> UOp:
    return UOp.const(core.operand_dtypes[2], 0)


def wmma(core: TensorCore, a: UOp, b: UOp, accumulator: UOp) -> UOp:
    return UOp(Op.WMMA, core.operand_dtypes[2], (a, b, accumulator), core)


def product(core: TensorCore, rows: int, columns: int, steps: int) -> UOp:
    """Tiles of the result (slot 0) as sums over `steps` of products of packed tiles (slots 1 and
    2).
    """
    a_type, b_type, c_type = core.operand_dtypes
    out = param(0, rows * columns * TILE, c_type.scalar)
    a = param(1, rows * steps * a_type.lanes, a_type.scalar)
    b = param(2, columns * steps * b_type.lanes, b_type.scalar)
    register = accumulators(core, rows * columns)
    starts = [register.index(const(n)).store(zero(core)) for n in range(rows * columns)]
    k = loop(steps, 0)
    inside = register.after(*starts, k)
    updates: list[UOp] = []
    for row in range(rows):
        x = a.index((k + row * steps) * a_type.lanes, lanes=a_type.lanes).load()
        for column in range(columns):
            y = b.index((k + column * steps) * b_type.lanes, lanes=b_type.lanes).load()
            place = inside.index(const(row * columns + column))
            updates.append(place.store(wmma(core, x, y, place.load())))
    done = register.after(group(*updates).end(k))
    return UOp.sink(
        *(
            out.index(const(n * TILE), lanes=TILE).store(done.index(const(n)).load())
            for n in range(rows * columns)
        )
    )


def operands(
    core: TensorCore, rows: int, columns: int, steps: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of the core's dtypes, with integers over the whole range and small floats."""
    n, m, k = core.dims
    rng = np.random.default_rng(seed)

    def values(dtype: DType, shape: tuple[int, int]) -> np.ndarray:
        if dtype.is_float:
            return rng.integers(-64, 65, shape).astype(np.float32).astype(dtype.numpy)
        return rng.integers(int(dtype.min), int(dtype.max), shape, endpoint=True).astype(
            dtype.numpy
        )

    return values(core.dtypes[0], (rows * m, steps * k)), values(
        core.dtypes[1], (steps * k, columns * n)
    )


def pack(core: TensorCore, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In the order of the kernel: tiles of a row by row, groups of b's rows side by side."""
    n, m, k = core.dims
    a_tiles = a.reshape(a.shape[0] // m, m, a.shape[1] // k, k).transpose(0, 2, 1, 3)
    b_tiles = b.reshape(b.shape[0] // k, k // core.group, core.group, b.shape[1] // n, n).transpose(
        3, 0, 1, 4, 2
    )
    return np.ascontiguousarray(a_tiles), np.ascontiguousarray(b_tiles)


def exact(core: TensorCore, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.float64 if core.dtypes[2].is_float else np.int64
    result = a.astype(np.float32).astype(wide) @ b.astype(np.float32).astype(wide)
    return result.astype(core.dtypes[2].numpy)


def multiply(source: str, core: TensorCore, rows: int, columns: int, steps: int) -> None:
    """Run the kernel and compare with numpy; the sums are exact in every order."""
    a, b = operands(core, rows, columns, steps)
    out = np.full(rows * columns * TILE, 7, core.dtypes[2].numpy)
    call_llvm(source, [out, *pack(core, a, b)])
    found = (
        out.reshape(rows, columns, 16, 16).transpose(0, 2, 1, 3).reshape(rows * 16, columns * 16)
    )
    np.testing.assert_array_equal(found, exact(core, a, b))


def rendered(sink: UOp) -> str:
    return render(linearize(sink), "kernel", TARGET)


def instructions(source: str) -> list[str]:
    return re.findall(r"call void @llvm\.x86\.(\w+)\(", source)


@pytest.mark.parametrize("core", CORES, ids=str)
@pytest.mark.parametrize(("rows", "columns", "steps"), [(1, 1, 1), (2, 2, 5), (1, 3, 2), (3, 1, 1)])
def test_products_of_tiles_are_those_of_the_matrices(
    core: TensorCore, rows: int, columns: int, steps: int
):
    multiply(
        emulate_tiles(rendered(product(core, rows, columns, steps))), core, rows, columns, steps
    )


@pytest.mark.parametrize(
    "core", [c for c in CORES if c in host_target().tensor_cores] or CORES[:0], ids=str
)
def test_this_processor_multiplies_tiles_as_the_emulation_does(core: TensorCore):
    multiply(rendered(product(core, 2, 2, 5)), core, 2, 2, 5)


def test_tiles_are_configured_first_and_released_last():
    found = instructions(rendered(product(BF16, 1, 1, 3)))
    assert found == [
        "ldtilecfg",
        "tilezero",
        "tileloadd64",
        "tileloadd64",
        "tdpbf16ps",
        "tilestored64",
        "tilerelease",
    ]


def test_the_configuration_is_eight_tiles_of_16_rows_of_64_bytes():
    text = re.search(r'c"([^"]*)", align 64', rendered(product(BF16, 1, 1, 1)))
    assert text is not None
    data = bytes.fromhex(text[1].replace("\\", ""))
    assert data == bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])


def test_a_kernel_without_tiles_does_not_configure_them():
    source = rendered(UOp.sink(param(0, 1, float32).index(const(0)).store(UOp.const(float32, 1.0))))
    assert "x86" not in source and emulate_tiles(source) == source


def test_tiles_are_reused_after_their_live_range():
    """Two products one after the other, four accumulators each."""
    first, second = product(BF16, 2, 2, 3), product(BF16, 2, 2, 3)
    out, other = param(0, 4 * TILE, float32), param(3, 4 * TILE, float32)
    again = nodes.register(1, 4, BF16.operand_dtypes[2])
    old = accumulators(BF16, 4)
    later = second.substitute({out: other, old: again, loop(3, 0): loop(3, 1)})
    source = emulate_tiles(rendered(UOp.sink(*first.src, *later.src)))
    a, b = operands(BF16, 2, 2, 3)
    results = [np.zeros(4 * TILE, np.float32) for _ in range(2)]
    call_llvm(source, [results[0], *pack(BF16, a, b), results[1]])
    np.testing.assert_array_equal(results[0], results[1])


def test_a_chain_of_products_updates_one_tile():
    a_type, b_type, c_type = BF16.operand_dtypes
    a, b, out = (
        param(1, 2 * a_type.lanes, bfloat16),
        param(2, 2 * b_type.lanes, bfloat16),
        param(0, TILE, float32),
    )
    place = accumulators(BF16, 1).index(const(0))
    register = accumulators(BF16, 1).after(place.store(zero(BF16)))
    value = register.index(const(0)).load()
    for step in range(2):
        x = a.index(const(step * a_type.lanes), lanes=a_type.lanes).load()
        value = wmma(BF16, x, b.index(const(step * b_type.lanes), lanes=b_type.lanes).load(), value)
    stored = register.index(const(0)).store(value)
    result = out.index(const(0), lanes=c_type.lanes).store(
        accumulators(BF16, 1).after(stored).index(const(0)).load()
    )
    multiply(emulate_tiles(rendered(UOp.sink(result))), BF16, 1, 1, 2)


def test_an_operand_that_was_loaded_before_a_loop_stays_in_its_tile():
    """Each iteration of the outer loop zeroes, multiplies and stores; a is loaded once."""
    a_type, b_type, c_type = BF16.operand_dtypes
    x = param(1, a_type.lanes, bfloat16).index(const(0), lanes=a_type.lanes).load()
    j = loop(3, 0)
    register = accumulators(BF16, 1)
    start = register.after(j).index(const(0)).store(zero(BF16))
    place = register.after(start).index(const(0))
    y = param(2, 3 * b_type.lanes, bfloat16).index(j * b_type.lanes, lanes=b_type.lanes).load()
    end = register.after(place.store(wmma(BF16, x, y, place.load()))).index(const(0)).load()
    store = param(0, 3 * TILE, float32).index(j * TILE, lanes=c_type.lanes).store(end)
    source = rendered(UOp.sink(store.end(j)))
    assert instructions(source)[:2] == ["ldtilecfg", "tileloadd64"]
    multiply(emulate_tiles(source), BF16, 1, 3, 1)


def test_a_kernel_that_needs_nine_tiles_is_refused():
    with pytest.raises(RenderError, match="needs a tile where all 8 are taken"):
        rendered(product(BF16, 3, 2, 2))


def check_refused(sink: UOp, message: str) -> None:
    with pytest.raises(RenderError, match=message):
        rendered(sink)


def one_product(accumulator: UOp) -> UOp:
    a_type, b_type, _ = BF16.operand_dtypes
    a = param(1, a_type.lanes, bfloat16).index(const(0), lanes=a_type.lanes).load()
    return wmma(
        BF16,
        a,
        param(2, b_type.lanes, bfloat16).index(const(0), lanes=b_type.lanes).load(),
        accumulator,
    )


def test_an_accumulator_that_is_no_register_is_refused():
    out = param(0, TILE, float32).index(const(0), lanes=TILE)
    check_refused(UOp.sink(out.store(one_product(zero(BF16)))), "takes an element of a DEFINE_REG")
    check_refused(UOp.sink(out.store(one_product(out.load()))), "takes an element of a DEFINE_REG")


def test_an_uninitialized_accumulator_is_refused():
    place = accumulators(BF16, 1).index(const(0))
    check_refused(UOp.sink(place.store(one_product(place.load()))), "holds something else")


def test_an_accumulator_that_starts_at_something_else_is_refused():
    register = accumulators(BF16, 1)
    start = register.index(const(0)).store(UOp.const(BF16.operand_dtypes[2], 1.0))
    place = register.after(start).index(const(0))
    check_refused(UOp.sink(place.store(one_product(place.load()))), "neither zero nor a WMMA")


def test_an_accumulator_at_a_variable_index_is_refused():
    register, i = accumulators(BF16, 4), loop(4, 0)
    start = register.index(i).store(zero(BF16))
    place = register.after(start).index(i)
    check_refused(UOp.sink(place.store(one_product(place.load())).end(i)), "not constant")


def test_a_result_that_moves_to_another_accumulator_is_refused():
    register = accumulators(BF16, 2)
    start = register.index(const(0)).store(zero(BF16))
    value = one_product(register.after(start).index(const(0)).load())
    check_refused(UOp.sink(register.index(const(1)).store(value)), "moves an accumulator")


def test_an_old_value_of_an_accumulator_is_refused():
    register = accumulators(BF16, 1)
    place = register.after(register.index(const(0)).store(zero(BF16))).index(const(0))
    old = place.load()
    store = place.store(one_product(old))
    out = param(0, TILE, float32)
    late = out.after(store).index(const(0), lanes=TILE).store(old)
    check_refused(UOp.sink(late), "may have changed")


def test_an_operand_that_is_computed_is_refused():
    a_type, b_type, _ = BF16.operand_dtypes
    register = accumulators(BF16, 1)
    place = register.after(register.index(const(0)).store(zero(BF16))).index(const(0))
    a = UOp.const(a_type, 0)
    b = param(2, b_type.lanes, bfloat16).index(const(0), lanes=b_type.lanes).load()
    check_refused(UOp.sink(place.store(wmma(BF16, a, b, place.load()))), "not a plain load")


def test_a_unit_that_does_not_exist_is_refused():
    check_refused(product(NO_UNIT, 1, 1, 1), "no x86 processor")


_ASSEMBLE = """
import sys
from svod_codegen.llvm.compiler import compile_assembly
from svod_codegen.llvm.target import HostCpu, host_cpu
cpu = HostCpu(triple="x86_64-unknown-linux-gnu", name=sys.argv[1], features="", llvm_version=host_cpu().llvm_version)
for source in sys.stdin.read().split("\\0"):
    print(compile_assembly(source, cpu=cpu))
    print("=" * 20)
"""


def assemble(sources: list[str], cpu: str) -> list[str]:
    """In a child process: LLVM ends the process on what it cannot select."""
    child = subprocess.run(
        [sys.executable, "-c", _ASSEMBLE, cpu],
        input="\0".join(sources),
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    return child.stdout.split("=" * 20)[:-1]


def test_processors_with_amx_get_its_instructions_and_nothing_else():
    """No call of a library and no tile that goes to the stack and back."""
    kernels = [product(core, 2, 2, 4) for core in CORES]
    for core, text in zip(
        CORES, assemble([rendered(k) for k in kernels], "graniterapids"), strict=True
    ):
        found = re.findall(r"^\s(\w*tile\w*|tdp\w+)\s", text, re.MULTILINE)
        unit = next(unit for unit in UNITS if unit.core is core)
        product_name = unit.intrinsic.removeprefix("llvm.x86.")
        assert found.count(product_name) == 4
        assert (
            found.count("tileloadd") == 4
            and found.count("tilestored") == 4
            and found.count("tilezero") == 4
        )
        assert found[0] == "ldtilecfg" and found[-1] == "tilerelease"
        assert "call" not in text and "(%rsp)" not in text


def test_the_emulation_treats_denormals_as_the_manual_says():
    """Elements that are denormal bfloat16 count as zeros, denormal float16 do not; denormal sums
    are zeros.
    """
    for core in (c for c in CORES if c.dtypes[2] is float32):
        is_bfloat = core.dtypes[0] is bfloat16
        a, b = (np.zeros(shape, np.float32) for shape in ((16, 32), (32, 16)))
        a[0, 0], b[0, 0] = 2.0**-130 if is_bfloat else 2.0**-20, 2.0**10
        a[1, 1], b[1, 1] = (2.0**-70, 2.0**-70) if is_bfloat else (2.0**-14, 2.0**-14)
        out = np.full(TILE, 7, np.float32)
        given = [x.astype(core.dtypes[0].numpy) for x in (a, b)]
        call_llvm(emulate_tiles(rendered(product(core, 1, 1, 1))), [out, *pack(core, *given)])
        expected = np.zeros((16, 16), np.float32)
        if not is_bfloat:
            expected[0, 0], expected[1, 1] = 2.0**-10, 2.0**-28
        np.testing.assert_array_equal(out.reshape(16, 16), expected)


def test_the_emulation_adds_even_and_odd_elements_apart():
    """One after the other, each of the two small products would be lost beside 1."""
    a, b = np.zeros((16, 32), np.float32), np.zeros((32, 16), np.float32)
    a[0, :4] = 1, 2.0**-24, 0, 2.0**-24
    b[:4, 0] = 1
    out = np.zeros(TILE, np.float32)
    given = [x.astype(bfloat16.numpy) for x in (a, b)]
    call_llvm(emulate_tiles(rendered(product(BF16, 1, 1, 1))), [out, *pack(BF16, *given)])
    assert out[0] == 1 + 2.0**-23


@pytest.mark.parametrize(("a", "b"), [(int8, int8), (int8, uint8), (uint8, int8), (uint8, uint8)])
def test_every_combination_of_signs_has_a_unit(a: DType, b: DType):
    assert (a, b, int32) in [core.dtypes for core in CORES]
