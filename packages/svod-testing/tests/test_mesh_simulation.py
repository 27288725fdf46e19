"""Tests of simulated meshes, and random programs on tensors that are split over their ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from svod_ir import Mesh
from svod_ir.testing import count_examples
from svod_tensor import Tensor
from svod_testing import check_sharded_program, simulate_mesh
from svod_testing.loop_programs import LoopStep, generate

SIZES = [{"data": 2}, {"data": 3}, {"data": 2, "model": 2}]
ALONE = Mesh(("data",), (1,), (0,))
ARRAY = np.random.default_rng(7).normal(size=(13, 5, 6))


def list_layouts(mesh: Mesh) -> list[dict[str, int]]:
    choices = product([None, 0, 1, 2], repeat=len(mesh.names))
    layouts = [
        {name: axis for name, axis in zip(mesh.names, axes, strict=True) if axis is not None}
        for axes in choices
    ]
    return [axes for axes in layouts if len(set(axes.values())) == len(axes)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_layout_becomes_every_other(sizes):
    def move(mesh: Mesh) -> None:
        for before, after in product(list_layouts(mesh), repeat=2):
            x = Tensor(ARRAY).shard(mesh, before).realize().shard(mesh, after)
            part = ARRAY
            for cut in () if x.sharding is None else x.sharding.cuts(0):
                part = np.take(part, range(cut.begin, cut.end), axis=cut.axis)
            np.testing.assert_array_equal(x.shards()[0].numpy(), part)

    simulate_mesh(sizes, move)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_ranks_exchange_halos_mirror_and_reduce(sizes):
    def compute(mesh: Mesh) -> list[np.ndarray[Any, Any]]:
        x = Tensor(ARRAY).shard(mesh, {"data": 0})
        differences = x[:-2] - 2 * x[1:-1] + x[2:]
        # Over more than one neighbour.
        # Each rank gets a part of the sum.
        split = x.sum(0).shard(mesh, {"data": 1})
        values = (differences, x[:-9] + x[9:], x.flip(0), x.max(0), x.sum(), split)
        return [y.numpy() for y in values]

    expected = [
        ARRAY[:-2] - 2 * ARRAY[1:-1] + ARRAY[2:],
        ARRAY[:-9] + ARRAY[9:],
        ARRAY[::-1],
        ARRAY.max(0),
        ARRAY.sum(),
        ARRAY.sum(0),
    ]
    for results in simulate_mesh(sizes, compute):
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, array)


def sum_on(mesh: Mesh) -> float:
    return Tensor(ARRAY).shard(mesh, {"data": 0}).sum().item()


def leave_early(mesh: Mesh) -> object:
    return "nothing" if mesh.rank == 1 else sum_on(mesh)


def call_something_else(mesh: Mesh) -> object:
    x = Tensor(ARRAY).shard(mesh, {"data": 0})
    x.sum().item()
    return (x.max() if mesh.rank == 1 else x.min()).item()


def fail_in_one(mesh: Mesh) -> object:
    if mesh.rank == 1:
        raise ValueError("rank 1 has no data")
    return sum_on(mesh)


def exit_in_one(mesh: Mesh) -> object:
    if mesh.rank == 1:
        os._exit(3)
    return sum_on(mesh)


def compute_for_long(mesh: Mesh) -> object:
    if mesh.rank == 1:
        time.sleep(60)
    return sum_on(mesh)


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (
            leave_early,
            [
                "ranks wait for each other",
                "rank 0: waits in reduce.add of float64 as number 0, result (1, 1, 1), after 0 calls",
                "rank 1: ended after 0 calls; it returned 'nothing'",
            ],
        ),
        (
            call_something_else,
            [
                "ranks wait for each other",
                "rank 0: waits in reduce.min of float64 as number 0, result (1, 1, 1), after 1 calls, the last",
                "rank 1: waits in reduce.max of float64 as number 0, result (1, 1, 1), after 1 calls, the last",
            ],
        ),
        (fail_in_one, ["rank 1 failed", "rank 1: computes after 0 calls", "no data"]),
        (exit_in_one, ["rank 1 ended with exit code 3", "rank 1: computes after 0 calls"]),
        (compute_for_long, ["no rank called a collective within 1 s", "rank 1: computes"]),
    ],
)
def test_ranks_that_disagree_are_described(
    program: Callable[[Mesh], object], lines: list[str]
) -> None:
    with pytest.raises(AssertionError) as raised:
        simulate_mesh({"data": 2}, program, limit_s=1.0 if program is compute_for_long else 60.0)
    for line in lines:
        assert line in str(raised.value)


def count_iterations(step: LoopStep) -> int:
    count = step.args.get("length") or step.args.get("upper") or step.args.get("k") or 0
    return int(count) if isinstance(count, (int, float)) else 10


def is_short(seed: int) -> bool:
    return sum(map(count_iterations, generate(seed).iter_steps())) < 50


def find_problem(language: str, seed: int, sizes: Mapping[str, int]) -> str | None:
    """What the ranks find wrong with a program, or with each other."""

    def check(mesh: Mesh) -> str | None:
        return check_sharded_program(language, seed, [mesh])

    try:
        problems = simulate_mesh(sizes, check)
    except AssertionError as error:
        return str(error)
    return next((problem for problem in problems if problem is not None), None)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("language", ["programs", "loops", "derivatives", "stencils"])
def test_random_programs_agree_with_one_process(language, sizes):
    first = 1000 * len(language) + 100 * sum(sizes.values())
    for seed in range(first, first + count_examples(8)):
        if language != "loops" or is_short(seed):
            # What this process imports and compiles, its forks need not.
            assert check_sharded_program(language, seed, [ALONE]) is None, f"seed {seed}"
            assert find_problem(language, seed, sizes) is None, f"seed {seed}"


def test_a_rank_that_does_not_count_what_others_call_is_found(monkeypatch):
    # Only ranks at the borders exchange a halo; the others then number the next sum otherwise.
    monkeypatch.setattr(
        "svod_schedule.rangeify.mesh.collectives.Collectives._skip", lambda self: None
    )

    def add_parts(mesh: Mesh) -> float:
        x = Tensor(ARRAY[:8]).shard(mesh, {"data": 0})
        y = Tensor(ARRAY[:7]).shard(mesh, {"data": 0})
        return (y + x[:-1]).max().item()

    with pytest.raises(AssertionError, match="ranks wait for each other"):
        simulate_mesh({"data": 3}, add_parts)
