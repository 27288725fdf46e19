"""Conformance suites on a device with asynchronous work.

A missing `synchronize` shows at once, since work is pending until it is awaited.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from svod_codegen.backend import make_llvm_backend
from svod_device import clear, register_allocator, register_backend
from svod_device.testing import (
    AllocatorConformance,
    AsynchronousDevice,
    BackendConformance,
    BufferConformance,
    RegistryConformance,
)
from svod_testing import OperatorConformance


@contextmanager
def _register_devices() -> Iterator[None]:
    """Register the devices LATE, with host-addressable memory, and FAR, with separate memory."""
    for kind in ("LATE", "FAR"):
        device = AsynchronousDevice(make_llvm_backend, is_host_addressable=kind == "LATE")
        register_allocator(kind, device.make_allocator)
        register_backend(f"{kind}.llvm", device.make_backend)
    try:
        yield
    finally:
        clear()


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    with _register_devices():
        yield


class TestLate(RegistryConformance, AllocatorConformance, BufferConformance, BackendConformance):
    device = "LATE"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        # Kernels are listed when tests are collected, before fixtures run.
        with _register_devices():
            super().pytest_generate_tests(metafunc)


class TestFar(TestLate):
    device = "FAR"


class TestOperatorsOfLate(OperatorConformance):
    device = "LATE"
    n_programs = 4
