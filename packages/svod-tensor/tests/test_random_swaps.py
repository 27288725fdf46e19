"""Several assignments among a few memories, computed together, do what they do in numpy one after
the other.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest

from svod_tensor import Tensor, jit

N_PROGRAMS = int(os.environ.get("SVOD_TEST_SWAPS", "200"))
N_PARTS = 4
Memories = list[Tensor]
Arrays = list["np.ndarray"]
Statement = tuple[str, int, int, int]


def draw(seed: int) -> tuple[int, list[Statement]]:
    """How many memories there are, and what is assigned: the kind, and three of them."""
    r = random.Random(seed)
    n = r.randint(2, 4)
    kinds = ["add", "move", "swap", "shift", "rotate"]
    return n, [
        (r.choice(kinds), *(r.randrange(n) for _ in range(3))) for _ in range(r.randint(2, 5))
    ]  # pyright: ignore[reportReturnType]


def run_arrays(arrays: Arrays, statements: list[Statement]) -> None:
    for kind, k, i, j in statements:
        old = [a.copy() for a in arrays]
        match kind:
            case "add":
                arrays[k][...] = old[i] + old[j]
            case "move":
                arrays[k][...] = old[i]
            case "swap":
                arrays[k][...] = old[i]
                arrays[i][...] = old[k]
            case "shift":
                arrays[k][1:] = old[i][:-1]
            case _:
                for n, array in enumerate(arrays):
                    array[...] = old[(n + 1) % len(arrays)]


def run_tensors(
    tensors: Memories, statements: list[Statement], read: Callable[[Tensor], Tensor]
) -> None:
    """The same; `read` is how the old content is held while the statement assigns."""
    for kind, k, i, j in statements:
        old = list(map(read, tensors))
        match kind:
            case "add":
                tensors[k].assign(old[i] + old[j])
            case "move":
                tensors[k].assign(old[i])
            case "swap":
                tensors[k].assign(old[i])
                tensors[i].assign(old[k])
            case "shift":
                tensors[k][1:] = old[i][:-1]
            case _:
                for n, tensor in enumerate(tensors):
                    tensor.assign(old[(n + 1) % len(tensors)])


def make(n: int) -> Arrays:
    return [np.arange(N_PARTS, dtype=np.int32) + 10 * k for k in range(n)]


READS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x * 1,
    lambda x: x.clone(),
    lambda x: x + 0,
    lambda x: +x,
]


@pytest.mark.parametrize("part", range(10))
def test_assignments_among_a_few_buffers_agree_with_numpy(part: int) -> None:
    for seed in range(part, N_PROGRAMS, 10):
        n, statements = draw(seed)
        arrays = make(n)
        tensors = [Tensor(a.copy()).realize() for a in arrays]
        run_tensors(tensors, statements, READS[seed % len(READS)])
        run_arrays(arrays, statements)
        order = random.Random(-seed).sample(range(n), n)
        if seed % 3 == 0:
            Tensor.realize_batch([tensors[k] for k in order])
        for k in order:
            np.testing.assert_array_equal(
                tensors[k].numpy(), arrays[k], err_msg=f"seed {seed}: {statements}, memory {k}"
            )


@pytest.mark.parametrize("part", range(4))
def test_a_captured_function_assigns_among_its_arguments_at_each_call(part: int) -> None:
    for seed in range(part, N_PROGRAMS // 4, 4):
        n, statements = draw(seed)
        arrays = make(n)
        tensors = [Tensor(a.copy()).realize() for a in arrays]

        def step(
            *given: Tensor,
            statements: list[Statement] = statements,
            read: Callable[[Tensor], Tensor] = READS[seed % 4],
        ) -> None:
            run_tensors(list(given), statements, read)

        captured = jit(step)
        for _ in range(3):
            captured(*tensors)
            run_arrays(arrays, statements)
        for k, tensor in enumerate(tensors):
            np.testing.assert_array_equal(
                tensor.numpy(), arrays[k], err_msg=f"seed {seed}: {statements}, memory {k}"
            )


@pytest.mark.parametrize("part", range(4))
def test_a_prepared_plan_assigns_among_memories_at_each_execution(part: int) -> None:
    for seed in range(part, N_PROGRAMS // 4, 4):
        n, statements = draw(seed)
        arrays = make(n)
        tensors = [Tensor(a.copy()).realize() for a in arrays]
        run_tensors(tensors, statements, READS[seed % len(READS)])
        if all(t.is_realized for t in tensors):
            continue
        plan = Tensor.prepare_batch(tensors)
        for _ in range(3):
            plan.execute()
            run_arrays(arrays, statements)
        for k, tensor in enumerate(tensors):
            np.testing.assert_array_equal(
                tensor.numpy(), arrays[k], err_msg=f"seed {seed}: {statements}, memory {k}"
            )
