"""A device that is lost: one error wherever it is noticed, and tensors that are made anew on its
next opening.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from svod_codegen.backend import make_llvm_backend
from svod_device import (
    Backend,
    CompiledSpec,
    DeviceLostError,
    HostAllocator,
    Memory,
    clear,
    close_device,
    register_allocator,
    register_backend,
)
from svod_tensor import Tensor, jit

VALUES = np.arange(6, dtype=np.float32)


class Far(HostAllocator):
    """Memory of the host, as if it were elsewhere; each opening has a connection, and all work
    stops with it.
    """

    is_host_addressable = False
    connections = itertools.count()
    live = -1

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.connection = Far.live = next(Far.connections)
        self.late_error = ""

    def check(self) -> None:
        if self.connection != Far.live:
            raise BrokenPipeError("nobody listens")
        if self.late_error:
            raise RuntimeError(self.late_error)

    def allocate(self, nbytes: int) -> Memory:
        self.check()
        return super().allocate(nbytes)

    def copy_in(self, address: int, source: memoryview) -> None:
        self.check()
        super().copy_in(address, source)

    def copy_out(self, destination: memoryview, address: int) -> None:
        self.check()
        super().copy_out(destination, address)

    def synchronize(self) -> None:
        self.check()


def make_backend(device: str) -> Backend:
    backend, connection = make_llvm_backend(device), Far.live

    class Program:
        entry = None

        def __init__(self, compiled: CompiledSpec) -> None:
            self.inner = backend.loader(compiled)
            self.name = self.inner.name

        def __call__(self, *arguments: object) -> None:
            if connection != Far.live:
                raise BrokenPipeError("nobody listens")
            self.inner(*arguments)

    return replace(backend, loader=Program, launcher=None, is_host_parallel_safe=False)


@pytest.fixture(autouse=True)
def far() -> Iterator[None]:
    clear()
    register_allocator("FAR", Far)
    register_backend("FAR.llvm", make_backend)
    yield
    clear()


def lose() -> None:
    Far.live = -1


def test_every_read_of_a_lost_device_raises_the_same_error():
    x = Tensor(VALUES, device="FAR").realize()
    pending = (x * 2).sum()
    plan = (x + 1).prepare()
    lose()
    for read, operation in (
        (x.numpy, "copying 24 bytes from FAR"),
        (x.to("CPU").realize, "24 bytes"),
        (pending.item, "FAR"),
        (plan.execute, "launching kernel"),
        (plan.execute_profiled, "launching kernel"),
        (Tensor(VALUES, device="FAR").realize, "FAR"),
    ):
        with pytest.raises(
            DeviceLostError, match="failed: device FAR is lost: BrokenPipeError: nobody listens"
        ) as caught:
            read()
        assert operation in caught.value.headline


def test_an_error_that_comes_late_blames_no_kernel():
    x = Tensor(VALUES, device="FAR").realize()
    plan = (x + 1).prepare()
    plan.execute()
    x.buffer().allocator.inner.late_error = "an earlier kernel failed"
    with pytest.raises(
        DeviceLostError, match=r"copying 24 bytes from FAR failed: .* an earlier kernel failed"
    ):
        plan.output_buffer.as_numpy()
    with pytest.raises(
        DeviceLostError, match=r"launching kernel .* failed: .* an earlier kernel failed"
    ):
        plan.execute()


def test_new_tensors_are_computed_after_the_device_is_reopened():
    @jit
    def double(x):
        return x * 2 + 1

    old = Tensor(VALUES, device="FAR").realize()
    for _ in range(2):
        np.testing.assert_array_equal(double(old).numpy(), VALUES * 2 + 1)
    np.testing.assert_array_equal((old.sum() * 3).numpy(), VALUES.sum() * 3)
    lose()
    with pytest.raises(DeviceLostError):
        double(old)
    close_device("FAR")
    new = Tensor(VALUES + 1, device="FAR").realize()
    np.testing.assert_array_equal((new.sum() * 3).numpy(), (VALUES + 1).sum() * 3)
    for _ in range(2):
        np.testing.assert_array_equal(double(new).numpy(), VALUES * 2 + 3)
    for read in (old.numpy, (old * 2).numpy, lambda: double(old)):
        with pytest.raises(DeviceLostError):
            read()
    np.testing.assert_array_equal(double(new).numpy(), VALUES * 2 + 3)


def test_a_plan_of_a_new_opening_takes_no_buffer_of_an_old_one():
    old = Tensor(VALUES, device="FAR").realize()
    lose()
    with pytest.raises(DeviceLostError):
        old.numpy()
    close_device("FAR")
    new = Tensor(VALUES, device="FAR").realize()
    plan = (new + 1).prepare()
    plan.execute()
    index = plan.buffers.index(new.buffer())
    with pytest.raises(DeviceLostError, match="using a buffer of 24 bytes on FAR failed"):
        plan.replace_buffer(index, old.buffer())
    plan.execute()
    np.testing.assert_array_equal(plan.output_buffer.as_numpy(), VALUES + 1)
