"""Resize: agreement with onnxruntime and torch where the specification leaves a choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import svod_onnx

_MakeModel = Callable[..., onnx.ModelProto]


def _make(
    make_node_model: _MakeModel,
    x: np.ndarray,
    version: int,
    *,
    roi: list[float] | None = None,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    operands = [
        x,
        None if roi is None else np.array(roi, np.float32),
        None if scales is None else np.array(scales, np.float32),
        None if sizes is None else np.array(sizes),
    ]
    constants = [i for i, operand in enumerate(operands) if i and operand is not None]
    return make_node_model("Resize", operands, version, constants=constants, **attributes)


def _run_onnxruntime(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    (result,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x0": x})
    return result


@pytest.mark.parametrize("version", [13, 19])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(1.5, 2.3), (0.6, 0.8), (1.0, 1.7)])
def test_align_corners_with_fractional_scales_aligns_the_last_elements(
    make_node_model: _MakeModel, version: int, mode: str, scales: tuple[float, float]
) -> None:
    torch = pytest.importorskip("torch")
    for size in (4, 5, 7):
        x = np.random.default_rng(size).standard_normal((1, 1, size, size)).astype(np.float32)
        proto = _make(
            make_node_model,
            x,
            version,
            scales=[1.0, 1.0, *scales],
            mode=mode,
            coordinate_transformation_mode="align_corners",
        )
        result = svod_onnx.load(proto)(x0=x)["y0"].numpy()
        np.testing.assert_allclose(result, _run_onnxruntime(proto, x), rtol=1e-4, atol=1e-5)
        expected = torch.nn.functional.interpolate(
            torch.tensor(x), scale_factor=scales, mode=f"bi{mode}", align_corners=True
        )
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("region", [(0.0, 1.0), (0.1, 0.9), (0.25, 0.75), (0.2, 0.7)])
def test_ties_of_tf_crop_and_resize_are_those_of_onnxruntime(
    make_node_model: _MakeModel, nearest_mode: str, region: tuple[float, float]
) -> None:
    begin, end = region
    for size in (4, 5, 8):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)
        # onnxruntime does not crop an axis of equal size.
        for output_size in set(range(1, 14)) - {size}:
            proto = _make(
                make_node_model,
                x,
                13,
                roi=[0, 0, 0, begin, 1, 1, 1, end],
                sizes=[1, 1, 1, output_size],
                mode="nearest",
                nearest_mode=nearest_mode,
                coordinate_transformation_mode="tf_crop_and_resize",
            )
            result = svod_onnx.load(proto)(x0=x)["y0"]
            assert result.tolist() == _run_onnxruntime(proto, x).tolist(), output_size


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "half_pixel_symmetric"])
def test_a_coordinate_near_the_middle_is_a_tie(
    make_node_model: _MakeModel, nearest_mode: str, coordinates: str
) -> None:
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 1, 7)
    for scale in (1.7, 0.6, 4 / 7, 2 / 7, 16 / 7, 1 / 3):
        proto = _make(
            make_node_model,
            x,
            19,
            scales=[1.0, 1.0, 1.0, scale],
            mode="nearest",
            nearest_mode=nearest_mode,
            coordinate_transformation_mode=coordinates,
        )
        result = svod_onnx.load(proto)(x0=x)["y0"]
        assert result.tolist() == _run_onnxruntime(proto, x).tolist(), scale
