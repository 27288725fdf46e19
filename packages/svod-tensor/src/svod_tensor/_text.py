"""Text of tensors: values that are in memory, or a note that they are not computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from svod_ir import SInt
from svod_ir.sizes import describe_size
from svod_tensor._shapes import Shape
from svod_tensor.engine.bindings import find_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

__all__ = ["describe_shape", "find_shape", "format_array", "format_elements"]

_FLOATS: Final = "float32"
"""Dtype in which floats that numpy lacks are shown; it represents all their values."""


def find_shape(shape: Shape) -> tuple[int, ...] | None:
    """The shape for the bound variables' values; None if a variable is not bound."""
    for s in shape:
        if not isinstance(s, int):
            break
    else:
        return shape  # pyright: ignore[reportReturnType]
    sizes = [s if isinstance(s, int) else find_size(s) for s in shape]
    return None if None in sizes else tuple(s for s in sizes if s is not None)


def describe_shape(shape: Shape) -> str:
    """A shape as text, with the values of symbolic sizes: `(n=3, 4)`."""
    return f"({', '.join(map(_describe, shape))}{',' if len(shape) == 1 else ''})"


def _describe(size: SInt) -> str:
    return describe_size(size, None if isinstance(size, int) else find_size(size))


def format_array(kind: str, array: Array, facts: str) -> str:
    """The elements as numpy shows them, inside `kind(...)`, followed by `facts`."""
    import numpy as np

    opening = f"{kind}("
    text = opening + np.array2string(_widen(array), separator=", ", prefix=opening, suffix=",")
    used = len(text) - (text.rfind("\n") + 1)
    fits = used + len(facts) + len(", )") <= np.get_printoptions()["linewidth"]
    return f"{text}, {facts})" if fits else f"{text},\n{' ' * len(opening)}{facts})"


def format_elements(array: Array, spec: str) -> str:
    """The elements formatted by a format specification, with numpy's brackets."""
    import numpy as np

    def show(value: object) -> str:
        return format(cast("np.generic[object]", value).item(), spec)

    return np.array2string(_widen(array), separator=", ", formatter={"all": show})


def _widen(array: Array) -> Array:
    return array.astype(_FLOATS) if array.dtype.kind == "V" else array
