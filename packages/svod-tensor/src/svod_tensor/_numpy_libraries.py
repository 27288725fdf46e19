"""numpy's linear algebra and Fourier transforms on tensors, with `svod_tensor.linalg` and
`svod_tensor.fft`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, Literal

from svod_tensor.ops.core.operands import as_tensor
from svod_tensor.tensor import Tensor

__all__ = ["LIBRARIES"]


def _matrix_function(name: str, n_operands: int) -> Callable[..., Any]:
    if n_operands == 2:

        def call_two(owner: Tensor, a: Any, b: Any) -> Any:
            return _get("linalg", name)(as_tensor(a, owner), as_tensor(b, owner))

        return call_two

    def call_one(owner: Tensor, a: Any) -> Any:
        return _get("linalg", name)(as_tensor(a, owner))

    return call_one


def _axis_function(name: str) -> Callable[..., Any]:
    def call(
        owner: Tensor, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Any:
        return _get("fft", name)(as_tensor(a, owner), n=n, axis=axis, norm=norm or "backward")

    return call


def _get(library: str, name: str) -> Callable[..., Any]:
    # Imported with the first call: building graphs does not need these modules.
    return getattr(import_module(f"svod_tensor.{library}"), name)


def _svd(
    owner: Tensor,
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
) -> Any:
    x = as_tensor(a, owner)
    if not compute_uv:
        return _get("linalg", "svdvals")(x)
    return _get("linalg", "svd")(x, full_matrices=full_matrices)


def _qr(owner: Tensor, a: Any, mode: Literal["reduced", "complete", "r"] = "reduced") -> Any:
    x = as_tensor(a, owner)
    if mode == "r":
        return _get("linalg", "qr")(x).R
    return _get("linalg", "qr")(x, mode=mode)


def _cholesky(owner: Tensor, a: Any, /, *, upper: bool = False) -> Any:
    return _get("linalg", "cholesky")(as_tensor(a, owner), upper=upper)


LIBRARIES: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        f"linalg.{name}": _matrix_function(name, 1)
        for name in ("det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "slogdet", "svdvals")
    },
    "linalg.svd": _svd,
    "linalg.qr": _qr,
    "linalg.cholesky": _cholesky,
    "linalg.solve": _matrix_function("solve", 2),
    **{
        f"fft.{name}": _axis_function(name)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
}
"""Counterparts by the name of numpy's function; functions without one read values."""
