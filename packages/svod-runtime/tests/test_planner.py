"""Memory planning: disjoint live ranges share memory, and results do not change."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from svod_ir.testing import count_examples
from svod_runtime import (
    ExecutionPlan,
    PlannerMode,
    PreparedBufferView,
    PreparedCustomFunction,
    register_custom_function,
)

if TYPE_CHECKING:
    from conftest import Plans

SHARED = pytest.mark.parametrize("mode", ["arena", "remap"])
ALL = pytest.mark.parametrize("mode", ["arena", "remap", "disabled"])


def plan_chain(plans: Plans, n: int, mode: PlannerMode) -> ExecutionPlan:
    last = plans.buffer(256)
    for _ in range(n):
        source, last = last, plans.intermediate(256)
        plans.op(plans.kernel(plans.add_one, [last], [source]))
    return plans.plan(mode, last)


@SHARED
def test_a_chain_needs_two_intermediates_however_long_it_is(
    plans: Plans, mode: PlannerMode
) -> None:
    plan = plan_chain(plans, 10, mode)
    report = plan.memory_report
    assert report.n_buffers == 9
    assert report.bytes_before == 9 * 1024
    assert report.bytes_after == report.lower_bound == 2 * 1024
    assert report.bytes_saved == 7 * 1024
    # Equal buffers have one index: the input, the output, and two between them.
    assert len(plan.buffers) == 4
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [10.0] * 256


def test_disabled_changes_nothing(plans: Plans) -> None:
    plan = plan_chain(plans, 5, "disabled")
    assert plan.memory_report.bytes_saved == 0
    assert len({buffer.storage_id for buffer in plan.buffers}) == len(plan.buffers) == 6


def test_without_a_planner_each_buffer_keeps_its_index(plans: Plans) -> None:
    x = plans.buffer()
    first, second, out = plans.view(x, 0, 4), plans.view(x, 0, 4), plans.intermediate()
    plans.op(plans.kernel(plans.fill(1), [out], [first, second]))
    plans.builder.set_output_buffers([out])
    plan = plans.builder.build_template(plans.buffers[:1]).bind(plans.buffers[:1])
    assert plan.prepared_ops[0].buffer_indices == (out, first, second)
    assert len(plan.buffers) == 4


def add(out: Any, *sources: Any) -> None:
    # A kernel sees as much as its smallest buffer holds, so only the first four elements of a
    # source are sure to be written.
    out[:] = np.resize((1 + sum(source[:4] for source in sources)) % 1009, out.size)


def draw_plan(plans: Plans, seed: int, mode: PlannerMode) -> tuple[ExecutionPlan, list[float]]:
    """Plan of random kernels with long and short live ranges, and an element of each output."""
    generator = random.Random(seed)
    values = {plans.buffer(8, n): n for n in range(1, 4)}
    for _ in range(generator.randrange(3, 25)):
        sources = {generator.choice([*values][-4:]), generator.choice([*values])}
        out = plans.intermediate(generator.choice([4, 8, 8, 40]))
        facts = generator.choice(
            [{}, {"n_operations": 1 << 20}, {"is_safe": False}, {"global_size": (2, 1, 1)}]
        )
        plans.op(plans.kernel(add, [out], list(sources), **facts))
        values[out] = (1 + sum(values[s] for s in sources)) % 1009
    outputs = generator.sample([*values][3:], 3)
    return plans.plan(mode, *outputs), [values[output] for output in outputs]


@ALL
def test_ops_on_shared_memory_compute_what_they_do_on_memory_of_their_own(
    new_plans: type[Plans], mode: PlannerMode
) -> None:
    n_saved = 0
    for seed in range(count_examples(60)):
        plans = new_plans()
        plan, expected = draw_plan(plans, seed, mode)
        for _ in range(2):
            plan.execute()
            assert [b.as_numpy()[:4].tolist() for b in plan.output_buffers] == [
                [v] * 4 for v in expected
            ], f"seed {seed}"
        assert [plans.read(index) for index in range(3)] == [[float(n)] * 8 for n in range(1, 4)]
        n_saved += plan.memory_report.bytes_saved
    assert (n_saved > 0) == (mode != "disabled")


@SHARED
def test_bytes_are_shared_only_by_disjoint_live_ranges(
    new_plans: type[Plans], mode: PlannerMode
) -> None:
    n_beside = 0
    for seed in range(count_examples(60)):
        plan, expected = draw_plan(new_plans(), seed, mode)
        # A fork has memory of its own, shared in the same way.
        for chosen in (plan, plan.fork()):
            assert chosen.levels == plan.levels
            for level in chosen.levels:
                n_beside += len(level) - 1
                for index in random.Random(seed).sample(level, len(level)):
                    op = chosen.prepared_ops[index]
                    op.kernel.program(
                        [chosen.buffers[i].address for i in op.buffer_indices], (), (1, 1, 1)
                    )
            found = [b.as_numpy()[:4].tolist() for b in chosen.output_buffers]
            assert found == [[value] * 4 for value in expected], f"seed {seed}"
    assert n_beside > 0


@ALL
def test_views_keep_their_own_index(plans: Plans, mode: PlannerMode) -> None:
    x = plans.buffer(4, 2)
    whole, again, out = plans.view(x, 0, 4), plans.view(x, 0, 4), plans.intermediate()
    for op_id, view in ((60, whole), (61, again)):
        plans.op(PreparedBufferView(op_id, (view, x), 0, 16))
    plans.op(plans.kernel(add, [out], [whole, again]))
    plan = plans.plan(mode, out, whole, again)
    views = [op.buffer_indices for op in plan.prepared_ops if isinstance(op, PreparedBufferView)]
    assert len({index for pair in views for index in pair}) == 3
    assert len({plan.ast_to_buffer[100 + index] for index in (x, whole, again)}) == 3
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [5.0] * 4
    assert [b.storage_id for b in plan.output_buffers[1:]] == [plans.buffers[x].storage_id] * 2


@SHARED
def test_inputs_and_outputs_share_no_memory(plans: Plans, mode: PlannerMode) -> None:
    plan, _ = draw_plan(plans, 3, mode)
    kept = [*plans.buffers[:3], *plan.output_buffers]
    used = {i for op in plan.prepared_ops for i in op.buffer_indices}
    for buffer in kept:
        assert [
            b for b in (plan.buffers[i] for i in used) if b is not buffer and b.overlaps(buffer)
        ] == []


@ALL
def test_readers_wait_for_custom_functions(plans: Plans, mode: PlannerMode) -> None:
    def bump(buffers: Any, variables: Any, operands: Any) -> None:
        for buffer in buffers:
            buffer.as_numpy()[:] += 1

    register_custom_function("bump", bump)
    x, mid, late, out = (
        plans.buffer(4, 5),
        plans.intermediate(),
        plans.intermediate(),
        plans.intermediate(),
    )
    plans.op(plans.kernel(plans.fill(0), [mid], is_safe=False))
    plans.op(PreparedCustomFunction(90, "bump", (mid, x)))
    plans.op(plans.kernel(plans.add_one, [late], [x], is_safe=False))
    plans.op(plans.kernel(add, [out], [late, mid], is_safe=False))
    plan = plans.plan(mode, out)
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [1 + 7 + 1] * 4


@SHARED
def test_donated_memory_holds_intermediates_between_its_last_reader_and_its_output(
    plans: Plans, mode: PlannerMode
) -> None:
    x = plans.buffer(8, 1)
    a, b, c = (plans.intermediate(8) for _ in range(3))
    out = plans.add(plans.buffers[x])
    for target, source in ((a, x), (b, a), (c, b), (out, c)):
        plans.op(plans.kernel(plans.add_one, [target], [source]))
    plans.builder.set_donated_buffers([x], {out: x})
    plan = plans.plan(mode, out)
    report = plan.memory_report
    assert (report.n_buffers, report.n_donated, report.bytes_donated) == (3, 1, 32)
    # The second one lies where the input was, and the third one where the first was.
    assert report.bytes_after == {"arena": 64, "remap": 32}[mode]
    assert plan.output_buffers[0] is plan.buffer(100 + b) is plans.buffers[x]
    plan.execute()
    assert plans.read(x) == [5.0] * 8


@SHARED
def test_inputs_of_the_writer_do_not_take_donated_memory(plans: Plans, mode: PlannerMode) -> None:
    x = plans.buffer(8, 1)
    a, b = (plans.intermediate(8) for _ in range(2))
    out = plans.add(plans.buffers[x])
    for target, source in ((a, x), (b, a), (out, b)):
        plans.op(plans.kernel(plans.add_one, [target], [source]))
    plans.builder.set_donated_buffers([x], {out: x})
    plan = plans.plan(mode, out)
    assert not plan.buffer(100 + b).overlaps(plans.buffers[x])
    plan.execute()
    assert plans.read(x) == [4.0] * 8


@SHARED
def test_donated_memory_that_no_kernel_reads_holds_intermediates_from_the_beginning(
    plans: Plans, mode: PlannerMode
) -> None:
    x, y = plans.buffer(8, 1), plans.buffer(8, 2)
    a, b = plans.intermediate(8), plans.intermediate(8)
    out = plans.add(plans.buffers[x])
    for target, source in ((a, y), (b, a), (out, b)):
        plans.op(plans.kernel(plans.add_one, [target], [source]))
    plans.builder.set_donated_buffers([x], {out: x})
    plan = plans.plan(mode, out)
    assert plan.buffer(100 + a) is plans.buffers[x]
    plan.execute()
    assert plans.read(x) == [5.0] * 8


@SHARED
def test_no_intermediate_lies_in_memory_that_its_output_still_reads(
    plans: Plans, mode: PlannerMode
) -> None:
    x = plans.buffer(8, 1)
    a, b, c = (plans.intermediate(8) for _ in range(3))
    out = plans.add(plans.buffers[x])
    for target, source in ((a, x), (b, a), (c, b)):
        plans.op(plans.kernel(plans.add_one, [target], [source]))
    in_place = plans.kernel(lambda out, source: out.__iadd__(source), [out], [c])
    spec = replace(in_place.kernel.spec, ins=(0, 1))
    plans.op(replace(in_place, kernel=replace(in_place.kernel, spec=spec)))
    plans.builder.set_donated_buffers([x], {out: x})
    plan = plans.plan(mode, out)
    plan.execute()
    assert plans.read(x) == [5.0] * 8


def test_planning_is_logged_with_what_it_saved_and_how_long_it_took(
    plans: Plans, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "svod.runtime"):
        plan_chain(plans, 10, "arena")
    (line,) = (
        record.getMessage() for record in caplog.records if "memory.planned" in record.getMessage()
    )
    assert "buffers=9" in line
    assert "bytes_saved=7168" in line
    assert "lower_bound=2048" in line
    assert "elapsed_us=" in line
