"""Plans in a busy process: no allocation, many threads, forks, and Ctrl-C."""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_ir.testing import count_steps_beside, run_in_threads, run_script
from svod_runtime import (
    ExecutionPlan,
    ExecutionPlanBuilder,
    PreparedBufferView,
    PreparedCopy,
    PreparedKernel,
)
from svod_tensor import Tensor, Variable, jit

N_RUNS = 20


def make_chain(n: int) -> tuple[Tensor, ExecutionPlan]:
    """Plan of n dependent additions of a variable's value, each a kernel."""
    x = Tensor(np.arange(16, dtype=np.float32)).realize()
    step = Variable("n", 0, 9).bind(1)
    result = x
    for _ in range(n):
        result = (result + Tensor.from_uop(step).cast("float32")).contiguous()
    return x, result.prepare()


def replan(plan: ExecutionPlan, *, has_launcher: bool, cut: str) -> ExecutionPlan:
    """Plan of the same kernels, optionally launched one at a time, with a copy or a view in
    between.
    """
    builder = ExecutionPlanBuilder(plan.device)
    for number, buffer in enumerate(plan.buffers):
        builder.add_buffer(number, buffer)
    ops = list(plan.prepared_ops)
    for position, op in enumerate(ops):
        assert isinstance(op, PreparedKernel)
        if position == len(ops) // 2 and cut != "nothing":
            source = plan.buffers[op.buffer_indices[0]]
            if cut == "copy":
                other = builder.add_buffer(
                    -1, Buffer(get_allocator("CPU"), source.dtype, source.size)
                )
                builder.add_op(PreparedCopy(100_000, (other, op.buffer_indices[0])))
            else:
                view = builder.add_buffer(-1, source.view(0, 16))
                builder.add_op(PreparedBufferView(100_000, (view, op.buffer_indices[0]), 0, 16))
        kernel = op.kernel if has_launcher else replace(op.kernel, launcher=None)
        builder.add_op(replace(op, kernel=kernel, dependencies=()))
    builder.set_output_buffers(plan.output_indices)
    return builder.build()


def measure_allocation(run: Callable[[], None]) -> tuple[int, int]:
    """Bytes on the Python heap that repeated calls of `run` leave, and their peak meanwhile."""
    for _ in range(3):
        run()
    tracemalloc.start()
    try:
        run()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(N_RUNS):
            run()
        after, peak = tracemalloc.get_traced_memory()
        return after - before, peak - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cut", ["nothing", "copy", "view"])
@pytest.mark.parametrize("has_launcher", [True, False], ids=["one call", "a call for each"])
def test_executing_a_plan_allocates_nothing_for_its_kernels(has_launcher: bool, cut: str):
    used: dict[int, list[tuple[int, int]]] = {}
    for n in (10, 1000):
        _, chain = make_chain(n)
        plan = replan(chain, has_launcher=has_launcher, cut=cut)
        values: Iterator[int] = iter(range(10**9))
        used[n] = [
            measure_allocation(plan.execute),
            measure_allocation(lambda plan=plan: plan.execute_with_vars({"n": 3})),
            measure_allocation(
                lambda plan=plan, values=values: plan.execute_with_vars({"n": next(values) % 10})
            ),
        ]
        plan.execute_with_vars({"n": 2})
        assert plan.output_buffer.as_numpy().tolist() == [i + 2.0 * n for i in range(16)]
    for few, many in zip(used[10], used[1000], strict=True):
        # Allow a few bytes for a float or a frame that the interpreter keeps: 990 kernels would
        # show far more.
        assert many[0] <= few[0] + 200
        assert many[1] <= few[1] + 500


def test_one_plan_run_by_two_threads_with_variables_gives_each_run_one_value():
    x, plan = make_chain(50)
    found: set[tuple[float, ...]] = set()

    def work(value: int) -> None:
        for _ in range(100):
            plan.execute_with_vars({"n": value})
            found.add(tuple(plan.output_buffer.as_numpy().tolist()))

    run_in_threads(lambda: work(2), lambda: work(7))
    # A reader may see the other thread's result, but never a mixture of both.
    assert found <= {tuple(i + 50.0 * value for i in range(16)) for value in (2, 7)}
    assert x.tolist() == list(range(16))


def test_two_plans_with_variables_run_at_once():
    plans = [make_chain(50)[1] for _ in range(2)]

    def work(plan: ExecutionPlan, values: range) -> None:
        for value in values:
            plan.execute_with_vars({"n": value % 10})
            assert plan.output_buffer.as_numpy()[0] == 50.0 * (value % 10)

    run_in_threads(lambda: work(plans[0], range(200)), lambda: work(plans[1], range(200, 0, -1)))


def test_other_python_threads_run_while_a_plan_runs():
    rng = np.random.default_rng(1)
    x = Tensor(rng.standard_normal((384, 384)).astype(np.float32) / 20).realize()
    result = x
    for _ in range(20):
        result = (result @ x).contiguous()
    plan = result.prepare()

    # On a busy machine this thread may get no core while the plan runs, but not every time.
    assert any(count_steps_beside(plan.execute) > 100 for _ in range(100))


def test_threads_realize_and_execute_the_same_and_different_plans_at_once():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((9 + i, 33)).astype(np.float32) for i in range(4)]
    shared = [(Tensor(a) * 2 + 1).sum(axis=1).prepare() for a in arrays]
    same = Tensor(arrays[0]).exp().contiguous() * 3
    step = jit(lambda x, y: (x * y + 1).sum(axis=0))
    big = np.arange(300_000, dtype=np.float32).reshape(3, -1)

    def work(seed: int) -> None:
        own = np.random.default_rng(seed)
        for turn in range(6):
            i = (seed + turn) % len(arrays)
            shared[i].execute()
            np.testing.assert_allclose(
                shared[i].output_buffer.as_numpy(),
                (arrays[i] * 2 + 1).sum(axis=1),
                rtol=1e-4,
                atol=1e-4,
            )
            mine = own.standard_normal(arrays[i].shape).astype(np.float32)
            np.testing.assert_allclose((Tensor(mine) - arrays[i]).numpy(), mine - arrays[i])
            found = step(Tensor(mine), Tensor(arrays[i])).numpy()
            np.testing.assert_allclose(
                found, (mine * arrays[i] + 1).sum(axis=0), rtol=1e-4, atol=1e-4
            )
            # Large enough to be split over the pool's threads.
            assert (Tensor(big) + seed).numpy()[2, -1] == big[2, -1] + seed
        np.testing.assert_allclose(same.numpy(), np.exp(arrays[0]) * 3, rtol=1e-5)

    run_in_threads(*(lambda seed=seed: work(seed) for seed in range(32)))


SCRIPT_HEAD = """\
import os, signal, sys, threading
import numpy as np
from svod_tensor import Tensor, jit
big = np.arange(1 << 20, dtype=np.float32)
x = Tensor(big).realize()
plan = (x * 2 + 1).prepare()
step = jit(lambda x: (x + 1).sum())
def check():
    plan.execute()
    assert np.array_equal(plan.output_buffer.as_numpy(), big * 2 + 1)
    assert (Tensor(big) * 3).numpy()[-1] == big[-1] * 3
    # What has not been compiled before is compiled now.
    assert (Tensor([1.0, 2.0]) ** 2 + os.getpid() % 7).tolist() == [1.0 + os.getpid() % 7, 4.0 + os.getpid() % 7]
    assert step(Tensor([1.0, 2.0])).item() == 5.0
check()
"""


def run_in_process(
    body: str, *, head: str = SCRIPT_HEAD, n_threads: int = 3, is_cached: bool = True
) -> list[str]:
    """Printed words of a script; without `is_cached`, every kernel is compiled in the process."""
    environment = {"SVOD_THREADS": str(n_threads)} | (
        {} if is_cached else {"SVOD_OBJECT_CACHE": "0"}
    )
    return run_script(head + body, environment=environment).split()


has_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@has_fork
def test_the_child_of_a_fork_computes_and_so_do_its_children():
    out = run_in_process("""
for _ in range(3):
    print(run_in_child(lambda: (check(), run_in_child(check))[1]))
check()
""")
    assert out == ["0"] * 3


@has_fork
def test_a_fork_amid_other_threads_work_leaves_a_child_that_computes():
    out = run_in_process(
        """
stop = threading.Event()
def execute():
    while not stop.is_set():
        plan.execute()
def realize():
    n = 0
    while not stop.is_set():
        n += 1
        (Tensor(big[:n % 64 + 1]) * n).realize()
def call():
    while not stop.is_set():
        step(x)
threads = start_threads(execute, realize, call)
for _ in range(10):
    print(run_in_child(check))
stop.set()
for thread in threads:
    thread.join()
check()
""",
        is_cached=False,
    )
    assert out == ["0"] * 10


@has_fork
def test_a_fork_amid_another_threads_first_computation_leaves_a_child_that_computes():
    # Import here what the first computation imports, since the child of a fork shares it.
    out = run_in_process(
        """
import os, signal, threading
from svod_tensor import Tensor, jit
def check():
    assert (Tensor([1.0, 2.0]) ** 2 + 1).sum().item() == 7.0
    assert jit(lambda x: x * 3)(Tensor([1.0, 2.0])).tolist() == [3.0, 6.0]
(thread,) = start_threads(check)
codes = []
while thread.is_alive() and len(codes) < 10:
    codes.append(run_in_child(check))
thread.join()
check()
print(*set(codes))
""",
        head="",
        is_cached=False,
    )
    assert out == ["0"]


@has_fork
def test_worker_processes_made_by_fork_compute():
    out = run_in_process("""
import multiprocessing
def work(value):
    check()
    return (x + value).numpy()[0].item()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(*pool.map(work, range(4)))
check()
""")
    assert out == ["0.0", "1.0", "2.0", "3.0"]


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself SIGINT here")
@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_interrupt_ends_a_long_plan_and_leaves_everything_usable(n_threads: int):
    out = run_in_process(
        """
from svod_tensor import custom_function, register_custom_function
counts = {"begin": 0, "end": 0}
has_begun = threading.Event()
def count(name):
    def function(out, x):
        np.copyto(out, x)
        counts[name] += 1
        has_begun.set()
    return function
for name in counts:
    register_custom_function(name, count(name))
w = Tensor((np.random.default_rng(0).standard_normal((384, 384)) / 20).astype(np.float32)).realize()
y = custom_function("begin", w, outputs=(w.shape, w.dtype))
for _ in range(300):
    y = (y @ w).contiguous()
# The functions tell how far a run came. The plan has all that it writes for itself, so that it may end anywhere.
long_plan = custom_function("end", y, outputs=(w.shape, w.dtype)).prepare()
long_plan.execute()
expected = long_plan.output_buffer.to_bytes()
has_begun.clear()

# A process that was started in the background ignores the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    has_begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    while True:
        long_plan.execute()
except KeyboardInterrupt:
    print("interrupted", counts["begin"] - counts["end"])
thread.join()
check()
long_plan.output_buffer.copyin(bytes(long_plan.output_buffer.nbytes))
long_plan.execute()
print(long_plan.output_buffer.to_bytes() == expected)
""",
        n_threads=n_threads,
    )
    assert out == ["interrupted", "1", "True"]
