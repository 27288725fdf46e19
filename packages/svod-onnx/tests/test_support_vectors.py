"""Support vector machines (ai.onnx.ml), compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import svod_onnx
from svod_onnx.errors import NodeError

N_FEATURES = 3
KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 0.25, 3.0],
    "RBF": [0.3, 0.0, 0.0],
    "SIGMOID": [0.2, -0.5, 0.0],
}

MakeModel = Callable[..., onnx.ModelProto]


def _make_classifier(n_classes: int, kernel: str, **more: Any) -> dict[str, Any]:
    """Attributes of a classifier with random support vectors."""
    random = np.random.default_rng(n_classes)
    counts = [2 + index for index in range(n_classes)]
    n_pairs = n_classes * (n_classes - 1) // 2
    return {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "vectors_per_class": counts,
        "support_vectors": random.normal(size=sum(counts) * N_FEATURES).tolist(),
        "coefficients": random.normal(size=sum(counts) * (n_classes - 1)).tolist(),
        "rho": random.normal(scale=0.3, size=n_pairs).tolist(),
        **more,
    }


def _add_probabilities(attributes: dict[str, Any]) -> dict[str, Any]:
    random = np.random.default_rng(5)
    n_pairs = len(attributes["rho"])
    return attributes | {
        "prob_a": (-1 - random.random(n_pairs)).tolist(),
        "prob_b": random.normal(scale=0.2, size=n_pairs).tolist(),
    }


def _check(make_model: MakeModel, operator: str, n_outputs: int = 2, **attributes: Any) -> None:
    """Compare a node with onnxruntime, for several numbers of rows."""
    onnxruntime = pytest.importorskip("onnxruntime")
    rows = np.random.default_rng(1).normal(size=(20, N_FEATURES)).astype(np.float32)
    proto = make_model(operator, [rows], 21, n_outputs=n_outputs, domain="ai.onnx.ml", **attributes)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    model = svod_onnx.load(proto)
    for n_rows in (20, 1, 3):
        results: Any = model(x0=rows[:n_rows])
        *labels, scores = session.run(None, {"x0": rows[:n_rows]})
        if labels:
            assert np.asarray(results["y0"].tolist()).tolist() == labels[0].tolist()
        result = results[f"y{n_outputs - 1}"].numpy()
        np.testing.assert_allclose(result, scores, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("has_probabilities", [False, True])
def test_classifier(
    make_node_model: MakeModel, kernel: str, n_classes: int, has_probabilities: bool
) -> None:
    attributes = _make_classifier(n_classes, kernel, classlabels_ints=[5, 3, 8, 1][:n_classes])
    if has_probabilities:
        attributes = _add_probabilities(attributes)
    _check(make_node_model, "SVMClassifier", **attributes)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("has_probabilities", [False, True])
def test_string_labels(make_node_model: MakeModel, n_classes: int, has_probabilities: bool) -> None:
    labels = ["low", "high", "middle"][:n_classes]
    attributes = _make_classifier(n_classes, "RBF", classlabels_strings=labels)
    if has_probabilities:
        attributes = _add_probabilities(attributes)
    _check(make_node_model, "SVMClassifier", **attributes)


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_post_transforms(make_node_model: MakeModel, transform: str, n_classes: int) -> None:
    attributes = _make_classifier(
        n_classes, "RBF", classlabels_ints=[5, 3, 8][:n_classes], post_transform=transform
    )
    _check(make_node_model, "SVMClassifier", **attributes)
    _check(make_node_model, "SVMClassifier", **_add_probabilities(attributes))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("sign", [1, -1])
def test_linear_classifier_without_support_vectors(
    make_node_model: MakeModel, n_classes: int, sign: int
) -> None:
    coefficients = np.random.default_rng(0).random(n_classes * N_FEATURES) * sign
    _check(
        make_node_model,
        "SVMClassifier",
        classlabels_ints=[5, 3, 8][:n_classes],
        coefficients=coefficients.tolist(),
        kernel_type="RBF",
        kernel_params=KERNELS["RBF"],
        rho=[0.25],
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressor(make_node_model: MakeModel, kernel: str, one_class: int) -> None:
    random = np.random.default_rng(0)
    _check(
        make_node_model,
        "SVMRegressor",
        1,
        kernel_type=kernel,
        kernel_params=KERNELS[kernel],
        coefficients=random.normal(size=6).tolist(),
        support_vectors=random.normal(size=6 * N_FEATURES).tolist(),
        n_supports=6,
        rho=[0.125],
        one_class=one_class,
    )


def test_linear_regressor_without_support_vectors(make_node_model: MakeModel) -> None:
    _check(
        make_node_model,
        "SVMRegressor",
        1,
        coefficients=[1.0, -2.0, 0.5],
        kernel_params=KERNELS["LINEAR"],
        n_supports=0,
        rho=[0.125],
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"coefficients": [1.0]}, "expected 3 x 9 coefficients or more, got 1"),
        ({"rho": [1.0]}, "expected 6 values of 'rho' or more, one for each pair of classes, got 1"),
        ({"support_vectors": [1.0]}, "expected 9 x 3 elements of 'support_vectors', got 1"),
        ({"kernel_type": "CUBIC"}, "unknown kernel_type 'CUBIC'"),
        ({"vectors_per_class": [9]}, "expected 4 numbers of 'vectors_per_class', got 1"),
        ({"prob_a": [1.0]}, "'prob_a' and 'prob_b'"),
    ],
)
def test_inconsistent_attributes_are_rejected(
    run_node: Callable[..., Any], changes: dict[str, Any], problem: str
) -> None:
    attributes = _make_classifier(4, "RBF", classlabels_ints=[0, 1, 2, 3])
    attributes["vectors_per_class"] = [3, 2, 2, 2]
    attributes["coefficients"] = attributes["coefficients"][:27]
    attributes["support_vectors"] = attributes["support_vectors"][:27]
    rows = np.ones((2, N_FEATURES), np.float32)
    with pytest.raises(NodeError, match=problem):
        run_node(
            "SVMClassifier", [rows], 21, n_outputs=2, domain="ai.onnx.ml", **(attributes | changes)
        )
