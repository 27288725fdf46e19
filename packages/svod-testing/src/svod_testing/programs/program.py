"""Tensor program as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Argument", "Program", "Step", "make_program"]

Argument: TypeAlias = "bool | int | float | str | tuple[Argument, ...] | None"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation.

    Attributes:
        operation: its name in the table of operations.
        operands: the numbers of the values that it takes.
        results: the numbers of the values that it makes, more than one where it gives a tuple.
        args: its other arguments, by name.
    """

    operation: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    args: tuple[tuple[str, Argument], ...] = ()

    @property
    def named(self) -> dict[str, Any]:
        return dict(self.args)


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, and the indices of the results, which are computed together."""

    steps: tuple[Step, ...]
    roots: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Step, ...]:
        return tuple(s for s in self.steps if s.operation == "input")

    def without_dead_steps(self) -> Program:
        """Return the program without steps that no result depends on."""
        needed, kept = set(self.roots), list[Step]()
        for step in reversed(self.steps):
            if needed.intersection(step.results):
                kept.append(step)
                needed.update(step.operands)
        return Program(tuple(reversed(kept)), self.roots)

    def renumbered(self) -> Program:
        """Return the program with values renumbered from 0 in order."""
        numbers: dict[int, int] = {}
        steps: list[Step] = []
        for step in self.steps:
            operands = tuple(numbers[v] for v in step.operands)
            for value in step.results:
                numbers[value] = len(numbers)
            steps.append(
                Step(step.operation, operands, tuple(numbers[v] for v in step.results), step.args)
            )
        return Program(tuple(steps), tuple(numbers[v] for v in self.roots))


def make_program(steps: Iterable[Step], roots: Iterable[int]) -> Program:
    return Program(tuple(steps), tuple(roots))
