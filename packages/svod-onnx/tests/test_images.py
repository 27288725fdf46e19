"""Resize, regions of interest and image decoding beyond the conformance suite."""

from __future__ import annotations

import io

import numpy as np
import pytest

import svod_onnx
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import Variable, asarray

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("operator", "version"), [("Resize", 10), ("Upsample", 9)])
def test_old_upsampling_rounds_coordinates_down(run_node, operator, version):
    x = np.arange(3, dtype=np.float32)
    scales = np.array([2.5], np.float32)
    (value,) = run_node(operator, [x, scales], version, constants=[1])
    np.testing.assert_array_equal(value, [0, 0, 0, 1, 1, 2, 2])


def test_version_10_downsampling_rounds_coordinates_up(run_node):
    (value,) = run_node("Resize", [np.arange(7.0), np.array([0.6], np.float32)], 10, constants=[1])
    np.testing.assert_array_equal(value, [0, 2, 4, 5])


@pytest.mark.parametrize(
    "options", [{"scales": [1.0, 2.0, 3.0]}, {"height_scale": 2.0, "width_scale": 3.0}]
)
def test_scales_may_be_attributes(run_node, options):
    x = RNG.integers(0, 9, (2, 3, 4))
    (value,) = run_node("Upsample", [x], 7 if "scales" in options else 1, **options)
    np.testing.assert_array_equal(value, x.repeat(2, 1).repeat(3, 2))


def test_resized_integers_are_rounded_and_clamped(run_node):
    x = np.array([0, 255, 255, 0], np.uint8)
    (value,) = run_node(
        "Resize", [x, None, np.array([2.0], np.float32)], 19, constants=[2], mode="cubic"
    )
    assert value.dtype == np.uint8
    assert value.max() == 255
    assert value[0] == 0


def test_resize_to_an_empty_axis(run_node):
    x = np.zeros((2, 3), np.float32)
    (value,) = run_node(
        "Resize", [x, None, None, np.array([2, 0])], 19, constants=[3], mode="linear"
    )
    assert value.shape == (2, 0)
    with pytest.raises(NodeError, match="cannot resize axis 1 from 0 to 3 elements"):
        run_node("Resize", [x[:, :0], None, None, np.array([2, 3])], 19, constants=[3])


def test_computed_sizes_run_in_stages(run_node):
    x = np.arange(2, dtype=np.float32)
    for size in (4, 6):
        (value,) = run_node("Resize", [x, None, None, np.array([size])], 19)
        np.testing.assert_array_equal(value, x.repeat(size // 2))


def _roi_align_reference(image, region, sizes, scale):
    """RoiAlign of a region with a sample per element, as the specification defines it."""
    x1, y1, x2, y2 = (corner * scale - 0.5 for corner in region)
    value = np.zeros((image.shape[0], *sizes))
    height, width = (y2 - y1) / sizes[0], (x2 - x1) / sizes[1]
    rows, columns = max(int(np.ceil(height)), 0), max(int(np.ceil(width)), 0)
    for bin_ in np.ndindex(*sizes):
        for row in range(rows):
            for column in range(columns):
                y, x = (
                    y1 + (bin_[0] + (row + 0.5) / rows) * height,
                    x1 + (bin_[1] + (column + 0.5) / columns) * width,
                )
                if -1 <= y <= image.shape[1] and -1 <= x <= image.shape[2]:
                    y, x = np.clip(y, 0, image.shape[1] - 1), np.clip(x, 0, image.shape[2] - 1)
                    low, left = int(y), int(x)
                    down, right = (
                        min(low + 1, image.shape[1] - 1),
                        min(left + 1, image.shape[2] - 1),
                    )
                    above = image[:, low, left] * (1 - x + left) + image[:, low, right] * (x - left)
                    below = image[:, down, left] * (1 - x + left) + image[:, down, right] * (
                        x - left
                    )
                    value[(slice(None), *bin_)] += above * (1 - y + low) + below * (y - low)
    return value / max(rows * columns, 1)


def test_roi_align_samples_each_element(make_node_model):
    x = RNG.standard_normal((2, 3, 9, 7)).astype(np.float32)
    batch = np.array([1, 0, 1])
    regions = np.array([[0, 0, 14, 18], [3, 4, 40, 9], [6, 6, 2, 2]], np.float32)
    options = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}
    model = svod_onnx.load(make_node_model("RoiAlign", [x, regions, batch], 16, **options))
    for each in (regions, regions[::-1] * 0.5):
        value = model(x0=x, x1=each, x2=batch)["y0"].numpy()
        expected = [
            _roi_align_reference(x[b], region, (2, 3), 0.5)
            for b, region in zip(batch, each, strict=True)
        ]
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueNeededError, match="samples along axis 0"):
        model.to_function()(x, regions, batch)


def test_empty_bins_of_max_roi_pool_are_zero(run_node):
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    regions = np.array([[0, 1, 1, 4, 3], [0, 8, 8, 9, 9]], np.float32)
    (value,) = run_node("MaxRoiPool", [x, regions], 1, pooled_shape=[3, 2])
    np.testing.assert_array_equal(value[0, 0], [[7, 9], [12, 14], [17, 19]])
    np.testing.assert_array_equal(value[1, 0], np.zeros((3, 2)))


def test_image_decoder_orders_channels(run_node):
    images = pytest.importorskip("PIL.Image")
    picture = RNG.integers(0, 256, (3, 4, 3), dtype=np.uint8)
    file = io.BytesIO()
    images.fromarray(picture).save(file, "png")
    encoded = np.frombuffer(file.getvalue(), np.uint8)
    np.testing.assert_array_equal(run_node("ImageDecoder", [encoded], 20)[0], picture)
    np.testing.assert_array_equal(
        run_node("ImageDecoder", [encoded], 20, pixel_format="BGR")[0], picture[:, :, ::-1]
    )
    assert run_node("ImageDecoder", [encoded], 20, pixel_format="Grayscale")[0].shape == (3, 4, 1)
    with pytest.raises(NodeError, match="ImageDecoder in node 'node': cannot decode the image"):
        run_node("ImageDecoder", [encoded[:20]], 20)


def test_image_decoder_needs_pillow(run_node, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(NodeError, match="pip install pillow"):
        run_node("ImageDecoder", [np.zeros(4, np.uint8)], 20)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transformation", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
def test_integer_scale_factors_match_nearly_integer_ones(run_node, mode, transformation):
    x = RNG.standard_normal((2, 5, 4))
    even, uneven = (
        run_node(
            "Resize",
            [x, None, np.array([1, scale, scale], np.float32)],
            19,
            constants=[2],
            mode=mode,
            coordinate_transformation_mode=transformation,
        )[0]
        for scale in (3.0, 3.0 + 1e-6)
    )
    assert even.shape == (2, 15, 12)
    np.testing.assert_allclose(even, uneven, atol=1e-4)


def test_resize_of_a_symbolic_size(make_node_model):
    x = RNG.standard_normal((1, 6)).astype(np.float32)
    n = Variable("n", 1, 8)
    wide = asarray(np.pad(x, ((0, 0), (0, 2)))).shrink(None, (0, n.bind(6)))
    for mode in ("nearest", "linear"):
        operands = [x, None, np.array([1, 2], np.float32)]
        proto = make_node_model("Resize", operands, 19, constants=[2], mode=mode)
        proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
        model = svod_onnx.load(proto)
        np.testing.assert_allclose(
            model.to_function()(wide).numpy(), model(x0=x)["y0"].numpy(), rtol=1e-6
        )
