"""Random scalar programs whose loops carry values of any shape and dtype, as data.

`loop_programs` carries matrices of float64. These programs carry scalars and empty arrays, and
integers, bools, float32 and complex values beside the float64 ones. Loops have 0 to 3 iterations,
some results do not depend on the input, and bodies call `jit`."""

# The arrays of other libraries have no types here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from svod_testing.derivatives.loop_programs import DerivativeBlock, LoopDerivativeStep

__all__ = [
    "BODIES",
    "CarryKind",
    "CarryProgram",
    "draw_carry_program",
]

BODIES: Final = ("fori", "scan", "while", "cond", "switch", "jit", "checkpoint")
"""Names of the steps that have bodies."""

_FILLED: Final = ((), (), (1,), (3,), (2, 2), (1, 3))
_EMPTY: Final = ((0,), (0, 2), (2, 0))
_DTYPES: Final = ("float64",) * 8 + (
    "float32",
    "complex128",
    "complex128",
    "int32",
    "int64",
    "bool",
)
_COUNTS: Final = (0, 1, 2, 2, 3, 3)
_MAX_SIZE: Final = 16
_VIEWS: Final = ("row", "spread", "fit")


class CarryKind(NamedTuple):
    """Shape and dtype of a value."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def is_inexact(self) -> bool:
        return self.dtype.startswith(("float", "complex"))

    def __str__(self) -> str:
        return f"{self.dtype}{[*self.shape]}"


@dataclass(frozen=True)
class CarryProgram:
    """Steps from one array of floats to a scalar of the same dtype.

    Attributes:
        input: input array, which is value 0.
        block: program, whose results are added.
        is_forward_only: True if a while loop excludes reverse mode.
        kinds: shapes and dtypes of all values.
    """

    input: np.ndarray
    block: DerivativeBlock
    is_forward_only: bool
    kinds: Mapping[int, CarryKind] = field(repr=False)

    def iter_steps(self) -> Iterator[LoopDerivativeStep]:
        """Iterate over all steps, including the steps of bodies."""
        return self.block.iter_steps()

    def __str__(self) -> str:
        return "\n".join(self.block.iter_lines(self.kinds))


def draw_carry_program(seed: int, n_steps: int = 3, *, max_depth: int = 2) -> CarryProgram:
    """Generate the program of a seed, with at least one loop or branch."""
    rng = np.random.default_rng(seed)
    drawing = _CarryDrawing(rng, is_forward_only=bool(rng.random() < 0.12), max_depth=max_depth)
    dtype = "float32" if drawing.chance(0.1) else "float64"
    shape = drawing.shape()
    values = rng.normal(size=shape).astype(dtype)
    param = drawing.new(CarryKind(shape, dtype))
    scope, steps = _CarryScope([param], [], 0), list[LoopDerivativeStep]()
    while len(steps) < n_steps or not any(step.name in BODIES[:5] for step in steps):
        drawing.add_step(scope, steps)
    inexact = [
        n for n in scope.values if drawing.kinds[n].is_inexact and 0 not in drawing.kinds[n].shape
    ]
    results = [
        drawing.fit(scope, steps, value, CarryKind((), dtype))
        for value in (inexact or scope.values)[-4:]
    ]
    block = DerivativeBlock((param,), tuple(steps), tuple(results))
    return CarryProgram(values, block, drawing.is_forward_only, drawing.kinds)


class _CarryScope(NamedTuple):
    """Values and loop counters that a block may read, its nesting depth, and its carries."""

    values: list[int]
    counters: list[int]
    depth: int
    carried: tuple[int, ...] = ()


class _CarryDrawing:
    """Program under construction."""

    def __init__(self, rng: np.random.Generator, *, is_forward_only: bool, max_depth: int) -> None:
        self.rng, self.is_forward_only, self.max_depth = rng, is_forward_only, max_depth
        self.kinds: dict[int, CarryKind] = {}

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def new(self, kind: CarryKind) -> int:
        self.kinds[len(self.kinds)] = kind
        return len(self.kinds) - 1

    def value(self, scope: _CarryScope) -> int:
        """Pick a value; later ones are more likely."""
        n = len(scope.values)
        return scope.values[max(int(self.rng.integers(n)), int(self.rng.integers(n)))]

    def inexact(self, scope: _CarryScope, steps: list[LoopDerivativeStep]) -> int:
        value = self.value(scope)
        if not self.kinds[value].is_inexact:
            value = self.value(scope)
        if self.kinds[value].is_inexact:
            return value
        return self.fit(scope, steps, value, self.kinds[value]._replace(dtype="float64"))

    def shape(self) -> tuple[int, ...]:
        return self.choose(_EMPTY if self.chance(0.1) else _FILLED)

    def kind(self) -> CarryKind:
        return CarryKind(self.shape(), self.choose(_DTYPES))

    def add(
        self,
        scope: _CarryScope,
        steps: list[LoopDerivativeStep],
        name: str,
        operands: Sequence[int],
        kinds: Sequence[CarryKind],
        blocks: Sequence[DerivativeBlock] = (),
        **arguments: Any,
    ) -> tuple[int, ...]:
        results = tuple(map(self.new, kinds))
        steps.append(LoopDerivativeStep(name, tuple(operands), results, arguments, tuple(blocks)))
        scope.values.extend(results)
        return results

    def fit(
        self, scope: _CarryScope, steps: list[LoopDerivativeStep], value: int, kind: CarryKind
    ) -> int:
        """Return the value, or its conversion to another kind."""
        if self.kinds[value] == kind:
            return value
        return self.add(scope, steps, "fit", (value,), [kind], kind=kind)[0]

    def add_step(self, scope: _CarryScope, steps: list[LoopDerivativeStep]) -> None:
        names = ["const", "wave", "squash", "mul", "mul", "add", "where", "reduce", "spread"]
        if self._list_indices(scope):
            names += ["modulate", "row", "row", "put", "put"]
        if scope.depth < self.max_depth:
            names += ["fori", "scan"] * 4 + ["cond", "switch", "jit", "checkpoint"]
            names += ["while"] * 4 * self.is_forward_only
        match name := self.choose(names):
            case "const":
                kind = self.kind()
                self.add(scope, steps, name, (), [kind], kind=kind, seed=int(self.rng.integers(99)))
            case "fori" | "scan" | "while":
                self._add_loop(name, scope, steps)
            case "cond" | "switch" | "jit" | "checkpoint":
                self._add_call(name, scope, steps)
            case "put":
                self._add_put(scope, steps)
            case _:
                self._add_operation(name, scope, steps)

    def _list_indices(self, scope: _CarryScope) -> list[int]:
        """Integer scalars, of which the counters are the more likely ones."""
        computed = [
            n
            for n in scope.values
            if not self.kinds[n].shape and self.kinds[n].dtype.startswith("int")
        ]
        return [*scope.counters, *scope.counters, *computed]

    def _draw_index(self) -> dict[str, Any]:
        return {"shift": int(self.rng.integers(3)), "negative": self.chance(0.3)}

    def _add_put(self, scope: _CarryScope, steps: list[LoopDerivativeStep]) -> None:
        """Replace a row of a carry, whose old version is lost, or of a copy of any value."""
        carried = [n for n in scope.carried if n in scope.values]
        first = self.choose(carried) if carried and self.chance(0.6) else self.value(scope)
        kind = self.kinds[first]
        if 0 in kind.shape[:1] or not kind.shape or kind.dtype == "bool":
            return
        row = self.fit(scope, steps, self.value(scope), kind._replace(shape=kind.shape[1:]))
        if row == first:
            return
        # A view of the carry shows the new elements here, and the old ones in JAX.
        views = {first}
        for step in steps:
            if step.name in _VIEWS and not views.isdisjoint(step.operands):
                views.update(step.results)
        is_in_place = first in carried and row not in views
        operands = (first, row, self.choose(self._list_indices(scope)))
        self.add(scope, steps, "put", operands, [kind], **self._draw_index(), in_place=is_in_place)
        if is_in_place:
            scope.values[:] = [n for n in scope.values if n not in views]

    def _add_operation(
        self, name: str, scope: _CarryScope, steps: list[LoopDerivativeStep]
    ) -> None:
        first = self.inexact(scope, steps)
        kind = self.kinds[first]
        match name:
            case "wave" | "squash":
                self.add(scope, steps, name, (first,), [kind])
            case "mul" | "add":
                second = self.fit(scope, steps, self.value(scope), kind)
                self.add(scope, steps, name, (first, second), [kind])
            case "where":
                decision = self.fit(scope, steps, self.value(scope), CarryKind(kind.shape, "bool"))
                second = self.fit(scope, steps, self.value(scope), kind)
                self.add(scope, steps, name, (decision, first, second), [kind])
            case "reduce":
                if kind.shape:
                    self.add(scope, steps, name, (first,), [kind._replace(shape=kind.shape[1:])])
            case "spread":
                shape = (0 if self.chance(0.1) else int(self.rng.integers(1, 4)), *kind.shape)
                if len(shape) < 4 and np.prod(shape) <= _MAX_SIZE:
                    self.add(
                        scope, steps, name, (first,), [kind._replace(shape=shape)], shape=shape
                    )
            case "modulate":
                index = self.choose(self._list_indices(scope))
                self.add(scope, steps, name, (first, index), [kind])
            case _:
                if not kind.shape or kind.shape[0] == 0:
                    return
                index, row_kind = (
                    self.choose(self._list_indices(scope)),
                    kind._replace(shape=kind.shape[1:]),
                )
                self.add(scope, steps, name, (first, index), [row_kind], **self._draw_index())

    def _draw_carried(
        self, scope: _CarryScope, steps: list[LoopDerivativeStep], least: int
    ) -> list[int]:
        """Values of the scope, some of them converted to another kind."""
        return [
            self.fit(scope, steps, self.value(scope), self.kind())
            if self.chance(0.6)
            else self.value(scope)
            for _ in range(int(self.rng.integers(least, 4)))
        ]

    def _fill(self, scope: _CarryScope) -> list[LoopDerivativeStep]:
        steps: list[LoopDerivativeStep] = []
        for _ in range(int(self.rng.integers(1, 4))):
            self.add_step(scope, steps)
        return steps

    def _next(
        self, scope: _CarryScope, steps: list[LoopDerivativeStep], params: Sequence[int]
    ) -> list[int]:
        """The next values of the carries: kept, swapped, or computed and squashed."""
        following: list[int] = []
        for param in params:
            kind = self.kinds[param]
            same = [p for p in params if self.kinds[p] == kind and p in scope.values]
            if same and self.chance(0.15):
                following.append(self.choose(same))
                continue
            value = self.fit(scope, steps, self.value(scope), kind)
            if kind.is_inexact:
                if same and self.chance(0.5):
                    (value,) = self.add(scope, steps, "add", (value, self.choose(same)), [kind])
                if scope.counters and self.chance(0.4):
                    operands = (value, scope.counters[-1])
                    (value,) = self.add(scope, steps, "modulate", operands, [kind])
                (value,) = self.add(scope, steps, "squash", (value,), [kind])
            following.append(value)
        return following

    def _add_loop(self, name: str, scope: _CarryScope, steps: list[LoopDerivativeStep]) -> None:
        carried = self._draw_carried(scope, steps, 0 if name == "scan" else 1)
        params = [self.new(self.kinds[n]) for n in carried]
        count, kinds = self.choose(_COUNTS), [self.kinds[n] for n in carried]
        arguments: dict[str, Any] = {"count": count}
        if name != "scan":
            counter = self.new(CarryKind((), "int32"))
            inside = _CarryScope(
                [*scope.values, *params], [*scope.counters, counter], scope.depth + 1, tuple(params)
            )
            inner = self._fill(inside)
            block = DerivativeBlock(
                (counter, *params), tuple(inner), tuple(self._next(inside, inner, params))
            )
            # `_next` adds steps to `inner`.
            block = replace(block, steps=tuple(inner))
            if name == "fori":
                arguments["lower"] = int(self.rng.integers(-1, 2))
            self.add(scope, steps, name, carried, kinds, [block], **arguments)
            return
        sliced: list[int] = []
        with_axes = [n for n in scope.values if self.kinds[n].shape]
        if with_axes and self.chance(0.7):
            sliced.append(self.choose(with_axes))
            count = arguments["count"] = self.kinds[sliced[0]].shape[0]
            if self.chance(0.5):
                kind = CarryKind(
                    (count, *self.choose(((), (), (2,), (2,), (0,)))), self.choose(_DTYPES)
                )
                sliced.append(self.fit(scope, steps, self.value(scope), kind))
        slices = [self.new(self.kinds[n]._replace(shape=self.kinds[n].shape[1:])) for n in sliced]
        # The body counts in a carry, as `scan` has no counter.
        counter = self.new(CarryKind((), "int32"))
        inside = _CarryScope(
            [*scope.values, *params, *slices],
            [*scope.counters, counter],
            scope.depth + 1,
            tuple(params),
        )
        inner = self._fill(inside)
        following = self._next(inside, inner, params)
        stacked = [self.value(inside) for _ in range(int(self.rng.integers(3)))]
        stacked = [n for n in stacked if count * np.prod(self.kinds[n].shape) <= _MAX_SIZE]
        block = DerivativeBlock((counter, *params, *slices), tuple(inner), (*following, *stacked))
        kinds += [self.kinds[n]._replace(shape=(count, *self.kinds[n].shape)) for n in stacked]
        arguments |= {
            "n_carried": len(carried),
            "reverse": self.chance(0.4),
            "counts": self.chance(0.7),
        }
        self.add(scope, steps, name, (*carried, *sliced), kinds, [block], **arguments)

    def _add_call(self, name: str, scope: _CarryScope, steps: list[LoopDerivativeStep]) -> None:
        operands = self._draw_carried(scope, steps, 1)
        kinds = [
            self.kinds[self.value(scope)] if self.chance(0.6) else self.kind()
            for _ in range(int(self.rng.integers(1, 3)))
        ]
        selector: tuple[int, ...] = ()
        if name in ("cond", "switch"):
            source = self.value(scope)
            if scope.counters and self.chance(0.5):
                source = self.choose(scope.counters)
            kind = CarryKind((), "bool" if name == "cond" else "int32")
            selector = (self.fit(scope, steps, source, kind),)
        blocks: list[DerivativeBlock] = []
        n_blocks = {"cond": 2, "switch": int(self.rng.integers(1, 4))}.get(name, 1)
        for _ in range(n_blocks):
            params = tuple(self.new(self.kinds[n]) for n in operands)
            inside = _CarryScope([*scope.values, *params], scope.counters, scope.depth + 1)
            inner = self._fill(inside)
            results = tuple(self.fit(inside, inner, self.value(inside), kind) for kind in kinds)
            blocks.append(DerivativeBlock(params, tuple(inner), results))
        self.add(scope, steps, name, (*selector, *operands), kinds, blocks)
