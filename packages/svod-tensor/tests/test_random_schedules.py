"""Schedules drawn at random, on shared and donated memory, compute what they compute on memory of their own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import float32, void
from svod_ir.args import BufferArg, ParamArg
from svod_ir.ops import AxisType, Op
from svod_ir.testing import count_examples
from svod_ir.uop import UOp
from svod_tensor import PrepareConfig
from svod_tensor.prepare import prepare_plan
from svod_tensor.preschedule import create_pre_schedule
from svod_tensor.schedule import instantiate_schedule

SIZE = 8


def read_same(param: UOp, r: UOp) -> UOp:
    return param.index(r).load()


def read_reversed(param: UOp, r: UOp) -> UOp:
    return param.index(SIZE - 1 - r).load()


def read_first(param: UOp, r: UOp) -> UOp:
    return param.index(r * 0).load()


def read_both(param: UOp, r: UOp) -> UOp:
    return read_same(param, r) + read_reversed(param, r)


READS = {
    read_same: lambda x: x,
    read_reversed: lambda x: x[::-1],
    read_first: lambda x: x[:1].repeat(SIZE),
    read_both: lambda x: x + x[::-1],
}


def node(number: int) -> UOp:
    return UOp(Op.BUFFER, float32, (), BufferArg(number, SIZE, "CPU"))


def make_call(target: UOp, sources: list[UOp], reads: list) -> UOp:
    """target[i] = the sum of what is read of each source, + 1."""
    r = UOp.range(SIZE, 0, AxisType.LOOP)
    params = [UOp(Op.PARAM, float32, (), ParamArg(slot, SIZE)) for slot in range(len(sources) + 1)]
    value = UOp.const(float32, 1.0)
    for param, read in zip(params[1:], reads, strict=True):
        value = value + read(param, r)
    return target.after(UOp(Op.CALL, void, (UOp.sink(params[0].index(r).store(value).end(r)), target, *sources)))


def draw_program(random: Random) -> tuple[UOp, dict[int, np.ndarray], list[np.ndarray]]:
    """A kernel graph, the contents of its inputs, and the expected outputs."""
    values = {number: np.array([random.randrange(9) for _ in range(SIZE)], np.float32) for number in range(1, 4)}
    nodes = {number: node(number) for number in values}
    inputs = dict(values)
    for number in range(-1, -random.randrange(3, 9), -1):
        # What was made last is read most, so that programs are deep.
        names = [random.choice([*nodes, *list(nodes)[-3:]]) for _ in range(random.randrange(1, 4))]
        names = list(dict.fromkeys(names))
        reads = [random.choice([read_same, read_same, *READS]) for _ in names]
        nodes[number] = make_call(node(number), [nodes[n] for n in names], reads)
        values[number] = np.float32(1) + sum(READS[read](values[n]) for n, read in zip(names, reads, strict=True))
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
        schedule = instantiate_schedule(create_pre_schedule(root), {node(n): b for n, b in inputs.items()}, {})
        schedule.donated_ids = tuple(given)
        plan = prepare_plan(schedule, PrepareConfig(memory_planner=mode, opts=()))
        plan.execute()
        n_donated += plan.memory_report.n_donated
        for output, values in zip(plan.output_buffers, expected, strict=True):
            assert output.as_numpy().tolist() == values.tolist(), f"seed {seed}"
        for number in set(inputs) - set(given):
            assert inputs[number].as_numpy().tolist() == contents[number].tolist(), f"seed {seed}"
    assert n_donated > n // 2
