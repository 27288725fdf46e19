"""Random state: what is drawn depends on the seed and on the order of the draws, not on how, when
and where it is computed.
"""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_ir import OperandError
from svod_ir.testing import count_examples, run_in_child, run_in_threads, take_share
from svod_schedule.optimize.heuristics import constants
from svod_tensor import (
    Generator,
    PrepareConfig,
    Tensor,
    Variable,
    _generator as generator_module,
    caches,
    clear_caches,
    default_generator,
    int32,
    jit,
    manual_seed,
)
from svod_tensor.errors import CaptureError

DRAWS: dict[str, Callable[[Generator], Tensor]] = {
    "rand": lambda g: Tensor.rand(3, 5, generator=g),
    "rand_wide": lambda g: Tensor.rand(7, generator=g, dtype="float64"),
    "rand_narrow": lambda g: Tensor.rand(7, generator=g, dtype="bfloat16"),
    "randn": lambda g: Tensor.randn(1000, generator=g),
    "randint": lambda g: Tensor.randint(40, low=-5, high=6, generator=g),
    "randint_wide": lambda g: Tensor.randint(40, low=-(2**62), high=2**63, generator=g),
    "uniform": lambda g: Tensor.uniform(11, low=-1, high=3, generator=g),
    "normal": lambda g: Tensor.normal(50, mean=1, std=2, generator=g),
    "exponential": lambda g: Tensor.exponential(50, generator=g),
    "truncated_normal": lambda g: Tensor.truncated_normal(50, generator=g),
    "permutation": lambda g: Tensor.permutation(20, generator=g),
    "dropout": lambda g: Tensor.arange(1, 100).dropout(0.3, generator=g),
    "bernoulli": lambda g: Tensor.linspace(0, 1, 50).bernoulli(generator=g),
    "categorical": lambda g: Tensor.linspace(0, 1, 60).reshape(3, 20).categorical(generator=g),
    "multinomial": lambda g: Tensor.linspace(1, 2, 30).multinomial(10, generator=g),
    "shuffle": lambda g: Tensor.arange(30).reshape(15, 2).shuffle(generator=g),
}
"""Each function that draws."""

SETTINGS = {
    "no opts": PrepareConfig(opts=()),
    "C": PrepareConfig(backend="c"),
    "own memory": PrepareConfig(memory_planner="disabled"),
    "no schedule cache": PrepareConfig(disable_schedule_cache=True),
}


@pytest.fixture
def zeros() -> Tensor:
    return Tensor.zeros(4).realize()


@pytest.fixture
def every_kernel_on_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(constants, "MIN_THREADED_WORK", 1)
    clear_caches()
    yield
    clear_caches()


def expect(draw: Callable[[Generator], Tensor], n: int, seed: int = 3) -> list[np.ndarray]:
    """The first numbers of a seed, each draw computed at once."""
    generator = Generator(seed)
    return [draw(generator).numpy(copy=True) for _ in range(n)]


def check_equal(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_samples_differ_and_a_seed_repeats_them(draw: Callable[[Generator], Tensor]) -> None:
    first, second, third = expect(draw, 3)
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, third)
    check_equal(expect(draw, 3), [first, second, third])
    assert not np.array_equal(expect(draw, 1, seed=4)[0], first)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_captured_function_samples_at_each_call_like_the_plain_function(
    draw: Callable[[Generator], Tensor],
) -> None:
    generator = Generator(3)
    step = jit(lambda x: (draw(generator), x + 1))
    found = [step(Tensor([1.0]))[0].numpy(copy=True) for _ in range(3)]
    check_equal(found, expect(draw, 3))
    assert generator.get_state() == (3, 3)
    assert step.n_captures == 1


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_plan_samples_at_each_execution_like_realize(
    draw: Callable[[Generator], Tensor],
) -> None:
    generator = Generator(3)
    x = draw(generator)
    plan = x.prepare()
    found: list[np.ndarray] = []
    for _ in range(3):
        plan.execute()
        found.append(x.numpy(copy=True))
    check_equal(found, expect(draw, 3))
    assert generator.get_state() == (3, 3)


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_the_same_in_every_setting(name: str) -> None:
    expected = expect(DRAWS[name], 2)
    for setting in take_share([*SETTINGS.values()], [*DRAWS].index(name)):
        generator = Generator(3)
        found = [DRAWS[name](generator).realize_with(setting).numpy(copy=True) for _ in range(2)]
        check_equal(found, expected)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_numbers_are_the_same_fused_and_together(draw: Callable[[Generator], Tensor]) -> None:
    generator = Generator(3)
    a, b = draw(generator), draw(generator)
    both = (
        [a + 0, b + 0, a + a, b + b]
        if a.dtype.name != "bool"
        else [a & True, b & True, a | a, b | b]
    )
    Tensor.realize_batch(both)
    first, second = expect(draw, 2)
    check_equal([t.numpy() for t in both[:2]], [first, second])
    check_equal([t.numpy() for t in both[2:]], [first + first, second + second])


@pytest.mark.usefixtures("every_kernel_on_threads")
def test_numbers_are_the_same_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    generators = {name: Generator(3) for name in DRAWS}
    found = {name: draw(generators[name]).numpy(copy=True) for name, draw in DRAWS.items()}
    monkeypatch.setattr(constants, "MIN_THREADED_WORK", 1 << 62)
    clear_caches()
    for name, draw in DRAWS.items():
        np.testing.assert_array_equal(found[name], expect(draw, 1)[0], err_msg=name)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_numbers_do_not_depend_on_the_order_in_which_they_are_computed(
    order: Sequence[int],
) -> None:
    generator = Generator(3)
    draws = [Tensor.rand(4, generator=generator) for _ in range(3)]
    found = {number: draws[number].numpy(copy=True) for number in order}
    check_equal(
        [found[number] for number in range(3)], expect(lambda g: Tensor.rand(4, generator=g), 3)
    )


def test_one_sample_is_the_same_in_all_its_uses() -> None:
    x = Tensor.rand(100)
    y = x + x
    first = (x * 1.0).numpy(copy=True)
    assert np.array_equal(y.numpy(), first + first)
    assert np.array_equal(x.numpy(), first)
    plan = (x - first).prepare()
    plan.execute()
    assert np.array_equal(x.numpy(), first)
    assert np.array_equal(jit(lambda z: z + x)(Tensor.zeros(100)).numpy(), first)


@given(st.randoms(use_true_random=False))
@settings(max_examples=count_examples(60))
def test_programs_that_sample_do_not_depend_on_the_order_of_computations(
    draw: random.Random,
) -> None:
    drawn = {seed: expect(lambda g: Tensor.rand(3, generator=g), 40, seed) for seed in (3, 4)}
    counts = dict.fromkeys(drawn, 0)
    generators = {seed: Generator(seed) for seed in drawn}
    values: list[tuple[Tensor, np.ndarray]] = [(Tensor.ones(3), np.ones(3, np.float32))]
    memory, content = Tensor.zeros(3).clone().realize(), np.zeros(3, np.float32)
    captured = {
        seed: jit(lambda x, g=g: (x + Tensor.rand(3, generator=g), Tensor.rand(3, generator=g)))
        for seed, g in generators.items()
    }

    def next_of(seed: int) -> np.ndarray:
        counts[seed] += 1
        return drawn[seed][counts[seed] - 1]

    for _ in range(draw.randrange(4, 16)):
        seed = draw.choice([3, 4])
        (x, a), (y, b) = draw.choice(values), draw.choice(values)
        match draw.randrange(9):
            case 0 | 1:
                values.append((Tensor.rand(3, generator=generators[seed]), next_of(seed)))
            case 2:
                values.append((x + y, a + b))
            case 3:
                memory.assign(memory + x)
                content = content + a
            case 4:
                values.append((memory + y, content + b))
            case 5:
                Tensor.realize_batch([x, y])
            case 6:
                first, second = captured[seed](x)
                values += [(first, a + next_of(seed)), (second, next_of(seed))]
            case 7 if not x.is_realized:
                x.prepare().execute()
            case _:
                np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(memory.numpy(), content)
    for x, a in draw.sample(values, len(values)):
        np.testing.assert_array_equal(x.numpy(), a)
    for seed, generator in generators.items():
        assert generator.get_state() == (seed, counts[seed])


def test_a_sample_that_is_not_computed_advances_the_generator() -> None:
    generator = Generator(3)
    for _ in range(1000):
        Tensor.randn(10**6, generator=generator)
    assert generator.get_state() == (3, 1000)
    Tensor.rand(0, 3, generator=generator)
    assert generator.get_state() == (3, 1001)


@pytest.mark.usefixtures("own_stores")
def test_a_further_sample_compiles_and_schedules_no_kernel() -> None:
    # After samples of many sizes a plan whose size is a variable serves, and the schedule is never
    # looked up with success.
    clear_caches()
    Tensor.randn(9).realize()
    Tensor.randn(9, seed=1).realize()
    before = caches()["kernel"].misses, caches()["schedule"].misses
    for seed in range(5):
        Tensor.randn(9).realize()
        Tensor.randn(9, seed=seed).realize()
        Tensor.randn(9, generator=Generator()).realize()
    assert (caches()["kernel"].misses, caches()["schedule"].misses) == before


def test_manual_seed_resets_eager_code_captured_functions_and_plans(zeros: Tensor) -> None:
    manual_seed(3)
    x = Tensor.rand(4)
    plan, step = x.prepare(), jit(lambda z: z + Tensor.rand(4))
    plan.execute()
    step(zeros)

    def run() -> list[np.ndarray]:
        manual_seed(3)
        found = [Tensor.rand(4).numpy(copy=True), step(zeros).numpy(copy=True)]
        plan.execute()
        return [
            *found,
            x.numpy(copy=True),
            Tensor.rand(4).numpy(copy=True),
            step(zeros).numpy(copy=True),
        ]

    expected = expect(lambda g: Tensor.rand(4, generator=g), 5)
    check_equal(run(), expected)
    check_equal(run(), expected)
    assert default_generator().get_state() == (3, 5)


def test_plans_and_tensors_share_the_state_of_the_generator() -> None:
    generator = Generator(3)
    x, other = Tensor.rand(4, generator=generator), Tensor.rand(4, generator=generator)
    double, half = x * 2, x * 0.5
    plans = [double.prepare(), half.prepare(), Tensor.prepare_batch([other, x + other])]
    for plan in plans:
        plan.execute()
    first, second = expect(lambda g: Tensor.rand(4, generator=g), 2)
    check_equal(
        [t.numpy(copy=True) for t in (x, double, half, other)],
        [first, first * 2, first * 0.5, second],
    )
    for plan in plans:
        plan.execute()
    drawn = expect(lambda g: Tensor.rand(4, generator=g), 6)
    check_equal([t.numpy(copy=True) for t in (double, half)], [drawn[2] * 2, drawn[3] * 0.5])
    assert np.array_equal(other.numpy(), drawn[5])
    assert np.array_equal(x.numpy(), first)


def test_a_plan_that_trains_with_noise_samples_at_each_execution() -> None:
    generator = Generator(3)
    w = Tensor.zeros(4).clone().realize()
    view = w[:2]
    w.assign(w + Tensor.rand(4, generator=generator))
    total = w.sum()
    plan = Tensor.prepare_batch([total, w])
    expected = np.zeros(4, np.float32)
    for drawn in expect(lambda g: Tensor.rand(4, generator=g), 3):
        plan.execute()
        expected = expected + drawn
        np.testing.assert_array_equal(w.numpy(), expected)
        np.testing.assert_array_equal(view.numpy(), expected[:2])
        np.testing.assert_allclose(total.numpy(), expected.sum(), rtol=1e-6)


def test_training_with_dropout_is_the_same_captured_and_not() -> None:
    def train(is_captured: bool) -> list[np.ndarray]:
        manual_seed(8)
        w = Tensor.randn(6, 3).realize()
        m = Tensor.zeros(6, 3).clone().realize()

        def step(x: Tensor, rate: float) -> Tensor:
            hidden = (x.dropout(0.5) @ w).dropout(0.25)
            gradient = x.transpose() @ hidden
            m.assign(m * 0.9 + gradient)
            w.assign(w - m * rate)
            return hidden.square().sum()

        run = jit(step) if is_captured else step
        losses = [run(Tensor.ones(2, 6) * n, 0.01).numpy(copy=True) for n in range(1, 5)]
        return [*losses, w.numpy(copy=True)]

    for found, expected in zip(train(True), train(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_captured_functions_sample_for_every_signature() -> None:
    generator = Generator(3)

    @jit
    def noise(x: Tensor, name: str = "", scale: float = 1.0) -> dict[str, Tensor]:
        return {name: x * 0 + Tensor.rand(*x.shape, generator=generator) * scale}

    shapes = [(4,), (2, 3), (4,), (5, 1), (2, 3)]
    found = [noise(Tensor.ones(*shape))[""].numpy(copy=True) for shape in shapes]
    again = noise(Tensor.ones(4), "x", scale=2.0)["x"].numpy(copy=True)
    reference = Generator(3)
    check_equal(found, [Tensor.rand(*shape, generator=reference).numpy() for shape in shapes])
    np.testing.assert_array_equal(again, 2 * Tensor.rand(4, generator=reference).numpy())


def test_nested_captured_functions_sample_in_order(zeros: Tensor) -> None:
    generator = Generator(3)
    inner = jit(lambda x: x + Tensor.rand(4, generator=generator))
    outer = jit(lambda x: (inner(x), inner(x), x + Tensor.rand(4, generator=generator)))
    found = [t.numpy(copy=True) for _ in range(2) for t in outer(zeros)]
    found.append(inner(zeros).numpy(copy=True))
    check_equal(found, expect(lambda g: Tensor.rand(4, generator=g), 7))


def test_samples_that_depend_on_later_samples_are_computed() -> None:
    generator = Generator(3)

    @jit
    def step(x: Tensor) -> Tensor:
        first, second = (
            Tensor.rand(4, 4, generator=generator),
            Tensor.rand(4, 4, generator=generator),
        )
        return (x @ second).softmax() @ first

    x = Tensor.eye(4).realize()
    for n in range(2):
        first, second = (
            expect(lambda g: Tensor.rand(4, 4, generator=g), 4)[2 * n + i] for i in range(2)
        )
        exponents = np.exp(second - second.max(1, keepdims=True))
        np.testing.assert_allclose(
            step(x).numpy(), exponents / exponents.sum(1, keepdims=True) @ first, rtol=1e-5
        )


def test_a_generator_may_be_an_argument(zeros: Tensor) -> None:
    step = jit(lambda x, generator: x + Tensor.rand(4, generator=generator))
    a, b = Generator(3), Generator(4)
    found = [step(zeros, g).numpy(copy=True) for g in (a, b, b, a)]
    first, second = expect(lambda g: Tensor.rand(4, generator=g), 2)
    third, fourth = expect(lambda g: Tensor.rand(4, generator=g), 2, seed=4)
    check_equal(found, [first, third, fourth, second])
    assert step.n_captures == 2


def test_a_captured_function_may_be_the_first_to_sample(
    monkeypatch: pytest.MonkeyPatch, zeros: Tensor
) -> None:
    monkeypatch.setattr(generator_module, "_default", [])
    step = jit(lambda x: x + Tensor.rand(4))
    first, second = step(zeros).numpy(copy=True), step(zeros).numpy(copy=True)
    seed, count = default_generator().get_state()
    assert count == 2
    check_equal([first, second], expect(lambda g: Tensor.rand(4, generator=g), 2, seed=seed))


def test_a_generator_created_in_a_captured_function_is_new_at_each_call(zeros: Tensor) -> None:
    @jit
    def step(x: Tensor, seed: Tensor) -> tuple[Tensor, ...]:
        fixed, given = Generator(3 + 2**64), Generator(seed)
        return tuple(x + Tensor.rand(4, generator=g) for g in (fixed, fixed, given, given))

    drawn = expect(lambda g: Tensor.rand(4, generator=g), 2)
    for seed in (5, 6):
        found = [t.numpy() for t in step(zeros, Tensor(seed))]
        check_equal(found, [*drawn, *expect(lambda g: Tensor.rand(4, generator=g), 2, seed=seed)])


def test_samples_are_stored_in_donated_memory(zeros: Tensor) -> None:
    generator = Generator(3)
    step = jit(lambda x: x + Tensor.rand(4, generator=generator), donate="x")
    first, second, third = expect(lambda g: Tensor.rand(4, generator=g), 3)
    x = step(step(step(zeros)))
    np.testing.assert_array_equal(x.numpy(), first + second + third)


def test_a_failed_capture_does_not_advance_the_generator(zeros: Tensor) -> None:
    generator = Generator(3)

    def fail(x: Tensor) -> Tensor:
        return x * Tensor.rand(4, generator=generator).sum().item()

    with pytest.raises(CaptureError, match="reads values"):
        jit(fail)(zeros)
    assert generator.get_state() == (3, 0)
    check_equal(
        [Tensor.rand(4, generator=generator).numpy()],
        expect(lambda g: Tensor.rand(4, generator=g), 1),
    )


def test_a_seed_gives_the_first_sample_of_a_generator() -> None:
    (expected,) = expect(lambda g: Tensor.rand(4, generator=g), 1, seed=11)
    n = Variable("n", 0, 100)
    for seed in (11, np.int64(11), 11 + 2**64, Tensor(11), Tensor([10]).sum() + 1, n.bind(11)):
        np.testing.assert_array_equal(Tensor.rand(4, seed=seed).numpy(), expected)
        np.testing.assert_array_equal(Tensor.rand(4, generator=Generator(seed)).numpy(), expected)
    assert np.array_equal(Tensor.rand(4, seed=-1).numpy(), Tensor.rand(4, seed=2**64 - 1).numpy())


def test_a_seed_may_be_an_argument_of_captured_functions_and_plans(zeros: Tensor) -> None:
    n = Variable("n", 0, 100)
    step = jit(lambda x, seed: x + Tensor.rand(4, seed=seed))
    x = zeros + Tensor.rand(4, seed=n.bind(0))
    plan = x.prepare()
    for seed in (11, 12, 11):
        (expected,) = expect(lambda g: Tensor.rand(4, generator=g), 1, seed=seed)
        plan.execute_with_vars({"n": seed})
        check_equal(
            [step(zeros, Tensor(seed)).numpy(), step(zeros, n.bind(seed)).numpy(), x.numpy()],
            [expected] * 3,
        )
    assert step.n_captures == 2


def test_a_fixed_seed_gives_the_same_numbers_at_each_call(zeros: Tensor) -> None:
    step = jit(lambda x: x + Tensor.rand(4, seed=11))
    x = zeros + Tensor.rand(4, seed=11)
    plan = x.prepare()
    (expected,) = expect(lambda g: Tensor.rand(4, generator=g), 1, seed=11)
    for _ in range(2):
        plan.execute()
        check_equal([step(zeros).numpy(), x.numpy()], [expected] * 2)


def test_sizes_may_be_variables(zeros: Tensor) -> None:
    n = Variable("n", 1, 9)
    generator, reference = Generator(3), Generator(3)
    step = jit(lambda x: x * 0 + Tensor.rand(x.shape[0], 2, generator=generator))
    for size in (2, 9, 1):
        x = Tensor.ones(9, 2).clone()[: n.bind(size)]
        np.testing.assert_array_equal(
            step(x).numpy(), Tensor.rand(size, 2, generator=reference).numpy()
        )
    x = Tensor.rand(n.bind(4), 2, generator=generator)
    plan = x.prepare()
    for size in (3, 8):
        plan.execute_with_vars({"n": size})
        np.testing.assert_array_equal(x.numpy(), Tensor.rand(size, 2, generator=reference).numpy())
    assert step.n_captures == 1


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_numbers_are_the_same_on_other_devices_and_on_several(
    draw: Callable[[Generator], Tensor],
) -> None:
    first, second, third = expect(draw, 3)
    generator = Generator(3)
    np.testing.assert_array_equal(draw(generator).to("CPU:1").numpy(), first)
    sharded = draw(generator).shard(("CPU", "CPU:1"), 0)
    plan = sharded.prepare()
    plan.execute()
    np.testing.assert_array_equal(sharded.numpy(), second)
    plan.execute()
    np.testing.assert_array_equal(sharded.numpy(), third)


@pytest.mark.parametrize(
    "place",
    [lambda x: x.to("CPU:1"), lambda x: x.shard(("CPU", "CPU:1"), 0)],
    ids=["moved", "sharded"],
)
def test_samples_like_a_tensor_are_on_its_device(place: Callable[[Tensor], Tensor]) -> None:
    x = Tensor.linspace(0.1, 0.9, 12).reshape(6, 2)

    def draw_all(x: Tensor, g: Generator) -> list[Tensor]:
        return [
            x.dropout(0.5, generator=g),
            x.bernoulli(generator=g),
            x.categorical(generator=g),
            x.categorical(0, generator=g),
            x.multinomial(2, generator=g),
            x.multinomial(3, replacement=True, generator=g),
            x.shuffle(generator=g),
            x.shuffle(1, generator=g),
        ]

    expected = [t.numpy() for t in draw_all(x, Generator(3))]
    placed = place(x).realize()
    generator = Generator(3)
    found = draw_all(placed, generator)
    assert all(t.device == placed.device for t in found)
    check_equal([t.numpy() for t in found], expected)
    step = jit(lambda x: draw_all(x, generator))
    generator.manual_seed(3)
    check_equal([t.numpy() for t in step(placed)], expected)


def test_numbers_for_a_device_are_sampled_there() -> None:
    (expected,) = expect(lambda g: Tensor.rand(4, generator=g), 1)
    x = Tensor.rand(4, generator=Generator(3), device="CPU:1")
    assert x.device == "CPU:1"
    np.testing.assert_array_equal(x.numpy(), expected)
    assert Tensor.permutation(5, device="CPU:1").device == "CPU:1"


def test_a_state_can_be_kept_and_set() -> None:
    generator = Generator(3)
    Tensor.rand(4, generator=generator)
    state = generator.get_state()
    copies = [copy.copy(generator), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    copies += [Generator(), Generator.from_state(state)]
    copies[-2].set_state(state)
    expected = Tensor.rand(4, generator=generator).numpy()
    for made in copies:
        np.testing.assert_array_equal(Tensor.rand(4, generator=made).numpy(), expected)
        assert made.get_state() == (3, 2)
    assert generator.get_state() == (3, 2)


def test_spawned_generators_are_the_same_for_a_seed_and_differ_from_each_other() -> None:
    parent = Generator(3)
    children = parent.spawn(3)
    assert parent.get_state() == (3, 1)
    found = [
        Tensor.rand(100, generator=g).numpy(copy=True)
        for g in (parent, *children, *parent.spawn(2))
    ]
    assert len({array.tobytes() for array in found}) == 6
    again = Generator(3).spawn(3)
    check_equal([Tensor.rand(100, generator=g).numpy() for g in again], found[1:4])


def test_unseeded_generators_differ() -> None:
    assert Generator().get_state() != Generator().get_state()


def test_threads_sample_different_numbers_and_no_sample_is_lost(zeros: Tensor) -> None:
    manual_seed(3)
    found: list[bytes] = []
    step = jit(lambda x: (x + Tensor.rand(4), x + Tensor.rand(4)))
    other = jit(lambda x: x * 1 + Tensor.rand(4))

    def draw() -> None:
        for _ in range(25):
            found.append(Tensor.rand(4).numpy().tobytes())

    def call() -> None:
        for _ in range(25):
            found.extend(t.numpy().tobytes() for t in step(zeros))

    def call_other() -> None:
        for _ in range(25):
            found.append(other(zeros).numpy().tobytes())

    works = (draw, call, draw, call, call_other)
    run_in_threads(*works)
    assert default_generator().get_state() == (3, 175)
    drawn = expect(lambda g: Tensor.rand(4, generator=g), 175)
    assert sorted(found) == sorted(array.tobytes() for array in drawn)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_samples_like_its_parent() -> None:
    generator = Generator(3)
    Tensor.rand(4, generator=generator).realize()
    here, there = os.pipe()
    assert (
        run_in_child(lambda: os.write(there, Tensor.rand(4, generator=generator).numpy().tobytes()))
        == 16
    )
    os.close(there)
    with os.fdopen(here, "rb") as answer:
        assert answer.read() == Tensor.rand(4, generator=generator).numpy().tobytes()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: Tensor.rand(1, seed=1, generator=Generator(1)), "a seed or a generator"),
        (lambda: Tensor.rand(1, seed="x"), "an integer, a tensor of one, or a bound variable"),
        (lambda: Tensor.rand(1, seed=1.5), "an integer"),
        (lambda: Tensor.rand(1, seed=Tensor([1, 2])), "a 0-d tensor of integers"),
        (lambda: Tensor.rand(1, seed=Tensor(1.0)), "a 0-d tensor of integers"),
        (lambda: Tensor.rand(1, seed=Variable("n", 0, 3)), "a bound variable"),
        (lambda: Tensor.rand(1, generator=7), "a Generator"),
        (lambda: Generator("x"), "an integer"),
        (lambda: Generator(1).set_state(5), "a state"),
        (lambda: Generator(1).set_state((5, "x")), "an integer"),
        (lambda: Generator.from_state((5, 6, 7)), "a state"),
        (lambda: Generator(1).spawn(-1), "a non-negative integer"),
        (lambda: Generator(1).spawn(1.5), "a non-negative integer"),
    ],
)
def test_a_wrong_seed_or_generator_is_named(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(OperandError, match=expected):
        call()


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda _: Tensor.rand(1, generator=Generator()), "draws a seed"),
        (lambda _: manual_seed(1), "sets the state of a generator"),
        (lambda _: default_generator().get_state(), "reads the state of a generator"),
        (lambda _: default_generator().spawn(1), "spawns generators"),
    ],
)
def test_unsupported_uses_of_generators_in_captured_functions_are_errors(
    function: Callable[[Tensor], object], problem: str, zeros: Tensor
) -> None:
    with pytest.raises(CaptureError, match=problem):
        jit(function)(zeros)


def test_seeds_of_other_dtypes_are_taken_modulo_two_to_the_64() -> None:
    expected = Tensor.rand(4, seed=-5).numpy()
    np.testing.assert_array_equal(Tensor.rand(4, seed=Tensor(-5, dtype=int32)).numpy(), expected)
