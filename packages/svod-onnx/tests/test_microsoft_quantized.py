"""Quantized operators of "com.microsoft", compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import svod_onnx
from svod_tensor import Tensor

MakeModel = Callable[..., onnx.ModelProto]
_RANDOM = np.random.default_rng(0)
_SCALES = [np.array(value, np.float32) for value in (0.02, 0.03, 0.05)]


def _sample(*shape: int, dtype: str = "uint8") -> np.ndarray:
    info = np.iinfo(dtype)
    return _RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)


def _sample_floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _check(
    make_model: MakeModel,
    operator: str,
    inputs: Sequence[np.ndarray | None],
    steps: int = 1,
    n_outputs: int = 1,
    **options: Any,
) -> None:
    """Compare with onnxruntime: floats closely, integers up to `steps`."""
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = make_model(operator, inputs, 21, n_outputs=n_outputs, domain="com.microsoft", **options)
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    constants = options.get("constants", ())
    feeds = {name: value for name, value in feeds.items() if int(name[1:]) not in constants}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    expected = session.run(None, feeds)
    results: list[Any] = list(svod_onnx.load(proto)(**feeds).values())
    for result, reference in zip(results, expected, strict=True):
        array = result.numpy() if isinstance(result, Tensor) else result
        assert array.dtype == reference.dtype
        assert array.shape == reference.shape
        if reference.dtype.kind == "f":
            np.testing.assert_allclose(array, reference, rtol=1e-4, atol=1e-5)
        else:
            assert np.abs(array.astype(int) - reference.astype(int)).max() <= steps


@pytest.mark.parametrize("transposes", [{}, {"transB": 1}, {"transA": 1}])
@pytest.mark.parametrize("is_per_column", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_quantized", [False, True])
@pytest.mark.parametrize("dtypes", [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
def test_q_gemm(
    make_node_model: MakeModel,
    transposes: dict[str, int],
    is_per_column: bool,
    has_bias: bool,
    is_quantized: bool,
    dtypes: tuple[str, str],
) -> None:
    a, b = _sample(3, 6, dtype=dtypes[0]), _sample(6, 4, dtype=dtypes[1])
    n = 4 if is_per_column else 1
    scale = _RANDOM.random(n).astype(np.float32) * 0.02 + 0.01
    zero = np.full(n, 3, dtypes[1])
    output = [np.array(0.2, np.float32), np.array(7, dtypes[0])] if is_quantized else []
    _check(
        make_node_model,
        "QGemm",
        [
            a.T.copy() if "transA" in transposes else a,
            _SCALES[0],
            np.array(5, dtypes[0]),
            b.T.copy() if "transB" in transposes else b,
            scale if is_per_column else scale.reshape(()),
            zero if is_per_column else zero.reshape(()),
            _RANDOM.integers(-900, 900, 4).astype(np.int32) if has_bias else None,
            *output,
        ],
        constants=[3, 4, 5],
        alpha=0.5,
        **transposes,
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 12), (2, 11)])
def test_qlinear_softmax(make_node_model: MakeModel, dtype: str, axis: int, opset: int) -> None:
    inputs = [
        _sample(2, 3, 4, dtype=dtype),
        _SCALES[0],
        np.array(5, dtype),
        np.array(1 / 256, np.float32),
        np.array(0 if dtype == "uint8" else -128, dtype),
    ]
    _check(
        make_node_model, "QLinearSoftmax", inputs, constants=[1, 2, 3, 4], axis=axis, opset=opset
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_qlinear_average_pool(
    make_node_model: MakeModel, dtype: str, channels_last: int, count_include_pad: int
) -> None:
    x = _sample(2, 3, 7, 6, dtype=dtype)
    x = np.moveaxis(x, 1, -1).copy() if channels_last else x
    zeros = [np.array(value, dtype) for value in (5, 9)]
    _check(
        make_node_model,
        "QLinearAveragePool",
        [x, _SCALES[0], zeros[0], _SCALES[1], zeros[1]],
        kernel_shape=[3, 2],
        strides=[2, 2],
        pads=[1, 0, 1, 0],
        channels_last=channels_last,
        count_include_pad=count_include_pad,
    )


@pytest.mark.parametrize("channels_last", [0, 1])
def test_qlinear_conv(make_node_model: MakeModel, channels_last: int) -> None:
    x, w = _sample(2, 3, 6, 5), _sample(4, 3, 3, 3, dtype="int8")
    _check(
        make_node_model,
        "QLinearConv",
        [
            np.moveaxis(x, 1, -1).copy() if channels_last else x,
            _SCALES[0],
            np.array(5, np.uint8),
            w,
            _SCALES[1],
            np.array(0, np.int8),
            np.array(2.5, np.float32),
            np.array(90, np.uint8),
            _RANDOM.integers(-900, 900, 4).astype(np.int32),
        ],
        constants=[1, 2, 3, 4, 5, 6, 7, 8],
        pads=[1, 1, 1, 1],
        channels_last=channels_last,
    )


def test_qlinear_where(make_node_model: MakeModel) -> None:
    zeros = [np.array(value, np.uint8) for value in (5, 9, 3)]
    x, y = _sample(3, 4), _sample(4)
    condition = _RANDOM.random((3, 1)) < 0.5
    inputs = [condition, x, _SCALES[0], zeros[0], y, _SCALES[1], zeros[1], _SCALES[2], zeros[2]]
    _check(make_node_model, "QLinearWhere", inputs, constants=[2, 3, 5, 6, 7, 8])


def test_qlinear_reduce_mean(run_node: Callable[..., list[np.ndarray]]) -> None:
    # onnxruntime has no kernel for it on CPUs.
    x = _sample(2, 3, 4)
    inputs = [x, _SCALES[0], np.array(5, np.uint8), _SCALES[1], np.array(9, np.uint8)]
    (result,) = run_node(
        "QLinearReduceMean", inputs, 21, domain="com.microsoft", axes=[1], keepdims=1
    )
    mean = ((x.astype(np.float32) - 5) * _SCALES[0]).mean(1, keepdims=True)
    expected = np.clip(np.round(mean / _SCALES[1]) + 9, 0, 255)
    assert np.abs(result - expected).max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("is_per_column", [False, True])
@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, [3, 2]])
@pytest.mark.parametrize("n_past", [0, 2])
def test_q_attention(
    make_node_model: MakeModel,
    dtype: str,
    is_per_column: bool,
    unidirectional: int,
    mask: list[int] | None,
    n_past: int,
) -> None:
    n = 24 if is_per_column else 1
    scale = _RANDOM.random(n).astype(np.float32) * 0.004 + 0.002
    zero = np.full(n, 3, dtype)
    _check(
        make_node_model,
        "QAttention",
        [
            _sample(2, 4, 8),
            _sample(8, 24, dtype=dtype),
            _sample_floats(24),
            _SCALES[0],
            scale if is_per_column else scale.reshape(()),
            None if mask is None else np.array(mask, np.int32),
            np.array(120, np.uint8),
            zero if is_per_column else zero.reshape(()),
            _sample_floats(2, 2, 2, n_past, 4) if n_past else None,
        ],
        constants=[1, 2, 3, 4, 6, 7],
        n_outputs=2 if n_past else 1,
        num_heads=2,
        unidirectional=unidirectional,
    )


@pytest.mark.parametrize("has_segments", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
def test_q_embed_layer_normalization(
    make_node_model: MakeModel, has_segments: bool, has_mask: bool
) -> None:
    ids = _RANDOM.integers(0, 9, (2, 3)).astype(np.int32)
    segments = _RANDOM.integers(0, 2, (2, 3)).astype(np.int32)
    scales = [np.array(value, np.float32) for value in (0.02, 0.03, 0.025, 0.01, 0.015)]
    zeros = [np.array(value, np.uint8) for value in (128, 120, 130, 100, 90)]
    tables = [_sample(9, 8), _sample(5, 8), _sample(2, 8), _sample(8), _sample(8)]
    if not has_segments:
        tables[2] = scales[2] = zeros[2] = None  # type: ignore[call-overload]
    inputs = [
        ids,
        segments if has_segments else None,
        *tables,
        np.array([[1, 1, 0], [1, 1, 1]], np.int32) if has_mask else None,
        *scales,
        *zeros,
    ]
    constants = [i for i in range(2, 18) if inputs[i] is not None and i != 7]
    _check(make_node_model, "QEmbedLayerNormalization", inputs, n_outputs=2, constants=constants)
