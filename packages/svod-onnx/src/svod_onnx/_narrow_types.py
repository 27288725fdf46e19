"""Rounding to the element types that svod has no dtype for: tensors of them carry their elements in
a wider one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx

from svod_tensor import Tensor

__all__ = ["NARROW_FLOATS", "NARROW_INTEGERS", "NarrowFloat", "round_to_power", "wrap_integer"]

_T: Final = onnx.TensorProto


@dataclass(frozen=True, slots=True)
class NarrowFloat:
    """A floating-point type of a few bits, whose elements a float32 holds.

    Attributes:
        n_fraction: bits of the fraction.
        least_exponent: of a number that is not subnormal, as a power of two.
        greatest: finite number.
        overflow: what a number that is too large becomes where it does not become the greatest:
            infinity, NaN or, where there is neither, the greatest.
    """

    n_fraction: int
    least_exponent: int
    greatest: float
    overflow: float
    has_negative_zero: bool = True

    def round(self, x: Tensor, *, saturate: bool) -> Tensor:
        """The nearest elements of this type, of two equally near the even one, as float32.

        Args:
            x: any float32.
            saturate: whether what is too large becomes the greatest element; it else becomes
                `overflow`. NaN becomes 0 where the type has none.
        """
        magnitude = x.abs()
        # The exponent is read from the bits, so that the step between neighbours is an exact power
        # of two.
        exponent = (magnitude.bitcast("int32").rshift(23) - 127).maximum(self.least_exponent)
        step = (exponent - self.n_fraction + 127).lshift(23).bitcast("float32")
        rounded = (magnitude / step).round() * step
        is_over = rounded > self.greatest
        limit = self.greatest if saturate or self.overflow == self.greatest else self.overflow
        rounded = is_over.where(limit, rounded)
        if not saturate:
            rounded = magnitude.isinf().where(self.overflow, rounded)
        signed = (x < 0).where(-rounded, rounded)
        if self.has_negative_zero:
            signed = rounded.copysign(x)
        return x.isnan().where(0.0 if self.overflow == self.greatest else float("nan"), signed)


NARROW_FLOATS: Final[dict[int, NarrowFloat]] = {
    _T.FLOAT8E4M3FNUZ: NarrowFloat(3, -7, 240.0, float("nan"), has_negative_zero=False),
    _T.FLOAT8E5M2FNUZ: NarrowFloat(2, -15, 57344.0, float("nan"), has_negative_zero=False),
    _T.FLOAT4E2M1: NarrowFloat(1, 0, 6.0, 6.0),
}
"""The types by number; the source of their limits is the IEEE-like formats of OCP and of Graphcore,
as ONNX's page on float8 has them.
"""

NARROW_INTEGERS: Final[dict[int, tuple[int, bool]]] = {
    _T.INT4: (4, True),
    _T.UINT4: (4, False),
    _T.INT2: (2, True),
    _T.UINT2: (2, False),
}
"""How many bits an integer type has, and whether it is signed."""


def wrap_integer(x: Tensor, kind: int) -> Tensor:
    """The low bits of integers, as elements of a narrow type."""
    n_bits, is_signed = NARROW_INTEGERS[kind]
    low = x.cast("int32").bitwise_and((1 << n_bits) - 1)
    if not is_signed:
        return low.cast("uint8")
    half = 1 << (n_bits - 1)
    return (low.bitwise_xor(half) - half).cast("int8")


def round_to_power(x: Tensor, *, mode: str, saturate: bool) -> Tensor:
    """Powers of two from 2^-127 to 2^127, the elements of float8e8m0, as float32; there is no zero,
    and what is negative is NaN.

    Args:
        x: any float32.
        mode: "up", "down" or "nearest", of which ties go up.
        saturate: whether what is too large or too small becomes the greatest or least element, and
            not NaN.
    """
    bits = x.bitcast("int32")
    exponent, fraction = bits.rshift(23).bitwise_and(0xFF), bits.bitwise_and(0x7FFFFF)
    match mode:
        case "up":
            is_next = fraction > 0
        case "down":
            is_next = fraction < 0
        case "nearest":
            is_next = fraction >= 0x400000
        case _:
            raise ValueError(f"has no rounding mode {mode!r}; there are up, down and nearest")
    raised = exponent + is_next.cast("int32")
    if saturate:
        raised = raised.minimum(254)
    # 2^-127 is subnormal as a float32.
    power = (raised == 0).where(0x400000, raised.lshift(23)).bitcast("float32")
    is_valid = (x >= 0 if saturate else x > 0) & (raised < 255)
    return (is_valid & ~x.isnan()).where(power, float("nan"))
