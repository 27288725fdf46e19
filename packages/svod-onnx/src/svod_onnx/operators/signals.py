"""Fourier transforms of signals, and the windows and weights that go with them."""

from __future__ import annotations

from math import expm1, floor, log, log1p, pi
from typing import Final

import onnx

from svod_onnx._registry import Ints, Known, operator
from svod_onnx._trace import Call
from svod_onnx.operators.casting import convert
from svod_tensor import Tensor, fft

__all__ = ["dft", "dft_since_17", "mel_weight_matrix", "stft", "window"]

_FLOAT: Final = onnx.TensorProto.FLOAT

_WINDOWS: Final = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),
    "HannWindow": (0.5, -0.5),
}
"""The factors of the cosines of 0, 1 and 2 turns along a window."""


@operator("DFT", since=20)
def dft(
    input: Tensor,
    dft_length: Ints | None = None,
    axis: Ints | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """The real and imaginary parts lie along the last axis, which has size 1 where there are real
    ones only.
    """
    place = -2 if axis is None else axis[0]
    if not -input.ndim <= place < input.ndim or place % input.ndim == input.ndim - 1:
        raise ValueError(f"transforms along axis {place} of {input.ndim}, which is none of signals")
    place %= input.ndim
    size = None if dft_length is None else dft_length[0]
    signal = _join_parts(input)
    if inverse and onesided:
        return fft.irfft(signal, n=size, axis=place).unsqueeze(-1).cast(input.dtype)
    if inverse:
        return fft.ifft(signal, n=size, axis=place).as_real().cast(input.dtype)
    return (
        _transform_forward(signal, size, place, onesided=bool(onesided)).as_real().cast(input.dtype)
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
    return dft(input, dft_length, [axis], inverse=inverse, onesided=onesided)


def _join_parts(x: Tensor) -> Tensor:
    """Real or complex numbers without the axis of parts, of 32 bits at least for a part."""
    if x.shape[-1] not in (1, 2):
        raise ValueError(f"has {x.shape[-1]} parts along its last axis, which are one or two")
    wide = x.cast("float32") if x.dtype.itemsize < 4 else x
    return wide.squeeze(-1) if x.shape[-1] == 1 else wide.as_complex()


def _transform_forward(signal: Tensor, size: int | None, axis: int, *, onesided: bool) -> Tensor:
    if not onesided:
        return fft.fft(signal, n=size, axis=axis)
    if not signal.dtype.is_complex:
        return fft.rfft(signal, n=size, axis=axis)
    found = fft.fft(signal, n=size, axis=axis)
    return found[(slice(None),) * axis + (slice(found.shape[axis] // 2 + 1),)]


@operator("STFT")
def stft(
    signal: Tensor,
    frame_step: Ints,
    window: Tensor | None = None,
    frame_length: Ints | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """The transforms of frames, `frame_step` apart, each multiplied by the window: shape (batch,
    frames, frequencies, 2).
    """
    if signal.ndim != 3:
        raise ValueError(
            f"takes a signal of shape (batch, time, parts), and got {tuple(signal.shape)}"
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
            f"has frames of length {size}, and a window of shape {tuple(window.shape)}"
        )
    if not isinstance(size, int):
        raise ValueError(f"has frames of length {size}, which must be a number")
    wide = signal.cast("float32") if signal.dtype.itemsize < 4 else signal
    frames = wide.transpose(1, 2).windows((size,), (frame_step[0],), (1,))
    if window is not None:
        frames = frames * window.cast(frames.dtype)
    numbers = _join_parts(frames.permute(0, 2, 3, 1))
    return (
        _transform_forward(numbers, None, 2, onesided=bool(onesided)).as_real().cast(signal.dtype)
    )


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def window(node: Call, size: Ints, *, output_datatype: int = _FLOAT, periodic: int = 1) -> Tensor:
    """A sum of cosines; one that is not periodic ends as it begins, and is 1 where it has one
    element.
    """
    factors = _WINDOWS[node.operator]
    node.set_element_type(output_datatype)
    (length,) = size
    if length == 1 and not periodic:
        return convert(Tensor.ones(1, dtype="float64", device=node.trace.device), output_datatype)
    turns = Tensor.arange(length, dtype="float64", device=node.trace.device) / (
        length if periodic else length - 1
    )
    total = turns * 0.0 + factors[0]
    for number, factor in enumerate(factors[1:], 1):
        total = total + (turns * (2 * pi * number)).cos() * factor
    return convert(total, output_datatype)


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
    """Triangles of height 1 over frequencies, equally far apart on the mel scale: shape (dft_length
    // 2 + 1, num_mel_bins).
    """
    node.set_element_type(output_datatype)
    (n_bands,), (length,), (rate,) = num_mel_bins, dft_length, sample_rate
    low, high = (_to_mel(float(edge.item())) for edge in (lower_edge_hertz, upper_edge_hertz))
    # The standard divides by the number of edges, and not by that of the steps between them.
    step = (high - low) / (n_bands + 2)
    edges = [
        floor((length + 1) * _to_hertz(low + number * step) / rate) for number in range(n_bands + 2)
    ]
    device = node.trace.device
    left, center, right = (
        Tensor(edges[first : first + n_bands], dtype="float64", device=device) for first in range(3)
    )
    places = Tensor.arange(length // 2 + 1, dtype="float64", device=device).unsqueeze(1)
    up = (center > left).where((places - left) / (center - left).maximum(1.0), 1.0)
    down = (right - places) / (right - center).maximum(1.0)
    is_rising = (places >= left) & (places <= center)
    is_falling = (places >= center) & (places < right)
    weights = is_falling.where(down, is_rising.where(up, 0.0))
    return convert(weights, output_datatype)


def _to_mel(hertz: float) -> float:
    return 2595 * log1p(hertz / 700) / log(10)


def _to_hertz(mel: float) -> float:
    return 700 * expm1(mel / 2595 * log(10))
