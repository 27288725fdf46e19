"""What graphs have in common that differ in sizes alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_tensor import Tensor
from svod_tensor.engine.build import build
from svod_tensor.engine.graph_outlines import GraphOutline, find_outline, resize


def outline_of(compute: Callable[[Tensor], Tensor], *shape: int) -> GraphOutline | None:
    return find_outline(sink_of(compute, *shape))


def sink_of(compute: Callable[[Tensor], Tensor], *shape: int) -> UOp:
    return build([compute(Tensor(np.ones(shape, np.float32))).uop]).sink


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * 2 + 1,
        lambda x: x.mean(0),
        lambda x: x.mean(1),
        lambda x: x.std(0, correction=1),
        lambda x: x.softmax(0),
        lambda x: x[1:, 2:].flip(1),
        lambda x: x.pad(((1, 2), (0, 3))),
        lambda x: x.reshape(-1).sum(),
        lambda x: x.argmax(0),
        lambda x: x.permute(1, 0) + 1,
        lambda x: (x > 0).where(x, 0),
    ],
)
def test_graphs_that_differ_in_sizes_have_one_outline(compute: Callable[[Tensor], Tensor]) -> None:
    one, other = outline_of(compute, 7, 64), outline_of(compute, 12, 48)
    assert one is not None
    assert other is not None
    assert one.key == other.key
    assert one.sizes != other.sizes


def test_sizes_of_1_and_constants_unrelated_to_sizes_are_in_the_outline() -> None:
    outlines = [
        outline_of(lambda x: x + 1, 7, 1),
        outline_of(lambda x: x + 1, 1, 7),
        outline_of(lambda x: x + 1, 7, 7),
        outline_of(lambda x: x + 2, 7, 7),
        outline_of(lambda x: x * 1, 7, 7),
        outline_of(lambda x: x.sum(0) / 3, 7, 7),
        outline_of(lambda x: x.sum(0) / 7, 7, 7),
    ]
    assert len({outline and outline.key for outline in outlines}) == len(outlines)
    assert outline_of(lambda x: x.sum(0) / 7, 7, 7) == outline_of(lambda x: x.mean(0), 7, 7)


def test_aliased_inputs_have_another_outline_than_distinct_inputs() -> None:
    y = Tensor(np.ones(7, np.float32))
    assert outline_of(lambda x: x + x, 7) != outline_of(lambda x: x + y, 7)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x @ x.permute(1, 0),
        lambda x: x.sort(0),
        lambda x: x.cumsum(0),
        lambda x: x[Tensor(np.array([1, 0], np.int32))],
    ],
)
def test_products_scans_and_gathers_have_no_outline(compute: Callable[[Tensor], Tensor]) -> None:
    assert outline_of(compute, 7, 64) is None


def test_a_divisor_equal_to_a_length_follows_the_length() -> None:
    sink = sink_of(lambda x: x.mean(0), 7, 64)
    outline = find_outline(sink)
    assert outline is not None
    n = UOp.variable("n", 2, 16)
    resized = resize(sink, [{448: n * 64, 7: n}.get(number, number) for number in outline.sizes])
    assert resized is not None
    (quotient,) = resized.iter_ops(Op.FDIV)
    assert quotient.src[1] is UOp(Op.CAST, quotient.dtype, (n,))
    assert {param.arg.size for param in resized.iter_ops(Op.PARAM)} == {16 * 64}


def test_sizes_that_do_not_fit_together_give_no_graph() -> None:
    n, m = (UOp.variable(name, 2, 16) for name in "nm")
    added = sink_of(lambda x: x.reshape(21) + Tensor(np.ones(21, np.float32)), 3, 7)
    outline = find_outline(added)
    assert outline is not None
    assert resize(added, [n if place else m for place in range(len(outline.sizes))]) is None
    tail = sink_of(lambda x: x[2:], 7)
    outline = find_outline(tail)
    assert outline is not None
    assert sorted(outline.sizes) == [2, 7, 7]
    assert resize(tail, [m if number == 2 else n for number in outline.sizes]) is None
