"""Sums at regular places, with any steps, sizes and offset: what reads them is the same as what
adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_dtype import bool_, float64, int16, int32
from svod_ir import (
    Op,
    UOp,
    make_expand,
    make_iota,
    make_reshape,
    make_scatter_add,
    make_shrink,
    verify,
)
from svod_ir.evaluate import evaluate
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import buffer
from svod_schedule.rangeify.gather_sums import gather_sums


def make_places(sizes: Sequence[int], steps: Sequence[int], offset: int) -> UOp:
    places = UOp.const(int32, offset)
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        number = make_reshape(
            make_iota(size, int32), [size if a == axis else 1 for a in range(len(sizes))]
        )
        places = make_expand(number, sizes) * step + places
    return places


@st.composite
def regular_sums(draw: st.DrawFn) -> UOp:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    steps = draw(st.lists(st.integers(-3, 4), min_size=len(sizes), max_size=len(sizes)))
    places = make_places(sizes, steps, draw(st.integers(-4, 6)))
    before, behind = draw(st.lists(st.just(2), max_size=1)), draw(st.lists(st.just(3), max_size=1))
    shape = (*before, *sizes, *behind)
    x = make_reshape(buffer(1, prod(shape), draw(st.sampled_from((bool_, int16, float64)))), shape)
    return make_scatter_add(x, places, len(before), draw(st.integers(1, 14)))


@settings(max_examples=count_examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(node=regular_sums())
def test_each_element_gathers_its_terms(node: UOp) -> None:
    check_same(UOp.sink(node))


def test_windows_of_any_stride_and_dilation_are_no_scatter() -> None:
    for stride in range(1, 5):
        for dilation in range(1, 4):
            x = make_reshape(buffer(1, 24, int16), (2, 4, 3))
            windows = make_scatter_add(
                x, make_places((4, 3), (stride, dilation), 0), 1, 3 * stride + 2 * dilation + 1
            )
            sink = UOp.sink(make_shrink(windows, ((0, 2), (1, 5))))
            check_same(sink)
            assert not any(gather_sums(sink).iter_ops(Op.SCATTER))


def check_same(sink: UOp) -> None:
    made = gather_sums(sink)
    verify(made, "graph")
    memory = next(iter(sink.iter_ops(Op.BUFFER)))
    data = {memory: (np.arange(memory.arg.size) % 97).astype(memory.dtype.numpy)}
    expected, found = evaluate(sink.src[0], data), evaluate(made.src[0], data)
    np.testing.assert_array_equal(found, expected)
