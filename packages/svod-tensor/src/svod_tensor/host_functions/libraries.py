"""Host functions of array libraries. A library is imported when a function is first called.

Memory is never complex: a complex array is passed as pairs of floats along a trailing axis. The
first scalar argument of a function is a bit mask of its complex arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FFT", "FUNCTIONS", "LINALG", "REDUCE_AT"]

LINALG: Final = "svod.linalg."
"""Prefix of the names of matrix functions."""

FFT: Final = "svod.fft."
"""Prefix of the names of Fourier transforms."""

REDUCE_AT: Final = "svod.reduce_at."
"""Prefix of the names of scatter reductions."""

_MATRICES: Final = (
    "cholesky",
    "cofactors",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
)
_TRANSFORMS: Final = ("from_real", "to_real", "transform")
_REDUCTIONS_AT: Final = ("prod", "amax", "amin")


def _call_matrices(name: str) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        from svod_tensor.linalg.lapack import host

        host.FUNCTIONS[name](*_read_pairs(arguments))

    return call


def _call_transforms(name: str) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        from svod_tensor.host_functions import transforms

        transforms.FUNCTIONS[name](*_read_pairs(arguments))

    return call


def _call_reductions_at(name: str) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        from svod_tensor.host_functions import scatter_reductions

        scatter_reductions.FUNCTIONS[name](*_read_pairs(arguments))

    return call


def _read_pairs(arguments: tuple[object, ...]) -> list[object]:
    """The arguments without the bit mask, with complex arrays instead of arrays of pairs."""
    import numpy as np

    n_arrays = sum(isinstance(x, np.ndarray) for x in arguments)
    complex_mask = cast("int", arguments[n_arrays])
    converted: list[object] = [*arguments[:n_arrays], *arguments[n_arrays + 1 :]]
    for i in range(n_arrays):
        if complex_mask >> i & 1:
            array = cast("NDArray[Any]", arguments[i])
            converted[i] = array.view(np.result_type(array.dtype, np.complex64))[..., 0]
    return converted


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    **{f"{LINALG}{name}": _call_matrices(name) for name in _MATRICES},
    **{f"{FFT}{name}": _call_transforms(name) for name in _TRANSFORMS},
    **{f"{REDUCE_AT}{name}": _call_reductions_at(name) for name in _REDUCTIONS_AT},
}
"""Functions by the kind of their custom functions. The outputs come first."""
