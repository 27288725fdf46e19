from __future__ import annotations

import math

import numpy as np
import pytest

from svod_ir import AxisError, OperandError, ShapeError
from svod_tensor import Tensor
from svod_testing import check, make_array


@pytest.fixture
def a(rng):
    return make_array(rng, (5, 12), "float32")


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_ERF = np.vectorize(math.erf)
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * (1 + _ERF(x / math.sqrt(2))) / 2,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": _sigmoid,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_agree_with_their_formulas(a, name):
    check(
        getattr(Tensor(a), name)(),
        ACTIVATIONS[name](a.astype(np.float64)).astype(np.float32),
        rtol=3e-6,
    )
    check(
        getattr(Tensor(a.astype(np.float16)), name)(),
        ACTIVATIONS[name](a.astype(np.float16).astype(np.float64)).astype(np.float16),
        rtol=4e-3,
    )


def test_gelu_has_an_exact_and_a_tanh_form(a):
    x = a.astype(np.float64)
    expected = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    check(Tensor(a).gelu("tanh"), expected.astype(np.float32), rtol=3e-6)
    with pytest.raises(OperandError, match="tanh"):
        Tensor(a).gelu("fast")


def test_activations_keep_nan_and_take_extremes():
    x = Tensor([np.nan, -1e4, 1e4])
    for name in ACTIVATIONS:
        values = getattr(x, name)().tolist()
        assert math.isnan(values[0]), name
        assert not math.isnan(values[1]), name
        assert not math.isnan(values[2]), name


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_sums_to_one_and_does_not_overflow(a, axis):
    wide = a.astype(np.float64) * 100
    power = np.exp(wide - wide.max(axis, keepdims=True))
    expected = power / power.sum(axis, keepdims=True)
    check(Tensor(a * 100).softmax(axis), expected.astype(np.float32), rtol=1e-4)
    check(
        Tensor(a * 100).log_softmax(axis),
        (wide - wide.max(axis, keepdims=True) - np.log(power.sum(axis, keepdims=True))).astype(
            np.float32
        ),
        rtol=1e-5,
    )


def test_normalizations_agree_with_their_formulas(rng, a):
    w, b = make_array(rng, (12,), "float32"), make_array(rng, (12,), "float32")
    x = a.astype(np.float64)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    check(Tensor(a).layernorm(), normal.astype(np.float32), rtol=1e-5)
    check(
        Tensor(a).layernorm(weight=Tensor(w), bias=Tensor(b)),
        (normal * w + b).astype(np.float32),
        rtol=1e-5,
    )
    check(
        Tensor(a).rms_norm(weight=Tensor(w)),
        (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w).astype(np.float32),
        rtol=1e-5,
    )
    images = make_array(rng, (2, 6, 3, 3), "float32")
    grouped = images.reshape(2, 3, -1).astype(np.float64)
    expected = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(
        grouped.var(-1, keepdims=True) + 1e-5
    )
    check(
        Tensor(images).group_norm(3), expected.reshape(images.shape).astype(np.float32), rtol=1e-5
    )
    mean, var = images.mean((0, 2, 3)), images.var((0, 2, 3))
    expected = (images - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    check(Tensor(images).batchnorm(Tensor(mean), Tensor(var)), expected, rtol=1e-4)
    with pytest.raises(
        ShapeError,
        match=r"group_norm: number of channels \(6\) must be divisible by the number of groups \(4\)",
    ):
        Tensor(images).group_norm(4)


def test_groups_of_an_empty_batch_are_empty():
    assert Tensor(np.zeros((0, 6, 2), np.float32)).group_norm(3).shape == (0, 6, 2)


def test_half_layernorm_has_float32_statistics():
    x = Tensor.full((2, 64), 1000.0, dtype="float16") + Tensor.arange(64).cast("float16")
    assert np.isfinite(x.layernorm().numpy()).all()
    assert x.layernorm().dtype.name == "float16"


def test_glu_halves_an_axis(a):
    check(Tensor(a).glu(), a[:, :6] * _sigmoid(a[:, 6:]), rtol=1e-5)
    with pytest.raises(ShapeError, match="glu: axis 0 must have an even size, got 3"):
        Tensor.zeros(3).glu()


def _attention(q, k, v, mask=None, bias=0.0):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]) + bias
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    peak = scores.max(-1, keepdims=True)
    power = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = power.sum(-1, keepdims=True)
    return (power / np.where(total == 0, 1, total)) @ v


def test_attention_agrees_with_its_formula(rng):
    q, k, v = (make_array(rng, (2, 3, n, 8), "float32") for n in (5, 7, 7))
    x, y, z = Tensor(q), Tensor(k), Tensor(v)
    mask = rng.integers(0, 2, (5, 7)).astype(bool)
    mask[2] = False
    bias = make_array(rng, (5, 7), "float32")
    check(x.scaled_dot_product_attention(y, z), _attention(q, k, v), rtol=1e-5)
    check(x.scaled_dot_product_attention(y, z, Tensor(mask)), _attention(q, k, v, mask), rtol=1e-5)
    check(
        x.scaled_dot_product_attention(y, z, Tensor(bias)),
        _attention(q, k, v, bias=bias),
        rtol=1e-5,
    )
    check(
        x.scaled_dot_product_attention(y, z, is_causal=True),
        _attention(q, k, v, np.tri(5, 7, dtype=bool)),
        rtol=1e-5,
    )


def test_a_query_with_all_keys_masked_gives_zeros(rng):
    q = Tensor(make_array(rng, (1, 2, 4), "float32"))
    out = q.scaled_dot_product_attention(q, q, Tensor([[False, False], [True, True]]))
    assert out[0, 0].tolist() == [0.0] * 4
    assert np.isfinite(out.numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_long_rows_agrees_with_numpy(dtype):
    x = np.random.default_rng(3).normal(size=(3, 50_257)).astype(dtype)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True)
    check(Tensor(x).softmax(-1), expected.astype(dtype), rtol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 1), ((0, 3), 0), ((0,), 0), ((0, 3), 1)])
def test_softmax_along_an_empty_axis_is_empty(shape, axis):
    x = np.zeros(shape, np.float32)
    check(Tensor(x).softmax(axis), x)
    check(Tensor(x).log_softmax(axis), x)
    with pytest.raises(AxisError):
        Tensor(x).softmax(2)


def test_batchnorm_needs_an_axis_of_channels():
    with pytest.raises(ShapeError, match="channels"):
        Tensor([1.0, 2.0]).batchnorm(Tensor([0.0]), Tensor([1.0]))
