"""The reference evaluation: tensors, kernels and linear forms, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import (
    ALL_DTYPES,
    AddressSpace,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    index,
    int8,
    int16,
    int32,
    uint8,
    uint32,
    void,
)
from svod_ir import (
    AxisType,
    BufferizeArg,
    CheckArg,
    EvaluationError,
    KernelInfo,
    Op,
    TensorCore,
    UOp,
    make_alu,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_shrink,
    parse_graph,
)
from svod_ir.evaluate import evaluate, evaluate_kernel, evaluate_linear
from svod_ir.testing import count_examples, graphs, random_inputs
from svod_ir.testing.nodes import bind, buffer, contiguous, local, param, reduce_over, special

LOOP = AxisType.LOOP


A = buffer(1, 24)
X = make_reshape(A, (2, 3, 4))
DATA = np.arange(24, dtype=np.float32) - 7
CUBE = DATA.reshape(2, 3, 4)


def _run(node: UOp) -> np.ndarray:
    return evaluate(node, {A: DATA})


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (make_reshape(A, (6, 4)), DATA.reshape(6, 4)),
        (make_permute(X, (2, 0, 1)), CUBE.transpose(2, 0, 1)),
        (make_expand(make_reshape(A, (24, 1)), (24, 2)), np.repeat(DATA.reshape(24, 1), 2, 1)),
        (make_pad(X, [(1, 0), (0, 2), (0, 0)]), np.pad(CUBE, [(1, 0), (0, 2), (0, 0)])),
        (make_shrink(X, [(1, 2), (0, 2), (1, 4)]), CUBE[1:2, 0:2, 1:4]),
        (make_flip(X, [True, False, True]), CUBE[::-1, :, ::-1]),
        (make_reduce_axis(X, Op.ADD, (0, 2)), CUBE.sum((0, 2), keepdims=True)),
        (make_reduce_axis(X, Op.MAX, (1,)), CUBE.max(1, keepdims=True)),
        (make_reduce_axis(X, Op.MIN, (1, 2)), CUBE.min((1, 2), keepdims=True)),
        (make_reduce_axis(X, Op.MUL, (2,)), CUBE.prod(2, keepdims=True)),
        (make_scan_axis(X, Op.ADD, 1), CUBE.cumsum(1)),
        (make_scan_axis(X, Op.MAX, 2), np.maximum.accumulate(CUBE, 2)),
        (X * X + 2.0, CUBE * CUBE + 2),
        ((X < 0.0).where(X, 1.0), np.where(CUBE < 0, CUBE, 1).astype(np.float32)),
        (X.cast(int8), CUBE.astype(np.int8)),
        (X.bitcast(uint32), CUBE.view(np.uint32)),
        (make_iota(5, uint8), np.arange(5, dtype=np.uint8)),
        (contiguous(X), CUBE),
        (UOp(Op.DETACH, float32, (X,)), CUBE),
        (UOp(Op.CHECK, int32, (X.cast(int32),), CheckArg("take", 0, 2)), CUBE.astype(np.int32)),
        (UOp(Op.COPY, float32, (X,), "CUDA"), CUBE),
        (UOp.const(float32, 3), np.float32(3)),
        (X, CUBE),
    ],
    ids=lambda v: v.op.name if isinstance(v, UOp) else "",
)
def test_tensor_ops_do_what_numpy_does(node: UOp, expected: np.ndarray) -> None:
    found = _run(node)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


def test_gather_gives_zero_outside() -> None:
    positions = buffer(2, 4, int32)
    node = make_gather(X, make_reshape(positions, (2, 2)), 1)
    found = evaluate(node, {A: DATA, positions: np.array([2, -1, 3, 0], np.int32)})
    expected = np.zeros((2, 2, 2, 4), np.float32)
    expected[:, 0, 0], expected[:, 1, 1] = CUBE[:, 2], CUBE[:, 0]
    np.testing.assert_array_equal(found, expected)


def test_gather_from_an_empty_axis_gives_zeros() -> None:
    empty, positions = buffer(3, 0), buffer(2, 3, int32)
    found = evaluate(
        make_gather(empty, positions, 0), {empty: np.zeros(0, np.float32), positions: np.zeros(3, np.int32)}
    )
    np.testing.assert_array_equal(found, np.zeros(3, np.float32))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_reductions_of_nothing_give_their_identity(dtype: DType) -> None:
    empty = make_reshape(buffer(4, 0, dtype), (2, 0))
    for op, value in ((Op.ADD, 0), (Op.MUL, 1), (Op.MAX, dtype.min), (Op.MIN, dtype.max)):
        found = evaluate(make_reduce_axis(empty, op, (1,)), {buffer(4, 0, dtype): np.zeros(0, dtype.numpy)})
        assert found.shape == (2, 1)
        assert (found == dtype.numpy.type(value)).all()


def test_reductions_wrap_integers_and_keep_nan() -> None:
    small = buffer(5, 3, int8)
    found = evaluate(make_reduce_axis(small, Op.ADD, (0,)), {small: np.array([100, 100, 100], np.int8)})
    assert found.tolist() == [44]
    real = buffer(6, 3)
    data = np.array([1, np.nan, 3], np.float32)
    for op in (Op.MAX, Op.MIN, Op.ADD):
        assert math.isnan(evaluate(make_reduce_axis(real, op, (0,)), {real: data})[0])
    flags = buffer(7, 3, bool_)
    assert evaluate(make_reduce_axis(flags, Op.ADD, (0,)), {flags: np.array([False, True, True])}).tolist() == [True]


def test_a_sum_of_narrow_floats_is_rounded_once() -> None:
    many = buffer(8, 4096, float16)
    found = evaluate(make_reduce_axis(many, Op.ADD, (0,)), {many: np.ones(4096, np.float16)})
    assert found.tolist() == [4096]


def test_symbolic_sizes_and_bound_variables() -> None:
    n = UOp.variable("n", 1, 9)
    one = make_reshape(make_shrink(A, [(0, 1)]), (1,))
    wide = make_expand(one, (n,))
    np.testing.assert_array_equal(evaluate(wide, {A: DATA, "n": 4}), np.full(4, DATA[0]))
    np.testing.assert_array_equal(evaluate(wide, {A: DATA, n: 2}), np.full(2, DATA[0]))
    bound = bind(n, 3)
    np.testing.assert_array_equal(evaluate(make_expand(one, (bound,)), {A: DATA}), np.full(3, DATA[0]))
    assert evaluate(n * 2 + 1, {"n": 4}) == 9


def test_variables_may_take_many_values_at_once() -> None:
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
    found = evaluate((x * 3 + y) // 2, {"x": np.array([1, 2, 3]), "y": np.array([0, 1, 5])})
    assert found.tolist() == [1, 3, 7]


def test_a_sink_gives_a_tuple() -> None:
    first, second = evaluate(UOp.sink(X, make_reduce_axis(X, Op.ADD, (0, 1, 2))), {A: DATA})
    np.testing.assert_array_equal(first, CUBE)
    assert second.reshape(()) == DATA.sum()


def test_a_view_reads_bytes() -> None:
    raw = buffer(9, 16, uint8)
    view = UOp(Op.BUFFER_VIEW, float32, (raw,), (4, 2))
    data = np.arange(4, dtype=np.float32).view(np.uint8)
    np.testing.assert_array_equal(evaluate(view, {raw: data}), [1, 2])
    with pytest.raises(EvaluationError, match="bytes 12 to 20 are out of range of the 16 bytes"):
        evaluate(UOp(Op.BUFFER_VIEW, float32, (raw,), (12, 2)), {raw: data})


def test_shards_are_selected_joined_and_reduced() -> None:
    stack = UOp(Op.MSTACK, float32, (X, X + 1.0))
    np.testing.assert_array_equal(_run(UOp(Op.MSELECT, float32, (stack,), 1)), CUBE + 1)
    np.testing.assert_array_equal(_run(UOp(Op.MULTI, float32, (stack,), 1)), np.concatenate([CUBE, CUBE + 1], 1))
    np.testing.assert_array_equal(_run(UOp(Op.ALLREDUCE, float32, (stack,), (Op.ADD, "CPU"))), 2 * CUBE + 1)


def test_an_assignment_writes_the_view_of_itsbuffer() -> None:
    data = DATA.copy()
    target = make_shrink(make_permute(X, (2, 0, 1)), [(1, 2), (0, 2), (0, 3)])
    assigned = UOp(Op.ASSIGN, float32, (target, UOp.const(float32, 100)))
    found = evaluate(assigned, {A: data})
    expected = CUBE.copy()
    expected[:, :, 1] = 100
    np.testing.assert_array_equal(data.reshape(2, 3, 4), expected)
    np.testing.assert_array_equal(found, np.full((1, 2, 3), 100, np.float32))


def test_a_buffer_keeps_its_old_value_for_readers_beside_an_assignment() -> None:
    data = DATA.copy()
    assigned = UOp(Op.ASSIGN, float32, (A, A + 1.0))
    new, old = evaluate(UOp.sink(assigned, A * 2.0), {A: data})
    np.testing.assert_array_equal(new, DATA + 1)
    np.testing.assert_array_equal(old, DATA * 2)
    np.testing.assert_array_equal(data, DATA + 1)


def test_a_reader_after_an_assignment_sees_it() -> None:
    data = DATA.copy()
    assigned = UOp(Op.ASSIGN, float32, (A, A + 1.0))
    twice = UOp(Op.ASSIGN, float32, (assigned, assigned * 2.0))
    np.testing.assert_array_equal(evaluate(A.after(twice), {A: data}), (DATA + 1) * 2)


def test_an_assignment_through_padding_writes_what_is_there() -> None:
    data = np.zeros(3, np.float32)
    memory = buffer(10, 3)
    target = make_pad(memory, [(1, 1)])
    evaluate(UOp(Op.ASSIGN, float32, (target, make_iota(5, int32).cast(float32))), {memory: data})
    assert data.tolist() == [1, 2, 3]


def _matmul(n: int) -> UOp:
    i, j, k = UOp.range(n, 0, LOOP), UOp.range(n, 1, LOOP), UOp.range(n, 2, AxisType.REDUCE)
    product = param(1, n * n).index(i * n + k) * param(2, n * n).index(k * n + j)
    total = reduce_over(product, k)
    return UOp.sink(param(0, n * n).index(i * n + j).store(total).end(i, j), arg=KernelInfo("mm"))


def test_a_matmul_kernel() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (6, 6)).astype(np.float32) for _ in range(2))
    out = np.zeros((6, 6), np.float32)
    evaluate_kernel(_matmul(6), {0: out, 1: a, 2: b})
    np.testing.assert_array_equal(out, a @ b)


def test_nested_reductions_over_one_range_are_each_their_own_loop() -> None:
    i, k = UOp.range(4, 0, LOOP), UOp.range(5, 1, AxisType.REDUCE)
    read = param(1, 20).index(i * 5 + k)
    mean = reduce_over(read, k) * 0.25
    spread = reduce_over((read - mean) * (read - mean), k)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    out = np.zeros(4, np.float32)
    evaluate_kernel(UOp.sink(param(0, 4).index(i).store(spread).end(i)), {0: out, 1: x})
    np.testing.assert_array_equal(out, ((x - x.sum(1, keepdims=True) * 0.25) ** 2).sum(1))


def test_an_inner_loop_may_depend_on_an_outer_one() -> None:
    i = UOp.range(5, 0, LOOP)
    k = UOp.range(i + 1, 1, AxisType.REDUCE)
    total = reduce_over(param(1, 5).index(k), k)
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    evaluate_kernel(UOp.sink(param(0, 5).index(i).store(total).end(i)), {0: out, 1: x})
    np.testing.assert_array_equal(out, x.cumsum())


@pytest.mark.parametrize("is_scan_outermost", [False, True])
def test_a_scan_combines_what_its_loop_has_seen(is_scan_outermost: bool) -> None:
    i, k = UOp.range(3, 0, LOOP), UOp.range(5, 1, AxisType.SCAN)
    scan = UOp(Op.SCAN, float32, (param(1, 15).index(i * 5 + k), k), Op.ADD)
    store = param(0, 15).index(i * 5 + k).store(scan)
    x, out = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros((3, 5), np.float32)
    evaluate_kernel(UOp.sink(store.end(*((k, i) if is_scan_outermost else (i, k)))), {0: out, 1: x})
    np.testing.assert_array_equal(out, x.cumsum(1))


def test_an_empty_loop_leaves_memory_alone_and_reduces_to_the_identity() -> None:
    i, k = UOp.range(2, 0, LOOP), UOp.range(0, 1, AxisType.REDUCE)
    total = reduce_over(param(1, 8).index(k), k, op=Op.MUL)
    out = np.zeros(2, np.float32)
    evaluate_kernel(UOp.sink(param(0, 2).index(i).store(total).end(i)), {0: out, 1: np.zeros(8, np.float32)})
    assert out.tolist() == [1, 1]
    empty = UOp.range(0, 0, LOOP)
    evaluate_kernel(UOp.sink(param(0, 2).index(empty).store(UOp.const(float32, 9)).end(empty)), {0: out})
    assert out.tolist() == [1, 1]


def test_a_stored_value_is_read_by_its_position() -> None:
    i, j = UOp.range(2, 0, LOOP), UOp.range(3, 1, LOOP)
    stored = UOp(Op.BUFFERIZE, float32, (A.index(i * 3 + j) * 2.0, i, j), BufferizeArg("CPU", AddressSpace.GLOBAL))
    p, q = UOp.range(3, 2, LOOP), UOp.range(2, 3, LOOP)
    swapped = UOp(Op.BUFFERIZE, float32, (stored.index(q, p), p, q), BufferizeArg("CPU"))
    (found,) = evaluate(UOp.sink(swapped), {A: DATA})
    np.testing.assert_array_equal(found, DATA[:6].reshape(2, 3).T * 2)


def test_calls_run_their_bodies_on_their_arguments() -> None:
    i = UOp.range(4, 0, LOOP)
    n = UOp.variable("n", 0, 9)
    body = UOp.sink(param(0, 4).index(i).store(param(1, 4).index(i) + n.cast(float32)).end(i), arg=KernelInfo())
    made = buffer(-1, 4)
    source = buffer(11, 4)
    call = UOp(Op.CALL, void, (body, made, source, bind(n, 5)))
    filled = made.after(call)
    again = buffer(-2, 4)
    copied = again.after(UOp(Op.CALL, void, (UOp(Op.COPY, float32, (param(1, 4),), "CPU"), again, filled)))
    first, second = evaluate(UOp.sink(filled, copied), {source: np.arange(4, dtype=np.float32)})
    assert first.tolist() == second.tolist() == [5, 6, 7, 8]


def test_a_gate_guards_reads_and_writes() -> None:
    i = UOp.range(6, 0, LOOP)
    inside = i < 3
    read = param(1, 3).index(i, gate=inside).load(UOp.const(float32, -1))
    out = np.zeros(6, np.float32)
    evaluate_kernel(UOp.sink(param(0, 6).index(i).store(read).end(i)), {0: out, 1: np.arange(3, dtype=np.float32)})
    assert out.tolist() == [0, 1, 2, -1, -1, -1]
    small = np.zeros(3, np.float32)
    evaluate_kernel(UOp.sink(param(0, 3).index(i, gate=inside).store(UOp.const(float32, 4)).end(i)), {0: small})
    assert small.tolist() == [4, 4, 4]


def test_a_read_outside_is_an_error_unless_a_where_discards_it() -> None:
    i = UOp.range(6, 0, LOOP)
    read = param(1, 3).index(i)
    buffers = {0: np.zeros(6, np.float32), 1: np.arange(3, dtype=np.float32)}
    evaluate_kernel(UOp.sink(param(0, 6).index(i).store((i < 3).where(read * 2.0, 7.0)).end(i)), buffers)
    assert buffers[0].tolist() == [0, 2, 4, 7, 7, 7]
    with pytest.raises(EvaluationError, match="index 3 is out of range of the 3 elements"):
        evaluate_kernel(UOp.sink(param(0, 6).index(i).store(read).end(i)), buffers)
    with pytest.raises(EvaluationError, match="out of range"):
        evaluate_kernel(UOp.sink(param(0, 6).index(i).store(read.load()).end(i)), buffers)
    with pytest.raises(EvaluationError, match="out of range"):
        evaluate_kernel(UOp.sink(param(1, 3).index(i).store(UOp.const(float32, 0)).end(i)), buffers)


def test_memory_that_nobody_wrote_shows() -> None:
    register = UOp(Op.DEFINE_REG, float32, (), (0, 1))
    out = np.zeros(1, np.float32)
    zero = UOp.const(index, 0)
    evaluate_kernel(UOp.sink(param(0, 1).index(zero).store(register.index(zero).load())), {0: out})
    assert math.isnan(out[0])


ACCUMULATE = """
    %out = PARAM f32 [0, 3]
    %n = CONST i32 [3]
    %m = CONST i32 [4]
    %zero = CONST i32 [0]
    %reg = DEFINE_REG f32x4 [0, 1]
    %i = RANGE i32 %n [0, LOOP]
    %init_at = AFTER f32x4 %reg, %i
    %init_index = INDEX f32x4 %init_at, %zero
    %start = VCONST f32x4 [0.0, 0.0, 0.0, 0.0]
    %init = STORE %init_index, %start
    %k = RANGE i32 %m [1, REDUCE]
    %inside = AFTER f32x4 %reg, %init, %k
    %acc = INDEX f32x4 %inside, %zero
    %old = LOAD f32x4 %acc
    %in = PARAM f32 [1, 48]
    %sixteen = CONST i32 [16]
    %row = MUL i32 %i, %sixteen
    %column = MUL i32 %k, %m
    %at = ADD i32 %row, %column
    %place = INDEX f32x4 %in, %at
    %new = LOAD f32x4 %place
    %sum = ADD f32x4 %old, %new
    %update = STORE %acc, %sum
    %loop = END %update, %k
    %done = AFTER f32x4 %reg, %loop
    %final_at = INDEX f32x4 %done, %zero
    %final = LOAD f32x4 %final_at
    %total = REDUCE f32 %final [ADD]
    %out_at = INDEX f32 %out, %i
    %store = STORE %out_at, %total
    %end = END %store, %i
    %sink = SINK %end ["sum"]
"""


def test_registers_accumulate_vectors_in_loops() -> None:
    sink = parse_graph(ACCUMULATE)
    x, out = np.arange(48, dtype=np.float32), np.zeros(3, np.float32)
    evaluate_kernel(sink, {0: out, 1: x})
    np.testing.assert_array_equal(out, x.reshape(3, 16).sum(1))


def test_a_linear_kernel_runs_in_its_given_order() -> None:
    names = [line.split()[0] for line in ACCUMULATE.strip().splitlines()]
    nodes: dict[str, UOp] = {}
    for count, name in enumerate(names):
        nodes[name] = parse_graph("\n".join(ACCUMULATE.strip().splitlines()[: count + 1]))
    order = tuple(nodes[n] for n in names if n not in ("%sink",))
    x, out = np.arange(48, dtype=np.float32), np.zeros(3, np.float32)
    evaluate_linear(order, {0: out, 1: x})
    np.testing.assert_array_equal(out, x.reshape(3, 16).sum(1))


def test_an_open_loop_is_an_error() -> None:
    i = UOp.range(3, 0, LOOP)
    with pytest.raises(EvaluationError, match="not closed"):
        evaluate_linear((UOp.const(index, 3), i), {})


def test_vectors_are_made_taken_apart_and_joined() -> None:
    lanes = [UOp.const(float32, v) for v in (1, 2, 3, 4)]
    vector = UOp(Op.VECTORIZE, float32.vec(4), tuple(lanes))
    assert evaluate(vector).tolist() == [1, 2, 3, 4]
    assert evaluate(UOp(Op.GEP, float32, (vector,), (2,))) == 3
    assert evaluate(UOp(Op.GEP, float32.vec(2), (vector,), (3, 0))).tolist() == [4, 1]
    assert evaluate(UOp(Op.CAT, float32.vec(8), (vector, vector))).tolist() == [1, 2, 3, 4] * 2
    assert evaluate(UOp(Op.BROADCAST, float32.vec(4), (lanes[1],))).tolist() == [2, 2, 2, 2]
    assert evaluate(reduce_over(vector, op=Op.MAX)) == 4
    assert evaluate(UOp(Op.VCONST, int32.vec(3), (), (7, 8, 9))).tolist() == [7, 8, 9]
    assert evaluate(make_alu(Op.LT, vector, UOp.const(float32.vec(4), 2.5))).tolist() == [True, True, False, False]


def test_vector_locations_are_consecutive_gathered_and_masked() -> None:
    memory = param(1, 8, int32)
    data = np.arange(8, dtype=np.int32) * 10
    where = UOp(Op.VCONST, int32.vec(4), (), (7, 0, 3, 3))
    mask = UOp(Op.VCONST, bool_.vec(4), (), (True, False, True, False))
    four = UOp.const(int32, 4)
    other = UOp(Op.VCONST, int32.vec(4), (), (-1, -2, -3, -4))

    def run(location: UOp, alternative: UOp | None = None) -> list[int]:
        out = np.zeros(4, np.int32)
        target = param(0, 4, int32).index(UOp.const(int32, 0), lanes=4)
        evaluate_kernel(UOp.sink(target.store(location.load(alternative))), {0: out, 1: data})
        return out.tolist()

    assert run(memory.index(four, lanes=4)) == [40, 50, 60, 70]
    assert run(memory.index(where, lanes=4)) == [70, 0, 30, 30]
    assert run(
        memory.index(UOp.const(int32, 6), gate=UOp(Op.VCONST, bool_.vec(4), (), (True, True, False, False)), lanes=4),
        other,
    ) == [60, 70, -3, -4]
    assert run(memory.index(where, gate=mask, lanes=4), other) == [70, -2, 30, -4]
    assert run(memory.index(where, gate=UOp.const(bool_, False), lanes=4), other) == [-1, -2, -3, -4]

    out = np.zeros(8, np.int32)
    evaluate_kernel(UOp.sink(param(0, 8, int32).index(where, gate=mask, lanes=4).store(other)), {0: out})
    assert out.tolist() == [0, 0, 0, -3, 0, 0, 0, -1]


def test_a_kernel_runs_for_each_core() -> None:
    core = UOp.variable("core_id", 0, 3)
    out = np.zeros(4, np.int32)
    evaluate_kernel(UOp.sink(param(0, 4, int32).index(core).store(core.cast(int32) * 2)), {0: out})
    assert out.tolist() == [0, 2, 4, 6]


def test_the_threads_of_a_workgroup_meet_at_barriers() -> None:
    group, thread = (
        special("gidx0", 2),
        special("lidx0", 4),
    )
    shared = local(0, 4, int32)
    write = shared.index(thread).store((group * 10 + thread).cast(int32))
    barrier = UOp(Op.BARRIER, void, (write,))
    mirrored = shared.after(barrier).index(UOp.const(index, 3) - thread).load()
    out = np.zeros(8, np.int32)
    evaluate_kernel(UOp.sink(param(0, 8, int32).index(group * 4 + thread).store(mirrored)), {0: out})
    assert out.tolist() == [3, 2, 1, 0, 13, 12, 11, 10]


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "no array is given for"),
        ({A: np.zeros(24, np.float64)}, "an array of float64 is given for"),
        ({A: np.zeros(3, np.float32)}, "an array of 3 elements is given for"),
        ({A: np.zeros((4, 6), np.float32).T}, "not contiguous"),
    ],
    ids=["missing", "dtype", "size", "strides"],
)
def test_inputs_that_do_not_fit(inputs: dict[UOp, np.ndarray], problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        evaluate(X, inputs)


def test_a_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="no value is given for"):
        evaluate(UOp.variable("n", 0, 9) + 1)


def test_what_has_no_meaning_of_its_own_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="CUSTOM has no reference meaning"):
        evaluate(UOp(Op.CUSTOM, float32, (UOp.const(float32, 1),), "text"))


@pytest.mark.parametrize(
    "core",
    [
        TensorCore((16, 1, 4), 4, (uint8, int8, int32)),
        TensorCore((8, 1, 2), 2, (int16, int16, int32)),
        TensorCore((16, 16, 64), 4, (int8, uint8, int32)),
        TensorCore((16, 16, 32), 2, (bfloat16, bfloat16, float32)),
        TensorCore((3, 5, 6), 3, (float16, float16, float32)),
    ],
    ids=str,
)
def test_a_tensor_core_adds_the_product_of_two_tiles(core: TensorCore) -> None:
    (n, m, k), group = core.dims, core.group
    generator = np.random.default_rng(0)
    shapes = [(m, k), (k, n), (m, n)]
    a, b, total = (generator.integers(0, 99, s).astype(d.numpy) for s, d in zip(shapes, core.dtypes, strict=True))
    packed = b.reshape(k // group, group, n).transpose(0, 2, 1).reshape(-1)
    memory = [param(i, x.size, d) for i, (d, x) in enumerate(zip(core.dtypes, (a, b, total), strict=True))]
    vectors = [
        UOp(Op.INDEX, dtype, (p, UOp.const(index, 0))).load()
        for p, dtype in zip(memory, core.operand_dtypes, strict=True)
    ]
    found = evaluate(
        UOp(Op.WMMA, core.operand_dtypes[2], tuple(vectors), core), {0: a.reshape(-1), 1: packed, 2: total.reshape(-1)}
    )
    wide = np.float64 if core.dtypes[2].is_float else np.int64
    np.testing.assert_array_equal(found.reshape(m, n), total + (a.astype(wide) @ b.astype(wide)).astype(total.dtype))


def test_a_tensor_core_of_integers_wraps() -> None:
    core = TensorCore((2, 1, 1), 1, (int16, int16, int32))
    operands = [UOp.const(d, v) for d, v in zip(core.operand_dtypes, (2, 1, 0x7FFFFFFF), strict=True)]
    assert evaluate(UOp(Op.WMMA, int32.vec(2), tuple(operands), core)).tolist() == [-0x7FFFFFFF] * 2


def test_a_deep_graph_needs_no_recursion() -> None:
    x = UOp.variable("x", 0, 9, int32)
    node = x
    for _ in range(20_000):
        node = UOp(Op.ADD, int32, (node, x))
    assert evaluate(node, {"x": 2}) == 40_002


@settings(max_examples=count_examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_every_random_graph_has_a_value_of_its_shape_and_dtype(graph: UOp) -> None:
    found = evaluate(graph, random_inputs(graph))
    assert found.dtype == graph.dtype.numpy
    assert found.shape == graph.shape
