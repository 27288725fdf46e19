"""Signal operators beyond the conformance suite."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import pytest

from svod_onnx.errors import NodeError

RunNode = Callable[..., list[np.ndarray]]


def _sample(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def test_a_onesided_dft_of_a_padded_complex_signal(run_node: RunNode) -> None:
    x = _sample(2, 5, 3, 2)
    (result,) = run_node("DFT", [x, np.array(8), np.array(-3)], 20, constants=[1, 2], onesided=1)
    reference = np.fft.fft(x[..., 0] + 1j * x[..., 1], n=8, axis=1)[:, :5]
    np.testing.assert_allclose(
        result, np.stack([reference.real, reference.imag], -1), rtol=1e-4, atol=1e-5
    )


def test_an_inverse_onesided_dft_is_real(run_node: RunNode) -> None:
    x = _sample(2, 7, 1)
    half = np.fft.rfft(x[..., 0], axis=1)
    spectrum = np.stack([half.real, half.imag], -1).astype(np.float16)
    (result,) = run_node("DFT", [spectrum, np.array(7)], 17, constants=[1], onesided=1, inverse=1)
    assert result.dtype == np.float16
    np.testing.assert_allclose(result.astype(np.float32), x, rtol=1e-2, atol=1e-2)


def test_dft_rejects_the_axis_of_parts(run_node: RunNode) -> None:
    with pytest.raises(NodeError, match="axis 2 is not a signal axis of an input of rank 3"):
        run_node("DFT", [_sample(2, 4, 2), None, np.array(2)], 20, constants=[2])
    with pytest.raises(NodeError, match=r"size 1 \(real\) or 2 \(complex\), got 3"):
        run_node("DFT", [_sample(2, 4, 3)], 20)


def test_stft_of_a_complex_signal_without_a_window(run_node: RunNode) -> None:
    x = _sample(1, 11, 2)
    (result,) = run_node(
        "STFT", [x, np.array(3), None, np.array(4)], 17, constants=[1, 3], onesided=0
    )
    frames = np.stack(
        [(x[..., 0] + 1j * x[..., 1])[:, first : first + 4] for first in (0, 3, 6)], 1
    )
    reference = np.fft.fft(frames)
    np.testing.assert_allclose(
        result, np.stack([reference.real, reference.imag], -1), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(
        NodeError, match=r"expected a window of shape \(4,\), the frame length, got \(5,\)"
    ):
        run_node(
            "STFT", [x, np.array(3), np.ones(5, np.float32), np.array(4)], 17, constants=[1, 3]
        )


@pytest.mark.parametrize(
    ("name", "make"), [("HannWindow", np.hanning), ("BlackmanWindow", np.blackman)]
)
def test_windows_of_any_dtype_and_size(
    run_node: RunNode, name: str, make: Callable[[int], np.ndarray]
) -> None:
    for size in (0, 1, 2, 9):
        (result,) = run_node(
            name,
            [np.array(size)],
            17,
            constants=[0],
            periodic=0,
            output_datatype=onnx.TensorProto.DOUBLE,
        )
        np.testing.assert_allclose(result, make(size), atol=1e-12, strict=True)
        kind = onnx.TensorProto.BFLOAT16
        (result,) = run_node(name, [np.array(size)], 17, constants=[0], output_datatype=kind)
        np.testing.assert_array_equal(
            result, make(size + 1)[:size].astype(ml_dtypes.bfloat16), strict=True
        )
