"""Functions of libraries for arrays that operations call on the host; the libraries are imported where one is called first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "LINALG"]

LINALG: Final = "svod.linalg."
"""What the names of functions of matrices begin with."""

_MATRICES: Final = (
    "cholesky", "cofactors", "det", "eigh", "eigvalsh", "expm", "inv", "lstsq", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals",
)  # fmt: skip


def _call_matrices(name: str) -> Callable[..., None]:
    def call(*arguments: NDArray[Any]) -> None:
        from svod_tensor.python_functions import matrices

        matrices.FUNCTIONS[name](*arguments)

    return call


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {f"{LINALG}{name}": _call_matrices(name) for name in _MATRICES}
"""Each by the kind of its custom functions; they fill their outputs, which come first."""
