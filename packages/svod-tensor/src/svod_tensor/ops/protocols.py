"""The protocols by which numpy asks what its functions do to tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Protocols"]


class Protocols(Theme):
    """What numpy calls where a tensor is among the arguments of one of its functions."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> object:
        from svod_tensor._numpy_functions import call_ufunc

        return call_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> object:
        from svod_tensor._numpy_functions import call_function

        return call_function(self, func, types, args, kwargs)
