"""Random tree ensembles (ai.onnx.ml), compared with their definition and with onnxruntime."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import svod_onnx
from svod_onnx.errors import NodeError

MODES: Final[dict[str, Callable[[float, float], bool]]] = {
    "BRANCH_LEQ": lambda x, y: x <= y,
    "BRANCH_LT": lambda x, y: x < y,
    "BRANCH_GTE": lambda x, y: x >= y,
    "BRANCH_GT": lambda x, y: x > y,
    "BRANCH_EQ": lambda x, y: x == y,
    "BRANCH_NEQ": lambda x, y: x != y,
}
N_FEATURES: Final = 5
VALUES: Final = [-np.inf, -2, -1, -0.0, 0, 1, 2, np.inf, np.nan]
"""Values of features, which equal splits often."""


def _grow(generator: np.random.Generator, modes: Sequence[str], depth: int, fraction: float) -> Any:
    """Random unbalanced tree, as nested dicts."""
    if depth == 0 or generator.random() > fraction:
        return {"weights": {}}
    return {
        "mode": modes[generator.integers(len(modes))],
        "feature": int(generator.integers(N_FEATURES)),
        "split": float(generator.choice([-1, 0, 0.5, 1, 2])),
        "missing": int(generator.integers(2)),
        "true": _grow(generator, modes, depth - 1, fraction),
        "false": _grow(generator, modes, depth - 1, fraction),
    }


def _make_trees(
    n_trees: int,
    *,
    modes: Sequence[str] = ("BRANCH_LEQ",),
    depth: int = 6,
    fraction: float = 0.8,
    n_targets: int = 1,
    is_separate: bool = False,
    missing: int | None = None,
    seed: int = 0,
) -> list[Any]:
    """Random trees.

    Args:
        n_trees: number of trees.
        modes: modes of the nodes.
        depth: maximum depth.
        fraction: fraction of inner nodes.
        n_targets: number of targets.
        is_separate: whether a tree has weights for one target only, in turn.
        missing: whether missing values track true, None for either.
        seed: seed of the random numbers.
    """
    generator = np.random.default_rng(seed)
    trees = [_grow(generator, modes, depth, fraction) for _ in range(n_trees)]
    for index, tree in enumerate(trees):
        for node in _walk(tree):
            if "weights" in node:
                targets = [index % n_targets] if is_separate else range(n_targets)
                node["weights"] = {t: float(generator.integers(-9, 10)) for t in targets}
            elif missing is not None:
                node["missing"] = missing
    return trees


def _walk(tree: Any) -> list[Any]:
    if "weights" in tree:
        return [tree]
    return [tree, *_walk(tree["true"]), *_walk(tree["false"])]


def _make_rows(n_rows: int, dtype: str = "float32", seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.choice(VALUES, size=(n_rows, N_FEATURES)).astype(dtype)


def _find_leaf(tree: Any, row: np.ndarray) -> dict[int, float]:
    while "weights" not in tree:
        value, members = row[tree["feature"]], tree.get("members")
        holds = (
            MODES[tree["mode"]](value, tree["split"]) if members is None else value in members
        ) or (np.isnan(value) and tree["missing"])
        tree = tree["true" if holds else "false"]
    return tree["weights"]


def _predict(
    trees: list[Any], rows: np.ndarray, n_targets: int = 1, aggregate: str = "SUM"
) -> np.ndarray:
    scores = np.zeros((len(rows), n_targets))
    reduce = {"SUM": sum, "AVERAGE": lambda v: sum(v) / len(trees), "MIN": min, "MAX": max}
    for index, row in enumerate(rows):
        leaves = [_find_leaf(tree, row) for tree in trees]
        for target in range(n_targets):
            weights = [leaf[target] for leaf in leaves if target in leaf]
            scores[index, target] = reduce[aggregate](weights) if weights else 0
    return scores


def _make_model(
    operator: str, version: int, dtype: np.dtype, attributes: dict[str, Any]
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    result = kind if operator == "TreeEnsemble" else TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, ["n", N_FEATURES])],
        [helper.make_tensor_value_info("y", result, None)],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 21)],
        ir_version=10,
    )


def _make_regressor(
    trees: list[Any], dtype: str = "float32", n_targets: int = 1, aggregate: str = "SUM"
) -> onnx.ModelProto:
    attributes: dict[str, Any] = {"n_targets": n_targets, "aggregate_function": aggregate}
    lists: dict[str, list[Any]] = {}

    def add(**values: Any) -> None:
        for name, value in values.items():
            lists.setdefault(name, []).append(value)

    for tree_id, tree in enumerate(trees):
        nodes = _walk(tree)
        ids = {id(node): index for index, node in enumerate(nodes)}
        for node in nodes:
            is_leaf = "weights" in node
            add(
                nodes_treeids=tree_id,
                nodes_nodeids=ids[id(node)],
                nodes_featureids=0 if is_leaf else node["feature"],
                nodes_values=0.0 if is_leaf else node["split"],
                nodes_modes="LEAF" if is_leaf else node["mode"],
                nodes_truenodeids=0 if is_leaf else ids[id(node["true"])],
                nodes_falsenodeids=0 if is_leaf else ids[id(node["false"])],
                nodes_missing_value_tracks_true=0 if is_leaf else node["missing"],
            )
            for target, weight in node.get("weights", {}).items():
                add(
                    target_treeids=tree_id,
                    target_nodeids=ids[id(node)],
                    target_ids=target,
                    target_weights=weight,
                )
    return _make_model("TreeEnsembleRegressor", 3, np.dtype(dtype), attributes | lists)


def _make_ensemble(trees: list[Any], dtype: str = "float32") -> onnx.ModelProto:
    """TreeEnsemble, whose trees must not be a single leaf."""
    inner = [node for tree in trees for node in _walk(tree) if "weights" not in node]
    leaves = [node for tree in trees for node in _walk(tree) if "weights" in node]
    inner_ids = {id(node): index for index, node in enumerate(inner)}
    leaf_ids = {id(node): index for index, node in enumerate(leaves)}
    modes = [*MODES, "BRANCH_MEMBER"]
    sets = [node["members"] for node in inner if "members" in node]
    members = [value for values in sets for value in (*values, np.nan)]
    kind = np.dtype(dtype)

    def to_tensor(values: Any, dtype: Any) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.asarray(values, dtype))

    def find(child: Any) -> int:
        return leaf_ids[id(child)] if "weights" in child else inner_ids[id(child)]

    attributes = {
        "nodes_splits": to_tensor([node["split"] for node in inner], kind),
        "nodes_featureids": [node["feature"] for node in inner],
        "nodes_modes": to_tensor([modes.index(node["mode"]) for node in inner], np.uint8),
        "nodes_truenodeids": [find(node["true"]) for node in inner],
        "nodes_falsenodeids": [find(node["false"]) for node in inner],
        "nodes_trueleafs": [int("weights" in node["true"]) for node in inner],
        "nodes_falseleafs": [int("weights" in node["false"]) for node in inner],
        "nodes_missing_value_tracks_true": [node["missing"] for node in inner],
        "leaf_targetids": [0] * len(leaves),
        "leaf_weights": to_tensor([leaf["weights"][0] for leaf in leaves], kind),
        "tree_roots": [inner_ids[id(tree)] for tree in trees],
        "n_targets": 1,
        "aggregate_function": 1,
    }
    if members:
        attributes["membership_values"] = to_tensor(members, kind)
    return _make_model("TreeEnsemble", 5, kind, attributes)


def _run(model: onnx.ModelProto, rows: np.ndarray) -> np.ndarray:
    result: Any = svod_onnx.load(model)(x=rows)
    return result["y"].numpy()


def _run_onnxruntime(model: onnx.ModelProto, rows: np.ndarray) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": rows})[0]


@pytest.mark.parametrize("missing", [0, 1, None])
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_with_missing_values(mode: str, missing: int | None) -> None:
    trees = _make_trees(7, modes=[mode], missing=missing)
    model = _make_regressor(trees)
    for n_rows in (40, 1, 0):
        rows = _make_rows(n_rows)
        np.testing.assert_array_equal(_run(model, rows), _predict(trees, rows))
    rows = _make_rows(40)
    np.testing.assert_array_equal(_run(model, rows), _run_onnxruntime(model, rows))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_mixed_modes(dtype: str, seed: int) -> None:
    trees = _make_trees(9, modes=list(MODES), seed=seed)
    model, rows = _make_regressor(trees, dtype), _make_rows(50, dtype)
    result = _run(model, rows)
    np.testing.assert_array_equal(result, _predict(trees, rows))
    np.testing.assert_array_equal(result, _run_onnxruntime(model, rows))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("missing", [0, None])
def test_membership_among_other_modes(dtype: str, missing: int | None) -> None:
    trees = _make_trees(9, modes=[*MODES, "BRANCH_MEMBER"], missing=missing, seed=4)
    trees = [tree for tree in trees if "weights" not in tree]
    generator = np.random.default_rng(0)
    for tree in trees:
        for node in _walk(tree):
            if node.get("mode") == "BRANCH_MEMBER":
                node["members"] = generator.choice(VALUES[1:-2], generator.integers(1, 4)).tolist()
    rows = _make_rows(60, dtype)
    np.testing.assert_array_equal(_run(_make_ensemble(trees, dtype), rows), _predict(trees, rows))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", [0, 1])
def test_splits_that_are_nan(mode: str, missing: int) -> None:
    trees = _make_trees(5, modes=[mode], missing=missing)
    for node in itertools.chain.from_iterable(map(_walk, trees)):
        if node.get("split") == 1:
            node["split"] = float("nan")
    rows = _make_rows(40)
    np.testing.assert_array_equal(_run(_make_regressor(trees), rows), _predict(trees, rows))


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("is_separate", [False, True])
@pytest.mark.parametrize("n_trees", [1, 2, 3, 8, 9])
def test_aggregates_of_several_targets(aggregate: str, is_separate: bool, n_trees: int) -> None:
    trees = _make_trees(n_trees, n_targets=3, is_separate=is_separate, fraction=0.7)
    rows = _make_rows(20)
    result = _run(_make_regressor(trees, n_targets=3, aggregate=aggregate), rows)
    np.testing.assert_allclose(result, _predict(trees, rows, 3, aggregate), rtol=1e-6)


def test_trees_of_classes_in_any_order() -> None:
    trees = _make_trees(12, n_targets=3, is_separate=True)
    trees = [trees[index] for index in np.random.default_rng(5).permutation(12)]
    rows = _make_rows(20)
    result = _run(_make_regressor(trees, n_targets=3), rows)
    np.testing.assert_array_equal(result, _predict(trees, rows, 3))


def test_stumps_among_deep_trees() -> None:
    trees = [
        *_make_trees(2, depth=0),
        *_make_trees(2, depth=1, fraction=1.0),
        *_make_trees(2, depth=40, fraction=0.6, seed=8),
    ]
    rows = _make_rows(30)
    np.testing.assert_array_equal(_run(_make_regressor(trees), rows), _predict(trees, rows))


@pytest.mark.parametrize("n_targets", [1, 2])
def test_many_trees_of_different_depths(n_targets: int) -> None:
    trees = [
        tree
        for depth in (0, 1, 3, 12, 20)
        for tree in _make_trees(20, depth=depth, fraction=0.7, n_targets=n_targets, seed=depth)
    ]
    trees = [trees[index] for index in np.random.default_rng(6).permutation(len(trees))]
    rows = _make_rows(30)
    result = _run(_make_regressor(trees, n_targets=n_targets), rows)
    np.testing.assert_array_equal(result, _predict(trees, rows, n_targets))


def test_trees_that_share_nodes() -> None:
    leaves = [{"weights": {0: weight}} for weight in (1.0, 2.0, 4.0)]
    inner = {"mode": "BRANCH_LEQ", "feature": 0, "split": 0.0, "missing": 0}
    shared = {**inner, "true": leaves[0], "false": leaves[1]}
    roots = [
        {**inner, "feature": 1, "true": shared, "false": leaves[2]},
        {**inner, "feature": 2, "true": leaves[2], "false": shared},
    ]
    rows = _make_rows(30)
    model = _make_ensemble(roots)
    np.testing.assert_array_equal(_run(model, rows), _predict(roots, rows))


def test_nodes_of_more_than_32_bits() -> None:
    trees = _make_trees(30, depth=8, fraction=0.9)
    generator, n_features = np.random.default_rng(0), 2**20
    for node in itertools.chain.from_iterable(map(_walk, trees)):
        if "feature" in node:
            node["feature"] = int(generator.integers(n_features))
    model, rows = _make_regressor(trees), generator.choice(VALUES, size=(2, n_features))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = n_features
    rows = rows.astype(np.float32)
    np.testing.assert_array_equal(_run(model, rows), _predict(trees, rows))


def test_symbolic_number_of_features() -> None:
    trees, rows = _make_trees(5), _make_rows(20)
    model = _make_regressor(trees)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "m"
    loaded: Any = svod_onnx.load(model)
    for n_features in (N_FEATURES, N_FEATURES + 1, N_FEATURES + 2, N_FEATURES + 3):
        wide = np.pad(rows, ((0, 0), (0, n_features - N_FEATURES)))
        np.testing.assert_array_equal(loaded(x=wide)["y"].numpy(), _predict(trees, rows))


def test_weights_of_different_lengths_are_rejected() -> None:
    model = _make_regressor(_make_trees(2))
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "target_ids":
            attribute.ints.append(0)
    with pytest.raises(NodeError, match="the attributes of weights have different lengths"):
        _run(model, _make_rows(2))
