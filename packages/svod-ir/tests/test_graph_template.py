"""Graph templates: a recorded graph, built over other inputs, is the graph of these inputs."""

from __future__ import annotations

from hypothesis import given, settings

from svod_dtype import float32, int32
from svod_ir import (
    Op,
    UOp,
    make_alu,
    make_cast,
    make_constant_like,
    make_permute,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.derivatives import make_traced
from svod_ir.graph_template import GraphTemplate
from svod_ir.ops import MEMORY
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import buffer
from svod_ir.testing.strategies import graphs


def _mean(x: UOp, y: UOp) -> UOp:
    total = make_reduce_axis(make_alu(Op.MUL, x, y), Op.ADD, (1,))
    return make_alu(Op.FDIV, total, make_constant_like(total, 3))


def _inputs(first: int) -> tuple[UOp, UOp]:
    return tuple(make_reshape(buffer(first + i, 6), (2, 3)) for i in range(2))


def test_a_graph_is_built_over_other_inputs() -> None:
    template = GraphTemplate.record([_mean(*_inputs(1))], _inputs(1))
    assert template is not None
    x, y = _inputs(3)
    assert template.build([x, y]) == [_mean(x, y)]
    assert template.build([y, x]) == [_mean(y, x)]
    assert template.build([x, x]) == [_mean(x, x)]


def test_the_roots_have_their_shape_and_placement_without_derivation() -> None:
    template = GraphTemplate.record([_mean(*_inputs(1))], _inputs(1))
    assert template is not None
    [root] = template.build(_inputs(5))
    assert (root.shape, root.placement) == ((2, 1), "CPU")
    fresh = _mean(*_inputs(7))
    assert (fresh.shape, fresh.placement) == ((2, 1), "CPU")


def test_several_roots_keep_their_order_and_share_nodes() -> None:
    x, y = _inputs(1)
    template = GraphTemplate.record([_mean(x, y), x, make_alu(Op.MUL, x, y)], [x, y])
    assert template is not None
    x, y = _inputs(3)
    mean, first, product = template.build([x, y])
    assert (mean, first, product) == (_mean(x, y), x, make_alu(Op.MUL, x, y))
    assert mean.src[0].source is product


def test_an_input_is_merged_with_its_reader_as_the_builder_functions_merge_it() -> None:
    opaque = make_traced(make_reshape(buffer(1, 6), (2, 3)))
    root = make_reshape(make_permute(make_reshape(opaque, (3, 2)), (1, 0)), (6,))
    template = GraphTemplate.record([root], [opaque])
    assert template is not None
    flat = buffer(2, 6)
    x = make_reshape(flat, (2, 3))
    assert template.build([x]) == [
        make_reshape(make_permute(make_reshape(flat, (3, 2)), (1, 0)), (6,))
    ]
    square = make_traced(make_reshape(buffer(1, 9), (3, 3)))
    template = GraphTemplate.record([make_permute(square, (1, 0))], [square])
    assert template is not None
    x = make_reshape(buffer(2, 9), (3, 3))
    assert template.build([make_permute(x, (1, 0))]) == [x]


def test_integer_constants_are_merged_with_those_of_an_input() -> None:
    opaque = make_traced(buffer(1, 4, int32))
    template = GraphTemplate.record([opaque + 2], [opaque])
    assert template is not None
    x = buffer(2, 4, int32)
    assert template.build([x + 3]) == [x + 5]


def test_memory_that_is_no_input_and_marks_with_an_identity_cannot_be_rebuilt() -> None:
    x, y = _inputs(1)
    assert GraphTemplate.record([_mean(x, y)], [x]) is None
    assert GraphTemplate.record([_mean(make_traced(x), y)], [x, y]) is None


@settings(max_examples=count_examples(100), deadline=None)
@given(graph=graphs())
def test_random_graphs_are_built_again(graph: UOp) -> None:
    """Over its own memory a graph is itself; over other memory it is the graph of that memory."""
    inputs = [node for node in graph.toposort() if node.op in MEMORY]
    template = GraphTemplate.record([graph], inputs)
    if template is None:
        assert any(node.op is Op.TRACED for node in graph.toposort())
        return
    assert template.build(inputs) == [graph]
    others = [make_traced(node) for node in inputs]
    replaced = graph.substitute(dict(zip(inputs, others, strict=True)))
    assert template.build(others) == [replaced]


def test_casts_of_inputs_are_recorded() -> None:
    x, _ = _inputs(1)
    template = GraphTemplate.record([make_cast(make_cast(x, int32), float32)], [x])
    assert template is not None
    y, _ = _inputs(3)
    assert template.build([y]) == [make_cast(make_cast(y, int32), float32)]
