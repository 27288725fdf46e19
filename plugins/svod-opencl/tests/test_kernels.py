"""Kernels with workgroups, local memory and grids, on the device and against numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings, strategies as st

from svod_codegen.steps import linearize, render
from svod_device import Buffer, Compiler, get_device
from svod_dtype import float32, float64
from svod_ir import Op, Opt, OptOp, Target, UOp, make_reduce_axis, make_reshape
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import buffer
from svod_opencl import OpenCLRenderer
from svod_opencl.compiler import OpenCLCompiler
from svod_opencl.context import get_context
from svod_runtime import PreparedKernel
from svod_schedule import OptError
from svod_schedule.optimize import Scheduler
from svod_schedule.pipeline import Context
from svod_schedule.steps import kernelize, lower, optimize, rangeify
from svod_tensor import PrepareConfig, Tensor

UPCAST, UNROLL, LOCAL, PADTO = OptOp.UPCAST, OptOp.UNROLL, OptOp.LOCAL, OptOp.PADTO
GROUP, GROUPTOP, NOLOCALS = OptOp.GROUP, OptOp.GROUPTOP, OptOp.NOLOCALS


def make_input(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def compute(tensor: Tensor, *opts: Opt) -> np.ndarray:
    return tensor.realize_with(PrepareConfig(opts=opts)).numpy()


@pytest.mark.parametrize(
    "opts",
    [
        (),
        (Opt(NOLOCALS),),
        (Opt(LOCAL, 0, 8),),
        (Opt(LOCAL, 1, 16), Opt(UPCAST, 1, 4)),
        (Opt(LOCAL, 0, 4), Opt(LOCAL, 1, 4), Opt(UPCAST, 0, 2), Opt(UPCAST, 1, 8)),
        (Opt(UPCAST, 1, 64),),
        (Opt(UPCAST, 1, 3), Opt(LOCAL, 0, 2)),
    ],
    ids=str,
)
def test_opts_do_not_change_an_elementwise_kernel(opts: Sequence[Opt]) -> None:
    a, b = make_input(64, 192), make_input(192)
    x = Tensor(a, device="OPENCL") * Tensor(b, device="OPENCL") + 1
    np.testing.assert_allclose(compute(x, *opts), a * b + 1, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "opts",
    [
        (Opt(LOCAL, 0, 8), Opt(LOCAL, 1, 4), Opt(UNROLL, 0, 4)),
        (Opt(UPCAST, 0, 4), Opt(UPCAST, 1, 4), Opt(LOCAL, 0, 2), Opt(LOCAL, 1, 2)),
        (Opt(GROUP, 0, 16),),
        (Opt(GROUPTOP, 0, 16), Opt(UPCAST, 1, 4)),
        (Opt(GROUP, 0, 8), Opt(LOCAL, 0, 4), Opt(UNROLL, 0, 2)),
        (Opt(NOLOCALS), Opt(UPCAST, 1, 8), Opt(UNROLL, 0, 4)),
    ],
    ids=str,
)
def test_opts_do_not_change_a_product(opts: Sequence[Opt]) -> None:
    a, b = make_input(16, 64), make_input(64, 48)
    x = Tensor(a, device="OPENCL") @ Tensor(b, device="OPENCL")
    np.testing.assert_allclose(compute(x, *opts), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 13])
def test_a_workgroup_that_does_not_divide_the_size_is_masked(size: int) -> None:
    a = make_input(size, 5)
    opts = [Opt(PADTO, 0, 8), Opt(LOCAL, 0, 8)] if size > 1 else []
    np.testing.assert_allclose(
        compute(Tensor(a, device="OPENCL").exp(), *opts), np.exp(a), rtol=1e-6
    )
    grouped = (
        [Opt(PADTO, 0, 8), Opt(LOCAL, 0, 8), Opt(PADTO, 2, 8), Opt(GROUP, 0, 4)] if size > 1 else []
    )
    np.testing.assert_allclose(
        compute(Tensor(a, device="OPENCL").sum(1), *grouped), a.sum(1), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("limits", "opts"),
    [
        ((7, 7, 7), (Opt(LOCAL, 0, 2),)),
        ((3, 2, 2), (Opt(GROUP, 0, 4),)),
        ((1, 1, 1), ()),
        ((1000, 4, 4), (Opt(GROUPTOP, 0, 4),)),
    ],
    ids=str,
)
def test_a_grid_beyond_the_limits_computes_every_element(
    limits: tuple[int, int, int], opts: tuple[Opt, ...]
) -> None:
    shape = (6, 11, 16)
    x = make_reshape(buffer(1, 6 * 11 * 16, device="OPENCL"), shape)
    values = make_input(*shape)
    target = replace(get_device("OPENCL").target, max_global=limits)
    found = run_kernel(make_reduce_axis(x, Op.ADD, (2,)), target, opts, values, 66)
    np.testing.assert_allclose(found, values.sum(2).reshape(-1), rtol=1e-5, atol=1e-6)


def run_kernel(
    tensor: UOp, target: Target, opts: tuple[Opt, ...], values: np.ndarray, size: int
) -> np.ndarray:
    """Return the result of the only kernel of `tensor`, run on a buffer with `values`."""
    return run_compiled(tensor, target, opts, values, size, get_device("OPENCL").backend.compiler)


def run_compiled(
    tensor: UOp,
    target: Target,
    opts: tuple[Opt, ...],
    values: np.ndarray,
    size: int,
    compiler: Compiler,
) -> np.ndarray:
    device = get_device("OPENCL")
    context = Context(target=target, device="OPENCL", opts=opts)
    body = next(kernelize(rangeify(UOp.sink(tensor), context), context).iter_ops(Op.CALL)).body
    spec = render(linearize(lower(optimize(body, context), context), device.name), device.renderer)
    dims = spec.launch_dims({})
    assert all(n <= limit for n, limit in zip(dims.global_size, target.max_global, strict=False))
    out, given = (
        Buffer(device.allocator, float32, n).ensure_allocated() for n in (size, values.size)
    )
    given.copyin(values)
    device.loader(compiler.compile(spec))([out.address, given.address], [], *dims)
    return out.as_numpy()


def test_a_kernel_that_cannot_group_says_so() -> None:
    with pytest.raises(OptError, match="8 does not divide the axis of 15"):
        compute(Tensor(make_input(4, 15), device="OPENCL").sum(1), Opt(GROUP, 0, 8))


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("float64", 3),
        ("int64", 6),
        ("uint8", 32),
        ("int8", 7),
        ("float16", 16),
        ("bfloat16", 2),
        ("uint64", 2),
    ],
)
def test_vectors_of_any_number_of_lanes(name: str, lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    x = (
        Tensor(rng.integers(0, 100, (3, lanes * 2)).astype(np.int32))
        .cast(name)
        .to("OPENCL")
        .realize()
    )
    y = x.eq(x.flip(0)).where(x, x + x).realize_with(PrepareConfig(opts=(Opt(UPCAST, 1, lanes),)))
    on_cpu = x.to("CPU").realize()
    expected = on_cpu.eq(on_cpu.flip(0)).where(on_cpu, on_cpu + on_cpu)
    np.testing.assert_array_equal(
        y.to("CPU").cast("float32").numpy(), expected.cast("float32").numpy()
    )


WISHES = st.builds(
    Opt,
    st.sampled_from([UPCAST, UNROLL, LOCAL, GROUP, GROUPTOP, PADTO]),
    st.integers(0, 2),
    st.sampled_from([2, 4, 8]),
)


@seed(20)
@settings(
    max_examples=count_examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    wishes=st.lists(WISHES, min_size=2, max_size=5),
    shape=st.tuples(st.sampled_from([4, 6, 13]), st.sampled_from([8, 16, 24])),
)
def test_random_opts_do_not_change_a_sum(wishes: list[Opt], shape: tuple[int, int]) -> None:
    x = make_reshape(buffer(1, shape[0] * shape[1], device="OPENCL"), shape)
    target = get_device("OPENCL").target
    context = Context(target=target, device="OPENCL")
    sink = UOp.sink(make_reduce_axis(x, Op.ADD, (1,)))
    body = next(kernelize(rangeify(sink, context), context).iter_ops(Op.CALL)).body
    scheduler = Scheduler(body, target)
    for wish in wishes:
        scheduler.try_opt(wish)
    values = make_input(*shape)
    found = run_kernel(
        make_reduce_axis(x, Op.ADD, (1,)), target, tuple(scheduler.applied_opts), values, shape[0]
    )
    np.testing.assert_allclose(found, values.sum(1), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def quick_compiler() -> OpenCLCompiler:
    """Compiler without driver optimizations, which takes a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SVOD_OPENCL_BUILD_OPTIONS", "-cl-opt-disable")
        return OpenCLCompiler(get_context("OPENCL"))


@seed(21)
@settings(
    max_examples=count_examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    rows=st.integers(1, 24),
    columns=st.integers(1, 300),
    n_work_items=st.sampled_from([2, 3, 4, 8, 16, 32, 64]),
    group=st.sampled_from([GROUP, GROUPTOP]),
    op=st.sampled_from([Op.ADD, Op.MAX]),
)
def test_groups_with_local_memory_reduce_rows_of_any_size(
    quick_compiler: OpenCLCompiler, rows: int, columns: int, n_work_items: int, group: OptOp, op: Op
) -> None:
    # An axis of one element has no loop.
    rows, columns = rows + 1, columns + 1
    x = make_reshape(buffer(1, rows * columns, device="OPENCL"), (rows, columns))
    opts = (Opt(PADTO, 1, n_work_items), Opt(group, 0, n_work_items))
    values = make_input(rows, columns)
    target = get_device("OPENCL").target
    found = run_compiled(make_reduce_axis(x, op, (1,)), target, opts, values, rows, quick_compiler)
    expected = values.sum(1) if op is Op.ADD else values.max(1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shape", [(64, 48, 80), (33, 70, 45), (16, 256, 16), (100, 20, 1)], ids=str
)
def test_products_for_a_gpu_are_right_on_this_device(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = make_input(m, k), make_input(k, n)
    found = compute_for_gpu(lambda x, y: x @ y, a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 256), (7, 1009), (300, 3), (256, 40)], ids=str)
def test_other_kernels_for_a_gpu_are_right_on_this_device(shape: tuple[int, int]) -> None:
    a = make_input(*shape)
    np.testing.assert_allclose(
        compute_for_gpu(lambda x: x.sum(1), a), a.sum(1), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(compute_for_gpu(lambda x: x.max(0), a), a.max(0))
    np.testing.assert_allclose(compute_for_gpu(lambda x: x.permute(1, 0) + 1, a), a.T + 1)
    np.testing.assert_allclose(compute_for_gpu(lambda x: x * 2, a), a * 2)


def compute_for_gpu(function: Callable[..., Tensor], *arrays: np.ndarray) -> np.ndarray:
    """Return the result of kernels scheduled for lockstep work-items, run on the present driver."""
    device = get_device("OPENCL")
    target = replace(
        device.target,
        name="gpu",
        vector_bits=128,
        cores=4,
        max_local=256,
        shared_bytes=48 << 10,
        lockstep=32,
    )
    renderer = OpenCLRenderer(target, vector_bytes=32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            device, "_backends", {"c": replace(device.backend, target=target, renderer=renderer)}
        )
        result = function(*(Tensor(array, device="OPENCL") for array in arrays))
        plan = result.prepare_with(PrepareConfig(disable_schedule_cache=True))
        kernels = [op.kernel for op in plan.prepared_ops if isinstance(op, PreparedKernel)]
        assert any("get_local_id" in kernel.source for kernel in kernels)
        plan.execute()
    return plan.output_buffers[0].as_numpy().reshape(result.shape)


@pytest.mark.parametrize("dtype", [float32, float64])
def test_division_and_square_root_are_rounded_correctly(dtype: object) -> None:
    kind = np.float32 if dtype is float32 else np.float64
    rng = np.random.default_rng(3)
    a, b = (np.abs(rng.standard_normal(4096)).astype(kind) for _ in range(2))
    x, y = Tensor(a, device="OPENCL"), Tensor(b, device="OPENCL")
    np.testing.assert_array_equal((x / y).numpy(), a / b)
    np.testing.assert_array_equal(x.sqrt().numpy(), np.sqrt(a))


@pytest.mark.parametrize("lanes", [7, 16])
def test_vectors_of_bools_are_stored_and_loaded(lanes: int) -> None:
    a = make_input(3, 2 * lanes)
    config = PrepareConfig(opts=(Opt(UPCAST, 0, lanes),))
    mask = (Tensor(a, device="OPENCL") > 0).realize_with(config)
    np.testing.assert_array_equal(mask.numpy(), a > 0)
    np.testing.assert_array_equal(mask.logical_not().realize_with(config).numpy(), a <= 0)
    np.testing.assert_array_equal(
        mask.cast("int32").realize_with(config).numpy(), (a > 0).astype(np.int32)
    )


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
def test_casts_of_values_out_of_range_saturate(kind: type[np.signedinteger], lanes: int) -> None:
    values = [np.nan, np.inf, -np.inf, 3e19, -3e19, 300.0, -1.5, 0.5] * 2
    info = np.iinfo(kind)
    limits = {np.inf: info.max, -np.inf: info.min}
    expected = [
        0 if v != v else limits[v] if v in limits else min(max(int(v), info.min), info.max)
        for v in values
    ]
    opts = (Opt(UPCAST, 0, lanes),) if lanes > 1 else ()
    x = Tensor(np.array(values, np.float32), device="OPENCL").cast(np.dtype(kind).name)
    np.testing.assert_array_equal(compute(x, *opts), np.array(expected, kind))
