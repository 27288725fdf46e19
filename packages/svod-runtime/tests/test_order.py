"""Order of independent branches: sequential for threaded kernels, concurrent for single-core
kernels.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from svod_runtime import ExecutionPlan
from svod_runtime.kernels.grouping import Load, group_loads
from svod_runtime.memory.order import _Graph, _sort_by_growth

if TYPE_CHECKING:
    from conftest import Plans

ALL_CORES: dict[str, Any] = {"n_operations": 1 << 30, "global_size": (2, 1, 1)}
ONE_CORE: dict[str, Any] = {"n_operations": 1 << 30}
TOO_SMALL: dict[str, Any] = {"n_operations": 1, "n_bytes": 1}
NEVER_BESIDE: dict[str, Any] = {"is_safe": False}


def plan_branches(
    plans: Plans, n: int, facts: dict[str, Any], *, is_by_step: bool = False
) -> ExecutionPlan:
    """Plan of `n` branches, each with two large results and a small one, and their sum."""
    x = plans.buffer(256)
    branches = [
        (plans.intermediate(256), plans.intermediate(256), plans.intermediate(1)) for _ in range(n)
    ]
    steps = [[(a, x), (b, a), (end, b)] for a, b, end in branches]
    for pairs in zip(*steps, strict=True) if is_by_step else steps:
        for out, source in pairs:
            plans.op(plans.kernel(plans.add_one, [out], [source], **facts))
    total = branches[0][2]
    for *_, end in branches[1:]:
        new = plans.intermediate(1)
        plans.op(
            plans.kernel(
                lambda out, a, b: out.__setitem__(0, a[0] + b[0]), [new], [total, end], **facts
            )
        )
        total = new
    return plans.plan("arena", total)


def test_branches_of_threaded_kernels_run_sequentially(plans: Plans) -> None:
    report = plan_branches(plans, 20, ALL_CORES).memory_report
    assert report.bytes_after <= 2 * 1024 + 20 * 64
    assert report.bytes_before == 20 * 2048 + 38 * 4


def test_branches_of_single_core_kernels_are_all_live(plans: Plans) -> None:
    assert plan_branches(plans, 20, ONE_CORE).memory_report.bytes_after >= 20 * 1024


def test_branches_listed_step_by_step_run_sequentially(plans: Plans) -> None:
    # Nobody's order is right: as listed, all branches are alive at once, and so they are as early
    # as possible.
    assert (
        plan_branches(plans, 20, ALL_CORES, is_by_step=True).memory_report.bytes_after
        <= 3 * 1024 + 20 * 64
    )


@given(st.randoms(use_true_random=False), st.integers(2, 12))
def test_the_unit_with_the_least_growth_comes_first(random: random.Random, n: int) -> None:
    predecessors = [
        {p for p in range(max(0, unit - 4), unit) if random.random() < 0.4} for unit in range(n)
    ]
    # What a unit makes is needed by those that come after it; all sums of sizes differ.
    users = [{unit, *(u for u in range(n) if unit in predecessors[u])} for unit in range(n)]
    sizes = [1 << random.randrange(3 * n) for _ in range(n)]
    order = _sort_by_growth(_Graph(predecessors, sizes, users))
    assert sorted(order) == list(range(n))

    def growth(unit: int, done: set[int]) -> int:
        taken = sum(s for s, u in zip(sizes, users, strict=True) if unit in u and not u & done)
        return taken - sum(
            s for s, u in zip(sizes, users, strict=True) if unit in u and u <= done | {unit}
        )

    for position, unit in enumerate(order):
        done = set(order[:position])
        ready = [u for u in range(n) if u not in done and predecessors[u] <= done]
        assert unit in ready
        assert growth(unit, done) == min(growth(u, done) for u in ready)


@pytest.mark.parametrize(
    "facts", [ALL_CORES, TOO_SMALL, NEVER_BESIDE], ids=["all cores", "small", "alone"]
)
def test_ops_that_run_separately_have_their_own_level(plans: Plans, facts: dict[str, Any]) -> None:
    assert [len(level) for level in plan_branches(plans, 4, facts).levels] == [1] * 15


def test_single_core_kernels_share_a_level(plans: Plans) -> None:
    assert [len(level) for level in plan_branches(plans, 4, ONE_CORE).levels] == [4, 4, 4, 1, 1, 1]


def test_a_threaded_kernel_splits_its_level() -> None:
    all_cores, one_core, too_small = (
        Load(None, True, 1 << 30),
        Load(None, False, 1 << 30),
        Load(None, False, 1),
    )
    assert group_loads([one_core, all_cores, one_core]) == [(0,), (1,), (2,)]
    assert group_loads([one_core, too_small, one_core]) == [(0, 1, 2)]
    assert group_loads([one_core, too_small]) == [(0,), (1,)]


def add_random_ops(
    plans: Plans, generator: random.Random, facts: Sequence[dict[str, Any]]
) -> list[int]:
    pool = [plans.buffer(8)]
    for _ in range(25):
        pool.append(plans.intermediate(8 * generator.randrange(1, 4)))
        sources = generator.sample(pool[:-1], min(2, len(pool) - 1))
        plans.op(plans.kernel(plans.add_one, [pool[-1]], sources, **generator.choice(facts)))
    return pool[-2:]


@pytest.mark.parametrize("seed", range(20))
def test_an_order_never_takes_more_memory_than_running_all_as_early_as_possible(
    new_plans: type[Plans], seed: int
) -> None:
    wide, narrow = new_plans(), new_plans()
    early = wide.plan(
        "arena", *add_random_ops(wide, random.Random(seed), [ONE_CORE] * 5)
    ).memory_report
    outputs = add_random_ops(narrow, random.Random(seed), [ALL_CORES] * 4 + [ONE_CORE])
    assert narrow.plan("arena", *outputs).memory_report.lower_bound <= early.lower_bound


def test_declared_predecessors_come_first_in_every_order(plans: Plans) -> None:
    made: list[int] = []
    waits: dict[int, set[int]] = {}
    for number in range(12):
        made.append(plans.intermediate())
        # Ids repeat, as those of a loop do: the latest before is meant.
        waits[number] = ({number - 3} if number > 3 else set()) | (
            {number - 5} if number > 5 else set()
        )
        named = [(number - 3) % 4] if number > 3 else []
        op = plans.kernel(
            plans.fill(1),
            made[-1:],
            name=f"n{number}",
            op_id=number % 4,
            dependencies=named,
            **ALL_CORES,
        )
        plans.op(op, after=[number - 5] if number > 5 else [])
    total = plans.intermediate()
    plans.op(
        plans.kernel(
            lambda out, *sources: out.__setitem__(0, sum(s[0] for s in sources)), [total], made
        )
    )
    plan = plans.plan("arena", total)
    plan.execute()
    assert plan.output_buffers[0].as_numpy()[0] == 12
    order = [int(name[1:]) for name in plans.names()[:-1]]
    assert all(
        order.index(earlier) < order.index(number) for number in waits for earlier in waits[number]
    )
