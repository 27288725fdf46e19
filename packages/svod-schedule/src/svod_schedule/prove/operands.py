"""Random operands for patterns that match any node: constants, variables with bounds, and small
expressions.

Rules inspect constants and intervals, and sums, quotients and comparisons below their operands. So
the numbers of one instance are related: bounds are multiples of its constants, plus or minus one,
and coefficients are their multiples and divisors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Final, TypeVar

from svod_dtype import ALL_DTYPES, INTEGER_DTYPES, DType, bool_, cast_value, index
from svod_ir import AxisType, BufferArg, Op, ParamArg, UOp

__all__ = ["MEMORY_SIZE", "Operands", "list_constants", "truth_like"]

T = TypeVar("T")
Number = bool | int | float

MEMORY_SIZE: Final = 64
_SHAPES: Final = ((2, 3), (6,), (1, 4), (2, 1, 2))
_SMALL: Final = (0, 1, -1, 2, 3, 4, 5, 7, 8, 10, 12, -2, -4)
_LIMIT: Final = 1 << 20
"""Bound of variables and constants of dtype index, which counts elements of memory: with larger ones
most products would overflow.
"""
_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.0, 3.0, math.inf, -math.inf, math.nan)


def truth_like(dtype: DType) -> DType:
    """Return the dtype of a comparison of nodes of `dtype`."""
    return bool_.vec(dtype.lanes)


@lru_cache(maxsize=64)
def list_constants(dtype: DType) -> tuple[Number, ...]:
    """List representative constants: all values of 8 bits; otherwise the extremes, the powers of two
    and their neighbors, and small values.
    """
    if dtype.is_bool:
        return (False, True)
    if dtype.is_float:
        extra = (dtype.finfo_max, -dtype.finfo_max, dtype.finfo_eps, 2.0**dtype.mantissa_bits)
        return (
            tuple(dict.fromkeys(cast_value(v, dtype) for v in (*_FLOATS[:6], *extra))) + _FLOATS[6:]
        )
    low, high = int(dtype.min), int(dtype.max)
    if dtype.bits == 8:
        return tuple(range(low, high + 1))
    if dtype.kind == "index":
        low, high = -_LIMIT, _LIMIT
    powers = [1 << bit for bit in range(dtype.bits)]
    candidates = [
        *_SMALL,
        low,
        low + 1,
        high - 1,
        high,
        *(s * p + d for p in powers for s in (1, -1) for d in (0, 1, -1)),
    ]
    return tuple(dict.fromkeys(v for v in candidates if low <= v <= high))


class Operands:
    """Random generator of the operands of one instance, which reuses earlier numbers and nodes.

    With `is_tensor`, most variables are tensors of one shape, in memory that is read as a whole.
    """

    def __init__(
        self, random: Random, dtype: DType, depth: int, *, is_tensor: bool = False
    ) -> None:
        self.random, self.dtype, self.depth = random, dtype, depth
        self.shape = random.choice(_SHAPES) if is_tensor else ()
        self.numbers: list[int] = []
        self.nodes: list[UOp] = []
        self.n_variables = 0

    def choose(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Constants.

    def constant(self, dtype: DType) -> UOp:
        """Generate a constant; for a vector, one per lane or a splat."""
        if dtype.lanes > 1 and self.chance(0.5):
            return UOp(
                Op.VCONST, dtype, (), tuple(self.number(dtype.scalar) for _ in range(dtype.lanes))
            )
        return UOp.const(dtype, self.number(dtype.scalar))

    def number(self, dtype: DType) -> Number:
        value = self.choose(list_constants(dtype))
        if self.shape and self.chance(0.5):
            # The constants that rules on tensors match.
            value = cast_value(self.choose((0, 1, -1, 2)), dtype)
        if dtype.is_int:
            if self.depth and self.chance(0.8):
                value = self._related(dtype)
            self.numbers.append(int(value))
        return value

    def _related(self, dtype: DType) -> int:
        """Generate a small number, or a number related to earlier ones."""
        small = self.random.randint(1, 12)
        known = (
            self.choose(self.numbers)
            if self.numbers and self.chance(0.7)
            else self.choose((2, 3, 4, 5, 6, 8, 12, 16))
        )
        divisor = math.gcd(known, self.choose((2, 3, 4, 6)))
        value = self.choose(
            (
                known,
                -known,
                known + 1,
                known - 1,
                known * small,
                -known * small,
                small,
                -small,
                divisor,
                known * 2,
            )
        )
        return value if dtype.min <= value <= dtype.max else small

    # Variables.

    def variable(self, dtype: DType) -> UOp:
        """Generate a variable; for a vector, one per lane; or a tensor."""
        if self.shape and dtype.kind != "index" and not self.chance(0.2):
            self.n_variables += 1
            memory = UOp(
                Op.BUFFER, dtype, (), BufferArg(self.n_variables, math.prod(self.shape), "CPU")
            )
            return UOp(Op.RESHAPE, dtype, (memory,), self.shape)
        if dtype.lanes > 1:
            return UOp(
                Op.VECTORIZE,
                dtype,
                tuple(self._scalar_variable(dtype.scalar) for _ in range(dtype.lanes)),
            )
        return self._scalar_variable(dtype)

    def _scalar_variable(self, dtype: DType) -> UOp:
        self.n_variables += 1
        name = f"v{self.n_variables}"
        if dtype.is_float:
            return UOp.variable(name, -math.inf, math.inf, dtype)  # pyright: ignore[reportArgumentType]
        if dtype.is_bool:
            return UOp.variable(name, 0, 1, dtype)
        if dtype is index and self.chance(0.15):
            return UOp.range(self.choose((1, 2, 3, 4, 8)), self.n_variables, AxisType.LOOP)
        low, high = self._interval(dtype)
        return UOp.variable(name, low, high, dtype)

    def _interval(self, dtype: DType) -> tuple[int, int]:
        low, high = int(dtype.min), int(dtype.max)
        if dtype is index:
            low, high = -_LIMIT, _LIMIT
        if not self.depth or self.chance(0.25):
            return low, high
        n = (
            abs(self.choose(self.numbers))
            if self.numbers and self.chance(0.8)
            else self.random.randint(1, 20)
        )
        q = self.random.randint(-3, 3) * n
        chosen = self.choose(
            (
                (0, n - 1),
                (0, n - 1),
                (0, n),
                (q, q + n - 1),
                (q, q + n),
                (q - 1, q + n - 1),
                (-n, n),
                (-n, -1),
                (1, n),
                (0, high),
                (1, high),
                (low, -1),
                (low, low + n),
                (high - n, high),
                (0, 1),
                (n, n),
                (n, high),
                (n - 1, high),
                (-1, n),
                (low, n),
                (low, 0),
            )
        )
        first, last = max(chosen[0], low), min(chosen[1], high)
        return (first, last) if first <= last else (low, high)

    # Expressions.

    def expression(self, dtype: DType) -> UOp:
        """Generate a node of a dtype: an earlier node of the instance, a variable, or a small
        expression.
        """
        known = [n for n in self.nodes if n.dtype is dtype]
        if known and self.chance(0.25):
            return self.choose(known)
        if self.depth and self.chance(0.12):
            return UOp.const(dtype, 0) if self.chance(0.4) else self.constant(dtype)
        result = self._compose(dtype) if self.depth and self.chance(0.7) else self.variable(dtype)
        self.nodes.append(result)
        return result

    def _compose(self, dtype: DType) -> UOp:
        self.depth -= 1
        if dtype.is_bool:
            result = self._condition(dtype)
        elif dtype.is_float:
            result = self._of_floats(dtype)
        else:
            result = self._of_integers(dtype)
        self.depth += 1
        return result

    def _of_floats(self, dtype: DType) -> UOp:
        x = self.expression(dtype)
        counters = [n for n in self.nodes if n.op is Op.RANGE]
        if counters and dtype.lanes == 1 and self.chance(0.5):
            return self.read(dtype, self.choose(counters))
        return self.choose(
            (
                lambda: UOp(self.choose((Op.NEG, Op.ABS, Op.TRUNC)), dtype, (x,)),
                lambda: UOp(
                    self.choose((Op.MAX, Op.MIN, Op.ADD, Op.MUL)),
                    dtype,
                    (x, self.expression(dtype)),
                ),
            )
        )()

    def read(self, dtype: DType, position: UOp, gate: UOp | None = None) -> UOp:
        """Make the location of an element of memory."""
        memory = UOp(Op.PARAM, dtype, (), ParamArg(0, MEMORY_SIZE))
        return UOp(
            Op.INDEX, dtype, (memory, position) if gate is None else (memory, position, gate)
        )

    def _condition(self, dtype: DType) -> UOp:
        compared = self.choose((self.dtype, self.dtype, index.vec(dtype.lanes)))
        if dtype.lanes == 1 and any(n.op is Op.RANGE for n in self.nodes):
            compared = index
        if compared.lanes != dtype.lanes or compared.is_float:
            compared = index.vec(dtype.lanes)

        def order() -> UOp:
            counters = [n for n in self.nodes if n.op is Op.RANGE and n.dtype is compared]
            x = (
                self.choose(counters)
                if counters and self.chance(0.7)
                else self.expression(compared)
            )
            y = self.constant(compared) if self.chance(0.7) else self.expression(compared)
            # The same left side with another limit, for rules on chains of conditions.
            seen = [n for n in self.nodes if n.op is Op.LT and n.left.dtype is compared]
            if seen and self.chance(0.6):
                x = self.choose(seen).left
            comparison = UOp(self.choose((Op.LT, Op.LT, Op.LT, Op.EQ, Op.NE, Op.LE)), dtype, (x, y))
            self.nodes.append(comparison)
            return comparison

        def negated() -> UOp:
            return UOp(Op.NOT, dtype, (self.choose((order, lambda: self.expression(dtype)))(),))

        def joined() -> UOp:
            return UOp(
                self.choose((Op.AND, Op.OR)),
                dtype,
                (self.expression(dtype), self.expression(dtype)),
            )

        return self.choose((order, order, negated, joined))()

    def _of_integers(self, dtype: DType) -> UOp:
        return self.choose(_INTEGERS)(self, dtype)

    def sum(self, dtype: DType) -> UOp:
        total = self.term(dtype)
        for _ in range(self.random.randint(1, 2)):
            term = self.constant(dtype) if self.chance(0.35) else self.term(dtype)
            total = UOp(Op.SUB if self.chance(0.2) else Op.ADD, dtype, (total, term))
        return total

    def term(self, dtype: DType) -> UOp:
        x = self.expression(dtype)
        return UOp(Op.MUL, dtype, (x, self.constant(dtype))) if self.chance(0.6) else x

    def division(self, dtype: DType) -> UOp:
        x, y = self.expression(dtype), self.constant(dtype)
        return UOp(self.choose((Op.IDIV, Op.MOD)), dtype, (x, y))

    def rejoined(self, dtype: DType) -> UOp:
        """Generate x // c * c + x % c, or the same with one number changed."""
        x, c, wrong_constant = self.expression(dtype), self.constant(dtype), self.constant(dtype)
        multiple = UOp(
            Op.MUL, dtype, (UOp(Op.IDIV, dtype, (x, c)), c if self.chance(0.8) else wrong_constant)
        )
        remainder = self.choose((UOp(Op.MOD, dtype, (x, c)), x))
        return UOp(Op.ADD if remainder.op is Op.MOD else Op.SUB, dtype, (remainder, multiple))

    def binary(self, dtype: DType) -> UOp:
        op = self.choose((Op.MUL, Op.SUB, Op.MAX, Op.MIN, Op.AND, Op.IDIV, Op.MOD))
        return UOp(op, dtype, (self.expression(dtype), self.expression(dtype)))

    def unary(self, dtype: DType) -> UOp:
        return UOp(self.choose((Op.NEG, Op.NEG, Op.ABS, Op.NOT)), dtype, (self.expression(dtype),))

    def chosen(self, dtype: DType) -> UOp:
        condition = self.expression(truth_like(dtype))
        first, second = (
            self.constant(dtype) if self.chance(0.5) else self.expression(dtype) for _ in range(2)
        )
        return UOp(Op.WHERE, dtype, (condition, first, second))

    def converted(self, dtype: DType) -> UOp:
        counters = [n for n in self.nodes if n.op is Op.RANGE]
        if counters and dtype.lanes == 1 and dtype is not index and self.chance(0.7):
            return UOp(Op.CAST, dtype, (self.choose(counters),))
        source = self.choose((*INTEGER_DTYPES, index, bool_)).vec(dtype.lanes)
        return (
            UOp(Op.CAST, dtype, (self.expression(source),))
            if source is not dtype
            else self.expression(dtype)
        )

    # Loops.

    def loop(self) -> UOp:
        """Generate the counter of a loop of few iterations, or with a symbolic trip count."""
        self.n_variables += 1
        end: UOp | int = self.choose((1, 2, 3, 4))
        if self.chance(0.3):
            end = UOp.variable(f"v{self.n_variables}", self.choose((0, 1, 1)), 4)
        counter = UOp.range(end, self.n_variables, AxisType.REDUCE)
        self.nodes += [counter] * 4
        return counter

    def other_dtype(self) -> DType:
        return self.choose(ALL_NUMBERS).vec(self.dtype.lanes)


ALL_NUMBERS: Final = tuple(d for d in (*ALL_DTYPES, index) if d.is_int or d.is_bool or d.is_float)

_INTEGERS: Final[tuple[Callable[[Operands, DType], UOp], ...]] = (
    Operands.sum,
    Operands.sum,
    Operands.term,
    Operands.term,
    Operands.division,
    Operands.division,
    Operands.rejoined,
    Operands.binary,
    Operands.unary,
    Operands.chosen,
    Operands.converted,
)
