"""Resized images, regions and pictures where the conformance suite has no case."""

from __future__ import annotations

import io

import numpy as np
import pytest

import svod_onnx
from svod_onnx.errors import NodeError, ValueNeededError
from svod_tensor import Variable, asarray

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("operator", "version"), [("Resize", 10), ("Upsample", 9)])
def test_scales_of_old_versions_take_the_element_that_a_place_falls_into(
    run_node, operator, version
):
    x = np.arange(3, dtype=np.float32)
    scales = np.array([2.5], np.float32)
    (value,) = run_node(operator, [x, scales], version, constants=[1])
    np.testing.assert_array_equal(value, [0, 0, 0, 1, 1, 2, 2])


def test_version_10_takes_the_next_element_where_an_axis_becomes_shorter(run_node):
    (value,) = run_node("Resize", [np.arange(7.0), np.array([0.6], np.float32)], 10, constants=[1])
    np.testing.assert_array_equal(value, [0, 2, 4, 5])


@pytest.mark.parametrize(
    "options", [{"scales": [1.0, 2.0, 3.0]}, {"height_scale": 2.0, "width_scale": 3.0}]
)
def test_scales_may_be_attributes(run_node, options):
    x = RNG.integers(0, 9, (2, 3, 4))
    (value,) = run_node("Upsample", [x], 7 if "scales" in options else 1, **options)
    np.testing.assert_array_equal(value, x.repeat(2, 1).repeat(3, 2))


def test_aligned_corners_count_whole_elements_before_version_19(run_node):
    x, scales = np.arange(5.0), np.array([0.5], np.float32)
    for version, last in ((13, 4.0), (19, 4 / 1.5)):
        (value,) = run_node(
            "Resize",
            [x, None, scales],
            version,
            constants=[2],
            mode="linear",
            coordinate_transformation_mode="align_corners",
        )
        np.testing.assert_allclose(value, [0.0, last])


def test_resized_integers_are_rounded_and_brought_into_range(run_node):
    x = np.array([0, 255, 255, 0], np.uint8)
    (value,) = run_node(
        "Resize", [x, None, np.array([2.0], np.float32)], 19, constants=[2], mode="cubic"
    )
    assert value.dtype == np.uint8
    assert value.max() == 255
    assert value[0] == 0


def test_nothing_is_resized_to_nothing(run_node):
    x = np.zeros((2, 3), np.float32)
    (value,) = run_node(
        "Resize", [x, None, None, np.array([2, 0])], 19, constants=[3], mode="linear"
    )
    assert value.shape == (2, 0)
    with pytest.raises(NodeError, match="makes 3 elements of 0 along axis 1"):
        run_node("Resize", [x[:, :0], None, None, np.array([2, 3])], 19, constants=[3])


def test_sizes_that_are_computed_wait_for_their_numbers(run_node):
    x = np.arange(2, dtype=np.float32)
    for size in (4, 6):
        (value,) = run_node("Resize", [x, None, None, np.array([size])], 19)
        np.testing.assert_array_equal(value, x.repeat(size // 2))


def _align_one(image, region, sizes, scale):
    """One mean for each part of a region with a sample for each element, as the definition
    says it.
    """
    x1, y1, x2, y2 = (number * scale - 0.5 for number in region)
    value = np.zeros((image.shape[0], *sizes))
    height, width = (y2 - y1) / sizes[0], (x2 - x1) / sizes[1]
    rows, columns = max(int(np.ceil(height)), 0), max(int(np.ceil(width)), 0)
    for part in np.ndindex(*sizes):
        for row in range(rows):
            for column in range(columns):
                y, x = (
                    y1 + (part[0] + (row + 0.5) / rows) * height,
                    x1 + (part[1] + (column + 0.5) / columns) * width,
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
                    value[(slice(None), *part)] += above * (1 - y + low) + below * (y - low)
    return value / max(rows * columns, 1)


def test_regions_of_any_size_have_a_sample_for_each_element(make_node_model):
    x = RNG.standard_normal((2, 3, 9, 7)).astype(np.float32)
    batch = np.array([1, 0, 1])
    regions = np.array([[0, 0, 14, 18], [3, 4, 40, 9], [6, 6, 2, 2]], np.float32)
    options = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}
    model = svod_onnx.load(make_node_model("RoiAlign", [x, regions, batch], 16, **options))
    for each in (regions, regions[::-1] * 0.5):
        value = model(x0=x, x1=each, x2=batch)["y0"].numpy()
        wanted = [
            _align_one(x[b], region, (2, 3), 0.5) for b, region in zip(batch, each, strict=True)
        ]
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueNeededError, match="samples along axis 0"):
        model.to_function()(x, regions, batch)


def test_parts_of_regions_without_elements_are_zero(run_node):
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    regions = np.array([[0, 1, 1, 4, 3], [0, 8, 8, 9, 9]], np.float32)
    (value,) = run_node("MaxRoiPool", [x, regions], 1, pooled_shape=[3, 2])
    np.testing.assert_array_equal(value[0, 0], [[7, 9], [12, 14], [17, 19]])
    np.testing.assert_array_equal(value[1, 0], np.zeros((3, 2)))


def test_pictures_have_their_channels_in_the_wanted_order(run_node):
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
    with pytest.raises(NodeError, match="ImageDecoder in node 'node': cannot decode its bytes"):
        run_node("ImageDecoder", [encoded[:20]], 20)


def test_pictures_are_decoded_where_pillow_is(run_node, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(NodeError, match="pip install pillow"):
        run_node("ImageDecoder", [np.zeros(4, np.uint8)], 20)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("places", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
def test_axes_that_become_whole_times_as_long_are_as_those_that_nearly_do(run_node, mode, places):
    x = RNG.standard_normal((2, 5, 4))
    even, uneven = (
        run_node(
            "Resize",
            [x, None, np.array([1, scale, scale], np.float32)],
            19,
            constants=[2],
            mode=mode,
            coordinate_transformation_mode=places,
        )[0]
        for scale in (3.0, 3.0 + 1e-6)
    )
    assert even.shape == (2, 15, 12)
    np.testing.assert_allclose(even, uneven, atol=1e-4)


def test_axes_of_sizes_that_are_not_known_yet_become_twice_as_long(make_node_model):
    x = RNG.standard_normal((1, 6)).astype(np.float32)
    n = Variable("n", 1, 8)
    wide = asarray(np.pad(x, ((0, 0), (0, 2)))).shrink(None, (0, n.bind(6)))
    for mode in ("nearest", "linear"):
        given = [x, None, np.array([1, 2], np.float32)]
        proto = make_node_model("Resize", given, 19, constants=[2], mode=mode)
        proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
        model = svod_onnx.load(proto)
        np.testing.assert_allclose(
            model.to_function()(wide).numpy(), model(x0=x)["y0"].numpy(), rtol=1e-6
        )
