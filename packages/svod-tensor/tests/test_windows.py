from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor, Variable, vjp
from svod_testing import check, make_array


def conv(x, w, stride=1, padding=0, dilation=1, groups=1):
    n = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0)] * 2 + [(padding, padding)] * n)
    spans = tuple(dilation * (k - 1) + 1 for k in w.shape[2:])
    view = sliding_window_view(x, spans, tuple(range(2, 2 + n)))
    view = view[
        (
            slice(None),
            slice(None),
            *(slice(None, None, stride),) * n,
            *(slice(None, None, dilation),) * n,
        )
    ]
    parts = []
    for g in range(groups):
        c, o = w.shape[1], w.shape[0] // groups
        letters = "xyz"[:n], "ijk"[:n]
        parts.append(
            np.einsum(
                f"bc{letters[0]}{letters[1]},oc{letters[1]}->bo{letters[0]}",
                view[:, g * c : (g + 1) * c],
                w[g * o : (g + 1) * o],
            )
        )
    return np.concatenate(parts, 1).astype(np.float32)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 3, 8, 9), (4, 3, 3, 3), {}),
        ((2, 3, 8, 9), (4, 3, 3, 2), {"stride": 2, "padding": 1}),
        ((1, 4, 10, 10), (6, 2, 3, 3), {"groups": 2, "dilation": 2}),
        ((2, 4, 7, 7), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
        ((2, 3, 11), (5, 3, 4), {"stride": 3}),
        ((1, 2, 5, 5, 5), (3, 2, 2, 2, 2), {}),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ],
)
def test_convolutions_agree_with_their_definition(rng, x, w, options):
    a, b = make_array(rng, x, "float32"), make_array(rng, w, "float32")
    check(Tensor(a).conv2d(Tensor(b), **options), conv(a, b, **options), rtol=1e-4)


def conv_transpose(x, w, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """Every element adds its multiple of the filters where they lie."""
    n, sizes, kernel = w.ndim - 2, x.shape[2:], w.shape[2:]
    outputs, channels = w.shape[1] * groups, x.shape[1] // groups
    whole = [
        (s - 1) * stride + dilation * (k - 1) + 1 + output_padding
        for s, k in zip(sizes, kernel, strict=True)
    ]
    result = np.zeros((x.shape[0], outputs, *whole))
    for at in np.ndindex(*sizes):
        places = tuple(
            slice(a * stride, a * stride + dilation * (k - 1) + 1, dilation)
            for a, k in zip(at, kernel, strict=True)
        )
        for g in range(groups):
            taken = slice(g * channels, (g + 1) * channels)
            filters = np.tensordot(x[:, taken][(..., *at)].astype(np.float64), w[taken], 1)
            result[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *places)] += filters
    inside = tuple(slice(padding, s - padding) for s in whole)
    return result[(slice(None), slice(None), *inside[:n])].astype(np.float32)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 3, 5, 4), (3, 4, 3, 3), {}),
        ((2, 3, 5, 4), (3, 4, 4, 4), {"stride": 2, "padding": 1}),
        ((1, 3, 5, 4), (3, 2, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 4, 4, 3), (4, 3, 3, 2), {"stride": 3, "groups": 2}),
        ((2, 3, 6), (3, 2, 2), {"stride": 3}),
        ((2, 3, 6), (3, 2, 5), {"stride": 2, "dilation": 2, "padding": 3}),
        ((2, 3, 6), (3, 2, 4), {"stride": 4, "dilation": 6, "padding": 2, "output_padding": 3}),
        ((1, 2, 3, 2, 2), (2, 2, 2, 2, 2), {"stride": 2}),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ],
)
def test_transposed_convolutions_agree_with_their_definition(rng, x, w, options):
    a, b = make_array(rng, x, "float32"), make_array(rng, w, "float32")
    check(
        Tensor(a).conv_transpose2d(Tensor(b), **options), conv_transpose(a, b, **options), rtol=1e-4
    )


def test_a_transposed_convolution_adds_its_bias_and_multiplies_no_zeros(rng):
    a, w, b = (make_array(rng, shape, "float32") for shape in ((1, 8, 6, 6), (8, 4, 4, 4), (4,)))
    y = Tensor(a).conv_transpose2d(Tensor(w), Tensor(b), stride=2, padding=1)
    n_operations = sum(profile.n_operations for profile in y.prepare().execute_profiled())
    check(y, conv_transpose(a, w, 2, 1) + b[:, None, None], rtol=1e-4)
    assert n_operations < 1.5 * 2 * a.size * w.shape[1] * 4 * 4


def test_one_plan_of_a_transposed_convolution_serves_all_lengths(rng):
    n = Variable("n", 2, 9)
    a, w = make_array(rng, (1, 3, 9), "float32"), make_array(rng, (3, 2, 4), "float32")
    y = Tensor(a)[:, :, : n.bind(4)].conv_transpose2d(Tensor(w), stride=2, padding=1)
    plan = y.prepare()
    for length in (2, 5, 9):
        plan.execute_with_vars({"n": length})
        check(y, conv_transpose(a[:, :, :length], w, 2, 1), rtol=1e-4)


def test_transposed_convolutions_check_their_shapes():
    x = Tensor.zeros(1, 4, 5, 5)
    for weight, problem in (((4, 3, 3), "spatial axes"), ((3, 4, 3, 3), "input channels, and")):
        with pytest.raises(ShapeError, match=problem):
            x.conv_transpose2d(Tensor.zeros(*weight))
    with pytest.raises(ShapeError, match="conv_transpose2d: the output would have size -1"):
        Tensor.zeros(1, 1, 1).conv_transpose2d(Tensor.zeros(1, 1, 1), padding=1)
    with pytest.raises(
        OperandError, match="conv_transpose2d: expected 2 integers >= 0 as output_padding,"
    ):
        x.conv_transpose2d(Tensor.zeros(4, 1, 1, 1), output_padding=-1)


def test_a_bias_is_added_for_each_output_channel(rng):
    a, w, b = (
        make_array(rng, (1, 2, 4, 4), "float32"),
        make_array(rng, (3, 2, 3, 3), "float32"),
        make_array(rng, (3,), "float32"),
    )
    check(Tensor(a).conv2d(Tensor(w), Tensor(b)), conv(a, w) + b[:, None, None], rtol=1e-4)


def test_convolutions_check_their_shapes():
    x = Tensor.zeros(1, 4, 5, 5)
    for weight, problem in (
        ((3, 4, 3), "spatial axes"),
        ((3, 3, 3, 3), "input channels, and"),
        ((3, 4, 6, 6), "conv2d: window of size 6 is larger than the padded axis of"),
    ):
        with pytest.raises(ShapeError, match=problem):
            x.conv2d(Tensor.zeros(*weight))
    with pytest.raises(
        OperandError, match=r"conv2d: expected 2 integers >= 1 as stride, got \(0, 0\)"
    ):
        x.conv2d(Tensor.zeros(1, 4, 1, 1), stride=0)


@pytest.mark.parametrize("block", [8, 16, 24, 32])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize(
    ("x", "window", "options"),
    [
        ((1, 5, 14, 14), (3, 3), {"padding": 1}),
        ((2, 16, 7, 7), (1, 1), {}),
        ((1, 3, 21, 40), (3, 5), {"stride": 2, "padding": 2}),
        ((2, 7, 50), (3,), {"padding": 1}),
    ],
)
def test_convolutions_with_filters_in_blocks_agree_with_their_definition(
    rng, block, dtype, x, window, options
):
    a, w = make_array(rng, x, dtype), make_array(rng, (96, x[1], *window), dtype)
    bias = make_array(rng, (96,), dtype)
    blocks = np.ascontiguousarray(w.reshape(-1, block, w[0].size).swapaxes(1, 2))
    filters = Tensor(blocks).realize().transpose(1, 2).reshape(w.shape)
    found = Tensor(a).conv2d(filters, Tensor(bias), **options).relu()
    expected = conv(a, w, **options) + bias.reshape(1, -1, *(1,) * len(window)).astype(np.float32)
    check(found, np.maximum(expected, 0).astype(dtype), rtol=1e-2 if dtype == "float16" else 1e-4)
    # The padded image is the only copy.
    again = Tensor(a).conv2d(filters, Tensor(bias), **options).relu()
    assert again.prepare().num_kernels == 1 + ("padding" in options)


def test_a_bias_of_a_convolution_in_groups_is_added_in_its_kernel(rng):
    x, w = make_array(rng, (1, 8, 9, 9), "float32"), make_array(rng, (12, 4, 3, 3), "float32")
    bias = make_array(rng, (12,), "float32")
    found, again = (Tensor(x).conv2d(Tensor(w), Tensor(bias), groups=2).relu() for _ in range(2))
    check(found, np.maximum(conv(x, w, groups=2) + bias.reshape(1, -1, 1, 1), 0), rtol=1e-4)
    assert again.prepare().num_kernels == 1


def test_a_convolution_is_one_kernel_after_its_image_was_padded():
    x, w = Tensor(np.ones((1, 3, 16, 16), np.float32)), Tensor(np.ones((8, 3, 3, 3), np.float32))
    assert len(x.conv2d(w).relu().prepare().kernels()) == 1
    # Eight filters would check the borders again and again.
    assert len(x.conv2d(w, padding=1).relu().prepare().kernels()) == 2
    # A window that is looked at once does not need the copy.
    assert len(x.max_pool2d(3, padding=1).prepare().kernels()) == 1


@pytest.mark.parametrize("stride", [1, 2])
def test_overlapping_windows_read_a_padded_image_in_memory(rng, stride):
    x, w = make_array(rng, (1, 8, 14, 14), "float32"), make_array(rng, (8, 1, 3, 3), "float32")
    found = Tensor(x).conv2d(Tensor(w), stride=stride, padding=1, groups=8)
    check(found, conv(x, w, stride=stride, padding=1, groups=8), rtol=1e-5)
    found = Tensor(x).conv2d(Tensor(w), stride=stride, padding=1, groups=8)
    pooled = Tensor(x).max_pool2d(3, stride=stride, padding=1)
    assert (found.prepare().num_kernels, pooled.prepare().num_kernels) == (2, 2)


def test_disjoint_windows_need_no_copy(rng):
    x = Tensor(make_array(rng, (1, 8, 14, 14), "float32"))
    assert x.max_pool2d(2, padding=1).prepare().num_kernels == 1
    assert x.conv2d(Tensor(make_array(rng, (4, 8, 1, 1), "float32"))).prepare().num_kernels == 1


@pytest.mark.parametrize(
    ("size", "stride", "dilation"),
    [((4, 4), 1, 1), ((5, 6), 2, 1), ((4, 5), (1, 2), (2, 1)), ((3, 2, 3), 1, 1)],
)
def test_padded_convolutions_and_gradients_agree_with_explicit_zero_padding(
    size: tuple[int, ...], stride: int | tuple[int, ...], dilation: int | tuple[int, ...]
) -> None:
    rng, n = np.random.default_rng(0), len(size)
    x = Tensor(rng.standard_normal((2, 16, *size), dtype=np.float32)).realize()
    w = Tensor(rng.standard_normal((32, 16, *(3,) * n), dtype=np.float32)).realize()
    stored = x.pad((0, 0), (0, 0), *((1, 1),) * n).realize()
    with_padding, pull = vjp(
        lambda x, w: x.conv2d(w, stride=stride, padding=1, dilation=dilation), x, w
    )
    with_zeros, pull_zeros = vjp(
        lambda x, w: x.conv2d(w, stride=stride, dilation=dilation), stored, w
    )
    np.testing.assert_allclose(with_padding.numpy(), with_zeros.numpy(), rtol=1e-4, atol=1e-4)
    cotangent = Tensor(rng.standard_normal(with_padding.shape, dtype=np.float32)).realize()
    by_x, by_w = pull(cotangent)
    by_stored, by_same = pull_zeros(cotangent)
    inner = (slice(None), slice(None), *(slice(1, -1),) * n)
    np.testing.assert_allclose(by_x.numpy(), by_stored.numpy()[inner], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_w.numpy(), by_same.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("stride", "pads"), [(1, [(1, 2), (0, 1)]), ((2, 1), [(0, 3), 1]), (2, [(2, 0), (1, 1)])]
)
def test_a_convolution_takes_asymmetric_padding(rng, stride, pads):
    a, w = make_array(rng, (2, 4, 6, 5), "float32"), make_array(rng, (6, 2, 3, 2), "float32")
    wide = np.pad(a, [(0, 0), (0, 0), *(p if isinstance(p, tuple) else (p, p) for p in pads)])
    expected = Tensor(wide).conv2d(Tensor(w), stride=stride, groups=2).numpy()
    check(Tensor(a).conv2d(Tensor(w), stride=stride, padding=pads, groups=2), expected, rtol=1e-5)
    with pytest.raises(
        OperandError, match="conv2d: expected 2 non-negative integers or pairs of them as"
    ):
        Tensor(a).conv2d(Tensor(w), padding=[(1, 2, 3), 0], groups=2)


def list_columns(a, kernel, stride, pads, dilation):
    """The windows of an array of shape (batch, channels, *sizes), one after the other."""
    a = np.pad(a, [(0, 0), (0, 0), *pads])
    counts = [
        (s - d * (k - 1) - 1) // t + 1
        for s, k, t, d in zip(a.shape[2:], kernel, stride, dilation, strict=True)
    ]
    columns = [
        a[
            (
                ...,
                *(
                    slice(o * t, o * t + d * (k - 1) + 1, d)
                    for o, t, d, k in zip(at, stride, dilation, kernel, strict=True)
                ),
            )
        ]
        for at in np.ndindex(*counts)
    ]
    return np.stack([c.reshape(len(a), -1) for c in columns], -1)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pads", "dilation"),
    [
        ((2, 3, 6, 5), (2, 3), (1, 2), ((1, 0), (2, 1)), (2, 1)),
        ((2, 3, 7), (3,), (3,), ((0, 2),), (1,)),
        ((1, 2, 4, 3, 5), (2, 2, 3), (1, 1, 2), ((0, 0), (1, 1), (0, 1)), (1, 2, 1)),
    ],
)
def test_unfold_and_fold_agree_with_their_definition(rng, shape, kernel, stride, pads, dilation):
    a, options = (
        make_array(rng, shape, "float64"),
        {"stride": stride, "padding": pads, "dilation": dilation},
    )
    columns = list_columns(a, kernel, stride, pads, dilation)
    check(Tensor(a).unfold(kernel, **options), columns)
    check(Tensor(a[0]).unfold(kernel, **options), columns[0])
    # Folding is the transpose: <unfold(a), b> = <a, fold(b)>.
    b = make_array(rng, columns.shape, "float64")
    folded = Tensor(b).fold(shape[2:], kernel, **options)
    assert folded.shape == shape
    assert np.vdot(folded.numpy(), a) == pytest.approx(np.vdot(columns, b))
    number = make_array(rng, shape, "int32")
    check(
        Tensor(number).unfold(kernel, **options),
        list_columns(number, kernel, stride, pads, dilation),
    )


def test_windows_as_columns_of_a_batch_whose_size_is_not_known(rng):
    n, a = Variable("n", 1, 4), make_array(rng, (4, 2, 5, 4), "float64")
    y = Tensor(a)[: n.bind(2)].unfold(2).mul(2).fold((5, 4), 2)
    plan = y.prepare()
    for size in (1, 4):
        plan.execute_with_vars({"n": size})
        check(y, Tensor(a[:size] * 2).unfold(2).fold((5, 4), 2).numpy())


def test_invalid_windows_are_errors():
    with pytest.raises(
        ShapeError, match="unfold: expected an input with channels and 2 spatial axes,"
    ):
        Tensor.zeros(4, 4).unfold((2, 2))
    with pytest.raises(
        ShapeError, match=r"fold: expected an input of shape \(\.\.\., channels \* 4, 3 \* 3\)"
    ):
        Tensor.zeros(1, 8, 8).fold((4, 4), 2)
    with pytest.raises(ShapeError, match=r"windows of \(4, 4\)"):
        Tensor.zeros(9).fold((4, 4), 2)
    with pytest.raises(ShapeError, match=r"windows of \(1, 1\)"):
        Tensor.zeros(4, 1).fold((1, 1), 2)
