"""Captured functions that are called with ever new sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

from svod_ir.testing import run_in_threads
from svod_tensor import PrepareConfig, Tensor, Variable, clear_caches, grad, jit
from svod_tensor.capture import calls
from svod_tensor.capture.function import JitFunction
from svod_tensor.engine.caches import KERNELS

Array = npt.NDArray[np.float32]


@pytest.fixture(autouse=True)
def _no_kernels() -> Iterator[None]:
    clear_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def make(n: int) -> Array:
    return np.random.default_rng(n).standard_normal(n).astype(np.float32)


def softmax(a: Array) -> Array:
    e = np.exp(a - a.max())
    return e / e.sum()


PROGRAMS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "elementwise": (lambda x: x * 2 + 1, lambda a: a * 2 + 1),
    "sum": (lambda x: (x * x).sum(), lambda a: np.float32((a * a).sum())),
    "softmax": (lambda x: x.softmax(), softmax),
    "rows": (
        lambda x: x.unsqueeze(1).expand(x.shape[0], 8).mean(1),
        lambda a: a,
    ),
    "gradient": (grad(lambda x: (x.sin() * x).sum()), lambda a: np.cos(a) * a + np.sin(a)),
}


def is_resized(function: object) -> list[bool]:
    assert isinstance(function, JitFunction)
    return [captured.is_resized for captured in function._plans.list_plans()]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_from_the_third_size_on_no_kernel_is_compiled(name: str) -> None:
    program, on_array = PROGRAMS[name]
    step, counts = jit(program), list[int]()
    for n in (300, 310, 320, 333, 347, 400, 999):
        for _ in range(2):
            found = step(Tensor(make(n))).numpy()
            np.testing.assert_allclose(found, on_array(make(n)), rtol=2e-5, atol=1e-5)
        counts.append(KERNELS.counts().misses)
    assert len(set(counts[2:])) == 1
    assert is_resized(step) == [False] * 2 + [True] * 5


def test_a_size_of_many_calls_gets_kernels_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    step = jit(lambda x: x * 2 + 1)
    for n in (300, 310, 320):
        step(Tensor(make(n)))
    assert is_resized(step) == [False, False, True]
    before = KERNELS.counts().misses
    monkeypatch.setattr(calls, "MAX_RESIZED_CALLS", 3)
    for _ in range(2):
        step(Tensor(make(320)))
    assert is_resized(step) == [False, False, True]
    for _ in range(2):
        assert step(Tensor(make(320))).numpy().tolist() == (make(320) * 2 + 1).tolist()
    assert is_resized(step) == [False, False, False]
    assert KERNELS.counts().misses == before + 1
    assert step.n_captures == 3
    assert "1. 1 call, 1 kernel" in step.explain()
    assert "3. 5 calls, 1 kernel" in step.explain()


def test_a_function_of_variables_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_RESIZED_CALLS", 3)
    step, n, x = jit(lambda x: x * 2 + 1), Variable("n", 1, 400), Tensor(make(400))
    for size in (300, 310, 320, 330, 340):
        found = step(x[: n.bind(size)]).numpy()
        assert found.tolist() == (make(400)[:size] * 2 + 1).tolist()
    assert (step.n_captures, is_resized(step)) == (1, [False])


def test_a_function_of_two_sizes_keeps_its_kernels_whatever_others_compute() -> None:
    for n in (300, 310, 320, 330):
        (Tensor(make(n)) * 2 + 1).realize()
    step = jit(lambda x: x * 2 + 1)
    for n in (340, 350, 340, 360):
        assert step(Tensor(make(n))).numpy().tolist() == (make(n) * 2 + 1).tolist()
    assert is_resized(step) == [False, False, True]


@pytest.mark.parametrize(
    "function",
    [
        jit(lambda x: x * 2 + 1, config=PrepareConfig(vary_sizes=False)),
        jit(lambda x: x.assign(x * 2 + 1)),
        jit(lambda x: x * 2 + 1, donate=0),
    ],
    ids=["option", "assignment", "donation"],
)
def test_some_functions_get_kernels_for_each_size(function: Callable[[Tensor], Tensor]) -> None:
    for n in (300, 310, 320, 330):
        x = Tensor(make(n)).clone().realize()
        assert function(x).numpy().tolist() == (make(n) * 2 + 1).tolist()
    assert not any(is_resized(function))


def test_threads_call_with_sizes_of_their_own() -> None:
    step = jit(lambda x: x.softmax())

    def call(first: int) -> None:
        for n in range(first, first + 40):
            found = step(Tensor(make(n))).numpy()
            np.testing.assert_allclose(found, softmax(make(n)), rtol=2e-5, atol=1e-7)

    run_in_threads(*[lambda number=number: call(300 + 7 * number) for number in range(3)])


def test_results_of_several_sizes_are_kept_apart() -> None:
    step = jit(lambda x: (x * 2, x[1:] + 1))
    kept: list[tuple[Tensor, Tensor, int]] = []
    for n in (300, 310, 320, 330, 320, 340, 330):
        kept.append((*step(Tensor(make(n))), n))
    for double, rest, n in kept:
        assert double.numpy().tolist() == (make(n) * 2).tolist()
        assert rest.numpy().tolist() == (make(n)[1:] + 1).tolist()
        assert (double * 0 + 1).sum().item() == n
