"""Loops as single kernels: they compute what the loop means, and what is none is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from svod_dtype import DType, bool_, float16, float32, float64, index, int8, int32, int64
from svod_ir import (
    AxisType,
    BufferArg,
    BufferizeArg,
    IROptions,
    KernelInfo,
    Op,
    ParamArg,
    SInt,
    Target,
    UOp,
    make_alu,
    make_cast,
    make_constant_like,
    make_expand,
    make_gather,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_shrink,
)
from svod_ir.evaluate import evaluate, evaluate_kernel
from svod_ir.loops import get_slots, make_counter, make_loop, make_parameter, make_switch
from svod_ir.testing import assert_close
from svod_ir.testing.nodes import bind
from svod_schedule.pipeline import Context, run_pipeline
from svod_schedule.rangeify.fuse_loops import fuse_loop

Body = Callable[..., Sequence[UOp]]
RNG = np.random.default_rng(0)


def tensor(
    number: int, shape: Sequence[SInt], dtype: DType = float32, size: int | None = None
) -> UOp:
    n = int(np.prod([s for s in shape if isinstance(s, int)])) if size is None else size
    memory = UOp(Op.BUFFER, dtype, (), BufferArg(number, n, "CPU"))
    if all(isinstance(s, int) for s in shape):
        return make_reshape(memory, shape)
    total: Any = 1
    for s in shape:
        total = s * total
    return make_reshape(make_shrink(memory, [(0, total)]), shape)


def loop_of(
    body: Body,
    count: SInt,
    carried: Sequence[UOp],
    sliced: Sequence[UOp] = (),
    constants: Sequence[UOp] = (),
    **options: Any,
) -> tuple[UOp, ...]:
    operands = [*carried, *sliced, *constants]
    ends = len(carried), len(carried) + len(sliced)
    params = [
        make_parameter(o, slot, is_slice=ends[0] <= i < ends[1])
        for i, (o, slot) in enumerate(zip(operands, get_slots(operands), strict=True))
        if o.op is not Op.BIND
    ]
    counter = [make_counter(options["counter"], count)] if "counter" in options else []
    sink = UOp.sink(*body(*counter, *params))
    return make_loop(sink, count, operands, n_carried=len(carried), n_sliced=len(sliced), **options)


def base(node: UOp) -> UOp:
    while node.op is not Op.BUFFER:
        node = node.src[0]
    return node


def fuse(results: Sequence[UOp]) -> tuple[list[UOp], dict[int, UOp]] | None:
    """The effects that fill the results, and the memory of these."""
    loop = results[0].source
    targets = {
        r.arg: UOp(
            Op.BUFFER,
            r.dtype,
            (),
            BufferArg(
                100 + r.arg,
                int(np.prod([s if isinstance(s, int) else int(s.vmax) for s in r.shape])),
                "CPU",
            ),
        )
        for r in results
    }
    operands = [s if s.op is Op.BIND or s.dtype is index else base(s) for s in loop.src]
    effects = fuse_loop(loop, operands, targets)
    return None if effects is None else (effects, targets)


CPU = replace(Target.generic(cores=3), has_masked_access=True, has_gather=True)
GPU = replace(
    Target.generic(cores=60),
    l3_bytes=0,
    has_local=True,
    has_shared=True,
    shared_bytes=48 << 10,
    max_global=(2**31 - 1, 65535, 65535),
    max_local=1024,
    max_local_dims=(1024, 1024, 64),
    lockstep=32,
)
TARGETS = (CPU, GPU)


def stored(value: UOp, *ranges: UOp) -> UOp:
    return UOp(Op.BUFFERIZE, value.dtype, (value, *ranges), BufferizeArg("CPU"))


def run(effect: UOp, memory: Mapping[UOp, Any], target: Target | None) -> None:
    """Run a kernel as it is, or as it is lowered for a target."""
    kernel = UOp.sink(
        effect.substitute({b: b.symbol for b in effect.iter_ops(Op.BIND)}), arg=KernelInfo()
    )
    params = {b: UOp(Op.PARAM, b.dtype, (), ParamArg(i, b.arg.size)) for i, b in enumerate(memory)}
    kernel = kernel.substitute(params)
    if target is not None:
        context = Context(target=target, options=IROptions(check="1"))
        kernel = run_pipeline("lower", run_pipeline("optimize", kernel, context), context)
    evaluate_kernel(kernel, dict(enumerate(memory.values())))


def check(results: Sequence[UOp], arrays: dict[int, Any], n_kernels: int = 1) -> list[UOp]:
    """Compare what the kernels compute with what the loop means."""
    made = fuse(results)
    assert made is not None, "the loop is no kernel"
    effects, targets = made
    assert len(effects) == n_kernels
    loop = results[0].source
    memory = {
        b: np.ascontiguousarray(arrays[b.arg.id], b.dtype.numpy).reshape(-1)
        for b in loop.iter_ops(Op.BUFFER)
    }
    for target in (None, *TARGETS):
        found = {t: np.full(t.arg.size, 77, t.dtype.numpy) for t in targets.values()}
        for effect in effects:
            run(effect, {**memory, **found}, target)
        for result in results:
            expected = np.asarray(evaluate(result, memory))
            values = found[targets[result.arg]][: expected.size].reshape(expected.shape)
            assert_close(values, expected, loose=1e-3 if result.dtype is float16 else 1e-5)
    return effects


def count_carried(effect: UOp) -> int:
    return sum(1 for _ in effect.iter_ops(Op.CARRY))


def const(x: UOp, value: Any) -> UOp:
    return make_constant_like(x, value)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_independent_elements_fuse_into_one_kernel(count: int) -> None:
    x, a = tensor(1, (2, 3)), tensor(2, (2, 3))
    results = loop_of(lambda s, c: [s * c + const(s, 1)], count, [x], constants=[a])
    check(results, {1: RNG.normal(size=(2, 3)), 2: RNG.normal(size=(2, 3))})


def test_constant_expressions_are_recomputed_instead_of_loaded() -> None:
    x, rows = tensor(1, (2, 3)), tensor(2, (5, 3))
    loop = loop_of(lambda s, r: [s + make_expand(make_reshape(r, (1, 3)), (2, 3))], 5, [x], [rows])[
        0
    ].source
    first, second = UOp.range(5, 0, AxisType.LOOP), UOp.range(3, 1, AxisType.LOOP)
    zeros = stored(UOp.const(float32, 0.5), UOp.range(2, 0, AxisType.LOOP), second)
    counted = stored((first * 3 + second).cast(float32), first, second)
    target = UOp(Op.BUFFER, float32, (), BufferArg(100, 6, "CPU"))
    effects = fuse_loop(loop, [loop.src[0], zeros, counted], {0: target})
    assert effects is not None
    out = np.zeros((2, 3), np.float32)
    run(effects[0], {target: out}, None)
    np.testing.assert_array_equal(
        out, np.broadcast_to(np.arange(15).reshape(5, 3).sum(0) + 0.5, (2, 3))
    )


@pytest.mark.parametrize("n", [8, 37, 100])
def test_elements_are_vectorized_and_split_over_threads(n: int) -> None:
    def body(s: UOp, c: UOp, x: UOp) -> list[UOp]:
        flag = make_reduce_axis(s, Op.MAX, (1,)) < 0
        turned = make_permute(make_shrink(x, [(0, 3), (0, n)]), (1, 0)) - s
        return [s * const(s, 0.5) + turned, c + make_cast(make_reshape(flag, (n,)), int32), turned]

    results = loop_of(body, 6, [tensor(1, (n, 3)), tensor(2, (n,), int32)], [tensor(3, (6, 3, n))])
    check(results, {1: RNG.normal(size=(n, 3)), 2: np.zeros(n), 3: RNG.normal(size=(6, 3, n))})


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_carries_can_be_swapped(count: int) -> None:
    results = loop_of(lambda a, b: [b, a + b], count, [tensor(1, (4,)), tensor(2, (4,))])
    check(results, {1: np.arange(4), 2: np.ones(4)})


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("count", [1, 5])
def test_slices_are_read_and_results_stacked_in_each_iteration(
    count: int, is_reversed: bool
) -> None:
    results = loop_of(
        lambda s, x: [s * const(s, 0.5) + x, s - x],
        count,
        [tensor(1, (3,))],
        [tensor(2, (count, 3))],
        is_reversed=is_reversed,
    )
    check(results, {1: np.arange(3), 2: RNG.normal(size=(count, 3))})


def test_a_loop_without_carries_is_parallel() -> None:
    results = loop_of(lambda x: [x * x], 5, [], [tensor(1, (5, 3))])
    (effect,) = check(results, {1: RNG.normal(size=(5, 3))})
    assert all(r.arg.kind is AxisType.LOOP for r in effect.iter_ops(Op.RANGE))


def test_loop_invariant_carries_need_no_register() -> None:
    results = loop_of(lambda s, c: [s + c, c], 4, [tensor(1, (3,)), tensor(2, (3,))])
    (effect,) = check(results, {1: np.arange(3), 2: np.ones(3)})
    assert count_carried(effect) == 1


def test_only_carries_with_readers_are_kept() -> None:
    results = loop_of(lambda a, b: [a + const(a, 1), a + b], 4, [tensor(1, (3,)), tensor(2, (3,))])
    (effect,) = check(results[:1], {1: np.arange(3), 2: np.ones(3)})
    assert count_carried(effect) == 1


def test_the_counter_is_a_value_and_an_index() -> None:
    def body(i: UOp, s: UOp, rows: UOp) -> list[UOp]:
        row = make_reshape(make_gather(rows, i, 0), (3,))
        return [s + row * make_expand(make_reshape(make_cast(i, float32), (1,)), (3,))]

    results = loop_of(
        body, 5, [tensor(1, (3,))], constants=[tensor(2, (5, 3))], counter="loop_counter_0"
    )
    check(results, {1: np.arange(3), 2: RNG.normal(size=(5, 3))})


def matvec(m: UOp, v: UOp) -> UOp:
    """m (k, j) times each row of v (n, j)."""
    n, j = v.shape
    k = m.shape[0]
    left = make_expand(make_reshape(v, (n, 1, j)), (n, k, j))
    right = make_expand(make_reshape(m, (1, k, j)), (n, k, j))
    return make_reshape(make_reduce_axis(left * right, Op.ADD, (2,)), (n, k))


def test_an_axis_along_which_elements_read_each_other_is_unrolled() -> None:
    results = loop_of(
        lambda s, m: [matvec(m, s)], 4, [tensor(1, (6, 3))], constants=[tensor(2, (3, 3))]
    )
    (effect,) = check(results, {1: RNG.normal(size=(6, 3)), 2: RNG.normal(size=(3, 3))})
    assert count_carried(effect) == 3


def test_a_small_carry_is_unrolled() -> None:
    def body(p: UOp, x: UOp, m: UOp) -> list[UOp]:
        left = matvec(m, p)
        both = matvec(m, make_permute(left, (1, 0)))
        return [both + const(both, 0.25), matvec(m, x), make_reduce_axis(x, Op.MAX, (0, 1))]

    results = loop_of(
        body, 5, [tensor(1, (4, 4)), tensor(2, (1, 4))], constants=[tensor(3, (4, 4))]
    )
    check(
        results,
        {1: np.eye(4), 2: RNG.normal(size=(1, 4)), 3: RNG.normal(size=(4, 4)) * 0.4},
        n_kernels=1,
    )


@pytest.mark.parametrize(("n", "is_kernel"), [(3, True), (4, True), (6, False)])
def test_products_of_wider_matrices_are_vectorized_kernels(n: int, is_kernel: bool) -> None:
    def body(p: UOp, m: UOp) -> list[UOp]:
        return [matvec(m, make_permute(matvec(m, p), (1, 0)))]

    made = fuse(loop_of(body, 100, [tensor(1, (n, n))], constants=[tensor(2, (n, n))]))
    assert (made is not None) is is_kernel


def test_a_scan_along_an_unrolled_axis() -> None:
    results = loop_of(
        lambda s: [make_scan_axis(s, Op.ADD, 1) * const(s, 0.5)], 3, [tensor(1, (5, 4))]
    )
    check(results, {1: RNG.normal(size=(5, 4))})


def test_slices_of_rows_are_concatenated() -> None:
    def body(s: UOp) -> list[UOp]:
        head, tail = make_shrink(s, [(0, 5), (0, 1)]), make_shrink(s, [(0, 5), (1, 3)])
        return [
            make_pad(tail, [(0, 0), (0, 1)]) + make_pad(head + const(head, 1), [(0, 0), (2, 0)])
        ]

    check(loop_of(body, 5, [tensor(1, (5, 3))]), {1: RNG.normal(size=(5, 3))})


def test_values_of_several_shapes_are_several_kernels_that_recompute_shared_values() -> None:
    def body(t: UOp, s: UOp) -> list[UOp]:
        return [t + const(t, 0.5), s + make_expand(make_reshape(t, (1,)), (4,))]

    check(
        loop_of(body, 5, [tensor(1, ()), tensor(2, (4,))]),
        {1: np.float32(1), 2: np.arange(4)},
        n_kernels=2,
    )


@pytest.mark.parametrize("dtype", [bool_, int8, int64, float64, float16])
def test_carries_have_any_dtype(dtype: DType) -> None:
    results = loop_of(
        lambda s, x: [make_alu(Op.MAX, s, x), s],
        5,
        [tensor(1, (3,), dtype)],
        [tensor(2, (5, 3), dtype)],
    )
    check(results, {1: np.zeros(3), 2: RNG.integers(0, 2, (5, 3))})


def test_narrow_floats_are_rounded_once_in_a_reduction() -> None:
    def body(s: UOp) -> list[UOp]:
        mean = make_reduce_axis(s, Op.ADD, (1,))
        return [s + make_expand(mean, (2, 8)) * const(s, 0.01)]

    check(loop_of(body, 3, [tensor(1, (2, 8), float16)]), {1: RNG.normal(size=(2, 8))})


@pytest.mark.parametrize("n", [1, 4, 6])
def test_sizes_and_trip_counts_may_be_symbolic(n: int) -> None:
    size = bind(UOp.variable("n", 1, 6), n)
    steps = bind(UOp.variable("steps", 0, 9), n + 1)
    x = tensor(1, (size, 3), size=18)
    results = loop_of(
        lambda s: [s * const(s, 0.5) + make_expand(make_reduce_axis(s, Op.ADD, (1,)), s.shape)],
        steps,
        [x],
    )
    made = fuse(results)
    assert made is not None
    (effect,), targets = made
    values, out = RNG.normal(size=(6, 3)).astype(np.float32), np.full((6, 3), 77, np.float32)
    unbound = effect.substitute({b: b.symbol for b in effect.iter_ops(Op.BIND)})
    evaluate_kernel(UOp.sink(unbound), {base(x): values, targets[0]: out}, {"n": n, "steps": n + 1})
    for _ in range(n + 1):
        values[:n] = values[:n] * np.float32(0.5) + values[:n].sum(1, keepdims=True)
    np.testing.assert_allclose(out[:n], values[:n], rtol=1e-5)
    assert (out[n:] == 77).all()
    assert {b.symbol.arg.name for b in effect.iter_ops(Op.BIND)} == {"n", "steps"}


@pytest.mark.parametrize("count", [-2, 0, 1, 5])
def test_the_trip_count_may_be_computed(count: int) -> None:
    n = tensor(3, (), int64)
    results = loop_of(lambda s: [s + s], n, [tensor(1, (3,))])  # pyright: ignore[reportArgumentType]
    made = fuse(results)
    assert made is not None
    (effect,), targets = made
    out, x = np.zeros(3, np.float32), np.arange(3, dtype=np.float32)
    memory = {
        base(results[0].source.src[0]): np.int64([count]),
        base(results[0].source.src[1]): x,
        targets[0]: out,
    }
    evaluate_kernel(UOp.sink(effect), memory)
    np.testing.assert_array_equal(out, x * 2 ** max(count, 0))


def test_a_switch_selects_a_branch_for_each_element() -> None:
    def body(i: UOp, s: UOp) -> list[UOp]:
        param = make_parameter(s, 0)
        (chosen,) = make_switch(
            make_cast(i, int64) % 3,
            [UOp.sink(param + const(param, 1)), UOp.sink(param * param), UOp.sink(-param)],
            [s],
        )
        return [chosen]

    check(loop_of(body, 7, [tensor(1, (4,))], counter="loop_counter_0"), {1: np.arange(4) / 8})


def test_an_equal_branch_that_reads_the_sum_of_another_one_has_sums_of_its_own() -> None:
    """Equal bodies are one graph, but not one loop."""

    def body(i: UOp, s: UOp, w: UOp) -> list[UOp]:
        memory = make_parameter(w, 0)
        total = make_expand(
            make_reshape(make_reduce_axis(memory, Op.ADD, (0,)), (1,)), memory.shape
        )
        bodies, number = [UOp.sink(total * memory), UOp.sink(-total)], make_cast(i, int64) % 2
        (first,) = make_switch(number, bodies, [w])
        (second,) = make_switch(number, bodies, [first])
        return [s + second]

    arrays = {1: np.arange(4) / 8, 2: np.array([0.5, -0.25, 0.75, 0.125])}
    check(
        loop_of(body, 3, [tensor(1, (4,))], constants=[tensor(2, (4,))], counter="loop_counter_0"),
        arrays,
    )


@pytest.mark.parametrize(("n", "is_kernel"), [(20, True), (500, False)])
def test_a_long_chain_of_switches_does_not_fuse(n: int, is_kernel: bool) -> None:
    def body(i: UOp, s: UOp) -> list[UOp]:
        param, number = make_parameter(s, 0), make_cast(i, int64) % 2
        for _ in range(n):
            (s,) = make_switch(
                number,
                [UOp.sink(param + const(param, 1)), UOp.sink(param * const(param, 0.5))],
                [s],
            )
        return [s]

    results = loop_of(body, 3, [tensor(1, (4,))], counter="loop_counter_0")
    assert (fuse(results) is not None) is is_kernel


def test_a_nested_loop_is_a_nested_loop_of_the_kernel() -> None:
    def body(i: UOp, s: UOp, x: UOp) -> list[UOp]:
        operands = [s, x]
        inner, c = make_parameter(s, 0), make_parameter(x, 1)
        count = make_counter("loop_counter_1", 3)
        step = inner * const(inner, 0.5) + c * make_expand(
            make_reshape(make_cast(count + i, float32), (1,)), (4,)
        )
        (found,) = make_loop(UOp.sink(step), 3, operands, n_carried=1, counter="loop_counter_1")
        return [found + s]

    results = loop_of(body, 5, [tensor(1, (4,))], [tensor(2, (5, 4))], counter="loop_counter_0")
    (effect,) = check(results, {1: np.arange(4), 2: RNG.normal(size=(5, 4))})
    assert sum(r.arg.kind is AxisType.SCAN for r in effect.iter_ops(Op.RANGE)) == 2


def test_an_inner_loop_reads_slices_with_a_trip_count_from_the_outer_loop() -> None:
    def body(i: UOp, s: UOp, m: UOp) -> list[UOp]:
        inner, c = make_parameter(s, 0), make_parameter(m, 1)
        (found,) = make_loop(UOp.sink(matvec(c, inner)), make_cast(i, int64), [s, m], n_carried=1)  # pyright: ignore[reportArgumentType]
        return [found]

    results = loop_of(
        body, 4, [tensor(1, (5, 3))], constants=[tensor(2, (3, 3))], counter="loop_counter_0"
    )
    check(results, {1: RNG.normal(size=(5, 3)), 2: RNG.normal(size=(3, 3)) * 0.5})


def test_inner_loops_of_parallel_iterations_have_carries_of_their_own() -> None:
    def body(i: UOp, x: UOp) -> list[UOp]:
        start = make_constant_like(x, 0)
        inner, c = make_parameter(start, 0), make_parameter(x, 1)
        operands = [start, x]
        (found,) = make_loop(UOp.sink(inner * const(inner, 0.5) + c), 3, operands, n_carried=1)
        return [found]

    results = loop_of(body, 64, [], [tensor(1, (64,))], counter="loop_counter_0")
    check(results, {1: RNG.normal(size=64)})


def test_memory_that_a_parallel_loop_reads_stays_the_node_that_another_kernel_fills() -> None:
    """The loop over rows becomes another one; that of the running sum, which is equal to it, does
    not.
    """
    (result,) = loop_of(lambda x, c: [x * c], 4, [], [tensor(1, (4, 3))], [tensor(2, (3,))])
    column, row = UOp.range(3, 0, AxisType.LOOP), UOp.range(4, 1, AxisType.SCAN)
    running = UOp(Op.SCAN, float32, (row.cast(float32), row), Op.ADD)
    memory = stored(running + column.cast(float32), row, column)
    rows, target = (
        base(result.source.src[1]),
        UOp(Op.BUFFER, float32, (), BufferArg(100, 12, "CPU")),
    )
    effects = fuse_loop(result.source, [result.source.src[0], rows, memory], {0: target})
    assert effects is not None
    assert {node for node in effects[0].toposort() if node.op is Op.BUFFERIZE} == {memory}


NEIGHBOURS = [
    ("a neighbour", lambda s: make_pad(make_shrink(s, [(1, 100)]), [(0, 1)])),
    ("all others", lambda s: s + make_expand(make_reduce_axis(s, Op.ADD, (0,)), (100,))),
    ("one for all", lambda s: s + make_expand(make_shrink(s, [(0, 1)]), (100,))),
    ("what it chooses", lambda s: make_gather(s, make_cast(s, int32), 0)),
    ("those before it", lambda s: make_scan_axis(s, Op.ADD, 0)),
]


@pytest.mark.parametrize(("what", "step"), NEIGHBOURS, ids=[n for n, _ in NEIGHBOURS])
def test_a_loop_whose_elements_read_many_others_does_not_fuse(
    what: str, step: Callable[[UOp], UOp]
) -> None:
    assert fuse(loop_of(lambda s: [step(s)], 5, [tensor(1, (100,))])) is None, what


@pytest.mark.parametrize("limit", [-1, 9, 1e9])
def test_a_conditional_loop_with_a_small_carry_fuses(limit: float) -> None:
    def body(s: UOp) -> list[UOp]:
        doubled = s + s
        return [doubled, make_reshape(make_reduce_axis(doubled, Op.MAX, (0, 1)), ()) < limit]

    results = loop_of(body, 20, [tensor(1, (2, 3))], is_conditional=True)
    (effect,) = check(results, {1: RNG.normal(size=(2, 3))})
    assert sum(1 for _ in effect.iter_ops(Op.LEAVE)) == 1


def test_the_condition_of_a_loop_is_carried_without_other_readers() -> None:
    def body(s: UOp, n: UOp) -> list[UOp]:
        return [s + const(s, 1), n * const(n, 2), n < 20]

    results = loop_of(body, 100, [tensor(1, ()), tensor(2, ())], is_conditional=True)
    check(results[:1], {1: np.float32(0), 2: np.float32(1)})


def test_a_conditional_loop_over_many_elements_does_not_fuse() -> None:
    def body(s: UOp) -> list[UOp]:
        return [s + s, make_reshape(make_reduce_axis(s, Op.MAX, (0,)), ()) < 9]

    assert fuse(loop_of(body, 5, [tensor(1, (100,))], is_conditional=True)) is None


def test_a_loop_with_a_long_branch_does_not_fuse() -> None:
    def body(i: UOp, s: UOp) -> list[UOp]:
        param = make_parameter(s, 0)
        long = param
        for _ in range(300):
            long = long * param + param
        (chosen,) = make_switch(make_cast(i, int64) % 2, [UOp.sink(param), UOp.sink(long)], [s])
        return [chosen]

    assert fuse(loop_of(body, 5, [tensor(1, (4,))], counter="loop_counter_0")) is None
