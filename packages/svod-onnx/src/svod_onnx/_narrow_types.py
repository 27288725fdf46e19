"""Rounding to element types without an svod dtype. A wider dtype carries their elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx

from svod_tensor import Tensor

__all__ = ["NARROW_FLOATS", "NARROW_INTEGERS", "NarrowFloat", "round_to_power", "wrap_integer"]

_T: Final = onnx.TensorProto


@dataclass(frozen=True, slots=True)
class NarrowFloat:
    """A floating-point type of at most eight bits, whose elements float32 represents exactly.

    Attributes:
        n_fraction: number of fraction bits.
        min_exponent: exponent of the smallest normal number.
        max: largest finite number.
        overflow: result of a conversion without saturation that overflows: infinity or NaN, or
            `max` for a type with neither.
        has_negative_zero: whether -0.0 is an element.
    """

    n_fraction: int
    min_exponent: int
    max: float
    overflow: float
    has_negative_zero: bool = True

    def round(self, x: Tensor, *, saturate: bool) -> Tensor:
        """Nearest elements of this type as float32; ties round to even.

        Args:
            x: float32 elements.
            saturate: whether values that overflow become the largest element instead of `overflow`.
                NaN becomes 0 for a type without NaN.
        """
        magnitude = x.abs()
        # Read the exponent from the bits, so the spacing of neighbors is an exact power of two.
        exponent = (magnitude.bitcast("int32").rshift(23) - 127).maximum(self.min_exponent)
        spacing = (exponent - self.n_fraction + 127).lshift(23).bitcast("float32")
        rounded = (magnitude / spacing).round() * spacing
        overflows = rounded > self.max
        limit = self.max if saturate or self.overflow == self.max else self.overflow
        rounded = overflows.where(limit, rounded)
        if not saturate:
            rounded = magnitude.isinf().where(self.overflow, rounded)
        signed = (x < 0).where(-rounded, rounded)
        if self.has_negative_zero:
            signed = rounded.copysign(x)
        return x.isnan().where(0.0 if self.overflow == self.max else float("nan"), signed)


NARROW_FLOATS: Final[dict[int, NarrowFloat]] = {
    _T.FLOAT8E4M3FNUZ: NarrowFloat(3, -7, 240.0, float("nan"), has_negative_zero=False),
    _T.FLOAT8E5M2FNUZ: NarrowFloat(2, -15, 57344.0, float("nan"), has_negative_zero=False),
    _T.FLOAT4E2M1: NarrowFloat(1, 0, 6.0, 6.0),
}
"""Types by element type.

Source of the limits: ONNX, "Float stored in 8 bits", after the OCP and Graphcore formats.
"""

NARROW_INTEGERS: Final[dict[int, tuple[int, bool]]] = {
    _T.INT4: (4, True),
    _T.UINT4: (4, False),
    _T.INT2: (2, True),
    _T.UINT2: (2, False),
}
"""Number of bits and signedness of each integer type."""


def wrap_integer(x: Tensor, element_type: int) -> Tensor:
    """Low bits of integers as elements of a narrow type."""
    n_bits, is_signed = NARROW_INTEGERS[element_type]
    low = x.cast("int32").bitwise_and((1 << n_bits) - 1)
    if not is_signed:
        return low.cast("uint8")
    half = 1 << (n_bits - 1)
    # Sign extension: flipping the sign bit and subtracting it maps 0b1000..0b1111 to -8..-1.
    return (low.bitwise_xor(half) - half).cast("int8")


def round_to_power(x: Tensor, *, mode: str, saturate: bool) -> Tensor:
    """Round to powers of two from 2^-127 to 2^127, the elements of float8e8m0, as float32.

    Zero is not representable. Negative values give NaN.

    Args:
        x: float32 elements.
        mode: "up", "down" or "nearest", which rounds ties up.
        saturate: whether values out of range become the nearest element instead of NaN.
    """
    bits = x.bitcast("int32")
    exponent, fraction = bits.rshift(23).bitwise_and(0xFF), bits.bitwise_and(0x7FFFFF)
    match mode:
        case "up":
            rounds_up = fraction > 0
        case "down":
            rounds_up = fraction < 0
        case "nearest":
            rounds_up = fraction >= 0x400000
        case _:
            raise ValueError(f"unknown rounding mode {mode!r}; expected up, down or nearest")
    rounded = exponent + rounds_up.cast("int32")
    if saturate:
        rounded = rounded.minimum(254)
    # 2^-127 is subnormal in float32: its exponent bits are 0, and the highest fraction bit is set.
    power = (rounded == 0).where(0x400000, rounded.lshift(23)).bitcast("float32")
    is_valid = (x >= 0 if saturate else x > 0) & (rounded < 255)
    return (is_valid & ~x.isnan()).where(power, float("nan"))
