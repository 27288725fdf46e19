"""Conformance tests of device loss: a failed device neither returns garbage nor blocks forever."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from svod_device._buffer import Buffer
from svod_device._device import Device
from svod_device._guarded import GuardedProgram
from svod_device._protocols import Memory, Program
from svod_device._registry import close_device, get_device
from svod_device.errors import DeviceLostError
from svod_device.testing.base import Conformance
from svod_device.testing.kernel_runner import BuiltKernel, build, check_kernel
from svod_device.testing.kernels import get_case
from svod_device.testing.limit import get_plugin_allocator, run_with_limit
from svod_dtype import int64

__all__ = ["LossConformance"]

_SIZE: Final = 13
_TIMES: Final = 3


class _Victim:
    """Device opened for one test, with the plugin's unguarded objects and a built kernel."""

    def __init__(self, device: Device, backend_name: str | None) -> None:
        self.device = device
        self.allocator = get_plugin_allocator(device.allocator)
        self.built: BuiltKernel = build(
            get_case(device.get_backend(backend_name).target, "variables"),
            device.get_backend(backend_name),
            device.name,
        )
        self.buffers = [Buffer(device.allocator, int64, _SIZE) for _ in range(2)]
        for buffer in self.buffers:
            buffer.copyin(np.arange(_SIZE).data)
        self.addresses = [buffer.address for buffer in self.buffers]
        self.spare: Memory = self.allocator.allocate(64)

    def launch(self, program: Program) -> None:
        dims = self.built.spec.launch_dims({})
        program(
            self.addresses, [1] * len(self.built.spec.var_names), dims.global_size, dims.local_size
        )

    @property
    def plugin_program(self) -> Program:
        program = self.built.program
        return program.inner if isinstance(program, GuardedProgram) else program

    def use(self, method: str) -> None:
        """Call a method of the plugin's allocator."""
        data = bytearray(_SIZE * 8)
        match method:
            case "allocate":
                self.allocator.allocate(64)
            case "copy_in":
                self.allocator.copy_in(self.addresses[0], memoryview(data))
            case "copy_out":
                self.allocator.copy_out(memoryview(data), self.addresses[0])
            case _:
                self.allocator.synchronize()


class LossConformance(Conformance):
    """Tests of device loss: the next waiting call raises, and so does every later call.

    They are skipped unless the plugin's test class overrides `break_device`.
    """

    @pytest.fixture
    def victim(self, owner: Device) -> object:
        """New opening of the device, closed after the test."""
        if type(self).break_device is Conformance.break_device:
            pytest.skip("device loss is not tested: the class does not override break_device")
        # If an earlier test lost the device, fail here: opening it again could block.
        owner.allocator.synchronize()
        close_device(owner.name)
        victim = _Victim(get_device(self.device), self.backend_name)
        yield victim
        self._run(
            victim, lambda: close_device(owner.name), "close_device of a failed device blocks"
        )

    def _run(self, victim: _Victim, work: Callable[[], None], problem: str) -> None:
        run_with_limit(victim.device.allocator, self.limit_s, work, problem)

    def _break(self, victim: _Victim) -> None:
        """Break the device and launch a kernel, whose error may be synchronous or asynchronous."""
        self.break_device(victim.allocator)
        with contextlib.suppress(Exception):
            victim.launch(victim.plugin_program)

    @pytest.mark.parametrize("method", ["synchronize", "copy_out", "copy_in", "allocate"])
    def test_whoever_waits_for_a_device_that_failed_gets_an_error_each_time(
        self, victim: _Victim, method: str
    ) -> None:
        def use() -> None:
            self._break(victim)
            for time in range(_TIMES):
                try:
                    victim.use(method)
                except Exception:
                    continue
                when = "" if time == 0 else ", although it raised before"
                consequence = (
                    "it read garbage" if method == "copy_out" else "the launch error is swallowed"
                )
                pytest.fail(f"{method} of a failed device returns{when}: {consequence}")

        self._run(victim, use, f"{method} of a failed device blocks")

    def test_free_of_a_device_that_failed_neither_raises_nor_waits(self, victim: _Victim) -> None:
        def free() -> None:
            self._break(victim)
            victim.allocator.free(victim.spare)

        self._run(victim, free, "free of a failed device blocks")

    def test_the_error_of_a_device_that_failed_names_it(self, victim: _Victim) -> None:
        def use() -> None:
            self._break(victim)
            for read in (victim.buffers[0].to_bytes, lambda: victim.launch(victim.built.program)):
                with pytest.raises(DeviceLostError) as caught:
                    read()
                assert caught.value.device == victim.device.name

        self._run(victim, use, "a failed device blocks")

    def test_a_device_that_failed_is_opened_again_and_takes_nothing_of_before(
        self, victim: _Victim
    ) -> None:
        def use() -> None:
            self._break(victim)
            with pytest.raises(DeviceLostError):
                victim.buffers[0].to_bytes()
            close_device(victim.device.name)
            device = get_device(self.device)
            backend = device.get_backend(self.backend_name)
            check_kernel(
                build(get_case(backend.target, "copy_float32"), backend, device.name), device, {}
            )
            with pytest.raises(DeviceLostError):
                victim.buffers[0].to_bytes()
            with pytest.raises(DeviceLostError):
                victim.launch(victim.built.program)

        self._run(victim, use, "reopening a failed device blocks")
