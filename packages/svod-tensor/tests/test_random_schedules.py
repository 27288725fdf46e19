"""Schedules drawn at random, on shared and donated memory, compute what they compute on memory of
their own.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import float32, index
from svod_ir import AxisType, UOp
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import buffer, call, param
from svod_runtime import ExecutionPlan
from svod_tensor import PrepareConfig
from svod_tensor.engine.instantiate import instantiate_schedule
from svod_tensor.engine.preschedule import create_pre_schedule
from svod_tensor.engine.uncached import plan_schedule

SIZE = 8


def read_same(memory: UOp, r: UOp) -> UOp:
    return memory.index(r).load()


def read_reversed(memory: UOp, r: UOp) -> UOp:
    return memory.index(SIZE - 1 - r).load()


def read_first(memory: UOp, r: UOp) -> UOp:
    return memory.index(r * 0).load()


def read_both(memory: UOp, r: UOp) -> UOp:
    return read_same(memory, r) + read_reversed(memory, r)


READS = {
    read_same: lambda x: x,
    read_reversed: lambda x: x[::-1],
    read_first: lambda x: x[:1].repeat(SIZE),
    read_both: lambda x: x + x[::-1],
}


def node(number: int) -> UOp:
    return buffer(number, SIZE)


def make_call(target: UOp, sources: list[UOp], reads: list) -> UOp:
    """target[i] = the sum of what is read of each source, + 1."""
    r = UOp.range(SIZE, 0, AxisType.LOOP)
    params = [param(slot, SIZE) for slot in range(len(sources) + 1)]
    value = UOp.const(float32, 1.0)
    for memory, read in zip(params[1:], reads, strict=True):
        value = value + read(memory, r)
    return target.after(call(UOp.sink(params[0].index(r).store(value).end(r)), target, *sources))


def draw_program(random: Random) -> tuple[UOp, dict[int, np.ndarray], list[np.ndarray]]:
    """A kernel graph, the contents of its inputs, and the expected outputs."""
    values = {
        number: np.array([random.randrange(9) for _ in range(SIZE)], np.float32)
        for number in range(1, 4)
    }
    nodes = {number: node(number) for number in values}
    inputs = dict(values)
    for number in range(-1, -random.randrange(3, 9), -1):
        # What was made last is read most, so that programs are deep.
        names = [random.choice([*nodes, *list(nodes)[-3:]]) for _ in range(random.randrange(1, 4))]
        names = list(dict.fromkeys(names))
        reads = [random.choice([read_same, read_same, *READS]) for _ in names]
        nodes[number] = make_call(node(number), [nodes[n] for n in names], reads)
        values[number] = np.float32(1) + sum(
            READS[read](values[n]) for n, read in zip(names, reads, strict=True)
        )
    made = [number for number in nodes if number < 0]
    outputs = random.sample(made, random.randrange(1, min(len(made), 3) + 1))
    return UOp.sink(*(nodes[n] for n in outputs)), inputs, [values[n] for n in outputs]


def wrap(values: np.ndarray) -> Buffer:
    buffer = Buffer(get_allocator("CPU"), float32, SIZE)
    buffer.copyin(values)
    return buffer


@pytest.mark.parametrize("mode", ["arena", "remap", "disabled"])
def test_memory_that_is_shared_or_donated_changes_no_result(mode: str) -> None:
    n_donated, n = 0, count_examples(100)
    for seed in range(n):
        random = Random(f"{mode} {seed}")
        root, contents, expected = draw_program(random)
        inputs = {number: wrap(values) for number, values in contents.items()}
        given = random.sample(sorted(inputs), random.randrange(4))
        schedule = instantiate_schedule(
            create_pre_schedule(root), {node(n): b for n, b in inputs.items()}, {}
        )
        schedule.donated_ids = tuple(given)
        plan = plan_schedule(schedule, PrepareConfig(memory_planner=mode, opts=()))
        plan.execute()
        n_donated += plan.memory_report.n_donated
        for output, values in zip(plan.output_buffers, expected, strict=True):
            assert output.as_numpy().tolist() == values.tolist(), f"seed {seed}"
        for number in set(inputs) - set(given):
            assert inputs[number].as_numpy().tolist() == contents[number].tolist(), f"seed {seed}"
    assert n_donated > n // 2


@pytest.mark.parametrize("mode", ["arena", "remap", "disabled"])
def test_an_output_waits_for_all_readers_of_the_memory_that_it_reuses(mode: str) -> None:
    x, y = np.arange(SIZE, dtype=np.float32), np.full(SIZE, 7, np.float32)
    inputs = {node(1): wrap(x), node(2): wrap(y)}
    early = make_call(node(-4), [node(2)], [read_reversed])
    chain = make_call(node(-2), [make_call(node(-1), [node(2)], [read_same])], [read_same])
    late = make_call(node(-3), [node(1), chain], [read_reversed, read_same])
    schedule = instantiate_schedule(create_pre_schedule(UOp.sink(early, late)), inputs, {})
    schedule.donated_ids = (1,)
    plan = plan_schedule(schedule, PrepareConfig(memory_planner=mode, opts=()))
    assert plan.output_buffer_at(0) is inputs[node(1)]
    plan.execute()
    assert [b.as_numpy().tolist() for b in plan.output_buffers] == [
        (y + 1).tolist(),
        (x[::-1] + y + 3).tolist(),
    ]


@pytest.mark.parametrize(
    ("sources", "n_donated"), [([1, 2, 3], 2), ([1, 1, 1], 1), ([3, 1, 2, 1], 2), ([3], 0)]
)
def test_each_donated_buffer_is_taken_by_one_output(sources: list[int], n_donated: int) -> None:
    contents = {n: np.arange(SIZE, dtype=np.float32) * n for n in (1, 2, 3)}
    inputs = {node(n): wrap(values) for n, values in contents.items()}
    outputs = [make_call(node(-1 - i), [node(n)], [read_same]) for i, n in enumerate(sources)]
    schedule = instantiate_schedule(create_pre_schedule(UOp.sink(*outputs)), inputs, {})
    schedule.donated_ids = (1, 2)
    plan = plan_schedule(schedule, PrepareConfig(opts=()))
    assert plan.memory_report.n_donated == n_donated
    assert len({b.storage_id for b in plan.output_buffers}) == len(sources)
    plan.execute()
    assert [b.as_numpy().tolist() for b in plan.output_buffers] == [
        (contents[n] + 1).tolist() for n in sources
    ]


def prepare(root: UOp, inputs: dict[UOp, Buffer], donated: tuple[int, ...]) -> ExecutionPlan:
    schedule = instantiate_schedule(create_pre_schedule(root), inputs, {})
    schedule.donated_ids = donated
    return plan_schedule(schedule, PrepareConfig(opts=()))


def test_an_input_that_the_schedule_writes_keeps_the_new_data() -> None:
    x, y = np.arange(SIZE, dtype=np.float32), np.full(SIZE, 7, np.float32)
    inputs = {node(1): wrap(x), node(2): wrap(y)}
    written = make_call(node(1), [node(2)], [read_same])
    plan = prepare(UOp.sink(make_call(node(-1), [written], [read_same])), inputs, (1,))
    plan.execute()
    assert plan.memory_report.n_donated == 0
    assert inputs[node(1)].as_numpy().tolist() == (y + 1).tolist()
    assert plan.output_buffers[0].as_numpy().tolist() == (y + 2).tolist()


def test_a_kernel_of_two_results_overwrites_none_of_its_inputs() -> None:
    x = np.arange(SIZE, dtype=np.float32)
    first, second, source = (param(slot, SIZE) for slot in range(3))
    r, s = (UOp.range(SIZE, n, AxisType.LOOP) for n in range(2))
    stores = (
        first.index(r).store(read_same(source, r) + 1.0).end(r),
        second.index(s).store(read_reversed(source, s)).end(s),
    )
    both = call(UOp.sink(*stores), node(-1), node(-2), node(1))
    plan = prepare(UOp.sink(node(-1).after(both), node(-2).after(both)), {node(1): wrap(x)}, (1,))
    plan.execute()
    assert [b.as_numpy().tolist() for b in plan.output_buffers] == [
        (x + 1).tolist(),
        x[::-1].tolist(),
    ]


def test_a_buffer_with_several_stores_aliases_no_input() -> None:
    out, source = (param(slot, SIZE) for slot in range(2))
    r, first = UOp.range(SIZE, 0, AxisType.LOOP), UOp.const(index, 0)
    body = UOp.sink(out.index(first).store(source.index(first).load() + 1.0).end(r))
    filled = node(-1).after(call(body, node(-1), node(1)))
    plan = prepare(UOp.sink(filled), {node(1): wrap(np.ones(SIZE, np.float32))}, (1,))
    plan.execute()
    assert plan.memory_report.n_donated == 0
    assert plan.output_buffers[0].as_numpy()[0] == 2
