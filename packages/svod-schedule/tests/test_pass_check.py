"""Faults that are planted in every pass, and what names them."""

from __future__ import annotations

import pytest

from svod_dtype import float32, int32
from svod_ir import (
    IROptions,
    MiscompilationError,
    Op,
    RuleSet,
    SpecError,
    Target,
    UOp,
    graph_rewrite,
    make_reduce_axis,
    make_reshape,
    parse_graph,
    rule,
)
from svod_ir.pattern import FLOAT, const, node, splat, var
from svod_ir.testing.nodes import alu, buffer, contiguous
from svod_schedule._pass_check import PassCheck
from svod_schedule.pipeline import PIPELINES, Context, Pass, PassTable, compile_kernel, run_pipeline

ROWS = [(pipeline, row.name) for pipeline, passes in PIPELINES.items() for row in passes]


@rule(var("x", FLOAT) + splat("c", value=3.0))
def add_one_more(x: UOp, c: UOp) -> UOp:
    """x + 3 -> x + 4, which is wrong."""
    return x + UOp.const(c.dtype, 4.0)


@rule(var("x", FLOAT) * splat("c", value=0.0))
def times_zero(x: UOp, c: UOp) -> UOp:
    """x * 0 -> 0, which holds for numbers alone, and for finite ones."""
    del x
    return c


WRONG = RuleSet("wrong", (add_one_more,))


def use_wrong_constant(graph: UOp) -> UOp:
    """A pass that has no rule, and adds 4 instead of 3."""
    wrong = {
        n: UOp.const(n.dtype, 4.0)
        for n in graph.toposort()
        if n.op in (Op.CONST, Op.VCONST) and is_three(n)
    }
    return graph.substitute(wrong)


def is_three(constant: UOp) -> bool:
    return constant.dtype.is_float and constant is UOp.const(constant.dtype, 3.0)


def add_after(pipeline: str, name: str, planted: Pass) -> PassTable:
    """The compiler's table with `planted` behind the pass `name`."""
    names = [row.name for row in PIPELINES[pipeline]]
    later = names[names.index(name) + 1 :]
    return PIPELINES.with_pass(pipeline, planted, before=later[0] if later else None)


def plant(pipeline: str, name: str, run: object) -> PassTable:
    stage = next(row.stage for row in PIPELINES[pipeline] if row.name == name)
    assert callable(run)
    return add_after(
        pipeline, name, Pass("planted", lambda graph, _: run(graph), "does wrong", stage)
    )


def make_graph() -> UOp:
    """(x + 3).sum(1) of a matrix."""
    x = make_reshape(buffer(1, 12), (3, 4))
    return UOp.sink(make_reduce_axis(x + 3.0, Op.ADD, (1,)))


def compile_all(graph: UOp, context: Context) -> None:
    ranged = run_pipeline("rangeify", graph, context)
    for call in run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL):
        compile_kernel(call.src[0], context)


@pytest.mark.parametrize(("pipeline", "name"), ROWS, ids=[":".join(r) for r in ROWS])
def test_a_wrong_rule_is_named_with_its_node_and_values(pipeline: str, name: str) -> None:
    table = plant(pipeline, name, lambda graph: graph_rewrite(WRONG, graph, enter_calls=True))
    with pytest.raises(MiscompilationError) as caught:
        compile_all(make_graph(), Context(passes=table, options=IROptions(check="values")))
    error = caught.value
    assert (error.pass_name, error.rule) == (f"{pipeline}:planted", "add_one_more of wrong")
    assert "+ 3.0" in str(error.node) or "vconst" in str(error.node)
    assert "became" in error.problem
    assert error.values


@pytest.mark.parametrize(("pipeline", "name"), ROWS, ids=[":".join(r) for r in ROWS])
def test_a_wrong_pass_is_named_with_the_result_and_values(pipeline: str, name: str) -> None:
    table = plant(pipeline, name, use_wrong_constant)
    with pytest.raises(MiscompilationError) as caught:
        compile_all(make_graph(), Context(passes=table, options=IROptions(check="values")))
    error = caught.value
    assert (error.pass_name, error.rule) == (f"{pipeline}:planted", None)
    assert "3 of 3 differ" in error.problem
    assert "before:" in str(error)


def test_a_check_of_structure_computes_nothing() -> None:
    compile_all(
        make_graph(),
        Context(passes=plant("lower", "expand", use_wrong_constant), options=IROptions(check=True)),
    )


def multiply_by_zero() -> UOp:
    x = make_reshape(buffer(1, 12), (3, 4))
    return UOp.sink(contiguous(x * 0.0))


def test_a_rule_that_loses_a_shape_is_named() -> None:
    rules = RuleSet("zeros", (times_zero,))
    table = plant("rangeify", "mark-results", lambda graph: graph_rewrite(rules, graph))
    with pytest.raises(SpecError) as caught:
        run_pipeline(
            "rangeify", multiply_by_zero(), Context(passes=table, options=IROptions(check=True))
        )
    assert (
        str(caught.value)
        == "after rangeify:planted: stage graph: a rule keeps the shape (3, 4), which became ():"
        " (reshape(b1, 3, 4) * 0.0)\n  note: the rewrite rule times_zero of zeros made it\n "
        " note: it became 0.0"
    )
    assert caught.value.made_by == "times_zero of zeros"


def test_a_pass_that_loses_the_shape_of_a_result_is_named() -> None:
    graph = multiply_by_zero()
    wrong = {graph.src[0]: contiguous(UOp.const(float32, 0.0))}
    table = plant(
        "rangeify",
        "mark-results",
        lambda g: g.substitute({s: n for s, n in wrong.items() if s in g.src}),
    )
    with pytest.raises(
        SpecError, match=r"a pass keeps the shape of results, \(3, 4\), which became \(\)"
    ):
        run_pipeline("rangeify", graph, Context(passes=table, options=IROptions(check=True)))


def test_a_pass_that_changes_the_dtype_of_a_result_is_named() -> None:
    table = plant("rangeify", "mark-results", lambda g: UOp.sink(*(s.cast(int32) for s in g.src)))
    with pytest.raises(
        SpecError, match="a pass keeps the dtype of results, float32, which became int32"
    ):
        run_pipeline("rangeify", make_graph(), Context(passes=table, options=IROptions(check=True)))


@rule(node(Op.ADD, var("x", FLOAT), const("c")))
def add_without_an_operand(x: UOp, c: UOp) -> UOp | None:
    """x + 3 -> (x - an integer) * 3: a node inside of the replacement breaks the specification."""
    broken = alu(Op.SUB, x, UOp.const(int32, 1))
    return alu(Op.MUL, broken, c) if c.arg == 3.0 else None


@rule(node(Op.MAX, var("x"), var("y")))
def never(x: UOp, y: UOp) -> UOp | None:
    """Declines."""
    del x, y


def test_a_violation_names_the_rule_that_built_the_node() -> None:
    def run(graph: UOp) -> UOp:
        made = graph_rewrite(RuleSet("broken", (add_without_an_operand, never)), graph)
        # What the rule made has other operands by now.
        inputs = [
            n
            for n in made.toposort()
            if n.op is Op.INDEX and n.dtype.is_float and n in graph.toposort()
        ]
        return made.substitute({inputs[0]: -inputs[0]}) if inputs else made

    table = PIPELINES.with_pass(
        "optimize",
        Pass("planted", lambda g, _: run(g), "does wrong", "kernel"),
        before="merge-loops",
    )
    with pytest.raises(SpecError) as caught:
        compile_all(make_graph(), Context(passes=table, options=IROptions(check=True)))
    assert caught.value.made_by == "add_without_an_operand of broken"
    assert caught.value.pass_name == "optimize:planted"
    assert "the rewrite rule add_without_an_operand of broken made it" in str(caught.value)


def test_a_violation_of_a_pass_names_no_rule() -> None:
    broken = alu(Op.SUB, UOp.const(float32, 1.0), UOp.const(int32, 1))
    table = plant("rangeify", "mark-results", lambda g: UOp.sink(*g.src, broken))
    with pytest.raises(SpecError, match="SUB has operands of one dtype") as caught:
        run_pipeline("rangeify", make_graph(), Context(passes=table, options=IROptions(check=True)))
    assert caught.value.made_by is None


def read_one_further(graph: UOp) -> UOp:
    """A pass that reads beyond the end of its first argument."""
    reads = [
        n for n in graph.iter_ops(Op.INDEX) if n.src[0].op is Op.PARAM and n.src[0].arg.slot == 1
    ]
    return graph.substitute({n: n.with_src((n.src[0], n.src[1] + 1)) for n in reads})


def test_a_pass_that_reads_outside_of_memory_is_named() -> None:
    table = plant("optimize", "merge-loops", read_one_further)
    with pytest.raises(MiscompilationError) as caught:
        compile_all(make_graph(), Context(passes=table, options=IROptions(check="values")))
    assert caught.value.pass_name == "optimize:planted"
    assert (
        "it can no longer be evaluated: index 12 is out of bounds for 12 elements"
        in caught.value.problem
    )


def test_skipped_comparisons_of_large_graphs_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = make_reshape(buffer(1, 1 << 24), (1 << 12, 1 << 12))
    sink = UOp.sink(make_reduce_axis(x + 3.0, Op.ADD, (1,)))
    compile_all(
        sink,
        Context(
            passes=plant("lower", "expand", use_wrong_constant), options=IROptions(check="values")
        ),
    )
    said = capsys.readouterr().err
    assert "SVOD_CHECK=values: not compared: " in said
    assert "lower:expand" in said
    assert "steps of evaluation, more than" in said


def test_a_wrong_rule_is_named_where_the_graph_is_too_large_to_evaluate() -> None:
    x = make_reshape(buffer(1, 1 << 24), (1 << 12, 1 << 12))
    sink = UOp.sink(make_reduce_axis(x + 3.0, Op.ADD, (1,)))
    table = plant("lower", "expand", lambda graph: graph_rewrite(WRONG, graph))
    with pytest.raises(MiscompilationError, match="the rewrite rule add_one_more of wrong changes"):
        compile_all(sink, Context(passes=table, options=IROptions(check="values")))


def test_skipped_comparisons_without_a_reference_meaning_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    custom = UOp(Op.CUSTOM, float32, (UOp.const(float32, 1.0),), "f({0})")
    table = PIPELINES.with_pass(
        "optimize",
        Pass("custom", lambda g, _: insert(g, custom), "calls f", "kernel"),
        before="simplify-kernel",
    )
    compile_all(make_graph(), Context(passes=table, options=IROptions(check="values")))
    said = capsys.readouterr().err.splitlines()
    assert any(
        "optimize:custom" in line and "CUSTOM has no reference semantics" in line for line in said
    )


def insert(graph: UOp, node: UOp) -> UOp:
    return graph.substitute({n: node for n in graph.toposort() if is_three(n)})


def test_dependent_variables_are_evaluated_at_their_minima(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Where a kernel begins to read, and how many elements: only together are they inside of the
    # memory.
    kernel = parse_graph("""
        %out = PARAM f32 [0, 10]
        %in = PARAM f32 [1, 10]
        %begin = DEFINE_VAR index ["begin", 0, 9]
        %i = RANGE index 4 [0, LOOP]
        %stored = STORE %out[%i], %in[%begin + %i] + 3.0
        %end = END %stored, %i
        SINK %end ["kernel"]
        """)
    compile_kernel(
        kernel, Context(options=IROptions(check="values"), target=Target.generic(cores=2))
    )
    assert capsys.readouterr().err == ""
    with pytest.raises(MiscompilationError, match=r"element 0 is .*4 of 10 differ"):
        compile_kernel(
            kernel,
            Context(
                passes=plant("lower", "type-indices", use_wrong_constant),
                options=IROptions(check="values"),
            ),
        )


@rule(node(Op.ADD, var("x", FLOAT), const("c"), name="sum"))
def put_constant_first(x: UOp, c: UOp, sum: UOp) -> UOp | None:
    """x + c -> c + x."""
    return UOp(Op.ADD, sum.dtype, (c, x)) if sum.src[0] is x else None


def test_a_rule_that_fired_before_the_violation_is_not_named() -> None:
    def run(graph: UOp) -> UOp:
        return graph_rewrite(
            RuleSet("broken", (add_without_an_operand,)),
            graph_rewrite(RuleSet("innocent", (put_constant_first,)), graph),
        )

    with pytest.raises(SpecError) as caught:
        compile_all(
            make_graph(),
            Context(passes=plant("optimize", "merge-loops", run), options=IROptions(check=True)),
        )
    assert caught.value.made_by == "add_without_an_operand of broken"


@rule(node(Op.REDUCE, var("x", FLOAT), name="total", has_more=True))
def reduce_product(x: UOp, total: UOp) -> UOp | None:
    """sum(x) -> sum(x * 1)."""
    return total.with_src((x * 1.0, *total.src[1:])) if x.op is not Op.MUL else None


def test_skipped_matches_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    x = make_reshape(buffer(1, 1 << 14), (2, 1 << 13))
    rules = RuleSet("products", (reduce_product,))
    table = plant("optimize", "merge-loops", lambda graph: graph_rewrite(rules, graph))
    (call,) = kernels_of(UOp.sink(make_reduce_axis(x, Op.ADD, (1,))))
    run_pipeline(
        "optimize", call.src[0], Context(passes=table, options=IROptions(check="values"), opts=())
    )
    assert (
        "not compared: 1 of 1 matches of rules in optimize of r_L2_R8192: too large"
        in capsys.readouterr().err
    )


def kernels_of(graph: UOp) -> list[UOp]:
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", graph, Context()), Context())
    return list(kernels.iter_ops(Op.CALL))


def test_where_an_expression_is_too_large_for_its_rule_the_pass_is_named() -> None:
    value = make_reshape(buffer(1, 12), (3, 4))
    for n in range(250):
        value = value + float(n % 3 - 1)
    table = plant("rangeify", "mark-results", lambda graph: graph_rewrite(WRONG, graph))
    with pytest.raises(MiscompilationError) as caught:
        run_pipeline(
            "rangeify",
            UOp.sink(value + 3.0),
            Context(passes=table, options=IROptions(check="values")),
        )
    assert caught.value.rule is None
    assert caught.value.pass_name == "rangeify:planted"


def test_a_graph_with_a_single_result_is_compared() -> None:
    value = make_reshape(buffer(1, 12), (3, 4)) + 1.0
    check = PassCheck("mine", has_values=True)
    assert check.run("kept", "graph", lambda graph: graph * 1.0, value) is value * 1.0
    with pytest.raises(
        SpecError, match="a pass keeps the dtype of results, float32, which became int32"
    ):
        check.run("cast", "graph", lambda graph: graph.cast(int32), value)
    with pytest.raises(MiscompilationError, match="in mine:negated, the pass changes"):
        check.run("negated", "graph", lambda graph: -graph, value)
