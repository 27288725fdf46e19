"""Fourier transforms of signals, their window functions, and mel weights."""

from __future__ import annotations

from math import log, log1p, pi
from typing import Final

import numpy as np
import onnx

from svod_onnx._registry import Ints, Known, operator
from svod_onnx._trace import Call
from svod_onnx.operators.casting import convert
from svod_tensor import Tensor, asarray, fft

__all__ = ["dft", "dft_since_17", "mel_weight_matrix", "stft", "window"]

_FLOAT: Final = onnx.TensorProto.FLOAT

_WINDOWS: Final = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),
    "HannWindow": (0.5, -0.5),
}
"""Coefficients of the cosines of 0, 1 and 2 periods along a window."""


@operator("DFT", since=20)
def dft(
    input: Tensor,
    dft_length: Ints | None = None,
    axis: Ints | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Discrete Fourier transform along an axis.

    The last axis has the real and imaginary parts, or size 1 for a real signal.
    """
    signal_axis = -2 if axis is None else axis[0]
    if not -input.ndim <= signal_axis < input.ndim or signal_axis % input.ndim == input.ndim - 1:
        raise ValueError(
            f"axis {signal_axis} is not a signal axis of an input of rank {input.ndim}; the last axis has the parts"
        )
    signal_axis %= input.ndim
    size = None if dft_length is None else dft_length[0]
    signal = _to_complex(input)
    if inverse and onesided:
        # A real signal has half a spectrum, so the result has one part.
        return fft.irfft(signal, n=size, axis=signal_axis).unsqueeze(-1).cast(input.dtype)
    if inverse:
        return fft.ifft(signal, n=size, axis=signal_axis).as_real().cast(input.dtype)
    return (
        _transform_forward(signal, size, signal_axis, onesided=bool(onesided))
        .as_real()
        .cast(input.dtype)
    )


@operator("DFT")
def dft_since_17(
    input: Tensor,
    dft_length: Ints | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """DFT of version 17, with the axis as an attribute."""
    return dft(input, dft_length, [axis], inverse=inverse, onesided=onesided)


def _to_complex(x: Tensor) -> Tensor:
    """Real or complex elements without the axis of parts, each part with at least 32 bits."""
    if x.shape[-1] not in (1, 2):
        raise ValueError(f"the last axis must have size 1 (real) or 2 (complex), got {x.shape[-1]}")
    # There are no complex dtypes with half-precision parts.
    wide = x.cast("float32") if x.dtype.itemsize < 4 else x
    return wide.squeeze(-1) if x.shape[-1] == 1 else wide.as_complex()


def _transform_forward(signal: Tensor, size: int | None, axis: int, *, onesided: bool) -> Tensor:
    if not onesided:
        return fft.fft(signal, n=size, axis=axis)
    # A real transform computes only the nonredundant half.
    if not signal.dtype.is_complex:
        return fft.rfft(signal, n=size, axis=axis)
    spectrum = fft.fft(signal, n=size, axis=axis)
    return spectrum[(slice(None),) * axis + (slice(spectrum.shape[axis] // 2 + 1),)]


@operator("STFT")
def stft(
    signal: Tensor,
    frame_step: Ints,
    window: Tensor | None = None,
    frame_length: Ints | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Transforms of windowed frames, `frame_step` apart, of shape (batch, frames,
    frequencies, 2).
    """
    if signal.ndim != 3:
        raise ValueError(
            f"expected a signal of shape (batch, time, parts), got {tuple(signal.shape)}"
        )
    size = (
        frame_length[0]
        if frame_length is not None
        else signal.shape[1]
        if window is None
        else window.shape[0]
    )
    if window is not None and window.shape != (size,):
        raise ValueError(
            f"expected a window of shape ({size},), the frame length, got {tuple(window.shape)}"
        )
    if not isinstance(size, int):
        raise ValueError(f"the frame length must be known, got {size}")
    wide = signal.cast("float32") if signal.dtype.itemsize < 4 else signal
    frames = wide.transpose(1, 2).windows((size,), (frame_step[0],), (1,))
    if window is not None:
        frames = frames * window.cast(frames.dtype)
    samples = _to_complex(frames.permute(0, 2, 3, 1))
    return (
        _transform_forward(samples, None, 2, onesided=bool(onesided)).as_real().cast(signal.dtype)
    )


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def window(node: Call, size: Ints, *, output_datatype: int = _FLOAT, periodic: int = 1) -> Tensor:
    """Window function, a sum of cosines.

    A window that is not periodic is symmetric, and is 1 if it has one element.
    """
    factors = _WINDOWS[node.operator]
    node.set_element_type(output_datatype)
    (length,) = size
    # The general formula would divide by length - 1 = 0.
    if length == 1 and not periodic:
        return convert(Tensor.ones(1, dtype="float64", device=node.trace.device), output_datatype)
    phases = Tensor.arange(length, dtype="float64", device=node.trace.device) / (
        length if periodic else length - 1
    )
    sum_ = phases * 0.0 + factors[0]
    for order, factor in enumerate(factors[1:], 1):
        sum_ = sum_ + (phases * (2 * pi * order)).cos() * factor
    return convert(sum_, output_datatype)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    node: Call,
    num_mel_bins: Ints,
    dft_length: Ints,
    sample_rate: Ints,
    lower_edge_hertz: Known,
    upper_edge_hertz: Known,
    *,
    output_datatype: int = _FLOAT,
) -> Tensor:
    """Triangular filters of height 1, equally spaced on the mel scale, of shape (dft_length // 2 +
    1, num_mel_bins).
    """
    node.set_element_type(output_datatype)
    (n_bands,), (length,), (rate,) = num_mel_bins, dft_length, sample_rate
    low, high = (_to_mel(float(edge.item())) for edge in (lower_edge_hertz, upper_edge_hertz))
    # The standard divides by the number of edges, and not by the number of intervals.
    step = (high - low) / (n_bands + 2)
    hertz = _to_hertz(low + np.arange(n_bands + 2) * step)
    edges = np.floor((length + 1) * hertz / rate)
    device = node.trace.device
    left, center, right = (
        asarray(edges[first : first + n_bands], device=device) for first in range(3)
    )
    bins = Tensor.arange(length // 2 + 1, dtype="float64", device=device).unsqueeze(1)
    # Edges are rounded to bins, so that neighbors may coincide; the maximum avoids a division by
    # 0.
    rising = (center > left).where((bins - left) / (center - left).maximum(1.0), 1.0)
    falling = (right - bins) / (right - center).maximum(1.0)
    is_rising = (bins >= left) & (bins <= center)
    is_falling = (bins >= center) & (bins < right)
    weights = is_falling.where(falling, is_rising.where(rising, 0.0))
    return convert(weights, output_datatype)


def _to_mel(hertz: float) -> float:
    return 2595 * log1p(hertz / 700) / log(10)


def _to_hertz(mel: np.ndarray) -> np.ndarray:
    return 700 * np.expm1(mel / 2595 * log(10))
