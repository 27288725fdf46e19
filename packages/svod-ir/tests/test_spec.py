"""The specification of each stage, on valid and invalid graphs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import bool_, float32, index, int32, void
from svod_ir import (
    AxisType,
    BufferArg,
    BufferizeArg,
    GraphError,
    Op,
    SpecError,
    UOp,
    make_expand,
    make_reshape,
    parse_graph,
    verify,
)
from svod_ir.ops import STAGES, TABLE
from svod_ir.spec import find_violation
from svod_ir.testing import count_examples, expressions, graphs, parse_nodes
from svod_ir.testing.nodes import call, group

NODES = """
    %buffer = BUFFER f32 [1, 6, "CPU"]
    %tensor = RESHAPE f32 %buffer [2, 3]
    %memory = PARAM f32 [0, 64]
    %out = PARAM f32 [1, 8]
    %range = RANGE index 8 [0, LOOP]
    %f = CONST f32 [1.0]
    %i = CONST i32 [3]
    %true = CONST bool [true]
    %v = VCONST f32x4 [1.0, 1.0, 1.0, 1.0]
"""
BUFFER, TENSOR, MEMORY, OUT, RANGE, F, I32 = list(parse_nodes(NODES).values())[:7]
KERNEL = parse_graph(f"""{NODES}
    %store = STORE %out[%range], %memory[%range] + 1.0
    %end = END %store, %range
    SINK %end [""]
""")
LOWERED = parse_graph("""
    %out = PARAM f32 [1, 8]
    %i = RANGE i32 8 [0, LOOP]
    %in = PARAM f32 [0, 64]
    %store = STORE %out[%i], -load(%in[%i])
    %end = END %store, %i
    SINK %end ["k"]
""")


@settings(
    max_examples=count_examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(graphs())
def test_random_graphs_verify_as_graph_stage(graph: UOp) -> None:
    verify(UOp.sink(graph), "graph")


@settings(max_examples=count_examples(50), deadline=None)
@given(expressions())
def test_random_expressions_verify_as_ranged_stage(expression: UOp) -> None:
    verify(expression, "ranged")


def test_each_stage_accepts_its_own_graphs() -> None:
    verify(UOp.sink(TENSOR + 1.0), "graph")
    verify(
        UOp.sink(UOp(Op.BUFFERIZE, float32, (BUFFER.index(RANGE), RANGE), BufferizeArg("CPU"))),
        "ranged",
    )
    verify(UOp.sink(BUFFER.after(call(KERNEL, BUFFER, BUFFER))), "kernel graph")
    verify(KERNEL, "kernel")
    verify(KERNEL, "lowering")
    verify(LOWERED, "lowering")
    verify(LOWERED, "lowered")
    verify(UOp(Op.PROGRAM, void, (LOWERED,), "CPU"), "program")


def test_stages_of_rows_and_of_the_stage_table_agree() -> None:
    named = {name for row in TABLE.values() for name in row.stages.split()}
    assert named == {name for names in STAGES.values() for name in names.split()}


def test_the_error_names_the_pass_the_stage_the_rule_and_the_node() -> None:
    with pytest.raises(SpecError) as caught:
        verify(UOp.sink(TENSOR), "kernel", pass_name="rangeify:pull")
    error = caught.value
    assert isinstance(error, GraphError)
    assert (error.pass_name, error.stage) == ("rangeify:pull", "kernel")
    assert error.rule == "BUFFER is not allowed in this stage"
    assert error.node is BUFFER
    assert str(error).startswith(
        "after rangeify:pull: stage kernel: BUFFER is not allowed in this stage: BUFFER"
    )


def test_the_body_of_a_call_is_checked_as_a_kernel() -> None:
    broken = UOp.sink(OUT.index(RANGE).store(UOp(Op.ADD, float32, (F,))).end(RANGE))
    with pytest.raises(SpecError, match="ADD takes left right, not 1 operands"):
        verify(UOp.sink(BUFFER.after(call(broken, BUFFER))), "kernel graph")


@pytest.mark.parametrize(
    ("root", "stage", "rule"),
    [
        (OUT.index(RANGE).store(F).end(RANGE), "kernel", "a kernel is a SINK"),
        (UOp.sink(OUT.index(RANGE).store(F)), "kernel", "every RANGE is closed"),
        (
            UOp.sink(*(OUT.index(RANGE).store(x).end(RANGE) for x in (F, F + F))),
            "kernel",
            "one node closes a RANGE",
        ),
        (KERNEL, "lowered", "the dtype index is lowered"),
        (
            UOp(Op.PROGRAM, void, (KERNEL, KERNEL, KERNEL, KERNEL, KERNEL), "CPU"),
            "program",
            "PROGRAM takes",
        ),
    ],
)
def test_roots(root: UOp, stage: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        verify(root, stage)


@pytest.mark.parametrize(
    ("line", "stage", "rule"),
    [
        ("ADD f32 %f, %i", "graph", "ADD has operands of one dtype"),
        ("ADD i32 %f, %f", "graph", "ADD has the dtype of its first operand"),
        ("LT f32 %f, %f", "graph", "a comparison is bool"),
        ("SQRT i32 %i", "graph", "SQRT takes floats"),
        ("IDIV f32 %f, %f", "graph", "IDIV takes integers"),
        ("AND f32 %f, %f", "graph", "AND takes bool or integers"),
        ("SHL i32 %i, %f", "graph", "SHL shifts by integers"),
        ("WHERE f32 %f, %f, %f", "graph", "WHERE has a condition of bool"),
        ("WHERE f32 %true, %f, %i", "graph", "WHERE and its values have one dtype"),
        ("CAST %f", "graph", "CAST takes and returns values"),
        ("CAST f32x4 %f", "lowered", "CAST keeps the lanes"),
        ("BITCAST index %f", "graph", "BITCAST keeps the size"),
        ("CONST f32x4 [1.0]", "lowered", "CONST has a scalar dtype"),
        ("VCONST f32x4 [1.0]", "lowered", "VCONST holds one value for each lane"),
        ("VCONST f32x4 [1.0, 1.0, 1.0, 1.0]", "graph", "VCONST is not allowed"),
        ('DEFINE_VAR index ["n", 3, 1]', "graph", "DEFINE_VAR holds"),
        ('DEFINE_VAR f32 ["n", 1, 3]', "graph", "DEFINE_VAR is an integer"),
        ("BIND index index(1), index(1)", "graph", "BIND binds a DEFINE_VAR"),
        ("IOTA i32", "graph", "IOTA has a size"),
        ('BUFFER f32 [1, -6, "CPU"]', "graph", "BUFFER has no negative size"),
        ("PARAM f32x4 [1, 6]", "kernel", "PARAM has the dtype of its elements"),
        ("RESHAPE f32 %tensor [7]", "graph", "RESHAPE keeps the number of elements"),
        ("EXPAND f32 %tensor [4, 3]", "graph", "EXPAND repeats axes of size 1"),
        ("EXPAND f32 %tensor [2, 3, 1]", "graph", "EXPAND of 2 axes holds 2 values"),
        ("PERMUTE f32 %tensor [0, 0]", "graph", "PERMUTE holds each axis once"),
        ("PAD f32 %tensor [0, 1]", "graph", "PAD of 2 axes holds 4 values"),
        ("PAD f32 %tensor [0, 1, -1, 0]", "graph", "PAD adds elements"),
        ("SHRINK f32 %tensor [0, 3, 0, 3]", "graph", "SHRINK is within the bounds"),
        ("FLIP f32 %tensor [true]", "graph", "FLIP of 2 axes holds 2 values"),
        ("RESHAPE f32 %tensor [none]", "graph", "an operand for each symbolic size"),
        ("GATHER f32 %tensor, %tensor [0]", "graph", "GATHER takes integer indices"),
        ("GATHER f32 %tensor, %i [2]", "graph", "GATHER takes integer indices along an axis"),
        (
            "SCATTER f32 %tensor, %tensor, %tensor [0, none]",
            "graph",
            "SCATTER takes integer indices",
        ),
        (
            "SCATTER f32 %tensor, %i, %tensor [2, none]",
            "graph",
            "SCATTER takes integer indices along",
        ),
        (
            "SCATTER f32 %tensor, %i, %tensor [1, none]",
            "graph",
            "SCATTER takes rows of its base's dtype",
        ),
        (
            "SCATTER f32 %tensor, %i, %tensor [0, MUL]",
            "graph",
            "SCATTER adds rows or replaces them",
        ),
        ('CHECK f32 %tensor ["divide", none, none]', "graph", "CHECK takes integers"),
        ('CHECK i32 %i ["take", 1, none]', "graph", "CHECK of indices has a size"),
        ("REDUCE_AXIS f32 %tensor [SUB, (0,)]", "graph", "REDUCE_AXIS holds"),
        ("REDUCE_AXIS f32 %tensor [ADD, (2,)]", "graph", "REDUCE_AXIS holds"),
        ("SCAN_AXIS f32 %tensor [ADD, 2]", "graph", "SCAN_AXIS holds"),
        ("ASSIGN f32 %tensor, %i", "graph", "ASSIGN writes a value of the target's dtype"),
        ("INDEX f32 %memory, %f", "kernel", "the indices of an INDEX are integers"),
        ("INDEX i32 %memory, %range", "kernel", "INDEX has the dtype of the elements"),
        ("LOAD f32 %f", "kernel", "LOAD reads a location"),
        ("LOAD i32 %memory[%range]", "kernel", "LOAD has the dtype of its location"),
        ("STORE %f, %f", "kernel", "STORE writes a location"),
        ("STORE %memory[%range], %i", "kernel", "STORE writes a value of the location's dtype"),
        ("REDUCE f32 %f, %range [SUB]", "kernel", "reductions are ADD, MUL, MAX and MIN"),
        ("REDUCE f32 %f, %f [ADD]", "kernel", "REDUCE closes RANGEs"),
        ("REDUCE i32 %f, %range [ADD]", "kernel", "REDUCE over ranges has the dtype"),
        ("REDUCE i32 %v [ADD]", "lowered", "REDUCE has its operand's scalar"),
        ("SCAN f32 %f, %f [ADD]", "kernel", "SCAN holds a reduction and takes a RANGE"),
        ("LEAVE %f, %range", "kernel", "LEAVE takes a bool scalar"),
        ("LEAVE %true, %range, %f", "kernel", "the other operands of a LEAVE are effects"),
        ("CARRY f32 %i [0]", "kernel", "the dtype of its first operand"),
        ("CARRY f32 %f, %f [0]", "kernel", "the element indices of a CARRY are integers"),
        ("ADVANCE %f, %f", "kernel", "ADVANCE takes CARRYs"),
        ("%carry = CARRY f32 %f [0]\nADVANCE %carry, %i", "kernel", "a next value has the dtype"),
        ("RANGE index %f [0, LOOP]", "kernel", "a RANGE has an integer end"),
        ("RANGE i32 %i [0, UPCAST]", "lowered", "are lowered, not loops"),
        ("END %f, %range", "kernel", "END closes an effect"),
        (
            "%c = CARRY f32 %f [0]\n%a = ADVANCE %c, %f\nEND %a, %range, %range",
            "kernel",
            "an END of its own",
        ),
        ("SINK f32", "kernel", "SINK is void"),
        ('BUFFERIZE f32 %f, %f ["CPU", GLOBAL]', "ranged", "an axis of a BUFFERIZE"),
        ("VECTORIZE f32x2 %f", "lowered", "VECTORIZE takes one scalar for each lane"),
        ("BROADCAST i32x2 %f", "lowered", "BROADCAST repeats its operand"),
        ("GEP f32 %v [4]", "lowered", "GEP takes lanes of its operand"),
        ("GEP f32x2 %v [1]", "lowered", "GEP has one lane for each selected lane"),
        ("CAT f32x6 %v, %v", "lowered", "CAT joins the lanes"),
        (
            "WMMA f32x4 %v, %v, %v [(4, 1, 2), 2, (f32, f32, f32)]",
            "lowered",
            "tiles of its tensor core: f32x2, f32x8, f32x4",
        ),
        ("MULACC f32 %f, %f, %i", "lowered", "MULACC has operands of its dtype"),
        ("ADD f32 %memory[%i], %f", "lowered", "a LOAD reads the value of a location"),
        ("STORE %memory[%i], %memory[%i]", "lowered", "a LOAD reads"),
        ("LOAD f32 %memory[%i if %true]", "lowered", "a gated LOAD has an alternative"),
        ("INDEX f32 %memory, i32x4(1), boolx2(true)", "lowered", "has one lane"),
        ("%sink = SINK\nNEG %sink", "graph", "NEG takes values"),
        ("%sink = SINK\nEND %sink, %f", "kernel", "END closes RANGEs"),
        (
            "%loop = RANGE i32 %i [0, LOOP]\nREDUCE f32 %f, %loop [ADD]",
            "lowered",
            "a lowered REDUCE is over the lanes",
        ),
    ],
)
def test_a_broken_node_breaks_its_rule(line: str, stage: str, rule: str) -> None:
    _check_broken(parse_graph(NODES + line), stage, rule)


@pytest.mark.parametrize(
    ("node", "stage", "rule"),
    [
        (UOp(Op.ADD, float32, (F, F), 1), "graph", "ADD has no arg"),
        (UOp(Op.CONST, float32, (), 7531), "graph", "a constant holds a Python value of its dtype"),
        (UOp(Op.CONST, int32, (), 1 << 40), "graph", "a constant holds"),
        (UOp(Op.CONST, int32, (), True), "graph", "a constant holds"),
        (UOp(Op.CONST, bool_, (), 1), "graph", "a constant holds"),
        (
            UOp(Op.VCONST, int32.vec(2), (), (1.5, 2.0)),
            "lowered",
            "VCONST holds values of its dtype",
        ),
        (UOp(Op.BUFFER, float32, (), 7531), "graph", r"BUFFER holds BufferArg\(id, size, device\)"),
        (UOp(Op.BUFFER, float32, (), None), "graph", "BUFFER holds"),
        (UOp(Op.CHECK, int32, (I32,), "take"), "graph", "CHECK holds CheckArg"),
        (UOp(Op.COPY, float32, (TENSOR,), None), "graph", "COPY holds a device"),
        (
            UOp(Op.RANGE, index, (UOp.const(index, 3),), 0),
            "kernel",
            r"RANGE holds RangeArg\(id, kind\)",
        ),
        (
            UOp(Op.RANGE, index, (UOp.const(index, 3),), (AxisType.LOOP, 0)),
            "kernel",
            "an id and an AxisType",
        ),
        (UOp(Op.SINK, void, (), "k"), "kernel", "SINK holds KernelInfo or None"),
        (UOp(Op.BUFFERIZE, float32, (F, RANGE), ("CPU", "GLOBAL")), "ranged", "BUFFERIZE holds"),
        (UOp(Op.WMMA, float32, (F, F, F), "core"), "lowered", "WMMA holds a tensor core"),
    ],
    ids=lambda value: value.op.name if isinstance(value, UOp) else None,
)
def test_an_invalid_arg_without_text_form_breaks_its_rule(node: UOp, stage: str, rule: str) -> None:
    _check_broken(node, stage, rule)


def _check_broken(node: UOp, stage: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        verify(UOp.sink(node) if stage in ("graph", "ranged") else _closed(node), stage)


def _closed(node: UOp) -> UOp:
    """A kernel around a node, whose loops are closed."""
    return UOp.sink(group(node).end(*node.ranges)) if node.ranges else UOp.sink(node)


def test_unknown_symbolic_sizes_are_valid() -> None:
    n = UOp.variable("n", 1, 9)
    one = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 1, "CPU")), (1,))
    verify(UOp.sink(make_expand(one, (n,))), "graph")
    verify(UOp.sink(make_reshape(make_expand(one, (n,)), (n, 1))), "graph")


def test_a_single_node_can_be_checked() -> None:
    assert find_violation(F, "graph") is None
    assert (
        find_violation(UOp(Op.LOAD, float32, (MEMORY.index(RANGE),)), "graph")
        == "LOAD is not allowed in this stage"
    )


def test_verification_does_not_recurse() -> None:
    node = UOp.variable("x", 0, 9)
    for _ in range(50_000):
        node = UOp(Op.XOR, index, (node, node.src[1] if node.src else node))
    verify(UOp.sink(node), "graph")
