from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from svod_codegen.errors import CompileError, RenderError
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.renderer import render
from svod_codegen.loader import load_object
from svod_dtype import (
    ALL_DTYPES,
    INTEGER_DTYPES,
    DType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    index,
    int8,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    void,
)  # fmt: skip
from svod_ir.args import ParamArg
from svod_ir.arithmetic import apply_elementwise, quiet
from svod_ir.ops import COMPARISON, AxisType, Op
from svod_ir.target import Target
from svod_ir.uop import UOp

GENERIC = Target.generic()
GATHERING = replace(GENERIC, has_gather=True, has_masked_access=True)
LANES = (1, 2, 3, 4, 8, 16)
COMPUTED = (bool_, *INTEGER_DTYPES, float16, float32, float64)
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    1e-7,
    65504.0,
    3e38,
    -1e300,
    123456.75,
    7.0,
)


def run(
    linear: Sequence[UOp],
    arrays: Sequence[np.ndarray],
    values: Sequence[int] = (),
    core_id: int = 0,
    target: Target = GENERIC,
) -> None:
    code = load_object(compile_ir(render(tuple(linear), "kernel", target)), ("kernel",))
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.addresses["kernel"])
    buffers = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
    words = (ctypes.c_int64 * max(1, len(values)))(*values)
    entry(ctypes.addressof(buffers), ctypes.addressof(words), core_id)


def param(slot: int, size: int, dtype: DType) -> UOp:
    return UOp(Op.PARAM, dtype, (), ParamArg(slot, size))


def linearize(*effects: UOp) -> tuple[UOp, ...]:
    """Operands first: enough for straight-line kernels and for one loop around everything."""
    return tuple(UOp.sink(*effects).toposort())


def const(value: int, dtype: DType = int32) -> UOp:
    return UOp.const(dtype, value)


def loop(size: int, axis: int = 0) -> UOp:
    return UOp(Op.RANGE, int32, (const(size),), (axis, AxisType.LOOP))


def map_kernel(results: Sequence[UOp], inputs: Sequence[UOp], size: int, lanes: int, i: UOp) -> tuple[UOp, ...]:
    """A loop that stores each result, made of `inputs`, at the i-th group of lanes."""
    first = i * lanes
    stores: list[UOp] = []
    for slot, result in enumerate(results):
        stores.append(param(slot, size, result.dtype.scalar).index(first, lanes=lanes).store(result))
    del inputs
    return linearize(UOp(Op.GROUP, void, tuple(stores)).end(i))


def values_of(dtype: DType, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, size).astype(bool)
    with np.errstate(all="ignore"):
        if dtype.is_float:
            spread = np.where(
                rng.random(size) < 0.5,
                rng.normal(0, 3, size),
                rng.normal(0, 1, size) * 10.0 ** rng.integers(-6, 6, size),
            )
            spread[: len(SPECIAL)] = rng.permutation(SPECIAL)
            return rng.permutation(spread).astype(dtype.numpy)
        whole = rng.integers(int(dtype.min), int(dtype.max), size, dtype=dtype.numpy, endpoint=True)
        small = rng.integers(max(int(dtype.min), -5), 6, size).astype(dtype.numpy)
        mixed = np.where(rng.random(size) < 0.5, whole, small)
        mixed[:4] = [dtype.min, dtype.max, 0, 1]
        return rng.permutation(mixed)


def ops_for(dtype: DType) -> list[Op]:
    common = [Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.LT, Op.LE, Op.EQ, Op.NE, Op.NEG, Op.WHERE, Op.MULACC]
    if dtype.is_bool:
        return [*common, Op.AND, Op.OR, Op.XOR, Op.NOT]
    if dtype.is_float:
        return [*common, Op.FDIV, Op.ABS, Op.SQRT, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND, Op.RECIPROCAL]
    return [*common, Op.AND, Op.OR, Op.XOR, Op.NOT, Op.ABS, Op.SHL, Op.SHR, Op.CDIV, Op.CMOD]


def apply(op: Op, x: UOp, y: UOp, z: UOp) -> UOp:
    """`op` on as many of the operands as it takes; divisors are made odd, so that they are safe."""
    if op in (Op.NEG, Op.NOT, Op.ABS, Op.SQRT, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND, Op.RECIPROCAL):
        return UOp(op, x.dtype, (x,))
    if op is Op.WHERE:
        return UOp(op, x.dtype, (UOp(Op.LT, bool_.vec(x.dtype.lanes), (x, y)), x, z))
    if op is Op.MULACC:
        return UOp(op, x.dtype, (x, y, z))
    if op in (Op.CDIV, Op.CMOD):
        y = UOp(Op.MAX, y.dtype, (y, UOp.const(y.dtype, 1)))
    return UOp(op, bool_.vec(x.dtype.lanes) if op in COMPARISON else x.dtype, (x, y))


def expected_of(node: UOp, known: dict[UOp, np.ndarray]) -> np.ndarray:
    """The reference meaning of an expression on whole arrays."""
    if node in known:
        return known[node]
    if node.op in (Op.CONST, Op.VCONST):
        value = node.arg[0] if node.op is Op.VCONST else node.arg
        return np.asarray(value, dtype=node.dtype.numpy)
    operands = tuple(expected_of(s, known) for s in node.src)
    source = node.src[-1].dtype
    with quiet():
        return apply_elementwise(node.op, source.scalar, node.dtype.scalar, operands)


def check_floats(found: np.ndarray, expected: np.ndarray, *, ulps: float = 0) -> None:
    assert found.dtype == expected.dtype
    if ulps:
        eps = np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=ulps * float(eps), atol=1e-40
        )
    else:
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_every_elementwise_op_on_scalars_and_vectors(dtype: DType, lanes: int) -> None:
    size = 48 * 16
    ops = ops_for(dtype)
    i = loop(size // lanes)
    first = i * lanes
    n = len(ops)
    x, y, z = (param(n + k, size, dtype).index(first, lanes=lanes).load() for k in range(3))
    results = [apply(op, x, y, z) for op in ops]
    arrays = [values_of(dtype, size, seed) for seed in range(3)]
    outputs = [np.zeros(size, r.dtype.numpy) for r in results]
    run(map_kernel(results, (x, y, z), size, lanes, i), [*outputs, *arrays])
    known = dict(zip((x, y, z), arrays, strict=True))
    for op, result, output in zip(ops, results, outputs, strict=True):
        expected = expected_of(result, known)
        if not dtype.is_float:
            np.testing.assert_array_equal(output, expected, err_msg=op.name)
        elif op is Op.MULACC and dtype is float16:
            check_floats(output, expected, ulps=1)
        else:
            check_floats(output, expected)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", COMPUTED, ids=str)
def test_casts_between_all_dtypes(source: DType, lanes: int) -> None:
    targets = [d for d in COMPUTED if d is not source and (source, d) != (float64, float16)]
    size = 48 * 16
    i = loop(size // lanes)
    x = param(len(targets), size, source).index(i * lanes, lanes=lanes).load()
    results = [UOp(Op.CAST, t.vec(lanes), (x,)) for t in targets]
    values = values_of(source, size, 11)
    outputs = [np.zeros(size, t.numpy) for t in targets]
    run(map_kernel(results, (x,), size, lanes, i), [*outputs, values])
    for target, output in zip(targets, outputs, strict=True):
        np.testing.assert_array_equal(output, expected_cast(values, source, target), err_msg=f"{source} to {target}")


def expected_cast(values: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """As the evaluator, but floats saturate to integers."""
    if source.is_float and target.is_int:
        exact = [0 if v != v else int(np.clip(np.trunc(v), -1e30, 1e30)) for v in values.astype(np.float64)]
        return np.array([min(max(v, int(target.min)), int(target.max)) for v in exact], dtype=target.numpy)
    with quiet():
        return apply_elementwise(Op.CAST, source, target, (values,))


@pytest.mark.parametrize("target", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("source", [float16, float32, float64], ids=str)
def test_floats_beyond_the_range_of_an_integer_saturate(source: DType, target: DType) -> None:
    with np.errstate(all="ignore"):
        edges = [
            float(target.min),
            float(target.max),
            float(target.max) / 2,
            3e38,
            -3e38,
            np.inf,
            -np.inf,
            np.nan,
            -0.9,
            0.9,
            -1.0,
        ]
        exact = np.array([e * f for e in edges for f in (1.0, 1.001, 0.999)], dtype=np.float64).astype(source.numpy)
        values = np.concatenate(
            [exact, np.nextafter(exact, source.numpy.type(np.inf)), np.nextafter(exact, source.numpy.type(-np.inf))]
        )
    size = len(values) // 8 * 8
    for lanes in (1, 8):
        i = loop(size // lanes)
        x = param(1, size, source).index(i * lanes, lanes=lanes).load()
        output = np.zeros(size, target.numpy)
        run(map_kernel([UOp(Op.CAST, target.vec(lanes), (x,))], (x,), size, lanes, i), [output, values[:size].copy()])
        np.testing.assert_array_equal(output, expected_cast(values[:size], source, target))


@pytest.mark.parametrize("dtype", [float16, bfloat16, float8_e4m3, float8_e5m2], ids=str)
def test_every_bit_pattern_of_a_narrow_float_is_moved_unchanged(dtype: DType) -> None:
    n = 1 << dtype.bits
    bits = uint16 if dtype.itemsize == 2 else uint8
    values = np.arange(n).astype(bits.numpy)
    for lanes in (1, 8):
        i = loop(n // lanes)
        x = param(2, n, dtype).index(i * lanes, lanes=lanes).load()
        raw = UOp(Op.BITCAST, bits.vec(lanes), (x,))
        copies = [np.zeros(n, bits.numpy), np.zeros(n, bits.numpy)]
        run(map_kernel([x, raw], (x,), n, lanes, i), [*copies, values])
        np.testing.assert_array_equal(copies[0], values)
        np.testing.assert_array_equal(copies[1], values)


def test_every_half_widens_to_its_float_and_back() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    i = loop((1 << 16) // 8)
    x = param(2, 1 << 16, float16).index(i * 8, lanes=8).load()
    wide = UOp(Op.CAST, float32.vec(8), (x,))
    outputs = [np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float16)]
    run(map_kernel([wide, UOp(Op.CAST, float16.vec(8), (wide,))], (x,), 1 << 16, 8, i), [*outputs, values])
    np.testing.assert_array_equal(outputs[0], values.astype(np.float32))
    np.testing.assert_array_equal(outputs[1], values)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_constants_are_exact(dtype: DType) -> None:
    if dtype.is_float:
        numbers = [0.0, -0.0, 1.0, 0.1, -3.75, float("inf"), float("-inf"), float("nan"), 1e-3, dtype.finfo_max, 1e-8]
    else:
        numbers = [0, 1, int(dtype.max), int(dtype.min), 5 % (int(dtype.max) + 1)]
    numbers = [UOp.const(dtype, v).arg for v in numbers]
    vector = UOp(Op.VCONST, dtype.vec(len(numbers)), (), tuple(numbers))
    size = len(numbers)
    stores = [param(0, size, dtype).index(const(k)).store(UOp.const(dtype, v)) for k, v in enumerate(numbers)]
    stores.append(param(1, size, dtype).index(const(0), lanes=size).store(vector))
    scalars, lanes = np.zeros(size, dtype.numpy), np.zeros(size, dtype.numpy)
    run(linearize(*stores), [scalars, lanes])
    expected = np.array(numbers, dtype=np.float64 if dtype.is_float else dtype.numpy).astype(dtype.numpy)
    raw = f"u{dtype.itemsize}"
    if dtype.is_float:
        number = ~np.isnan(expected.astype(np.float64))
        assert np.isnan(scalars[~number].astype(np.float64)).all()
        assert np.isnan(lanes[~number].astype(np.float64)).all()
        scalars, lanes, expected = scalars[number], lanes[number], expected[number]
    np.testing.assert_array_equal(scalars.view(raw), expected.view(raw))
    np.testing.assert_array_equal(lanes.view(raw), expected.view(raw))


def test_bitcast_reads_bits_as_another_type_and_bools_as_bytes() -> None:
    values = values_of(float32, 64, 5)
    x = param(1, 64, float32).index(const(0), lanes=8).load()
    pairs = [(uint32.vec(8), uint32), (int32.vec(8), int32), (uint8.vec(32), uint8), (float64.vec(4), float64)]
    for vector, scalar in pairs:
        out = np.zeros(64, scalar.numpy)
        run(
            linearize(param(0, 64, scalar).index(const(0), lanes=vector.lanes).store(UOp(Op.BITCAST, vector, (x,)))),
            [out, values],
        )
        np.testing.assert_array_equal(out[: vector.lanes].view(np.uint8), values[:8].view(np.uint8))
    flags = np.array([True, False, True, True])
    b = param(1, 4, bool_).index(const(0), lanes=4).load()
    out = np.full(4, 9, np.uint8)
    run(linearize(param(0, 4, uint8).index(const(0), lanes=4).store(UOp(Op.BITCAST, uint8.vec(4), (b,)))), [out, flags])
    np.testing.assert_array_equal(out, flags)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=str)
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_a_vector_is_reduced_to_a_scalar(dtype: DType, op: Op) -> None:
    for lanes in (2, 3, 4, 6, 8, 16):
        x = param(1, lanes, dtype).index(const(0), lanes=lanes).load()
        out = np.zeros(1, dtype.numpy)
        values = (
            np.random.default_rng(lanes)
            .integers(0 if dtype.is_unsigned or dtype.is_bool else -3, 4, lanes)
            .astype(dtype.numpy)
        )
        run(linearize(param(0, 1, dtype).index(const(0)).store(UOp(Op.REDUCE, dtype, (x,), op))), [out, values])
        ufunc = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum}[op]
        if dtype.is_bool:
            ufunc = np.logical_or if op in (Op.ADD, Op.MAX) else np.logical_and
        assert out[0] == ufunc.reduce(values, dtype=dtype.numpy), lanes


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN], ids=str)
@pytest.mark.parametrize("dtype", [float16, float32, float64], ids=str)
def test_a_reduction_keeps_nan(dtype: DType, op: Op) -> None:
    for lanes in (4, 6, 8):
        for position in range(lanes):
            values = np.arange(lanes).astype(dtype.numpy)
            values[position] = np.nan
            x = param(1, lanes, dtype).index(const(0), lanes=lanes).load()
            out = np.zeros(1, dtype.numpy)
            run(linearize(param(0, 1, dtype).index(const(0)).store(UOp(Op.REDUCE, dtype, (x,), op))), [out, values])
            assert np.isnan(out[0])


def test_lanes_are_picked_joined_and_repeated() -> None:
    x = param(1, 8, float32).index(const(0), lanes=8).load()
    s = param(1, 8, float32).index(const(5)).load()

    def gep(*lanes: int) -> UOp:
        return UOp(Op.GEP, float32.vec(len(lanes)), (x,), lanes)

    results = {
        gep(3): [3], gep(7, 0, 0, 2): [7, 0, 0, 2], gep(*range(8)): list(range(8)), gep(4, 5, 6, 7): [4, 5, 6, 7],
        UOp(Op.VECTORIZE, float32.vec(3), (s, gep(1), UOp.const(float32, 9.0))): [5, 1, 9],
        UOp(Op.VECTORIZE, float32.vec(2), (s, s)): [5, 5],
        UOp(Op.BROADCAST, float32.vec(4), (s,)): [5] * 4,
        UOp(Op.BROADCAST, float32.vec(4), (UOp.const(float32, 2.0),)): [2] * 4,
        UOp(Op.CAT, float32.vec(4), (gep(0, 1), gep(6, 7))): [0, 1, 6, 7],
        UOp(Op.CAT, float32.vec(7), (gep(0, 1), gep(2, 3, 4, 5), gep(7))): [0, 1, 2, 3, 4, 5, 7],
        UOp(Op.CAT, float32.vec(8), (gep(0, 1), gep(2, 3), gep(4, 5), gep(6, 7))): list(range(8)),
    }  # fmt: skip
    for node, expected in results.items():
        out = np.zeros(len(expected), np.float32)
        run(
            linearize(param(0, len(expected), float32).index(const(0), lanes=node.dtype.lanes).store(node)),
            [out, np.arange(8, dtype=np.float32)],
        )
        np.testing.assert_array_equal(out, expected)


def guarded(values: np.ndarray) -> np.ndarray:
    """A copy that ends where unreadable memory begins: reading past it ends the process."""
    import mmap

    page = mmap.PAGESIZE
    n = -(-values.nbytes // page) * page
    block = mmap.mmap(-1, n + page)
    view = np.frombuffer(block, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(view.ctypes.data + n), ctypes.c_size_t(page), 0) == 0
    result = view[n - values.nbytes : n].view(values.dtype)
    result[:] = values
    return result


@pytest.mark.parametrize("dtype", [bool_, int8, float16, float32, float64, bfloat16], ids=str)
def test_a_masked_vector_load_reads_nothing_outside(dtype: DType) -> None:
    values = guarded(np.ones(5, dtype.numpy))
    for target in (GENERIC, GATHERING):
        lanes = UOp(Op.VCONST, int32.vec(8), (), tuple(range(8)))
        mask = UOp(Op.LT, bool_.vec(8), (lanes, UOp.const(int32.vec(8), 5)))
        location = param(1, 5, dtype).index(const(0), gate=mask, lanes=8)
        x = location.load(UOp.const(dtype.vec(8), 0))
        out = np.ones(8, dtype.numpy)
        run(linearize(param(0, 8, dtype).index(const(0), lanes=8).store(x)), [out, values], target=target)
        np.testing.assert_array_equal(out.astype(np.float32), [1] * 5 + [0] * 3)


def test_a_load_whose_lanes_are_all_masked_stays_at_memory_that_is_there() -> None:
    i = loop(4)
    steps = UOp(Op.VCONST, i.dtype.vec(8), (), tuple(range(8)))
    mask = UOp(
        Op.LT, bool_.vec(8), (UOp(Op.BROADCAST, i.dtype.vec(8), (i * 8,)) + steps, UOp.const(i.dtype.vec(8), 11))
    )
    x = param(1, 11, float32).index(i * 8, gate=mask, lanes=8).load(UOp.const(float32.vec(8), 0))
    nodes = linearize(param(0, 32, float32).index(i * 8, lanes=8).store(x).end(i))
    assert re.search(r"select i1 %\w+, ptr %\w+, ptr %\w+\n.*call .*@llvm.masked.load", render(nodes, "k", GENERIC))
    out = np.ones(32, np.float32)
    run(nodes, [out, guarded(np.ones(11, np.float32))])
    np.testing.assert_array_equal(out, [1] * 11 + [0] * 21)


@pytest.mark.parametrize("dtype", [bool_, int8, float16, float32, int64], ids=str)
def test_a_masked_vector_store_writes_nothing_outside(dtype: DType) -> None:
    out = guarded(np.zeros(5, dtype.numpy))
    n = UOp(Op.DEFINE_VAR, int32, (), ("n", 0, 8))
    lanes = UOp(Op.VCONST, int32.vec(8), (), tuple(range(8)))
    mask = UOp(Op.LT, bool_.vec(8), (lanes, UOp(Op.BROADCAST, int32.vec(8), (n,))))
    location = param(0, 5, dtype).index(const(0), gate=mask, lanes=8)
    run(linearize(location.store(UOp.const(dtype.vec(8), 1))), [out], values=[4])
    np.testing.assert_array_equal(out.astype(np.float32), [1, 1, 1, 1, 0])


@pytest.mark.parametrize("dtype", [bool_, float32, float16, uint8], ids=str)
def test_a_gated_scalar_access_touches_nothing_where_the_gate_is_false(dtype: DType) -> None:
    values = guarded(np.ones(5, dtype.numpy))
    out = np.zeros(16, dtype.numpy)
    i = loop(16)
    position = i * (1 << 20)
    gate = (i < 1) | i.eq(3)
    gate = gate & (i < 2)
    x = param(1, 5, dtype).index(position, gate=gate).load(UOp.const(dtype, 0))
    store = param(0, 16, dtype).index(position + i, gate=gate).store(x)
    run(linearize(store.end(i)), [out, values])
    np.testing.assert_array_equal(out.astype(np.float32), [1] + [0] * 15)


@pytest.mark.parametrize("size", [8, 5], ids=["room for all lanes", "less than the lanes"])
@pytest.mark.parametrize("dtype", [bool_, float32, int8], ids=str)
def test_one_gate_for_a_whole_vector(dtype: DType, size: int) -> None:
    values = guarded(np.ones(size, dtype.numpy))
    n = UOp(Op.DEFINE_VAR, int32, (), ("n", 0, 1 << 20))
    gate = n < 1
    x = param(1, size, dtype).index(n, gate=gate, lanes=8).load(UOp.const(dtype.vec(8), 0))
    store = param(0, 16, dtype).index(n, gate=gate, lanes=8).store(x)
    for position in (0, 1 << 20) if size == 8 else (1 << 20,):
        out = np.zeros(16, dtype.numpy)
        run(linearize(store), [out, values], values=[position])
        np.testing.assert_array_equal(out.astype(int), [1 if position == 0 else 0] * 8 + [0] * 8)


@pytest.mark.parametrize("gated", [False, True], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("target", [GENERIC, GATHERING], ids=["scalarised", "gather"])
@pytest.mark.parametrize("dtype", [bool_, int8, float16, float32, float64, int64], ids=str)
def test_gather_and_scatter(dtype: DType, target: Target, gated: bool) -> None:
    values = guarded(values_of(dtype, 20, 3))
    for lanes in (2, 3, 8):
        positions = np.random.default_rng(1).permutation(20)[:lanes].astype(np.int32)
        keep = np.arange(lanes) % 2 == 0 if gated else np.ones(lanes, bool)
        given = np.where(keep, positions, 1 << 28).astype(np.int32)
        where = param(2, lanes, int32).index(const(0), lanes=lanes).load()
        gate = param(3, lanes, bool_).index(const(0), lanes=lanes).load() if gated else None
        source = UOp(Op.INDEX, dtype.vec(lanes), (param(1, 20, dtype), where, *([] if gate is None else [gate])))
        x = source.load(None if gate is None else UOp.const(dtype.vec(lanes), 1))
        target_location = UOp(
            Op.INDEX, dtype.vec(lanes), (param(0, 20, dtype), where, *([] if gate is None else [gate]))
        )
        out = np.zeros(20, dtype.numpy)
        effects = [target_location.store(x)]
        picked = np.zeros(lanes, dtype.numpy)
        effects.append(param(4, lanes, dtype).index(const(0), lanes=lanes).store(x))
        arrays = [out, values, given, *([keep] if gated else []), picked]
        run(linearize(*effects), arrays, target=target)
        expected = np.zeros(20, dtype.numpy)
        expected[positions[keep]] = values[positions[keep]]
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(picked, np.where(keep, values[positions], dtype.numpy.type(1)))


def test_equal_positions_of_a_scatter_keep_the_last_lane() -> None:
    where = UOp(Op.VCONST, int32.vec(4), (), (2, 2, 0, 2))
    value = UOp(Op.VCONST, float32.vec(4), (), (1.0, 2.0, 3.0, 4.0))
    for gate in ((), (UOp(Op.VCONST, bool_.vec(4), (), (True, True, True, True)),)):
        out = np.zeros(3, np.float32)
        run(linearize(UOp(Op.INDEX, float32.vec(4), (param(0, 3, float32), where, *gate)).store(value)), [out])
        np.testing.assert_array_equal(out, [3, 0, 4])


def test_views_need_only_the_alignment_of_an_element() -> None:
    values = np.arange(40, dtype=np.float32)[1:]
    out = np.zeros(41, np.float32)[3:]
    x = param(1, 16, float32).index(const(0), lanes=16).load()
    run(linearize(param(0, 16, float32).index(const(0), lanes=16).store(x)), [out, values])
    np.testing.assert_array_equal(out[:16], values[:16])


def sum_rows(rows: int, columns: int, lanes: int) -> tuple[UOp, ...]:
    """out[i] = sum of a[i, :] with a vector accumulator; columns is a multiple of lanes."""
    out, a = param(0, rows, float32), param(1, rows * columns, float32)
    register = UOp(Op.DEFINE_REG, float32.vec(lanes), (), (0, 1))
    i, k = loop(rows, 0), loop(columns // lanes, 1)
    zero = const(0)
    start = register.after(i).index(zero).store(UOp.const(float32.vec(lanes), 0.0))
    inside = register.after(start, k).index(zero)
    update = inside.store(inside.load() + a.index(i * columns + k * lanes, lanes=lanes).load())
    end = update.end(k)
    total = register.after(end).index(zero).load()
    scalar = UOp(Op.REDUCE, float32, (total,), Op.ADD) if lanes > 1 else total
    store = out.index(i).store(scalar)
    finish = store.end(i)
    head = [*{n: None for n in UOp.sink(finish).toposort() if n.op in (Op.CONST, Op.VCONST, Op.PARAM, Op.DEFINE_REG)}]
    order = [*head, i]
    for stop in (start, k, end, finish):
        order += [n for n in stop.toposort() if n not in order]
    return (*order, UOp.sink(finish))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_accumulators_live_in_registers_across_nested_loops(lanes: int) -> None:
    a = np.random.default_rng(0).normal(size=(7, 64)).astype(np.float32)
    out = np.zeros(7, np.float32)
    run(sum_rows(7, 64, lanes), [out, a])
    np.testing.assert_allclose(out, a.sum(1, dtype=np.float64), rtol=1e-5)


def test_a_symbolic_loop_may_run_zero_times() -> None:
    n = UOp(Op.DEFINE_VAR, int32, (), ("n", 0, 10))
    i = UOp(Op.RANGE, int32, (n,), (0, AxisType.LOOP))
    linear = linearize(param(0, 10, float32).index(i).store(UOp.const(float32, 1.0)).end(i))
    for count in (0, 1, 7, 10):
        out = np.zeros(10, np.float32)
        run(linear, [out], values=[count])
        np.testing.assert_array_equal(out, [1] * count + [0] * (10 - count))


def test_variables_follow_their_first_appearance_and_core_id_is_the_third_argument() -> None:
    b, a = (UOp(Op.DEFINE_VAR, dtype, (), (name, -(1 << 40), 1 << 40)) for name, dtype in (("b", int64), ("a", index)))
    small = UOp(Op.DEFINE_VAR, int32, (), ("c", -5, 5))
    core = UOp(Op.DEFINE_VAR, int32, (), ("core_id", 0, 3))
    out = param(0, 4, int64)
    stores = [
        out.index(const(0)).store(b), out.index(const(1)).store(a.cast(int64)), out.index(const(2)).store(small.cast(int64)),
        out.index(core).store(core.cast(int64)),
    ]  # fmt: skip
    found = np.zeros(4, np.int64)
    run(linearize(*stores), [found], values=[1 << 35, -7, -3], core_id=3)
    np.testing.assert_array_equal(found, [1 << 35, -7, -3, 3])


def test_buffers_are_numbered_by_ascending_slot() -> None:
    high, low = param(9, 1, int32), param(4, 1, int32)
    a, b = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(linearize(high.index(const(0)).store(const(1)), low.index(const(0)).store(const(2))), [a, b])
    assert (a[0], b[0]) == (2, 1)


def test_if_guards_its_effects() -> None:
    n = UOp(Op.DEFINE_VAR, int32, (), ("n", 0, 10))
    condition = n < 5
    start = UOp(Op.IF, void, (condition,))
    store = param(0, 1, int32).index(const(0)).store(const(1))
    end = UOp(Op.ENDIF, void, (start, store))
    order = [*condition.toposort(), *store.src[0].toposort(), store.src[1], start, store, end]
    for value in (3, 7):
        out = np.zeros(1, np.int32)
        run(order, [out], values=[value])
        assert out[0] == (value < 5)


def test_local_memory_is_private_to_one_call() -> None:
    local = UOp(Op.DEFINE_LOCAL, float32, (), (0, 100))
    i = loop(100)
    fill = local.index(i).store(i.cast(float32)).end(i)
    j = loop(100, 1)
    copy = param(0, 100, float32).index(j).store(local.after(fill).index(const(99) - j).load()).end(j)
    order = list(fill.toposort())
    order += [n for n in copy.toposort() if n not in order]
    out = np.zeros(100, np.float32)
    run(order, [out])
    np.testing.assert_array_equal(out, np.arange(100)[::-1])


def refused(*effects: UOp) -> str:
    with pytest.raises(RenderError) as caught:
        render(linearize(*effects), "k", GENERIC)
    return str(caught.value)


def test_what_lowering_must_replace_is_an_error_that_names_the_node() -> None:
    out = param(0, 8, float32).index(const(0))
    x = UOp(Op.DEFINE_VAR, int32, (), ("x", -9, 9))
    y = UOp(Op.DEFINE_VAR, int32, (), ("y", -9, 9))
    assert "IDIV" in refused(param(1, 8, int32).index(const(0)).store(UOp(Op.IDIV, int32, (x, y))))
    assert "ERF" in refused(out.store(out.load().alu(Op.ERF)))
    assert "grid index" in refused(out.store(UOp(Op.SPECIAL, int32, (const(4),), "gidx0").cast(float32)))
    narrow = param(2, 8, bfloat16).index(const(0))
    assert "only lowering" in refused(narrow.store(narrow.load() + narrow.load()))
    assert "only lowering" in refused(out.store(UOp(Op.CAST, float32, (narrow.load(),))))
    gated = param(0, 8, float32).index(const(0), gate=x < y)
    assert "alternative" in refused(out.store(gated.load()))
    assert "before it is defined" in refused_linear((out.store(x.cast(float32)),))
    with_custom = UOp(Op.CUSTOM, float32, (), "sqrtf({0})")
    assert "CUSTOM" in refused(out.store(with_custom))


def refused_linear(linear: tuple[UOp, ...]) -> str:
    with pytest.raises(RenderError) as caught:
        render(linear, "k", GENERIC)
    return str(caught.value)


def test_buffers_that_are_written_do_not_hide_loads_of_others() -> None:
    text = render(sum_rows(4, 64, 8), "k", GENERIC)
    assert "!alias.scope" in text
    assert "noalias" in text
    one = render(linearize(param(0, 4, float32).index(const(0)).store(UOp.const(float32, 1.0))), "k", GENERIC)
    assert "!alias.scope" not in one


def test_positions_that_cannot_wrap_say_so() -> None:
    i = loop(100)
    text = render(
        linearize(param(0, 1000, float32).index(i * 10 + 3).store(UOp.const(float32, 1.0)).end(i)), "k", GENERIC
    )
    assert "mul nsw i32" in text
    assert "add nsw i32" in text
    x = param(1, 1, int32).index(const(0)).load()
    assert "nsw" not in render(linearize(param(0, 1, int32).index(const(0)).store(x + x)), "k", GENERIC)


def test_the_same_linear_list_gives_the_same_text() -> None:
    assert render(sum_rows(4, 64, 8), "k", GENERIC) == render(sum_rows(4, 64, 8), "k", GENERIC)


_COMPILE_FOR_OTHERS = """
import sys
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.target import HostCpu, host_cpu
host = host_cpu()
sources = sys.stdin.read().split("\\0")
for name in ("x86-64", "x86-64-v3", "sapphirerapids"):
    cpu = HostCpu(triple="x86_64-unknown-linux-gnu", name=name, features="", llvm_version=host.llvm_version)
    for source in sources:
        compile_ir(source, cpu=cpu)
print("compiled", len(sources))
"""


def test_everything_compiles_for_other_processors() -> None:
    """LLVM ends the process on what it cannot select, so a child process tries."""
    sources: list[str] = []
    for dtype in COMPUTED:
        for lanes in (1, 3, 16):
            i = loop(4)
            x, y, z = (param(90 + k, 64, dtype).index(i * lanes, lanes=lanes).load() for k in range(3))
            results = [apply(op, x, y, z) for op in ops_for(dtype)]
            results += [
                UOp(Op.CAST, t.vec(lanes), (x,))
                for t in COMPUTED
                if t is not dtype and (dtype, t) != (float64, float16)
            ]
            if lanes > 1:
                results += [UOp(Op.REDUCE, dtype, (x,), op) for op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN)]
            stores = [
                param(slot, 64, r.dtype.scalar).index(i * r.dtype.lanes, lanes=r.dtype.lanes).store(r)
                for slot, r in enumerate(results)
            ]
            for target in (GENERIC, GATHERING):
                sources.append(render(linearize(UOp(Op.GROUP, void, tuple(stores)).end(i)), "k", target))
            if lanes > 1:
                where = param(1, 64, int32).index(const(0), lanes=lanes).load()
                gate = param(2, 64, bool_).index(const(0), lanes=lanes).load()
                source = UOp(Op.INDEX, dtype.vec(lanes), (param(3, 64, dtype), where, gate)).load(
                    UOp.const(dtype.vec(lanes), 0)
                )
                masked = (
                    param(4, 64, dtype).index(const(0), gate=gate, lanes=lanes).load(UOp.const(dtype.vec(lanes), 0))
                )
                target_location = UOp(Op.INDEX, dtype.vec(lanes), (param(0, 64, dtype), where, gate))
                target_mask = param(5, 64, dtype).index(const(0), gate=gate, lanes=lanes)
                sources.append(
                    render(linearize(target_location.store(source), target_mask.store(masked)), "k", GATHERING)
                )
    child = subprocess.run(
        [sys.executable, "-c", _COMPILE_FOR_OTHERS],
        input="\0".join(sources),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert child.stdout.startswith("compiled")


def test_malformed_text_is_a_compile_error_and_not_a_crash() -> None:
    with pytest.raises(CompileError):
        compile_ir(
            render(linearize(param(0, 1, float32).index(const(0)).store(UOp.const(float32, 1.0))), "a b", GENERIC)
        )
