"""Random programs with variable sizes, realized, captured and prepared, agree with numpy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from svod_ir.testing import count_examples
from svod_tensor import Tensor, Variable, jit

ROWS, COLUMNS = 8, 6
VARIABLES = {
    "n": Variable("n", 1, ROWS),
    "m": Variable("m", 1, COLUMNS),
    "at": Variable("at", 0, ROWS - 1),
}
N_PROGRAMS = count_examples(20)
N_CALLS = 4

Values = Mapping[str, int]


class Value(NamedTuple):
    """Value of a program: its sizes as text, and functions that compute it from earlier values."""

    sizes: tuple[str, ...]
    operands: tuple[int, ...]
    name: str
    on_tensors: Callable[..., Any]
    on_arrays: Callable[..., Any]


def softmax(a: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def draw_step(draw: random.Random, values: Sequence[Value]) -> Value | None:
    """Sample one more operation on earlier values; None if it does not apply."""
    number = draw.randrange(len(values))
    sizes = values[number].sizes
    axis = draw.randrange(len(sizes)) if sizes else None
    same = [n for n, v in enumerate(values) if v.sizes == sizes]

    def make(
        new: tuple[str, ...], name: str, f: Callable[..., Any], g: Callable[..., Any], *others: int
    ) -> Value:
        return Value(new, (number, *others), name, f, g)

    kind = draw.randrange(22)
    if kind == 0:
        return make(sizes, "x * 0.5 + 1", lambda x: x * 0.5 + 1, lambda a: a * 0.5 + 1)
    if kind == 1:
        return make(sizes, "abs(x) - 1", lambda x: x.abs() - 1, lambda a: np.abs(a) - 1)
    if kind == 2:
        other = draw.choice(same)
        return make(sizes, "x - y", lambda x, y: x - y, lambda a, b: a - b, other)
    if kind == 3:
        other = draw.choice(same)
        return make(
            sizes,
            "where",
            lambda x, y: (x > 0).where(x, y),
            lambda a, b: np.where(a > 0, a, b),
            other,
        )
    if kind == 4:
        return make(sizes, "contiguous", lambda x: x.contiguous(), lambda a: a)
    if kind == 5:
        name = draw.choice(("n", "m", "at"))
        return Value(
            sizes, (number,), f"x + {name}", lambda x, v: x + v[name], lambda a, v: a + v[name]
        )
    if axis is None:
        return None
    less = sizes[:axis] + sizes[axis + 1 :]
    if kind in (6, 7, 8):
        reduce = ("sum", "max", "mean")[kind - 6]
        return make(
            less, reduce, lambda x: getattr(x, reduce)(axis), lambda a: getattr(a, reduce)(axis)
        )
    if kind == 9:
        return make(
            sizes,
            "x - max",
            lambda x: x - x.max(axis, keepdims=True),
            lambda a: a - a.max(axis, keepdims=True),
        )
    if kind == 10:
        return make(
            sizes, "cumsum / 4", lambda x: x.cumsum(axis) / 4, lambda a: np.cumsum(a, axis) / 4
        )
    if kind == 11:
        return make(sizes, "flip", lambda x: x.flip(axis), lambda a: np.flip(a, axis))
    if kind == 12:
        return make(
            sizes[::-1], "transpose", lambda x: x.permute(*reversed(range(x.ndim))), np.transpose
        )
    if kind == 13:
        return make(
            (" * ".join(f"({s})" for s in sizes),),
            "flatten",
            lambda x: x.reshape(-1),
            lambda a: a.reshape(-1),
        )
    if kind == 14:
        doubled = (*sizes[:axis], f"2 * ({sizes[axis]})", *sizes[axis + 1 :])
        return make(
            doubled,
            "cat",
            lambda x: Tensor.cat([x, x + 1], axis),
            lambda a: np.concatenate([a, a + 1], axis),
        )
    if kind == 15:
        wide = (*sizes[:axis], f"({sizes[axis]}) + 3", *sizes[axis + 1 :])
        widths = tuple((1, 2) if a == axis else (0, 0) for a in range(len(sizes)))
        return make(wide, "pad", lambda x: x.pad(widths), lambda a: np.pad(a, widths))
    if kind == 16:
        return make(sizes, "softmax", lambda x: x.softmax(axis), lambda a: softmax(a, axis))
    if kind == 17 and len(sizes) == 2:
        square = (sizes[0], sizes[0])
        return make(square, "x @ x.T / 8", lambda x: x @ x.permute(1, 0) / 8, lambda a: a @ a.T / 8)
    if kind == 18 and sizes[axis] == str(ROWS):
        index = (slice(None),) * axis
        return Value(
            less,
            (number,),
            "x[at]",
            lambda x, v: x[(*index, v["at"])],
            lambda a, v: a[(*index, v["at"])],
        )
    if kind == 19 and sizes[axis] in (str(ROWS), str(COLUMNS)):
        name = "n" if sizes[axis] == str(ROWS) else "m"
        index = (slice(None),) * axis
        return Value(
            (*sizes[:axis], name, *sizes[axis + 1 :]),
            (number,),
            f"x[:{name}]",
            lambda x, v: x[(*index, slice(v[name]))],
            lambda a, v: a[(*index, slice(v[name]))],
        )
    if kind == 20:
        return make(
            less, "argmax", lambda x: x.argmax(axis).cast("float32"), lambda a: a.argmax(axis) * 1.0
        )
    if kind == 21 and len(sizes) < 3:
        return make(
            ("2", *sizes),
            "stack",
            lambda x: Tensor.stack([x, x * 2]),
            lambda a: np.stack([a, a * 2]),
        )
    return None


class Program(NamedTuple):
    """Values, beginning with the arguments, and the indices of the results."""

    values: list[Value]
    results: list[int]

    def run(
        self, inputs: Sequence[Any], bound: Mapping[str, Any], *, on_tensors: bool
    ) -> list[Any]:
        found = list(inputs)
        for value in self.values[len(inputs) :]:
            operands = [found[n] for n in value.operands]
            if value.name in ("x[at]", "x[:n]", "x[:m]") or value.name.startswith("x + "):
                operands.append(bound)
            found.append((value.on_tensors if on_tensors else value.on_arrays)(*operands))
        return [found[n] for n in self.results]

    def __str__(self) -> str:
        lines = [f"  v{n} = {v.name} of {v.operands}: {v.sizes}" for n, v in enumerate(self.values)]
        return "\n".join([*lines, f"  results {self.results}"])


def draw_program(draw: random.Random) -> Program:
    def nothing(*_: Any) -> None:
        raise AssertionError

    arguments = (("n", str(COLUMNS)), (str(ROWS), "m"), ("n", "m"), (str(ROWS), str(COLUMNS)))
    values = [Value(sizes, (), "argument", nothing, nothing) for sizes in arguments]
    for _ in range(draw.randrange(2, 9)):
        step = draw_step(draw, values)
        if step is not None and len(step.sizes) < 4:
            values.append(step)
    last = [n for n in range(len(values)) if n >= len(arguments) and values[n].sizes] or [0]
    return Program(values, [*draw.sample(last, min(len(last), draw.randrange(1, 4)))])


def draw_values(draw: random.Random) -> Values:
    return {
        name: draw.choice((v.low, v.high, draw.randint(v.low, v.high)))
        for name, v in VARIABLES.items()
    }


def make_arrays(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-4, 5, (ROWS, COLUMNS)).astype(np.float32) for _ in range(4))


def cut(x: Sequence[Any], bound: Mapping[str, Any]) -> list[Any]:
    n, m = bound["n"], bound["m"]
    return [x[0][:n], x[1][:, :m], x[2][:n, :m], x[3]]


def bind(values: Values) -> dict[str, Any]:
    return {name: VARIABLES[name].bind(value) for name, value in values.items()}


def expect(program: Program, arrays: Sequence[np.ndarray], values: Values) -> list[np.ndarray]:
    wide = [a.astype(np.float64) for a in arrays]
    return program.run(cut(wide, values), values, on_tensors=False)


def compare(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], what: str) -> None:
    for position, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.shape == other.shape, (
            f"result {position} has shape {one.shape} and not {other.shape}; {what}"
        )
        scale = max(1.0, float(np.abs(other).max(initial=0)))
        np.testing.assert_allclose(
            one, other, rtol=1e-4, atol=1e-5 * scale, err_msg=f"result {position}; {what}"
        )


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_realized_captured_and_prepared_programs_agree_with_numpy(seed: int) -> None:
    draw = random.Random(seed)
    program = draw_program(draw)
    calls = [draw_values(draw) for _ in range(N_CALLS)]
    arrays = make_arrays(seed)

    @jit
    def captured(x: list[Tensor], bound: dict[str, Any]) -> list[Tensor]:
        return program.run(x, bound, on_tensors=True)

    tensors = list(map(Tensor, arrays))
    for values in calls:
        wanted, what = expect(program, arrays, values), f"{values}\n{program}"
        bound = bind(values)
        lazy = program.run(cut(tensors, bound), bound, on_tensors=True)
        Tensor.realize_batch(lazy)
        compare([t.numpy() for t in lazy], wanted, f"realized with {what}")
        compare(
            [t.numpy() for t in captured(cut(tensors, bound), bound)],
            wanted,
            f"captured with {what}",
        )
    assert captured.n_captures == 1
    bound = bind(calls[0])
    prepared = program.run(cut(tensors, bound), bound, on_tensors=True)
    # This value certainly needs computation.
    plan = Tensor.prepare_batch([*prepared, tensors[3] + 1])
    for number, values in enumerate(calls):
        arrays = make_arrays(seed + number)
        for tensor, a in zip(tensors, arrays, strict=True):
            np.copyto(tensor.buffer().as_numpy().reshape(a.shape), a)
        plan.execute_with_vars(values)
        compare(
            [t.numpy() for t in prepared],
            expect(program, arrays, values),
            f"prepared with {values}\n{program}",
        )


def draw_update(draw: random.Random) -> tuple[str, Callable[..., None]]:
    """Write to rows of `held` from `x` (n, columns) and `y` (rows, columns)."""

    def write_row(held: Any, x: Any, y: Any, v: Mapping[str, Any]) -> None:
        held[v["at"]] = y[v["at"]] + x.sum(0)

    def write_first(held: Any, x: Any, y: Any, v: Mapping[str, Any]) -> None:
        held[: v["n"]] = x * 2

    def add_first(held: Any, x: Any, y: Any, v: Mapping[str, Any]) -> None:
        held[: v["n"]] = held[: v["n"]] + x

    def write_columns(held: Any, x: Any, y: Any, v: Mapping[str, Any]) -> None:
        held[:, : v["m"]] = y[:, : v["m"]] - held[:, : v["m"]]

    def write_all(held: Any, x: Any, y: Any, v: Mapping[str, Any]) -> None:
        held[:] = held * 0.5 + y

    updates = {f.__name__: f for f in (write_row, write_first, add_first, write_columns, write_all)}
    name = draw.choice(list(updates))
    return name, updates[name]


def draw_reading(draw: random.Random) -> tuple[str, Callable[..., Any]]:
    readings: dict[str, Callable[..., Any]] = {
        "held[:n].sum(0)": lambda held, x, y, v: held[: v["n"]].sum(0),
        "held[at]": lambda held, x, y, v: held[v["at"]] * 1,
        "held[:n] + x": lambda held, x, y, v: held[: v["n"]] + x,
        "held.max(1)": lambda held, x, y, v: held.max(1),
        "held[:, :m].sum(1)": lambda held, x, y, v: held[:, : v["m"]].sum(1),
        "held": lambda held, x, y, v: held,
        "x": lambda held, x, y, v: x,
    }
    name = draw.choice(list(readings))
    return name, readings[name]


@pytest.mark.parametrize("mode", ["realize", "captured", "held", "prepared"])
@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_writes_at_places_that_change_agree_with_numpy(seed: int, mode: str) -> None:
    draw = random.Random(seed)
    steps = [draw.choice((draw_update, draw_reading))(draw) for _ in range(draw.randrange(1, 6))]
    steps = [draw_update(draw), *steps, draw_reading(draw)]
    what = f"{mode}: {', '.join(name for name, _ in steps)}"

    def run(held: Any, x: Any, y: Any, v: Mapping[str, Any]) -> dict[str, Any]:
        """Results of each reading step by its index and name."""
        found = {
            f"{number} {name}": step(held, x, y, v) for number, (name, step) in enumerate(steps)
        }
        return {name: value for name, value in found.items() if value is not None}

    x, y, start, _ = make_arrays(seed)
    state = start.astype(np.float64)
    held, given, other = (Tensor(a).clone().realize() for a in (start, x, y))
    given_to, holds = jit(run), jit(lambda x, y, v: run(held, x, y, v))
    plan, prepared = None, {}
    for _ in range(N_CALLS):
        values = draw_values(draw)
        bound = bind(values)
        expected = run(state, x[: values["n"]].astype(np.float64), y.astype(np.float64), values)
        # A view shows later writes; a plan returns its computed values.
        wanted = {name: np.array(a) for name, a in expected.items()}
        if mode == "realize":
            found = run(held, given[: bound["n"]], other, bound)
            Tensor.realize_batch(found.values())
        elif mode == "captured":
            found = given_to(held, given[: bound["n"]], other, bound)
        elif mode == "held":
            found = holds(given[: bound["n"]], other, bound)
        else:
            if plan is None:
                prepared = {
                    name: t * 1 for name, t in run(held, given[: bound["n"]], other, bound).items()
                }
                plan = Tensor.prepare_batch([*prepared.values(), held])
            plan.execute_with_vars(values)
            found = {name: t for name, t in prepared.items() if not name.endswith(" held")}
        compare(
            [t.numpy() for t in found.values()],
            [wanted[name] for name in found],
            f"{what} with {values}",
        )
        compare([held.numpy()], [state], f"{what} with {values}")


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_results_whose_size_changes_are_arguments_again(seed: int) -> None:
    draw = random.Random(seed)
    a = make_arrays(seed)[0]
    x = Tensor(a)

    @jit
    def first(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, Tensor.cat([x, x + 1])

    @jit
    def second(x: Tensor, y: Tensor, n: Any) -> tuple[Tensor, Tensor, Tensor]:
        return x + n, y.sum(0), x

    plan, sized = None, x
    kept: list[tuple[Tensor, np.ndarray]] = []
    for _ in range(N_CALLS):
        n = draw_values(draw)["n"]
        size = VARIABLES["n"].bind(n)
        double, both = first(x[:size])
        added, total, same = second(double, both, size)
        kept += [
            (double, a[:n] * 2),
            (both, np.concatenate([a[:n], a[:n] + 1])),
            (added, a[:n] * 2 + n),
        ]
        kept += [(total, np.concatenate([a[:n], a[:n] + 1]).sum(0)), (same, a[:n] * 2)]
        if plan is None:
            sized = x[:size] * 3
            plan = sized.prepare()
        plan.execute_with_vars({"n": n})
        # A tensor derived from a plan's tensor has the size of the plan's last execution.
        compare(
            [(sized + 1).numpy(), first(sized)[0].numpy()], [a[:n] * 3 + 1, a[:n] * 6], f"n is {n}"
        )
        found = [t.numpy() for t, _ in kept]
        compare(found, [wanted for _, wanted in kept], f"after n was {n}")
    assert (first.n_captures, second.n_captures) == (1, 1)
