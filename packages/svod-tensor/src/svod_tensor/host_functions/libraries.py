"""Functions of libraries for arrays that operations call on the host; the libraries are imported
where one is called first.

Memory is never complex: a complex array comes as pairs of floats along a last axis. The first
number that a function gets says, bit by bit, which of its arrays are pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FFT", "FUNCTIONS", "LINALG", "REDUCE_AT"]

LINALG: Final = "svod.linalg."
"""What the names of functions of matrices begin with."""

FFT: Final = "svod.fft."
"""What the names of Fourier transforms begin with."""

REDUCE_AT: Final = "svod.reduce_at."
"""What the names of reductions of what is written to the same places begin with."""

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
    """The arguments without the number that says which arrays are pairs, and these as complex
    numbers.
    """
    import numpy as np

    n_arrays = sum(isinstance(x, np.ndarray) for x in arguments)
    pairs = cast("int", arguments[n_arrays])
    found: list[object] = [*arguments[:n_arrays], *arguments[n_arrays + 1 :]]
    for number in range(n_arrays):
        if pairs >> number & 1:
            array = cast("NDArray[Any]", arguments[number])
            found[number] = array.view(np.result_type(array.dtype, np.complex64))[..., 0]
    return found


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    **{f"{LINALG}{name}": _call_matrices(name) for name in _MATRICES},
    **{f"{FFT}{name}": _call_transforms(name) for name in _TRANSFORMS},
    **{f"{REDUCE_AT}{name}": _call_reductions_at(name) for name in _REDUCTIONS_AT},
}
"""Each by the kind of its custom functions; they fill their outputs, which come first."""
