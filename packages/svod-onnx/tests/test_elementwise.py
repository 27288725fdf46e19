"""Elementwise operators and casts, beyond the conformance suite."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

import svod_onnx
from svod_onnx.errors import NodeError

RunNode = Callable[..., list[np.ndarray]]


def _run_text(text: str, **inputs: np.ndarray) -> list[np.ndarray]:
    model = svod_onnx.load(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 24]>\n{text}')
    )
    return [
        value.numpy() if hasattr(value, "numpy") else value for value in model(**inputs).values()
    ]


def test_old_versions_align_operands_along_an_axis(run_node: RunNode) -> None:
    a, b = np.zeros((2, 3, 4), np.float32), np.arange(3, dtype=np.float32)
    (result,) = run_node("Add", [a, b], 6, axis=1, broadcast=1)
    np.testing.assert_array_equal(result, np.broadcast_to(b[:, None], a.shape))
    (result,) = run_node("Greater", [a, b - 1], 6, axis=1, broadcast=1)
    np.testing.assert_array_equal(result, np.broadcast_to(b[:, None] < 1, a.shape))


def test_integer_division_truncates(run_node: RunNode) -> None:
    a, b = np.array([7, -7, 7, -7, -128], np.int8), np.array([2, 2, -2, -2, 1], np.int8)
    (result,) = run_node("Div", [a, b], 14)
    np.testing.assert_array_equal(result, np.array([3, -3, -3, 3, -128], np.int8), strict=True)


def test_powers_have_the_dtype_of_the_base(run_node: RunNode) -> None:
    base = np.array([1, 2, 3], np.int32)
    (result,) = run_node("Pow", [base, np.array([0.5, 3.5, 2.0], np.float32)], 15)
    np.testing.assert_array_equal(result, np.array([1, 11, 9], np.int32), strict=True)
    (result,) = run_node("Pow", [base, np.array(3, np.uint64)], 15, constants=[1])
    np.testing.assert_array_equal(result, base**3, strict=True)


def test_old_prelu_applies_a_slope_of_rank_1_to_channels(run_node: RunNode) -> None:
    x, slope = -np.ones((1, 2, 2), np.float32), np.array([2.0, 3.0], np.float32)
    np.testing.assert_array_equal(run_node("PRelu", [x, slope], 6)[0], [[[-2, -2], [-3, -3]]])
    np.testing.assert_array_equal(run_node("PRelu", [x, slope], 16)[0], [[[-2, -3], [-2, -3]]])


@pytest.mark.parametrize(
    ("version", "slope", "scale"),
    [(1, 1.6732, 1.0507), (6, 1.67326319217681884765625, 1.05070102214813232421875)],
)
def test_selu_has_the_constants_of_its_version(
    run_node: RunNode, version: int, slope: float, scale: float
) -> None:
    x = np.linspace(-3, 3, 13)
    (result,) = run_node("Selu", [x], version)
    np.testing.assert_allclose(result, scale * np.where(x > 0, x, slope * np.expm1(x)), rtol=1e-6)
    (result,) = run_node("Selu", [x], version, alpha=2.0, gamma=3.0)
    np.testing.assert_allclose(result, 3 * np.where(x > 0, x, 2 * np.expm1(x)), rtol=1e-6)


@pytest.mark.parametrize(
    ("version", "dtype"),
    [(7, np.float32), (9, np.float32), (10, np.bool_), (12, np.bool_), (13, np.bool_)],
)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_dropout_mask_is_boolean_from_version_10_on(
    run_node: RunNode, version: int, dtype: type, kind: type
) -> None:
    x = np.array([1, 2, 3], kind)
    value, mask = run_node("Dropout", [x], version, n_outputs=2)
    np.testing.assert_array_equal(value, x, strict=True)
    np.testing.assert_array_equal(mask, np.ones(3, kind if version < 10 else dtype), strict=True)


def test_dropout_keeps_the_mean_in_training(run_node: RunNode) -> None:
    x = np.ones(1000, np.float32)
    inputs = [x, np.array(0.25, np.float32), np.array(True)]
    value, mask = run_node("Dropout", inputs, 22, n_outputs=2, constants=[1, 2], seed=3)
    np.testing.assert_allclose(value, mask / np.float32(0.75))
    assert 650 < mask.sum() < 850
    (value,) = run_node("Dropout", [x], 6, is_test=1)
    np.testing.assert_array_equal(value, x)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (onnx.TensorProto.FLOAT, np.array([1.5, -np.inf, 2e-3], np.float32)),
        (onnx.TensorProto.INT32, np.array([1, 0, 0], np.int32)),
    ],
)
def test_cast_parses_strings(run_node: RunNode, kind: int, expected: np.ndarray) -> None:
    texts = np.array(
        ["1.5", "-INF", "2e-3"] if expected.dtype.kind == "f" else ["1.5", "-0", "0"], dtype=object
    )
    np.testing.assert_array_equal(run_node("Cast", [texts], 24, to=kind)[0], expected, strict=True)


def test_cast_parses_large_integers_exactly(run_node: RunNode) -> None:
    texts = np.array([str(2**63 - 1), "-3"], dtype=object)
    (result,) = run_node("Cast", [texts], 24, to=onnx.TensorProto.INT64)
    np.testing.assert_array_equal(result, np.array([2**63 - 1, -3], np.int64), strict=True)


def test_narrow_types_propagate_through_shapes_and_copies() -> None:
    """CastLike reads the type of a reshaped int4 tensor, which int8 carries."""
    text = """g (float[4] x, int32[2] y) => (int4[2] z) {
        a = Cast<to = 22>(x)
        s = Constant<value_ints = [2, 2]>()
        b = Reshape(a, s)
        z = CastLike(y, b)
    }"""
    (result,) = _run_text(text, x=np.arange(4, dtype=np.float32), y=np.array([9, -9], np.int32))
    np.testing.assert_array_equal(result.astype(int), [-7, 7])


@pytest.mark.parametrize("kind", [ml_dtypes.uint4, ml_dtypes.float4_e2m1fn, ml_dtypes.int4])
def test_bit_cast_of_narrow_types(run_node: RunNode, kind: type) -> None:
    x = np.array([-8, -1, 0, 7], ml_dtypes.int4)
    to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    (result,) = run_node("BitCast", [x], 26, to=to)
    np.testing.assert_array_equal(result.astype(float), x.view(kind).astype(float))


def test_bit_cast_rejects_another_element_size(run_node: RunNode) -> None:
    with pytest.raises(
        NodeError, match="cannot reinterpret float32 as float64: the element sizes differ"
    ):
        run_node("BitCast", [np.zeros(2, np.float32)], 26, to=onnx.TensorProto.DOUBLE)
