"""What LLVM IR promises beyond the text and the values of `test_renderers.py`: memory that is not
touched, bits, and errors.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from svod_codegen.errors import CompileError, RenderError
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.renderer import render
from svod_codegen.testing.calls import call_llvm
from svod_dtype import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
)
from svod_ir import Op, Target
from svod_ir.testing import parse_linear

GENERIC = Target.generic()
GATHERING = replace(GENERIC, has_gather=True, has_masked_access=True)


def run(
    text: str,
    arrays: Sequence[np.ndarray],
    values: Sequence[int] = (),
    core_id: int = 0,
    target: Target = GENERIC,
) -> None:
    call_llvm(render(parse_linear(text), "kernel", target), arrays, values, core_id)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float8_e4m3, float8_e5m2], ids=str)
def test_every_bit_pattern_of_a_narrow_float_is_moved_unchanged(dtype: DType) -> None:
    n, short = 1 << dtype.bits, dtype.short
    bits = uint16 if dtype.itemsize == 2 else uint8
    values = np.arange(n).astype(bits.numpy)
    for lanes in (1, 8):
        copies = [np.zeros(n, bits.numpy), np.zeros(n, bits.numpy)]
        text = f"""
            %moved = PARAM {short} [0, {n}]
            %read = PARAM {bits.short} [1, {n}]
            %in = PARAM {short} [2, {n}]
            %i = RANGE i32 {n // lanes} [0, LOOP]
            %x = load(%in[%i * {lanes} : {lanes}])
            %raw = BITCAST {bits.vec(lanes).short if lanes > 1 else bits.short} %x
            %store1 = STORE %moved[%i * {lanes} : {lanes}], %x
            %store2 = STORE %read[%i * {lanes} : {lanes}], %raw
            %both = GROUP %store1, %store2
            END %both, %i
        """
        run(text, [*copies, values])
        np.testing.assert_array_equal(copies[0], values)
        np.testing.assert_array_equal(copies[1], values)


def test_every_half_widens_to_its_float_and_back() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    outputs = [np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float16)]
    text = """
        %wide = PARAM f32 [0, 65536]
        %back = PARAM f16 [1, 65536]
        %in = PARAM f16 [2, 65536]
        %i = RANGE i32 8192 [0, LOOP]
        %x = f32x8(load(%in[%i * 8 : 8]))
        %store1 = STORE %wide[%i * 8 : 8], %x
        %store2 = STORE %back[%i * 8 : 8], f16x8(%x)
        %both = GROUP %store1, %store2
        END %both, %i
    """
    run(text, [*outputs, values])
    np.testing.assert_array_equal(outputs[0], values.astype(np.float32))
    np.testing.assert_array_equal(outputs[1], values)


@pytest.mark.parametrize(
    ("source", "vector"),
    [
        (float32, uint32.vec(8)),
        (float32, int32.vec(8)),
        (float32, uint8.vec(32)),
        (float32, float64.vec(4)),
        (bool_, uint8.vec(8)),
    ],
    ids=str,
)
def test_bitcast_reads_bits_as_another_type_and_bools_as_bytes(
    source: DType, vector: DType
) -> None:
    values = np.random.default_rng(0).integers(
        0, 2 if source.is_bool else 256, 8 * source.itemsize, np.uint8
    )
    out = np.zeros(vector.lanes, vector.scalar.numpy)
    text = f"""
        %out = PARAM {vector.scalar.short} [0, {vector.lanes}]
        %in = PARAM {source.short} [1, 8]
        %bits = BITCAST {vector.short} load(%in[i32(0) : 8])
        STORE %out[i32(0) : {vector.lanes}], %bits
    """
    run(text, [out, values])
    np.testing.assert_array_equal(out.view(np.uint8), values)


def guarded(values: np.ndarray) -> np.ndarray:
    """A copy that ends where unreadable memory begins: reading past it ends the process."""
    page = mmap.PAGESIZE
    n = -(-values.nbytes // page) * page
    block = mmap.mmap(-1, n + page)
    view = np.frombuffer(block, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(view.ctypes.data + n), ctypes.c_size_t(page), 0) == 0
    result = view[n - values.nbytes : n].view(values.dtype)
    result[:] = values
    return result


def zero(dtype: DType) -> str:
    return "false" if dtype.is_bool else "0"


def one(dtype: DType) -> str:
    return "true" if dtype.is_bool else "1"


@pytest.mark.parametrize("target", [GENERIC, GATHERING], ids=["scalarised", "gather"])
@pytest.mark.parametrize("dtype", [bool_, int8, float16, float32, float64, bfloat16], ids=str)
def test_a_masked_vector_load_reads_nothing_outside(dtype: DType, target: Target) -> None:
    out = np.ones(8, dtype.numpy)
    text = f"""
        %out = PARAM {dtype.short} [0, 8]
        %in = PARAM {dtype.short} [1, 5]
        %steps = VCONST i32x8 [0, 1, 2, 3, 4, 5, 6, 7]
        STORE %out[i32(0) : 8], load(%in[i32(0) if %steps < 5 : 8], {zero(dtype)})
    """
    run(text, [out, guarded(np.ones(5, dtype.numpy))], target=target)
    np.testing.assert_array_equal(out.astype(np.float32), [1] * 5 + [0] * 3)


def test_a_load_whose_lanes_are_all_masked_stays_at_memory_that_is_there() -> None:
    text = """
        %out = PARAM f32 [0, 32]
        %in = PARAM f32 [1, 11]
        %i = RANGE i32 4 [0, LOOP]
        %steps = VCONST i32x8 [0, 1, 2, 3, 4, 5, 6, 7]
        %first = BROADCAST i32x8 %i * 8
        %store = STORE %out[%i * 8 : 8], load(%in[%i * 8 if %first + %steps < 11 : 8], 0)
        END %store, %i
    """
    rendered = render(parse_linear(text), "k", GENERIC)
    assert re.search(r"select i1 %\w+, ptr %\w+, ptr %\w+\n.*call .*@llvm.masked.load", rendered)
    out = np.ones(32, np.float32)
    run(text, [out, guarded(np.ones(11, np.float32))])
    np.testing.assert_array_equal(out, [1] * 11 + [0] * 21)


@pytest.mark.parametrize("dtype", [bool_, int8, float16, float32, int64], ids=str)
def test_a_masked_vector_store_writes_nothing_outside(dtype: DType) -> None:
    out = guarded(np.zeros(5, dtype.numpy))
    text = f"""
        %out = PARAM {dtype.short} [0, 5]
        %n = DEFINE_VAR i32 ["n", 0, 8]
        %steps = VCONST i32x8 [0, 1, 2, 3, 4, 5, 6, 7]
        %end = BROADCAST i32x8 %n
        STORE %out[i32(0) if %steps < %end : 8], {one(dtype)}
    """
    run(text, [out], values=[4])
    np.testing.assert_array_equal(out.astype(np.float32), [1, 1, 1, 1, 0])


@pytest.mark.parametrize("dtype", [bool_, float32, float16, uint8], ids=str)
def test_a_gated_scalar_access_reads_no_memory_where_the_gate_is_false(dtype: DType) -> None:
    out = np.zeros(16, dtype.numpy)
    text = f"""
        %out = PARAM {dtype.short} [0, 16]
        %in = PARAM {dtype.short} [1, 5]
        %i = RANGE i32 16 [0, LOOP]
        %far = %i * 1048576
        %gate = ((%i < 1) | (%i == 3)) & (%i < 2)
        %store = STORE %out[%far + %i if %gate], load(%in[%far if %gate], {zero(dtype)})
        END %store, %i
    """
    run(text, [out, guarded(np.ones(5, dtype.numpy))])
    np.testing.assert_array_equal(out.astype(np.float32), [1] + [0] * 15)


@pytest.mark.parametrize("size", [8, 5], ids=["room for all lanes", "less than the lanes"])
@pytest.mark.parametrize("dtype", [bool_, float32, int8], ids=str)
def test_one_gate_for_a_whole_vector(dtype: DType, size: int) -> None:
    values = guarded(np.ones(size, dtype.numpy))
    for position in (0, 1 << 20) if size == 8 else (1 << 20,):
        out = np.zeros(16, dtype.numpy)
        text = f"""
            %out = PARAM {dtype.short} [0, 16]
            %in = PARAM {dtype.short} [1, {size}]
            %n = DEFINE_VAR i32 ["n", 0, 1048576]
            STORE %out[%n if %n < 1 : 8], load(%in[%n if %n < 1 : 8], {zero(dtype)})
        """
        run(text, [out, values], values=[position])
        np.testing.assert_array_equal(out.astype(int), [1 if position == 0 else 0] * 8 + [0] * 8)


@pytest.mark.parametrize("is_gated", [False, True], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("target", [GENERIC, GATHERING], ids=["scalarised", "gather"])
@pytest.mark.parametrize("dtype", [bool_, int8, float16, float32, float64, int64], ids=str)
def test_gather_and_scatter(dtype: DType, target: Target, is_gated: bool) -> None:
    values = guarded(
        np.random.default_rng(3).integers(0, 2 if dtype.is_bool else 99, 20).astype(dtype.numpy)
    )
    gate, alternative = (" if %mask", f", {one(dtype)}") if is_gated else ("", "")
    for lanes in (2, 3, 8):
        positions = np.random.default_rng(1).permutation(20)[:lanes].astype(np.int32)
        keep = np.arange(lanes) % 2 == 0 if is_gated else np.ones(lanes, bool)
        given = np.where(keep, positions, 1 << 28).astype(np.int32)
        out, picked = np.zeros(20, dtype.numpy), np.zeros(lanes, dtype.numpy)
        text = f"""
            %out = PARAM {dtype.short} [0, 20]
            %in = PARAM {dtype.short} [1, 20]
            %places = PARAM i32 [2, {lanes}]
            %keep = PARAM bool [3, {lanes}]
            %picked = PARAM {dtype.short} [4, {lanes}]
            %where = load(%places[i32(0) : {lanes}])
            %mask = load(%keep[i32(0) : {lanes}])
            %x = load(%in[%where{gate} : {lanes}]{alternative})
            STORE %out[%where{gate} : {lanes}], %x
            STORE %picked[i32(0) : {lanes}], %x
        """
        run(text, [out, values, given, keep, picked], target=target)
        expected = np.zeros(20, dtype.numpy)
        expected[positions[keep]] = values[positions[keep]]
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(
            picked, np.where(keep, values[positions], dtype.numpy.type(1))
        )


@pytest.mark.parametrize("gate", ["", " if %all"], ids=["no gate", "a gate"])
def test_equal_positions_of_a_scatter_keep_the_last_lane(gate: str) -> None:
    out = np.zeros(3, np.float32)
    text = f"""
        %out = PARAM f32 [0, 3]
        %where = VCONST i32x4 [2, 2, 0, 2]
        %all = VCONST boolx4 [true, true, true, true]
        %value = VCONST f32x4 [1.0, 2.0, 3.0, 4.0]
        STORE %out[%where{gate} : 4], %value
    """
    run(text, [out])
    np.testing.assert_array_equal(out, [3, 0, 4])


def test_views_need_only_the_alignment_of_an_element() -> None:
    values = np.arange(40, dtype=np.float32)[1:]
    out = np.zeros(41, np.float32)[3:]
    text = """
        %out = PARAM f32 [0, 16]
        %in = PARAM f32 [1, 16]
        STORE %out[i32(0) : 16], load(%in[i32(0) : 16])
    """
    run(text, [out, values])
    np.testing.assert_array_equal(out[:16], values[:16])


def test_variables_follow_their_first_appearance_and_core_id_is_the_third_argument() -> None:
    found = np.zeros(4, np.int64)
    text = """
        %out = PARAM i64 [0, 4]
        %b = DEFINE_VAR i64 ["b", -1099511627776, 1099511627776]
        %a = DEFINE_VAR index ["a", -1099511627776, 1099511627776]
        %c = DEFINE_VAR i32 ["c", -5, 5]
        %core = DEFINE_VAR i32 ["core_id", 0, 3]
        STORE %out[i32(0)], %b
        STORE %out[i32(1)], i64(%a)
        STORE %out[i32(2)], i64(%c)
        STORE %out[%core], i64(%core)
    """
    run(text, [found], values=[1 << 35, -7, -3], core_id=3)
    np.testing.assert_array_equal(found, [1 << 35, -7, -3, 3])


def test_llvm_knows_how_many_parts_a_kernel_has() -> None:
    text = """
        %out = PARAM i32 [0, 4]
        %core = DEFINE_VAR i32 ["core_id", 0, 3]
        STORE %out[%core], %core
    """
    assert "i64 range(i64 0, 4) %core_id" in render(parse_linear(text), "kernel", GENERIC)
    found = np.full(4, -1, np.int32)
    for part in range(4):
        run(text, [found], core_id=part)
    np.testing.assert_array_equal(found, range(4))


def test_buffers_are_numbered_by_ascending_slot() -> None:
    a, b = np.zeros(1, np.int32), np.zeros(1, np.int32)
    text = """
        %high = PARAM i32 [9, 1]
        %low = PARAM i32 [4, 1]
        STORE %high[i32(0)], 1
        STORE %low[i32(0)], 2
    """
    run(text, [a, b])
    assert (a[0], b[0]) == (2, 1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("%bad = STORE %bytes[i32(0)], i8(%x // %x)", "IDIV"),
        ("%bad = STORE %out[i32(0)], erf(load(%out[i32(0)]))", "ERF"),
        ('%group = SPECIAL i32 4 ["gidx0"]\n%bad = STORE %out[i32(0)], f32(%group)', "grid index"),
        (
            "%bad = STORE %narrow[i32(0)], load(%narrow[i32(0)]) + load(%narrow[i32(0)])",
            "only lowering",
        ),
        ("%bad = STORE %out[i32(0)], f32(load(%narrow[i32(0)]))", "only lowering"),
        ("%bad = STORE %out[i32(0)], load(%out[i32(0) if %x < 3])", "alternative"),
        ('%custom = CUSTOM f32 ["sqrtf({0})"]\n%bad = STORE %out[i32(0)], %custom', "CUSTOM"),
    ],
)
def test_a_node_that_lowering_must_replace_is_an_error_with_its_name(
    line: str, problem: str
) -> None:
    text = f"""
        %out = PARAM f32 [0, 8]
        %bytes = PARAM i8 [1, 8]
        %narrow = PARAM bf16 [2, 8]
        %x = DEFINE_VAR i32 ["x", -9, 9]
        {line}
    """
    with pytest.raises(RenderError, match=problem):
        render(parse_linear(text), "k", GENERIC)


def test_a_node_before_its_operands_is_an_error() -> None:
    linear = parse_linear(
        '%out = PARAM f32 [0, 8]\n%x = DEFINE_VAR f32 ["x", -9, 9]\n%store = STORE %out[i32(0)], %x'
    )
    with pytest.raises(RenderError, match="before it is defined"):
        render(linear[-1:], "k", GENERIC)


def test_positions_that_cannot_wrap_say_so() -> None:
    text = """
        %out = PARAM f32 [0, 1000]
        %i = RANGE i32 100 [0, LOOP]
        %store = STORE %out[%i * 10 + 3], 1.0
        END %store, %i
    """
    text = render(parse_linear(text), "k", GENERIC)
    assert "mul nsw i32" in text
    assert "add nsw i32" in text
    assert "nsw" not in render(
        parse_linear("""
        %out = PARAM i32 [0, 1]
        %in = PARAM i32 [1, 1]
        %x = load(%in[i32(0)])
        STORE %out[i32(0)], %x + %x
    """),
        "k",
        GENERIC,
    )


def test_malformed_text_is_a_compile_error_and_not_a_crash() -> None:
    linear = parse_linear("%out = PARAM f32 [0, 1]\nSTORE %out[i32(0)], 1.0")
    with pytest.raises(CompileError):
        compile_ir(render(linear, "a b", GENERIC))


def test_a_function_of_rare_arguments_is_defined_once_and_seldom_called() -> None:
    text = """
        %out = PARAM f32 [0, 4]
        %first = RANGE i32 i32(load(%out[i32(0)]) < load(%out[i32(1)])) [0, LOOP]
        %s1 = STORE %out[i32(2)], sin(load(%out[i32(0)]))
        END %s1, %first
        %second = RANGE i32 i32(load(%out[i32(0)]) < load(%out[i32(1)])) [1, LOOP]
        %s2 = STORE %out[i32(3)], sin(load(%out[i32(1)]))
        END %s2, %second
    """
    target = replace(GENERIC, shared_ops=frozenset({Op.SIN}))
    ir = render(parse_linear(text), "kernel", target)
    assert ir.count("define internal { float, float } @rare_sin_cos_f32(float %x) noinline") == 1
    assert ir.count("call { float, float } @rare_sin_cos_f32") == 2
    assert ir.count("define internal") == 1
    assert ir.count("!prof !1\n") == 2
    found = np.array([1e6, 1e30, 7, 7], "f4")
    run(text, [found], target=target)
    np.testing.assert_allclose(found[2:], np.sin(found[:2].astype("f8")), rtol=2e-7)


@pytest.mark.parametrize("has_fma", [False, True])
@pytest.mark.parametrize("lanes", [1, 4, 32])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_function_outside_of_a_branch_has_all_arguments(
    kind: str, lanes: int, has_fma: bool
) -> None:
    x = np.resize(np.array([0.0, -0.5, 1e6, 3.0, -1e30, 99.0]), 64)
    wide = f" : {lanes}" if lanes > 1 else ""
    text = f"""
        %out = PARAM {kind} [0, 192]
        %x = PARAM {kind} [1, 64]
        %i = RANGE i32 i32({64 // lanes}) [0, LOOP]
        %v = load(%x[%i * {lanes}{wide}])
        %s1 = STORE %out[%i * {lanes}{wide}], sin(%v)
        %s2 = STORE %out[%i * {lanes} + 64{wide}], cos(%v)
        %s3 = STORE %out[%i * {lanes} + 128{wide}], tan(%v)
        %s = GROUP %s1, %s2, %s3
        END %s, %i
    """
    shared_ops = frozenset({Op.SIN, Op.COS, Op.TAN})
    shared = replace(GENERIC, shared_ops=shared_ops, has_fma=has_fma)
    dtype = {"f32": "f4", "f64": "f8"}[kind]
    found = np.zeros(192, dtype)
    run(text, [found, x.astype(dtype)], target=shared)
    exact = x.astype(dtype).astype("f8")
    expected = np.concatenate([np.sin(exact), np.cos(exact), np.tan(exact)])
    np.testing.assert_allclose(found, expected, rtol=2 * float(np.finfo(dtype).eps))


def test_sine_and_cosine_are_one_call_in_the_same_loop_only() -> None:
    text = """
        %out = PARAM f32 [0, 4]
        %v = load(%out[i32(0)])
        %s1 = STORE %out[i32(1)], sin(%v)
        %s2 = STORE %out[i32(2)], cos(%v)
        %i = RANGE i32 i32(3) [0, LOOP]
        %s3 = STORE %out[i32(3)], cos(%v + load(%out[i32(3)]))
        END %s3, %i
    """
    target = replace(GENERIC, shared_ops=frozenset({Op.SIN, Op.COS}))
    ir = render(parse_linear(text), "kernel", target)
    body, *definitions = ir.split("define internal ")
    assert body.count("call { float, float } @sin_cos_f32") == 1
    assert body.count("call float @cos_f32") == 1
    names = [d[d.index("@") : d.index("(")] for d in definitions]
    assert names == ["@sin_cos_f32", "@cos_f32", "@rare_sin_cos_f32"]


def test_products_are_rounded_where_the_target_does_not_contract() -> None:
    text = """
        %out = PARAM f32 [0, 3]
        %a = load(%out[i32(0)])
        %b = load(%out[i32(1)])
        STORE %out[i32(2)], %a * %a - %b
    """
    exact = replace(GENERIC, contracts=False)
    assert "contract" in render(parse_linear(text), "kernel", GENERIC)
    assert "contract" not in render(parse_linear(text), "kernel", exact)
    a = np.float32(1.1)
    found = np.array([a, a * a, 7], "f4")
    run(text, [found], target=exact)
    assert found[2] == 0
