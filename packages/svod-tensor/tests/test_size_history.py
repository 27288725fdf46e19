"""Kernels that take sizes as variables: from the third size of a graph on, and with the results of
kernels that know them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import float32
from svod_ir import Opt, OptOp
from svod_ir.testing import run_in_threads
from svod_schedule.pipeline import PIPELINES
from svod_tensor import PrepareConfig, Tensor, caches, clear_caches, jit
from svod_tensor.cells.work import make_job
from svod_tensor.engine import size_history
from svod_tensor.engine.size_history import MAX_USES, find_resized

OFF = PrepareConfig(vary_sizes=False)

Compute = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_caches() -> None:
    clear_caches()


def count_kernels() -> int:
    return caches()["kernel"].entries


def numbers(*shape: int) -> Any:
    return np.random.default_rng(shape[0]).integers(-8, 9, shape).astype(np.float32)


def check(compute: Compute, *arrays: Any) -> None:
    np.testing.assert_allclose(
        compute(*map(Tensor, arrays)).realize().numpy(), compute(*arrays), rtol=1e-6, strict=True
    )


def test_the_third_size_is_the_last_that_is_compiled() -> None:
    found: list[int] = []
    for n in (300, 500, 400, 401, 1999, 257):
        check(lambda x, y: x + y * 2, numbers(n), numbers(n))
        found.append(count_kernels())
    assert found == [1, 2, 3, 3, 3, 3]
    assert caches()["outline"][:3] == (1, 5, 1)


def test_very_different_sizes_have_separate_kernels() -> None:
    for n in (300, 500, 400, 30, 31, 5000, 5001):
        check(lambda x: x * 2, numbers(n))
    assert count_kernels() == 5


def test_without_varying_sizes_each_size_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVOD_VARY_SIZES", "0")
    assert PrepareConfig.from_env() == OFF
    for n in (3, 5, 7, 9):
        check(lambda x: x * 2, numbers(n))
    assert count_kernels() == 4
    assert caches()["outline"][:3] == (0, 0, 0)


def test_thousands_of_lengths_take_a_handful_of_kernels_and_little_of_the_caches() -> None:
    for n in range(300, 900):
        x = numbers(n)
        assert (Tensor(x) * 3 - 1).max().item() == x.max() * 3 - 1
    assert count_kernels() == 3
    assert [caches()[name].entries for name in ("outline", "schedule", "template", "binary")] == [
        1,
        3,
        3,
        3,
    ]
    (history,) = size_history.OUTLINES._entries.values()
    assert [len(kept) for kept in (history._samples, history._patterns, history._jobs)] == [3, 1, 1]
    assert len(history._uses) == 16


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.mean(0),
        lambda x: x.mean(1),
        lambda x: x.sum(),
        lambda x: x.max(1),
        lambda x: x - x.mean(0),
        lambda x: x[1:] - x[:-1],
        lambda x: x[::-1] + 1,
        lambda x: x[:, ::-1] * 2,
        lambda x: x.reshape(-1) + 1,
        lambda x: x.std(1),
    ],
)
@pytest.mark.parametrize("shape", ["rows", "columns", "squares", "both"])
def test_any_axis_may_vary(compute: Compute, shape: str) -> None:
    for n in (12, 23, 16, 17, 100, 2):
        rows, columns = {
            "rows": (n, 6),
            "columns": (6, n),
            "squares": (n, n),
            "both": (n, 3 * n // 2),
        }[shape]
        x = numbers(rows, columns)
        np.testing.assert_allclose(
            compute(Tensor(x)).realize().numpy(), compute(x), rtol=1e-5, atol=1e-6, strict=True
        )
    assert any(history._patterns for history in size_history.OUTLINES._entries.values())


def test_sizes_that_are_no_longer_equal_have_another_pattern() -> None:
    for n, m in [(12, 13), (20, 21), (30, 31), (30, 40), (31, 50), (33, 60), (34, 60), (40, 2)]:
        check(lambda x, y: (x.sum(1) * 2, y.sum(1))[0], numbers(n, m), numbers(n, m))
        check(lambda x, y: x[:, None] - y[None, :], numbers(n), numbers(m))


def test_sizes_0_and_1_have_specialized_kernels() -> None:
    for n in (3, 5, 7, 1, 0, 2, 1, 9):
        check(lambda x, y: x * y + 1, numbers(n, 4), numbers(1, 4))
        check(lambda x: x.sum(0), numbers(n, 4))


def test_a_frequent_size_gets_a_specialized_kernel() -> None:
    for n in (300, 500, 400):
        check(lambda x: x * 2, numbers(n))
    for _ in range(MAX_USES - 1):
        check(lambda x: x * 2, numbers(400))
    assert count_kernels() == 3
    check(lambda x: x * 2, numbers(400))
    assert count_kernels() == 4
    hits = caches()["schedule"].hits
    check(lambda x: x * 2, numbers(400))
    assert (count_kernels(), caches()["schedule"].hits) == (4, hits + 1)


def test_alternating_sizes_do_not_vary() -> None:
    for _ in range(MAX_USES + 2):
        for n in range(300, 320):
            (Tensor(np.ones(n, np.float32)) * 2).realize()
    assert count_kernels() == 3


def make_job_of(n: int) -> Any:
    return make_job([(Tensor(numbers(n)) * 2).uop], PrepareConfig())


def test_a_size_that_recurs_is_a_single_sample() -> None:
    config = PrepareConfig()
    for n in (300, *[500] * 12):
        assert find_resized(make_job_of(n), config) is None
    assert find_resized(make_job_of(400), config) is not None


def test_sizes_that_may_be_empty_have_specialized_kernels() -> None:
    config = PrepareConfig()
    for n, is_resized in ((150, False), (170, False), (160, False), (400, True)):
        # For the least size of the interval from 2 to 256, the second operand has none.
        total = Tensor(numbers(n)).sum() + Tensor(numbers(3 * n - 300))
        assert (find_resized(make_job([total.uop], config), config) is not None) == is_resized


def test_custom_passes_need_known_sizes() -> None:
    config = PrepareConfig(passes=PIPELINES)
    for n in (300, 500, 400):
        assert find_resized(make_job_of(n), config) is None


def test_results_have_memory_of_their_own_size() -> None:
    for n in (300, 500, 400, 321):
        x = (Tensor(numbers(n)) * 2).realize()
        assert x.nbytes == 4 * n
        assert memoryview(x.numpy()).nbytes == 4 * n
    x += 1
    np.testing.assert_array_equal(x.numpy(), numbers(321) * 2 + 1)


def test_writes_and_views_of_varying_sizes_are_right() -> None:
    for n in (12, 23, 16, 17, 100, 2):
        a, b = numbers(n, 4), numbers(n, 4)
        x, y = Tensor(a.copy()).realize(), Tensor(b).realize()
        view = x[1:, ::2]
        x.assign(x + y * 2)
        x[1:, ::2] *= 3
        a += b * 2
        a[1:, ::2] *= 3
        np.testing.assert_array_equal((view + 1).realize().numpy(), a[1:, ::2] + 1)
        np.testing.assert_array_equal(x.numpy(), a)
        np.testing.assert_array_equal((x[1:] + x[:-1]).realize().numpy(), a[1:] + a[:-1])


def test_several_results_with_shared_nodes() -> None:
    for n in (12, 23, 16, 17, 100):
        a = numbers(n)
        x = Tensor(a)
        total = x.sum()
        results = [x * 2, total, x - total, x * 2, Tensor(np.float32(3)).reshape(1)]
        Tensor.realize_batch(results)
        expected = [a * 2, a.sum(), a - a.sum(), a * 2, np.full(1, 3, np.float32)]
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result.numpy(), wanted)


def test_inputs_on_one_storage_keep_kernels_that_know_the_sizes() -> None:
    for n in (300, 500, 400):
        job = make_job([(Tensor(numbers(n)) + Tensor(numbers(n))).uop], PrepareConfig())
        found = find_resized(job, PrepareConfig())
    assert found is not None
    whole = Buffer(get_allocator("CPU"), float32, 800)
    halves = whole.view(0, 1600, float32), whole.view(1600, 1600, float32)
    assert (
        find_resized(job._replace(inputs=job.inputs._replace(buffers=halves)), PrepareConfig())
        is None
    )


def test_explicit_opts_need_known_sizes() -> None:
    config = PrepareConfig(opts=(Opt(OptOp.UPCAST, 0, 4),))
    for n in (300, 500, 400, 404):
        np.testing.assert_array_equal(
            (Tensor(numbers(n)) * 2).realize_with(config).numpy(), numbers(n) * 2
        )
    assert count_kernels() == 4


def test_plans_know_their_sizes_and_captured_functions_share_kernels() -> None:
    double = jit(lambda x: x * 2)
    for n in (300, 500, 400, 401):
        np.testing.assert_array_equal(double(Tensor(numbers(n))).numpy(), numbers(n) * 2)
    assert count_kernels() == 3
    for n in (300, 500, 400, 401):
        y = Tensor(numbers(n)) + 3
        plan = y.prepare()
        plan.execute()
        assert dict(plan.variables) == {}
        np.testing.assert_array_equal(y.numpy(), numbers(n) + 3)
    assert count_kernels() == 7


def test_threads_use_new_sizes_concurrently() -> None:
    def work(number: int) -> None:
        for n in range(2, 40):
            x = numbers(n * 8 + number, 5)
            check(lambda x: x.mean(0), x)
            check(lambda x: x * 2 - 1, x)

    run_in_threads(*(partial(work, number) for number in range(6)), switching_often=True)
    # Of 456 graphs.
    assert count_kernels() < 80
