"""Many threads that build, compile, capture, run, assign and forget at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from svod_ir.rewrite import clear_rewrite_cache
from svod_ir.testing import run_in_threads
from svod_tensor import Tensor, jit, scope, track_origins
from svod_tensor.engine.caches import KERNELS, SCHEDULES
from svod_testing import check

N_THREADS = 8


def run_together(work: Callable[[int], None]) -> None:
    """Run a function of its number in each of several threads."""
    run_in_threads(*(partial(work, number) for number in range(N_THREADS)), switching_often=True)


def test_threads_compile_and_run_the_same_new_graphs() -> None:
    a = np.arange(24, dtype=np.float32)
    shared = Tensor(a)

    def work(number: int) -> None:
        for n in range(1, 4):
            check((shared * n + number).reshape(4, 6).sum(1), (a * n + number).reshape(4, 6).sum(1))
            check((shared.reshape(6, 4) - n).max(0), (a.reshape(6, 4) - n).max(0))

    run_together(work)


def test_threads_do_different_things_at_once() -> None:
    weight = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    held = Tensor(weight).realize()
    layer = jit(lambda x: (x @ held).relu().sum(1))

    def compile_new(number: int, n: int) -> None:
        x = np.full(5 + number, n, np.float32)
        check(Tensor(x) * (n + 0.5) + number, x * (n + 0.5) + number)

    def call(number: int, n: int) -> None:
        x = np.full((3, 4), number + n, np.float32)
        check(layer(Tensor(x)), np.maximum(x @ weight, 0).sum(1))

    def assign(number: int, n: int) -> None:
        own = Tensor(np.zeros(4, np.float32)).realize()
        before = own + 1
        own.assign(own + number)
        check(own * 2, np.full(4, 2 * number, np.float32))
        check(before, np.ones(4, np.float32))

    def forget(number: int, n: int) -> None:
        SCHEDULES.clear()
        KERNELS.clear()
        clear_rewrite_cache()

    def track(number: int, n: int) -> None:
        with track_origins(), scope(f"thread{number}"):
            compile_new(number, n)

    kinds = (compile_new, call, assign, call, track, call, forget, call)

    def work(number: int) -> None:
        for n in range(6):
            kinds[(number + n) % len(kinds)](number, n)

    run_together(work)
