"""Argument reduction: the remainder by pi / 2, to nearly twice the precision of the dtype.

`reduce_moderate` subtracts a multiple of pi / 2, which is a sum of several constants (Cody and
Waite). `reduce_huge` multiplies the significand with the bits of 2 / pi that matter for the
exponent, in integers (Payne and Hanek), and is exact for every finite argument.

Source:
    Cody and Waite, "Software Manual for the Elementary Functions", 1980, chapter 8.
    Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18 (1983).
    The bits of 2 / pi and the parts of pi / 2 were computed here.
"""

from __future__ import annotations

from typing import Final

from svod_dtype import float32, float64, uint64
from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.floats import FLOAT32, FLOAT64, FloatFormat, fma

__all__ = ["LIMIT", "Remainder", "reduce_huge", "reduce_moderate"]

Remainder = tuple[UOp, UOp, UOp]
"""n modulo 4 in the low bits of a signed integer, and r + s = x - n pi / 2, where s is less than
about half an ulp of r.
"""

_TWO_OVER_PI: Final = 0.6366197723675814
_HALF_PI: Final = {
    FLOAT32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    FLOAT64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
# Without fma, each product with an n below 2^11 or 2^20 has to be exact.
_HALF_PI_SHORT: Final = {
    FLOAT32: (
        1.57080078125,
        -4.410743713378906e-06,
        -4.371395334601402e-08,
        2.5633440682570896e-12,
    ),
    FLOAT64: (
        1.5707963407039642,
        -1.3909067675399456e-08,
        6.123234262925839e-17,
        -2.6718907338610155e-24,
    ),
}
LIMIT: Final = {
    (FLOAT32, True): 100000.0,
    (FLOAT32, False): 3200.0,
    (FLOAT64, True): 1.0e9,
    (FLOAT64, False): 1.6e6,
}
"""Largest argument of `reduce_moderate`, by format and whether there is fma."""

# The first 1184 bits of 2 / pi after the point.
_TWO_OVER_PI_BITS: Final = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA09D1921CFE1D"
    "EB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B"
    "5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046",
    16,
)
_WORD: Final = 0xFFFFFFFF
# By format: zeros put before the bits of 2 / pi (so that no shift is negative), bits of the choice
# of the first word, and words of the product.
_WINDOW: Final = {FLOAT32: (14, 2, 3), FLOAT64: (40, 5, 6)}


def reduce_moderate(x: UOp, layout: FloatFormat, *, has_fma: bool) -> Remainder:
    """Reduce an argument up to `LIMIT`; NaN for infinities and NaN."""
    shifted = fma(x, _TWO_OVER_PI, layout.rounder)
    n = shifted - layout.rounder
    *first, second, third = _HALF_PI[layout] if has_fma else _HALF_PI_SHORT[layout]
    for constant in first:
        x = fma(n, -constant, x)
    product = n * second
    r = x - product
    # The rounding error of the difference, the rounding error of the product, and the last constant.
    s = x - r - product - fma(n, second, -product)
    s = fma(n, -third, s)
    return layout.to_bits(shifted), r, s


def reduce_huge(x: UOp, layout: FloatFormat) -> Remainder:
    """Reduce an argument beyond the smallest `LIMIT`; NaN for infinities, arbitrary for smaller
    arguments.
    """
    n_zeros, n_choice_bits, n_words = _WINDOW[layout]
    size = x.alu(Op.ABS)
    bits = layout.to_unsigned(size).cast(uint64)
    # Offset of the first bit of 2 / pi whose product with x is less than 4 quarter turns; earlier
    # bits only contribute full turns.
    position = (bits >> layout.mantissa_bits) - (layout.bias + layout.mantissa_bits + 2 - n_zeros)
    window = _take_words(position, n_zeros, n_choice_bits, n_words)
    significand = (bits & ((1 << layout.mantissa_bits) - 1)) | (1 << layout.mantissa_bits)
    limbs = (significand,) if layout is FLOAT32 else (significand & _WORD, significand >> 32)
    product = _multiply(limbs, window)
    # The product in quarter turns has 2 bits before the point. Rounded to an integer, it leaves a
    # fraction up to 1/2.
    quadrant = (product[0] + (1 << 29)) >> 30
    is_below = UOp.const(bits.dtype, 0) - ((product[0] >> 29) & 1)
    magnitude = [
        (product[0] ^ is_below) & 0x1FFFFFFF,
        *((limb ^ is_below) & _WORD for limb in product[1:]),
    ]
    is_negative = x < 0.0
    quadrant = is_negative.where(UOp.const(bits.dtype, 0) - quadrant, quadrant)
    r, s = _to_angle(magnitude, layout)
    flip = is_below.ne(0).ne(is_negative)
    not_finite = size * 0.0
    return quadrant.cast(layout.signed), flip.where(-r, r) + not_finite, flip.where(-s, s)


def _take_words(position: UOp, n_zeros: int, n_choice_bits: int, n_words: int) -> list[UOp]:
    """Extract `n_words` words of 32 bits of 2 / pi from bit `position` on, including the leading
    zeros.
    """
    count = (1 << n_choice_bits) + n_words
    table = _TWO_OVER_PI_BITS >> (1184 + n_zeros - 32 * count)
    words = [
        UOp.const(position.dtype, (table >> 32 * (count - 1 - i)) & _WORD) for i in range(count)
    ]
    # A selection of 2^k words takes k selections between two, each half as long as the previous one.
    for bit in reversed(range(n_choice_bits)):
        step = 1 << bit
        is_later = (position & (32 << bit)).ne(0)
        words = [is_later.where(words[i + step], words[i]) for i in range(n_words + step)]
    shift = UOp.const(position.dtype, 32) - (position & 31)
    return [(((words[i] << 32) | words[i + 1]) >> shift) & _WORD for i in range(n_words)]


def _multiply(limbs: tuple[UOp, ...], words: list[UOp]) -> list[UOp]:
    """Multiply an integer (lowest limb first) and a fraction (highest word first), modulo 1, to as
    many words as the fraction has.
    """
    products = [[limb * word for word in words] for limb in limbs]
    result: list[UOp] = []
    carry: UOp | None = None
    for i in reversed(range(len(words))):
        terms = [products[k][i + k] & _WORD for k in range(len(limbs)) if i + k < len(words)]
        terms += [products[k][i + k + 1] >> 32 for k in range(len(limbs)) if i + k + 1 < len(words)]
        total = terms[0] if carry is None else terms[0] + carry
        for term in terms[1:]:
            total = total + term
        result.insert(0, total & _WORD)
        carry = total >> 32
    return result


def _to_angle(limbs: list[UOp], layout: FloatFormat) -> tuple[UOp, UOp]:
    """Convert a fraction of a quarter turn (the unit of the first limb is 2^-30) to an angle, as a sum
    of two floats.
    """
    terms = [_to_float64(limb) * 2.0 ** (-30 - 32 * i) for i, limb in enumerate(limbs[:4])]
    if layout is FLOAT32:
        angle = (terms[0] + terms[1] + terms[2]) * _HALF_PI[FLOAT64][0]
        r = angle.cast(float32)
        return r, (angle - r.cast(float64)).cast(float32)
    high = terms[0] + terms[1]
    low = terms[1] - (high - terms[0]) + (terms[2] + terms[3])
    first, second, _ = _HALF_PI[FLOAT64]
    r = high * first
    return r, fma(high, first, -r) + fma(high, second, low * first)


def _to_float64(limb: UOp) -> UOp:
    """Convert an integer below 2^32 to float64 by bit operations, since vector units often lack the
    conversion.
    """
    return FLOAT64.from_bits(limb | 0x4330000000000000) - 2.0**52
