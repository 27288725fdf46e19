from __future__ import annotations

import numpy as np

from svod_runtime.kernels import grouping
from svod_tensor import PrepareConfig, Tensor


def chain(x, n):
    for i in range(n):
        x = (x @ x + i).contiguous()
    return x


def test_all_modes_give_bit_equal_results(rng):
    a = rng.standard_normal((33, 33)).astype(np.float32)

    def run(mode):
        x = Tensor(a)
        y = (x @ x).softmax()
        left, right = chain(y, 3), (y.T @ x).contiguous().cumsum(0)
        return (
            (left + right.layernorm())
            .realize_with(PrepareConfig(memory_planner=mode))
            .numpy(copy=True)
        )

    results = [run(mode) for mode in ("arena", "remap", "disabled")]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_files_and_copies_are_not_planned(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(np.arange(64, dtype=np.uint8).tobytes())
    x = Tensor.from_file(path)
    total = x.to("CPU").cast("float32").contiguous().sum() + x.cast("float32").contiguous().max()
    assert total.item() == sum(range(64)) + 63


def test_plans_of_any_order_give_the_same_bits(monkeypatch):
    weights = np.random.default_rng(3).standard_normal((12, 64, 64)).astype(np.float32)

    def run(mode):
        x, total = Tensor(weights[0]), None
        for w in weights[1:]:
            y = ((x @ Tensor(w)).softmax() @ x).relu()
            total = y if total is None else total + y
        return total.realize_with(PrepareConfig(memory_planner=mode)).numpy(copy=True)

    results = [run(mode) for mode in ("arena", "remap", "disabled")]
    monkeypatch.setattr(grouping, "MIN_THREAD_WORK", 0)
    results.append(run("arena"))
    assert all(np.array_equal(results[0], other) for other in results[1:])
