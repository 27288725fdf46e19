"""A program with loops as plain data: steps, some of which have blocks of steps as their bodies."""

# Trees are nested lists, tuples and dicts of positions.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Block", "Kind", "LoopProgram", "LoopStep", "Tree", "pack", "unpack"]

Tree: TypeAlias = "int | list[Tree] | tuple[Tree, ...] | dict[str, Tree] | None"
"""How the leaves of a structure are nested: each leaf is its position in a list."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a body that is traced knows of a value."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    @property
    def is_int(self) -> bool:
        return "int" in self.dtype


@dataclass(frozen=True, slots=True)
class Block:
    """A function of `params`; its steps also read the values of the blocks around it."""

    params: tuple[int, ...]
    steps: tuple[LoopStep, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One operation, or one loop.

    Attributes:
        operation: a name in the table of operations, or `input`, `scan`, `fori`, `while`, `cond`,
            `switch`.
        operands: the numbers of the values that it takes.
        results: the numbers of the values that it makes.
        args: its other arguments.
        blocks: the bodies of a loop, the branches of a `cond` or `switch`; of a `while` its
            condition and its body.
    """

    operation: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Steps in order, which of their values are its results, and what is known of every value.

    Attributes:
        variables: bounds and two values for each variable, by name: of the first executions, and of
            later ones.
    """

    steps: tuple[LoopStep, ...]
    roots: tuple[int, ...]
    kinds: dict[int, Kind]
    variables: dict[str, tuple[int, int, int, int]] = field(
        default_factory=dict[str, tuple[int, int, int, int]]
    )

    @property
    def inputs(self) -> tuple[LoopStep, ...]:
        return tuple(s for s in self.steps if s.operation == "input")

    def iter_steps(self) -> Iterator[LoopStep]:
        """All steps, those of bodies after their loop."""
        yield from _iter_steps(self.steps)

    def renumbered(self) -> LoopProgram:
        """The same: values keep their numbers, by which the blocks name what is around them."""
        return self

    def without_dead_steps(self) -> LoopProgram:
        """The steps that results need, and those that write."""
        steps, _ = _drop_dead(self.steps, set(self.roots))
        return LoopProgram(steps, self.roots, self.kinds, self.variables)


def _iter_steps(steps: Sequence[LoopStep]) -> Iterator[LoopStep]:
    for step in steps:
        yield step
        for block in step.blocks:
            yield from _iter_steps(block.steps)


def _drop_dead(
    steps: Sequence[LoopStep], needed: set[int]
) -> tuple[tuple[LoopStep, ...], set[int]]:
    kept: list[LoopStep] = []
    for step in reversed(steps):
        if not (needed.intersection(step.results) or _writes(step)):
            continue
        blocks: list[Block] = []
        for block in step.blocks:
            inner, wanted = _drop_dead(block.steps, set(block.results))
            blocks.append(Block(block.params, inner, block.results))
            needed |= wanted
        needed.update(step.operands)
        kept.append(LoopStep(step.operation, step.operands, step.results, step.args, tuple(blocks)))
    return tuple(reversed(kept)), needed


def _writes(step: LoopStep) -> bool:
    return any(s.operation.startswith("write") for s in _iter_steps((step,)))


def pack(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The structure with these leaves."""
    match tree:
        case None:
            return None
        case int():
            return leaves[tree]
        case dict():
            return {key: pack(part, leaves) for key, part in tree.items()}
        case tuple():
            return tuple(pack(part, leaves) for part in tree)
        case list():
            return [pack(part, leaves) for part in tree]


def unpack(tree: Tree, structure: Any) -> list[Any]:
    """The leaves of such a structure.

    Raises:
        ValueError: if it is another one.
    """
    found: dict[int, Any] = {}
    _unpack(tree, structure, found)
    return [found[position] for position in sorted(found)]


def _unpack(tree: Tree, structure: Any, found: dict[int, Any]) -> None:
    kind: type = type(structure)
    if isinstance(tree, int):
        found[tree] = structure
    elif kind is not type(tree):
        raise ValueError(f"a {kind.__name__} instead of {tree}")
    elif isinstance(tree, dict):
        if set(structure) != set(tree):
            raise ValueError(f"keys {sorted(structure)} instead of {sorted(tree)}")
        for key, part in tree.items():
            _unpack(part, structure[key], found)
    elif tree is not None:
        if len(structure) != len(tree):
            raise ValueError(f"{len(structure)} items instead of {len(tree)}")
        for part, value in zip(tree, structure, strict=True):
            _unpack(part, value, found)
