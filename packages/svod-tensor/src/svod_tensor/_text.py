"""What a tensor shows of itself: its values where they are in memory, and else that they are not
computed.
"""

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
"""What floats that numpy lacks are shown as: all of their values are among its own."""


def find_shape(shape: Shape) -> tuple[int, ...] | None:
    """The shape that bound variables give; None where one of them is not bound."""
    for s in shape:
        if not isinstance(s, int):
            break
    else:
        return shape  # pyright: ignore[reportReturnType]
    sizes = [s if isinstance(s, int) else find_size(s) for s in shape]
    return None if None in sizes else tuple(s for s in sizes if s is not None)


def describe_shape(shape: Shape) -> str:
    """A shape, in which a size that depends on variables has its value too: `(n=3, 4)`."""
    return f"({', '.join(map(_describe, shape))}{',' if len(shape) == 1 else ''})"


def _describe(size: SInt) -> str:
    return describe_size(size, None if isinstance(size, int) else find_size(size))


def format_array(kind: str, array: Array, facts: str) -> str:
    """The elements as numpy shows them, in the brackets of a call of `kind`, and `facts` behind
    them.
    """
    import numpy as np

    opening = f"{kind}("
    text = opening + np.array2string(_widen(array), separator=", ", prefix=opening, suffix=",")
    used = len(text) - (text.rfind("\n") + 1)
    fits = used + len(facts) + len(", )") <= np.get_printoptions()["linewidth"]
    return f"{text}, {facts})" if fits else f"{text},\n{' ' * len(opening)}{facts})"


def format_elements(array: Array, spec: str) -> str:
    """The elements, each written by a format specification, in brackets as numpy sets them."""
    import numpy as np

    def show(value: object) -> str:
        return format(cast("np.generic[object]", value).item(), spec)

    return np.array2string(_widen(array), separator=", ", formatter={"all": show})


def _widen(array: Array) -> Array:
    return array.astype(_FLOATS) if array.dtype.kind == "V" else array
