"""Random differentiable programs with loops and branches, as data; `loop_libraries` runs them.

Values are matrices of float64, and integer counters. Bodies read their parameters, the carry and
values of enclosing blocks, and contain nested loops, branches, checkpoints and gradients. Carried
values are squashed, so that they stay small."""

# The operations of other libraries have no types here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from svod_tensor import Tensor
from svod_testing.derivatives.programs import BINARY, FUNCTIONS, MATRICES, REDUCTIONS, UNARY

__all__ = [
    "LOOP_STEPS",
    "ORDERS",
    "DerivativeBlock",
    "LoopDerivativeProgram",
    "LoopDerivativeStep",
    "draw_loop_derivative_program",
]

_MAX_SIZE: Final = 60

LOOP_STEPS: Final = (
    "scan",
    "fori",
    "while",
    "cond",
    "switch",
    "checkpoint",
    "gradient",
    "hessian",
    "wave",
    "row",
    "put_row",
    "squash",
    "spread",
)
"""Names of steps that are not functions of `programs`."""

ORDERS: Final = (
    ("forward", "reverse"),
    ("reverse", "reverse"),
    ("forward", "forward"),
    ("reverse", "forward"),
)
"""Modes of second derivatives: the outer mode, then the inner one."""

_MAX_TWICE: Final = 6
"""Maximum number of elements of a matrix for second derivatives of a body."""

_VIEWS: Final = frozenset({"row", "transpose", "flip", "slice", "reshape"})

_STRUCTURES: Final = ("list", "tuple", "dict", "nested")


@dataclass(frozen=True)
class DerivativeBlock:
    """Body of a loop, or a branch.

    Attributes:
        params: indices of its parameters.
        steps: steps, which read the parameters and values of enclosing blocks.
        results: indices of its results.
    """

    params: tuple[int, ...]
    steps: tuple[LoopDerivativeStep, ...]
    results: tuple[int, ...]

    def iter_steps(self) -> Iterator[LoopDerivativeStep]:
        """Iterate over all steps, including the steps of inner blocks."""
        for step in self.steps:
            yield step
            for inner in step.blocks:
                yield from inner.iter_steps()

    def iter_lines(self, kinds: Mapping[int, object], indent: str = "") -> Iterator[str]:
        """Iterate over the lines of the block as text.

        Args:
            kinds: shown for each value: its shape, or shape and dtype.
            indent: start of each line.
        """

        def define(values: Sequence[int]) -> str:
            return ", ".join(f"x{n}: {kinds[n]}" for n in values)

        def read(values: Sequence[int]) -> str:
            return ", ".join(f"x{n}" for n in values)

        yield f"{indent}given {define(self.params)}"
        for step in self.steps:
            arguments = "".join(f", {name}={value!r}" for name, value in step.arguments.items())
            call = f"{step.name}({read(step.operands)}{arguments})"
            yield f"{indent}  {define(step.results)} = {call}"
            for inner in step.blocks:
                yield from inner.iter_lines(kinds, indent + "    ")
        yield f"{indent}  give {read(self.results)}"


class LoopDerivativeStep(NamedTuple):
    """A step of a program: a function of `programs`, or one of `LOOP_STEPS`."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    arguments: Mapping[str, Any]
    blocks: tuple[DerivativeBlock, ...] = ()


@dataclass(frozen=True)
class LoopDerivativeProgram:
    """Steps from matrices to a scalar.

    Attributes:
        inputs: input arrays of float64, which are the values of lowest index.
        block: program, whose results are matrices that are squashed and summed.
        is_forward_only: True if a loop has a computed trip count, which excludes reverse mode.
        shapes: shapes of all values; None for integers.
    """

    inputs: tuple[np.ndarray, ...]
    block: DerivativeBlock
    is_forward_only: bool
    shapes: Mapping[int, tuple[int, int] | None] = field(repr=False)

    def iter_steps(self) -> Iterator[LoopDerivativeStep]:
        """Iterate over all steps, including the steps of bodies."""
        return self.block.iter_steps()

    def __str__(self) -> str:
        return "\n".join(self.block.iter_lines(self.shapes))


def draw_loop_derivative_program(
    seed: int, n_steps: int = 6, *, max_depth: int = 3, max_inner_steps: int = 4
) -> LoopDerivativeProgram:
    """Generate the program of a seed, with at least one loop or branch.

    Args:
        seed: seed of the program.
        n_steps: number of steps outside of bodies.
        max_depth: maximum nesting depth of bodies.
        max_inner_steps: maximum number of steps generated for a body.
    """
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(1, 5, 2))
    shapes = [(rows, columns), (1, columns), (rows, 1), (columns, columns)][
        : int(rng.integers(2, 5))
    ]
    inputs = tuple(rng.normal(0, 1, shape) for shape in shapes)
    drawing = _Drawing(
        rng,
        is_forward_only=bool(rng.random() < 0.15),
        max_depth=max_depth,
        max_inner_steps=max_inner_steps,
    )
    params = [drawing.new(shape) for shape in shapes]
    scope = _Scope([*params], [], 0)
    steps: list[LoopDerivativeStep] = []
    while len(steps) < n_steps or not any(step.name in _LOOPS for step in steps):
        drawing.add_step(scope, steps)
    results = tuple(scope.matrices[-3:])
    return LoopDerivativeProgram(
        inputs,
        DerivativeBlock(tuple(params), tuple(steps), results),
        drawing.is_forward_only,
        drawing.shapes,
    )


_LOOPS: Final = ("scan", "fori", "while", "cond", "switch")


class _Scope(NamedTuple):
    """Values that a block may read, and its nesting depth."""

    matrices: list[int]
    numbers: list[int]
    depth: int
    carried: tuple[int, ...] = ()

    def enter(
        self, params: Sequence[int], numbers: Sequence[int], carried: Sequence[int] = ()
    ) -> _Scope:
        return _Scope(
            [*self.matrices, *params], [*self.numbers, *numbers], self.depth + 1, tuple(carried)
        )


class _Drawing:
    """Program under construction."""

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        is_forward_only: bool,
        max_depth: int,
        max_inner_steps: int,
    ) -> None:
        self.rng, self.is_forward_only = rng, is_forward_only
        self.max_depth, self.max_inner_steps = max_depth, max_inner_steps
        self.shapes: dict[int, tuple[int, int] | None] = {}

    # Choices.

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def new(self, shape: tuple[int, int] | None) -> int:
        value = len(self.shapes)
        self.shapes[value] = shape
        return value

    def matrix(self, numbers: Sequence[int]) -> int:
        """Pick one of these values; later ones are more likely."""
        return numbers[
            max(int(self.rng.integers(len(numbers))), int(self.rng.integers(len(numbers))))
        ]

    def _shape(self, value: int) -> tuple[int, int]:
        shape = self.shapes[value]
        assert shape is not None
        return shape

    # Steps.

    def add_step(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        """Add a random step to a block, unless its result is too large."""
        kinds = ["function"] * 8
        if scope.numbers:
            kinds += ["number"] * 4
        if scope.carried:
            kinds += ["put_row"] * 2
        if scope.depth < self.max_depth:
            kinds += (
                ["scan"] * 3
                + ["fori"] * 3
                + ["cond", "switch", "checkpoint", "gradient", "hessian"]
            )
            if self.is_forward_only:
                kinds += ["while"] * 3
        match kind := self.choose(kinds):
            case "function":
                self._add_function(scope, steps)
            case "number":
                self._add_number(scope, steps)
            case "put_row":
                self._add_put_row(scope, steps)
            case "cond" | "switch":
                self._add_choice(kind, scope, steps)
            case "checkpoint":
                self._add_checkpoint(scope, steps)
            case "gradient":
                self._add_gradient(scope, steps)
            case "hessian":
                self._add_hessian(scope, steps)
            case "scan":
                self._add_scan(scope, steps)
            case _:
                self._add_counted(kind, scope, steps)

    def _add(
        self,
        steps: list[LoopDerivativeStep],
        scope: _Scope,
        name: str,
        operands: Sequence[int],
        shapes: Sequence[tuple[int, int]],
        blocks: Sequence[DerivativeBlock] = (),
        **arguments: Any,
    ) -> tuple[int, ...]:
        results = tuple(map(self.new, shapes))
        steps.append(LoopDerivativeStep(name, tuple(operands), results, arguments, tuple(blocks)))
        scope.matrices.extend(results)
        return results

    def _add_function(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        kind = self.rng.choice(4, p=[0.4, 0.35, 0.1, 0.15])
        first = self.matrix(scope.matrices)
        rows, columns = self._shape(first)
        operands, arguments = (first,), {}
        if kind == 0:
            name = self.choose(list(UNARY))
        elif kind == 3:
            name = self.choose(list(REDUCTIONS))
            arguments = {"axis": int(self.rng.integers(2))}
        else:
            fits = self._broadcasts if kind == 1 else self._has_columns
            name = self.choose(list(BINARY if kind == 1 else MATRICES))
            operands = (
                first,
                self.matrix([n for n in scope.matrices if fits(self._shape(n), (rows, columns))]),
            )
        zeros = [Tensor.zeros(self._shape(n), dtype="float64") for n in operands]
        shape = FUNCTIONS[name].call(*zeros, *arguments.values()).shape
        if shape[0] * shape[1] <= _MAX_SIZE:
            self._add(steps, scope, name, operands, [shape], (), **arguments)

    @staticmethod
    def _broadcasts(left: tuple[int, int], right: tuple[int, int]) -> bool:
        return all(a == b or 1 in (a, b) for a, b in zip(left, right, strict=True))

    @staticmethod
    def _has_columns(left: tuple[int, int], right: tuple[int, int]) -> bool:
        return left[1] == right[1]

    def _add_number(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        source, counter = self.matrix(scope.matrices), self.choose(scope.numbers)
        shape = self._shape(source)
        if self.chance(0.5):
            self._add(steps, scope, "wave", (source, counter), [shape])
        else:
            self._add(steps, scope, "row", (source, counter), [(1, shape[1])], n_rows=shape[0])

    def _add_put_row(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        """Write a row of a carried value, whose old version is lost, or of a copy of any value."""
        is_carried = self.chance(0.6)
        target = (
            self.choose([n for n in scope.carried if n in scope.matrices] or scope.matrices)
            if is_carried
            else self.matrix(scope.matrices)
        )
        is_carried = target in scope.carried
        rows, columns = self._shape(target)
        fitting = [n for n in scope.matrices if self._shape(n)[1] == columns and n != target]
        if not fitting:
            return
        row = self.choose(scope.numbers) if scope.numbers and self.chance(0.7) else None
        operands = (target, self.matrix(fitting), *(() if row is None else (row,)))
        index = int(self.rng.integers(rows))
        self._add(
            steps,
            scope,
            "put_row",
            operands,
            [(rows, columns)],
            n_rows=rows,
            index=index,
            copy=not is_carried,
        )
        if is_carried:
            # A view shows the new elements here, and the old ones in JAX.
            lost = {target}
            for step in steps:
                if step.name in _VIEWS and not lost.isdisjoint(step.operands):
                    lost.update(step.results)
            scope.matrices[:] = [n for n in scope.matrices if n not in lost]

    def _fit(
        self,
        scope: _Scope,
        steps: list[LoopDerivativeStep],
        shape: tuple[int, int],
        outside: Sequence[int],
    ) -> int:
        """Return a value of a shape: a squashed one, or a value of an enclosing block."""
        same = [n for n in scope.matrices if self._shape(n) == shape]
        if same and self.chance(0.7):
            value = self.matrix(same)
            if value in outside and self.chance(0.6):
                return value
            return self._add(steps, scope, "squash", (value,), [shape])[0]
        value = self.matrix(scope.matrices)
        return self._add(steps, scope, "spread", (value,), [shape], shape=shape)[0]

    def _fill_block(self, scope: _Scope) -> list[LoopDerivativeStep]:
        steps: list[LoopDerivativeStep] = []
        for _ in range(int(self.rng.integers(1, self.max_inner_steps + 1))):
            self.add_step(scope, steps)
        return steps

    # Loops.

    def _draw_carried(self, scope: _Scope) -> list[int]:
        return [self.matrix(scope.matrices) for _ in range(int(self.rng.integers(1, 4)))]

    def _add_scan(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        carried = self._draw_carried(scope)
        sliced: list[int] = []
        count = int(self.rng.integers(1, 5))
        if self.chance(0.8):
            sliced = [self.matrix(scope.matrices)]
            count = self._shape(sliced[0])[0]
            if self.chance(0.3):
                sliced.append(
                    self.matrix([n for n in scope.matrices if self._shape(n)[0] == count])
                )
        params = [self.new(self._shape(n)) for n in carried]
        slices = [self.new((1, self._shape(n)[1])) for n in sliced]
        numbers = [self.new(None)] if self.chance(0.4) else []
        inside = scope.enter([*params, *slices], numbers, params)
        inner = self._fill_block(inside)
        outside = [n for n in inside.matrices if n in scope.matrices or n in params]
        results = [self._fit(inside, inner, self._shape(n), outside) for n in params]
        stacked = [self.matrix(inside.matrices) for _ in range(int(self.rng.integers(3)))]
        stacked = [n for n in stacked if count * self._shape(n)[0] * self._shape(n)[1] <= _MAX_SIZE]
        block = DerivativeBlock((*params, *numbers, *slices), tuple(inner), (*results, *stacked))
        bound = "variable" if not sliced and self.chance(0.3) else "number"
        # A stacked result of symbolic size is summed immediately.
        n_stacked = 1 if bound == "variable" else count
        shapes = [self._shape(n) for n in carried]
        shapes += [(n_stacked * self._shape(n)[0], self._shape(n)[1]) for n in stacked]
        self._add(
            steps,
            scope,
            "scan",
            (*carried, *sliced),
            shapes,
            [block],
            n_carried=len(carried),
            counts=bool(numbers),
            length=count,
            reverse=self.chance(0.4),
            every=self.choose((None, None, None, 1, 2, 3)),
            structure=self.choose(_STRUCTURES),
            bound=bound,
        )

    def _add_counted(self, kind: str, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        carried = self._draw_carried(scope)
        params, counter = [self.new(self._shape(n)) for n in carried], self.new(None)
        inside = scope.enter(params, [counter], params)
        inner = self._fill_block(inside)
        outside = [n for n in inside.matrices if n in scope.matrices or n in params]
        results = [self._fit(inside, inner, self._shape(n), outside) for n in params]
        block = DerivativeBlock((counter, *params), tuple(inner), tuple(results))
        lower = int(self.rng.integers(3))
        bounds = ("number", "number", "variable", *(("tensor",) if self.is_forward_only else ()))
        self._add(
            steps,
            scope,
            kind,
            carried,
            [self._shape(n) for n in carried],
            [block],
            lower=lower,
            upper=lower + int(self.rng.integers(0 if self.chance(0.1) else 1, 5)),
            bound=self.choose(bounds),
            every=self.choose((None, None, None, 1, 2, 3)),
            structure=self.choose(_STRUCTURES),
        )

    # Choices and derivatives inside.

    def _add_choice(self, kind: str, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        operands = self._draw_carried(scope)
        selector = (
            self.choose(scope.numbers)
            if scope.numbers and self.chance(0.5)
            else self.matrix(scope.matrices)
        )
        shapes = [
            self._shape(self.matrix(scope.matrices)) for _ in range(int(self.rng.integers(1, 3)))
        ]
        blocks: list[DerivativeBlock] = []
        for _ in range(2 if kind == "cond" else int(self.rng.integers(1, 4))):
            params = [self.new(self._shape(n)) for n in operands]
            inside = scope.enter(params, ())
            inner = self._fill_block(inside)
            outside = [n for n in inside.matrices if n in scope.matrices or n in params]
            results = tuple(self._fit(inside, inner, shape, outside) for shape in shapes)
            blocks.append(DerivativeBlock(tuple(params), tuple(inner), results))
        self._add(
            steps,
            scope,
            kind,
            (selector, *operands),
            shapes,
            blocks,
            counts=self.shapes[selector] is None,
            structure=self.choose(_STRUCTURES),
        )

    def _add_checkpoint(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        operands = self._draw_carried(scope)
        params = [self.new(self._shape(n)) for n in operands]
        inside = scope.enter(params, ())
        inner = self._fill_block(inside)
        results = tuple(inside.matrices[-int(self.rng.integers(1, 3)) :])
        block = DerivativeBlock(tuple(params), tuple(inner), results)
        self._add(steps, scope, "checkpoint", operands, [self._shape(n) for n in results], [block])

    def _add_hessian(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        """Add the Hessian with respect to one matrix."""
        small = [n for n in scope.matrices if np.prod(self._shape(n)) <= _MAX_TWICE]
        if not small:
            return
        operand = self.matrix(small)
        size = int(np.prod(self._shape(operand)))
        param = self.new(self._shape(operand))
        inside = scope.enter((param,), ())
        is_forward_only, self.is_forward_only = self.is_forward_only, False
        inner = self._fill_block(inside)
        self.is_forward_only = is_forward_only
        block = DerivativeBlock((param,), tuple(inner), (inside.matrices[-1],))
        self._add(
            steps, scope, "hessian", (operand,), [(size, size)], [block], order=self.choose(ORDERS)
        )

    def _add_gradient(self, scope: _Scope, steps: list[LoopDerivativeStep]) -> None:
        operands = self._draw_carried(scope)
        params = [self.new(self._shape(n)) for n in operands]
        inside = scope.enter(params, ())
        is_forward_only, self.is_forward_only = self.is_forward_only, False
        inner = self._fill_block(inside)
        self.is_forward_only = is_forward_only
        block = DerivativeBlock(tuple(params), tuple(inner), (inside.matrices[-1],))
        self._add(steps, scope, "gradient", operands, [self._shape(n) for n in operands], [block])
