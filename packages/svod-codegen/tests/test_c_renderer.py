from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from svod_codegen.c import Buffer, CRenderer, GnuCRenderer, Variable
from svod_codegen.errors import RenderError
from svod_dtype import (
    ALL_DTYPES,
    INTEGER_DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    void,
)  # fmt: skip
from svod_ir.args import ParamArg
from svod_ir.arithmetic import apply_elementwise, quiet
from svod_ir.ops import COMPARISON, AxisType, Op
from svod_ir.target import COMMON_DTYPES, Target
from svod_ir.uop import UOp

COMPILER = shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
TARGET = replace(Target.generic(), native_dtypes=COMMON_DTYPES | {float16})
RENDERERS = (CRenderer(TARGET), GnuCRenderer(TARGET))
COMPUTED = (bool_, *INTEGER_DTYPES, float16, float32, float64)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-7, 65504.0, 3e38, 123456.75)

Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def compile_and_call(
        renderer: CRenderer,
        linear: Sequence[UOp],
        arrays: Sequence[np.ndarray],
        values: Sequence[int] = (),
        core_id: int = 0,
    ) -> None:
        number = len(list(tmp_path.iterdir()))
        source, library = tmp_path / f"k{number}.c", tmp_path / f"k{number}.so"
        source.write_text(renderer.render(linear, "kernel"))
        assert COMPILER is not None
        flags = ["-std=gnu99", "-O1", "-shared", "-fPIC", "-march=native", "-ffp-contract=off", "-Wno-psabi", "-w"]
        subprocess.run([COMPILER, *flags, str(source), "-o", str(library), "-lm"], check=True, capture_output=True)
        buffers = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
        words = (ctypes.c_int64 * max(1, len(values)))(*values)
        ctypes.CDLL(str(library)).kernel(buffers, words, ctypes.c_int64(core_id))

    return compile_and_call


def param(slot: int, size: int, dtype: DType) -> UOp:
    return UOp(Op.PARAM, dtype, (), ParamArg(slot, size))


def linearize(*effects: UOp) -> tuple[UOp, ...]:
    return tuple(UOp.sink(*effects).toposort())


def const(value: int, dtype: DType = int32) -> UOp:
    return UOp.const(dtype, value)


def loop(size: int, axis: int = 0) -> UOp:
    return UOp(Op.RANGE, int32, (const(size),), (axis, AxisType.LOOP))


def store_all(results: Sequence[UOp], size: int, i: UOp) -> tuple[UOp, ...]:
    stores = [
        param(k, size, r.dtype.scalar).index(i * r.dtype.lanes, lanes=r.dtype.lanes).store(r)
        for k, r in enumerate(results)
    ]
    return linearize(UOp(Op.GROUP, void, tuple(stores)).end(i))


def values_of(dtype: DType, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, size).astype(bool)
    with np.errstate(all="ignore"):
        if dtype.is_float:
            spread = rng.normal(0, 3, size)
            spread[: len(SPECIAL)] = SPECIAL
            return rng.permutation(spread).astype(dtype.numpy)
        mixed = rng.integers(int(dtype.min), int(dtype.max), size, dtype=dtype.numpy, endpoint=True)
        mixed[: size // 2] = rng.integers(max(int(dtype.min), -5), 6, size // 2)
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
    if node in known:
        return known[node]
    if node.op in (Op.CONST, Op.VCONST):
        return np.asarray(node.arg[0] if node.op is Op.VCONST else node.arg, dtype=node.dtype.numpy)
    operands = tuple(expected_of(s, known) for s in node.src)
    with quiet():
        return apply_elementwise(node.op, node.src[-1].dtype.scalar, node.dtype.scalar, operands)


def expected_cast(values: np.ndarray, source: DType, target: DType) -> np.ndarray:
    if source.is_float and target.is_int:
        exact = [0 if v != v else int(np.clip(np.trunc(v), -1e30, 1e30)) for v in values.astype(np.float64)]
        return np.array([min(max(v, int(target.min)), int(target.max)) for v in exact], dtype=target.numpy)
    with quiet():
        return apply_elementwise(Op.CAST, source, target, (values,))


@needs_compiler
@pytest.mark.parametrize("lanes", [1, 3, 4, 16])
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_every_elementwise_op_and_cast(run: Run, dtype: DType, lanes: int) -> None:
    size = 24 * 8
    ops = ops_for(dtype)
    targets = [t for t in COMPUTED if t is not dtype]
    n = len(ops) + len(targets)
    i = loop(size // lanes)
    x, y, z = (param(n + k, size, dtype).index(i * lanes, lanes=lanes).load() for k in range(3))
    results = [apply(op, x, y, z) for op in ops] + [UOp(Op.CAST, t.vec(lanes), (x,)) for t in targets]
    arrays = [values_of(dtype, size, seed) for seed in range(3)]
    linear = store_all(results, size, i)
    for renderer in RENDERERS:
        outputs = [np.zeros(size, r.dtype.numpy) for r in results]
        run(renderer, linear, [*outputs, *arrays])
        known = dict(zip((x, y, z), arrays, strict=True))
        for op, result, output in zip(ops, results, outputs, strict=False):
            expected = expected_of(result, known)
            assert output.dtype == expected.dtype
            rtol = 2e-3 if op is Op.MULACC and dtype is float16 else 0
            np.testing.assert_allclose(
                output.astype(np.float64), expected.astype(np.float64), rtol=rtol, err_msg=op.name
            )
        for target, output in zip(targets, outputs[len(ops) :], strict=True):
            np.testing.assert_array_equal(output, expected_cast(arrays[0], dtype, target), err_msg=str(target))


@needs_compiler
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("dtype", [float16, float32, float64], ids=str)
def test_of_two_zeros_the_sign_decides_which_is_larger(run: Run, dtype: DType, lanes: int) -> None:
    i = loop(1)
    x, y = (param(2 + k, lanes, dtype).index(i * lanes, lanes=lanes).load() for k in range(2))
    linear = store_all([UOp(op, x.dtype, (x, y)) for op in (Op.MAX, Op.MIN)], lanes, i)
    for renderer in RENDERERS:
        for signs in ((1, -1), (-1, 1), (-1, -1), (1, 1)):
            outputs = [np.ones(lanes, dtype.numpy) for _ in range(2)]
            run(renderer, linear, [*outputs, *(np.full(lanes, sign * 0.0, dtype.numpy) for sign in signs)])
            assert [bool(np.signbit(o).all()) for o in outputs] == [max(signs) < 0, min(signs) < 0]


@needs_compiler
def test_every_dtype_has_exact_constants_and_moves_unchanged(run: Run) -> None:
    bare = replace(Target.generic(), native_dtypes=Target.generic().native_dtypes - {float64})
    for renderer in (*RENDERERS, CRenderer(bare), GnuCRenderer(bare)):
        for dtype in ALL_DTYPES:
            numbers = (
                [0.0, -0.0, 1.0, 0.1, -3.75, float("inf"), float("-inf"), dtype.finfo_max]
                if dtype.is_float
                else [0, 1, dtype.max, dtype.min]
            )
            rounded = [UOp.const(dtype, v).arg for v in numbers]
            size = len(rounded)
            stores = [param(0, size, dtype).index(const(k)).store(UOp.const(dtype, v)) for k, v in enumerate(rounded)]
            stores.append(
                param(1, size, dtype)
                .index(const(0), lanes=size)
                .store(UOp(Op.VCONST, dtype.vec(size), (), tuple(rounded)))
            )
            stores.append(
                param(2, size, dtype)
                .index(const(0), lanes=size)
                .store(param(3, size, dtype).index(const(0), lanes=size).load())
            )
            with np.errstate(all="ignore"):
                expected = np.array(rounded, dtype=np.float64 if dtype.is_float else dtype.numpy).astype(dtype.numpy)
            outputs = [np.zeros(size, dtype.numpy) for _ in range(3)]
            run(renderer, linearize(*stores), [*outputs, expected])
            number = ~np.isnan(expected.astype(np.float64))
            for output in outputs:
                np.testing.assert_array_equal(
                    output[number].view(f"u{dtype.itemsize}"), expected[number].view(f"u{dtype.itemsize}")
                )


@needs_compiler
@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda r: type(r).__name__)
def test_lanes_reductions_and_bits(run: Run, renderer: CRenderer) -> None:
    x = param(1, 8, float32).index(const(0), lanes=8).load()

    def gep(*lanes: int) -> UOp:
        return UOp(Op.GEP, float32.vec(len(lanes)), (x,), lanes)

    results = {
        gep(3): [3], gep(7, 0, 0, 2): [7, 0, 0, 2], UOp(Op.VECTORIZE, float32.vec(2), (gep(1), gep(5))): [1, 5],
        UOp(Op.BROADCAST, float32.vec(4), (gep(6),)): [6] * 4, UOp(Op.CAT, float32.vec(3), (gep(4, 5), gep(0))): [4, 5, 0],
        UOp(Op.REDUCE, float32, (x,), Op.ADD): [28], UOp(Op.REDUCE, float32, (gep(0, 5, 2),), Op.MAX): [5],
        UOp(Op.REDUCE, float32, (gep(1, 2, 3, 4, 5),), Op.MUL): [120],
        UOp(Op.BITCAST, float32.vec(8), (UOp(Op.BITCAST, uint32.vec(8), (x,)),)): list(range(8)),
    }  # fmt: skip
    for node, expected in results.items():
        out = np.zeros(len(expected), np.float32)
        run(
            renderer,
            linearize(param(0, len(expected), float32).index(const(0), lanes=node.dtype.lanes).store(node)),
            [out, np.arange(8, dtype=np.float32)],
        )
        np.testing.assert_array_equal(out, expected)


@needs_compiler
@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda r: type(r).__name__)
def test_masks_gather_scatter_and_gates(run: Run, renderer: CRenderer) -> None:
    values = np.arange(1, 6, dtype=np.float32)
    lanes = UOp(Op.VCONST, int32.vec(8), (), tuple(range(8)))
    mask = UOp(Op.LT, bool_.vec(8), (lanes, UOp.const(int32.vec(8), 5)))
    x = param(1, 5, float32).index(const(0), gate=mask, lanes=8).load(UOp.const(float32.vec(8), -1.0))
    where = UOp(Op.VCONST, int32.vec(4), (), (3, 0, 4, 1))
    gathered = UOp(Op.INDEX, float32.vec(4), (param(1, 5, float32), where)).load()
    n = UOp(Op.DEFINE_VAR, int32, (), ("n", 0, 10))
    gate = n < 5
    scalar = param(1, 5, float32).index(n, gate=gate).load(UOp.const(float32, 9.0))
    stores = [
        param(0, 8, float32).index(const(0), lanes=8).store(x),
        UOp(Op.INDEX, float32.vec(4), (param(2, 5, float32), where)).store(gathered),
        param(3, 8, float32).index(const(0), gate=mask, lanes=8).store(x),
        param(4, 5, float32).index(n, gate=gate).store(scalar),
        param(5, 1, float32).index(const(0)).store(scalar),
    ]
    for count in (2, 7):
        outputs = [
            np.zeros(8, np.float32),
            np.zeros(5, np.float32),
            np.zeros(8, np.float32),
            np.zeros(5, np.float32),
            np.zeros(1, np.float32),
        ]
        run(renderer, linearize(*stores), [outputs[0], values, *outputs[1:]], values=[count])
        np.testing.assert_array_equal(outputs[0], [1, 2, 3, 4, 5, -1, -1, -1])
        np.testing.assert_array_equal(outputs[1], [1, 2, 0, 4, 5])
        np.testing.assert_array_equal(outputs[2], [1, 2, 3, 4, 5, 0, 0, 0])
        np.testing.assert_array_equal(outputs[3], [0, 0, 3, 0, 0] if count == 2 else [0] * 5)
        assert outputs[4][0] == (3 if count == 2 else 9)


@needs_compiler
@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda r: type(r).__name__)
def test_loops_accumulators_variables_and_local_memory(run: Run, renderer: CRenderer) -> None:
    n = UOp(Op.DEFINE_VAR, int64, (), ("n", 0, 40))
    core = UOp(Op.DEFINE_VAR, int32, (), ("core_id", 0, 3))
    register = UOp(Op.DEFINE_REG, float32.vec(4), (), (0, 1))
    zero = const(0)
    start = register.index(zero).store(UOp.const(float32.vec(4), 0.0))
    k = UOp(Op.RANGE, int64, (n,), (0, AxisType.REDUCE))
    inside = register.after(start, k).index(zero)
    update = inside.store(inside.load() + param(1, 160, float32).index(k * 4, lanes=4).load())
    end = update.end(k)
    total = UOp(Op.REDUCE, float32, (register.after(end).index(zero).load(),), Op.ADD)
    local = UOp(Op.DEFINE_LOCAL, float32, (), (1, 2))
    put = local.index(const(1)).store(total)
    result = param(0, 4, float32).index(core).store(local.after(put).index(const(1)).load())
    order = list(start.toposort())
    for stop in (end, put, result):
        order += [node for node in stop.toposort() if node not in order]
    a = np.arange(160, dtype=np.float32)
    for count in (0, 1, 40):
        out = np.zeros(4, np.float32)
        run(renderer, order, [out, a], values=[count], core_id=2)
        np.testing.assert_array_equal(out, [0, 0, a[: 4 * count].sum(), 0])


@needs_compiler
def test_custom_text_is_filled_with_its_operands(run: Run) -> None:
    x = param(1, 1, float32).index(const(0)).load()
    custom = UOp(Op.CUSTOM, float32, (x, UOp.const(float32, 2.0)), "fmaxf({1}, {0}) * {0}")
    out = np.zeros(1, np.float32)
    run(RENDERERS[0], linearize(param(0, 1, float32).index(const(0)).store(custom)), [out, np.array([5], np.float32)])
    assert out[0] == 25
    bad = UOp(Op.CUSTOM, float32, (x,), "{0} + {1}")
    with pytest.raises(RenderError, match="template"):
        RENDERERS[0].render(linearize(param(0, 1, float32).index(const(0)).store(bad)), "k")


def test_what_lowering_must_replace_is_an_error() -> None:
    renderer = GnuCRenderer()
    out = param(0, 8, int32).index(const(0))
    x = UOp(Op.DEFINE_VAR, int32, (), ("x", -9, 9))
    narrow = param(1, 8, bfloat16).index(const(0))
    half = param(2, 8, float16).index(const(0))
    for bad, words in (
        (out.store(UOp(Op.IDIV, int32, (x, x))), "IDIV"),
        (out.store(UOp(Op.THREEFRY, int32, (x, x))), "THREEFRY"),
        (out.store(UOp(Op.SPECIAL, int32, (const(4),), "gidx0")), "grid index"),
        (narrow.store(narrow.load() + narrow.load()), "lowering"),
        (half.store(half.load() + half.load()), "lowering"),
    ):
        with pytest.raises(RenderError, match=words):
            renderer.render(linearize(bad), "k")


class OpenClLikeRenderer(CRenderer):
    """What a plugin for a language with workgroups writes."""

    def type_name(self, dtype: DType) -> str:
        names = {"float32": "float", "int32": "int", "int64": "long", "bool": "bool"}
        return names.get(dtype.name) or super().type_name(dtype)

    def vector_type(self, dtype: DType) -> str:
        return f"{self.type_name(dtype)}{dtype.lanes}"

    def declare_vector(self, dtype: DType) -> str:
        return ""

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"({self.vector_type(dtype)})({', '.join(lanes)})"

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        return f"{vector}.s{position:x}"

    def open_file(self) -> list[str]:
        return []

    def open_function(self, name: str, buffers: Sequence[Buffer], variables: Sequence[Variable]) -> list[str]:
        arguments = [
            f"__global {'' if b.is_written else 'const '}{self.type_name(b.node.dtype)} *{b.name}" for b in buffers
        ]
        arguments += [f"{self.type_name(v.node.dtype)} {v.name}" for v in variables]
        return [f"__kernel void {name}({', '.join(arguments)}) {{"]

    def declare_local(self, name: str, dtype: DType, size: int) -> str:
        return f"__local {self.type_name(dtype)} {name}[{size}];"

    def grid_index(self, node: UOp) -> str:
        return f"{'get_group_id' if node.arg[0] == 'g' else 'get_local_id'}({node.arg[-1]})"

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE);"


def test_a_plugin_writes_another_language_by_overriding_hooks() -> None:
    group, item = UOp(Op.SPECIAL, int32, (const(4),), "gidx0"), UOp(Op.SPECIAL, int32, (const(16),), "lidx0")
    local = UOp(Op.DEFINE_LOCAL, float32, (), (0, 16))
    put = local.index(item).store(param(1, 64, float32).index(group * 16 + item).load())
    meet = UOp(Op.BARRIER, void, (put,))
    out = param(0, 64, float32).index(group * 16 + item).store(local.after(meet).index(const(15) - item).load())
    text = OpenClLikeRenderer().render(linearize(out), "reverse")
    assert text.splitlines() == [
        "__kernel void reverse(__global float *data0, __global const float *data1) {",
        "  __local float local0[16];",
        "  const int v1 = get_group_id(0);",
        "  const int v2 = v1 * 16;",
        "  const int v3 = get_local_id(0);",
        "  const int v4 = v2 + v3;",
        "  const float v5 = data1[v4];",
        "  local0[v3] = v5;",
        "  barrier(CLK_LOCAL_MEM_FENCE);",
        "  const int v6 = 15 - v3;",
        "  const float v7 = local0[v6];",
        "  data0[v4] = v7;",
        "}",
    ]


@needs_compiler
@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_a_selection_by_comparisons_is_done_on_whole_vectors(run: Run, lanes: int) -> None:
    x, y, i = (*(param(1 + k, lanes, float32).index(const(0), lanes=lanes).load() for k in range(2)), loop(1))
    bools = bool_.vec(lanes)
    is_less, is_number = UOp(Op.LT, bools, (x, y)), UOp(Op.EQ, bools, (x, x))
    condition = UOp(Op.AND, bools, (UOp(Op.NOT, bools, (is_less,)), is_number))
    linear = store_all([UOp(Op.WHERE, x.dtype, (condition, x, y))], lanes, i)
    a, b = values_of(float32, 64, 1)[:lanes], values_of(float32, 64, 2)[:lanes]
    found = np.zeros(lanes, np.float32)
    run(RENDERERS[1], linear, [found, a, b])
    np.testing.assert_array_equal(found, np.where(~(a < b) & (a == a), a, b))
    assert " ? " not in RENDERERS[1].render(linear, "kernel")


@needs_compiler
@pytest.mark.parametrize("dtype", [bool_, int32, float16, float32, float64], ids=str)
@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.MIN])
def test_lanes_are_joined_half_by_half(run: Run, dtype: DType, op: Op) -> None:
    for renderer in RENDERERS:
        for lanes in (2, 4, 6, 16, 64):
            x = param(1, lanes, dtype).index(const(0), lanes=lanes).load()
            total = UOp(Op.REDUCE, dtype, (x,), op)
            values = np.arange(lanes).astype(dtype.numpy)
            found = np.zeros(1, dtype.numpy)
            run(renderer, linearize(param(0, 1, dtype).index(const(0)).store(total)), [found, values])
            assert found[0] == {Op.ADD: np.add, Op.MAX: np.maximum, Op.MIN: np.minimum}[op].reduce(
                values, dtype=dtype.numpy
            )
