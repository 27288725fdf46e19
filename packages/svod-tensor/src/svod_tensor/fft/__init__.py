"""Fourier transforms: the extension `fft` of the array API standard.

Transforms are computed by pocketfft, which numpy calls on the host: for tensors on the CPU in their
own memory, for others in a copy. Sharded tensors are gathered on one device. Results of float64 and
complex128 are double precision, all others complex64 or float32. Each transform is linear, and its
derivative, of every order and in both modes, is another transform.

Example:
    >>> import svod_tensor as sv
    >>> abs(sv.fft.fft(sv.asarray([1.0, 0.0, 0.0, 0.0]))).tolist()
    [1.0, 1.0, 1.0, 1.0]
"""

from __future__ import annotations

from svod_tensor.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from svod_tensor.fft.one_axis import fft, hfft, ifft, ihfft, irfft, rfft
from svod_tensor.fft.several_axes import fftn, ifftn, irfftn, rfftn

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
