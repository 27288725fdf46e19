"""Test support of `svod_ir.testing`: golden files, comparison of semantics, random graphs."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import ALL_DTYPES, DType, bool_, float16, float32, index, int32
from svod_ir import AxisType, Op, ParseError, UOp, make_reshape, verify
from svod_ir.ops import COMPARISON, MOVEMENT
from svod_ir.testing import (
    GoldenMismatch,
    assert_close,
    assert_same,
    check_case,
    conditions,
    count_examples,
    dtypes,
    expressions,
    graphs,
    list_cases,
    random_inputs,
    read_cases,
    run_in_child,
    run_in_threads,
    run_script,
    shapes,
    tolerance,
)
from svod_ir.testing.nodes import alu, buffer, param

pytest_plugins = ["pytester"]

CASE = """=== x + 0 is x
%0 = DEFINE_VAR index ["x", 0, 9]
%1 = CONST index [0]
%2 = ADD index %0, %1
--- drop-zero
%0 = DEFINE_VAR index ["x", 0, 9]

=== x + 1 stays
%0 = DEFINE_VAR index ["x", 0, 9]
%1 = CONST index [1]
%2 = ADD index %0, %1
--- drop-zero
%a = DEFINE_VAR index ["x", 0, 9]   # names and comments do not matter
%b = CONST index [1]
%c = ADD index %a, %b
"""


def _drop_zero(node: UOp) -> UOp:
    return node.src[0] if node.src[1].arg == 0 else node


def _write(folder: Path, text: str) -> Path:
    path = folder / "symbolic" / "drop-zero.ir"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_cases_are_read_with_their_titles(tmp_path: Path) -> None:
    cases = read_cases(_write(tmp_path, CASE))
    assert [c.title for c in cases] == ["x + 0 is x", "x + 1 stays"]
    assert [c.pass_name for c in cases] == ["drop-zero", "drop-zero"]
    assert str(cases[0]) == "symbolic/drop-zero: x + 0 is x"
    assert list_cases(tmp_path) == cases
    for case in cases:
        check_case(case, _drop_zero)


def test_a_mismatch_shows_a_diff(tmp_path: Path) -> None:
    case = read_cases(_write(tmp_path, CASE))[0]
    with pytest.raises(GoldenMismatch) as caught:
        check_case(case, lambda node: node)
    assert "+%2 = ADD index %0, %1" in str(caught.value)
    assert "--bless" in str(caught.value)


def test_blessing_rewrites_the_expected_part_of_one_case(tmp_path: Path) -> None:
    path = _write(tmp_path, CASE)
    first, second = read_cases(path)
    check_case(first, lambda node: node, is_blessing=True)
    changed, kept = read_cases(path)
    assert changed.expected == first.before
    assert kept == second
    check_case(changed, lambda node: node)


def test_an_error_can_be_expected(tmp_path: Path) -> None:
    text = (
        "=== wrong\n%0 = CONST f32 [1.0]\n--- fail\nerror: ParseError: line 1: FOO is not an op\n "
        " note: in 'FOO'\n"
    )
    (case,) = read_cases(_write(tmp_path, text))

    def fail(_: UOp) -> UOp:
        raise ParseError(line=1, text="FOO", problem="FOO is not an op")

    check_case(case, fail)
    with pytest.raises(GoldenMismatch):
        check_case(case, lambda node: node)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("%0 = CONST f32 [1.0]\n", "does not begin with a title"),
        ("=== a title\n%0 = CONST f32 [1.0]\n", "has no line --- with a pass"),
        (CASE + CASE, "have one title"),
    ],
    ids=["no title", "no pass", "twice"],
)
def test_a_broken_file_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        read_cases(_write(tmp_path, text))


def test_the_plugin_checks_and_blesses(pytester: pytest.Pytester) -> None:
    path = _write(pytester.path, CASE)
    pytester.makepyfile(
        test_golden="""
        from pathlib import Path
        import pytest
        from svod_ir.testing import list_cases

        @pytest.mark.parametrize("case", list_cases(Path(__file__).parent), ids=str)
        def test_case(case, check_golden):
            check_golden(case, lambda node: node)
        """
    )
    arguments = ("-p", "svod_ir.testing.pytest_plugin", "-p", "no:cacheprovider")
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=1, failed=1)
    pytester.runpytest_inprocess(*arguments, "--bless").assert_outcomes(passed=2)
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=2)
    assert read_cases(path)[0].expected == read_cases(path)[0].before


A = buffer(1, 6)
X = UOp.variable("x", -5, 5)


def test_equivalent_graphs_pass() -> None:
    assert_same(make_reshape(A, (2, 3)) + A.src[0] if A.src else A + A, A * 2.0)
    assert_same(X * 2 + X, X * 3)
    assert_same((X * 4 + 3) // 4, X)
    assert_same(X - X, UOp.const(index, 0))


def test_variables_of_one_name_share_a_value_across_dtypes() -> None:
    n = UOp.variable("n", 0, 1000)
    assert_same((n * 2).cast(int32), UOp.variable("n", 0, 1000, int32) * 2)
    assert_same(
        A + (n % 7).cast(float32), A + (UOp.variable("n", 0, 1000, int32) % 7).cast(float32)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (A + A, A * 3.0),
        (X // 2, alu(Op.CDIV, X, UOp.const(index, 2))),
        (X < 5, UOp.const(bool_, True)),
        (A.cast(float16), A),
        (A, UOp(Op.SHRINK, float32, (A,), (0, 5))),
    ],
    ids=["value", "corner", "one corner", "dtype", "size"],
)
def test_graphs_that_differ_fail_with_both_texts(before: UOp, after: UOp) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_same(before, after)
    assert "before:\n%0 = " in str(caught.value)
    assert "after:\n%0 = " in str(caught.value)


def test_ranges_take_their_values() -> None:
    i, j = UOp.range(4, 0, AxisType.LOOP), UOp.range(8, 1, AxisType.LOOP)
    assert_same((i * 8 + j) // 8, i)
    with pytest.raises(AssertionError):
        assert_same((i * 8 + j) // 7, i)


def test_kernels_are_compared_by_the_memory_that_they_write() -> None:
    i = UOp.range(4, 0, AxisType.LOOP)
    out, source = (param(slot, 4, int32) for slot in range(2))
    double = UOp.sink(out.index(i).store(source.index(i) * 2).end(i))
    also_double = UOp.sink(out.index(i).store(source.index(i) + source.index(i)).end(i))
    other = UOp.sink(out.index(i).store(source.index(i)).end(i))
    assert_same(double, also_double)
    with pytest.raises(AssertionError):
        assert_same(double, other)
    location, order_index = out.index(i), source.index(i)
    value = order_index.load()
    store = location.store(value)
    assert_same(
        other,
        (out, UOp.const(index, 4), i, location, source, order_index, value, store, store.end(i)),
    )


def test_closeness_knows_nan_and_infinity_and_scales_with_the_values() -> None:
    nan, inf = np.nan, np.inf
    assert_close(np.array([nan, inf, 1.0]), np.array([nan, inf, 1.0]))
    assert_close(np.array([1000.0, 0.001]), np.array([1000.0, 0.0]), loose=1e-5)
    for actual in ([nan, 1.0], [inf, 1.0], [0.0, 1.1]):
        with pytest.raises(AssertionError):
            assert_close(np.array(actual), np.array([0.0, 1.0]), loose=1e-3)
    with pytest.raises(AssertionError, match="element 1 is 3, expected 2 \\(1 of 2 differ\\)"):
        assert_close(np.array([1, 3]), np.array([1, 2]))


def test_the_tolerance_is_that_of_the_least_precise_float() -> None:
    assert tolerance(X) == 0
    assert tolerance(A) == 8 * float32.finfo_eps
    assert tolerance(A, A.cast(float16)) == 8 * float16.finfo_eps


def test_random_inputs_are_the_same_each_time() -> None:
    first, second = random_inputs(A + 1.0, seed=3), random_inputs(A * 2.0, seed=3)
    np.testing.assert_array_equal(first[A], second[A])
    assert first[A].dtype == np.float32


QUICK = settings(
    max_examples=count_examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@QUICK
@given(dtypes(), shapes(max_ndim=3, max_elements=50))
def test_dtypes_and_shapes_are_bounded(dtype: DType, shape: tuple[int, ...]) -> None:
    assert dtype in ALL_DTYPES
    assert len(shape) <= 3
    assert np.prod(shape) <= 50


@QUICK
@given(graphs(kinds=(int32, bool_), max_ops=5, max_elements=100, device="TOY"))
def test_graphs_respect_their_parameters(graph: UOp) -> None:
    verify(UOp.sink(graph), "graph")
    assert all(n.dtype in (int32, bool_) or n.dtype is index for n in graph.toposort())
    assert all(n.arg.device == "TOY" for n in graph.iter_ops(Op.BUFFER))
    assert np.prod(graph.shape) <= 100


@QUICK
@given(expressions(), conditions())
def test_expressions_are_integers_and_conditions_are_bool(number: UOp, truth: UOp) -> None:
    assert number.dtype is index
    assert truth.dtype is bool_


def test_every_kind_of_graph_is_generated() -> None:
    seen: set[Op] = set()
    dtypes_seen: set[DType] = set()
    shapes_seen: set[tuple[int, ...]] = set()
    is_view_of_view = False

    @settings(
        max_examples=500,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(graphs())
    def collect(graph: UOp) -> None:
        nonlocal is_view_of_view
        for node in graph.toposort():
            seen.add(node.op)
            dtypes_seen.add(node.dtype)
            shapes_seen.add(node.shape)
            is_view_of_view |= (
                node.op in MOVEMENT
                and node.src[0].op in MOVEMENT
                and node.src[0].op is not Op.RESHAPE
            )

    collect()
    assert MOVEMENT | {Op.GATHER, Op.SCATTER, Op.REDUCE_AXIS, Op.SCAN_AXIS} <= seen
    assert {Op.WHERE, Op.BITCAST, Op.IOTA, Op.FDIV, Op.CONTIGUOUS} <= seen
    assert {Op.ADD, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.XOR, Op.CAST, Op.CONST} <= seen
    assert COMPARISON & seen
    assert len({Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TANH, Op.ERF} & seen) >= 2
    assert len({Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.SQRT, Op.SIGN} & seen) >= 2
    assert set(ALL_DTYPES) <= dtypes_seen
    assert any(0 in shape for shape in shapes_seen)
    assert any(len(shape) >= 4 for shape in shapes_seen)
    assert is_view_of_view


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_exits_with_its_status_or_255_if_it_fails() -> None:
    assert [
        run_in_child(work) for work in (lambda: None, lambda: 7, lambda: True, lambda: 1 // 0)
    ] == [0, 7, 1, 255]


def test_threads_run_together_and_raise_what_one_of_them_raises() -> None:
    meeting = threading.Barrier(3)
    run_in_threads(*[lambda: meeting.wait(60)] * 3)
    interval = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        run_in_threads(lambda: None, lambda: 1 // 0, switching_often=True)
    assert sys.getswitchinterval() == interval


def test_a_script_prints_and_its_failure_is_an_error_that_shows_it() -> None:
    out = run_script(
        """
for thread in start_threads(lambda: print(os.environ["SHOWN"], sys.argv[1])):
    thread.join()
""",
        3,
        environment={"SHOWN": "yes"},
    )
    assert out.split() == ["yes", "3"]
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_script("1 // 0")
