"""Conformance suite for device plugins (extra `testing`; requires pytest).

    from svod_device.testing import DeviceConformance

    class TestMine(DeviceConformance):
        device = "MINE"

The suite tests the contracts of `svod_device._protocols`: memory, buffers, copies, the registry,
and rendering, compiling, loading and running of each kernel of `iter_kernels`, compared with the
reference evaluation. A plugin may inherit the classes separately. `expected_failures` lists the
tests that the device cannot pass, with reasons; these tests must fail.

`svod_testing` is the suite for tensor programs.

Example:
    The classes of the suite:

    >>> from svod_device.testing import AllocatorConformance, BackendConformance, BufferConformance, Conformance, DeviceConformance
    >>> from svod_device.testing import LauncherConformance, LoopConformance, LossConformance, RegistryConformance
    >>> class TestMemory(AllocatorConformance, BufferConformance, LossConformance):
    ...     device = "CPU"
    >>> class TestKernels(RegistryConformance, BackendConformance, LauncherConformance, LoopConformance):
    ...     device, backend_name = "CPU", "llvm"
    ...     expected_failures = {"test_equal_programs_have_equal_sources": "names are drawn at random"}
    >>> def list_tests(suite: type[Conformance]) -> set[str]:
    ...     return {name for name in dir(suite) if name.startswith("test_")}
    >>> list_tests(TestMemory) | list_tests(TestKernels) == list_tests(DeviceConformance)
    True

    The steps of each kernel's test:

    >>> from svod_device import get_device
    >>> from svod_device.testing import BuiltKernel, KernelCase, build, check_kernel, get_case, iter_kernels, make_spec
    >>> cpu = get_device("CPU")
    >>> case = get_case(cpu.target, "variables")
    >>> isinstance(case, KernelCase), case.name in [kernel.name for kernel in iter_kernels(cpu.target)]
    (True, True)
    >>> make_spec(case, cpu.backend, "CPU").var_names
    ('scale', 'shift')
    >>> built = build(case, cpu.backend, "CPU")
    >>> isinstance(built, BuiltKernel), built.program.name
    (True, 'variables')
    >>> check_kernel(built, cpu, {"scale": 3, "shift": -5})

An asynchronous device, on which tests detect every missing `synchronize`:

    >>> from svod_device.testing import AsynchronousAllocator, AsynchronousDevice
    >>> late = AsynchronousDevice(lambda name: cpu.backend)  # for `register_allocator` and `register_backend`
    >>> isinstance(late.make_allocator("LATE"), AsynchronousAllocator), late.make_backend("LATE").launcher
    (True, None)
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that their failed assertions show operands, as in test files.
pytest.register_assert_rewrite(
    *(
        f"svod_device.testing.{name}"
        for name in ("backend", "kernel_runner", "loops", "loss", "memory")
    )
)

from svod_device.testing.asynchronous import AsynchronousAllocator, AsynchronousDevice  # noqa: E402
from svod_device.testing.backend import (  # noqa: E402
    BackendConformance,
    LauncherConformance,
    RegistryConformance,
)
from svod_device.testing.base import Conformance  # noqa: E402
from svod_device.testing.kernel_runner import (  # noqa: E402
    BuiltKernel,
    build,
    check_kernel,
    make_spec,
)
from svod_device.testing.kernels import KernelCase, get_case, iter_kernels  # noqa: E402
from svod_device.testing.loops import LoopConformance  # noqa: E402
from svod_device.testing.loss import LossConformance  # noqa: E402
from svod_device.testing.memory import AllocatorConformance, BufferConformance  # noqa: E402

__all__ = [
    "AllocatorConformance",
    "AsynchronousAllocator",
    "AsynchronousDevice",
    "BackendConformance",
    "BufferConformance",
    "BuiltKernel",
    "Conformance",
    "DeviceConformance",
    "KernelCase",
    "LauncherConformance",
    "LoopConformance",
    "LossConformance",
    "RegistryConformance",
    "build",
    "check_kernel",
    "get_case",
    "iter_kernels",
    "make_spec",
]


class DeviceConformance(
    RegistryConformance,
    AllocatorConformance,
    BufferConformance,
    BackendConformance,
    LauncherConformance,
    LoopConformance,
    LossConformance,
):
    """All conformance tests of a device.

    Derive a test class and name the device: `class TestMine(DeviceConformance): device = "MINE"`.
    `expected_failures` maps tests that the device cannot pass to reasons; these tests must fail.
    """
