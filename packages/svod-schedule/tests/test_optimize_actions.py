"""Which Opts are tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_dtype import float32
from svod_ir import AxisType, Opt, OptOp, Target, TensorCore, UOp, format_opts, parse_opts
from svod_ir.testing import assert_same, count_examples
from svod_ir.testing.programs import matmul, reduce, tensor
from svod_schedule.errors import OptError
from svod_schedule.linearize import linearize
from svod_schedule.optimize import Scheduler, apply_opts
from svod_schedule.optimize.cost_model.expected_time import estimate_cost
from svod_schedule.optimize.opts.actions import iter_actions, iter_neighbours
from svod_schedule.pipeline import Context, run_pipeline

MakeKernel = Callable[[UOp], UOp]

CPU = Target.generic(cores=4)
WIDE = replace(CPU, vector_bits=512, vector_registers=32, has_masked_access=True, has_gather=True)
GPU = replace(CPU, has_local=True, has_shared=True, shared_bytes=4096, max_local=64)


@pytest.fixture
def product(make_kernel: MakeKernel) -> UOp:
    return make_kernel(matmul(tensor(1, 48, 40), tensor(2, 40, 64)))


def kinds(kernel: UOp, target: Target, *, can_pad: bool = False) -> set[OptOp]:
    return {opt.op for opt in iter_actions(Scheduler(kernel, target), can_pad=can_pad)}


def test_actions_follow_the_features_of_the_target(product: UOp) -> None:
    tiles = {OptOp.UPCAST, OptOp.OVERLAP, OptOp.ALIGN}
    on_cpu = {*tiles, OptOp.UNROLL, OptOp.SWAP, OptOp.THREAD, OptOp.PACK}
    assert kinds(product, CPU) == on_cpu
    assert kinds(product, replace(CPU, cores=1)) == on_cpu - {OptOp.THREAD}
    assert kinds(product, GPU) == on_cpu - {OptOp.THREAD, OptOp.ALIGN} | {
        OptOp.LOCAL,
        OptOp.GROUP,
        OptOp.GROUPTOP,
    }
    assert not {OptOp.GROUP, OptOp.PACK} & kinds(product, replace(GPU, has_shared=False))
    core = TensorCore((16, 8, 4), 2, (float32, float32, float32))
    assert OptOp.TC in kinds(product, replace(GPU, tensor_cores=(core,)))


def test_axes_are_padded_only_where_that_is_asked_for(make_kernel: MakeKernel) -> None:
    odd = make_kernel(reduce(tensor(1, 7, 25), 1))
    assert OptOp.PADTO not in kinds(odd, CPU)
    assert OptOp.PADTO in kinds(odd, CPU, can_pad=True)
    padded = {
        (opt.axis, opt.amount)
        for opt in iter_actions(
            Scheduler(make_kernel(reduce(tensor(1, 6, 24), 1)), GPU), can_pad=True
        )
        if opt.op is OptOp.PADTO
    }
    # Both amounts divide 24.
    assert padded == {(0, 4), (0, 8)}


def test_axes_of_one_kind_are_swapped(product: UOp) -> None:
    scheduler = Scheduler(product, CPU)
    assert scheduler.try_opt(Opt(OptOp.THREAD, 0, 4))
    kinds = [axis.arg[1] for axis in scheduler.axes]
    swaps = {(opt.axis, opt.amount) for opt in iter_actions(scheduler) if opt.op is OptOp.SWAP}
    expected = {
        (i, j)
        for j in range(len(kinds))
        for i in range(j)
        if kinds[i] is kinds[j] is not AxisType.THREAD
    }
    assert AxisType.THREAD in kinds
    assert swaps == expected != set()
    assert Opt(OptOp.PACK, kinds.index(AxisType.THREAD)) in set(iter_actions(scheduler))


def test_amounts_are_whole_vectors_tiles_and_whole_axes(product: UOp) -> None:
    amounts = {
        opt.amount
        for opt in iter_actions(Scheduler(product, CPU))
        if opt.op is OptOp.UPCAST and opt.axis == 1
    }
    assert {0, 2, 4, 8, 16, 32} <= amounts
    wide = replace(CPU, vector_bits=512)
    assert 64 not in amounts
    overlaps = {
        opt.amount
        for opt in iter_actions(Scheduler(product, wide))
        if opt.op is OptOp.OVERLAP and opt.axis == 0
    }
    assert {5, 7, 32} <= overlaps


def test_a_refused_action_leaves_the_kernel_unchanged(kernel: UOp) -> None:
    for target in (CPU, GPU):
        scheduler = Scheduler(kernel, target)
        n_allowed = 0
        actions = list(iter_actions(scheduler, can_pad=True))
        assert len(actions) == len(set(actions))
        for opt in actions:
            other = scheduler.copy()
            try:
                other.apply_opt(opt)
            except OptError:
                assert (other.sink, other.applied_opts) == (scheduler.sink, [])
            else:
                assert other.applied_opts == [opt]
                n_allowed += 1
        assert n_allowed >= len(actions) // 3


def test_neighbours_differ_in_one_opt(product: UOp) -> None:
    schedulers: dict[tuple[Opt, ...], Scheduler | None] = {(): Scheduler(product, CPU)}

    def apply(opts: tuple[Opt, ...]) -> Scheduler | None:
        if opts not in schedulers:
            made = Scheduler(product, CPU)
            schedulers[opts] = made if all(made.try_opt(opt) for opt in opts) else None
        return schedulers[opts]

    start = parse_opts("UPCAST(1, 16) UPCAST(0, 4) THREAD(0, 4) PACK(1)")
    found = set(iter_neighbours(start, apply))
    assert {len(opts) for opts in found} == {3, 4, 5}
    for text in (
        "UPCAST(1, 16) UPCAST(0, 4) THREAD(0, 4)",
        "UPCAST(0, 4) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 32) UPCAST(0, 4) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 16) OVERLAP(0, 5) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 16) UPCAST(0, 3) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 12) UPCAST(0, 4) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 8) UPCAST(0, 4) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 16) UPCAST(0, 4) THREAD(0, 2) PACK(1)",
        "UPCAST(1, 16) UPCAST(0, 4) UNROLL(0, 4) THREAD(0, 4) PACK(1)",
        "UPCAST(1, 16) UPCAST(0, 4) THREAD(0, 4) PACK(1) UNROLL(0, 4)",
    ):
        assert parse_opts(text) in found, text


def test_opts_of_which_one_does_not_apply_have_the_neighbours_of_what_does(product: UOp) -> None:
    def apply(opts: tuple[Opt, ...]) -> Scheduler | None:
        made = Scheduler(product, CPU)
        return made if all(made.try_opt(opt) for opt in opts) else None

    broken = parse_opts("UPCAST(7, 16) THREAD(0, 4)")
    found = set(iter_neighbours(broken, apply))
    assert {parse_opts("THREAD(0, 4)"), parse_opts("UPCAST(7, 16)")} <= found
    assert parse_opts("UPCAST(7, 16) THREAD(0, 4) UNROLL(0, 4)") not in found


@settings(
    max_examples=count_examples(2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 1 << 30), st.sampled_from([CPU, WIDE, GPU]))
def test_any_sequence_of_actions_preserves_the_results(
    kernel: UOp, seed: int, target: Target
) -> None:
    random = Random(seed)
    scheduler = Scheduler(kernel, target)
    for _ in range(random.randint(1, 4)):
        actions = [opt for opt in iter_actions(scheduler, can_pad=True) if (opt.amount or 0) <= 16]
        kinds = sorted({opt.op.name for opt in actions})
        if kinds:
            kind = random.choice(kinds)
            scheduler.try_opt(
                random.choice(
                    [opt for opt in actions if opt.op.name == kind and (opt.amount or 0) <= 16]
                )
            )
    optimized = scheduler.finish()
    assert apply_opts(kernel, target, optimized.arg.applied_opts) is optimized
    assert parse_opts(format_opts(optimized.arg.applied_opts)) == optimized.arg.applied_opts
    if estimate_cost(optimized, target).n_taken <= 128:
        assert_same(kernel, linearize(run_pipeline("lower", optimized, Context(target=target))))
