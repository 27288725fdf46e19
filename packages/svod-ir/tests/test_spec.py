"""The specification of each stage, in good and in broken graphs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import bool_, float32, index, int32, void
from svod_ir import (
    AxisType,
    BufferArg,
    BufferizeArg,
    CheckArg,
    GraphError,
    KernelInfo,
    Op,
    ParamArg,
    SpecError,
    TensorCore,
    UOp,
    make_expand,
    make_reshape,
    parse_graph,
    verify,
)
from svod_ir.ops import STAGES, TABLE
from svod_ir.spec import find_violation
from svod_ir.testing import count_examples, expressions, graphs

RANGE = UOp.range(8, 0, AxisType.LOOP)
MEMORY = UOp(Op.PARAM, float32, (), ParamArg(0, 64))
OUT = UOp(Op.PARAM, float32, (), ParamArg(1, 8))
F = UOp.const(float32, 1)
V4 = UOp.const(float32.vec(4), 1)
CORE = TensorCore((4, 1, 2), 2, (float32, float32, float32))
BUFFER = UOp(Op.BUFFER, float32, (), BufferArg(1, 6, "CPU"))
TENSOR = UOp(Op.RESHAPE, float32, (BUFFER,), (2, 3))

KERNEL = UOp.sink(OUT.index(RANGE).store(MEMORY.index(RANGE) + 1.0).end(RANGE), arg=KernelInfo())
LOWERED = parse_graph("""
    %0 = PARAM f32 [1, 8]
    %1 = CONST i32 [8]
    %2 = RANGE i32 %1 [0, LOOP]
    %3 = INDEX f32 %0, %2
    %4 = PARAM f32 [0, 64]
    %5 = INDEX f32 %4, %2
    %6 = LOAD f32 %5
    %7 = NEG f32 %6
    %8 = STORE %3, %7
    %9 = END %8, %2
    %10 = SINK %9 ["k"]
""")


@settings(max_examples=count_examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_random_graphs_hold_to_the_graph_stage(graph: UOp) -> None:
    verify(UOp.sink(graph), "graph")


@settings(max_examples=count_examples(50), deadline=None)
@given(expressions())
def test_random_expressions_hold_to_the_ranged_stage(expression: UOp) -> None:
    verify(expression, "ranged")


def test_each_stage_accepts_its_own_graphs() -> None:
    verify(UOp.sink(TENSOR + 1.0), "graph")
    verify(UOp.sink(UOp(Op.BUFFERIZE, float32, (BUFFER.index(RANGE), RANGE), BufferizeArg("CPU"))), "ranged")
    verify(UOp.sink(BUFFER.after(UOp(Op.CALL, void, (KERNEL, BUFFER, BUFFER)))), "kernel graph")
    verify(KERNEL, "kernel")
    verify(KERNEL, "lowering")
    verify(LOWERED, "lowering")
    verify(LOWERED, "lowered")
    verify(UOp(Op.PROGRAM, void, (LOWERED,), "CPU"), "program")


def test_the_stages_have_the_ops_of_rows_and_rows_stand_in_stages() -> None:
    assert {stage for row in TABLE.values() for stage in row.stages.split()} <= set(STAGES)
    assert {stage for rows in STAGES.values() for stage in rows.split()} <= set(STAGES)


def test_the_error_names_the_pass_the_stage_the_rule_and_the_node() -> None:
    with pytest.raises(SpecError) as caught:
        verify(UOp.sink(TENSOR), "kernel", pass_name="rangeify:pull")
    error = caught.value
    assert isinstance(error, GraphError)
    assert (error.pass_name, error.stage) == ("rangeify:pull", "kernel")
    assert error.rule == "BUFFER stands in no graph of this stage"
    assert error.node is BUFFER
    assert str(error).startswith("after rangeify:pull: stage kernel: BUFFER stands in no graph of this stage: BUFFER")


def test_the_body_of_a_call_is_checked_as_a_kernel() -> None:
    broken = UOp.sink(OUT.index(RANGE).store(UOp(Op.ADD, float32, (F,))).end(RANGE))
    with pytest.raises(SpecError, match="ADD takes x y, not 1 operands"):
        verify(UOp.sink(BUFFER.after(UOp(Op.CALL, void, (broken, BUFFER)))), "kernel graph")


@pytest.mark.parametrize(
    ("root", "stage", "rule"),
    [
        (OUT.index(RANGE).store(F).end(RANGE), "kernel", "a kernel is a SINK"),
        (UOp.sink(OUT.index(RANGE).store(F)), "kernel", "every RANGE is closed"),
        (UOp.sink(*(OUT.index(RANGE).store(x).end(RANGE) for x in (F, F + F))), "kernel", "one node closes a RANGE"),
        (KERNEL, "lowered", "the dtype index is lowered"),
        (UOp(Op.PROGRAM, void, (KERNEL, KERNEL, KERNEL, KERNEL, KERNEL), "CPU"), "program", "PROGRAM takes"),
    ],
)
def test_roots(root: UOp, stage: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        verify(root, stage)


I32 = UOp.const(int32, 3)
TRUE = UOp.const(bool_, True)


@pytest.mark.parametrize(
    ("node", "stage", "rule"),
    [
        (UOp(Op.ADD, float32, (F, I32)), "graph", "ADD has operands of one dtype"),
        (UOp(Op.ADD, int32, (F, F)), "graph", "ADD has the dtype of its first operand"),
        (UOp(Op.ADD, float32, (F, F), 1), "graph", "ADD has no arg"),
        (UOp(Op.LT, float32, (F, F)), "graph", "a comparison is bool"),
        (UOp(Op.SQRT, int32, (I32,)), "graph", "SQRT takes floats"),
        (UOp(Op.IDIV, float32, (F, F)), "graph", "IDIV takes integers"),
        (UOp(Op.AND, float32, (F, F)), "graph", "AND takes bool or integers"),
        (UOp(Op.NEG, void, (UOp.sink(),)), "graph", "NEG takes values"),
        (UOp(Op.SHL, int32, (I32, F)), "graph", "SHL shifts by integers"),
        (UOp(Op.WHERE, float32, (F, F, F)), "graph", "WHERE has a condition of bool"),
        (UOp(Op.WHERE, float32, (TRUE, F, I32)), "graph", "WHERE has the one dtype"),
        (UOp(Op.CAST, void, (F,)), "graph", "CAST takes and gives values"),
        (UOp(Op.CAST, float32.vec(4), (F,)), "lowered", "CAST keeps the lanes"),
        (UOp(Op.BITCAST, index, (F,)), "graph", "BITCAST keeps the size"),
        (UOp(Op.CONST, float32, (), 7531), "graph", "a constant holds a Python value of its dtype"),
        (UOp(Op.CONST, int32, (), 1 << 40), "graph", "a constant holds"),
        (UOp(Op.CONST, int32, (), True), "graph", "a constant holds"),
        (UOp(Op.CONST, bool_, (), 1), "graph", "a constant holds"),
        (UOp(Op.CONST, float32.vec(4), (), 1.0), "lowered", "CONST has a scalar dtype"),
        (UOp(Op.VCONST, float32.vec(4), (), (1.0,)), "lowered", "VCONST holds one value for each lane"),
        (UOp(Op.VCONST, int32.vec(2), (), (1.0, 2.0)), "lowered", "VCONST holds values of its dtype"),
        (V4, "graph", "VCONST stands in no graph"),
        (UOp(Op.DEFINE_VAR, index, (), ("n", 3, 1)), "graph", "DEFINE_VAR holds"),
        (UOp(Op.DEFINE_VAR, float32, (), ("n", 1, 3)), "graph", "DEFINE_VAR is an integer"),
        (UOp(Op.BIND, index, (UOp.const(index, 1), UOp.const(index, 1))), "graph", "BIND gives a DEFINE_VAR a value"),
        (UOp(Op.IOTA, int32, (), None), "graph", "IOTA has a size"),
        (UOp(Op.BUFFER, float32, (), 7531), "graph", r"BUFFER holds BufferArg\(id, size, device\)"),
        (UOp(Op.BUFFER, float32, (), None), "graph", "BUFFER holds"),
        (UOp(Op.BUFFER, float32, (), BufferArg(1, -6, "CPU")), "graph", "BUFFER has no negative size"),
        (UOp(Op.PARAM, float32.vec(4), (), ParamArg(1, 6)), "kernel", "PARAM has the dtype of its elements"),
        (UOp(Op.RESHAPE, float32, (TENSOR,), (7,)), "graph", "RESHAPE keeps the number of elements"),
        (UOp(Op.EXPAND, float32, (TENSOR,), (4, 3)), "graph", "EXPAND repeats axes of size 1"),
        (UOp(Op.EXPAND, float32, (TENSOR,), (2, 3, 1)), "graph", "EXPAND of 2 axes holds 2 values"),
        (UOp(Op.PERMUTE, float32, (TENSOR,), (0, 0)), "graph", "PERMUTE holds each axis once"),
        (UOp(Op.PAD, float32, (TENSOR,), (0, 1)), "graph", "PAD of 2 axes holds 4 values"),
        (UOp(Op.PAD, float32, (TENSOR,), (0, 1, -1, 0)), "graph", "PAD adds elements"),
        (UOp(Op.SHRINK, float32, (TENSOR,), (0, 3, 0, 3)), "graph", "SHRINK stays inside"),
        (UOp(Op.FLIP, float32, (TENSOR,), (True,)), "graph", "FLIP of 2 axes holds 2 values"),
        (UOp(Op.RESHAPE, float32, (TENSOR,), (None,)), "graph", "an operand for each symbolic size"),
        (UOp(Op.GATHER, float32, (TENSOR, TENSOR), 0), "graph", "GATHER takes integer positions"),
        (UOp(Op.GATHER, float32, (TENSOR, I32), 2), "graph", "GATHER takes integer positions along an axis"),
        (UOp(Op.CHECK, float32, (TENSOR,), CheckArg("divide")), "graph", "CHECK is about integers"),
        (UOp(Op.CHECK, int32, (I32,), CheckArg("take", 1)), "graph", "CHECK of positions has a size"),
        (UOp(Op.CHECK, int32, (I32,), "take"), "graph", "CHECK holds CheckArg"),
        (UOp(Op.REDUCE_AXIS, float32, (TENSOR,), (Op.SUB, (0,))), "graph", "REDUCE_AXIS holds"),
        (UOp(Op.REDUCE_AXIS, float32, (TENSOR,), (Op.ADD, (2,))), "graph", "REDUCE_AXIS holds"),
        (UOp(Op.SCAN_AXIS, float32, (TENSOR,), (Op.ADD, 2)), "graph", "SCAN_AXIS holds"),
        (UOp(Op.ASSIGN, float32, (TENSOR, I32)), "graph", "ASSIGN writes a value of the target's dtype"),
        (UOp(Op.COPY, float32, (TENSOR,), None), "graph", "COPY holds a device"),
        (UOp(Op.INDEX, float32, (MEMORY, F)), "kernel", "the positions of an INDEX are integers"),
        (UOp(Op.INDEX, int32, (MEMORY, RANGE)), "kernel", "INDEX has the dtype of the elements"),
        (UOp(Op.LOAD, float32, (F,)), "kernel", "LOAD reads a location"),
        (UOp(Op.LOAD, int32, (MEMORY.index(RANGE),)), "kernel", "LOAD has the dtype of its location"),
        (UOp(Op.STORE, void, (F, F)), "kernel", "STORE writes a location"),
        (UOp(Op.STORE, void, (MEMORY.index(RANGE), I32)), "kernel", "STORE writes a value of the location's dtype"),
        (UOp(Op.REDUCE, float32, (F, RANGE), Op.SUB), "kernel", "reductions are ADD, MUL, MAX and MIN"),
        (UOp(Op.REDUCE, float32, (F, F), Op.ADD), "kernel", "REDUCE closes RANGEs"),
        (UOp(Op.REDUCE, int32, (F, RANGE), Op.ADD), "kernel", "REDUCE over ranges has the dtype"),
        (UOp(Op.REDUCE, int32, (V4,), Op.ADD), "lowered", "REDUCE has its operand's scalar"),
        (
            UOp(Op.REDUCE, float32, (F, UOp(Op.RANGE, int32, (I32,), (0, AxisType.LOOP))), Op.ADD),
            "lowered",
            "a lowered REDUCE is over the lanes",
        ),
        (UOp(Op.SCAN, float32, (F, F), Op.ADD), "kernel", "SCAN holds a reduction and takes a RANGE"),
        (UOp(Op.RANGE, index, (UOp.const(index, 3),), 0), "kernel", r"RANGE holds RangeArg\(id, kind\)"),
        (UOp(Op.RANGE, index, (UOp.const(index, 3),), (AxisType.LOOP, 0)), "kernel", "a number and an AxisType"),
        (UOp(Op.RANGE, index, (F,), (0, AxisType.LOOP)), "kernel", "a RANGE has an integer end"),
        (UOp(Op.RANGE, int32, (I32,), (0, AxisType.UPCAST)), "lowered", "no loops any more"),
        (UOp(Op.END, void, (F, RANGE)), "kernel", "END closes an effect"),
        (UOp(Op.END, void, (UOp.sink(), F)), "kernel", "END closes RANGEs"),
        (UOp(Op.SINK, void, (), "k"), "kernel", "SINK holds KernelInfo or nothing"),
        (UOp(Op.SINK, float32, ()), "kernel", "SINK is void"),
        (UOp(Op.BUFFERIZE, float32, (F, F), BufferizeArg("CPU")), "ranged", "an axis of a BUFFERIZE"),
        (UOp(Op.BUFFERIZE, float32, (F, RANGE), ("CPU", "GLOBAL")), "ranged", "BUFFERIZE holds"),
        (UOp(Op.VECTORIZE, float32.vec(2), (F,)), "lowered", "VECTORIZE takes one scalar for each lane"),
        (UOp(Op.BROADCAST, int32.vec(2), (F,)), "lowered", "BROADCAST repeats its operand"),
        (UOp(Op.GEP, float32, (V4,), (4,)), "lowered", "GEP takes lanes of its operand"),
        (UOp(Op.GEP, float32.vec(2), (V4,), (1,)), "lowered", "GEP has as many lanes as it takes"),
        (UOp(Op.CAT, float32.vec(6), (V4, V4)), "lowered", "CAT joins the lanes"),
        (UOp(Op.WMMA, float32, (F, F, F), "core"), "lowered", "WMMA holds a tensor core"),
        (UOp(Op.WMMA, float32.vec(4), (V4, V4, V4), CORE), "lowered", "tiles of its tensor core: f32x2, f32x8, f32x4"),
        (UOp(Op.MULACC, float32, (F, F, I32)), "lowered", "MULACC has operands of its dtype"),
        (UOp(Op.ADD, float32, (MEMORY.index(I32), F)), "lowered", "the content of a location is read by a LOAD"),
        (UOp(Op.STORE, void, (MEMORY.index(I32), MEMORY.index(I32))), "lowered", "read by a LOAD"),
        (UOp(Op.LOAD, float32, (MEMORY.index(I32, gate=TRUE),)), "lowered", "a gated LOAD has an alternative"),
        (MEMORY.index(UOp.const(int32.vec(4), 1), gate=UOp.const(bool_.vec(2), True)), "lowered", "has one lane"),
    ],
    ids=lambda value: value.op.name if isinstance(value, UOp) else None,
)
def test_a_broken_node_breaks_its_rule(node: UOp, stage: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        verify(UOp.sink(node) if stage in ("graph", "ranged") else _closed(node), stage)


def _closed(node: UOp) -> UOp:
    """A kernel around a node, whose loops are closed."""
    return UOp.sink(UOp(Op.GROUP, void, (node,)).end(*node.ranges)) if node.ranges else UOp.sink(node)


def test_symbolic_sizes_pass_where_nothing_is_known() -> None:
    n = UOp.variable("n", 1, 9)
    one = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 1, "CPU")), (1,))
    verify(UOp.sink(make_expand(one, (n,))), "graph")
    verify(UOp.sink(make_reshape(make_expand(one, (n,)), (n, 1))), "graph")


def test_one_node_can_be_asked_about() -> None:
    assert find_violation(F, "graph") is None
    assert (
        find_violation(UOp(Op.LOAD, float32, (MEMORY.index(RANGE),)), "graph")
        == "LOAD stands in no graph of this stage"
    )


def test_verification_does_not_recurse() -> None:
    node = UOp.variable("x", 0, 9)
    for _ in range(50_000):
        node = UOp(Op.XOR, index, (node, node.src[1] if node.src else node))
    verify(UOp.sink(node), "graph")
