"""Training goes on for as long as one likes: nothing grows with the number of steps."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy as np

import svod_nn as nn
from svod_device import get_device
from svod_ir.uop import count_interned
from svod_tensor import Generator, Tensor, jit


def make_step(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    optimizer = nn.AdamW(model, lr=nn.schedules.cosine(0.01, 1000))

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        value, gradients = nn.value_and_grad(
            model, lambda model, x, y: nn.cross_entropy(model(x), y)
        )(x, y)
        optimizer.update(gradients)
        return value

    return step


def measure() -> dict[str, int]:
    """What is alive, once the thread that makes batches has ended."""
    for thread in threading.enumerate():
        if thread.name == "svod-nn batches":
            thread.join(60)
    gc.collect()
    return {
        "nodes": count_interned(),
        "tensors": sum(isinstance(one, Tensor) for one in gc.get_objects()),
        "bytes": get_device("CPU").allocator.in_use_bytes,
    }


def test_after_a_thousand_steps_no_more_is_alive_than_after_four_hundred() -> None:
    rng, noise = np.random.default_rng(0), Generator(0)
    model = nn.Sequential(
        nn.Linear(3, 4),
        nn.BatchNorm1d(4),
        nn.ReLU(),
        nn.Dropout(0.2, generator=noise),
        nn.Linear(4, 2),
    )
    step = make_step(model)
    data = nn.batches(
        (rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 2, 40)), 4, Generator(1)
    )

    def train(n_epochs: int) -> None:
        for _ in range(n_epochs):
            for x, y in data:
                step(x, y).item()

    # Until kernels for sizes that come again and again are made, too: see
    # `svod_tensor.engine.size_history`.
    train(40)
    before = measure()
    train(60)
    after = measure()
    assert data.position == model[1].num_batches_tracked.item() == 1000
    assert {name: size for name, size in after.items() if size > before[name]} == {}
    # A tensor more is seen in each of the numbers.
    kept = Tensor(np.arange(3.0)).realize()
    assert all(size > after[name] for name, size in measure().items()), kept
