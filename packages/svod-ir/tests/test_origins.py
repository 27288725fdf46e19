"""Origins of nodes: weak labels beside the graph, propagated through rewrites."""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterator

import pytest

from svod_dtype import float32, int32
from svod_ir import UOp
from svod_ir.args import BufferArg
from svod_ir.build import make_expand, make_reshape
from svod_ir.ops import Op
from svod_ir.origins import (
    Origin,
    add_origin,
    clear_origins,
    format_origins,
    get_labels,
    get_origins,
    has_origins,
    make_images,
    needs_origin,
    propagate_labels,
    record_labels,
)

FIRST = Origin("/home/me/model.py", 3, "forward", "add")
SECOND = Origin("/home/me/model.py", 4, "forward", "mul", "encoder.layer0")


@pytest.fixture(autouse=True)
def _no_origins() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    clear_origins()
    yield
    clear_origins()


def buffer(number: int = 1) -> UOp:
    return UOp(Op.BUFFER, float32, (), BufferArg(number, 4, "CPU"))


def test_add_origin_labels_nodes_without_an_origin():
    inner = buffer() + 1
    add_origin(inner, FIRST)
    outer = (inner * 2) * 3
    add_origin(outer, SECOND)
    assert get_origins(inner) == {FIRST}
    assert get_origins(outer) == get_origins(outer.src[0]) == {SECOND}


def test_leaves_and_reshaped_memory_have_no_origin():
    x = make_reshape(buffer(), (2, 2))
    add_origin(x, FIRST)
    y = x + make_expand(make_reshape(UOp.const(float32, 1.0), (1, 1)), (2, 2))
    add_origin(y, SECOND)
    assert not needs_origin(x)
    assert get_origins(x) == get_origins(x.src[0]) == frozenset()
    assert get_origins(y) == {SECOND}


def test_an_unknown_origin_stays_unknown():
    older = buffer() + 1
    add_origin(older, None)
    newer = older * 2
    add_origin(newer, FIRST)
    assert not needs_origin(older)
    assert get_origins(older) == frozenset()
    assert get_origins(newer) == {FIRST}


def test_substitution_propagates_origins():
    x, y = buffer(1), buffer(2)
    inner = x + 1
    add_origin(inner, FIRST)
    outer = inner * 2
    add_origin(outer, SECOND)
    changed = outer.substitute({x: y})
    assert get_origins(changed) == {SECOND}
    assert get_origins(changed.src[0]) == {FIRST}


def test_labels_end_with_their_nodes():
    node = buffer(77) + 1
    assert needs_origin(node)
    add_origin(node, FIRST)
    assert has_origins()
    del node
    gc.collect()
    assert not has_origins()


def test_images_are_plain_dicts_without_labels():
    assert type(make_images()) is dict
    with record_labels({}):
        assert type(make_images()) is not dict


def test_images_get_the_labels_of_their_node():
    node, kept = buffer() + 1, buffer(2) + 1
    with record_labels({node: frozenset((1,)), kept: frozenset((2,))}):
        images = make_images()
        images[node] = built = (kept * 2) + 5
        assert get_labels(built) == get_labels(built.src[0]) == {1}
        assert get_labels(kept) == {2}
        assert images == {node: built}
    assert get_labels(built) == frozenset()
    assert not has_origins()


def test_an_image_of_several_nodes_gets_all_their_labels():
    nodes = [buffer(number) + 1 for number in range(3)]
    labels: dict[UOp, frozenset[Hashable]] = {node: frozenset((i,)) for i, node in enumerate(nodes)}
    built, bare = nodes[0] + nodes[1], buffer(9) * 2
    with record_labels(labels):
        propagate_labels(built, nodes)
        propagate_labels(built, nodes[:1])
        propagate_labels(bare, (buffer(8),))
        assert get_labels(built) == {0, 1, 2}
        assert bare not in labels
    propagate_labels(bare, nodes)
    assert needs_origin(bare)


def test_bodies_of_calls_are_graphs_of_their_own():
    body = UOp.variable("n", 0, 3, int32) + 1
    call = UOp(Op.CALL, src=(UOp.sink(body), buffer()))
    labels: dict[UOp, frozenset[Hashable]] = {}
    with record_labels(labels):
        images = make_images()
        labels[body] = frozenset((0,))
        images[body] = call
    assert set(labels) == {body, call}


def test_origins_are_named_by_file_line_and_operation():
    assert str(FIRST) == "model.py:3 add"
    assert format_origins([FIRST]) == "model.py:3 add"
    assert format_origins([FIRST, SECOND, FIRST]) == "model.py:3 add (+1 more)"
    assert format_origins([FIRST, SECOND], max_shown=4) == "model.py:3 add, model.py:4 mul"
