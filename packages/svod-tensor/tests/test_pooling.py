from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor, Variable
from svod_testing import check, make_array


def test_pooling_agrees_with_its_definition(rng):
    a = make_array(rng, (2, 3, 8, 10), "float32")
    blocks = a.reshape(2, 3, 4, 2, 5, 2)
    check(Tensor(a).max_pool2d(), blocks.max((3, 5)))
    check(Tensor(a).avg_pool2d(), blocks.mean((3, 5)), rtol=1e-5)
    view = sliding_window_view(
        np.pad(a, [(0, 0)] * 2 + [(1, 1)] * 2, constant_values=-np.inf), (3, 3), (2, 3)
    )[:, :, ::2, ::2]
    check(Tensor(a).max_pool2d(3, stride=2, padding=1), view.max((-1, -2)))
    counted = sliding_window_view(np.pad(a, [(0, 0)] * 2 + [(1, 1)] * 2), (3, 3), (2, 3))[
        :, :, ::2, ::2
    ]
    check(Tensor(a).avg_pool2d(3, stride=2, padding=1), counted.mean((-1, -2)), rtol=1e-5)
    finite = np.isfinite(view)
    check(
        Tensor(a).avg_pool2d(3, stride=2, padding=1, count_include_pad=False),
        (counted.sum((-1, -2)) / finite.sum((-1, -2))).astype(np.float32),
        rtol=1e-5,
    )
    check(
        Tensor(a.astype(np.int8)).max_pool2d((1, 2)),
        a.astype(np.int8).reshape(2, 3, 8, 5, 2).max(-1),
    )


def iter_windows(a, kernel, stride, pads, dilation, ceil_mode):
    """For each window its place, and the positions in `a`, of shape (height, width), that it has;
    outside of it too.
    """
    ranges = []
    for size, k, s, (before, after), d in zip(a.shape, kernel, stride, pads, dilation, strict=True):
        span, total = d * (k - 1) + 1, size + before + after
        count = (total - span + (s - 1) * ceil_mode) // s + 1
        # A window must begin in the axis, or in front of it.
        count -= ceil_mode and (count - 1) * s >= size + before
        ranges.append([[o * s - before + d * j for j in range(k)] for o in range(count)])
    yield tuple(map(len, ranges))
    for at in np.ndindex(*map(len, ranges)):
        yield at, list(product(*(r[i] for r, i in zip(ranges, at, strict=True))))


OPTIONS = [
    ((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), True),
    ((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), True),
    ((2, 3), (3, 2), ((0, 1), (2, 0)), (1, 1), False),
    ((3, 2), (2, 3), ((2, 0), (0, 1)), (2, 1), True),
    ((1, 2), (2, 2), ((0, 0), (1, 1)), (1, 1), True),
    ((4, 3), (5, 4), ((2, 2), (1, 1)), (1, 2), True),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_ceil_mode_and_indices_of_maxima(rng, options):
    a = make_array(rng, (9, 7), "float64")
    (shape, *windows) = iter_windows(a, *options)
    inside = {at: [p for p in places if 0 <= p[0] < 9 and 0 <= p[1] < 7] for at, places in windows}
    largest, indices, mean, whole = (np.zeros((1, 1, *shape)) for _ in range(4))
    for at, found in inside.items():
        best = max(found, key=lambda p: a[p])
        largest[(0, 0, *at)], indices[(0, 0, *at)] = a[best], best[0] * 7 + best[1]
        mean[(0, 0, *at)] = np.mean([a[p] for p in found])
        padded = [
            p
            for p in dict(windows)[at]
            if all(
                -b <= i < size + e for i, size, (b, e) in zip(p, a.shape, options[2], strict=True)
            )
        ]
        whole[(0, 0, *at)] = sum(a[p] for p in found) / len(padded)
    x = Tensor(a[None, None])
    kernel, stride, pads, dilation, ceil_mode = options
    named = {"stride": stride, "padding": pads, "dilation": dilation, "ceil_mode": ceil_mode}
    values, places = x.max_pool2d(kernel, **named, return_indices=True)
    check(values, largest)
    check(places, indices.astype(np.int64))
    check(x.max_pool2d(kernel, **named), largest)
    check(x.avg_pool2d(kernel, **named, count_include_pad=False), mean)
    check(x.avg_pool2d(kernel, **named), whole)


def test_the_first_of_equal_elements_and_of_nans_is_where_the_largest_is():
    nan, low = float("nan"), float("-inf")
    x = Tensor([[[2.0, 2.0, nan, nan, low, low]]])
    values, places = x.max_pool2d(2, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), [[[2.0, nan, low]]])
    assert places.tolist() == [[[0, 2, 4]]]
    assert x.max_pool2d(1, padding=[(1, 1)], return_indices=True)[1].tolist() == [
        [[-1, 0, 1, 2, 3, 4, 5, -1]]
    ]
    least = np.iinfo(np.int8).min
    assert Tensor(np.array([[[least, least]]], np.int8)).max_pool2d(
        2, padding=1, return_indices=True
    )[1].tolist() == [[[0, 1]]]


def test_norms_of_windows_agree_with_their_formula(rng):
    a = make_array(rng, (2, 3, 8, 10), "float64")
    blocks = np.abs(a.reshape(2, 3, 4, 2, 5, 2))
    check(Tensor(a).lp_pool2d(), np.sqrt((blocks**2).sum((3, 5))))
    check(Tensor(a).lp_pool2d(3), (blocks**3).sum((3, 5)) ** (1 / 3))
    check(Tensor(a).lp_pool2d(np.inf), blocks.max((3, 5)))
    check(Tensor(a[:, :, :7]).lp_pool2d(1, ceil_mode=True)[:, :, 3], blocks[:, :, 3, 0].sum(-1))


def test_max_unpool_scatters_maxima_to_their_indices(rng):
    a = make_array(rng, (2, 3, 7, 9), "float32")
    values, places = Tensor(a).max_pool2d(2, return_indices=True)
    expected = np.zeros((2, 3, 63), np.float32)
    np.put_along_axis(
        expected, places.numpy().reshape(2, 3, -1), values.numpy().reshape(2, 3, -1), -1
    )
    check(values.max_unpool2d(places, size=(7, 9)), expected.reshape(a.shape))
    assert values.max_unpool2d(places).shape == (2, 3, 6, 8)
    assert Tensor([[[5.0, 6.0]]]).max_unpool2d(Tensor([[[-1, 7]]]), 2).tolist() == [[[0.0] * 4]]
    with pytest.raises(
        OperandError, match=r"max_unpool2d: expected integer indices of shape \(2, 3, 3, 4\),"
    ):
        values.max_unpool2d(places.cast("float32"))
    with pytest.raises(
        ShapeError, match=r"max_unpool2d: expected 2 positive output sizes, got \(7,\)"
    ):
        values.max_unpool2d(places, size=(7,))


def test_one_plan_with_ceil_mode_serves_all_lengths(rng):
    n, a = Variable("n", 3, 9), make_array(rng, (1, 2, 9), "float64")
    options = {"stride": 2, "padding": [(1, 0)], "ceil_mode": True}
    x = Tensor(a)[:, :, : n.bind(4)]
    values, places = x.max_pool2d(3, **options, return_indices=True)
    means = x.avg_pool2d(3, **options)
    plan = Tensor.prepare_batch([values, places, means])
    for length in (3, 4, 9):
        plan.execute_with_vars({"n": length})
        y = Tensor(a[:, :, :length])
        expected, found = y.max_pool2d(3, **options, return_indices=True)
        check(values, expected.numpy())
        check(places, found.numpy())
        check(means, y.avg_pool2d(3, **options).numpy())


def test_windows_larger_than_the_input_are_errors():
    x = Tensor.zeros(1, 1, 4)
    with pytest.raises(
        ShapeError, match="max_pool2d: window of size 6 is larger than the padded axis"
    ):
        x.max_pool2d(6, stride=1, ceil_mode=True)
    for padding in (-1, [(1, -1)], [(1, 2, 3)], [1, 1]):
        with pytest.raises(OperandError, match="avg_pool2d: expected 1"):
            x.avg_pool2d(2, padding=padding)


def test_windows_that_end_before_the_padding_count_their_elements() -> None:
    x = Tensor([[[0.0, 1.0, 2.0, 3.0]]])
    assert x.avg_pool2d(2, stride=2, padding=[(0, 1)], ceil_mode=True).tolist() == [[[0.5, 2.5]]]
    found = x.avg_pool2d(3, stride=2, padding=[(1, 2)], ceil_mode=True, count_include_pad=False)
    assert found.tolist() == [[[0.5, 2.0, 3.0]]]


@pytest.mark.parametrize(
    ("kernel", "padding", "dilation"), [(2, 2, 1), (3, 2, 1), ((2, 4), (1, 3), 1), (2, 3, 4)]
)
def test_padding_of_more_than_half_a_window_is_an_error(kernel, padding, dilation):
    x = Tensor(np.ones((1, 1, 12, 12), np.float32))
    for pool in (x.max_pool2d, x.avg_pool2d):
        with pytest.raises(
            OperandError, match="_pool2d: expected padding of at most half of the window"
        ):
            pool(kernel, padding=padding, dilation=dilation)
    assert x.max_pool2d(2, padding=[(2, 2), (0, 0)]).shape == (1, 1, 8, 6)
