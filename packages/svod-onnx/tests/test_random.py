"""Random operators: distributions, and calls with and without a seed."""

from __future__ import annotations

import numpy as np
import onnx.parser

import svod_onnx


def _load(node: str, inputs: str = "float[n] x") -> svod_onnx.Model:
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => (float[m] y) {{ y = {node} }}'
    )
    return svod_onnx.load(onnx.parser.parse_model(text))


def test_calls_differ_unless_the_node_has_a_seed() -> None:
    x = np.zeros(1000, np.float32)
    free, seeded = _load("RandomNormalLike(x)"), _load("RandomNormalLike<seed = 3.0>(x)")
    assert not np.array_equal(free(x=x)["y"].numpy().copy(), free(x=x)["y"].numpy())
    np.testing.assert_array_equal(seeded(x=x)["y"].numpy().copy(), seeded(x=x)["y"].numpy())


def test_samples_have_the_requested_moments_and_limits() -> None:
    x = np.zeros(20000, np.float32)
    normal = _load("RandomNormalLike<mean = 3.0, scale = 2.0, seed = 1.0>(x)")(x=x)["y"].numpy()
    assert abs(normal.mean() - 3) < 0.1
    assert abs(normal.std() - 2) < 0.1
    uniform = _load("RandomUniformLike<low = -1.0, high = 4.0, seed = 1.0>(x)")(x=x)["y"].numpy()
    assert -1 <= uniform.min() < -0.99
    assert 3.99 < uniform.max() <= 4


def test_bernoulli_probabilities() -> None:
    x = np.repeat(np.array([0.0, 0.25, 1.0], np.float32), 10000)
    samples = _load("Bernoulli<seed = 2.0>(x)")(x=x)["y"].numpy().reshape(3, -1)
    assert set(np.unique(samples)) == {0.0, 1.0}
    np.testing.assert_allclose(samples.mean(1), [0, 0.25, 1], atol=0.02)


def test_multinomial_frequencies() -> None:
    probabilities = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    with np.errstate(divide="ignore"):
        logarithms = np.log(probabilities).astype(np.float32)
    model = _load("Multinomial<sample_size = 20000, seed = 5.0>(x)", "float[n, c] x")
    samples = model(x=logarithms)["y"].numpy()
    assert samples.dtype == np.int32
    result = np.stack([(samples == kind).mean(1) for kind in range(3)], 1)
    np.testing.assert_allclose(result, probabilities, atol=0.02)
