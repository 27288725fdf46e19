"""Random plans with loops against numpy, in every mode of the planner and with every launcher."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from svod_device import Buffer, Variable
from svod_dtype import bool_, float32, int64
from svod_ir import UOp
from svod_ir.testing import count_examples
from svod_runtime import (
    ExecutionPlan,
    PlannerMode,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    Whole,
    register_custom_function,
)

if TYPE_CHECKING:
    from conftest import Loops, Plans

Memory = dict[int, Any]
"""Arrays by the index of a buffer."""
Meaning = Callable[[Memory, dict[str, int]], None]
"""Reference implementation of an op on numpy arrays."""


def mix(out: Any, *arguments: Any) -> None:
    """Store a weighted sum of shifted arguments modulo a prime, so that it is exact."""
    total = np.ones(out.size)
    for weight, value in enumerate(arguments, 1):
        total = total + weight * (
            np.resize(value, out.size) if isinstance(value, np.ndarray) else value
        )
    out[:] = total % 251


def mix_buffers(buffers: Sequence[Buffer], variables: object, attrs: object) -> None:
    out, *ins = [buffer.as_numpy() for buffer in buffers]
    mix(out, *ins)


def compare(out: Any, x: Any) -> None:
    out[:] = x[0] % 4 != 1


class Drawing:
    """Random plan with its reference implementation."""

    def __init__(self, plans: Plans, seed: int) -> None:
        self.plans, self.random = plans, random.Random(seed)
        plans.sees_all = True
        register_custom_function("mix", mix_buffers)
        self.n = Variable("n", 0, 4)
        # Integers that computed numbers of iterations are.
        self.counts = [self._add_count(value) for value in (-1, 0, 1, 3, 4)]
        self.meanings: list[Meaning] = []
        floats = [self._add_input(self.random.choice([1, 2, 4, 8])) for _ in range(3)]
        for _ in range(self.random.randrange(2, 6)):
            kind = self.random.random()
            if kind < 0.5:
                floats += self.draw_loop(plans, floats, self.meanings.append, plans.op, 0, [])
            elif kind < 0.7:
                floats.append(
                    self.draw_switch(plans, floats, self.meanings.append, plans.op, 0, [])
                )
            else:
                floats.append(self.draw_kernel(plans, floats, self.meanings.append, plans.op, []))
        self.outputs = self.random.sample(floats[3:], min(3, len(floats) - 3))

    def _add_count(self, value: int) -> int:
        buffer = Buffer(self.plans.allocator, int64, 1)
        buffer.copyin(np.array([value]))
        return self.plans.add(buffer)

    def _add_input(self, size: int) -> int:
        buffer = Buffer(self.plans.allocator, float32, size)
        buffer.copyin(np.array([self.random.randrange(99) for _ in range(size)], np.float32))
        return self.plans.add(buffer)

    def draw_kernel(
        self,
        place: Plans,
        known: list[int],
        mean: Callable[[Meaning], Any],
        add: Callable[[Any], Any],
        counters: list[str],
        out: int | None = None,
    ) -> int:
        """Kernel or copy that fills a new buffer or `out` from known buffers."""
        ins = self.random.sample(known, min(len(known), self.random.randrange(1, 4)))
        same = [
            i
            for i in known
            if out is not None and place.buffers[i].nbytes == place.buffers[out].nbytes and i != out
        ]
        if same and self.random.random() < 0.2:
            source, target = self.random.choice(same), out
            assert target is not None
            add(PreparedCopy(next(place.ids), (target, source)))
            mean(lambda memory, values: memory[target].__setitem__(slice(None), memory[source]))
            return target
        new = place.intermediate(self.random.choice([1, 2, 4, 8])) if out is None else out
        if self.random.random() < 0.1:
            # What it is called with is what it may write; it reads only what it is given first.
            add(PreparedCustomFunction(next(place.ids), "mix", (new, *ins)))
            mean(lambda memory, values: mix(memory[new], *[memory[i] for i in ins]))
            return new
        names = [name for name in (*counters, "n") if self.random.random() < 0.4]
        variables = [Variable(name, 0, 9) if name != "n" else self.n for name in names]
        op: PreparedKernel = place.kernel(
            mix,
            [new],
            ins,
            variables=variables,
            values=[0] * len(names),
            is_safe=self.random.random() < 0.8,
            n_operations=self.random.choice([0, 1 << 20]),
        )
        add(op)
        mean(
            lambda memory, values: mix(
                memory[new], *[memory[i] for i in ins], *[values[n] for n in names]
            )
        )
        return new

    def draw_loop(
        self,
        place: Plans,
        known: list[int],
        mean: Callable[[Meaning], Any],
        add: Callable[[Any], Any],
        depth: int,
        counters: list[str],
    ) -> list[int]:
        """Loop on existing buffers; returns the buffers that it fills."""
        rng, body = self.random, place.body()
        length, n_slices = rng.randrange(5), rng.randrange(3)
        kind = rng.choice(
            ["number", "variable", "computed", "counter"]
            if counters
            else ["number", "variable", "computed"]
        )
        if kind in ("computed", "counter") and (depth or kind == "counter"):
            kind = "counter" if counters else "number"
        length = 4 if kind == "variable" else length
        is_sized = kind in ("number", "variable") and length > 0
        sources = [i for i in known if place.buffers[i].size % max(length, 1) == 0]
        local: list[int] = []
        wholes, slices, carried = {}, {}, []
        for index in rng.sample(known, rng.randrange(len(known) + 1)):
            wholes[(where := body.whole(index))] = index
            local.append(where)
        for index in rng.sample(sources, min(n_slices, len(sources))) if is_sized else ():
            slices[(where := body.slice(index, place.buffers[index].size // length))] = index
            local.append(where)
        results: list[int] = []
        outs: list[int] = []
        for _ in range(rng.randrange(1, 4)):
            initial = rng.choice(known)
            size = place.buffers[initial].size
            result = place.intermediate(size)
            into, out = body.carry(
                initial, result, place.intermediate(size) if rng.random() < 0.7 else None
            )
            carried.append((initial, into, out, result))
            local.append(into)
            results.append(result)
            outs.append(out)
        if is_sized and kind == "number":
            stacked = place.intermediate(2 * length)
            slices[(where := body.slice(stacked, 2, is_written=True))] = stacked
            outs.append(where)
            results.append(stacked)
        counter = f"t{depth}" if rng.random() < 0.8 else None
        inner = [*counters, counter] if counter else counters
        meanings: list[Meaning] = []
        for _ in range(rng.randrange(3)):
            if depth < 2 and rng.random() < 0.3:
                local += self.draw_loop(body, local, meanings.append, body.op, depth + 1, inner)
            elif depth < 2 and rng.random() < 0.3:
                local.append(
                    self.draw_switch(body, local, meanings.append, body.op, depth + 1, inner)
                )
            else:
                local.append(self.draw_kernel(body, local, meanings.append, body.op, inner))
        for out in outs:
            self.draw_kernel(body, local, meanings.append, body.op, inner, out)
        go_on = None
        if rng.random() < 0.3 and not slices:
            go_on = body.add(Buffer(place.allocator, bool_, 1))
            tested = rng.choice(outs)
            body.op(body.kernel(compare, [go_on], [tested]))
            chosen = go_on
            meanings.append(lambda memory, values: compare(memory[chosen], memory[tested]))
        n, position, name = length, None, rng.choice(counters) if counters else ""
        count: UOp | int | None = length
        if kind == "variable":
            count = UOp.variable("n", 0, 4)
        elif kind == "counter":
            count = UOp.variable(name, 0, 9)
        elif kind == "computed":
            number = rng.choice(self.counts)
            count, position = None, body.operand(number)
            n = int(self.plans.buffers[number].as_numpy()[0])
        is_reversed = rng.random() < 0.3
        add(
            body.loop(
                count,
                count_position=position,
                counter=counter,
                is_reversed=is_reversed,
                go_on=go_on,
            )
        )

        def run(memory: Memory, values: dict[str, int]) -> None:
            total = (
                values["n"]
                if kind == "variable"
                else values[name]
                if kind == "counter"
                else max(n, 0)
            )
            state = [memory[initial].copy() for initial, *_ in carried]
            for t in range(total):
                at = total - 1 - t if is_reversed else t
                here = {i: np.full(b.size, 7, b.dtype.numpy) for i, b in enumerate(body.buffers)}
                here.update({i: memory[whole] for i, whole in wholes.items()})
                for i, base in slices.items():
                    size = body.buffers[i].size
                    here[i] = memory[base][at * size : (at + 1) * size]
                here.update(
                    {into: value for (_, into, _, _), value in zip(carried, state, strict=True)}
                )
                for meaning in meanings:
                    meaning(here, {**values, **({counter: t} if counter else {})})
                state = [here[out] for _, _, out, _ in carried]
                if go_on is not None and not here[go_on][0]:
                    break
            for (*_, result), value in zip(carried, state, strict=True):
                memory[result] = value.copy()

        mean(run)
        return results

    def draw_switch(
        self,
        place: Plans,
        known: list[int],
        mean: Callable[[Meaning], Any],
        add: Callable[[Any], Any],
        depth: int,
        counters: list[str],
    ) -> int:
        """Switch whose branches all fill one buffer."""
        result = place.intermediate(self.random.choice([1, 2, 4, 8]))
        number = None if depth else self.random.choice(self.counts)
        name = self.random.choice([*counters, "n"])
        n_branches = self.random.randrange(1, 4)
        branches: list[tuple[dict[int, int], int, list[Meaning], Loops]] = []
        for branch in range(n_branches):
            body = place.body()
            meanings: list[Meaning] = []
            wholes = {
                body.whole(i): i
                for i in self.random.sample(known, self.random.randrange(1, len(known) + 1))
            }
            local = [*wholes]
            for _ in range(self.random.randrange(2)):
                local.append(self.draw_kernel(body, local, meanings.append, body.op, counters))
            if depth < 2 and self.random.random() < 0.3:
                local += self.draw_loop(body, local, meanings.append, body.op, depth + 1, counters)
            out = body.bind(
                place.buffers[result].size, Whole(body.operand(result, is_written=True))
            )
            self.draw_kernel(body, local, meanings.append, body.op, counters, out)
            branches.append((wholes, out, meanings, body))
            if number is None:
                add(
                    body.loop(
                        UOp.variable(name, 0, 9 if name != "n" else 4),
                        branch=branch,
                        n_branches=n_branches,
                    )
                )
            else:
                add(
                    body.loop(
                        None,
                        count_position=body.operand(number),
                        branch=branch,
                        n_branches=n_branches,
                    )
                )

        def run(memory: Memory, values: dict[str, int]) -> None:
            index = values[name] if number is None else int(memory[number][0])
            wholes, out, meanings, body = branches[min(max(index, 0), n_branches - 1)]
            here = {i: np.full(b.size, 7, b.dtype.numpy) for i, b in enumerate(body.buffers)}
            here.update({i: memory[whole] for i, whole in wholes.items()})
            for meaning in meanings:
                meaning(here, values)
            memory[result] = here[out].copy()

        mean(run)
        return result

    def compute(self, n: int) -> list[list[float]]:
        memory = {
            i: b.as_numpy().copy() if b.is_allocated else np.zeros(b.size, b.dtype.numpy)
            for i, b in enumerate(self.plans.buffers)
        }
        for meaning in self.meanings:
            meaning(memory, {"n": n})
        return [memory[i].tolist() for i in self.outputs]


def run(plan: ExecutionPlan, n: int) -> list[list[float]]:
    plan.execute_with_vars({"n": n})
    return [buffer.as_numpy().tolist() for buffer in plan.output_buffers]


@pytest.mark.parametrize(
    ("mode", "way"),
    [("arena", "native"), ("arena", "batches"), ("remap", "native"), ("disabled", "single")],
)
def test_random_plans_with_loops_compute_what_numpy_does(
    new_plans: type[Plans], mode: PlannerMode, way: str
) -> None:
    for seed in range(count_examples(120)):
        plans = new_plans()
        plans.default_launcher = {
            "native": plans.looping_launcher,
            "batches": plans.launcher,
            "single": lambda: None,
        }[way]()
        drawing = Drawing(plans, seed)
        plan = plans.plan(mode, *drawing.outputs)
        fork = plan.fork()
        for n in (3, 0, 4):
            expected = drawing.compute(n)
            assert run(plan, n) == expected, f"seed {seed}, n = {n}"
        assert run(fork, 4) == expected, f"seed {seed}, a fork"
