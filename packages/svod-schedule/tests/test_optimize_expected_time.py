"""What the model of cost knows about machines: orderings that hold on all of them, and amounts that
can be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from svod_dtype import float64
from svod_ir import Target, UOp, make_permute, parse_opts
from svod_ir.testing.programs import matmul, reduce, tensor
from svod_schedule.optimize import apply_opts
from svod_schedule.optimize.cost_model.expected_time import Cost, estimate_cost

MakeKernel = Callable[[UOp], UOp]

CPU = replace(Target.generic(cores=4), has_fma=True)
WIDE = replace(CPU, vector_bits=512, vector_registers=32)


def cost(kernel: UOp, opts: str, target: Target = CPU) -> Cost:
    return estimate_cost(apply_opts(kernel, target, parse_opts(opts)), target)


def faster(kernel: UOp, better: str, worse: str, target: Target = CPU) -> bool:
    return cost(kernel, better, target).seconds < cost(kernel, worse, target).seconds


def test_every_kernel_has_a_cost_whatever_its_opts(kernel: UOp) -> None:
    for target in (CPU, WIDE, replace(CPU, has_local=True, max_local=64)):
        for optimized in (apply_opts(kernel, target, ()), apply_opts(kernel, target)):
            found = estimate_cost(optimized, target)
            assert all(getattr(found, f.name) >= 0 for f in fields(found))
            assert found.seconds >= found.start_seconds > 0


def test_a_cost_is_the_same_every_time(kernel: UOp) -> None:
    assert estimate_cost(apply_opts(kernel, CPU), CPU) == estimate_cost(
        apply_opts(kernel, CPU), CPU
    )


def test_operations_and_bytes_are_counted(make_kernel: MakeKernel) -> None:
    found = cost(make_kernel(matmul(tensor(1, 16, 32), tensor(2, 32, 64))), "")
    assert found.n_operations == 2 * 16 * 32 * 64
    assert found.n_bytes == 4 * (2 * 16 * 32 * 64 + 16 * 64)
    doubled = cost(make_kernel(tensor(1, 100, dtype=float64) * 2), "")
    assert (doubled.n_operations, doubled.n_bytes) == (100, 1600)


def test_a_tile_loads_what_it_shares_once(make_kernel: MakeKernel) -> None:
    product = make_kernel(matmul(tensor(1, 64, 64), tensor(2, 64, 64)))
    assert cost(product, "UPCAST(0, 4) UPCAST(1, 16)").n_bytes < cost(product, "").n_bytes / 3
    assert cost(product, "UPCAST(0, 4) UPCAST(1, 16)").n_taken == 64


def test_vectors_are_faster_than_scalars_and_wide_ones_than_narrow_ones(
    make_kernel: MakeKernel,
) -> None:
    chain = make_kernel((tensor(1, 4096) * 2 + 1) * tensor(1, 4096))
    assert faster(chain, "UPCAST(0, 8)", "")
    assert faster(chain, "UPCAST(0, 8)", "UPCAST(0, 4)")
    assert cost(chain, "UPCAST(0, 16)", WIDE).seconds < cost(chain, "UPCAST(0, 16)", CPU).seconds


def test_lanes_along_which_memory_is_not_consecutive_do_not_help(make_kernel: MakeKernel) -> None:
    rows = make_kernel(reduce(tensor(1, 64, 256), 1))
    assert faster(rows, "UNROLL(0, 8)", "UPCAST(0, 8)")


def test_a_sum_with_several_accumulators_does_not_wait_for_each_addition(
    make_kernel: MakeKernel,
) -> None:
    total = make_kernel(reduce(tensor(1, 4, 1000), 1))
    waiting, busy = cost(total, "UNROLL(0, 8)"), cost(total, "UNROLL(0, 32)")
    assert busy.latency_seconds < waiting.latency_seconds
    assert busy.seconds < waiting.seconds


def test_accumulators_beyond_the_registers_are_spilled(make_kernel: MakeKernel) -> None:
    product = make_kernel(matmul(tensor(1, 64, 64), tensor(2, 64, 64)))
    assert cost(product, "UPCAST(1, 16) UPCAST(0, 4)").n_spilled == 0
    assert cost(product, "UPCAST(1, 32) UPCAST(0, 16)").n_spilled > 0
    assert faster(product, "UPCAST(1, 16) UPCAST(0, 4)", "UPCAST(1, 32) UPCAST(0, 16)")


def test_threads_divide_work_but_cost_a_start(make_kernel: MakeKernel) -> None:
    large, small = (make_kernel(tensor(1, n) * 2 + 1) for n in (1 << 20, 64))
    assert faster(large, "THREAD(0, 4)", "")
    assert faster(small, "", "THREAD(0, 4)")
    assert cost(large, "THREAD(0, 4)").n_threads == 4


def test_data_that_fits_a_cache_is_read_from_it(make_kernel: MakeKernel) -> None:
    small, middle, large = (
        cost(make_kernel(tensor(1, n) + 1), "UPCAST(0, 8)") for n in (1 << 10, 1 << 15, 1 << 24)
    )
    assert (small.l2_seconds, small.l3_seconds, small.memory_seconds) == (0, 0, 0)
    assert middle.l2_seconds > 0
    assert middle.memory_seconds == 0
    assert large.memory_seconds > large.l3_seconds > large.l2_seconds > 0


def test_rows_a_power_of_two_apart_conflict_in_the_cache(make_kernel: MakeKernel) -> None:
    even, odd = (make_kernel(reduce(tensor(1, 256, n), 0)) for n in (1024, 1032))
    assert cost(even, "").l2_seconds > 2 * cost(odd, "").l2_seconds


def test_walking_along_the_rows_moves_fewer_lines(make_kernel: MakeKernel) -> None:
    copy = make_kernel(make_permute(tensor(1, 1024, 1032), (1, 0)))
    assert cost(copy, "UPCAST(0, 8) UPCAST(1, 8)").seconds < cost(copy, "").seconds


@pytest.mark.parametrize("n", [64, 128, 512])
def test_the_heuristics_beat_no_opts_by_far_on_products(make_kernel: MakeKernel, n: int) -> None:
    product = make_kernel(matmul(tensor(1, n, n), tensor(2, n, n)))
    for target in (CPU, WIDE):
        chosen = estimate_cost(apply_opts(product, target), target)
        assert chosen.seconds * 8 < cost(product, "", target).seconds
