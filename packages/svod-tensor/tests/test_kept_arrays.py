"""An array that `numpy()` gave never changes, whatever becomes of the tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, jit

READERS: list[Callable[[Tensor], Any]] = [
    lambda x: x.numpy(),
    np.asarray,
    np.from_dlpack,
    lambda x: x[2:].numpy(),
    lambda x: x.numpy()[::2][1:],
    lambda x: memoryview(x.numpy()),
]


def add_one(x: Tensor) -> Tensor:
    x += 1
    return x


def write_part(x: Tensor) -> Tensor:
    x[1:] = x[:-1] + 1
    return x


captured = jit(lambda x: x.assign(x + 1))
donating = jit(lambda x: x + 1, donate=0)


def call_captured(x: Tensor) -> Tensor:
    captured(x)
    return x


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("step", [add_one, write_part, call_captured, donating])
def test_an_array_keeps_the_values_that_were_read(
    step: Callable[[Tensor], Tensor], read: Callable[[Tensor], Any]
) -> None:
    x = Tensor(np.zeros(64, np.float32)).realize()
    kept, wanted = [], []
    for _ in range(5):
        x = step(x)
        kept.append(np.asarray(read(x)))
        wanted.append(kept[-1].copy())
    np.testing.assert_array_equal(np.stack(kept), np.stack(wanted))


def test_an_array_keeps_its_values_when_a_captured_function_assigns_to_its_tensor() -> None:
    held = Tensor(np.zeros(64, np.float32)).realize()
    first = held.numpy()

    def step() -> None:
        held.assign(held + 1)

    run, kept = jit(step), []
    for _ in range(4):
        run()
        kept.append(held.numpy())
    assert [a[0] for a in (first, *kept)] == [0, 1, 2, 3, 4]


def test_memory_is_written_in_place_once_no_array_shares_it() -> None:
    x = Tensor(np.zeros(64, np.float32)).realize()
    buffer, array = x.buffer(), x.numpy()
    part = array[3:]
    del array
    assert not buffer.is_writable
    del part
    assert buffer.is_writable
    assert add_one(x).realize().buffer() is buffer


def test_an_array_shares_the_memory_of_a_tensor_without_writes() -> None:
    x = (Tensor(np.zeros(64, np.float32)) + 1).realize()
    assert np.shares_memory(x.numpy(), x.numpy())
    assert not np.shares_memory(x.numpy(copy=True), x.numpy())
