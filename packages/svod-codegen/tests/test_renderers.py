"""Every renderer of the CPU on the same kernels: their text, which `pytest --bless` rewrites, and
what they compute.

Each kernel of `golden/*.ir` has a file for each language. Another language is one more row of
`RENDERERS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from svod_codegen.c import CRenderer, GnuCRenderer
from svod_codegen.llvm.renderer import render
from svod_codegen.testing.calls import C_COMPILER, call_c, call_llvm
from svod_device.testing.kernel_runner import make_values
from svod_dtype import ALL_DTYPES, INTEGER_DTYPES, DType, bool_, float16, float32, float64, int32
from svod_ir import Op, Target, UOp
from svod_ir._arithmetic import apply_elementwise, quiet
from svod_ir.evaluate import evaluate_linear
from svod_ir.ops import count_operands, takes
from svod_ir.target import COMMON_DTYPES
from svod_ir.testing import assert_close, parse_linear, parse_nodes, run_script, tolerance
from svod_ir.testing.nodes import param

TARGET = replace(Target.generic(), native_dtypes=COMMON_DTYPES | {float16})
GOLDEN = Path(__file__).parent / "golden"
KERNELS = {path.stem: parse_linear(path.read_text()) for path in sorted(GOLDEN.glob("*.ir"))}
COMPUTED = (bool_, *INTEGER_DTYPES, float16, float32, float64)

Call = Callable[..., None]


class Language(NamedTuple):
    """A renderer with its target, and what calls the function that it wrote."""

    render: Callable[[tuple[UOp, ...]], str]
    call: Call

    def run(
        self,
        linear: tuple[UOp, ...],
        arrays: Sequence[np.ndarray],
        values: Sequence[int] = (),
        core_id: int = 0,
    ) -> None:
        self.call(self.render(linear), arrays, values, core_id)


def in_llvm(target: Target) -> Language:
    return Language(lambda linear: render(linear, "kernel", target), call_llvm)


def in_c(renderer: CRenderer) -> Language:
    return Language(lambda linear: renderer.render(linear, "kernel"), call_c)


LLVM, PLAIN_C, GNU_C = in_llvm(TARGET), in_c(CRenderer(TARGET)), in_c(GnuCRenderer(TARGET))
LANGUAGES = {
    "ll": LLVM,
    "gathering.ll": in_llvm(replace(TARGET, has_gather=True, has_masked_access=True)),
    "c": PLAIN_C,
    "gnu.c": GNU_C,
}
needs_compiler = pytest.mark.skipif(C_COMPILER is None, reason="no C compiler here")
with_each = pytest.mark.parametrize(
    "language",
    [
        pytest.param(language, id=name, marks=needs_compiler if language.call is call_c else ())
        for name, language in LANGUAGES.items()
    ],
)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", KERNELS)
def test_the_text_of_a_kernel(name: str, language: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"{name}.{language}"
    found = LANGUAGES[language].render(KERNELS[name])
    if language == "gathering.ll" and found == LLVM.render(KERNELS[name]):
        assert not path.exists()
        return
    if request.config.getoption("--bless", default=False):
        path.write_text(found)
    assert found == path.read_text()


@with_each
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_computes_what_the_evaluator_says(name: str, language: Language) -> None:
    linear = KERNELS[name]
    params = sorted((n for n in linear if n.op is Op.PARAM), key=lambda n: n.arg.slot)
    for values in values_of_variables(linear):
        core_id = values.pop("core_id", 0)
        arrays = [make_values(p.dtype, p.arg.size, seed=p.arg.slot) for p in params]
        expected = {p.arg.slot: array.copy() for p, array in zip(params, arrays, strict=True)}
        evaluate_linear(linear, expected, {**values, "core_id": core_id})
        language.run(linear, arrays, tuple(values.values()), core_id)
        for memory, array in zip(params, arrays, strict=True):
            what = f"{name} {values}, buffer {memory.arg.slot}"
            assert_close(array, expected[memory.arg.slot], loose=tolerance(*linear), what=what)


def values_of_variables(linear: Sequence[UOp]) -> Iterator[dict[str, int]]:
    """The smallest, the middle and the largest values, by name."""
    variables = [n for n in linear if n.op is Op.DEFINE_VAR]
    for part in (0, 0.5, 1) if variables else (0,):
        yield {n.arg[0]: n.arg[1] + int((n.arg[2] - n.arg[1]) * part) for n in variables}


class Stored(NamedTuple):
    """A loop that stores the value of each expression of `%a`, `%b` and `%c`, in vectors of some
    lanes.
    """

    linear: tuple[UOp, ...]
    inputs: tuple[UOp, UOp, UOp]
    results: tuple[UOp, ...]


def store_each(expressions: Sequence[str], dtype: DType, size: int, lanes: int) -> Stored:
    lines = [f"%i = RANGE i32 {size // lanes} [0, LOOP]", f"%first = %i * {lanes}"]
    for slot, name in enumerate("abc", start=len(expressions)):
        lines += [
            f"%in_{name} = PARAM {dtype.short} [{slot}, {size}]",
            f"%{name} = load(%in_{name}[%first : {lanes}])",
        ]
    nodes = parse_nodes("\n".join(lines))
    for slot, text in enumerate(expressions):
        lines.append(f"%value{slot} = {text}")
    nodes = parse_nodes("\n".join(lines))
    results = tuple(nodes[f"value{slot}"] for slot in range(len(expressions)))
    for slot, result in enumerate(results):
        lines.append(f"%out{slot} = PARAM {result.dtype.scalar.short} [{slot}, {size}]")
        lines.append(f"%store{slot} = STORE %out{slot}[%first : {lanes}], %value{slot}")
    stores = ", ".join(f"%store{slot}" for slot in range(len(expressions)))
    linear = parse_linear("\n".join([*lines, f"%all = GROUP {stores}", "END %all, %i"]))
    return Stored(linear, (nodes["a"], nodes["b"], nodes["c"]), results)


RENDERED = TARGET.native_ops - {Op.CAST, Op.BITCAST} | {Op.MULACC, Op.RECIPROCAL}


def expressions_of(dtype: DType) -> list[str]:
    """One for each op that renderers take of a dtype; divisors are positive."""
    given = {Op.CDIV: "%a, max(%b, 1)", Op.CMOD: "%a, max(%b, 1)", Op.WHERE: "%a < %b, %a, %c"}
    ops = sorted((op for op in RENDERED if takes(op, dtype)), key=lambda op: op.name)
    return [
        f"{op.name.lower()}({given.get(op, '%a, %b, %c'[: 4 * count_operands(op) - 2])})"
        for op in ops
    ]


SPECIAL = [
    float(v)
    for v in [
        "0",
        "-0",
        "1",
        "-1",
        "0.5",
        "-0.5",
        "1.5",
        "2.5",
        "-2.5",
        "inf",
        "-inf",
        "nan",
        "1e-45",
        "1e-7",
        "65504",
        "3e38",
        "-1e300",
        "123456.75",
        "7",
    ]
]


def values_of(dtype: DType, size: int, seed: int) -> np.ndarray:
    """Numbers of all magnitudes, small integers, and the special values of the dtype."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, size).astype(bool)
    with np.errstate(all="ignore"):
        if dtype.is_float:
            large = rng.normal(0, 1, size) * 10.0 ** rng.integers(-6, 6, size)
            spread = np.where(rng.random(size) < 0.5, rng.normal(0, 3, size), large)
            spread[: len(SPECIAL)] = SPECIAL
            return rng.permutation(spread).astype(dtype.numpy)
        whole = rng.integers(int(dtype.min), int(dtype.max), size, dtype=dtype.numpy, endpoint=True)
        small = rng.integers(max(int(dtype.min), -5), 6, size).astype(dtype.numpy)
        mixed = np.where(rng.random(size) < 0.5, whole, small)
        mixed[:4] = [dtype.min, dtype.max, 0, 1]
        return rng.permutation(mixed)


def expected_of(node: UOp, known: Mapping[UOp, np.ndarray]) -> np.ndarray:
    """The reference meaning of an expression on whole arrays, except that floats saturate to
    integers.
    """
    if node in known:
        return known[node]
    if node.op in (Op.CONST, Op.VCONST):
        return np.asarray(node.arg[0] if node.op is Op.VCONST else node.arg, dtype=node.dtype.numpy)
    operands = tuple(expected_of(s, known) for s in node.src)
    source, target = node.src[-1].dtype.scalar, node.dtype.scalar
    if node.op is Op.CAST and source.is_float and target.is_int:
        exact = [
            0 if v != v else int(np.clip(np.trunc(v), -1e30, 1e30))
            for v in operands[0].astype(np.float64)
        ]
        return np.array(
            [min(max(v, int(target.min)), int(target.max)) for v in exact], dtype=target.numpy
        )
    with quiet():
        return apply_elementwise(node.op, source, target, operands)


def check(stored: Stored, arrays: Sequence[np.ndarray], language: Language) -> None:
    outputs = [np.zeros(len(arrays[0]), r.dtype.numpy) for r in stored.results]
    language.run(stored.linear, [*outputs, *arrays])
    known = dict(zip(stored.inputs, arrays, strict=True))
    for result, output in zip(stored.results, outputs, strict=True):
        expected = expected_of(result, known)
        assert output.dtype == expected.dtype
        rtol = 2e-3 if result.op is Op.MULACC and result.dtype.scalar is float16 else 0
        wide = np.float64 if result.dtype.is_float else expected.dtype
        np.testing.assert_allclose(
            output.astype(wide), expected.astype(wide), rtol=rtol, err_msg=str(result)
        )


ELEMENTWISE = [
    pytest.param(
        language,
        lanes,
        id=f"{name}-{lanes}",
        marks=needs_compiler if language.call is call_c else (),
    )
    for name, language, several in (
        ("ll", LLVM, (1, 2, 3, 4, 8, 16)),
        ("c", PLAIN_C, (1, 3)),
        ("gnu.c", GNU_C, (3, 16)),
    )
    for lanes in several
]


@pytest.mark.parametrize(("language", "lanes"), ELEMENTWISE)
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_every_elementwise_op_and_cast(dtype: DType, language: Language, lanes: int) -> None:
    # LLVM rounds a double to a half in two steps.
    targets = [
        t
        for t in COMPUTED
        if t is not dtype and (language.call is call_c or (dtype, t) != (float64, float16))
    ]
    vectors = [t.short if lanes == 1 else t.vec(lanes).short for t in targets]
    stored = store_each(
        [*expressions_of(dtype), *(f"{vector}(%a)" for vector in vectors)], dtype, 24 * 16, lanes
    )
    check(stored, [values_of(dtype, 24 * 16, seed) for seed in range(3)], language)


@with_each
@pytest.mark.parametrize("source", [float16, float32, float64], ids=str)
def test_floats_beyond_the_range_of_an_integer_saturate(source: DType, language: Language) -> None:
    for lanes in (1, 8):
        stored = store_each(
            [f"{(t if lanes == 1 else t.vec(lanes)).short}(%a)" for t in INTEGER_DTYPES],
            source,
            1056,
            lanes,
        )
        check(stored, [values_near_ends(source)] * 3, language)


def values_near_ends(source: DType) -> np.ndarray:
    """Floats about the ends of all integer dtypes."""
    ends = [float(end) for t in INTEGER_DTYPES for end in (t.min, t.max, t.max / 2)]
    with np.errstate(all="ignore"):
        edges = [*ends, 3e38, -3e38, np.inf, -np.inf, np.nan, -0.9, 0.9, -1.0]
        exact = np.array(
            [e * f for e in edges for f in (1.0, 1.001, 0.999)], dtype=np.float64
        ).astype(source.numpy)
        around = [np.nextafter(exact, source.numpy.type(end)) for end in (np.inf, -np.inf)]
    return np.resize(np.concatenate([exact, *around]), 1056)


@needs_compiler
@pytest.mark.parametrize("language", [PLAIN_C, GNU_C], ids=["c", "gnu.c"])
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("dtype", [float16, float32, float64], ids=str)
def test_of_two_zeros_the_sign_decides_which_is_larger(
    dtype: DType, lanes: int, language: Language
) -> None:
    stored = store_each(["max(%a, %b)", "min(%a, %b)"], dtype, 4 * lanes, lanes)
    signs = [np.repeat(np.array(s, dtype.numpy), lanes) for s in ((1, -1, -1, 1), (-1, 1, -1, 1))]
    outputs = [np.ones(4 * lanes, dtype.numpy) for _ in range(2)]
    language.run(
        stored.linear, [*outputs, *(sign * dtype.numpy.type(0) for sign in signs), signs[0]]
    )
    for output, larger in zip(outputs, (np.maximum, np.minimum), strict=True):
        np.testing.assert_array_equal(np.signbit(output), larger(*signs) < 0)


BARE = replace(TARGET, native_dtypes=COMMON_DTYPES - {float64})


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize(
    "language",
    [
        pytest.param(LLVM, id="ll"),
        *(
            pytest.param(in_c(make(target)), id=f"{make.__name__} {bits}", marks=needs_compiler)
            for make in (CRenderer, GnuCRenderer)
            for bits, target in ((64, TARGET), (32, BARE))
        ),
    ],
)
def test_constants_are_exact_and_every_dtype_moves_unchanged(
    dtype: DType, language: Language
) -> None:
    if dtype.is_float:
        numbers = [
            dtype.finfo_max,
            *map(float, ["0", "-0", "1", "0.1", "-3.75", "inf", "-inf", "nan", "1e-3", "1e-8"]),
        ]
    else:
        numbers = [0, 1, int(dtype.max), int(dtype.min), 5 % (int(dtype.max) + 1)]
    rounded = tuple(UOp.const(dtype, v).arg for v in numbers)
    n, vector = len(rounded), UOp(Op.VCONST, dtype.vec(len(rounded)), (), rounded)
    place, out, moved, source = UOp.const(int32, 0), *(param(slot, n, dtype) for slot in (1, 2, 3))
    stores = [
        param(0, n, dtype).index(UOp.const(int32, k)).store(UOp.const(dtype, v))
        for k, v in enumerate(numbers)
    ]
    stores.append(out.index(place, lanes=n).store(vector))
    stores.append(moved.index(place, lanes=n).store(source.index(place, lanes=n).load()))
    with np.errstate(all="ignore"):
        expected = np.array(rounded, dtype=np.float64 if dtype.is_float else dtype.numpy).astype(
            dtype.numpy
        )
    outputs = [np.zeros(n, dtype.numpy) for _ in range(3)]
    language.run(tuple(UOp.sink(*stores).toposort()), [*outputs, expected])
    is_nan, bits = np.isnan(expected.astype(np.float64)), f"u{dtype.itemsize}"
    for output in outputs:
        np.testing.assert_array_equal(output[~is_nan].view(bits), expected[~is_nan].view(bits))
        assert np.isnan(output[is_nan].astype(np.float64)).all()


REDUCED = (2, 3, 6, 8, 16)
UFUNCS = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


def reduce_vectors(dtype: DType) -> tuple[UOp, ...]:
    lines = [
        f"%out = PARAM {dtype.short} [0, {len(UFUNCS) * len(REDUCED)}]",
        f"%x = PARAM {dtype.short} [1, 64]",
    ]
    for row, lanes in enumerate(REDUCED):
        lines.append(f"%v{lanes} = load(%x[i32(0) : {lanes}])")
        for column, op in enumerate(UFUNCS):
            lines.append(f"%r{lanes}{op} = REDUCE {dtype.short} %v{lanes} [{op}]")
            lines.append(f"STORE %out[i32({len(UFUNCS) * row + column})], %r{lanes}{op}")
    return parse_linear("\n".join(lines))


@with_each
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_a_vector_is_reduced_to_a_scalar(dtype: DType, language: Language) -> None:
    inputs = [
        np.random.default_rng(0)
        .integers(0 if dtype.is_unsigned or dtype.is_bool else -3, 4, 64)
        .astype(dtype.numpy)
    ]
    # A NaN in any lane is the largest and the smallest.
    inputs += (
        [np.where(np.arange(64) == k, dtype.numpy.type(np.nan), inputs[0]) for k in range(8)]
        if dtype.is_float
        else []
    )
    for values in inputs:
        out = np.zeros(len(UFUNCS) * len(REDUCED), dtype.numpy)
        language.run(reduce_vectors(dtype), [out, values])
        with np.errstate(all="ignore"):
            expected = [
                ufunc.reduce(values[:lanes], dtype=dtype.numpy)
                for lanes in REDUCED
                for ufunc in UFUNCS.values()
            ]
        np.testing.assert_allclose(
            out.astype(np.float64),
            np.array(expected, np.float64),
            rtol=1e-2 if dtype is float16 else 1e-5,
        )


_COMPILE_FOR_OTHERS = """
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.target import HostCpu, host_cpu
sources = open(sys.argv[1]).read().split("\\0")
for name in ("x86-64", "x86-64-v3", "sapphirerapids"):
    cpu = HostCpu(triple="x86_64-unknown-linux-gnu", name=name, features="", llvm_version=host_cpu().llvm_version)
    for source in sources:
        compile_ir(source, cpu=cpu)
print("compiled", len(sources))
"""


def test_everything_compiles_for_other_processors(tmp_path: Path) -> None:
    """LLVM ends the process on what it cannot select, so a child process tries."""
    programs = list(KERNELS.values())
    for dtype in COMPUTED:
        programs.append(reduce_vectors(dtype))
        for lanes in (1, 3, 16):
            casts = [
                f"{(t if lanes == 1 else t.vec(lanes)).short}(%a)"
                for t in COMPUTED
                if t not in (dtype, float16)
            ]
            programs.append(store_each([*expressions_of(dtype), *casts], dtype, 48, lanes).linear)
    sources = {
        LANGUAGES[name].render(linear) for linear in programs for name in ("ll", "gathering.ll")
    }
    path = tmp_path / "sources"
    path.write_text("\0".join(sources))
    assert run_script(_COMPILE_FOR_OTHERS, path) == f"compiled {len(sources)}\n"
