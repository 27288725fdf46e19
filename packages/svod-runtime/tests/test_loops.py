"""Results of loops, run by a launcher in one call or by Python."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from svod_device import Buffer, HostAllocator, Launch, Variable
from svod_dtype import bool_, float32, int64
from svod_ir import UOp
from svod_runtime import (
    DonatedBufferError,
    ExecutionPlan,
    PlannerMode,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    VariableBoundsError,
    Whole,
    register_custom_function,
)

if TYPE_CHECKING:
    from conftest import Array, Loops, Plans

MODES: list[PlannerMode] = ["arena", "remap", "disabled"]


@pytest.fixture(params=["native", "batches", "single"])
def way(request: pytest.FixtureRequest, plans: Plans) -> str:
    """Launcher of the kernels of `plans`: with loops, without loops, or none."""
    set_way(plans, request.param)
    return request.param


def set_way(plans: Plans, way: str) -> None:
    plans.default_launcher = {
        "native": plans.looping_launcher,
        "batches": plans.launcher,
        "single": lambda: None,
    }[way]()


def filled(plans: Plans, values: Any) -> int:
    array = np.asarray(values)
    dtype = {"f": float32, "i": int64, "b": bool_}[array.dtype.kind]
    buffer = Buffer(plans.allocator, dtype, array.size)
    buffer.copyin(array.astype(dtype.numpy).tobytes())
    return plans.add(buffer)


def outputs(plan: ExecutionPlan) -> list[list[float]]:
    return [buffer.as_numpy().tolist() for buffer in plan.output_buffers]


def grow(out: Array, x: Array) -> None:
    out[:] = 2 * x + 1


def add(out: Array, x: Array, y: Array) -> None:
    out[:] = x + y


def carry(
    plans: Plans, body: Loops, initial: int, *, is_in_place: bool = False
) -> tuple[int, int, int]:
    """Carry in new memory: input, output and result."""
    size = plans.buffers[initial].size
    result = plans.intermediate(size)
    spare = None if is_in_place else plans.intermediate(size)
    return *body.carry(initial, result, spare), result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_value_is_carried_from_iteration_to_iteration(
    plans: Plans, way: str, mode: PlannerMode, count: int, is_in_place: bool
) -> None:
    x, body = filled(plans, [0.0, 1.0, 3.0]), plans.body()
    before, after, result = carry(plans, body, x, is_in_place=is_in_place)
    body.op(body.kernel(grow, [after], [before]))
    plans.op(body.loop(count))
    plan = plans.plan(mode, result)
    expected = np.array([0.0, 1.0, 3.0], np.float32)
    for _ in range(count):
        expected = 2 * expected + 1
    for _ in range(2):
        plan.execute()
        assert outputs(plan) == [expected.tolist()]
    assert plans.buffers[x].as_numpy().tolist() == [0, 1, 3]
    assert len(plans.log) == 2 * count


@pytest.mark.parametrize("is_reversed", [False, True])
def test_slices_come_in_order_and_fill_results_in_order(
    plans: Plans, way: str, is_reversed: bool
) -> None:
    xs, body = filled(plans, np.arange(8.0)), plans.body()
    sums = plans.intermediate(8)
    before, after, result = carry(plans, body, filled(plans, [10.0, 20.0]))
    x, y = body.slice(xs, 2), body.slice(sums, 2, is_written=True)
    body.op(body.kernel(add, [after], [before, x]))
    body.op(body.kernel(grow, [y], [after]))
    plans.op(body.loop(4, is_reversed=is_reversed))
    plan = plans.plan("arena", result, sums)
    plan.execute()
    rows = np.arange(8.0).reshape(4, 2)[:: -1 if is_reversed else 1]
    running = np.cumsum([[10, 20], *rows], axis=0)
    stacked = (2 * running[1:] + 1)[:: -1 if is_reversed else 1]
    assert outputs(plan) == [running[-1].tolist(), stacked.ravel().tolist()]


def test_kernels_read_the_counter_and_callers_cannot_set_it(plans: Plans, way: str) -> None:
    seen: list[tuple[int, int]] = []

    def count(out: Array, x: Array, t: int, n: int) -> None:
        seen.append((t, n))
        out[:] = x + t

    body = plans.body()
    before, after, result = carry(plans, body, filled(plans, [5.0]))
    variables = [Variable("t", 0, 3), Variable("n", 0, 9)]
    body.op(body.kernel(count, [after], [before], variables=variables, values=[0, 2]))
    plans.op(body.loop(4, counter="t"))
    plan = plans.plan("arena", result)
    plan.execute_with_vars({"t": 99, "n": 7})
    assert seen == [(0, 7), (1, 7), (2, 7), (3, 7)]
    assert outputs(plan) == [[11]]
    with pytest.raises(VariableBoundsError):
        plan.execute_with_vars({"n": 10})


@pytest.mark.parametrize("limit", [0.0, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("count", [1, 4, 5, 1000])
def test_a_loop_ends_when_its_condition_is_false(
    plans: Plans, way: str, limit: float, count: int
) -> None:
    body = plans.body()
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    bound, is_below = (
        body.whole(filled(plans, [limit])),
        body.add(Buffer(plans.allocator, bool_, 1)),
    )

    def compare(out: Any, x: Array, limit: Array) -> None:
        out[:] = x < limit

    body.op(body.kernel(grow, [after], [before]))
    body.op(body.kernel(compare, [is_below], [after, bound]))
    plans.op(body.loop(count, go_on=is_below))
    plan = plans.plan("arena", result)
    value, n = 1.0, 1
    while n < count and value < limit:
        value, n = 2 * value + 1, n + 1
    plan.execute()
    assert outputs(plan) == [[value]]
    assert len(plans.log) == 2 * n


def increase(out: Any, x: Any) -> None:
    out[:] = x + 1


@pytest.mark.parametrize("count", [-3, 0, 1, 6])
def test_the_trip_count_may_be_computed(plans: Plans, way: str, count: int) -> None:
    given, number = filled(plans, [count - 1]), plans.add(Buffer(plans.allocator, int64, 1))
    plans.op(plans.kernel(increase, [number], [given]))
    body = plans.body()
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    body.op(body.kernel(grow, [after], [before]))
    plans.op(body.loop(None, count_position=body.operand(number)))
    plan = plans.plan("arena", result)
    plan.execute()
    assert outputs(plan) == [[2.0 ** max(count, 0) - 1]]
    plans.buffers[given].copyin(np.array([2]))
    plan.execute()
    assert outputs(plan) == [[7]]


def test_the_trip_count_may_be_an_expression_of_variables(plans: Plans, way: str) -> None:
    n = UOp.variable("n", 1, 6)
    xs, body, sums = filled(plans, np.arange(12.0)), plans.body(), plans.intermediate(12)
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    x, y = body.slice(xs, 1), body.slice(sums, 1, is_written=True)
    body.op(body.kernel(add, [after], [before, x]))
    body.op(body.kernel(grow, [y], [after]))
    plans.op(body.loop(2 * n))
    plan = plans.plan("arena", result, sums)
    assert plan.variables == {"n": 1}
    for value in (1, 6, 3):
        plan.execute_with_vars({"n": value})
        total, stacked = outputs(plan)
        assert total == [sum(range(2 * value))]
        assert stacked[: 2 * value] == (2 * np.cumsum(np.arange(2.0 * value)) + 1).tolist()
    for value in (0, 7):
        with pytest.raises(VariableBoundsError):
            plan.execute_with_vars({"n": value})
    fork = plan.fork()
    fork.execute()
    assert (fork.variables, outputs(fork)[0]) == ({"n": 3}, [15])


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 5])
def test_one_branch_of_a_switch_runs(plans: Plans, way: str, index: int) -> None:
    chosen, x, result = filled(plans, [index]), filled(plans, [1.0, 2.0]), plans.intermediate(2)
    for branch, scale in enumerate((10, 20, 30)):
        body = plans.body()

        def multiply(out: Array, x: Array, scale: int = scale) -> None:
            out[:] = scale * x

        out = body.bind(2, Whole(body.operand(result, is_written=True)))
        body.op(body.kernel(multiply, [out], [body.whole(x)], name=f"branch {branch}"))
        plans.op(body.loop(None, count_position=body.operand(chosen), branch=branch, n_branches=3))
    last = plans.intermediate(2)
    plans.op(plans.kernel(plans.add_one, [last], [result], name="last"))
    plan = plans.plan("arena", last)
    plan.execute()
    branch = min(max(index, 0), 2)
    assert outputs(plan) == [[10 * (branch + 1) + 1, 20 * (branch + 1) + 1]]
    assert plans.names() == [f"branch {branch}", "last"]


@pytest.mark.parametrize("is_same", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_loops_nest(plans: Plans, way: str, mode: PlannerMode, is_same: bool) -> None:
    """Nested sums: the outer loop sums up the last value of each inner loop, which depends on the
    outer counter.
    """
    xs, sums = filled(plans, np.arange(12.0)), plans.intermediate(4)
    outer = plans.body()
    before, after, result = carry(plans, outer, filled(plans, [100.0]))
    row, total = outer.slice(xs, 3), outer.slice(sums, 1, is_written=True)
    inner = outer.body()
    last = outer.intermediate(1)
    into, out = inner.carry(before, last, outer.intermediate(1))
    part = inner.intermediate(1)
    inner.op(inner.kernel(add, [part], [into, inner.slice(row, 1)]))

    def count_up(out: Array, x: Array, i: int, j: int) -> None:
        out[:] = x + 10 * i + j

    variables = [Variable("i", 0, 3), Variable("j", 0, 2)]
    inner.op(inner.kernel(count_up, [out], [part], variables=variables, values=[0, 0]))
    outer.op(inner.loop(UOp.variable("i", 0, 3) if is_same else 3, counter="j"))
    outer.op(outer.kernel(add, [after], [last, before]))
    outer.op(outer.kernel(grow, [total], [last]))
    plans.op(outer.loop(4, counter="i"))
    plan = plans.plan(mode, result, sums)
    state, stacked = 100.0, []
    for i, values in enumerate(np.arange(12.0).reshape(4, 3)):
        inside = state
        for j, x in enumerate(values[: i if is_same else 3]):
            inside += x + 10 * i + j
        state += inside
        stacked.append(2 * inside + 1)
    for one in (plan, plan.fork(), plan):
        one.execute()
        assert outputs(one) == [[state], stacked]


def test_an_inner_trip_count_may_depend_on_the_outer_counter(plans: Plans, way: str) -> None:
    outer = plans.body()
    before, after, result = carry(plans, outer, filled(plans, [0.0]))
    inner = outer.body()
    into, out = inner.carry(before, after, outer.intermediate(1))
    inner.op(inner.kernel(plans.add_one, [out], [into]))
    i = UOp.variable("i", 0, 4)
    outer.op(inner.loop(i * i + 1, counter="j"))
    plans.op(outer.loop(5, counter="i"))
    plan = plans.plan("arena", result)
    plan.execute()
    assert outputs(plan) == [[sum(i * i + 1 for i in range(5))]]


def test_launch_sizes_may_depend_on_the_iteration(plans: Plans, way: str) -> None:
    body = plans.body()
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    i = UOp.variable("i", 0, 3)
    sizes = (2 * i + 1, 1, 1)
    variables = [Variable("i", 0, 3)]
    body.op(
        body.kernel(
            lambda out, x, i: grow(out, x),
            [after],
            [before],
            variables=variables,
            values=[0],
            global_size=sizes,
        )
    )
    plans.op(body.loop(4, counter="i"))
    plan = plans.plan("arena", result)
    plan.execute()
    assert outputs(plan) == [[15]]
    assert [size for _, size in plans.log] == [(1, 1, 1), (3, 1, 1), (5, 1, 1), (7, 1, 1)]


def test_launch_sizes_in_loops_follow_variables(plans: Plans, way: str) -> None:
    outer = plans.body()
    before, after, result = carry(plans, outer, filled(plans, [0.0]))
    inner = outer.body()
    into, out = inner.carry(before, after, outer.intermediate(1))
    sizes = (2 * UOp.variable("n", 1, 9), 1, 1)
    kernel = inner.kernel(
        add_number, [out], [into], variables=[Variable("n", 1, 9)], values=[1], global_size=sizes
    )
    inner.op(kernel)
    outer.op(inner.loop(2))
    plans.op(outer.loop(3))
    plan = plans.plan("arena", result)
    for n in (1, 4):
        plans.log.clear()
        plan.execute_with_vars({"n": n})
        assert outputs(plan) == [[6 * n]]
        assert {size for _, size in plans.log} == {(2 * n, 1, 1)}


def add_number(out: Array, x: Array, n: int) -> None:
    out[:] = x + n


def test_bodies_use_views_of_bound_buffers_and_copies(plans: Plans, way: str) -> None:
    xs, body = filled(plans, np.arange(12.0)), plans.body()
    before, after, result = carry(plans, body, filled(plans, [1.0, 2.0]))
    row = body.slice(xs, 4)
    # As a buffer that the body does not bind, and as a view that an op states.
    low, high = (
        body.add(body.buffers[row].view(0, 8, float32)),
        body.add(body.buffers[row].view(8, 8, float32)),
    )
    body.op(PreparedBufferView(70, (high, row), 8, 8))
    copied, total = body.intermediate(2), body.intermediate(2)
    body.op(PreparedCopy(71, (copied, high)))
    body.op(body.kernel(add, [total], [low, copied]))
    first, second = (body.add(body.buffers[after].view(4 * i, 4, float32)) for i in range(2))
    old, new = (body.add(body.buffers[before].view(4 * i, 4, float32)) for i in range(2))
    left, right = (body.add(body.buffers[total].view(4 * i, 4, float32)) for i in range(2))
    body.op(body.kernel(add, [first], [new, left]))
    body.op(body.kernel(add, [second], [old, right]))
    plans.op(body.loop(3))
    plan = plans.plan("arena", result)
    a, b = 1.0, 2.0
    for values in np.arange(12.0).reshape(3, 4):
        a, b = b + values[0] + values[2], a + values[1] + values[3]
    plan.execute()
    assert outputs(plan) == [[a, b]]


def test_custom_functions_run_in_bodies(plans: Plans, way: str) -> None:
    seen: list[int] = []

    def scale(buffers: Any, variables: Any, attrs: Any) -> None:
        seen.append(variables["t"])
        buffers[0].copyin(buffers[1].as_numpy() * np.float32(3))

    register_custom_function("scale", scale)
    xs, body = filled(plans, [1.0, 2.0, 3.0]), plans.body()
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    tripled = body.intermediate(1)
    body.op(
        PreparedCustomFunction(
            80, "scale", (tripled, body.slice(xs, 1)), variables=(Variable("t", 0, 2),)
        )
    )
    body.op(body.kernel(add, [after], [before, tripled]))
    plans.op(body.loop(3, counter="t"))
    plan = plans.plan("arena", result)
    plan.execute()
    assert (outputs(plan), seen) == ([[18]], [0, 1, 2])


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_result_may_alias_its_initial_value(
    plans: Plans, way: str, count: int, is_in_place: bool
) -> None:
    x, body = filled(plans, [1.0, 2.0]), plans.body()
    before, after = body.carry(x, x, None if is_in_place else plans.intermediate(2))
    body.op(body.kernel(grow, [after], [before]))
    plans.op(body.loop(count))
    plan = plans.plan("arena", x)
    for n in (1, 2):
        plan.execute()
        assert outputs(plan) == [[2.0 ** (n * count) * (v + 1) - 1 for v in (1, 2)]]


def test_operands_are_replaced(plans: Plans, way: str) -> None:
    xs, start, body = filled(plans, [1.0, 2.0]), filled(plans, [0.0]), plans.body()
    before, after, result = carry(plans, body, start)
    scaled, factor = body.intermediate(1), body.whole(filled(plans, [10.0]))

    def multiply(out: Array, x: Array, y: Array) -> None:
        out[:] = x * y

    body.op(body.kernel(multiply, [scaled], [body.slice(xs, 1), factor]))
    body.op(body.kernel(add, [after], [before, scaled]))
    plans.op(body.loop(2))
    plan = plans.plan("arena", result)
    plan.execute()
    assert outputs(plan) == [[30]]
    index_of = {b: i for i, b in enumerate(plan.buffers)}
    others = {n: filled(plans, v) for n, v in ((xs, [5.0, 6.0]), (start, [7.0]))}
    changes = {index_of[plans.buffers[old]]: plans.buffers[new] for old, new in others.items()}
    assert plan.execute_on(changes, {})
    assert outputs(plan) == [[117]]
    # The last result comes in: what the loop begins with may be where it ends.
    plan.replace_buffer(index_of[plans.buffers[start]], plan.output_buffers[0])
    plan.execute()
    assert outputs(plan) == [[227]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_result_may_be_in_donated_memory(
    plans: Plans, way: str, mode: PlannerMode, is_in_place: bool
) -> None:
    x, body = filled(plans, [1.0, 2.0]), plans.body()
    out, scratch = plans.add(plans.buffers[x]), plans.intermediate(2)
    plans.op(plans.kernel(grow, [scratch], [x]))
    before, after = body.carry(x, out, None if is_in_place else plans.intermediate(2))
    middle = body.intermediate(2)
    body.op(body.kernel(add, [middle], [before, body.whole(scratch)]))
    body.op(body.kernel(grow, [after], [middle]))
    plans.op(body.loop(3))
    plans.builder.set_donated_buffers([x], {out: x})
    plan = plans.plan(mode, out)
    expected = np.array([1, 2], np.float32)
    for _ in range(3):
        expected = 2 * (expected + np.array([3, 5])) + 1
    plan.execute()
    assert outputs(plan) == [expected.tolist()]
    with pytest.raises(DonatedBufferError):
        plan.execute()
    index = plan.donated_indices[0]
    plans.buffers[x].copyin(np.array([1, 2], np.float32))
    plan.replace_buffer(index, plans.buffers[x])
    plan.execute()
    assert outputs(plan) == [expected.tolist()]


def test_forks_run_loops_at_the_same_time(plans: Plans, way: str) -> None:
    barrier = threading.Barrier(2, timeout=300)

    def meet(out: Array, x: Array) -> None:
        barrier.wait()
        out[:] = x + 1

    body = plans.body()
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    middle = body.intermediate(1)
    body.op(body.kernel(meet, [middle], [before]))
    body.op(body.kernel(plans.add_one, [after], [middle]))
    plans.op(body.loop(50))
    plan = plans.plan("arena", result)
    fork = plan.fork()
    thread = threading.Thread(target=fork.execute)
    thread.start()
    plan.execute()
    thread.join()
    assert outputs(plan) == outputs(fork) == [[100]]


def test_a_plan_runs_again_after_an_interrupt(plans: Plans, way: str) -> None:
    body = plans.body()
    before, after, result = carry(plans, body, filled(plans, [0.0]))
    left = [3]

    def stop(out: Array, x: Array) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        out[:] = 2 * x + 1

    body.op(body.kernel(stop, [after], [before]))
    plans.op(body.loop(5))
    plan = plans.plan("arena", result)
    with pytest.raises(KeyboardInterrupt):
        plan.execute()
    for _ in range(2):
        plan.execute()
        assert outputs(plan) == [[31]]


def test_a_loop_and_its_neighbours_are_one_call(plans: Plans) -> None:
    launcher = plans.default_launcher = plans.looping_launcher()
    x, first, last = filled(plans, [0.0]), plans.intermediate(1), plans.intermediate(1)
    plans.op(plans.kernel(grow, [first], [x]))
    body = plans.body()
    before, after, result = carry(plans, body, first)
    body.op(body.kernel(grow, [after], [before]))
    plans.op(body.loop(3))
    plans.op(plans.kernel(grow, [last], [result]))
    plan = plans.plan("arena", last)
    assert (plan.num_calls, plan.num_kernels, len(launcher.tables)) == (1, 3, 1)
    plan.execute()
    assert outputs(plan) == [[31]]
    assert launcher.n_runs == 1
    plan.execute()
    assert (launcher.n_runs, len(launcher.tables)) == (2, 1)


class Far(HostAllocator):
    """Device memory that the host reads only by copies."""

    is_host_addressable = False


def test_trip_count_and_condition_may_be_on_another_device(plans: Plans, way: str) -> None:
    plans.allocator = Far("CPU:7")
    number, given, start = filled(plans, [9]), filled(plans, [[20.0]]), filled(plans, [[0.0]])
    body, result = plans.body(), plans.intermediate(1)
    body.allocator = plans.allocator
    before, after = body.carry(start, result, plans.intermediate(1))
    is_below = body.add(Buffer(plans.allocator, bool_, 1))

    def compare(out: Any, x: Array, limit: Array) -> None:
        out[:] = x < limit

    body.op(body.kernel(grow, [after], [before], device="CPU:7"))
    body.op(body.kernel(compare, [is_below], [after, body.whole(given)], device="CPU:7"))
    plans.op(body.loop(None, count_position=body.operand(number), go_on=is_below))
    plan = plans.plan("arena", result)
    plan.execute()
    assert np.frombuffer(plan.output_buffers[0].to_bytes(), np.float32).tolist() == [31]
    plans.buffers[number].copyin(np.array([2]))
    plan.execute()
    assert np.frombuffer(plan.output_buffers[0].to_bytes(), np.float32).tolist() == [3]


def test_a_body_copies_between_devices(plans: Plans, way: str) -> None:
    body, near = plans.body(), plans.allocator
    before, after, result = carry(plans, body, filled(plans, [1.0]))
    far, doubled, back = (
        body.add(Buffer(a, float32, 1)) for a in (Far("CPU:7"), Far("CPU:7"), near)
    )
    body.op(PreparedCopy(70, (far, before)))
    body.op(body.kernel(grow, [doubled], [far], device="CPU:7"))
    body.op(PreparedCopy(71, (back, doubled)))
    body.op(body.kernel(add, [after], [before, back]))
    plans.op(body.loop(4))
    plan = plans.plan("arena", result)
    plan.execute()
    value = 1.0
    for _ in range(4):
        value += 2 * value + 1
    assert outputs(plan) == [[value]]


@pytest.mark.parametrize("refused", ["nothing", "loops", "k1", "all"])
def test_kernels_that_a_launcher_rejects_are_launched_separately(
    plans: Plans, refused: str
) -> None:
    tables: list[list[str]] = []

    class Choosy(type(plans.looping_launcher())):
        def make_table(self, launches: Any) -> object:
            names = [
                item.program.name if isinstance(item, Launch) else "loops" for item in launches
            ]
            if refused in names or refused == "all":
                raise ValueError("not in a batch")
            tables.append(names)
            return super().make_table(launches)

    plans.default_launcher = Choosy()
    x, first, last = filled(plans, [0.0]), plans.intermediate(1), plans.intermediate(1)
    plans.op(plans.kernel(grow, [first], [x], name="k0"))
    body = plans.body()
    before, after, result = carry(plans, body, first)
    middle = body.intermediate(1)
    body.op(body.kernel(grow, [middle], [before], name="k2"))
    body.op(body.kernel(grow, [after], [middle], name="k3"))
    plans.op(body.loop(2))
    plans.op(plans.kernel(grow, [last], [result], name="k1"))
    plan = plans.plan("arena", last)
    assert (
        tables
        == {
            "nothing": [["k0", "loops", "k1"]],
            "loops": [["k0"], ["k2", "k3"], ["k1"]],
            "k1": [["k0"], ["loops"]],
            "all": [],
        }[refused]
    )
    plan.execute()
    assert outputs(plan) == [[2.0**6 - 1]]
