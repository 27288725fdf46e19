"""Operators on signals, where the conformance suite has no case."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import pytest

from svod_onnx.errors import NodeError

RunNode = Callable[..., list[np.ndarray]]


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def test_a_transform_of_complex_numbers_is_padded_and_halved(run_node: RunNode) -> None:
    x = _draw(2, 5, 3, 2)
    (found,) = run_node("DFT", [x, np.array(8), np.array(-3)], 20, constants=[1, 2], onesided=1)
    wanted = np.fft.fft(x[..., 0] + 1j * x[..., 1], n=8, axis=1)[:, :5]
    np.testing.assert_allclose(
        found, np.stack([wanted.real, wanted.imag], -1), rtol=1e-4, atol=1e-5
    )


def test_half_a_transform_becomes_real_numbers(run_node: RunNode) -> None:
    x = _draw(2, 7, 1)
    half = np.fft.rfft(x[..., 0], axis=1)
    parts = np.stack([half.real, half.imag], -1).astype(np.float16)
    (found,) = run_node("DFT", [parts, np.array(7)], 17, constants=[1], onesided=1, inverse=1)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), x, rtol=1e-2, atol=1e-2)


def test_no_transform_is_along_the_axis_of_parts(run_node: RunNode) -> None:
    with pytest.raises(NodeError, match="none of signals"):
        run_node("DFT", [_draw(2, 4, 2), None, np.array(2)], 20, constants=[2])
    with pytest.raises(NodeError, match="one or two"):
        run_node("DFT", [_draw(2, 4, 3)], 20)


def test_frames_without_a_window_of_complex_numbers(run_node: RunNode) -> None:
    x = _draw(1, 11, 2)
    (found,) = run_node(
        "STFT", [x, np.array(3), None, np.array(4)], 17, constants=[1, 3], onesided=0
    )
    numbers = np.stack(
        [(x[..., 0] + 1j * x[..., 1])[:, first : first + 4] for first in (0, 3, 6)], 1
    )
    wanted = np.fft.fft(numbers)
    np.testing.assert_allclose(
        found, np.stack([wanted.real, wanted.imag], -1), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(NodeError, match="a window of shape"):
        run_node(
            "STFT", [x, np.array(3), np.ones(5, np.float32), np.array(4)], 17, constants=[1, 3]
        )


@pytest.mark.parametrize(
    ("name", "make"), [("HannWindow", np.hanning), ("BlackmanWindow", np.blackman)]
)
def test_windows_of_any_type_and_size(
    run_node: RunNode, name: str, make: Callable[[int], np.ndarray]
) -> None:
    for size in (0, 1, 2, 9):
        (found,) = run_node(
            name,
            [np.array(size)],
            17,
            constants=[0],
            periodic=0,
            output_datatype=onnx.TensorProto.DOUBLE,
        )
        np.testing.assert_allclose(found, make(size), atol=1e-12, strict=True)
        kind = onnx.TensorProto.BFLOAT16
        (found,) = run_node(name, [np.array(size)], 17, constants=[0], output_datatype=kind)
        np.testing.assert_array_equal(
            found, make(size + 1)[:size].astype(ml_dtypes.bfloat16), strict=True
        )
