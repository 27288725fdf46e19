"""Tensors on a device whose work is pending until somebody waits: nobody reads what was there
before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np
import pytest

from svod_codegen.backend import make_llvm_backend
from svod_device import clear, get_device, register_allocator, register_backend
from svod_device.testing import AsynchronousAllocator, AsynchronousDevice
from svod_device.testing.limit import get_plugin_allocator
from svod_ir import Op, UOp
from svod_ir.testing.programs import matmul, tensor
from svod_runtime import clear_custom_functions
from svod_schedule.pipeline import Context, run_pipeline
from svod_tensor import (
    Generator,
    Tensor,
    caches,
    cond,
    custom_function,
    fori_loop,
    grad,
    jit,
    register_custom_function,
    scan,
    switch,
    while_loop,
)
from svod_tensor.tuning import bench as bench_module
from svod_tensor.tuning.bench import make_bench
from svod_tensor.tuning.buffer_data import describe_buffers
from svod_tensor.tuning.time_box import TimeBox
from svod_tensor.tuning.workers import LocalCompilers
from svod_testing import check

LAUNCH_S = 0.005
A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    """LATE, whose memory the host addresses, FAR with memory of its own, and SLOW, whose launches
    take some time.
    """
    for kind in ("LATE", "FAR", "SLOW"):
        device = AsynchronousDevice(
            make_llvm_backend,
            is_host_addressable=kind != "FAR",
            launch_s=LAUNCH_S if kind == "SLOW" else 0.0,
        )
        register_allocator(kind, device.make_allocator)
        register_backend(f"{kind}.llvm", device.make_backend)
    yield
    clear()


def own(device: str, a: np.ndarray = A) -> Tensor:
    return Tensor(a, device=device).clone().realize()


def _move(device: str) -> Tensor:
    x = Tensor(A, device=device) * 2
    y = (x.to("CPU") + 1) * 2
    return (y.to(device) + x).to("CPU") * 2


def _call(device: str) -> Tensor:
    total = own(device, A * 0)

    @jit
    def step(x: Tensor) -> Tensor:
        total.assign(total + x)
        return (total * 2).to("CPU") + 1

    for n in range(4):
        last = step(Tensor(A * n, device=device))
    return last + total.to("CPU")


def _donate(device: str) -> Tensor:
    step, x = jit(lambda x: (x * 0.5 + 1).contiguous() * 2, donate=0), own(device)
    for _ in range(4):
        x = step(x)
    return x


def _assign(device: str) -> Tensor:
    x = own(device)
    before = x * 1
    for n in range(3):
        x[1:] = x[:-1] + n
        x.assign(x * 2)
    return before + x


def _overwrite(device: str) -> Tensor:
    # The copy is pending when the kernel of the CPU writes to what it reads.
    source = own("CPU")
    there = source.to(device) * 1
    there.realize()
    source.assign(source * 0)
    source.realize()
    return there


def _decide(device: str) -> Tensor:
    x = Tensor(A, device=device)
    while (x.sum() < 1e4).item():
        x = x * 2 + 1
    return x[:, int(x.argmax(1)[0].item())]


def _draw(device: str) -> Tensor:
    generator = Generator(3)
    return (
        Tensor.rand(3, 4, generator=generator, device=device)
        + Tensor.rand(3, generator=generator, device=device)[:, None]
    )


def _call_python(device: str) -> Tensor:
    def triple(out: np.ndarray, x: np.ndarray) -> None:
        out[...] = x * 3

    register_custom_function("triple", triple)
    return custom_function("triple", Tensor(A, device=device) * 2, outputs=((3, 4), "float32")) + 1


def _differentiate(device: str) -> Tensor:
    return grad(lambda x: (x @ x.T).softmax(1).max())(Tensor(A, device=device) / 10)


def _run_plan(device: str) -> Tensor:
    x = own(device)
    y = (x * 3).contiguous().sum(0)
    plan = y.prepare()
    plan.execute()
    x.assign(Tensor(A + 1, device=device)).realize()
    plan.execute()
    return y


PROGRAMS: dict[str, Callable[[str], Tensor]] = {
    "assignments": _assign,
    "captured function": _call,
    "condition": lambda d: cond(
        (Tensor(A, device=d) * 2).sum() > 3,
        lambda: Tensor(A, device=d) * 5,
        lambda: Tensor(A, device=d),
    ),
    "counted loop": lambda d: fori_loop(
        0, Tensor(4, device=d) + 1, lambda i, t: t * 2 + i, Tensor(A, device=d)
    ),
    "custom function": _call_python,
    "decisions in Python": _decide,
    "donation": _donate,
    "gradient": _differentiate,
    "loop in a loop": lambda d: fori_loop(
        0,
        3,
        lambda i, t: while_loop(lambda u: u.sum() < 100 * (1 + i), lambda u: u + 1, t),
        Tensor(A, device=d),
    ),
    "moves": _move,
    "overwritten source": _overwrite,
    "plan": _run_plan,
    "random numbers": _draw,
    "scan": lambda d: scan(
        lambda h, x: (h * x + 1, h), Tensor(A[0], device=d), Tensor(A, device=d)
    )[1],
    "sorting": lambda d: (Tensor(A, device=d).sin() * 2).sort(1).cumsum(1),
    "switch": lambda d: switch(
        (Tensor(A, device=d).sum() * 0 + 1).cast("int32"),
        [lambda: Tensor(A, device=d), lambda: Tensor(A, device=d) - 1],
    ),
    "while loop": lambda d: while_loop(
        lambda t: t.sum() < 1e4, lambda t: t * 2 + 1, Tensor(A, device=d)
    ),
}


@pytest.mark.parametrize("device", ["LATE", "FAR"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_the_same_as_on_the_cpu(name: str, device: str) -> None:
    try:
        check(PROGRAMS[name](device), PROGRAMS[name]("CPU").numpy(), rtol=1e-5)
    finally:
        clear_custom_functions()


def test_a_profile_has_the_time_of_the_work_and_not_of_its_launch() -> None:
    y = (own("SLOW") * 3).contiguous().sum(0)
    plan = y.prepare()
    profiles = plan.execute_profiled()
    assert [profile.elapsed_ns >= LAUNCH_S * 1e9 for profile in profiles] == [True, True]
    check(y, (A * 3).sum(0))


@pytest.mark.parametrize("device", ["LATE", "FAR"])
def test_plans_of_such_devices_are_not_found_by_the_structure_of_a_graph(device: str) -> None:
    entries = caches()["known_plan"].entries
    for n in range(4):
        x = own(device, A * n)
        check((x * 2 + 1).realize(), A * n * 2 + 1)
    assert caches()["known_plan"].entries == entries


def test_a_search_measures_the_work_and_not_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    device = get_device("SLOW")
    context = Context(target=device.target, device=device.name, opts=())
    graph = UOp.sink(matmul(tensor(1, 2, 3), tensor(2, 3, 4)))
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", graph, context), context)
    body = next(iter(kernels.iter_ops(Op.CALL))).src[0]
    optimized = run_pipeline("optimize", body, context)
    (kernel,) = LocalCompilers(device, 3000).compile([optimized], 60.0, TimeBox(60.0))
    assert isinstance(kernel, bytes)
    bench = make_bench("SLOW", None, describe_buffers(body, {}), 1e-5)
    bench.load("plain", kernel)
    allocator = get_plugin_allocator(device.allocator)
    assert isinstance(allocator, AsynchronousAllocator)
    pending: list[int] = []

    def read_clock() -> float:
        pending.append(allocator.n_pending)
        return perf_counter()

    monkeypatch.setattr(bench_module, "perf_counter", read_clock)
    allocator.enqueue(lambda: None)
    assert bench.time("plain", 3) >= LAUNCH_S
    assert pending == [0, 0], "the clock starts or stops while work is pending"
    assert bench.compare("plain", "plain") == ""
