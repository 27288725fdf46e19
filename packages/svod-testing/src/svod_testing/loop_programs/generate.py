"""Generator of random programs with loops: bodies, carries, trip counts and nested loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from svod_testing.loop_programs.draw import BOOL, SCALAR, ValueDraw, get_row
from svod_testing.loop_programs.meaning import evaluate_program
from svod_testing.loop_programs.operation_steps import draw_step
from svod_testing.loop_programs.program import Block, Kind, LoopProgram, LoopStep, Tree
from svod_testing.programs.draw import RejectedError
from svod_testing.programs.oracle import UnstableError

__all__ = ["generate"]

_COUNTS: Final = (0, 1, 2, 2, 3, 3, 5, 7, 11, 13, 31)
_LARGE: Final = (257, 1009, 2000)
_MAX_DEPTH: Final = 3
_VIEWS: Final = ("reshape", "permute", "expand", "flip", "slice")
"""Operations whose results may alias their operands."""


def generate(seed: int) -> LoopProgram:
    """Generate the program of a seed."""
    for attempt in range(300):
        try:
            program = _ProgramDraw(seed + (attempt << 40)).draw_program()
            for version in (0, 1):
                evaluate_program(program, version)
        except (RejectedError, UnstableError):
            continue
        return program
    raise AssertionError(f"seed {seed} generates no program")


class _ProgramDraw(ValueDraw):
    """Program under construction, with blocks, loops and branches."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.variables: dict[str, tuple[int, int, int, int]] = {}
        self.depth = 0
        self.iterations = 1

    def draw_program(self) -> LoopProgram:
        for _ in range(self.number(2, 4)):
            self.input(self.kind())
        self.input(Kind((self.number(2, 9),), "float32"))
        for _ in range(self.number(0, 3)):
            draw_step(self)
        first = len(self.steps)
        for _ in range(self.choose((1, 1, 1, 2, 2, 3))):
            if self.chance(0.2):
                self.draw_memory()
            self.draw_loop()
            for _ in range(self.number(0, 2)):
                draw_step(self)
        computed = [v for step in self.steps[first:] for v in step.results if v in self.scope]
        roots = (
            computed
            if self.chance(0.6)
            else [v for v in computed if self.chance(0.6)] or computed[-1:]
        )
        for memory in self.memory:
            self.add("read_memory", (memory,), self.kinds[memory])
            roots.append(self.scope[-1])
        self.rng.shuffle(roots)
        program = LoopProgram(tuple(self.steps), tuple(roots), self.kinds, self.variables)
        return program.without_dead_steps()

    def draw_memory(self) -> None:
        """Add memory that blocks write to."""
        source = self.value(lambda k: k.ndim > 0 and k.size > 0)
        kind = self.kinds[source]
        # Computed from the input: a plain copy would be made once, before the plan is repeated.
        changed = {"k": 0.25 if kind.is_float else 1} if kind.dtype != BOOL else {}
        source = self.add("shift" if changed else "not", (source,), kind, **changed)
        memory = self.add("make_memory", (source,), self.kinds[source])
        self.scope.remove(memory)
        self.memory.append(memory)

    # Blocks.

    def block(
        self, params: Sequence[Kind], finish: Callable[[list[int]], list[int]], n_steps: int
    ) -> Block:
        """Build a block of random steps, followed by the steps of `finish`.

        `finish` is a function from the parameters to the results.
        """
        steps, scope, memory = self.steps, self.scope, self.memory
        numbers = [self.new(kind) for kind in params]
        self.steps, self.scope, self.memory = [], [*scope, *numbers], list(memory)
        self.depth += 1
        try:
            for _ in range(n_steps):
                if self.depth < _MAX_DEPTH and self.chance(0.12):
                    self.draw_loop()
                else:
                    draw_step(self)
            results = finish(numbers)
            return Block(tuple(numbers), tuple(self.steps), tuple(results))
        finally:
            self.steps, self.scope, self.memory = steps, scope, memory
            self.depth -= 1

    def tree(self, n_leaves: int, *, is_required: bool = True) -> Tree:
        """Return a random structure with `n_leaves` leaves."""
        if n_leaves == 0:
            return None if not is_required or self.chance(0.5) else ()
        if n_leaves == 1 and self.chance(0.5):
            return 0
        leaves: list[Tree] = list(range(n_leaves))
        while len(leaves) > 3 or (len(leaves) > 1 and self.chance(0.3)):
            begin = self.number(0, len(leaves) - 2)
            end = self.number(begin + 1, len(leaves))
            leaves[begin:end] = [self.wrap(leaves[begin:end])]
        return self.wrap(leaves)

    def wrap(self, parts: list[Tree]) -> Tree:
        match self.number(0, 2):
            case 0:
                return list(parts)
            case 1:
                return tuple(parts)
            case _:
                names = self.rng.sample("abcxyz", len(parts))
                return dict(zip(names, parts, strict=True))

    def count(self) -> int:
        """Return a random trip count."""
        if self.iterations == 1 and self.chance(0.08):
            return self.choose(_LARGE)
        return self.choose(_COUNTS if self.iterations < 20 else (0, 1, 2, 3))

    def draw_loop(self) -> None:
        kept = self.iterations
        n_steps, n_scope = len(self.steps), len(self.scope)
        try:
            self.rng.choices(
                (self.draw_scan, self.draw_fori, self.draw_while, self.draw_branch), (4, 3, 2, 2)
            )[0]()
        except RejectedError:
            del self.steps[n_steps:], self.scope[n_scope:]
            if not self.depth:
                raise
        finally:
            self.iterations = kept

    def body_size(self) -> int:
        return self.choose((1, 2, 3, 4, 6)) if self.depth < 2 else self.choose((1, 2))

    def inits(self) -> list[int]:
        """Pick the initial values of a loop: existing values and new constants."""
        count = self.choose((1, 1, 2, 2, 3, 4))
        return [
            self.value() if self.chance(0.75) else self.constant(self.kind()) for _ in range(count)
        ]

    def take_results(self, step: LoopStep) -> None:
        self.steps.append(step)
        self.scope.extend(step.results)

    def draw_scan(self) -> None:
        n_xs = self.choose((0, 1, 1, 2))
        if n_xs == 0:
            count, length = self.count(), True
        else:
            sliced = self.value(lambda k: k.ndim > 0)
            count, length = self.kinds[sliced].shape[0], self.chance(0.2)
        xs: list[int] = []
        for _ in range(n_xs):
            fitting = [
                v for v in self.scope if self.kinds[v].ndim and self.kinds[v].shape[0] == count
            ]
            xs.append(self.choose(fitting))
        inits = self.inits() if not n_xs or self.chance(0.9) else []
        n_carried = len(inits)
        kinds = [self.kinds[v] for v in inits] + [get_row(self.kinds[v]) for v in xs]
        self.iterations *= max(count, 1)
        n_stacked = self.number(0 if inits else 1, 2)
        stacked: list[int] = []

        def finish(params: list[int]) -> list[int]:
            values = [self.value() for _ in range(n_stacked)]
            stacked[:] = values
            return [*self.next_carried(params[:n_carried], values), *values]

        block = self.block(kinds, finish, self.body_size())
        results = [self.new(self.kinds[v]) for v in inits]
        results += [
            self.new(replace(self.kinds[v], shape=(count, *self.kinds[v].shape))) for v in stacked
        ]
        args: dict[str, Any] = {
            "n_carried": n_carried,
            "carried": self.tree(n_carried),
            "sliced": self.tree(n_xs, is_required=False),
            "stacked": self.tree(n_stacked, is_required=False),
            "length": count if length else None,
            "reverse": self.chance(0.35),
        }
        self.take_results(LoopStep("scan", (*inits, *xs), tuple(results), args, (block,)))

    def draw_fori(self) -> None:
        inits = self.inits()
        count = self.count()
        lower = self.choose((0, 0, 0, 1, 3))
        upper: Any = lower + count
        operands = list(inits)
        kind = self.rng.random()
        if kind < 0.2 and self.iterations < 20:
            upper = f"n{len(self.variables)}"
            self.variables[upper] = (0, 40, lower + count % 30, self.number(0, 13))
        elif kind < 0.4:
            operands.append(self.count_of_values(count))
            upper = None
        elif kind < 0.45:
            upper = lower - count
        self.iterations *= max(count, 1)
        block = self.block(
            [SCALAR, *(self.kinds[v] for v in inits)],
            lambda params: self.next_carried(params[1:]),
            self.body_size(),
        )
        args: dict[str, Any] = {
            "carried": self.tree(len(inits)),
            "n_carried": len(inits),
            "lower": lower,
            "upper": upper,
        }
        results = tuple(self.new(self.kinds[v]) for v in inits)
        self.take_results(LoopStep("fori", tuple(operands), results, args, (block,)))

    def count_of_values(self, count: int) -> int:
        """Add a computed trip count of at most `count`."""
        source = self.value(lambda k: k.is_int and k.size > 0)
        total = self.add("sum", (source,), SCALAR, axis=None, keepdims=False, dtype="int32")
        return self.add("mod", (total,), SCALAR, k=count + 1)

    def draw_while(self) -> None:
        counter = self.constant(SCALAR)
        inits = [counter, *self.inits()]
        count = self.count()
        limit = (
            self.count_of_values(count)
            if self.chance(0.4)
            else self.add("full", (), SCALAR, shape=(), k=count, dtype="int32")
        )
        self.iterations *= max(count, 1)
        kinds = [self.kinds[v] for v in inits]

        def goes_on(params: list[int]) -> list[int]:
            more = self.add("lt", (params[0], limit), Kind((), BOOL))
            if self.chance(0.4):
                extra = self.fit(self.value(lambda k: k.dtype == BOOL), Kind((), BOOL))
                more = self.add("and", (more, extra), Kind((), BOOL))
            elif self.chance(0.4):
                source = self.value(lambda k: k.dtype == "float32" and k.size > 0)
                largest = self.add(
                    "amax", (source,), Kind((), "float32"), axis=None, keepdims=False
                )
                bound = self.add(
                    "full",
                    (),
                    Kind((), "float32"),
                    shape=(),
                    k=self.choose((0.7, 1.9)),
                    dtype="float32",
                )
                below = self.add("lt", (largest, bound), Kind((), BOOL))
                more = self.add("and", (more, below), Kind((), BOOL))
            return [more]

        memory, self.memory = self.memory, []
        condition = self.block(kinds, goes_on, 0)
        self.memory = memory

        def finish(params: list[int]) -> list[int]:
            following = self.next_carried(params[1:])
            return [self.add("shift", (params[0],), SCALAR, k=1), *following]

        body = self.block(kinds, finish, self.body_size())
        args = {"carried": self.tree(len(inits))}
        results = tuple(self.new(kind) for kind in kinds)
        self.take_results(LoopStep("while", tuple(inits), results, args, (condition, body)))

    def draw_branch(self) -> None:
        operands = [self.value() for _ in range(self.number(1, 3))]
        result_kinds = [self.kinds[self.value()] for _ in range(self.number(1, 2))]
        is_cond = self.chance(0.6)
        if is_cond:
            index = self.fit(self.value(), Kind((), BOOL))
        else:
            index = self.count_of_values(self.number(1, 4))
            if self.chance(0.3):
                index = self.add("shift", (index,), SCALAR, k=-1)
        kinds = [self.kinds[v] for v in operands]
        kept, self.memory = self.memory, []  # JAX has no branches that write

        def finish(_: list[int]) -> list[int]:
            return [self.fit(self.value(), kind) for kind in result_kinds]

        blocks = tuple(
            self.block(kinds, finish, self.number(0, 3))
            for _ in range(2 if is_cond else self.number(1, 4))
        )
        self.memory = kept
        arguments = self.tree(len(operands))
        if not isinstance(arguments, (list, tuple)):
            arguments = (arguments,)
        args: dict[str, Any] = {"given": list(arguments), "made": self.tree(len(result_kinds))}
        results = tuple(self.new(kind) for kind in result_kinds)
        self.take_results(
            LoopStep("cond" if is_cond else "switch", (index, *operands), results, args, blocks)
        )

    # Carried values.

    def next_carried(self, params: Sequence[int], kept: Sequence[int] = ()) -> list[int]:
        """Return the next carried values: computed, swapped, kept, or updated in place.

        `kept` are the other results of the block.
        """
        following: list[int] = []
        for param in params:
            kind = self.kinds[param]
            alike = [p for p in params if self.kinds[p] == kind and p in self.scope]
            chosen = self.rng.random()
            if chosen < 0.07:
                following.append(param)
            elif chosen < 0.17 and len(alike) > 1:
                following.append(self.choose(alike))
            elif chosen < 0.37 and kind.ndim and kind.size and param in self.scope:
                following.append(self.update(param, [*following, *kept]))
            else:
                following.append(self.bounded(param, self.fit(self.value(), kind)))
        return following

    def bounded(self, old: int, new: int) -> int:
        """Combine two values so that the result does not grow from iteration to iteration."""
        kind = self.kinds[old]
        if kind.is_float:
            if self.chance(0.5):
                return self.add(
                    "mix", (old, self.add(self.choose(("sin", "tanh", "clip")), (new,), kind)), kind
                )
            return self.add(
                self.choose(("sin", "tanh", "clip")), (self.add("add", (old, new), kind),), kind
            )
        if kind.dtype == BOOL:
            return self.add(self.choose(("xor", "or", "and")), (old, new), kind)
        return self.add(self.choose(("add", "sub", "xor", "max")), (old, new), kind)

    def update(self, target: int, results: Sequence[int]) -> int:
        """Replace some elements of a carried value, in place or in a copy.

        It is not updated in place if a result or a view aliases it.
        """
        kind = self.kinds[target]
        shown = {
            *results,
            *(v for step in self.steps if step.operation in _VIEWS for v in step.operands),
        }
        is_in_place = self.chance(0.7) and target not in shown
        if self.chance(0.6):
            row = self.fit(self.value(), get_row(kind))
            row = self.add("sin", (row,), get_row(kind)) if kind.is_float else row
            index = self.fit(self.value(lambda k: k.dtype == "int32" and k.size > 0), SCALAR)
            name = "set_row" if is_in_place else "with_row"
            result = self.add(name, (target, index, row), kind, n=kind.shape[0])
        else:
            bounds, shape = self.part(kind)
            value = self.fit(self.value(), replace(kind, shape=shape))
            value = self.add("sin", (value,), self.kinds[value]) if kind.is_float else value
            name = "set_part" if is_in_place else "with_part"
            result = self.add(name, (target, value), kind, index=bounds)
        if is_in_place:
            # Later readers of the target would read the new version.
            self.scope.remove(target)
        return result
