"""Methods of `Tensor` that are registered operations."""

# Written by tools/stubs.py from svod_tensor.ops: change the functions there.

from svod_tensor.ops.base import Operand
from svod_tensor.ops.theme import Theme
from typing import Self

class Methods(Theme):
    def cbrt(self) -> Self:
        """The cube root, of negative numbers too. Integers become float32."""
    def erf(self) -> Self:
        """The error function. Integers become float32."""
    def exp(self) -> Self:
        """e to the power of each element. Integers become float32."""
    def exp2(self) -> Self:
        """2 to the power of each element. Integers become float32."""
    def expm1(self) -> Self:
        """`exp(x) - 1`, accurate near 0. Integers become float32."""
    def hypot(self, x2: Operand, /) -> Self:
        """`sqrt(x1^2 + x2^2)` without overflow. Shapes broadcast and dtypes promote; integers become
        float32."""
    def log(self) -> Self:
        """The natural logarithm; NaN of negative numbers. Integers become float32."""
    def log10(self) -> Self:
        """The logarithm to base 10; NaN of negative numbers. Integers become float32."""
    def log1p(self) -> Self:
        """`log(1 + x)`, accurate near 0. Integers become float32."""
    def log2(self) -> Self:
        """The logarithm to base 2; NaN of negative numbers. Integers become float32."""
    def logaddexp(self, x2: Operand, /) -> Self:
        """`log(exp(x1) + exp(x2))` without overflow. Shapes broadcast and dtypes promote; integers become
        float32."""
    def rsqrt(self) -> Self:
        """`1 / sqrt(x)`. Integers become float32."""
    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-x))`. Integers become float32."""
    def sqrt(self) -> Self:
        """The square root; NaN of negative numbers. Integers become float32."""
