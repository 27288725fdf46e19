"""Execute random plans in every mode that shares their kernels, and print digests of the results.

    python tests/mixed_executions.py SEED PLANS

The first line has the number of executions. One line for each plan follows: two digests of its
results over all executions, one of exact and one of rounded results. The modes differ in memory
planning, donation and caches; the script fails if any mode gives a different bit than the first.
Settings of the whole process, threads and disk caches, come from the environment.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import (
    HealthCheck,
    Phase,
    given,
    seed as hypothesis_seed,
    settings,
    strategies as st,
)
from numpy.typing import NDArray

from svod_device import Buffer, get_allocator
from svod_dtype import DType, bool_, int8, int32, int64, uint8, uint16
from svod_ir import Op, UOp
from svod_ir.testing import graphs, nodes, random_array, random_inputs
from svod_runtime import ExecutionPlan, MemoryReport
from svod_runtime.kernels import grouping
from svod_schedule.optimize.heuristics import constants
from svod_tensor import PrepareConfig, Tensor, Variable
from svod_tensor.engine import memory_nodes
from svod_tensor.engine.caches import KERNELS, SCHEDULES

N_EXECUTIONS = 14
EXACT = (bool_, uint8, int8, uint16, int32, int64)
ROWS = 16


class Mode(NamedTuple):
    """Preparation and use of one plan."""

    config: PrepareConfig
    is_donated: bool = False
    is_cleared: bool = False


def modes(opts: tuple[()] | None) -> Iterator[Mode]:
    for planner in ("disabled", "arena", "remap"):
        yield Mode(PrepareConfig(memory_planner=planner, opts=opts))
    yield Mode(PrepareConfig(memory_planner="arena", opts=opts, disable_schedule_cache=True))
    yield Mode(PrepareConfig(memory_planner="arena", opts=opts), is_cleared=True)
    yield Mode(PrepareConfig(memory_planner="remap", opts=opts), is_donated=True, is_cleared=True)
    yield Mode(PrepareConfig(memory_planner="arena", opts=opts), is_donated=True)
    yield Mode(PrepareConfig(memory_planner="disabled", opts=opts), is_donated=True)


class Program(NamedTuple):
    """Results over inputs, and the number of elements of each result by values of the variables."""

    results: list[Tensor]
    inputs: list[Tensor]
    is_exact: list[bool]
    sizes: list[Callable[[int], int]]


def draw_batches(seed: int, n_plans: int) -> list[tuple[list[UOp], list[UOp]]]:
    """Sample graphs of integers and graphs of any dtype, equal in each process."""
    exact = st.lists(graphs(kinds=EXACT, max_ops=8, max_elements=200), min_size=3, max_size=3)
    rounded = st.lists(graphs(max_ops=8, max_elements=200), min_size=2, max_size=2)
    return [draw_last(st.tuples(exact, rounded), 100 * seed + number) for number in range(n_plans)]


def draw_last(
    strategy: st.SearchStrategy[tuple[list[UOp], list[UOp]]], seed: int
) -> tuple[list[UOp], list[UOp]]:
    """Return the last of several examples, since the first ones are small."""
    found: list[tuple[list[UOp], list[UOp]]] = []

    @hypothesis_seed(seed)
    @settings(
        max_examples=5,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(batch: tuple[list[UOp], list[UOp]]) -> None:
        found.append(batch)

    collect()
    return found[-1]


def make_program(
    exact: Sequence[UOp], rounded: Sequence[UOp], arrays: Sequence[NDArray]
) -> Program:
    """Return tensors of the graphs and some with variables, on new memory with `arrays`."""
    remaining = iter(arrays)
    inputs: list[Tensor] = []

    def make_input(node: UOp) -> UOp:
        fresh = memory_nodes.make_memory(
            node.dtype, node.arg.size, "CPU", make_buffer(next(remaining), node.dtype)
        )
        inputs.append(Tensor.from_uop(fresh, owns=True))
        return fresh

    program = Program([], inputs, [], [])
    for graph in (*exact, *rounded):
        result = Tensor.from_uop(
            graph.substitute({node: make_input(node) for node in get_inputs(graph)})
        )
        if result.size and not result.is_realized:
            program.results.append(result)
            program.is_exact.append(graph in exact)
            program.sizes.append(lambda n, size=result.size: size)
    x = Tensor.from_uop(make_input(symbolic_input())).reshape(ROWS, 5)
    n, at = Variable("n", 1, ROWS).bind(3), Variable("at", 0, ROWS - 1).bind(0)
    head = (x[:n] * 3 + 1).contiguous()
    for result, is_exact, size in (
        (head.cumsum(0), True, lambda n: 5 * n),
        (head.sum(0) + x[at], True, lambda n: 5),
        (
            (head.cast("float32") / 7).softmax(0).contiguous() + x[at].cast("float32"),
            False,
            lambda n: 5 * n,
        ),
    ):
        program.results.append(result)
        program.is_exact.append(is_exact)
        program.sizes.append(size)
    return program


def symbolic_input() -> UOp:
    return nodes.buffer(-1, 5 * ROWS, int32)


def get_inputs(graph: UOp) -> list[UOp]:
    return list(graph.iter_ops(Op.BUFFER))


def make_arrays(batch: Sequence[UOp], seed: int) -> list[NDArray]:
    """Sample new data for each input, in the order in which `make_program` reads it."""
    found: list[NDArray] = []
    for number, graph in enumerate(batch):
        arrays = random_inputs(graph, seed=100 * seed + number)
        found += [arrays[node] for node in get_inputs(graph)]
    return [*found, random_array(int32, 5 * ROWS, np.random.default_rng(seed))]


def make_buffer(array: NDArray, dtype: DType) -> Buffer:
    """Allocate a separate buffer, which may be donated."""
    made = Buffer(get_allocator("CPU"), dtype, array.size)
    made.copyin(np.ascontiguousarray(array).view(np.uint8))
    return made


def run_mode(
    batch: tuple[list[UOp], list[UOp]], mode: Mode
) -> tuple[list[tuple[bytes, bytes]], MemoryReport]:
    """Return exact and rounded results of each execution of one plan, and how the plan shares
    memory.
    """
    if mode.is_cleared:
        KERNELS.clear()
        SCHEDULES.clear()
    graphs_of = [*batch[0], *batch[1]]
    program = make_program(*batch, make_arrays(graphs_of, 0))
    ids = [t.uop.arg.id for t in program.inputs]
    plan = Tensor.prepare_batch_with(
        program.results, mode.config, donate=program.inputs if mode.is_donated else ()
    )
    index_of = plan.ast_to_buffer
    found: list[tuple[bytes, bytes]] = []
    for number in range(N_EXECUTIONS):
        if number:
            feed(
                plan,
                [index_of.get(i) for i in ids],
                make_arrays(graphs_of, number),
                is_copied=number % 3 == 1,
            )
        n = 1 + number * 5 % ROWS
        plan.execute_with_vars({"n": n, "at": number * 7 % ROWS})
        found.append(read(plan, program, n))
    return found, plan.memory_report


def feed(
    plan: ExecutionPlan,
    indices: Sequence[int | None],
    arrays: Sequence[NDArray],
    *,
    is_copied: bool,
) -> None:
    """Write new data to the inputs, in the plan's memory or in other memory."""
    buffers: dict[int, Buffer] = {}
    for index, array in zip(indices, arrays, strict=True):
        if index is None:
            continue
        old = plan.buffers[index]
        if is_copied:
            old.copyin(np.ascontiguousarray(array).view(np.uint8))
            buffers[index] = old
        else:
            buffers[index] = make_buffer(array, old.dtype)
    plan.replace_buffers(buffers)


def read(plan: ExecutionPlan, program: Program, n: int) -> tuple[bytes, bytes]:
    exact, rounded = bytearray(), bytearray()
    for buffer, is_exact, size in zip(
        plan.output_buffers, program.is_exact, program.sizes, strict=True
    ):
        (exact if is_exact else rounded).extend(buffer.to_bytes()[: size(n) * buffer.dtype.nbytes])
    return bytes(exact), bytes(rounded)


def main(seed: int, n_plans: int) -> None:
    # Use threads and parallel kernels also for little work.
    constants.MIN_THREADED_WORK = 1
    grouping.MIN_THREAD_WORK = 0
    opts = PrepareConfig.from_env().opts
    lines: list[str] = []
    n_executions = n_donated = n_saved = 0
    for number, batch in enumerate(draw_batches(seed, n_plans)):
        first: list[tuple[bytes, bytes]] | None = None
        for mode in modes(opts):
            found, report = run_mode(batch, mode)
            n_executions += len(found)
            n_donated += report.n_donated
            n_saved += report.bytes_saved
            first = first or found
            assert found == first, f"plan {number} of seed {seed} gives other bits with {mode}"
        assert first is not None
        digests = [
            hashlib.sha256(b"".join(part)).hexdigest()[:16] for part in zip(*first, strict=True)
        ]
        lines.append(f"{digests[0]} {digests[1]}")
    assert n_donated > n_plans
    assert n_saved > 0
    print(n_executions, *lines, sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
