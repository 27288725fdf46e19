"""Functions that call the methods of `Tensor` in `svod_tensor.ops.resizing`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.resizing import ResizingMode

__all__ = [
    "interpolate",
]


@explained
def interpolate(
    x: Operand,
    /,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    *,
    mode: ResizingMode = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """`x`, resized along its spatial axes, all but the first two. Integers become float32 unless the mode copies elements.

    Args:
        size: of each axis; a number is that of all.
        scale_factor: how much longer each becomes, in place of the size.
        mode: `"nearest"` for the element that a place falls into, or `"nearest-exact"` for that which its middle falls
            into; `"linear"` for straight lines between neighbours along each axis, `"cubic"` for polynomials through
            four (PyTorch's names `"bilinear"`, `"trilinear"` and `"bicubic"` are for so many axes); `"area"` for means of
            the elements that fall into each place, wholly or not.
        align_corners: whether the first and last elements stay where they are, for lines and polynomials; otherwise an
            element is the middle of its part of the axis.
        antialias: whether lines and polynomials stretch over what an axis loses, where it becomes shorter.

    Raises:
        ShapeError: if there are no spatial axes, or nothing is left of one.
        OperandError: if there is not one of size and scale for each axis, or the mode is not known.

    Example:
        >>> import svod_tensor as sv
        >>> sv.interpolate(Tensor([[[1.0, 3.0]]]), 4, mode='linear').tolist()
        [[[1.0, 1.5, 2.5, 3.0]]]
    """
    return to_tensor(x).interpolate(size, scale_factor, mode=mode, align_corners=align_corners, antialias=antialias)
