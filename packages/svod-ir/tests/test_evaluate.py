"""The reference evaluation: tensors, kernels and linear forms, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import (
    ALL_DTYPES,
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
)
from svod_ir import (
    AxisType,
    BufferArg,
    EvaluationError,
    Op,
    TensorCore,
    UOp,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    make_shrink,
    parse_graph,
)
from svod_ir.evaluate import evaluate, evaluate_kernel, evaluate_linear
from svod_ir.testing import count_examples, graphs, parse_linear, parse_nodes, random_inputs
from svod_ir.testing.nodes import alu, assign, bind, buffer, contiguous, param

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
        (UOp.const(float32, 3), np.float32(3)),
        (X, CUBE),
    ],
    ids=lambda v: v.op.name if isinstance(v, UOp) else "",
)
def test_tensor_ops_do_what_numpy_does(node: UOp, expected: np.ndarray) -> None:
    actual = _run(node)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    assert actual.shape == expected.shape


@pytest.mark.parametrize("condition", [True, False])
def test_a_where_of_a_scalar_condition_has_the_shape_of_both_sides(condition: bool) -> None:
    mask = make_reshape(buffer(3, 1, bool_), ())
    chosen = alu(
        Op.WHERE,
        mask,
        make_expand(make_reshape(UOp.const(float32, 1.0), (1, 1, 1)), (2, 3, 4)),
        UOp.const(float32, 1.0),
    )
    total = make_reduce_axis(chosen, Op.ADD, [0, 1, 2])
    assert evaluate(total, {buffer(3, 1, bool_): np.array([condition])}) == 24.0


def test_gather_is_zero_out_of_bounds() -> None:
    positions = buffer(2, 4, int32)
    node = make_gather(X, make_reshape(positions, (2, 2)), 1)
    actual = evaluate(node, {A: DATA, positions: np.array([2, -1, 3, 0], np.int32)})
    expected = np.zeros((2, 2, 2, 4), np.float32)
    expected[:, 0, 0], expected[:, 1, 1] = CUBE[:, 2], CUBE[:, 0]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_scatter_add_sums_equal_indices_and_ignores_out_of_bounds_ones(
    dtype: DType,
) -> None:
    x, positions = buffer(3, 8, dtype), buffer(2, 4, int32)
    node = make_scatter_add(make_reshape(x, (2, 4)), positions, 1, 3)
    data = np.array([[1, 0, 1, 1], [0, 1, 1, 1]]).astype(dtype.numpy)
    actual = evaluate(node, {x: data, positions: np.array([2, -1, 2, 3], np.int32)})
    expected = np.zeros((2, 3), dtype.numpy)
    expected[:, 2] = (True, True) if dtype.is_bool else (2, 1)
    np.testing.assert_array_equal(actual, expected)


def test_gather_from_an_empty_axis_is_zero() -> None:
    empty, positions = buffer(3, 0), buffer(2, 3, int32)
    actual = evaluate(
        make_gather(empty, positions, 0),
        {empty: np.zeros(0, np.float32), positions: np.zeros(3, np.int32)},
    )
    np.testing.assert_array_equal(actual, np.zeros(3, np.float32))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_empty_reductions_return_the_identity(dtype: DType) -> None:
    empty = make_reshape(buffer(4, 0, dtype), (2, 0))
    for op, value in ((Op.ADD, 0), (Op.MUL, 1), (Op.MAX, dtype.min), (Op.MIN, dtype.max)):
        actual = evaluate(
            make_reduce_axis(empty, op, (1,)), {buffer(4, 0, dtype): np.zeros(0, dtype.numpy)}
        )
        assert actual.shape == (2, 1)
        assert (actual == dtype.numpy.type(value)).all()


def test_reductions_wrap_integers_and_keep_nan() -> None:
    small = buffer(5, 3, int8)
    actual = evaluate(
        make_reduce_axis(small, Op.ADD, (0,)), {small: np.array([100, 100, 100], np.int8)}
    )
    assert actual.tolist() == [44]
    real = buffer(6, 3)
    data = np.array([1, np.nan, 3], np.float32)
    for op in (Op.MAX, Op.MIN, Op.ADD):
        assert math.isnan(evaluate(make_reduce_axis(real, op, (0,)), {real: data})[0])
    flags = buffer(7, 3, bool_)
    assert evaluate(
        make_reduce_axis(flags, Op.ADD, (0,)), {flags: np.array([False, True, True])}
    ).tolist() == [True]


def test_a_sum_of_narrow_floats_is_rounded_once() -> None:
    many = buffer(8, 4096, float16)
    actual = evaluate(make_reduce_axis(many, Op.ADD, (0,)), {many: np.ones(4096, np.float16)})
    assert actual.tolist() == [4096]


def test_symbolic_sizes_and_bound_variables() -> None:
    n = UOp.variable("n", 1, 9)
    one = make_reshape(make_shrink(A, [(0, 1)]), (1,))
    wide = make_expand(one, (n,))
    np.testing.assert_array_equal(evaluate(wide, {A: DATA, "n": 4}), np.full(4, DATA[0]))
    np.testing.assert_array_equal(evaluate(wide, {A: DATA, n: 2}), np.full(2, DATA[0]))
    bound = bind(n, 3)
    np.testing.assert_array_equal(
        evaluate(make_expand(one, (bound,)), {A: DATA}), np.full(3, DATA[0])
    )
    assert evaluate(n * 2 + 1, {"n": 4}) == 9


def test_variables_may_take_many_values_at_once() -> None:
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
    actual = evaluate((x * 3 + y) // 2, {"x": np.array([1, 2, 3]), "y": np.array([0, 1, 5])})
    assert actual.tolist() == [1, 3, 7]


def test_a_sink_evaluates_to_a_tuple() -> None:
    first, second = evaluate(UOp.sink(X, make_reduce_axis(X, Op.ADD, (0, 1, 2))), {A: DATA})
    np.testing.assert_array_equal(first, CUBE)
    assert second.reshape(()) == DATA.sum()


def test_a_view_reads_bytes() -> None:
    nodes = parse_nodes("""
        %raw = BUFFER u8 [9, 16, "CPU"]
        %view = BUFFER_VIEW f32 %raw [4, 2]
        %late = BUFFER_VIEW f32 %raw [12, 2]
    """)
    inputs = {nodes["raw"]: np.arange(4, dtype=np.float32).view(np.uint8)}
    np.testing.assert_array_equal(evaluate(nodes["view"], inputs), [1, 2])
    with pytest.raises(EvaluationError, match="bytes 12 to 20 are out of bounds for 16 bytes"):
        evaluate(nodes["late"], inputs)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("MSELECT f32 %stack [1]", CUBE + 1),
        ("MULTI f32 %stack [1]", np.concatenate([CUBE, CUBE + 1], 1)),
        ('ALLREDUCE f32 %stack [ADD, "CPU"]', 2 * CUBE + 1),
        ("DETACH f32 %x", CUBE),
        ('COPY f32 %x ["CUDA"]', CUBE),
        ('CHECK i32 i32(%x) ["take", 0, 2]', CUBE.astype(np.int32)),
    ],
)
def test_copies_and_marks_keep_their_values(line: str, expected: np.ndarray) -> None:
    actual = _run(
        parse_graph(f"""
        %a = BUFFER f32 [1, 24, "CPU"]
        %x = RESHAPE f32 %a [2, 3, 4]
        %stack = MSTACK f32 %x, %x + 1
        {line}
    """)
    )
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def test_an_assignment_writes_the_view_of_its_buffer() -> None:
    data = DATA.copy()
    target = make_shrink(make_permute(X, (2, 0, 1)), [(1, 2), (0, 2), (0, 3)])
    assigned = assign(target, UOp.const(float32, 100))
    actual = evaluate(assigned, {A: data})
    expected = CUBE.copy()
    expected[:, :, 1] = 100
    np.testing.assert_array_equal(data.reshape(2, 3, 4), expected)
    np.testing.assert_array_equal(actual, np.full((1, 2, 3), 100, np.float32))


def test_readers_not_ordered_after_an_assignment_see_the_old_value() -> None:
    data = DATA.copy()
    assigned = assign(A, A + 1.0)
    new, old = evaluate(UOp.sink(assigned, A * 2.0), {A: data})
    np.testing.assert_array_equal(new, DATA + 1)
    np.testing.assert_array_equal(old, DATA * 2)
    np.testing.assert_array_equal(data, DATA + 1)


def test_a_reader_after_an_assignment_sees_it() -> None:
    data = DATA.copy()
    assigned = assign(A, A + 1.0)
    twice = assign(assigned, assigned * 2.0)
    np.testing.assert_array_equal(evaluate(A.after(twice), {A: data}), (DATA + 1) * 2)


def test_an_assignment_through_padding_writes_only_existing_elements() -> None:
    data = np.zeros(3, np.float32)
    memory = buffer(10, 3)
    target = make_pad(memory, [(1, 1)])
    evaluate(assign(target, make_iota(5, int32).cast(float32)), {memory: data})
    assert data.tolist() == [1, 2, 3]


def _run_kernel(text: str, out: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """Run a kernel with inputs in slots from 1 on; return the memory of slot 0."""
    evaluate_kernel(parse_graph(text), dict(enumerate((out, *inputs))))
    return out


def test_a_matmul_kernel() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (6, 6)).astype(np.float32) for _ in range(2))
    text = """
        %out = PARAM f32 [0, 36]
        %a = PARAM f32 [1, 36]
        %b = PARAM f32 [2, 36]
        %i = RANGE index 6 [0, LOOP]
        %j = RANGE index 6 [1, LOOP]
        %k = RANGE index 6 [2, REDUCE]
        %total = REDUCE f32 %a[%i * 6 + %k] * %b[%k * 6 + %j], %k [ADD]
        %store = STORE %out[%i * 6 + %j], %total
        %end = END %store, %i, %j
        SINK %end ["mm"]
    """
    out = _run_kernel(text, np.zeros((6, 6), np.float32), a, b)
    np.testing.assert_array_equal(out, a @ b)


def test_nested_reductions_over_one_range_are_separate_loops() -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    text = """
        %out = PARAM f32 [0, 4]
        %x = PARAM f32 [1, 20]
        %i = RANGE index 4 [0, LOOP]
        %k = RANGE index 5 [1, REDUCE]
        %sum = REDUCE f32 %x[%i * 5 + %k], %k [ADD]
        %centered = %x[%i * 5 + %k] - %sum * 0.25
        %spread = REDUCE f32 %centered * %centered, %k [ADD]
        %store = STORE %out[%i], %spread
        %end = END %store, %i
        SINK %end
    """
    out = _run_kernel(text, np.zeros(4, np.float32), x)
    np.testing.assert_array_equal(out, ((x - x.sum(1, keepdims=True) * 0.25) ** 2).sum(1))


def test_an_inner_loop_may_depend_on_an_outer_one() -> None:
    x = np.arange(5, dtype=np.float32)
    text = """
        %out = PARAM f32 [0, 5]
        %x = PARAM f32 [1, 5]
        %i = RANGE index 5 [0, LOOP]
        %k = RANGE index %i + 1 [1, REDUCE]
        %total = REDUCE f32 %x[%k], %k [ADD]
        %store = STORE %out[%i], %total
        %end = END %store, %i
        SINK %end
    """
    out = _run_kernel(text, np.zeros(5, np.float32), x)
    np.testing.assert_array_equal(out, x.cumsum())


@pytest.mark.parametrize("loops", ["%k, %i", "%i, %k"])
def test_a_scan_combines_the_previous_iterations(loops: str) -> None:
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    text = f"""
        %out = PARAM f32 [0, 15]
        %x = PARAM f32 [1, 15]
        %i = RANGE index 3 [0, LOOP]
        %k = RANGE index 5 [1, SCAN]
        %scan = SCAN f32 %x[%i * 5 + %k], %k [ADD]
        %store = STORE %out[%i * 5 + %k], %scan
        %end = END %store, {loops}
        SINK %end
    """
    out = _run_kernel(text, np.zeros((3, 5), np.float32), x)
    np.testing.assert_array_equal(out, x.cumsum(1))


FIBONACCI = """
    %last = PARAM i32 [0, 2]
    %seen = PARAM i32 [1, 14]
    %i = RANGE index 2 [0, LOOP]
    %t = RANGE index {trips} [1, SCAN]
    %a = CARRY i32 (CAST i32 %i), %i [0]
    %b = CARRY i32 i32(1), %i [1]
    %x = AFTER i32 %a, %t
    %y = AFTER i32 %b, %t
    %step = ADVANCE %x, %y, %y, (ADD i32 %x, %y)
    %store = STORE %seen[%t * 2 + %i], %y
    %both = GROUP {order}
    %loop = END %both, %t
    %final = AFTER i32 %a, %loop
    %result = STORE %last[%i], %final
    %end = END %result, %i
    SINK %end
"""


@pytest.mark.parametrize("order", ["%store, %step", "%step, %store"])
def test_carries_of_a_loop_are_updated_simultaneously(order: str) -> None:
    seen = np.zeros((7, 2), np.int32)
    last = _run_kernel(FIBONACCI.format(trips=7, order=order), np.zeros(2, np.int32), seen)
    assert seen.T.tolist() == [[1, 1, 2, 3, 5, 8, 13], [1, 2, 3, 5, 8, 13, 21]]
    assert last.tolist() == [13, 21]


def test_carries_are_reset_whenever_the_loop_starts() -> None:
    text = """
        %last = PARAM i32 [0, 3]
        %i = RANGE index 3 [0, LOOP]
        %t = RANGE index 4 [1, SCAN]
        %carry = CARRY i32 i32(1) [0]
        %x = AFTER i32 %carry, %t
        %step = ADVANCE %x, (ADD i32 %x, %x)
        %store = STORE %last[%i], %x
        %both = GROUP %store, %step
        %loop = END %both, %t
        %end = END %loop, %i
        SINK %end
    """
    assert _run_kernel(text, np.zeros(3, np.int32)).tolist() == [8, 8, 8]


@pytest.mark.parametrize(("trips", "expected"), [(100, 16), (3, 8), (0, 1)])
def test_leave_ends_a_loop_after_the_iteration(trips: int, expected: int) -> None:
    text = f"""
        %last = PARAM i32 [0, 1]
        %t = RANGE index {trips} [0, SCAN]
        %carry = CARRY i32 i32(1) [0]
        %x = AFTER i32 %carry, %t
        %twice = ADD i32 %x, %x
        %step = ADVANCE %x, %twice
        %leave = LEAVE (i32(10) < %twice), %t, %step
        %both = GROUP %step, %leave
        %loop = END %both, %t
        %final = AFTER i32 %carry, %loop
        %store = STORE %last[0], %final
        SINK %store
    """
    assert _run_kernel(text, np.zeros(1, np.int32)).tolist() == [expected]


def test_carries_of_an_empty_loop_keep_their_initial_values() -> None:
    last = _run_kernel(
        FIBONACCI.format(trips=0, order="%store, %step"),
        np.zeros(2, np.int32),
        np.zeros(14, np.int32),
    )
    assert last.tolist() == [0, 1]


@pytest.mark.parametrize(("trips", "terms", "expected"), [(2, 0, [1, 1]), (0, 3, [7, 7])])
def test_an_empty_loop_writes_no_memory_and_reduces_to_the_identity(
    trips: int, terms: int, expected: list[int]
) -> None:
    text = f"""
        %out = PARAM f32 [0, 2]
        %x = PARAM f32 [1, 8]
        %i = RANGE index {trips} [0, LOOP]
        %k = RANGE index {terms} [1, REDUCE]
        %total = REDUCE f32 %x[%k], %k [MUL]
        %store = STORE %out[%i], %total
        %end = END %store, %i
        SINK %end
    """
    out = _run_kernel(text, np.full(2, 7, np.float32), np.zeros(8, np.float32))
    assert out.tolist() == expected


def test_a_stored_value_is_read_by_its_index() -> None:
    nodes = parse_nodes("""
        %a = BUFFER f32 [1, 24, "CPU"]
        %i = RANGE index 2 [0, LOOP]
        %j = RANGE index 3 [1, LOOP]
        %stored = BUFFERIZE f32 %a[%i * 3 + %j] * 2.0, %i, %j ["CPU", GLOBAL]
        %p = RANGE index 3 [2, LOOP]
        %q = RANGE index 2 [3, LOOP]
        %swapped = BUFFERIZE f32 %stored[%q, %p], %p, %q ["CPU"]
    """)
    (actual,) = evaluate(UOp.sink(nodes["swapped"]), {nodes["a"]: DATA})
    np.testing.assert_array_equal(actual, DATA[:6].reshape(2, 3).T * 2)


def test_calls_run_their_bodies_on_their_arguments() -> None:
    nodes = parse_nodes("""
        %p0 = PARAM f32 [0, 4]
        %p1 = PARAM f32 [1, 4]
        %i = RANGE index 4 [0, LOOP]
        %n = DEFINE_VAR index ["n", 0, 9]
        %store = STORE %p0[%i], %p1[%i] + f32(%n)
        %end = END %store, %i
        %body = SINK %end ["add"]
        %made = BUFFER f32 [-1, 4, "CPU"]
        %source = BUFFER f32 [11, 4, "CPU"]
        %five = BIND index %n, 5
        %call = CALL %body, %made, %source, %five
        %filled = after(%made, %call)
        %again = BUFFER f32 [-2, 4, "CPU"]
        %copy = COPY f32 %p1 ["CPU"]
        %copied = CALL %copy, %again, %filled
        %both = SINK %filled, after(%again, %copied)
    """)
    first, second = evaluate(nodes["both"], {nodes["source"]: np.arange(4, dtype=np.float32)})
    assert first.tolist() == second.tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("store", "size", "expected"),
    [
        ("%out[%i], load(%in[%i if %i < 3], -1)", 6, [0, 1, 2, -1, -1, -1]),
        ("%out[%i if %i < 3], 4", 3, [4, 4, 4]),
        ("%out[%i], where(%i < 3, %in[%i] * 2, 7)", 6, [0, 2, 4, 7, 7, 7]),
        ("%out[%i], %in[%i]", 6, "index 3 is out of bounds for 3 elements"),
        ("%out[%i], load(%in[%i])", 6, "out of bounds"),
        ("%out[%i], 0", 3, "out of bounds"),
    ],
)
def test_an_out_of_bounds_access_is_an_error_unless_gated_or_discarded_by_where(
    store: str, size: int, expected: list[int] | str
) -> None:
    text = f"""
        %out = PARAM f32 [0, {size}]
        %in = PARAM f32 [1, 3]
        %i = RANGE index 6 [0, LOOP]
        %store = STORE {store}
        %end = END %store, %i
        SINK %end
    """
    arrays = np.zeros(size, np.float32), np.arange(3, dtype=np.float32)
    if isinstance(expected, list):
        assert _run_kernel(text, *arrays).tolist() == expected
        return
    with pytest.raises(EvaluationError, match=expected):
        _run_kernel(text, *arrays)


def test_uninitialized_memory_is_visible() -> None:
    text = """
        %out = PARAM f32 [0, 1]
        %register = DEFINE_REG f32 [0, 1]
        %store = STORE %out[0], load(%register[0])
        SINK %store
    """
    out = _run_kernel(text, np.zeros(1, np.float32))
    assert math.isnan(out[0])


ACCUMULATE = """
    %out = PARAM f32 [0, 3]
    %in = PARAM f32 [1, 48]
    %reg = DEFINE_REG f32x4 [0, 1]
    %i = RANGE i32 3 [0, LOOP]
    %start = STORE after(%reg, %i)[i32(0)], 0.0
    %k = RANGE i32 4 [1, REDUCE]
    %acc = after(%reg, %start, %k)[i32(0)]
    %update = STORE %acc, load(%acc) + load(%in[%i * 16 + %k * 4 : 4])
    %loop = END %update, %k
    %total = REDUCE f32 load(after(%reg, %loop)[i32(0)]) [ADD]
    %store = STORE %out[%i], %total
    %end = END %store, %i
"""


def test_registers_accumulate_vectors_in_loops_and_a_linear_kernel_runs_in_its_order() -> None:
    x, out = np.arange(48, dtype=np.float32), np.zeros(3, np.float32)
    _run_kernel(ACCUMULATE + "SINK %end", out, x)
    np.testing.assert_array_equal(out, x.reshape(3, 16).sum(1))
    out[:] = 0
    evaluate_linear(parse_linear(ACCUMULATE), {0: out, 1: x})
    np.testing.assert_array_equal(out, x.reshape(3, 16).sum(1))


def test_an_open_loop_is_an_error() -> None:
    i = UOp.range(3, 0, LOOP)
    with pytest.raises(EvaluationError, match="not closed"):
        evaluate_linear((UOp.const(index, 3), i), {})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GEP f32 %v [2]", 3),
        ("GEP f32x2 %v [3, 0]", [4, 1]),
        ("CAT f32x8 %v, %v", [1, 2, 3, 4] * 2),
        ("BROADCAST f32x4 2.0", [2, 2, 2, 2]),
        ("REDUCE f32 %v [MAX]", 4),
        ("VCONST i32x3 [7, 8, 9]", [7, 8, 9]),
        ("%less = %v < 2.5", [True, True, False, False]),
    ],
)
def test_vectors_are_built_extracted_and_concatenated(line: str, expected: object) -> None:
    assert evaluate(parse_graph(f"%v = VECTORIZE f32x4 1, 2, 3, 4\n{line}")).tolist() == expected


VECTORS = """
    %out = PARAM i32 [0, 8]
    %in = PARAM i32 [1, 8]
    %where = VCONST i32x4 [7, 0, 3, 3]
    %mask = VCONST boolx4 [true, false, true, false]
    %half = VCONST boolx4 [true, true, false, false]
    %other = VCONST i32x4 [-1, -2, -3, -4]
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("load(%in[i32(4) : 4])", [40, 50, 60, 70]),
        ("load(%in[%where : 4])", [70, 0, 30, 30]),
        ("load(%in[i32(6) if %half : 4], %other)", [60, 70, -3, -4]),
        ("load(%in[%where if %mask : 4], %other)", [70, -2, 30, -4]),
        ("load(%in[%where if false : 4], %other)", [-1, -2, -3, -4]),
    ],
)
def test_vector_locations_are_consecutive_gathered_and_masked(
    value: str, expected: list[int]
) -> None:
    data = np.arange(8, dtype=np.int32) * 10
    text = f"{VECTORS}\n%store = STORE %out[i32(0) : 4], {value}\nSINK %store"
    assert _run_kernel(text, np.zeros(8, np.int32), data)[:4].tolist() == expected


def test_a_masked_scatter_writes_some_lanes() -> None:
    out = _run_kernel(
        VECTORS + "%store = STORE %out[%where if %mask : 4], %other\nSINK %store",
        np.zeros(8, np.int32),
    )
    assert out.tolist() == [0, 0, 0, -3, 0, 0, 0, -1]


def test_a_kernel_runs_for_each_core() -> None:
    text = """
        %out = PARAM i32 [0, 4]
        %core = DEFINE_VAR index ["core_id", 0, 3]
        %store = STORE %out[%core], i32(%core) * 2
        SINK %store
    """
    out = _run_kernel(text, np.zeros(4, np.int32))
    assert out.tolist() == [0, 2, 4, 6]


def test_the_threads_of_a_workgroup_meet_at_barriers() -> None:
    text = """
        %out = PARAM i32 [0, 8]
        %shared = DEFINE_LOCAL i32 [0, 4]
        %group = SPECIAL index 2 ["gidx0"]
        %thread = SPECIAL index 4 ["lidx0"]
        %write = STORE %shared[%thread], i32(%group * 10 + %thread)
        %barrier = BARRIER %write
        %store = STORE %out[%group * 4 + %thread], load(after(%shared, %barrier)[index(3) - %thread])
        SINK %store
    """
    out = _run_kernel(text, np.zeros(8, np.int32))
    assert out.tolist() == [3, 2, 1, 0, 13, 12, 11, 10]


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "missing array"),
        ({A: np.zeros(24, np.float64)}, "expected an array of float32, got float64"),
        ({A: np.zeros(3, np.float32)}, "expected an array of 24 elements, got 3"),
        ({A: np.zeros((4, 6), np.float32).T}, "not contiguous"),
    ],
    ids=["missing", "dtype", "size", "strides"],
)
def test_inputs_that_do_not_fit(inputs: dict[UOp, np.ndarray], problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        evaluate(X, inputs)


def test_a_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="missing value of variable"):
        evaluate(UOp.variable("n", 0, 9) + 1)


def test_an_op_without_reference_semantics_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="CUSTOM has no reference semantics"):
        evaluate(parse_graph('CUSTOM f32 1 ["text"]'))


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
    a, b, total = (
        generator.integers(0, 99, s).astype(d.numpy)
        for s, d in zip(shapes, core.dtypes, strict=True)
    )
    packed = b.reshape(k // group, group, n).transpose(0, 2, 1).reshape(-1)
    memory = [
        param(i, x.size, d) for i, (d, x) in enumerate(zip(core.dtypes, (a, b, total), strict=True))
    ]
    vectors = [
        p.index(UOp.const(index, 0), lanes=dtype.lanes).load()
        for p, dtype in zip(memory, core.operand_dtypes, strict=True)
    ]
    actual = evaluate(
        UOp(Op.WMMA, core.operand_dtypes[2], tuple(vectors), core),
        {0: a.reshape(-1), 1: packed, 2: total.reshape(-1)},
    )
    wide = np.float64 if core.dtypes[2].is_float else np.int64
    np.testing.assert_array_equal(
        actual.reshape(m, n), total + (a.astype(wide) @ b.astype(wide)).astype(total.dtype)
    )


def test_a_tensor_core_of_integers_wraps() -> None:
    core = TensorCore((2, 1, 1), 1, (int16, int16, int32))
    operands = [
        UOp.const(d, v) for d, v in zip(core.operand_dtypes, (2, 1, 0x7FFFFFFF), strict=True)
    ]
    assert evaluate(UOp(Op.WMMA, int32.vec(2), tuple(operands), core)).tolist() == [-0x7FFFFFFF] * 2


def test_a_deep_graph_needs_no_recursion() -> None:
    x = UOp.variable("x", 0, 9, int32)
    node = x
    for _ in range(20_000):
        node = alu(Op.ADD, node, x)
    assert evaluate(node, {"x": 2}) == 40_002


@settings(
    max_examples=count_examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(graphs())
def test_every_random_graph_has_a_value_of_its_shape_and_dtype(graph: UOp) -> None:
    actual = evaluate(graph, random_inputs(graph))
    assert actual.dtype == graph.dtype.numpy
    assert actual.shape == graph.shape


def test_loops_over_tensors_read_the_version_before_all_writes_unless_ordered_after_one() -> None:
    graph = parse_graph("""
        %x = PARAM f32 [0, 4, "CPU"]
        %i = RANGE index 4 [0, LOOP]
        %written = STORE %x[%i], %x[%i] + 1.0
        %end = END %written, %i
        %after = AFTER f32 %x, %end
        %new = BUFFERIZE f32 %after[%i], %i ["CPU", GLOBAL]
        %old = BUFFERIZE f32 %x[%i], %i ["CPU", GLOBAL]
        SINK %new, %old
        """)
    content = np.arange(4, dtype=np.float32)
    new, old = evaluate(graph, {0: content})
    assert [new.tolist(), old.tolist(), content.tolist()] == [
        [1, 2, 3, 4],
        [0, 1, 2, 3],
        [1, 2, 3, 4],
    ]


def test_shards_of_different_sizes_are_concatenated() -> None:
    shards = [UOp(Op.BUFFER, int32, (), BufferArg(n, n, f"CPU:{n}")) for n in (1, 2)]
    actual = evaluate(
        UOp(Op.MSTACK, int32, tuple(shards)),
        {shards[0]: np.array([7], np.int32), shards[1]: np.array([8, 9], np.int32)},
    )
    assert actual.tolist() == [7, 8, 9]


def test_a_version_of_memory_is_read_before_later_assignments() -> None:
    memory = buffer(1, 4)
    first = memory.after(assign(memory, memory * 2.0))
    second = first.source.after(assign(make_shrink(first, [(0, 2)]), UOp.const(float32, 7)))
    data = np.arange(4, dtype=np.float32)
    for sink in (UOp.sink(second, first + 1.0), UOp.sink(first + 1.0, second)):
        actual = dict(zip(sink.src, evaluate(sink, {memory: data.copy()}), strict=True))
        np.testing.assert_array_equal(actual[first + 1.0], data * 2 + 1)
        np.testing.assert_array_equal(actual[second], [7, 7, 4, 6])
