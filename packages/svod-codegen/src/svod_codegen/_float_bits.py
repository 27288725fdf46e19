"""Bit representation of narrow float constants."""

from __future__ import annotations

import math

from svod_dtype import DType, float8_e4m3

__all__ = ["storage_bits"]


def storage_bits(value: float, dtype: DType) -> int:
    """Encode a value that is exactly representable in the float type `dtype` (constants are rounded
    when they are created).
    """
    exponent_ones = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
    sign = (math.copysign(1.0, value) < 0) << (8 * dtype.itemsize - 1)
    if math.isnan(value):
        payload = (
            (1 << dtype.mantissa_bits) - 1
            if dtype is float8_e4m3
            else 1 << (dtype.mantissa_bits - 1)
        )
        return sign | exponent_ones | payload
    if math.isinf(value):
        return sign | exponent_ones
    if value == 0.0:
        return sign
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    # In units of the last bit (ulp); a normal number's implicit one carries into the exponent field.
    units = int(math.ldexp(abs(value), dtype.mantissa_bits - exponent))
    return sign | (((exponent + bias - 1) << dtype.mantissa_bits) + units)
