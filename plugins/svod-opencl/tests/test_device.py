"""Programs on the device: plans with the CPU, threads, profiles, a second process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl
import pytest

from svod_codegen import CompileError, LoadError
from svod_device import (
    Buffer,
    CompiledSpec,
    DeviceLostError,
    OutOfMemoryError,
    Program,
    ProgramSpec,
    close_device,
    get_allocator,
    get_device,
)
from svod_dtype import DeviceNameError, float32
from svod_opencl import OpenCLRenderer
from svod_opencl.allocator import OpenCLAllocator
from svod_opencl.build import make_kernel
from svod_opencl.capabilities import has_exact_division, make_target
from svod_opencl.compiler import OpenCLCompiler
from svod_opencl.context import DeviceContext, get_context
from svod_runtime import PreparedKernel
from svod_tensor import PrepareConfig, Tensor, Variable


def make_input(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def test_a_plan_runs_kernels_of_two_devices_with_copies_between_them() -> None:
    a = make_input(33, 7)
    x = Tensor(a)
    there = (x * 2).to("OPENCL").exp().sum(0)
    back = (there.to("CPU") + 1).to("OPENCL") * 3
    plan = back.prepare()
    expected = (np.exp(a * 2).sum(0) + 1) * 3
    for _ in range(3):
        plan.execute()
        np.testing.assert_allclose(back.numpy(), expected, rtol=1e-5)


def test_a_profile_has_the_time_measured_by_the_device() -> None:
    x = Tensor(make_input(64, 64), device="OPENCL")
    plan = (x @ x).prepare()
    (profile,) = plan.execute_profiled()
    assert profile.device == "OPENCL"
    assert profile.elapsed_ns > 0
    assert profile.gflops > 0


def test_a_batch_uses_new_inputs_and_variables() -> None:
    x = Tensor(make_input(9, 5), device="OPENCL").realize()
    y = (x.softmax(-1).contiguous() @ x.permute(1, 0)).realize()
    first = y.numpy()
    plan = (x.softmax(-1).contiguous() @ x.permute(1, 0)).prepare()
    for _ in range(2):
        plan.execute()
    np.testing.assert_array_equal(plan.output_buffers[0].as_numpy().reshape(9, 9), first)


def test_variables_set_the_size_of_a_launch() -> None:
    n = Variable("n", 1, 40)
    a = make_input(40, 3)
    x = Tensor(a, device="OPENCL").realize()
    for size in (1, 7, 40):
        part = x[: n.bind(size)] * 2 + 1
        np.testing.assert_allclose(part.sum(0).numpy(), (a[:size] * 2 + 1).sum(0), rtol=1e-5)


def test_two_threads_compute_on_one_device() -> None:
    a = make_input(50, 50)
    wrong: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for _ in range(5):
                x = Tensor(a, device="OPENCL")
                np.testing.assert_allclose(
                    (x * k + x.sum(1, keepdims=True)).numpy(),
                    a * k + a.sum(1, keepdims=True),
                    atol=1e-4,
                )
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_make_kernels_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    making, together = 0, []

    def make(_program: object, _name: str) -> None:
        nonlocal making
        making += 1
        time.sleep(0.01)
        together.append(making)
        making -= 1

    monkeypatch.setattr(pyopencl, "Kernel", make)
    threads = [threading.Thread(target=make_kernel, args=(None, "scale")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1, 1, 1]


@pytest.mark.parametrize("offset", [4, 12, 68])
def test_a_kernel_takes_a_view_that_starts_at_any_element(offset: int) -> None:
    device = get_device("OPENCL")
    base = Buffer(device.allocator, float32, 64).ensure_allocated()
    values = np.arange(64, dtype=np.float32)
    base.copyin(values)
    view = base.view(offset, 40)
    program = make_program("*3.0f")
    out = base.view(128 + offset, 40)
    program([out.address, view.address], [], (10, 1, 1))
    expected = values.copy()
    expected[32 + offset // 4 :][:10] = 3 * values[offset // 4 :][:10]
    np.testing.assert_array_equal(base.as_numpy(), expected)


SOURCE = """
__kernel void scale(__global float *out, ulong out_offset, __global const float *in, ulong in_offset) {
  const size_t i = get_global_id(0);
  ((__global float *)((__global uchar *)out + out_offset))[i] =
      ((__global const float *)((__global const uchar *)in + in_offset))[i] FACTOR;
}
"""


def make_program(factor: str) -> Program:
    device = get_device("OPENCL")
    spec = ProgramSpec("scale", SOURCE.replace("FACTOR", factor), "OPENCL", local_size=None)
    return device.loader(device.backend.compiler.compile(spec))


def test_source_that_the_driver_rejects_is_an_error_with_its_line() -> None:
    with pytest.raises(CompileError) as caught:
        make_program("+ nothing")
    assert "nothing" in caught.value.message
    assert caught.value.line == 5


def test_an_invalid_binary_is_an_error() -> None:
    with pytest.raises(LoadError, match="cannot load scale"):
        get_device("OPENCL").loader(CompiledSpec("scale", None, b"no binary"))


def test_a_block_larger_than_the_device_s_memory_is_out_of_memory() -> None:
    nbytes = get_context("OPENCL").device.max_mem_alloc_size * 4
    with pytest.raises(OutOfMemoryError, match="out of memory on OPENCL"):
        get_allocator("OPENCL").allocate(nbytes)


def test_blocks_that_exceed_the_memory_together_are_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Some drivers allocate any size, and fail at the first use of the memory.
    allocator = OpenCLAllocator(get_context("OPENCL"))
    limit = allocator.context.count_bytes() + 10_000
    monkeypatch.setattr(allocator, "context", _Limited(allocator.context, limit))
    first = allocator.allocate(6_000)
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(6_000)
    assert caught.value.in_use == limit - 4_000
    allocator.free(first)
    allocator.free(allocator.allocate(6_000))


class _Limited:
    """Context whose device reports less memory."""

    def __init__(self, context: DeviceContext, n_bytes: int) -> None:
        self.device = SimpleNamespace(global_mem_size=n_bytes)
        self._context = context

    def __getattr__(self, name: str) -> object:
        return getattr(self._context, name)


def test_blocks_are_released_by_finalizers() -> None:
    allocator = get_allocator("OPENCL")
    context = get_context("OPENCL")
    allocator.inner.empty_cache()
    before = len(context._blocks)
    for _ in range(10):
        Buffer(allocator, float32, 1000).ensure_allocated()
    allocator.inner.empty_cache()
    assert len(context._blocks) == before


def test_a_closed_device_is_opened_again() -> None:
    before = get_context("OPENCL")
    buffer = Buffer(get_allocator("OPENCL"), float32, 4).ensure_allocated()
    assert before._blocks
    close_device("OPENCL")
    assert not before._blocks
    with pytest.raises(DeviceLostError, match="device OPENCL is lost: it was closed"):
        buffer.to_bytes()
    again = Buffer(get_allocator("OPENCL"), float32, 4)
    again.copyin(np.arange(4, dtype=np.float32))
    assert get_context("OPENCL") is not before
    np.testing.assert_array_equal(again.as_numpy(), np.arange(4, dtype=np.float32))


def test_a_device_name_without_an_integer_index_is_an_error() -> None:
    with pytest.raises(
        DeviceNameError, match="invalid device name 'OPENCL:gpu': 'gpu' is not a device index"
    ):
        get_allocator("OPENCL:gpu")


def test_the_target_matches_the_driver_s_properties() -> None:
    device = get_context("OPENCL").device
    target = make_target(device)
    assert target.has_local and target.has_shared
    assert target.shared_bytes == device.local_mem_size
    assert target.max_local == device.max_work_group_size
    assert target.cores == device.max_compute_units
    assert (
        "-cl-fp32-correctly-rounded-divide-sqrt" in OpenCLCompiler(get_context("OPENCL")).options
    ) == has_exact_division(device)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    program = """
import numpy as np
from svod_opencl import compiler
from svod_tensor import Tensor
sources = []
build = compiler.build_program
def count(context, device, code, *options):
    sources.append(isinstance(code, str))
    return build(context, device, code, *options)
compiler.build_program = count
x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).to("OPENCL")
print((x * 2).sum(1).numpy().tolist(), sum(sources))
"""
    environment = {
        **os.environ,
        "SVOD_CACHE_DIR": str(tmp_path),
        "SVOD_KERNEL_STORE": "1",
        "SVOD_OPENCL_BINARIES": "1",
    }
    for n_compiled in (1, 0):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout == f"[12.0, 44.0, 76.0] {n_compiled}\n", done.stderr
        assert done.returncode == 0


def test_without_exact_division_quotients_and_roots_are_computed_in_double() -> None:
    device = get_device("OPENCL")
    a, b = np.abs(make_input(512)), np.abs(make_input(512)) + 1
    renderer = OpenCLRenderer(device.target, has_exact_division=False, vector_bytes=32)
    x, y = Tensor(a, device="OPENCL"), Tensor(b, device="OPENCL")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_backends", {"c": replace(device.backend, renderer=renderer)})
        plan = (x / y).sqrt().prepare_with(PrepareConfig(disable_schedule_cache=True))
    (kernel,) = [op.kernel for op in plan.prepared_ops if isinstance(op, PreparedKernel)]
    assert "convert_double" in kernel.source
    plan.execute()
    np.testing.assert_array_equal(plan.output_buffers[0].as_numpy(), np.sqrt(a / b))
