"""The thread pool and the launcher: every part runs once, whatever the threads, forks and callers
do.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from svod_codegen.launcher import CpuBatchLauncher, CpuProgram, Pool
from svod_codegen.launcher.ir import Parking, PoolLayout, make_launcher_ir
from svod_codegen.launcher.pool import get_parking
from svod_codegen.llvm.cached import default_compiler
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.target import get_machine
from svod_device import CompiledSpec, Launch
from svod_ir.testing import count_steps_beside, run_script

ADD_AT_PART = """\
define void @add_at_part(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
  %data = load ptr, ptr %buffers
  %n = load i64, ptr %values
  %at = getelementptr i64, ptr %data, i64 %core_id
  %old = load i64, ptr %at
  %new = add i64 %old, %n
  store i64 %new, ptr %at
  ret void
}
"""
"""data[core_id] += n, not atomic: a part that ran twice at once or not at all shows."""

COPY_SHIFTED = """\
define void @copy_shifted(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
  %to = load ptr, ptr %buffers
  %from_at = getelementptr ptr, ptr %buffers, i64 1
  %from = load ptr, ptr %from_at
  %n = load i64, ptr %values
  %next = add i64 %core_id, 1
  %source = urem i64 %next, %n
  %source_at = getelementptr i64, ptr %from, i64 %source
  %value = load i64, ptr %source_at
  %to_at = getelementptr i64, ptr %to, i64 %core_id
  store i64 %value, ptr %to_at
  ret void
}
"""
"""to[core_id] = from[(core_id + 1) % n]: reads what another part wrote in the launch before."""

SPIN = """\
define void @spin(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %n = load i64, ptr %values
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void asm sideeffect "", ""()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

WAIT_FOR_ALL = """\
define void @wait_for_all(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %count = load ptr, ptr %buffers
  %n_others = load i64, ptr %values
  %patience_at = getelementptr i64, ptr %values, i64 1
  %patience = load i64, ptr %patience_at
  %first = icmp eq i64 %core_id, 0
  br i1 %first, label %wait, label %report
report:
  %before = atomicrmw add ptr %count, i64 1 acq_rel
  br label %done
wait:
  %i = phi i64 [0, %entry], [%next, %pause]
  %n = load atomic i64, ptr %count acquire, align 8
  %all = icmp eq i64 %n, %n_others
  br i1 %all, label %found, label %pause
pause:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %patience
  br i1 %more, label %wait, label %done
found:
  %found_at = getelementptr i64, ptr %count, i64 1
  store i64 1, ptr %found_at
  br label %done
done:
  ret void
}
"""
"""count[1] = 1 if all other parts of the launch end while part 0 runs."""


def load(source: str, name: str) -> CpuProgram:
    return CpuProgram.load(CompiledSpec(name, binary=default_compiler().compile_source(source)))


@dataclass(frozen=True)
class Kernels:
    add: CpuProgram
    shift: CpuProgram
    spin: CpuProgram


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(
        load(ADD_AT_PART, "add_at_part"), load(COPY_SHIFTED, "copy_shifted"), load(SPIN, "spin")
    )


PARKINGS: list[Parking] = ["none", "condition", "futex"]


@pytest.fixture(
    params=[(parking, n) for parking in PARKINGS for n in (1, 2, 4)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    parking, n_threads = request.param
    if parking == "condition" and get_parking() == "none":
        pytest.skip("no pthreads here")
    if parking == "futex" and get_parking() != "futex":
        pytest.skip("no futex here")
    pool = Pool(n_threads, parking=parking)
    yield pool
    pool.stop()


def launch(
    program: CpuProgram,
    buffers: list[array[int]],
    values: list[int],
    n_parts: int = 1,
    group: int = 0,
) -> Launch:
    addresses = array("Q", [buffer.buffer_info()[0] for buffer in buffers])
    return Launch(program, addresses, array("q", values), (n_parts, 1, 1), None, group)


def zeros(n: int) -> array[int]:
    return array("q", [0]) * n


def test_every_part_runs_once(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    for n_parts in (1, 2, 3, 7, 64, 1000):
        data = zeros(n_parts + 1)
        launcher.run(launcher.make_table([launch(kernels.add, [data], [5], n_parts)]))
        assert data.tolist() == [5] * n_parts + [0]


def test_other_threads_run_the_parts_of_one_that_is_slow():
    program = load(WAIT_FOR_ALL, "wait_for_all")
    for n_threads in (2, 3):
        pool = Pool(n_threads)
        if pool.parking == "none":
            pytest.skip("no threads here")
        try:
            launcher = CpuBatchLauncher(pool)
            for n_parts in (2, 3, 8, 61):
                data = zeros(2)
                launcher.run(
                    launcher.make_table([launch(program, [data], [n_parts - 1, 10**9], n_parts)])
                )
                assert data.tolist() == [n_parts - 1, 1]
        finally:
            pool.stop()


def test_a_table_runs_again_with_new_values_and_buffers(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    first, second = zeros(8), zeros(8)
    one = launch(kernels.add, [first], [1], 8)
    table = launcher.make_table([one])
    launcher.run(table)
    one.values[0] = 10
    launcher.run(table)
    one.buffers[0] = second.buffer_info()[0]
    launcher.run(table)
    assert first.tolist() == [11] * 8
    assert second.tolist() == [10] * 8


def test_a_launch_sees_all_that_earlier_groups_wrote(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    n = 13
    left, right = array("q", range(n)), zeros(n)
    launches = []
    for group in range(2 * n):
        buffers = [right, left] if group % 2 == 0 else [left, right]
        launches.append(launch(kernels.shift, buffers, [n], n, group))
    table = launcher.make_table(launches)
    for _ in range(50):
        launcher.run(table)
        assert left.tolist() == list(range(n))


def test_launches_of_one_group_all_run_once(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    buffers = [zeros(9) for _ in range(6)]
    parts = [1, 5, 1, 9, 2, 1]
    launches = [
        launch(kernels.add, [b], [i + 1], n, 0)
        for i, (b, n) in enumerate(zip(buffers, parts, strict=True))
    ]
    after = zeros(4)
    launches += [launch(kernels.add, [after], [3], 4, 1), launch(kernels.add, [after], [4], 1, 2)]
    table = launcher.make_table(launches)
    for _ in range(20):
        launcher.run(table)
    expected = [[20 * (i + 1)] * n + [0] * (9 - n) for i, n in enumerate(parts)]
    assert [buffer.tolist() for buffer in buffers] == expected
    assert after.tolist() == [140, 60, 60, 60]


def test_single_part_launches_of_one_group_all_run_once(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    buffers = [zeros(1) for _ in range(40)]
    table = launcher.make_table([launch(kernels.add, [buffer], [1]) for buffer in buffers])
    for _ in range(30):
        launcher.run(table)
    assert [buffer[0] for buffer in buffers] == [30] * 40


def test_many_regions_in_a_row_lose_no_part(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    data = zeros(5)
    table = launcher.make_table(
        [launch(kernels.add, [data], [1], 5, group) for group in range(100)]
    )
    for _ in range(100):
        launcher.run(table)
    assert data.tolist() == [10_000] * 5


def test_workers_that_sleep_wake_for_the_next_launch(pool: Pool, kernels: Kernels):
    launcher = CpuBatchLauncher(pool)
    data = zeros(4)
    table = launcher.make_table([launch(kernels.add, [data], [1], 4)])
    for _ in range(10):
        launcher.run(table)
        wait_until(lambda: pool.n_sleeping == pool.n_workers)
    assert data.tolist() == [10] * 4


def wait_until(condition: object) -> None:
    """Let other threads work until the condition holds; give up after far more time than it
    takes.
    """
    tick = threading.Event()
    for _ in range(100_000):
        if condition():  # type: ignore[operator]
            return
        tick.wait(0.002)
    pytest.fail("workers did not fall asleep")


def test_workers_start_with_the_first_parallel_launch_and_end_with_stop(kernels: Kernels):
    pool = Pool(3)
    launcher = CpuBatchLauncher(pool)
    data = zeros(4)
    launcher.run(launcher.make_table([launch(kernels.add, [data], [1], 1)]))
    assert pool.n_workers == 0
    table = launcher.make_table([launch(kernels.add, [data], [1], 4)])
    for _ in range(3):
        launcher.run(table)
        assert pool.n_workers == (0 if pool.parking == "none" else 2)
        pool.stop()
        assert pool.n_workers == 0
    assert data.tolist() == [4, 3, 3, 3]


def test_stopping_twice_or_without_workers_does_nothing():
    pool = Pool(2)
    pool.stop()
    pool.stop()


def test_launches_from_several_python_threads_at_once_all_run(kernels: Kernels):
    pool = Pool(3)
    launcher = CpuBatchLauncher(pool)
    results = [zeros(6) for _ in range(4)]

    def work(data: array[int]) -> None:
        table = launcher.make_table(
            [launch(kernels.add, [data], [1], 6, group) for group in range(20)]
        )
        for _ in range(100):
            launcher.run(table)

    threads = [threading.Thread(target=work, args=(data,)) for data in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.stop()
    assert [data.tolist() for data in results] == [[2000] * 6] * 4


def test_a_launch_that_finds_the_pool_busy_runs_its_parts_itself(kernels: Kernels):
    pool = Pool(2)
    launcher = CpuBatchLauncher(pool)
    table = launcher.make_table([launch(kernels.spin, [zeros(1)], [1 << 26], 2)])
    thread = threading.Thread(target=launcher.run, args=(table,))
    thread.start()
    data = zeros(8)
    launcher.run(launcher.make_table([launch(kernels.add, [data], [1], 8)]))
    assert data.tolist() == [1] * 8
    thread.join()
    pool.stop()


def test_python_runs_on_while_a_kernel_runs(kernels: Kernels):
    stop = launch(kernels.spin, [zeros(1)], [20_000_000])
    launcher = CpuBatchLauncher(Pool(1))
    table = launcher.make_table([stop])

    # On a busy machine this thread may get no core while the kernel has one, but not each time.
    assert any(count_steps_beside(lambda: launcher.run(table)) > 100 for _ in range(100))


def test_a_program_is_called_with_addresses_and_values(kernels: Kernels):
    data = zeros(6)
    kernels.add([data.buffer_info()[0]], [7], (1, 1, 1))
    kernels.add([data.buffer_info()[0]], [2], (5, 1, 1), None)
    assert data.tolist() == [9, 2, 2, 2, 2, 0]
    assert kernels.add.name == "add_at_part"
    assert isinstance(kernels.add.entry, int)


@pytest.mark.parametrize("n_parts", [1, 5])
def test_a_timed_call_runs_the_program_and_leaves_pythons_part_out(kernels: Kernels, n_parts: int):
    data = zeros(6)
    started = time.perf_counter_ns()
    elapsed = kernels.add.timed_call([data.buffer_info()[0]], [7], (n_parts, 1, 1))
    assert 0 <= elapsed < time.perf_counter_ns() - started
    assert data.tolist() == [7] * n_parts + [0] * (6 - n_parts)


def test_a_table_keeps_its_programs_and_arrays_alive(kernels: Kernels):
    launcher = CpuBatchLauncher(Pool(1))
    data = zeros(1)
    table = launcher.make_table([launch(load(ADD_AT_PART, "add_at_part"), [data], [3])])
    junk = [bytes(100) for _ in range(1000)]
    launcher.run(table)
    assert data[0] == 3
    del junk


def test_a_program_without_an_entry_cannot_be_in_a_table(kernels: Kernels):
    class Called:
        name = "called"
        entry = None

        def __call__(self, *_: object) -> None: ...

    with pytest.raises(ValueError, match="'called' has no native entry"):
        CpuBatchLauncher().make_table([launch(Called(), [], [])])  # type: ignore[arg-type]


def test_a_foreign_table_is_refused():
    with pytest.raises(TypeError, match="not a table of this launcher"):
        CpuBatchLauncher().run([])


@pytest.mark.parametrize(
    ("machine", "system", "parking"),
    [
        ("x86_64", "linux", "futex"),
        ("x86_64", "linux", "condition"),
        ("aarch64", "linux", "futex"),
        ("aarch64", "darwin", "condition"),
        ("x86_64", "win32", "none"),
        ("riscv64", "linux", "condition"),
    ],
)
def test_the_launchers_ir_has_no_open_placeholders(machine: str, system: str, parking: Parking):
    text = make_launcher_ir(machine, system, parking)
    assert "${" not in text
    if machine == get_machine():
        assert compile_ir(text)


def test_words_that_different_threads_write_are_on_different_cache_lines():
    shared = [
        PoolLayout.SEQUENCE,
        PoolLayout.QUEUES,
        PoolLayout.UNFINISHED,
        PoolLayout.SLEEPERS,
        PoolLayout.BUSY,
    ]
    assert len({offset // 64 for offset in shared}) == len(shared)


SCRIPT_HEAD = f"""\
import os, sys
from array import array
from svod_codegen.launcher import CpuBatchLauncher, CpuProgram, get_pool
from svod_codegen.llvm.cached import default_compiler
from svod_device._protocols import Launch
from svod_device._spec import CompiledSpec
source = {ADD_AT_PART!r}
program = CpuProgram.load(CompiledSpec("add_at_part", binary=default_compiler().compile_source(source)))
launcher = CpuBatchLauncher()
data = array("q", [0]) * 4
def run():
    addresses = array("Q", [data.buffer_info()[0]])
    table = launcher.make_table([Launch(program, addresses, array("q", [1]), (4, 1, 1), None, 0)])
    for _ in range(200):
        launcher.run(table)
"""


def run_in_process(body: str) -> str:
    return run_script(SCRIPT_HEAD + body, environment={"SVOD_THREADS": "3"})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_has_workers_of_its_own():
    out = run_in_process("""
run()
def work():
    before = get_pool().n_workers
    run()
    assert run_in_child(lambda: (run(), data.tolist() != [600] * 4)[1]) == 0
    return not (data.tolist() == [400] * 4 and before == 0 and get_pool().n_workers == 2)
for _ in range(10):
    print(run_in_child(work))
run()
print(data.tolist())
""")
    assert out.split("\n") == ["0"] * 10 + ["[400, 400, 400, 400]", ""]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_launches_leaves_a_pool_that_works():
    out = run_in_process("""
import threading
stop = threading.Event()
def load():
    other = array("q", [0]) * 64
    table = launcher.make_table([Launch(program, array("Q", [other.buffer_info()[0]]), array("q", [1]), (64, 1, 1), None, 0)])
    while not stop.is_set():
        launcher.run(table)
(thread,) = start_threads(load)
for _ in range(20):
    print(run_in_child(lambda: (run(), data.tolist() != [200] * 4)[1]))
stop.set()
thread.join()
""")
    assert out.split() == ["0"] * 20


def test_a_process_ends_with_workers_asleep_or_at_work():
    assert run_in_process("run()\nprint(get_pool().n_workers)\n").split() == ["2"]
    run_in_process("""
import threading
def forever():
    while True:
        run()
threading.Thread(target=forever, daemon=True).start()
run()
""")


def test_the_thread_count_comes_from_the_environment():
    assert run_in_process("print(get_pool().n_threads)\n").split() == ["3"]


def test_a_warm_cache_needs_no_llvm():
    run_in_process("run()\n")
    if get_parking() == "futex" and get_machine() == "x86_64":
        assert run_in_process("run()\nprint('llvmlite.binding' in sys.modules)\n").split() == [
            "False"
        ]
