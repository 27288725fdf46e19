"""Runtime functions that LLVM calls for half and bfloat16 conversions, and that few processes contain.

Compiler runtimes link them statically, or lack them. The renderer avoids them, but on a CPU without
conversion instructions LLVM calls them. They are implemented here with integer operations only,
round to nearest even, and return quiet NaNs."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["SUPPORT_SYMBOLS", "make_support_ir"]


class _Format(NamedTuple):
    """A binary floating-point format."""

    ir_type: str
    bits: int
    mantissa: int

    @property
    def exponent(self) -> int:
        return self.bits - 1 - self.mantissa

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1


_HALF = _Format("half", 16, 10)
_BFLOAT = _Format("bfloat", 16, 7)
_FLOAT = _Format("float", 32, 23)
_DOUBLE = _Format("double", 64, 52)

_TRUNCATIONS: Final = {
    "__truncsfhf2": (_FLOAT, _HALF),
    "__truncdfhf2": (_DOUBLE, _HALF),
    "__truncsfbf2": (_FLOAT, _BFLOAT),
    "__truncdfbf2": (_DOUBLE, _BFLOAT),
}

# libgcc_s has the functions for half only, and most processes do not load it.
SUPPORT_SYMBOLS: Final = frozenset(_TRUNCATIONS) | {"__extendhfsf2"}


def make_support_ir() -> str:
    """Make the module that defines all of `SUPPORT_SYMBOLS`."""
    functions = [
        _make_truncation(name, wide, narrow) for name, (wide, narrow) in _TRUNCATIONS.items()
    ]
    return "\n".join([*functions, _EXTEND_HALF, _DECLARATIONS])


def _make_truncation(name: str, wide: _Format, narrow: _Format) -> str:
    """Make a truncation: shift the mantissa right and round to even; for results that are subnormal,
    the implicit one is made explicit first.
    """
    shift = wide.mantissa - narrow.mantissa
    sign = 1 << (wide.bits - 1)
    infinity = ((1 << wide.exponent) - 1) << wide.mantissa
    narrow_infinity = ((1 << narrow.exponent) - 1) << narrow.mantissa
    # With equal exponent ranges, subnormals have the same encoding in both formats.
    has_same_range = wide.bias == narrow.bias
    smallest_normal = 0 if has_same_range else (wide.bias - narrow.bias + 1) << wide.mantissa
    values = {
        "name": name,
        "W": f"i{wide.bits}",
        "wide": wide.ir_type,
        "narrow": narrow.ir_type,
        "magnitude_mask": sign - 1,
        "infinity": infinity,
        "smallest_normal": smallest_normal,
        "rebias": (wide.bias - narrow.bias) << wide.mantissa,
        "one": 1 << wide.mantissa,
        "mantissa_mask": (1 << wide.mantissa) - 1,
        "mantissa": wide.mantissa,
        "shift": shift,
        "subnormal_shift": shift + wide.bias - narrow.bias + 1,
        "max_shift": wide.bits - 1,
        "narrow_infinity": narrow_infinity,
        "quiet": narrow_infinity | 1 << (narrow.mantissa - 1),
        "narrow_mask": (1 << narrow.mantissa) - 1,
        "sign_shift": wide.bits - 16,
    }
    text = _TRUNCATION
    for key, value in values.items():
        text = text.replace(f"${{{key}}}", str(value))
    return text


# A subnormal result with exponent e is the significand shifted right by (1 - e) more. Rounding may
# carry into the exponent field, which gives the correct result, up to infinity.
_TRUNCATION: Final = """\
define ${narrow} @${name}(${wide} %value) nounwind {
  %bits = bitcast ${wide} %value to ${W}
  %magnitude = and ${W} %bits, ${magnitude_mask}
  %is_nan = icmp ugt ${W} %magnitude, ${infinity}
  %is_normal = icmp uge ${W} %magnitude, ${smallest_normal}
  %rebiased = sub ${W} %magnitude, ${rebias}
  %fraction = and ${W} %magnitude, ${mantissa_mask}
  %significand = or ${W} %fraction, ${one}
  %exponent = lshr ${W} %magnitude, ${mantissa}
  %raw_shift = sub ${W} ${subnormal_shift}, %exponent
  %small_shift = call ${W} @llvm.umin.${W}(${W} %raw_shift, ${W} ${max_shift})
  %kept = select i1 %is_normal, ${W} %rebiased, ${W} %significand
  %shift = select i1 %is_normal, ${W} ${shift}, ${W} %small_shift
  %floor = lshr ${W} %kept, %shift
  %back = shl ${W} %floor, %shift
  %lost = sub ${W} %kept, %back
  %above_half = sub ${W} %shift, 1
  %half = shl ${W} 1, %above_half
  %is_above = icmp ugt ${W} %lost, %half
  %is_tie = icmp eq ${W} %lost, %half
  %odd = trunc ${W} %floor to i1
  %tie_up = and i1 %is_tie, %odd
  %up = or i1 %is_above, %tie_up
  %carry = zext i1 %up to ${W}
  %rounded = add ${W} %floor, %carry
  %finite = call ${W} @llvm.umin.${W}(${W} %rounded, ${W} ${narrow_infinity})
  %payload = lshr ${W} %magnitude, ${shift}
  %payload_kept = and ${W} %payload, ${narrow_mask}
  %nan = or ${W} %payload_kept, ${quiet}
  %result = select i1 %is_nan, ${W} %nan, ${W} %finite
  %low = trunc ${W} %result to i16
  %high = lshr ${W} %bits, ${sign_shift}
  %high16 = trunc ${W} %high to i16
  %sign = and i16 %high16, -32768
  %signed = or i16 %low, %sign
  %out = bitcast i16 %signed to ${narrow}
  ret ${narrow} %out
}
"""

# A multiplication by 2**112 converts the exponent from half's bias to float's, and normalizes
# subnormals.
_EXTEND_HALF: Final = """\
define float @__extendhfsf2(half %value) nounwind {
  %bits = bitcast half %value to i16
  %wide = zext i16 %bits to i32
  %magnitude = and i32 %wide, 32767
  %moved = shl i32 %magnitude, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %is_special = icmp uge i32 %magnitude, 31744
  %is_nan = icmp ugt i32 %magnitude, 31744
  %special = or i32 %moved, 2139095040
  %quiet = select i1 %is_nan, i32 4194304, i32 0
  %special_quiet = or i32 %special, %quiet
  %chosen = select i1 %is_special, i32 %special_quiet, i32 %finite
  %sign_bit = and i32 %wide, 32768
  %sign = shl i32 %sign_bit, 16
  %signed = or i32 %chosen, %sign
  %out = bitcast i32 %signed to float
  ret float %out
}
"""

_DECLARATIONS: Final = """\
declare i32 @llvm.umin.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
"""
