"""Random programs with loops: bodies, structures of what is carried, numbers of iterations, loops in loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from svod_tensor.testing.loop_programs.meaning import UnstableError, evaluate_program
from svod_tensor.testing.loop_programs.program import Block, Kind, Program, Step, Tree

__all__ = ["generate"]

T = TypeVar("T")

_DTYPES: Final = ("float32",) * 12 + ("int32",) * 5 + ("float64", "int64", "bool", "uint8", "int8")
_SIZES: Final = (1, 2, 3, 3, 4, 5, 5, 7, 8, 11, 13, 16)
_COUNTS: Final = (0, 1, 2, 2, 3, 3, 5, 7, 11, 13, 31)
_LARGE: Final = (257, 1009, 2000)
_MAX_SIZE: Final = 300
_MAX_DEPTH: Final = 3
_BOOL: Final = "bool"
_VIEWS: Final = ("reshape", "permute", "expand", "flip", "slice")
"""What may show the memory of its operand."""
_SCALAR: Final = Kind((), "int32")


class _RejectedError(Exception):
    """Nothing that fits is there to be drawn."""


def generate(seed: int) -> Program:
    """The program of a seed."""
    for attempt in range(300):
        try:
            program = _Draw(seed + (attempt << 40)).draw_program()
            for version in (0, 1):
                evaluate_program(program, version)
        except (_RejectedError, UnstableError):
            continue
        return program
    raise AssertionError(f"seed {seed} gives no program")


class _Draw:
    """A program in the making: the steps of the innermost block, and what may be read there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kinds: dict[int, Kind] = {}
        self.steps: list[Step] = []
        self.scope: list[int] = []
        self.memory: list[int] = []
        self.variables: dict[str, tuple[int, int, int, int]] = {}
        self.depth = 0
        self.iterations = 1

    # Choices.

    def choose(self, choices: Sequence[T]) -> T:
        if not choices:
            raise _RejectedError
        return choices[int(self.rng.random() * len(choices))]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return self.rng.randint(low, high)

    def kind(self) -> Kind:
        shape = tuple(self.choose(_SIZES) for _ in range(self.choose((0, 0, 1, 1, 1, 2, 2, 3))))
        if shape and self.chance(0.03):
            shape = (0, *shape[1:])
        kind = Kind(shape, self.choose(_DTYPES))
        return kind if kind.size <= _MAX_SIZE else self.kind()

    def value(self, fits: Callable[[Kind], bool] = lambda kind: True) -> int:
        """A value that fits, often a recent one."""
        fitting = [v for v in self.scope if fits(self.kinds[v])]
        return self.choose(fitting[-4:] if self.chance(0.6) else fitting)

    # Steps.

    def new(self, kind: Kind) -> int:
        if kind.size > _MAX_SIZE:
            raise _RejectedError
        number = len(self.kinds)
        self.kinds[number] = kind
        return number

    def add(self, operation: str, operands: Sequence[int], kind: Kind, **args: Any) -> int:
        result = self.new(kind)
        self.steps.append(Step(operation, tuple(operands), (result,), args))
        self.scope.append(result)
        return result

    def input(self, kind: Kind) -> int:
        return self.add("input", (), kind, seed=self.number(0, 99))

    def constant(self, kind: Kind) -> int:
        fill: Any = self.chance(0.5)
        if kind.dtype != _BOOL:
            fill = self.choose((0.5, -0.25, 1.0)) if kind.is_float else self.number(0, 5)
        return self.add("full", (), kind, shape=kind.shape, k=fill, dtype=kind.dtype)

    # The program.

    def draw_program(self) -> Program:
        for _ in range(self.number(2, 4)):
            self.input(self.kind())
        self.input(Kind((self.number(2, 9),), "float32"))
        for _ in range(self.number(0, 3)):
            self.draw_step()
        first = len(self.steps)
        for _ in range(self.choose((1, 1, 1, 2, 2, 3))):
            if self.chance(0.2):
                self.draw_memory()
            self.draw_loop()
            for _ in range(self.number(0, 2)):
                self.draw_step()
        made = [v for step in self.steps[first:] for v in step.results if v in self.scope]
        roots = made if self.chance(0.6) else [v for v in made if self.chance(0.6)] or made[-1:]
        for memory in self.memory:
            self.add("read_memory", (memory,), self.kinds[memory])
            roots.append(self.scope[-1])
        self.rng.shuffle(roots)
        program = Program(tuple(self.steps), tuple(roots), self.kinds, self.variables)
        return program.without_dead_steps()

    def draw_memory(self) -> None:
        """Memory that blocks write to."""
        source = self.value(lambda k: k.ndim > 0 and k.size > 0)
        kind = self.kinds[source]
        # A copy of an input would be made once, before what is repeated.
        changed = {"k": 0.25 if kind.is_float else 1} if kind.dtype != _BOOL else {}
        source = self.add("shift" if changed else "not", (source,), kind, **changed)
        memory = self.add("make_memory", (source,), self.kinds[source])
        self.scope.remove(memory)
        self.memory.append(memory)

    def draw_step(self) -> int:
        """A step with an operation that is drawn, at least in the end."""
        for _ in range(20):
            n_steps, n_scope = len(self.steps), len(self.scope)
            try:
                return self.rng.choices(_STEPS, _WEIGHTS)[0](self)
            except _RejectedError:
                del self.steps[n_steps:], self.scope[n_scope:]
        raise _RejectedError

    # Blocks.

    def block(self, params: Sequence[Kind], finish: Callable[[list[int]], list[int]], n_steps: int) -> Block:
        """A block with steps that are drawn, and those of `finish`, which gets the parameters and gives the results."""
        steps, scope, memory = self.steps, self.scope, self.memory
        numbers = [self.new(kind) for kind in params]
        self.steps, self.scope, self.memory = [], [*scope, *numbers], list(memory)
        self.depth += 1
        try:
            for _ in range(n_steps):
                if self.depth < _MAX_DEPTH and self.chance(0.12):
                    self.draw_loop()
                else:
                    self.draw_step()
            results = finish(numbers)
            return Block(tuple(numbers), tuple(self.steps), tuple(results))
        finally:
            self.steps, self.scope, self.memory = steps, scope, memory
            self.depth -= 1

    def tree(self, n_leaves: int, *, is_required: bool = True) -> Tree:
        """A structure of so many leaves."""
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
        """A number of iterations."""
        if self.iterations == 1 and self.chance(0.08):
            return self.choose(_LARGE)
        return self.choose(_COUNTS if self.iterations < 20 else (0, 1, 2, 3))

    def draw_loop(self) -> None:
        kept = self.iterations
        n_steps, n_scope = len(self.steps), len(self.scope)
        try:
            self.rng.choices(
                (self.draw_scan, self.draw_fori, self.draw_while, self.draw_branch), (4, 3, 2, 2)
            )[0]()  # fmt: skip
        except _RejectedError:
            del self.steps[n_steps:], self.scope[n_scope:]
            if not self.depth:
                raise
        finally:
            self.iterations = kept

    def body_size(self) -> int:
        return self.choose((1, 2, 3, 4, 6)) if self.depth < 2 else self.choose((1, 2))

    def inits(self) -> list[int]:
        """What a loop carries first: values that are there, and new ones."""
        count = self.choose((1, 1, 2, 2, 3, 4))
        return [self.value() if self.chance(0.75) else self.constant(self.kind()) for _ in range(count)]

    def take_results(self, step: Step) -> None:
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
            fitting = [v for v in self.scope if self.kinds[v].ndim and self.kinds[v].shape[0] == count]
            xs.append(self.choose(fitting))
        inits = self.inits() if not n_xs or self.chance(0.9) else []
        n_carried = len(inits)
        kinds = [self.kinds[v] for v in inits] + [_row(self.kinds[v]) for v in xs]
        self.iterations *= max(count, 1)
        n_stacked = self.number(0 if inits else 1, 2)
        stacked: list[int] = []

        def finish(params: list[int]) -> list[int]:
            made = [self.value() for _ in range(n_stacked)]
            stacked[:] = made
            return [*self.next_carried(params[:n_carried], made), *made]

        block = self.block(kinds, finish, self.body_size())
        results = [self.new(self.kinds[v]) for v in inits]
        results += [self.new(replace(self.kinds[v], shape=(count, *self.kinds[v].shape))) for v in stacked]
        args: dict[str, Any] = {
            "n_carried": n_carried,
            "carried": self.tree(n_carried),
            "sliced": self.tree(n_xs, is_required=False),
            "stacked": self.tree(n_stacked, is_required=False),
            "length": count if length else None,
            "reverse": self.chance(0.35),
        }
        self.take_results(Step("scan", (*inits, *xs), tuple(results), args, (block,)))

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
            [_SCALAR, *(self.kinds[v] for v in inits)], lambda params: self.next_carried(params[1:]), self.body_size()
        )
        args: dict[str, Any] = {
            "carried": self.tree(len(inits)), "n_carried": len(inits), "lower": lower, "upper": upper,
        }  # fmt: skip
        results = tuple(self.new(self.kinds[v]) for v in inits)
        self.take_results(Step("fori", tuple(operands), results, args, (block,)))

    def count_of_values(self, count: int) -> int:
        """A computed number of iterations."""
        source = self.value(lambda k: k.is_int and k.size > 0)
        total = self.add("sum", (source,), _SCALAR, axis=None, keepdims=False, dtype="int32")
        return self.add("mod", (total,), _SCALAR, k=count + 1)

    def draw_while(self) -> None:
        counter = self.constant(_SCALAR)
        inits = [counter, *self.inits()]
        count = self.count()
        limit = self.count_of_values(count) if self.chance(0.4) else self.add(
            "full", (), _SCALAR, shape=(), k=count, dtype="int32"
        )  # fmt: skip
        self.iterations *= max(count, 1)
        kinds = [self.kinds[v] for v in inits]

        def goes_on(params: list[int]) -> list[int]:
            more = self.add("lt", (params[0], limit), Kind((), _BOOL))
            if self.chance(0.4):
                other = self.fit(self.value(lambda k: k.dtype == _BOOL), Kind((), _BOOL))
                more = self.add("and", (more, other), Kind((), _BOOL))
            elif self.chance(0.4):
                source = self.value(lambda k: k.dtype == "float32" and k.size > 0)
                largest = self.add("amax", (source,), Kind((), "float32"), axis=None, keepdims=False)
                bound = self.add("full", (), Kind((), "float32"), shape=(), k=self.choose((0.7, 1.9)), dtype="float32")
                below = self.add("lt", (largest, bound), Kind((), _BOOL))
                more = self.add("and", (more, below), Kind((), _BOOL))
            return [more]

        memory, self.memory = self.memory, []
        condition = self.block(kinds, goes_on, 0)
        self.memory = memory

        def finish(params: list[int]) -> list[int]:
            following = self.next_carried(params[1:])
            return [self.add("shift", (params[0],), _SCALAR, k=1), *following]

        body = self.block(kinds, finish, self.body_size())
        args = {"carried": self.tree(len(inits))}
        results = tuple(self.new(kind) for kind in kinds)
        self.take_results(Step("while", tuple(inits), results, args, (condition, body)))

    def draw_branch(self) -> None:
        given = [self.value() for _ in range(self.number(1, 3))]
        made = [self.kinds[self.value()] for _ in range(self.number(1, 2))]
        is_cond = self.chance(0.6)
        if is_cond:
            index = self.fit(self.value(), Kind((), _BOOL))
        else:
            index = self.count_of_values(self.number(1, 4))
            if self.chance(0.3):
                index = self.add("shift", (index,), _SCALAR, k=-1)
        kinds = [self.kinds[v] for v in given]
        kept, self.memory = self.memory, []  # JAX has no branches that write

        def finish(_: list[int]) -> list[int]:
            return [self.fit(self.value(), kind) for kind in made]

        blocks = tuple(self.block(kinds, finish, self.number(0, 3)) for _ in range(2 if is_cond else self.number(1, 4)))
        self.memory = kept
        arguments = self.tree(len(given))
        if not isinstance(arguments, (list, tuple)):
            arguments = (arguments,)
        args: dict[str, Any] = {"given": list(arguments), "made": self.tree(len(made))}
        results = tuple(self.new(kind) for kind in made)
        self.take_results(Step("cond" if is_cond else "switch", (index, *given), results, args, blocks))

    # What is carried.

    def next_carried(self, params: Sequence[int], kept: Sequence[int] = ()) -> list[int]:
        """The next values of what is carried, some of them swapped, kept, or written where they are; `kept` are other results."""
        found: list[int] = []
        for param in params:
            kind = self.kinds[param]
            alike = [p for p in params if self.kinds[p] == kind and p in self.scope]
            chosen = self.rng.random()
            if chosen < 0.07:
                found.append(param)
            elif chosen < 0.17 and len(alike) > 1:
                found.append(self.choose(alike))
            elif chosen < 0.37 and kind.ndim and kind.size and param in self.scope:
                found.append(self.update(param, [*found, *kept]))
            else:
                found.append(self.bounded(param, self.fit(self.value(), kind)))
        return found

    def bounded(self, old: int, new: int) -> int:
        """A value of this kind that does not grow from one iteration to the next."""
        kind = self.kinds[old]
        if kind.is_float:
            if self.chance(0.5):
                return self.add("mix", (old, self.add(self.choose(("sin", "tanh", "clip")), (new,), kind)), kind)
            return self.add(self.choose(("sin", "tanh", "clip")), (self.add("add", (old, new), kind),), kind)
        if kind.dtype == _BOOL:
            return self.add(self.choose(("xor", "or", "and")), (old, new), kind)
        return self.add(self.choose(("add", "sub", "xor", "max")), (old, new), kind)

    def update(self, target: int, results: Sequence[int]) -> int:
        """A carried value with some elements replaced, in its memory or not: not where a result, or a view, shows it."""
        kind = self.kinds[target]
        shown = {*results, *(v for step in self.steps if step.operation in _VIEWS for v in step.operands)}
        is_in_place = self.chance(0.7) and target not in shown
        if self.chance(0.6):
            row = self.fit(self.value(), _row(kind))
            row = self.add("sin", (row,), _row(kind)) if kind.is_float else row
            place = self.fit(self.value(lambda k: k.dtype == "int32" and k.size > 0), _SCALAR)
            name = "set_row" if is_in_place else "with_row"
            result = self.add(name, (target, place, row), kind, n=kind.shape[0])
        else:
            bounds, shape = self.part(kind)
            value = self.fit(self.value(), replace(kind, shape=shape))
            value = self.add("sin", (value,), self.kinds[value]) if kind.is_float else value
            name = "set_part" if is_in_place else "with_part"
            result = self.add(name, (target, value), kind, index=bounds)
        if is_in_place:
            # Whoever reads it from now on reads the new elements.
            self.scope.remove(target)
        return result

    def part(self, kind: Kind) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Slices and numbers, and the shape of what they take."""
        index: list[Any] = []
        shape: list[int] = []
        for size in kind.shape[: self.number(1, kind.ndim)]:
            begin = self.number(0, size - 1)
            if self.chance(0.4):
                index.append(begin)
            elif self.chance(0.7):
                end = self.number(begin + 1, size)
                index.append(slice(begin, end))
                shape.append(end - begin)
            else:
                step = self.number(2, 3)
                index.append(slice(begin, None, step))
                shape.append(len(range(begin, size, step)))
        return tuple(index), (*shape, *kind.shape[len(index) :])

    def fit(self, value: int, kind: Kind) -> int:
        """A value made of this one, of that kind."""
        value = self.convert(value, kind.dtype)
        found = self.kinds[value]
        if found.shape == kind.shape:
            return value
        if not _broadcasts(found.shape, kind.shape):
            if found.size == 0:
                return self.constant(kind)
            if found.size == kind.size:
                return self.add("reshape", (value,), kind, shape=kind.shape)
            name = self.choose(("amax", "amin")) if kind.dtype != _BOOL else self.choose(("any", "all"))
            value = self.add(name, (value,), replace(found, shape=()), axis=None, keepdims=False)
        return self.add("expand", (value,), kind, shape=kind.shape) if kind.shape else value

    def convert(self, value: int, dtype: str) -> int:
        found = self.kinds[value]
        if found.dtype == dtype:
            return value
        kind = replace(found, dtype=dtype)
        if found.is_float:
            if dtype == _BOOL:
                bound = self.add("full", (), replace(found, shape=()), shape=(), k=0.3, dtype=found.dtype)
                return self.add("lt", (value, bound), kind)
            if kind.is_float:
                return self.add("cast", (value,), kind, dtype=dtype)
            whole = self.add("to_int", (value,), replace(found, dtype="int32"), dtype="int32")
            return self.convert(whole, dtype)
        if kind.is_float and found.is_int:
            small = self.add("to_float", (value,), kind, dtype=dtype)
            return self.add("scale", (small,), kind, k=0.0625)
        if dtype == _BOOL:
            bound = self.add("full", (), replace(found, shape=()), shape=(), k=1, dtype=found.dtype)
            return self.add("ge", (value, bound), kind)
        return self.add("cast", (value,), kind, dtype=dtype)


def _row(kind: Kind) -> Kind:
    return replace(kind, shape=kind.shape[1:])


def _broadcasts(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(shape) <= len(other) and all(a in (b, 1) for a, b in zip(reversed(shape), reversed(other), strict=False))


def _join(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """What both broadcast to."""
    n = max(len(shape), len(other))
    wide = [(1,) * (n - len(s)) + s for s in (shape, other)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*wide, strict=True)):
        return None
    return tuple(b if a == 1 else a for a, b in zip(*wide, strict=True))


def _draw_unary(draw: _Draw) -> int:
    value = draw.value()
    kind = draw.kinds[value]
    if kind.is_float:
        name = draw.choose(
            ("sin", "cos", "tanh", "root", "exp", "sigmoid", "relu", "clip", "neg", "abs", "scale", "shift")
        )
        k = {"k": draw.choose((0.5, -0.5, 0.25))} if name in ("scale", "shift") else {}
        return draw.add(name, (value,), kind, **k)
    if kind.dtype == _BOOL:
        return draw.add("not", (value,), kind)
    name = draw.choose(("scale", "shift", "mod", "quotient", "not", "lshift", "rshift", "mod"))
    return draw.add(name, (value,), kind, k=draw.number(1, 3 if "shift" in name else 7))


def _draw_partner(draw: _Draw, value: int) -> tuple[int, tuple[int, ...]]:
    kind = draw.kinds[value]
    if draw.chance(0.15):
        return draw.constant(replace(kind, shape=())), kind.shape
    partner = draw.value(lambda k: k.dtype == kind.dtype and _join(kind.shape, k.shape) is not None)
    shape = _join(kind.shape, draw.kinds[partner].shape)
    assert shape is not None
    return partner, shape


def _draw_binary(draw: _Draw) -> int:
    value = draw.value()
    kind = draw.kinds[value]
    partner, shape = _draw_partner(draw, value)
    if kind.is_float:
        name = draw.choose(("add", "sub", "mul", "div", "mix", "max", "min", "add", "mul"))
    elif kind.dtype == _BOOL:
        name = draw.choose(("and", "or", "xor"))
    else:
        name = draw.choose(("add", "sub", "mul", "max", "min", "and", "or", "xor"))
    return draw.add(name, (value, partner), Kind(shape, kind.dtype))


def _draw_comparison(draw: _Draw) -> int:
    value = draw.value(lambda k: k.dtype != _BOOL)
    partner, shape = _draw_partner(draw, value)
    if partner == value:
        raise _RejectedError
    name = "lt" if draw.kinds[value].is_float else draw.choose(("lt", "ge", "eq"))
    return draw.add(name, (value, partner), Kind(shape, _BOOL))


def _draw_where(draw: _Draw) -> int:
    mask = draw.value(lambda k: k.dtype == _BOOL)
    value = draw.value(lambda k: _join(k.shape, draw.kinds[mask].shape) is not None)
    partner, shape = _draw_partner(draw, value)
    wide = _join(shape, draw.kinds[mask].shape)
    if wide is None:
        raise _RejectedError
    return draw.add("where", (mask, value, partner), Kind(wide, draw.kinds[value].dtype))


def _draw_conversion(draw: _Draw) -> int:
    return draw.convert(draw.value(), draw.choose(_DTYPES))


def _draw_reduction(draw: _Draw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0)
    kind = draw.kinds[value]
    axis = draw.choose((None, *range(kind.ndim)))
    keepdims = draw.chance(0.3)
    shape = tuple(
        1 if axis in (None, n) else size for n, size in enumerate(kind.shape) if keepdims or axis not in (None, n)
    )
    if kind.dtype == _BOOL:
        return draw.add(draw.choose(("any", "all")), (value,), Kind(shape, _BOOL), axis=axis, keepdims=keepdims)
    name = draw.choose(("sum", "amax", "amin", *(("mean", "mean") if kind.is_float else ("argmax",))))
    if name == "argmax":
        if axis is None:
            raise _RejectedError
        shape = kind.shape[:axis] + kind.shape[axis + 1 :]
        return draw.add(name, (value,), Kind(shape, "int32"), axis=axis, dtype="int32")
    named = {"dtype": kind.dtype} if name == "sum" else {}
    return draw.add(name, (value,), Kind(shape, kind.dtype), axis=axis, keepdims=keepdims, **named)


def _draw_along_axis(draw: _Draw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0 and k.dtype != _BOOL)
    kind = draw.kinds[value]
    axis = draw.number(0, kind.ndim - 1)
    if draw.chance(0.3):
        return draw.add("sort", (value,), kind, axis=axis)
    if kind.is_float and draw.chance(0.5):
        return draw.add("softmax", (value,), kind)
    return draw.add("cumsum", (value,), kind, axis=axis, dtype=kind.dtype)


def _draw_product(draw: _Draw) -> int:
    value = draw.value(lambda k: k.ndim == 2 and k.is_float and k.size > 0)
    kind = draw.kinds[value]
    fitting = [
        v for v in draw.scope
        if (k := draw.kinds[v]).dtype == kind.dtype and k.ndim in (1, 2) and k.shape[0] == kind.shape[1]
    ]  # fmt: skip
    if not fitting:
        fitting = [draw.add("permute", (value,), Kind(kind.shape[::-1], kind.dtype), axes=(1, 0))]
    other = draw.choose(fitting)
    shape = (kind.shape[0], *draw.kinds[other].shape[1:])
    return draw.add("matmul", (value, other), Kind(shape, kind.dtype), k=0.25)


def _draw_movement(draw: _Draw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0)
    kind = draw.kinds[value]
    axis = draw.number(0, kind.ndim - 1)
    match draw.number(0, 6):
        case 0:
            shape = draw.choose(
                ((kind.size,), (1, *kind.shape), (*kind.shape, 1), (kind.shape[0], kind.size // kind.shape[0]))
            )
            return draw.add("reshape", (value,), replace(kind, shape=shape), shape=shape)
        case 1:
            axes = tuple(draw.rng.sample(range(kind.ndim), kind.ndim))
            return draw.add("permute", (value,), replace(kind, shape=tuple(kind.shape[a] for a in axes)), axes=axes)
        case 2:
            return draw.add("flip", (value,), kind, axis=axis)
        case 3 | 4:
            index, shape = draw.part(kind)
            return draw.add("slice", (value,), replace(kind, shape=shape), index=index)
        case 5:
            padding = tuple((draw.number(0, 2), draw.number(0, 2)) for _ in kind.shape)
            shape = tuple(a + n + b for n, (a, b) in zip(kind.shape, padding, strict=True))
            return draw.add("pad", (value,), replace(kind, shape=shape), padding=padding)
        case _:
            other = draw.value(lambda k: k == kind)
            if draw.chance(0.5):
                shape = (*kind.shape[:axis], 2 * kind.shape[axis], *kind.shape[axis + 1 :])
                return draw.add("concat", (value, other), replace(kind, shape=shape), axis=axis)
            shape = (*kind.shape[:axis], 2, *kind.shape[axis:])
            return draw.add("stack", (value, other), replace(kind, shape=shape), axis=axis)


def _draw_gather(draw: _Draw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0)
    kind = draw.kinds[value]
    places = draw.value(lambda k: k.dtype == "int32" and k.ndim < 2 and 0 < k.size < 20)
    shape = (*draw.kinds[places].shape, *kind.shape[1:])
    return draw.add("gather", (value, places), replace(kind, shape=shape), n=kind.shape[0])


def _draw_source(draw: _Draw) -> int:
    match draw.number(0, 2):
        case 0:
            n = draw.choose(_SIZES)
            return draw.add("iota", (), Kind((n,), "int32"), n=n, dtype="int32")
        case 1:
            return draw.constant(draw.kind())
        case _:
            kind = replace(draw.kind(), dtype="float32")
            return draw.add("random_ones", (), kind, shape=kind.shape, dtype=kind.dtype)


def _draw_access(draw: _Draw) -> int:
    """A read of memory that blocks write to, after a write in most cases."""
    memory = draw.choose(draw.memory)
    kind = draw.kinds[memory]
    if draw.chance(0.7):
        if draw.chance(0.6):
            row = draw.fit(draw.value(), _row(kind))
            row = draw.add("sin", (row,), _row(kind)) if kind.is_float else row
            place = draw.fit(draw.value(lambda k: k.dtype == "int32" and k.size > 0), _SCALAR)
            name, operands, args = "write_row", (memory, place, row), {"n": kind.shape[0]}
        else:
            index, shape = draw.part(kind)
            value = draw.fit(draw.value(), replace(kind, shape=shape))
            value = draw.add("sin", (value,), draw.kinds[value]) if kind.is_float else value
            name, operands, args = "write_part", (memory, value), {"index": index}
        draw.steps.append(Step(name, operands, (draw.new(kind),), args))
        if draw.chance(0.5):
            return memory
    return draw.add("read_memory", (memory,), kind)


_TABLE: Final[tuple[tuple[Callable[[_Draw], int], float], ...]] = (
    (_draw_unary, 4), (_draw_binary, 6), (_draw_comparison, 1), (_draw_where, 2), (_draw_conversion, 1.5),
    (_draw_reduction, 2.5), (_draw_along_axis, 0.7), (_draw_product, 2), (_draw_movement, 3), (_draw_gather, 1.5),
    (_draw_source, 0.7), (_draw_access, 2),
)  # fmt: skip
_STEPS: Final = tuple(step for step, _ in _TABLE)
_WEIGHTS: Final = tuple(weight for _, weight in _TABLE)
