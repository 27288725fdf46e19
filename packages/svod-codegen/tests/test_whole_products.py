"""Products that the optimizer lays over tensor cores, rendered, compiled and run:

AMX emulated, dot units natively.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_codegen._loader import load_object
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import host_target
from svod_codegen.llvm.tensor_cores import UNITS
from svod_codegen.testing import emulate_tiles
from svod_dtype import DType, float32, int8, uint8
from svod_ir import Op, Opt, OptOp, Target, TensorCore, UOp, make_permute
from svod_ir.testing import count_examples
from svod_ir.testing.programs import fit, matmul, tensor
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline

HOST = host_target()
CORES = [unit.core for unit in UNITS if unit.core.tiles or unit.core in HOST.tensor_cores]


def compiled(graph: UOp, target: Target, opts: tuple[Opt, ...] | None) -> tuple[UOp, ...]:
    """The linear form of the one kernel that computes `graph`."""
    context = Context(target=target, opts=opts)
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)
    (call,) = kernels.iter_ops(Op.CALL)
    return linearize(run_pipeline("lower", run_pipeline("optimize", call.src[0], context), context))


def run(linear: Sequence[UOp], target: Target, arrays: Sequence[np.ndarray]) -> None:
    code = load_object(
        compile_ir(emulate_tiles(render(tuple(linear), "kernel", target))), ("kernel",)
    )
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        code.addresses["kernel"]
    )
    buffers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    n_parts = next(
        (n.arg[2] + 1 for n in linear if n.op is Op.DEFINE_VAR and n.arg[0] == "core_id"), 1
    )
    for part in range(n_parts):
        entry(ctypes.addressof(buffers), None, part)


def values(dtype: DType, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Numbers whose products add up exactly in every order."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.integers(-64, 65, shape).astype(np.float32).astype(dtype.numpy)
    return rng.integers(int(dtype.min), int(dtype.max), shape, endpoint=True).astype(dtype.numpy)


def exact(x: np.ndarray, y: np.ndarray, dtype: DType) -> np.ndarray:
    wide = np.float64 if dtype.is_float else np.int64
    return (x.astype(np.float32).astype(wide) @ y.astype(np.float32).astype(wide)).astype(
        dtype.numpy
    )


def check(
    core: TensorCore,
    m: int,
    k: int,
    n: int,
    opts: tuple[Opt, ...] | None,
    *,
    is_x_transposed: bool = False,
    is_y_transposed: bool = False,
    n_threads: int = 1,
) -> bool:
    """Whether the kernel uses the core; what it computes is checked anyway."""
    target = replace(HOST, cores=n_threads, tensor_cores=(core,))
    dtypes = core.dtypes
    x, y = values(dtypes[0], (m, k), 1), values(dtypes[1], (k, n), 2)
    left = (
        make_permute(tensor(1, k, m, dtype=dtypes[0]), (1, 0))
        if is_x_transposed
        else tensor(1, m, k, dtype=dtypes[0])
    )
    right = (
        make_permute(tensor(2, n, k, dtype=dtypes[1]), (1, 0))
        if is_y_transposed
        else tensor(2, k, n, dtype=dtypes[1])
    )
    linear = compiled(matmul(left.cast(dtypes[2]), right.cast(dtypes[2])), target, opts)
    given_x, given_y = (
        np.ascontiguousarray(a.T if t else a)
        for a, t in ((x, is_x_transposed), (y, is_y_transposed))
    )
    out = np.full((m, n), 7, dtypes[2].numpy)
    run(linear, target, [out, given_x, given_y])
    np.testing.assert_array_equal(out, exact(x, y, dtypes[2]))
    return any(node.op is Op.WMMA for node in linear)


@pytest.mark.parametrize("core", CORES, ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (33, 70, 45), (16, 256, 48)])
def test_a_product_that_fits_a_core_runs_on_it(core: TensorCore, m: int, k: int, n: int):
    assert check(core, m, k, n, (Opt(OptOp.TC, 0, 0),))
    check(core, m, k, n, None)


@pytest.mark.parametrize("core", CORES, ids=str)
def test_large_products_use_the_features_of_the_target(core: TensorCore):
    assert check(core, 128, 128, 128, None)
    assert check(core, 128, 128, 128, None, is_y_transposed=True)
    assert check(core, 128, 128, 128, None, n_threads=2)


SIZE = st.sampled_from((1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 48, 67))


@settings(max_examples=count_examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    core=st.sampled_from(CORES),
    m=SIZE,
    k=SIZE,
    n=SIZE,
    transposed=st.tuples(st.booleans(), st.booleans()),
    n_threads=st.integers(1, 2),
)
def test_products_of_any_shape_are_right(
    core: TensorCore, m: int, k: int, n: int, transposed: tuple[bool, bool], n_threads: int
):
    x, y = transposed
    check(core, m, k, n, None, is_x_transposed=x, is_y_transposed=y, n_threads=n_threads)


EPILOGUES: dict[
    str, tuple[Callable[[UOp], UOp], Callable[[np.ndarray, np.ndarray], np.ndarray]]
] = {
    "bias and activation": (
        lambda p: (p + fit(tensor(3, int(p.shape[-1]), dtype=p.dtype), p.shape)).alu(
            Op.MAX, UOp.const(p.dtype, 0)
        ),  # pyright: ignore[reportArgumentType]
        lambda p, bias: np.maximum(p + bias, 0),
    ),
    "scale in float": (
        lambda p: (
            p.cast(float32) * 0.25
            + fit(tensor(3, int(p.shape[-1]), dtype=p.dtype), p.shape).cast(float32)
        ),  # pyright: ignore[reportArgumentType]
        lambda p, bias: p.astype(np.float32) * np.float32(0.25) + bias.astype(np.float32),
    ),
}


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize(
    "core",
    [c for c in CORES if c.dtypes[:2] in ((uint8, int8), (int8, uint8), (int8, int8))],
    ids=str,
)
def test_the_epilogue_of_a_product_is_computed_in_its_kernel(core: TensorCore, epilogue: str):
    make, compute = EPILOGUES[epilogue]
    target = replace(HOST, cores=1, tensor_cores=(core,))
    x, y, bias = (
        values(core.dtypes[0], (40, 64), 1),
        values(core.dtypes[1], (64, 48), 2),
        values(core.dtypes[2], (1, 48), 3),
    )
    left, right = tensor(1, 40, 64, dtype=core.dtypes[0]), tensor(2, 64, 48, dtype=core.dtypes[1])
    graph = make(matmul(left.cast(core.dtypes[2]), right.cast(core.dtypes[2])))
    linear = compiled(graph, target, (Opt(OptOp.TC, 0, 0),))
    bias = bias // 2**8
    expected = compute(exact(x, y, core.dtypes[2]), bias)
    out = np.zeros((40, 48), expected.dtype)
    run(linear, target, [out, x, y, bias])
    np.testing.assert_allclose(out, expected, rtol=1e-6)
