"""Classical models (ai.onnx.ml), compared with their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import svod_onnx
from svod_onnx.errors import NodeError
from svod_tensor import Tensor

ROWS = np.array([[1, -2, 3], [0, 0, 0], [-4, 5, np.nan]], np.float32)


def _make(
    operator: str, x: np.ndarray, n_outputs: int = 1, version: int = 3, **attributes: Any
) -> onnx.ModelProto:
    kind = (
        TensorProto.STRING if x.dtype.kind in "OUST" else helper.np_dtype_to_tensor_dtype(x.dtype)
    )
    names = [f"y{n}" for n in range(n_outputs)]
    node = helper.make_node(operator, ["x"], names, "node", domain="ai.onnx.ml", **attributes)
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, None)], outputs
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 21)],
        ir_version=10,
    )


def _run(operator: str, x: np.ndarray, *options: Any, **attributes: Any) -> list[np.ndarray]:
    result = svod_onnx.load(_make(operator, x, *options, **attributes))(x=x).values()
    return [value.numpy() if isinstance(value, Tensor) else np.asarray(value) for value in result]


def _check(result: np.ndarray, expected: Any) -> None:
    np.testing.assert_allclose(result, np.asarray(expected, np.float32), rtol=1e-6)


def test_scaler_and_imputer() -> None:
    _check(
        _run("Scaler", ROWS, offset=[1.0, 0.0, 2.0], scale=[2.0, 1.0, 0.5])[0],
        (ROWS - [1, 0, 2]) * [2, 1, 0.5],
    )
    _check(_run("Binarizer", ROWS, threshold=0.5)[0], ROWS > 0.5)
    imputed = _run("Imputer", ROWS, imputed_value_floats=[9.0], replaced_value_float=float("nan"))[
        0
    ]
    _check(imputed, np.where(np.isnan(ROWS), 9, ROWS))
    whole = np.array([[1, -1], [-1, 2]])
    assert _run("Imputer", whole, imputed_value_int64s=[7, 8], replaced_value_int64=-1)[
        0
    ].tolist() == [[1, 8], [7, 2]]


@pytest.mark.parametrize(("norm", "sizes"), [("MAX", [3, 1]), ("L1", [6, 1]), ("L2", [14**0.5, 1])])
def test_normalizer(norm: str, sizes: list[float]) -> None:
    _check(_run("Normalizer", ROWS[:2], norm=norm)[0], ROWS[:2] / np.array(sizes)[:, None])


def test_linear_models() -> None:
    rows, weights = ROWS[:2], np.array([[1, 2, 3], [0, -1, 1], [1, 1, 1]], np.float32)
    flat, shifts = weights.ravel().tolist(), [0.5, 0.0, -1.0]
    scores = rows @ weights.T + shifts
    _check(
        _run("LinearRegressor", rows, coefficients=flat, intercepts=shifts, targets=3)[0], scores
    )
    labels, result = _run(
        "LinearClassifier",
        rows,
        2,
        coefficients=flat,
        intercepts=shifts,
        classlabels_ints=[7, 8, 9],
        post_transform="SOFTMAX",
    )
    assert labels.tolist() == [[7, 8, 9][n] for n in scores.argmax(1)]
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    _check(result, exponentials / exponentials.sum(1, keepdims=True))
    labels, result = _run(
        "LinearClassifier",
        rows,
        2,
        coefficients=[1.0, 2.0, 3.0],
        intercepts=[-1.0],
        classlabels_ints=[3, 4],
        post_transform="LOGISTIC",
    )
    score = rows @ weights[:1].T - 1
    assert labels.tolist() == [4 if s > 0 else 3 for s in score[:, 0]]
    _check(result, 1 / (1 + np.exp(np.concatenate([score, -score], 1))))


def test_linear_models_ignore_surplus_coefficients() -> None:
    rows, weights = ROWS[:2], np.array([[1, 2, 3], [0, -1, 1]], np.float32)
    scores = rows @ weights.T + [0.5, -1.0]
    attributes: dict[str, Any] = {
        "coefficients": [*weights.ravel().tolist(), 9.0, 9.0, 9.0],
        "intercepts": [0.5, -1.0],
    }
    _check(_run("LinearRegressor", rows, targets=2, **attributes)[0], scores)
    labels, result = _run("LinearClassifier", rows, 2, classlabels_ints=[7, 8], **attributes)
    assert labels.tolist() == [[7, 8][n] for n in scores.argmax(1)]
    _check(result, scores)


def test_encoders() -> None:
    numbers, words = np.array([3, 1, 5]), np.array(["b", "?", "a"], object)
    assert _run("OneHotEncoder", numbers, cats_int64s=[1, 3])[0].tolist() == [
        [0, 1],
        [1, 0],
        [0, 0],
    ]
    assert _run("OneHotEncoder", words, cats_strings=["a", "b"])[0].tolist() == [
        [0, 1],
        [0, 0],
        [1, 0],
    ]
    assert _run("LabelEncoder", numbers, version=2, keys_int64s=[3, 1], values_strings=["x", "y"])[
        0
    ].tolist() == [
        "x",
        "y",
        "_Unused",
    ]
    assert _run("LabelEncoder", words, version=2, keys_strings=["a", "b"], values_int64s=[10, 20])[
        0
    ].tolist() == [
        20,
        -1,
        10,
    ]
    result = _run(
        "LabelEncoder",
        ROWS[2],
        version=2,
        keys_floats=[np.nan, 5.0],
        values_floats=[0.5, 1.5],
        default_float=9.0,
    )
    assert result[0].tolist() == [9.0, 1.5, 0.5]
    assert _run("LabelEncoder", words, version=1, classes_strings=["a", "b"], default_int64=7)[
        0
    ].tolist() == [1, 7, 0]


def _make_trees(prefix: str) -> dict[str, Any]:
    """Two trees: x[0] <= 0.5 ? 1 : (x[1] < 0 ? 2 : 3), and x[2] > 1 ? 10 : 20.

    NaN takes the first branch.
    """
    return {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 0, 1, 0, 0, 2, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        "nodes_modes": [
            "BRANCH_LEQ",
            "LEAF",
            "BRANCH_LT",
            "LEAF",
            "LEAF",
            "BRANCH_GT",
            "LEAF",
            "LEAF",
        ],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [0, 0, 0, 0, 0, 1, 0, 0],
        f"{prefix}_treeids": [0, 0, 0, 1, 1],
        f"{prefix}_nodeids": [1, 3, 4, 1, 2],
    }


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("SUM", [12, 21, 11]), ("AVERAGE", [6, 10.5, 5.5]), ("MIN", [2, 1, 1]), ("MAX", [10, 20, 10])],
)
def test_tree_ensemble_regressor(aggregate: str, expected: list[float]) -> None:
    trees = _make_trees("target") | {
        "target_ids": [0] * 5,
        "target_weights": [1.0, 2.0, 3.0, 10.0, 20.0],
    }
    result = _run(
        "TreeEnsembleRegressor",
        ROWS,
        n_targets=1,
        aggregate_function=aggregate,
        base_values=[100.0],
        **trees,
    )
    assert result[0][:, 0].tolist() == [100 + value for value in expected]


def test_tree_ensemble_classifier() -> None:
    trees = _make_trees("class") | {"class_weights": [1.0, 2.0, 3.0, 0.5, 2.5]}
    labels, scores = _run(
        "TreeEnsembleClassifier",
        ROWS,
        2,
        class_ids=[0, 1, 2, 1, 2],
        classlabels_int64s=[5, 6, 7],
        **trees,
    )
    assert scores.tolist() == [[0, 2.5, 0], [1, 0, 2.5], [1, 0.5, 0]]
    assert labels.tolist() == [6, 7, 5]
    labels, scores = _run(
        "TreeEnsembleClassifier", ROWS, 2, class_ids=[0] * 5, classlabels_int64s=[5, 6], **trees
    )
    assert scores.tolist() == [[-1.5, 2.5], [-2.5, 3.5], [-0.5, 1.5]]
    assert labels.tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes_falsenodeids": [2, 0, 0, 0, 0, 2, 0, 0]}, "cycle"),
        (
            {"nodes_truenodeids": [9, 0, 3, 0, 0, 1, 0, 0]},
            "node index -1 is out of bounds for size 8",
        ),
        (
            {"nodes_featureids": [0, 0, 3, 0, 0, 2, 0, 0]},
            "feature index 3 is out of bounds for size 3",
        ),
        (
            {"target_nodeids": [1, 3, 9, 1, 2]},
            r"a weight refers to an unknown node \(tree, id\): \(0, 9\)",
        ),
        ({"target_ids": [0, 0, 0, 0, 1]}, "target index 1 is out of bounds for size 1"),
        ({"nodes_modes": ["NEAR"] * 8}, "unknown modes"),
    ],
)
def test_inconsistent_trees_are_rejected(changes: dict[str, Any], problem: str) -> None:
    trees = _make_trees("target") | {
        "target_ids": [0] * 5,
        "target_weights": [1.0, 2.0, 3.0, 10.0, 20.0],
    }
    with pytest.raises(NodeError, match=problem):
        _run("TreeEnsembleRegressor", ROWS, n_targets=1, **(trees | changes))


def test_trees_with_a_single_leaf() -> None:
    leaf = {
        "nodes_treeids": [0],
        "nodes_nodeids": [0],
        "nodes_featureids": [0],
        "nodes_values": [0.0],
        "nodes_modes": ["LEAF"],
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [0],
        "target_treeids": [0],
        "target_nodeids": [0],
        "target_ids": [0],
        "target_weights": [4.0],
    }
    assert _run("TreeEnsembleRegressor", ROWS, n_targets=1, **leaf)[0].tolist() == [[4], [4], [4]]


def _check_labels(operator: str, **attributes: Any) -> None:
    """Compare string labels and scores with onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = _make(operator, ROWS[:2], 2, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    model = svod_onnx.load(proto)
    for rows in (ROWS[:2], ROWS[1::-1], ROWS[:1]):
        labels, scores = session.run(None, {"x": rows})
        results: Any = model(x=rows)
        assert results["y0"].tolist() == labels.tolist()
        np.testing.assert_allclose(results["y1"].numpy(), scores, rtol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"coefficients": [1.0, 2, 3, 0, -1, 1, 1, 1, 1], "intercepts": [0.5, 0.0, -1.0]},
        {"coefficients": [1.0, 2, 3], "intercepts": [-1.0], "post_transform": "LOGISTIC"},
        {"coefficients": [1.0, 2, 3, -1, -2, -3], "intercepts": [0.5, -0.5]},
    ],
)
def test_string_labels_of_linear_classifiers(attributes: dict[str, Any]) -> None:
    n_labels = {1: 2, 2: 2, 3: 3}[len(attributes["intercepts"])]
    labels = ["low", "middle", "high"][:n_labels]
    _check_labels("LinearClassifier", classlabels_strings=labels, **attributes)


@pytest.mark.parametrize(
    ("class_ids", "labels", "base_values"),
    [
        ([0, 1, 2, 1, 2], ["a", "b", "c"], []),
        ([0, 1, 2, 1, 2], ["a", "b", "c"], [0.0, 5.0, 0.0]),
        ([1] * 5, ["no", "yes"], []),
        ([1] * 5, ["no", "yes"], [0.25]),
        ([0] * 5, ["no", "yes"], []),
        ([0] * 5, ["no", "yes"], [0.25]),
        ([0, 1, 0, 1, 1], ["no", "yes"], []),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_string_labels_of_tree_ensembles(
    class_ids: list[int], labels: list[str], base_values: list[float], sign: int, transform: str
) -> None:
    weights = [0.1, 0.2, 0.3, 0.5, sign * 0.25]
    more = {"base_values": base_values} if base_values else {}
    _check_labels(
        "TreeEnsembleClassifier",
        class_ids=class_ids,
        class_weights=weights,
        classlabels_strings=labels,
        post_transform=transform,
        **_make_trees("class"),
        **more,
    )


def test_string_labels_of_constant_rows() -> None:
    model = svod_onnx.load(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
            g (float[n] x) => (string[2] label, float[n] y) <float[2, 1] rows = {-1, 1}> {
                label, scores = ai.onnx.ml.LinearClassifier<
                    coefficients = [1.0], intercepts = [0.0], classlabels_strings = ["no", "yes"]
                >(rows)
                y = Neg(x)
            }
        """)
    )
    results: Any = model(x=np.ones(1, np.float32))
    assert results["label"].tolist() == ["no", "yes"]


_NAMES = 'names = Constant<value_strings = ["a", "b", "c"]>()'


@pytest.mark.parametrize(
    "text",
    [
        f"{_NAMES} i = ArgMax<axis = 0>(x) y = ai.onnx.ml.ArrayFeatureExtractor(names, i)",
        f"{_NAMES} i = ArgMax<axis = 0>(x) y = Gather(names, i)",
        f"{_NAMES} i = ArgMax<axis = 0, keepdims = 0>(x) y = Gather(names, i)",
        f"{_NAMES} zero = Constant<value_float = 1.0>() c = Greater(x, zero) y = Where(c, names, s)",
        "i = Shape(x) y = Expand(s, i)",
        'i = ArgMax<axis = 0>(x) [e] update = Constant<value_strings = ["q"]>() y = ScatterElements(s, i, update)',
    ],
)
def test_strings_selected_by_computed_values(text: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
            g (float[n] x, string[n] s) => (string[m] y) {{ {text} }}"""
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    model = svod_onnx.load(proto)
    for row in ([0.5, 3.0, 2.0], [4.0, 0.0, 2.0]):
        inputs = {"x": np.array(row, np.float32), "s": np.array(["u", "v", "w"], object)}
        (expected,) = session.run(None, inputs)
        results: Any = model(**inputs)
        assert np.asarray(results["y"]).tolist() == expected.tolist()
