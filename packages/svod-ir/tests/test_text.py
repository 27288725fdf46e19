"""The text form: format, parsing back to the identical node, and errors of invalid lines."""

from __future__ import annotations

import math
import re
import struct

import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import (
    AddressSpace,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    index,
    int8,
    int16,
    int32,
    uint8,
    void,
)
from svod_ir import (
    AxisType,
    BufferArg,
    BufferizeArg,
    CheckArg,
    KernelInfo,
    Mesh,
    Op,
    Opt,
    OptOp,
    ParamArg,
    ParseError,
    TensorCore,
    UOp,
    format_expression,
    make_as_complex,
    make_as_real,
    make_imag,
    make_real,
    make_reshape,
    parse_graph,
    print_graph,
)
from svod_ir.args import GradientArg, GradientRule, LoopArg, Mark, SwitchArg
from svod_ir.ops import TABLE
from svod_ir.testing import (
    conditions,
    count_examples,
    expressions,
    graphs,
    parse_linear,
    parse_nodes,
)
from svod_ir.text import format_arg

X = UOp.variable("x", 0, 9)
F = UOp.const(float32, 1.5)
MEMORY = UOp(Op.PARAM, float32, (), ParamArg(0, 64))
RANGE = UOp.range(8, 0, AxisType.LOOP)
LAYOUT = Mesh(("data", "model"), (2, 1), (1, 0)).lay_out({"data": 0}, (64,))
CORE = TensorCore((16, 16, 8), 2, (float16, float16, float32), 16.0, 8)
DOT = TensorCore((16, 1, 4), 4, (uint8, int8, int32))

EXAMPLES: dict[Op, UOp] = {
    Op.CONST: F,
    Op.VCONST: UOp(Op.VCONST, float32.vec(2), (), (-0.0, math.inf)),
    Op.IOTA: UOp(Op.IOTA, int32, (), 5),
    Op.BIND: UOp(Op.BIND, index, (X, UOp.const(index, 3))),
    Op.SPECIAL: UOp(Op.SPECIAL, index, (UOp.const(index, 8),), "gidx0"),
    Op.BUFFER: UOp(Op.BUFFER, uint8, (), BufferArg(-3, 12, 'DISK:/a "b"\n#%0.bin')),
    Op.BUFFER_VIEW: UOp(
        Op.BUFFER_VIEW, uint8, (UOp(Op.BUFFER, uint8, (), BufferArg(3, 12, "CPU")),), (4, 8)
    ),
    Op.PARAM: UOp(Op.PARAM, float32, (), ParamArg(1, 64, "CPU")),
    Op.DEFINE_LOCAL: UOp(Op.DEFINE_LOCAL, float32, (), (0, 64)),
    Op.DEFINE_REG: UOp(Op.DEFINE_REG, float32.vec(8), (), (1, 1)),
    Op.COPY: UOp(Op.COPY, float32, (MEMORY,), "CUDA:1"),
    Op.MSELECT: UOp(Op.MSELECT, float32, (MEMORY,), 1),
    Op.RESHAPE: UOp(Op.RESHAPE, float32, (MEMORY, X), (None, 4)),
    Op.PERMUTE: UOp(Op.PERMUTE, float32, (MEMORY,), (1, 0)),
    Op.EXPAND: UOp(Op.EXPAND, float32, (MEMORY,), ()),
    Op.PAD: UOp(Op.PAD, float32, (MEMORY, X), (None, 2)),
    Op.SHRINK: UOp(Op.SHRINK, float32, (MEMORY,), (0, 2)),
    Op.FLIP: UOp(Op.FLIP, float32, (MEMORY,), (True, False)),
    Op.GATHER: UOp(Op.GATHER, float32, (MEMORY, X), 0),
    Op.SCATTER: UOp(Op.SCATTER, float32, (MEMORY, X, MEMORY), (0, None)),
    Op.TRACED: UOp(Op.TRACED, float32, (MEMORY,), Mark(7)),
    Op.GRADIENT: UOp(
        Op.GRADIENT,
        float32,
        (MEMORY, F),
        GradientArg(GradientRule("softmax"), (-1, (2, "same"), float32, None, 0.5), 2),
    ),
    Op.CONTROL_DEPENDENCY: UOp(Op.CONTROL_DEPENDENCY, float32, (MEMORY, F, MEMORY)),
    Op.MULTI: UOp(Op.MULTI, float32, (MEMORY,), 0),
    Op.RESHARD: UOp(Op.RESHARD, float32, (MEMORY,), LAYOUT),
    Op.REDUCE_AXIS: UOp(Op.REDUCE_AXIS, float32, (MEMORY,), (Op.MAX, (0,))),
    Op.SCAN_AXIS: UOp(Op.SCAN_AXIS, float32, (MEMORY,), (Op.ADD, 0)),
    Op.REDUCE: UOp(Op.REDUCE, float32, (MEMORY.index(RANGE), RANGE), Op.MUL),
    Op.SCAN: UOp(Op.SCAN, float32, (MEMORY.index(RANGE), RANGE), Op.MIN),
    Op.CARRY: UOp(Op.CARRY, float32, (F, RANGE), 2),
    Op.ALLREDUCE: UOp(Op.ALLREDUCE, float32, (MEMORY,), (Op.ADD, "CPU")),
    Op.LOOP: UOp(Op.LOOP, void, (X, MEMORY), LoopArg(UOp.sink(MEMORY, F), 1, is_reversed=True)),
    Op.SWITCH: UOp(Op.SWITCH, void, (X, MEMORY), SwitchArg((UOp.sink(MEMORY, X), UOp.sink(F, F)))),
    Op.RESULT: UOp(
        Op.RESULT,
        float32,
        (UOp(Op.LOOP, void, (X, MEMORY), LoopArg(UOp.sink(MEMORY), 1, 0, "i")),),
        0,
    ),
    Op.RANGE: UOp.range(X, 7, AxisType.GROUP_REDUCE),
    Op.SINK: UOp.sink(
        F,
        arg=KernelInfo(
            "r_8", (Opt(OptOp.UPCAST, 0, 4), Opt(OptOp.NOLOCALS), Opt(OptOp.TC, None, 2))
        ),
    ),
    Op.PROGRAM: UOp(Op.PROGRAM, void, (UOp.sink(),), "CPU"),
    Op.SOURCE: UOp(Op.SOURCE, void, (), 'define "x" {\n\t\\ }\u2028é'),
    Op.PROGRAM_BINARY: UOp(Op.PROGRAM_BINARY, void, (), bytes(range(256))),
    Op.CUSTOM: UOp(Op.CUSTOM, float32, (F,), "f({0})"),
    Op.CUSTOM_FUNCTION: UOp(Op.CUSTOM_FUNCTION, void, (F,), "graph"),
    Op.COMPLEX: UOp.const(complex64, 1.5 - 2j),
    Op.REAL: make_real(UOp.const(complex128, -0.0)),
    Op.IMAG: make_imag(UOp.const(complex64, 1)),
    Op.AS_COMPLEX: make_as_complex(make_reshape(MEMORY, (32, 2))),
    Op.AS_REAL: make_as_real(UOp.const(complex64, 1)),
    Op.CHECK: UOp(Op.CHECK, index, (X, X), CheckArg("take", 1)),
    Op.BUFFERIZE: UOp(Op.BUFFERIZE, float32, (F, RANGE), BufferizeArg("CPU", AddressSpace.LOCAL)),
    Op.GEP: UOp(Op.GEP, float32, (UOp.const(float32.vec(4), 1),), (3,)),
    Op.WMMA: UOp(
        Op.WMMA, float32.vec(128), tuple(UOp.const(d, 1) for d in CORE.operand_dtypes), CORE
    ),
    Op.DEFINE_VAR: X,
}


def test_default_fields_of_a_tensor_core_are_omitted() -> None:
    node = UOp(Op.WMMA, int32.vec(16), tuple(UOp.const(d, 1) for d in DOT.operand_dtypes), DOT)
    assert "[(16, 1, 4), 4, (u8, i8, i32)]" in print_graph(node)
    assert parse_graph(print_graph(node)) is node


def test_a_shard_of_a_mesh_reads_back_to_itself():
    multi = UOp(Op.MULTI, float32, (UOp(Op.MSTACK, float32, (MEMORY,)),), LAYOUT)
    read = parse_graph(print_graph(multi))
    assert read is multi
    assert read.arg.mesh.position == (1, 0)


@pytest.mark.parametrize("op", sorted(TABLE, key=lambda op: op.name), ids=lambda op: op.name)
def test_a_node_of_every_op_reads_back_to_itself(op: Op) -> None:
    node = EXAMPLES.get(op)
    if node is None:
        node = UOp(op, float32 if TABLE[op].dtype != "void" else void, (F, F))
    assert parse_graph(print_graph(node)) is node


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, 1.5, 0.1, 1e-310, 5e-324, 1.7e308, math.inf, -math.inf, math.nan, -math.nan],
)
def test_every_float_reads_back_bit_by_bit(value: float) -> None:
    node = UOp(Op.CONST, float64, (), value)
    back = parse_graph(print_graph(node))
    assert back is node
    assert struct.pack("d", back.arg) == struct.pack("d", value)


def test_a_nan_with_a_payload_reads_back_bit_by_bit() -> None:
    value = struct.unpack("d", struct.pack("Q", 0x7FF8000000000123))[0]
    assert parse_graph(print_graph(UOp(Op.CONST, float64, (), value))) is UOp(
        Op.CONST, float64, (), value
    )


@settings(
    max_examples=count_examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(graphs())
def test_random_graphs_read_back_to_themselves(graph: UOp) -> None:
    text = print_graph(graph)
    assert parse_graph(text) is graph
    assert print_graph(parse_graph(text)) == text


@settings(max_examples=count_examples(100), deadline=None)
@given(expressions(), conditions())
def test_random_expressions_read_back_to_themselves(number: UOp, truth: UOp) -> None:
    assert parse_graph(print_graph(number)) is number
    assert parse_graph(print_graph(truth)) is truth


def test_the_text_of_a_kernel() -> None:
    target = UOp(Op.PARAM, float32, (), ParamArg(1, 8))
    kernel = UOp.sink(
        target.index(RANGE).store(MEMORY.index(RANGE * 8) * -0.0).end(RANGE), arg=KernelInfo("E_8")
    )
    assert print_graph(kernel) == (
        "%0 = PARAM f32 [1, 8]\n"
        "%1 = CONST index [8]\n"
        "%2 = RANGE index %1 [0, LOOP]\n"
        "%3 = INDEX f32 %0, %2\n"
        "%4 = PARAM f32 [0, 64]\n"
        "%5 = MUL index %2, %1\n"
        "%6 = INDEX f32 %4, %5\n"
        "%7 = CONST f32 [-0.0]\n"
        "%8 = MUL f32 %6, %7\n"
        "%9 = STORE %3, %8\n"
        "%10 = END %9, %2\n"
        '%11 = SINK %10 ["E_8"]\n'
    )


def test_names_comments_blanks_and_trailing_commas_are_free() -> None:
    text = """
        # a comment
        %n = CONST index [3]   # another
        %value = ADD index %n, %n

        %last = RESHAPE index %value [1, 1,]
    """
    three = UOp.const(index, 3)
    assert parse_graph(text) is UOp(
        Op.RESHAPE, index, (UOp(Op.ADD, index, (three, three)),), (1, 1)
    )


def test_lines_that_differ_only_in_names_parse_alike() -> None:
    text = """
        %x = PARAM bool [0, 4]
        %a = NOT true
        %h = NOT true
        %b = NOT bool %x
        %c = NOT bool %b
        %d = WHERE f32 %b, 1.0, 2.0
        %e = CAST f32 %c
        %f = WHERE f32 %b, %d, %e
        %g = WHERE f32 %c, %f, %e
        SINK %a, %h, %g
    """
    lines = "\n".join(line.strip() for line in text.splitlines())
    truth, x = UOp.const(bool_, True), UOp(Op.PARAM, bool_, (), ParamArg(0, 4))
    b = UOp(Op.NOT, bool_, (x,))
    c = UOp(Op.NOT, bool_, (b,))
    d = UOp(Op.WHERE, float32, (b, UOp.const(float32, 1.0), UOp.const(float32, 2.0)))
    e = UOp(Op.CAST, float32, (c,))
    f = UOp(Op.WHERE, float32, (b, d, e))
    g = UOp(Op.WHERE, float32, (c, f, e))
    a = parse_graph("NOT true")
    assert a.src == (truth,)
    assert parse_graph(lines) is UOp.sink(a, a, g)


@pytest.mark.parametrize(
    ("last", "problem"),
    [("%c = NOT bool %d", "%d is not defined above"), ("%b = NOT bool %x", "%b is defined twice")],
)
def test_invalid_names_are_errors_in_repeated_lines(last: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem) as actual:
        parse_graph(f"%x = PARAM bool [0, 4]\n%a = NOT bool %x\n%b = NOT bool %a\n{last}")
    assert "line 4" in str(actual.value)


def test_expressions_denote_exactly_their_nodes_without_folding() -> None:
    short = parse_graph("""
        %out = PARAM f32 [0, 16]
        %n = DEFINE_VAR index ["n", 0, 9]
        %i = RANGE index 16 [0, LOOP]
        %c = %i < %n
        %x = load(%out[%i * 1 + -2 if %c], -0.0)
        %y = where(%c & ~true, max(%x, 1), f32(%n << 2)) ** 2.0
        %store = STORE %out[%i], -(%x - %y) * f32(3)
        %end = END %store, %i
        SINK %end ["k"]
    """)
    long = parse_graph("""
        %out = PARAM f32 [0, 16]
        %size = CONST index [16]
        %i = RANGE index %size [0, LOOP]
        %at = INDEX f32 %out, %i
        %one = CONST index [1]
        %scaled = MUL index %i, %one
        %two = CONST index [-2]
        %sum = ADD index %scaled, %two
        %n = DEFINE_VAR index ["n", 0, 9]
        %c = LT bool %i, %n
        %gated = INDEX f32 %out, %sum, %c
        %zero = CONST f32 [-0.0]
        %x = LOAD f32 %gated, %zero
        %true = CONST bool [true]
        %not = NOT bool %true
        %both = AND bool %c, %not
        %f1 = CONST f32 [1.0]
        %max = MAX f32 %x, %f1
        %by = CONST index [2]
        %shifted = SHL index %n, %by
        %cast = CAST f32 %shifted
        %where = WHERE f32 %both, %max, %cast
        %f2 = CONST f32 [2.0]
        %y = POW f32 %where, %f2
        %minus = SUB f32 %x, %y
        %neg = NEG f32 %minus
        %f3 = CONST f32 [3.0]
        %value = MUL f32 %neg, %f3
        %store = STORE %at, %value
        %end = END %store, %i
        %sink = SINK %end ["k"]
    """)
    assert short is long


def test_numbers_on_a_line_have_the_dtype_of_their_context() -> None:
    nodes = parse_nodes("""
        %memory = PARAM i16 [0, 64]
        %loop = RANGE i32 8 [0, LOOP]
        %place = INDEX i16x4 %memory, 3
        %store = STORE %memory[%loop, 1], 2
        %vector = ADD i16x4 %place, 5
        %less = LT boolx4 %place, 6
        %after = after(%memory, %store)[7]
        %inside = max((GEP i16 (CAT i16x8 %place, %place) [7]), 9)
        %lanes = %memory[%loop if %less : 4]
        %typed = i8(8)
        %rounded = f32(0.1)
        %joined = VECTORIZE f32x2 %rounded, 0
        %spread = BROADCAST f32x2 0
    """)
    expected = {
        "loop": int32,
        "place": index,
        "store": int16,
        "vector": int16.vec(4),
        "less": int16.vec(4),
    }
    assert {name: nodes[name].src[-1].dtype for name in expected} == expected
    assert nodes["store"].src[0] is nodes["memory"].index(nodes["loop"], UOp.const(index, 1))
    assert nodes["vector"].src[1] is UOp.const(int16.vec(4), 5)
    assert nodes["after"] is nodes["memory"].after(nodes["store"]).index(UOp.const(index, 7))
    both = UOp(Op.CAT, int16.vec(8), (nodes["place"], nodes["place"]))
    assert nodes["inside"] is UOp(Op.GEP, int16, (both,), (7,)).alu(Op.MAX, 9)
    assert nodes["lanes"] is nodes["memory"].index(nodes["loop"], gate=nodes["less"], lanes=4)
    assert nodes["typed"] is UOp.const(int8, 8)
    assert nodes["rounded"] is UOp.const(float32, 0.1)
    assert nodes["joined"].src[1] is nodes["spread"].src[0] is UOp.const(float32, 0)


def test_operators_bind_as_in_python() -> None:
    names = {name: UOp.variable(name, 1, 9) for name in "xyz"}
    head = "\n".join(f'%{name} = DEFINE_VAR index ["{name}", 1, 9]' for name in names)
    for text in [
        "x - y - z",
        "x - (y - z)",
        "x + y * z",
        "x << y + z",
        "-x * y",
        "x | y ^ z & x",
        "x % y // z",
        "-(x % y)",
    ]:
        spelled = re.sub("([xyz])", r"%\1", text)
        assert parse_graph(f"{head}\n%result = {spelled}") is eval(text, dict(names)), text


def test_a_linear_program_is_written_in_its_order() -> None:
    program = parse_linear("""
        %out = PARAM f32 [0, 3]
        %i = RANGE index 3 [0, LOOP]
        %store = STORE %out[%i], 1.0
        END %store, %i
    """)
    assert [n.op.name for n in program] == [
        "PARAM",
        "CONST",
        "RANGE",
        "INDEX",
        "CONST",
        "STORE",
        "END",
    ]


def test_a_limit_prints_the_first_lines() -> None:
    node = X * 2 + 1
    assert (
        print_graph(node, limit=2)
        == '%0 = DEFINE_VAR index ["x", 0, 9]\n%1 = CONST index [2]\n# ...\n'
    )
    assert print_graph(node, limit=100) == print_graph(node)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 0, "the text holds no node"),
        ("# nothing\n", 0, "the text holds no node"),
        ("\n%0 = FOO f32", 2, "FOO is not an op"),
        ("%0 = ADD f32 %1, %2", 1, "%1 is not defined above"),
        ("%0 = CONST f32 [1.0]\n%0 = CONST f32 [2.0]", 2, "%0 is defined twice"),
        ("%0 = CONST f31 [1]", 1, "f31 is not a dtype"),
        ("%0 CONST f32 [1]", 1, "expected '=', found 'CONST'"),
        ("x = CONST f32 [1]", 1, "expected a node such as %0, found 'x'"),
        ("%0 = CONST f32", 1, "CONST needs an arg in brackets"),
        ("%0 = CONST f32 [1.0] x", 1, "expected the end of the line, found 'x'"),
        ("%0 = CONST f32 [1.0", 1, "expected ']', found 'the end of the line'"),
        ("%0 = CONST f32 []", 1, "expected one value, got 0"),
        ("%0 = CONST i8 [300]", 1, "300 is out of range for int8"),
        ("%0 = CONST i8 [1.0]", 1, "1.0 is not a number of int8"),
        ("%0 = CONST bool [1]", 1, "1 is not true or false"),
        ("%0 = CONST f32 [true]", 1, "True is not a number of float32"),
        ("%0 = NEG f32 [1]", 1, "NEG takes no arg"),
        (
            "%0 = CONST index [1]\n%1 = RANGE index %0 [0, LOP]",
            2,
            "LOP is not one of GLOBAL, THREAD",
        ),
        ("%0 = BUFFER f32 [1]", 1, "expected 3 values, got 1"),
        ('%0 = BUFFER f32 ["a", 1, "CPU"]', 1, "'a' is not an integer"),
        ('%0 = SINK ["k", (FOO(1),)]', 1, "FOO is not one of UPCAST"),
        ('%0 = SINK ["k", (1,)]', 1, "1 is not an opt such as UPCAST(0, 4)"),
        ('%0 = SOURCE ["\\x"]', 1, "invalid string literal"),
        ('%0 = PROGRAM_BINARY [hex"123"]', 1, "two hex digits for each byte"),
        ("%0 = PROGRAM_BINARY [1]", 1, '1 is not hex"..."'),
        ("%0 = CONST f32 [$]", 1, "cannot read '$]'"),
        ("%0 = CONST f32 [1.0], 2", 1, "expected the end of the line"),
        ("%0 = CONST f32 [=]", 1, "expected a value, found '='"),
        ("%0 = 1 + 2", 1, "the dtype of 1 is unknown"),
        ("%0 = RANGE 3 [0, LOOP]", 1, "the dtype of 3 is unknown"),
        (
            "%0 = CONST f32 [1.0]\n%1 = %0 +",
            2,
            "expected a node or a number, found 'the end of the line'",
        ),
        ("%0 = CONST i8 [1]\n%1 = %0 + 1.5", 2, "1.5 is not a number of int8"),
        ("%0 = CONST i8 [1]\n%1 = foo(%0)", 2, "foo is neither a dtype nor a function"),
        ("%0 = CONST i8 [1]\n%1 = i16(%0, %0)", 2, "i16 takes one operand, not 2"),
        ("%0 = PARAM i8 [0, 4]\n%1 = %0[1 : %0]", 2, "expected a number, found '%0'"),
        ("%0 = PARAM i8 [0, 4]\n%1 = %0[1", 2, "expected ']', found 'the end of the line'"),
    ],
)
def test_an_invalid_line_is_an_error_with_its_line_number(
    text: str, line: int, problem: str
) -> None:
    with pytest.raises(ParseError) as caught:
        parse_graph(text)
    assert caught.value.line == line
    assert problem in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_misspelt_op_gets_a_suggestion() -> None:
    with pytest.raises(ParseError, match="did you mean RESHAPE"):
        parse_graph("%0 = RESHAP f32")


def test_an_arg_of_an_unknown_kind_still_prints() -> None:
    node = UOp(Op.CUSTOM, float32, (), 3j)
    assert print_graph(node) == "%0 = CUSTOM f32 [<3j>]\n"
    with pytest.raises(ParseError):
        parse_graph(print_graph(node))


def test_format_arg_is_empty_without_an_arg() -> None:
    assert format_arg(X + 1) == ""
    assert format_arg(X) == '"x", 0, 9'


def test_expressions_show_on_one_line() -> None:
    i, j = RANGE, UOp.range(4, 1, AxisType.REDUCE)
    assert format_expression((i * 4 + j) // 3 % X) == "((((L0 * 4) + R1) // 3) % x)"
    assert format_expression(MEMORY.index(i, gate=i < 3)) == "p0[L0 if (L0 < 3)]"
    assert format_expression(MEMORY.index(i).store(F)) == "p0[L0] = 1.5"
    assert format_expression((i < 3).where(i, j)) == "where((L0 < 3), L0, R1)"
    assert format_expression(UOp.const(bool_, True)) == "true"


def test_a_long_expression_is_shortened() -> None:
    node = X
    for _ in range(200):
        node = UOp(Op.XOR, index, (node, node))
    assert len(format_expression(node)) <= 400
