"""Constant weights of products, beside ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import svod_onnx
from svod_onnx.errors import NodeError

RNG = np.random.default_rng(0)
TINY = np.float32(1e-40)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(
    nodes: Sequence[NodeProto], shape: Sequence[int | str], constants: Mapping[str, np.ndarray]
) -> None:
    """Compare all outputs of a model of an input `x` with the reference."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(n.output[0], TensorProto.FLOAT, None) for n in nodes],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded, reference = svod_onnx.load(model), ReferenceEvaluator(model)
    for size in (5, 9, 2, 31):
        x = draw(*(n if isinstance(n, int) else size for n in shape))
        found = loaded(x=x)
        for node, expected in zip(nodes, reference.run(None, {"x": x}), strict=True):
            array = found[node.output[0]].numpy()
            assert array.dtype == expected.dtype
            np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4)


def check_convolution(filters: np.ndarray, *others: NodeProto, group: int = 1) -> None:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=group)
    shape = (2, filters.shape[1] * group, *(9,) * (filters.ndim - 2))
    check([node, *others], shape, {"w": filters, "b": draw(len(filters))})


@pytest.mark.parametrize("n_filters", [1, 7, 16, 24, 40, 48, 64, 96])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (1, 4), (3,)], ids=str)
def test_filters_of_any_number(n_filters: int, window: tuple[int, ...]) -> None:
    check_convolution(draw(n_filters, 5, *window))


def test_filters_of_groups() -> None:
    check_convolution(draw(64, 2, 3, 3), group=4)


def test_filters_that_another_node_reads_keep_their_values() -> None:
    filters = draw(32, 3, 3, 3)
    filters[0, 0, 0, 0] = TINY
    check_convolution(filters, helper.make_node("Identity", ["w"], ["z"]))


@pytest.mark.parametrize("group", [1, 4])
def test_subnormal_elements_of_filters_change_no_result(group: int) -> None:
    filters = draw(32, 3, 3, 3)
    filters[::2, 1] = TINY
    check_convolution(filters, group=group)


@pytest.mark.parametrize("n_columns", [1, 16, 24, 31, 32, 64, 96])
@pytest.mark.parametrize("depth", [1, 40])
def test_matrices_of_any_size(n_columns: int, depth: int) -> None:
    weights = {"w": draw(depth, n_columns), "t": draw(n_columns, depth), "b": draw(n_columns)}
    weights["w"][0, 0] = weights["t"][0, 0] = TINY
    nodes = [
        helper.make_node("Gemm", ["x", "t", "b"], ["transposed"], transB=1),
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["y"]),
    ]
    check(nodes, ("n", depth), weights)
    check([helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5)], ("n", depth), weights)
    check(nodes[1:], (2, "n", depth), weights)


def test_weights_of_several_products_keep_one_order() -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["y"]),
        helper.make_node("Gemm", ["x", "w"], ["z"], transB=1),
        helper.make_node("MatMul", ["x", "w"], ["t"]),
    ]
    check(nodes, ("n", 32), {"w": draw(32, 32)})
    check([nodes[0], nodes[2]], ("n", 32), {"w": draw(32, 64)})


def test_stacks_of_matrices_and_empty_matrices() -> None:
    check([helper.make_node("MatMul", ["x", "w"], ["y"])], (3, "n", 8), {"w": draw(3, 8, 32)})
    check([helper.make_node("MatMul", ["x", "w"], ["y"])], ("n", 0), {"w": draw(0, 32)})
    check([helper.make_node("MatMul", ["x", "w"], ["y"])], ("n", 8), {"w": draw(8)})


def test_a_large_matrix() -> None:
    check([helper.make_node("MatMul", ["x", "w"], ["y"])], ("n", 1100), {"w": draw(1100, 1024)})


def test_a_product_of_weights_with_themselves() -> None:
    nodes = [
        helper.make_node("MatMul", ["w", "w"], ["square"]),
        helper.make_node("MatMul", ["x", "square"], ["y"]),
    ]
    check(nodes, ("n", 32), {"w": draw(32, 32)})


def test_a_product_without_weights_is_refused() -> None:
    with pytest.raises(NodeError, match="Conv"):
        check([helper.make_node("Conv", ["x"], ["y"])], (1, 1, 3, 3), {})
