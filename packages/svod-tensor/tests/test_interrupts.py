"""Ctrl-C at any line of a step: all of its assignments are done, or none of them."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from linecache import getline
from types import FrameType

import numpy as np
import pytest

from svod_ir.testing import count_examples
from svod_tensor import Tensor, custom_function, fori_loop, jit, register_custom_function

FILES = (
    "/_realize.py",
    "/plan/execution_plan.py",
    "/plan/changes.py",
    "/plan/execute.py",
    "/svod_runtime/plan/interrupts.py",
    "/plan/direct.py",
    "/capture/calls.py",
    "/capture/quick.py",
    "/cells/work.py",
    "/cells/overwriting.py",
)


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def is_interrupted_at(line: int, step: Callable[[], object]) -> bool:
    """Call `step` with Ctrl-C at the n-th line of svod that it runs; False if it runs fewer."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        # Finalizers tell nobody of what is raised in them.
        if not frame.f_code.co_filename.endswith(FILES) or frame.f_code.co_name in {
            "_forget",
            "__del__",
        }:
            return None
        # Python comes back to the line of a `with` to leave it: nothing real is raised there,
        # before the lock is given back.
        if event == "line" and not getline(
            frame.f_code.co_filename, frame.f_lineno
        ).strip().startswith("with "):
            count += 1
            if count == line:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
                return None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    except KeyboardInterrupt:
        assert count == line
        return True
    finally:
        sys.settrace(before)
    assert count < line
    return False


class Weights:
    """Two tensors that each step adds 1 to, and ways to do that."""

    def __init__(self) -> None:
        self.a, self.b = Tensor.zeros(3).realize(), Tensor.zeros(4, 4).realize()
        self.one = Tensor(1.0).realize()

    def make_jit(self) -> Callable[[], object]:
        @jit
        def step(x: Tensor) -> Tensor:
            self.a.assign(self.a + x)
            self.b.assign(self.b + x)
            return self.a.sum()

        return lambda: step(self.one)

    def make_loop(self) -> Callable[[], object]:
        @jit
        def step(x: Tensor) -> None:
            long = fori_loop(0, 50, lambda _, c: (c @ c) * 0 + c, self.b)
            self.a.assign(self.a + x)
            self.b.assign(long + x)

        return lambda: step(self.one)

    def make_host(self) -> Callable[[], object]:
        register_custom_function("twice the rows", lambda out, x: np.copyto(out, 2 * x))

        @jit
        def step(x: Tensor) -> None:
            self.a.assign(self.a + x)
            twice = custom_function("twice the rows", self.a, outputs=(self.a.shape, self.a.dtype))
            self.b.assign(self.b + twice[0] * 0.5 - self.a[0] + x)

        return lambda: step(self.one)

    def make_views(self) -> Callable[[], object]:
        @jit
        def step(a: Tensor, b: Tensor, x: Tensor) -> None:
            a.assign(a + x)
            b.assign(b + x)

        return lambda: step(self.a[::-1], self.b.T, self.one)

    def make_lazy(self) -> Callable[[], object]:
        def step() -> None:
            # Ctrl-C between the two lines is the program's own; what is asked for is computed as a
            # whole.
            self.a.assign(self.a + self.one)
            self.b.assign(self.b + self.one)

        def run() -> None:
            tracing = sys.gettrace()
            sys.settrace(None)
            step()
            sys.settrace(tracing)
            Tensor.realize_batch([self.a, self.b])

        return run

    def make_plan(self) -> Callable[[], object]:
        plan = Tensor.prepare_batch(
            [self.a.assign(self.a + self.one), self.b.assign(self.b + self.one)]
        )
        return plan.execute

    def read(self) -> float:
        """How many steps there were, which is the same everywhere."""
        a, b = self.a.numpy(), self.b.numpy()
        (n_steps,) = {*a.flat, *b.flat}
        return float(n_steps)


@pytest.mark.parametrize("way", ["jit", "loop", "host", "views", "lazy", "plan"])
def test_a_step_is_atomic(way: str) -> None:
    weights = Weights()
    step: Callable[[], object] = getattr(weights, f"make_{way}")()
    step()
    step()
    before = weights.read()
    # Each run takes other lines: every third, or in the profile `thorough` every one.
    stride = 1 if count_examples(4) == 4 else 3
    line, ends = random.randrange(stride) + 1, set[float]()
    while is_interrupted_at(line, step):
        ends.add(weights.read() - before)
        # An interrupt leaves work for the next step, which would be another one.
        step()
        before, line = weights.read(), line + stride
    assert weights.read() == before + 1
    with ThreadPoolExecutor(1) as pool:
        # Nothing is left locked that other threads need.
        assert pool.submit(lambda: (weights.a * 2).tolist()).result(60) == [2 * weights.read()] * 3
    # Some lines come before what is written, and some after it; what a lazy step assigns is read in
    # any case.
    assert ends == ({1.0} if way == "lazy" else {0.0, 1.0})
