"""Fourier transforms on the host, by numpy's pocketfft."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FUNCTIONS"]

Array: TypeAlias = "NDArray[Any]"

_NORMS: Final[Mapping[bool, Sequence[Literal["backward", "forward", "ortho"]]]] = {
    False: ("backward", "forward", "ortho"),
    True: ("forward", "backward", "ortho"),
}
"""numpy's norm for each scale (none, number of points, its square root), by `is_inverse`."""


def _transform(out: Array, x: Array, is_inverse: bool, scale: int, *axes: int) -> None:
    function = np.fft.ifftn if is_inverse else np.fft.fftn
    function(x, axes=axes, norm=_NORMS[is_inverse][scale], out=out)


def _from_real(out: Array, x: Array, scale: int, axis: int) -> None:
    np.fft.rfft(x, axis=axis, norm=_NORMS[False][scale], out=out)


def _to_real(out: Array, x: Array, scale: int, axis: int) -> None:
    np.fft.irfft(x, out.shape[axis], axis, norm=_NORMS[True][scale], out=out)


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    "transform": _transform,
    "from_real": _from_real,
    "to_real": _to_real,
}
"""Host functions by name; `svod.fft.<name>` in graphs and profiles."""
