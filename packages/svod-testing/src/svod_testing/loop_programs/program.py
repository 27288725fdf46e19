"""Program with loops as plain data: steps, some of which have blocks of steps as bodies."""

# Trees are nested lists, tuples and dicts of leaf indices.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Block", "Kind", "LoopProgram", "LoopStep", "Tree", "pack", "unpack"]

Tree: TypeAlias = "int | list[Tree] | tuple[Tree, ...] | dict[str, Tree] | None"
"""Nesting of the leaves of a structure; each leaf is an index into a list."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Shape and dtype of a value."""

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
    """Function of `params` whose steps also read values of enclosing blocks."""

    params: tuple[int, ...]
    steps: tuple[LoopStep, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One operation, or one loop.

    Attributes:
        operation: name in the table of operations, or `input`, `scan`, `fori`, `while`, `cond`,
            `switch`.
        operands: indices of its operands.
        results: indices of its results.
        args: other arguments.
        blocks: body of a loop, branches of a `cond` or `switch`, or condition and body of a
            `while`.
    """

    operation: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Steps in order, the indices of the results, and the kind of every value.

    Attributes:
        variables: lower bound, upper bound and the values in versions 0 and 1 of each variable, by
            name.
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
        """Iterate over all steps; the steps of a body follow their loop."""
        yield from _iter_steps(self.steps)

    def renumbered(self) -> LoopProgram:
        """Return the program itself: blocks refer to enclosing values by index."""
        return self

    def without_dead_steps(self) -> LoopProgram:
        """Return the program without steps that neither a result nor a write depends on."""
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
            inner, inner_needed = _drop_dead(block.steps, set(block.results))
            blocks.append(Block(block.params, inner, block.results))
            needed |= inner_needed
        needed.update(step.operands)
        kept.append(LoopStep(step.operation, step.operands, step.results, step.args, tuple(blocks)))
    return tuple(reversed(kept)), needed


def _writes(step: LoopStep) -> bool:
    return any(s.operation.startswith("write") for s in _iter_steps((step,)))


def pack(tree: Tree, leaves: Sequence[Any]) -> Any:
    """Build a structure from its leaves."""
    match tree:
        case None:
            return None
        case int():
            return leaves[tree]
        case dict():
            return {key: pack(child, leaves) for key, child in tree.items()}
        case tuple():
            return tuple(pack(child, leaves) for child in tree)
        case list():
            return [pack(child, leaves) for child in tree]


def unpack(tree: Tree, structure: Any) -> list[Any]:
    """Return the leaves of a structure.

    Raises:
        ValueError: if its nesting differs from that of `tree`.
    """
    leaves: dict[int, Any] = {}
    _unpack(tree, structure, leaves)
    return [leaves[position] for position in sorted(leaves)]


def _unpack(tree: Tree, structure: Any, leaves: dict[int, Any]) -> None:
    kind: type = type(structure)
    if isinstance(tree, int):
        leaves[tree] = structure
    elif kind is not type(tree):
        raise ValueError(f"a {kind.__name__} instead of {tree}")
    elif isinstance(tree, dict):
        if set(structure) != set(tree):
            raise ValueError(f"keys {sorted(structure)} instead of {sorted(tree)}")
        for key, child in tree.items():
            _unpack(child, structure[key], leaves)
    elif tree is not None:
        if len(structure) != len(tree):
            raise ValueError(f"{len(structure)} items instead of {len(tree)}")
        for child, value in zip(tree, structure, strict=True):
            _unpack(child, value, leaves)
