"""Which lines kernels come from: through fusion, rewriting, caches, `jit`, assignments and several
devices.
"""

from __future__ import annotations

import gc
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from svod_device import get_device
from svod_ir import OptionError
from svod_ir.origins import clear_origins, has_origins
from svod_ir.uop import count_interned
from svod_runtime import KernelProfile
from svod_tensor import (
    PrepareConfig,
    Tensor,
    _origins as origins,
    fori_loop,
    jit,
    scope,
    track_origins,
)
from svod_tensor.engine.caches import SCHEDULES
from svod_tensor.options import read_origins


@pytest.fixture(autouse=True)
def _no_origins() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    clear_origins()
    yield
    clear_origins()


def line() -> int:
    """The number of the line that calls."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def random(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).random(shape, np.float32))


def profiles_of(*tensors: Tensor) -> list[KernelProfile]:
    return Tensor.prepare_batch(tensors).execute_profiled()


def places(profile: KernelProfile) -> list[tuple[int, str]]:
    return [(o.line, o.operation) for o in profile.origins]


def test_every_kernel_of_a_perceptron_names_its_lines_and_scopes():
    x, first, second = random(32, 64), random(64, 128), random(128, 10)
    begin = line()
    with scope("mlp"):
        hidden = (x @ first + 1).relu()
        with scope("head"):
            y = hidden @ second
    with track_origins():
        p = y.softmax(-1)
    hidden_kernel, head_kernel, softmax_kernel = profiles_of(p)
    assert places(hidden_kernel) == [(begin + 2, "matmul"), (begin + 2, "add"), (begin + 2, "relu")]
    assert places(head_kernel) == [(begin + 4, "matmul")]
    assert places(softmax_kernel) == [(begin + 6, "softmax")]
    assert [{o.scope for o in k.origins} for k in (hidden_kernel, head_kernel, softmax_kernel)] == [
        {"mlp"},
        {"mlp.head"},
        {""},
    ]
    (origin,) = head_kernel.origins
    assert origin.file == __file__
    assert origin.function == "test_every_kernel_of_a_perceptron_names_its_lines_and_scopes"


def test_a_fused_kernel_names_all_its_lines():
    x = random(8, 8)
    begin = line()
    with track_origins():
        y = x.exp()
        y = 2 - y
        y = y.sum(1)
        y = (y * y).sqrt()
    (kernel,) = profiles_of(y)
    assert places(kernel) == [
        (begin + 2, "exp"),
        (begin + 3, "sub"),
        (begin + 4, "sum"),
        (begin + 5, "mul"),
        (begin + 5, "sqrt"),
    ]


def test_equal_graphs_of_different_lines_share_a_schedule_and_keep_their_lines():
    x, y = random(5, 7), random(5, 7)
    begin = line()
    with track_origins():
        a = x.exp() + 1
        b = y.exp() + 1
    hits = SCHEDULES.counts().hits
    (first,), (second,) = profiles_of(a), profiles_of(b)
    assert SCHEDULES.counts().hits == hits + 1
    assert first.kernel is second.kernel
    assert places(first) == [(begin + 2, "exp"), (begin + 2, "add")]
    assert places(second) == [(begin + 3, "exp"), (begin + 3, "add")]


def test_a_cached_schedule_without_origins_gets_them_on_demand():
    (before,) = profiles_of(random(3, 5).exp() * 7)
    with scope("late"):
        (after,) = profiles_of(random(3, 5).exp() * 7)
    (again,) = profiles_of(random(3, 5).exp() * 7)
    assert before.kernel is after.kernel
    assert [o.operation for o in after.origins] == ["exp", "mul"]
    assert before.origins == again.origins == ()


def test_origins_are_not_tracked_by_default(monkeypatch: pytest.MonkeyPatch):
    walked: list[object] = []
    find = origins._find_origin  # pyright: ignore[reportPrivateUsage]

    def count(*arguments: object) -> object:
        walked.append(arguments)
        return find(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(origins, "_find_origin", count)
    x = random(4, 4)
    plain = (x @ x).softmax()
    gc.collect()
    n_nodes = count_interned()
    assert walked == [] and not has_origins()
    with track_origins():
        tracked = (x @ x).softmax()
    assert tracked.uop is plain.uop
    assert count_interned() == n_nodes
    assert walked == []
    with track_origins():
        (x @ x).log_softmax()
    assert walked and has_origins()


def test_nodes_built_before_tracking_have_no_origin():
    older = random(16).exp()
    with scope("later"):
        y = older * 3
    (kernel,) = profiles_of(y)
    assert [o.operation for o in kernel.origins] == ["mul"]


def test_origins_outlive_the_realization_of_operands():
    x = random(6, 6)
    begin = line()
    with track_origins():
        inner = x.sum(0)
        outer = inner.exp() + 1
    inner.realize()
    with scope("elsewhere"):
        result = outer * 2
    (kernel,) = profiles_of(result)
    assert places(kernel) == [(begin + 3, "exp"), (begin + 3, "add"), (begin + 6, "mul")]


def test_constants_do_not_bring_the_line_that_wrote_them_first():
    x, y = random(9), random(9)
    with scope("first"):
        a = x + 5.5
    with scope("second"):
        b = y + 5.5
    assert [o.scope for k in profiles_of(b) for o in k.origins] == ["second"]
    assert [o.scope for k in profiles_of(a) for o in k.origins] == ["first"]


def test_movement_and_fill_kernels_have_origins_too():
    with track_origins():
        begin = line()
        moved = random(3, 5).transpose(0, 1).contiguous()
        filled = Tensor.full((4,), 2.5)
    assert places(profiles_of(moved)[0])[-1] == (begin + 1, "contiguous")
    assert places(profiles_of(filled)[0]) == [(begin + 2, "full")]


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda x: (x.sum(), ["sum"]), id="a reduction in two steps"),
        pytest.param(
            lambda x: ((x.reshape(256, 256, 8).sum(2) + 1).transpose(0, 1), ["sum", "add"]),
            id="permuted early",
        ),
        pytest.param(lambda x: (x.cumsum(0), ["cumsum"]), id="a scan"),
        pytest.param(
            lambda x: ((x * 2).contiguous().exp(), ["mul", "contiguous", "exp"]),
            id="stored between",
        ),
    ],
)
def test_no_pass_loses_lines(build: Callable[[Tensor], tuple[Tensor, list[str]]]):
    x = random(1 << 19)
    with track_origins():
        y, expected = build(x)
    found = profiles_of(y)
    assert all(k.origins for k in found)
    assert {o.operation for k in found for o in k.origins} >= set(expected)


def test_a_captured_function_names_the_lines_inside_it():
    begin = line()

    @jit
    def step(x: Tensor) -> Tensor:
        with scope("step"):
            return (x * 3).sum() + 1

    step(random(12)).realize()
    (plan,) = step.plans()
    (kernel,) = plan.execute_profiled()
    assert {(o.line, o.scope) for o in kernel.origins} == {(begin + 5, "step")}
    assert [o.operation for o in kernel.origins] == ["mul", "sum", "add"]


def test_an_assignment_names_its_line_and_its_readers_theirs():
    x = random(10).realize()
    begin = line()
    with track_origins():
        x.assign(x * 2)
        y = x.sum()
    write, read = profiles_of(y)
    assert places(write) == [(begin + 2, "mul"), (begin + 2, "assign")]
    assert places(read) == [(begin + 3, "sum")]


def test_a_kernel_that_computes_two_results_names_the_lines_of_both():
    x = random(10).realize()
    begin = line()
    with track_origins():
        x.assign(x * 2)
        y = x.exp()
    (both,) = profiles_of(y)
    assert places(both) == [(begin + 2, "mul"), (begin + 2, "assign"), (begin + 3, "exp")]


def test_shards_have_the_origins_of_the_tensor():
    x = random(8, 6).shard(("CPU", "CPU:1"), 0).realize()
    begin = line()
    with scope("sharded"):
        y = x.exp()
        z = y.sum(0)
    found = profiles_of(z)
    lines = {(o.line, o.scope) for k in found for o in k.origins}
    assert lines == {(begin + 2, "sharded"), (begin + 3, "sharded")}
    assert all(k.origins for k in found)


def test_threads_track_for_themselves():
    barrier = threading.Barrier(3)
    found: dict[str, Sequence[str]] = {}

    def work(name: str, tracking: AbstractContextManager[None] | None) -> None:
        x = random(11, 3 + len(found))
        barrier.wait()
        if tracking is None:
            y = x.exp() * len(name)
        else:
            with tracking:
                y = x.exp() * len(name)
        barrier.wait()
        found[name] = [o.scope for k in profiles_of(y) for o in k.origins]

    threads = [
        threading.Thread(target=work, args=("a", scope("a"))),
        threading.Thread(target=work, args=("bc", scope("bc"))),
        threading.Thread(target=work, args=("def", None)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": ["a", "a"], "bc": ["bc", "bc"], "def": []}


def test_scopes_end_with_their_blocks_also_by_an_error():
    assert origins.current_scope.get() is None
    with pytest.raises(ZeroDivisionError), scope("a"):
        with scope("b"):
            assert origins.current_scope.get() == "a.b"
        assert origins.current_scope.get() == "a"
        raise ZeroDivisionError
    assert origins.current_scope.get() is None


def test_a_compile_error_names_the_lines_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
):
    class Failing:
        cache_key = "failing"

        def compile(self, *_arguments: object) -> object:
            raise RuntimeError("no registers left")

    device = get_device("CPU")
    monkeypatch.setattr(type(device.compiler), "compile", Failing.compile)
    with track_origins():
        begin = line()
        y = (random(13) * 1.25).exp().sin().sum()
    with pytest.raises(RuntimeError, match="no registers left") as caught:
        y.realize()
    name = f"test_origins.py:{begin + 1}"
    assert caught.value.__notes__ == [
        f"about a kernel that comes from {name} mul, {name} exp, {name} sin, {name} sum"
    ]


def test_the_log_of_a_compiled_kernel_names_its_lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("SVOD_CACHE_DIR", str(tmp_path))
    with track_origins(), caplog.at_level(logging.INFO, "svod.tensor"):
        begin = line()
        (random(3, 19) * 0.375).cos().sum(0).realize()
    (message,) = [r.getMessage() for r in caplog.records if "compile.kernel" in r.getMessage()]
    assert all(f"test_origins.py:{begin + 1} {name}" in message for name in ("mul", "cos", "sum"))


def test_a_plan_without_lines_has_profiles_without_lines():
    x = random(4)
    with track_origins():
        (x * 2).realize()
    config = PrepareConfig(disable_schedule_cache=True)
    (profile,) = (x + 1).prepare_with(config).execute_profiled()
    assert profile.origins == ()


def test_the_environment_variable_enables_tracking():
    assert read_origins({"SVOD_ORIGINS": "1"})
    assert not read_origins({})
    with pytest.raises(OptionError, match="SVOD_ORIGINS"):
        read_origins({"SVOD_ORIGINS": "maybe"})


def test_a_kernel_in_a_loop_has_the_line_of_its_body() -> None:
    lines: list[int] = []

    def body(_i: Tensor, v: Tensor) -> Tensor:
        lines.append(line() + 1)
        return (weights @ v).tanh()

    with track_origins():
        weights = random(9, 9).realize()
        found = fori_loop(0, 100, body, random(9).realize())
    [profile] = {p.name: p for p in profiles_of(found)}.values()
    assert {number for number, _ in places(profile)} >= set(lines)
    assert "tanh" in {operation for _, operation in places(profile)}
