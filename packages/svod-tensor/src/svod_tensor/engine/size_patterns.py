"""Patterns of sizes: dependencies among the sizes of graphs of one outline.

    448, 7, 64
    704, 11, 64    ->   64*n, n, 64
    128, 2, 64

A pattern is inferred from three graphs and verified for every other one: `find_values` returns
values of the variables only if they reproduce every size of that graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

from svod_dtype import index
from svod_ir import SInt, UOp
from svod_ir.sizes import normalize_size

__all__ = ["SizePattern", "find_pattern"]

MAX_VARIABLES: Final = 3

Numbers = tuple[int, ...]


class _SizeExpression(NamedTuple):
    """`factor` times the product of the variables at `variables`, plus `offset`."""

    factor: int
    variables: tuple[int, ...]
    offset: int = 0

    def compute(self, values: Sequence[int]) -> int:
        return self.factor * math.prod([values[v] for v in self.variables]) + self.offset

    def express(self, variables: Sequence[UOp]) -> SInt:
        node = UOp.const(index, self.factor)
        for v in self.variables:
            node = node * variables[v]
        return normalize_size(node + self.offset)


class SizePattern(NamedTuple):
    """The sizes of an outline, in order, each as an expression of variables.

    Attributes:
        numbers: the expressions.
        positions: for each variable, the position of the first size that equals it.
    """

    numbers: tuple[_SizeExpression, ...]
    positions: tuple[int, ...]

    def find_values(self, numbers: Numbers) -> Numbers | None:
        """The values of the variables that reproduce these sizes, or None."""
        values = tuple([numbers[position] for position in self.positions])
        for expression, size in zip(self.numbers, numbers, strict=True):
            if expression.compute(values) != size:
                return None
        return values

    def express(self, variables: Sequence[UOp]) -> list[SInt]:
        """The sizes in terms of these variables; constant sizes are ints."""
        return [
            expression.express(variables) if expression.variables else expression.offset
            for expression in self.numbers
        ]


def find_pattern(samples: Sequence[Numbers]) -> SizePattern | None:
    """The pattern of three graphs in which each variable has three values; None if there is no
    simple one.
    """
    columns = list(zip(*samples, strict=True))
    known: dict[Numbers, _SizeExpression] = {}
    variables: list[Numbers] = []
    # Smaller sizes first, so that a variable comes before its multiples.
    for column in sorted({c for c in columns if len(set(c)) > 1}):
        # Two equal values out of three fit too many expressions.
        if len(set(column)) < len(samples):
            return None
        expression = _find_number(column, variables)
        if expression is None:
            expression = _SizeExpression(1, (len(variables),))
            variables.append(column)
        known[column] = expression
    if not 0 < len(variables) <= MAX_VARIABLES:
        return None
    numbers = tuple([known.get(column) or _SizeExpression(0, (), column[0]) for column in columns])
    return SizePattern(numbers, tuple([columns.index(column) for column in variables]))


def _find_number(column: Numbers, variables: Sequence[Numbers]) -> _SizeExpression | None:
    """`column` as a multiple of one variable plus an offset, or as a multiple of a product of two."""
    # In this order: the first, simplest expression wins.
    choices: Iterable[tuple[int, ...]] = [
        *((v,) for v in range(len(variables))),
        *combinations_with_replacement(range(len(variables)), 2),
    ]
    for chosen in choices:
        products = [math.prod([variables[v][i] for v in chosen]) for i in range(len(column))]
        factor, remainder = divmod(column[1] - column[0], products[1] - products[0] or 1)
        offset = column[0] - factor * products[0]
        # An offset to a product fits any two samples, which leaves only the third one to refute it.
        is_simple = not remainder and factor > 0 and (not offset or len(chosen) == 1)
        if is_simple and all(
            factor * p + offset == c for p, c in zip(products, column, strict=True)
        ):
            return _SizeExpression(factor, chosen, offset)
    return None
