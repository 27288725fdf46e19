"""How the numbers of graphs of one outline depend on each other: which are the same in all, and
which follow from a few.

    448, 7, 64
    704, 11, 64    ->   64*n, n, 64
    128, 2, 64

A pattern is found from three graphs. It says nothing that is not checked: for another graph,
`find_values` gives the values of the variables only if they give every number of that graph."""

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


class _Number(NamedTuple):
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
    """The numbers of an outline, in order, each as an expression of variables.

    Attributes:
        numbers: the expressions.
        places: for each variable, the first number that is just that.
    """

    numbers: tuple[_Number, ...]
    places: tuple[int, ...]

    def find_values(self, numbers: Numbers) -> Numbers | None:
        """The values of the variables that give these numbers, or None."""
        values = tuple([numbers[place] for place in self.places])
        for number, given in zip(self.numbers, numbers, strict=True):
            if number.compute(values) != given:
                return None
        return values

    def express(self, variables: Sequence[UOp]) -> list[SInt]:
        """The numbers with these variables in their places; what follows from none is an int."""
        return [
            number.express(variables) if number.variables else number.offset
            for number in self.numbers
        ]


def find_pattern(samples: Sequence[Numbers]) -> SizePattern | None:
    """The pattern of three graphs in which each variable has three values; None if they have no
    simple one.
    """
    columns = list(zip(*samples, strict=True))
    known: dict[Numbers, _Number] = {}
    variables: list[Numbers] = []
    for column in sorted({c for c in columns if len(set(c)) > 1}):
        if len(set(column)) < len(samples):
            return None
        found = _find_number(column, variables)
        if found is None:
            found = _Number(1, (len(variables),))
            variables.append(column)
        known[column] = found
    if not 0 < len(variables) <= MAX_VARIABLES:
        return None
    numbers = tuple([known.get(column) or _Number(0, (), column[0]) for column in columns])
    return SizePattern(numbers, tuple([columns.index(column) for column in variables]))


def _find_number(column: Numbers, variables: Sequence[Numbers]) -> _Number | None:
    """`column` as a multiple of one variable with an offset, or of the product of two."""
    choices: Iterable[tuple[int, ...]] = [
        *((v,) for v in range(len(variables))),
        *combinations_with_replacement(range(len(variables)), 2),
    ]
    for chosen in choices:
        products = [math.prod([variables[v][i] for v in chosen]) for i in range(len(column))]
        factor, rest = divmod(column[1] - column[0], products[1] - products[0] or 1)
        offset = column[0] - factor * products[0]
        is_simple = not rest and factor > 0 and (not offset or len(chosen) == 1)
        if is_simple and all(
            factor * p + offset == c for p, c in zip(products, column, strict=True)
        ):
            return _Number(factor, chosen, offset)
    return None
