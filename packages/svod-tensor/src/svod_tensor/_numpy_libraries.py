"""numpy's linear algebra and Fourier transforms on tensors, with `svod_tensor.linalg` and
`svod_tensor.fft`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

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


LIBRARIES: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        f"linalg.{name}": _matrix_function(name, 1)
        for name in ("det", "eigvals", "inv", "slogdet", "svdvals")
    },
    "linalg.solve": _matrix_function("solve", 2),
    **{
        f"fft.{name}": _axis_function(name)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
}
"""Counterparts by the name of numpy's function; functions without one read values."""
