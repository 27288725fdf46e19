"""Conformance tests of backends: render, compile, load and launch kernels, singly and in batches."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

from svod_device._buffer import Buffer, copy_buffer
from svod_device._device import Device
from svod_device._protocols import Backend, BatchLauncher, Launch, TimedProgram
from svod_device._registry import (
    COMPILERS,
    Plugin,
    canonical_device,
    get_allocator,
    get_device,
    get_registry,
)
from svod_device._report import report_devices
from svod_device.testing.base import Conformance
from svod_device.testing.kernel_runner import BuiltKernel, build, check_kernel, make_spec
from svod_device.testing.kernels import get_case, iter_kernels
from svod_dtype import SvodError, float64, int32, int64
from svod_ir import Target
from svod_ir.target import COMMON_DTYPES
from svod_ir.testing import run_in_threads

__all__ = ["BackendConformance", "LauncherConformance", "RegistryConformance"]

_SIZE: Final = 13


class RegistryConformance(Conformance):
    """Tests of the device's registration."""

    def test_a_device_has_one_name_and_one_owner(self, owner: Device) -> None:
        name = canonical_device(self.device)
        assert owner.name == name
        assert get_device(name.lower() + ":0") is get_device(name) if ":" not in name else True
        assert owner.allocator.device == name

    def test_the_report_says_that_it_works(self, owner: Device) -> None:
        (report,) = report_devices(get_registry(), [owner.name])
        assert report.providers and report.problem is None and report.untried is None
        tested = owner.default_backend if self.backend_name is None else self.backend_name
        (backend,) = (backend for backend in report.backends if backend.name == tested)
        assert backend.providers and backend.problem is None and backend.target

    def test_the_backend_under_test_is_there(self, owner: Device, backend: Backend) -> None:
        assert owner.backend_names
        assert (
            callable(backend.renderer.render)
            and callable(backend.compiler.compile)
            and callable(backend.loader)
        )
        assert isinstance(backend.target, Target)


class BackendConformance(Conformance):
    """Tests that a backend renders, compiles, loads and runs every kernel that its target supports."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize `kernel` with the kernels that the backend's target supports."""
        if "kernel" in metafunc.fixturenames:
            target = get_device(self.device).get_backend(self.backend_name).target
            metafunc.parametrize("kernel", [case.name for case in iter_kernels(target)])

    def test_the_target_has_the_dtypes_that_every_kernel_may_need(self, backend: Backend) -> None:
        missing = COMMON_DTYPES - {float64} - backend.target.native_dtypes
        assert not missing, (
            "native_dtypes lacks dtypes that indices, divisions and functions need:"
            f" {', '.join(sorted(map(str, missing)))}"
        )

    def test_a_kernel_computes_what_the_reference_does(
        self, kernel: str, backend: Backend, owner: Device
    ) -> None:
        built = build(get_case(backend.target, kernel), backend, owner.name)
        for seed, values in enumerate(built.case.values):
            check_kernel(built, owner, values, seed)

    def test_equal_programs_have_equal_sources(self, backend: Backend, owner: Device) -> None:
        case = get_case(backend.target, "variables")
        assert (
            make_spec(case, backend, owner.name).source
            == make_spec(case, backend, owner.name).source
        )
        renamed = backend.renderer.render(case.linear, "another_name")
        assert renamed != make_spec(case, backend, owner.name).source, (
            "the source does not name the kernel's entry point"
        )

    def test_the_cache_key_names_compiler_and_target(self, backend: Backend, owner: Device) -> None:
        key = backend.compiler.cache_key
        assert isinstance(key, str) and key.strip()
        plugin = self._get_plugin(owner, backend)
        assert plugin.make(owner.name, Backend).compiler.cache_key == key

    def test_the_cache_key_is_the_same_in_every_process(
        self, backend: Backend, owner: Device
    ) -> None:
        plugin = self._get_plugin(owner, backend)
        if not plugin.is_installed:
            pytest.skip("the backend is registered in this process only")
        if owner.is_exclusive:
            pytest.skip("only one process may open the device")
        code = (
            "from svod_device import get_device\n"
            f"print(get_device({owner.name!r}).get_backend({plugin.backend!r}).compiler.cache_key)"
        )
        process = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert process.stdout.rstrip("\n") == backend.compiler.cache_key

    def test_a_compiled_kernel_carries_what_its_launches_need(
        self, backend: Backend, owner: Device
    ) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        spec, compiled = built.spec, built.compiled
        assert compiled.source is not None or compiled.binary
        assert (compiled.name, compiled.var_names, compiled.n_buffers) == (
            spec.name,
            spec.var_names,
            spec.n_buffers,
        )
        assert (compiled.global_size, compiled.local_size) == (spec.global_size, spec.local_size)
        assert built.program.name == spec.name

    def test_broken_source_is_an_error_with_a_class(self, backend: Backend, owner: Device) -> None:
        spec = make_spec(get_case(backend.target, "copy_float32"), backend, owner.name)
        with pytest.raises(SvodError):
            backend.loader(backend.compiler.compile(replace(spec, source="} this is no program {")))
        check_kernel(
            build(get_case(backend.target, "copy_float32"), backend, owner.name), owner, {}
        )

    def test_one_compiled_kernel_is_loaded_twice(self, backend: Backend, owner: Device) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        again = replace(built, program=backend.loader(built.compiled))
        for seed, values in enumerate(built.case.values):
            check_kernel(built, owner, values, seed)
            check_kernel(again, owner, values, seed)

    def test_a_program_runs_in_several_threads_at_once(
        self, backend: Backend, owner: Device
    ) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)

        def work(thread: int) -> None:
            for turn in range(8):
                check_kernel(built, owner, {"scale": thread + 1, "shift": turn - 4}, seed=thread)

        run_in_threads(*(partial(work, thread) for thread in range(4)))

    def test_kernels_that_may_run_beside_others_do(self, backend: Backend, owner: Device) -> None:
        if not backend.is_host_parallel_safe:
            pytest.skip("the backend does not set is_host_parallel_safe")
        names = ("copy_float32", "arithmetic_int32", "accumulate", "parallel")
        built = [build(get_case(backend.target, name), backend, owner.name) for name in names]

        def work(thread: int) -> None:
            for seed in range(8):
                check_kernel(built[thread], owner, {}, seed)

        run_in_threads(*(partial(work, thread) for thread in range(len(names))))

    def test_kernels_are_built_in_several_threads_at_once(
        self, backend: Backend, owner: Device
    ) -> None:
        names = ("copy_float32", "arithmetic_int32", "accumulate", "parallel")

        def work(thread: int) -> None:
            check_kernel(
                build(get_case(backend.target, names[thread]), backend, owner.name), owner, {}
            )

        run_in_threads(*(partial(work, thread) for thread in range(len(names))))

    def test_a_launch_sees_what_the_one_before_wrote(self, backend: Backend, owner: Device) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        buffers = [Buffer(owner.allocator, int64, _SIZE) for _ in range(2)]
        for buffer in buffers:
            buffer.copyin(np.full(_SIZE, 5, np.int64).data)
        for turn in range(20):
            _launch(built, (buffers[turn % 2], buffers[1 - turn % 2]), {"scale": 1, "shift": 3})
        assert buffers[1].as_numpy().tolist() == [5 + 20 * 3] * _SIZE

    def test_arguments_may_change_once_a_launch_has_returned(
        self, backend: Backend, owner: Device
    ) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        data = np.arange(_SIZE)
        buffers = [Buffer(owner.allocator, int64, _SIZE).ensure_allocated() for _ in range(3)]
        buffers[1].copyin(data.data)
        addresses = array("Q", [buffer.address for buffer in buffers[:2]])
        scale, shift = (built.spec.var_names.index(name) for name in ("scale", "shift"))
        values = array("q", [0, 0])
        values[scale], values[shift] = 3, -5
        dims = built.spec.launch_dims({})
        built.program(addresses, values, dims.global_size, dims.local_size)
        addresses[0], values[scale], values[shift] = buffers[2].address, 0, 0
        assert buffers[0].as_numpy().tolist() == (data * 3 - 5).tolist()

    def test_a_block_may_be_freed_while_a_launch_that_uses_it_is_queued(
        self, backend: Backend, owner: Device
    ) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        data, results = (
            np.arange(_SIZE),
            [Buffer(owner.allocator, int64, _SIZE) for _ in range(20)],
        )
        for turn, result in enumerate(results):
            source = Buffer(owner.allocator, int64, _SIZE)
            source.copyin((data + turn).data)
            _launch(built, (result, source), {"scale": 3, "shift": 1})
            del source
            # An allocator that frees too early returns the same block here, to be overwritten.
            Buffer(owner.allocator, int64, _SIZE).copyin(np.full(_SIZE, -7).data)
        for turn, result in enumerate(results):
            assert result.as_numpy().tolist() == ((data + turn) * 3 + 1).tolist(), (
                "a block was freed before a queued launch had read it"
            )

    @pytest.mark.parametrize(
        "way", ["as_numpy", "as_memoryview", "to_bytes", "copy to the CPU", "copy on the device"]
    )
    def test_every_way_to_read_a_result_waits_for_its_launches(
        self, backend: Backend, owner: Device, way: str
    ) -> None:
        if way == "as_memoryview" and not owner.allocator.is_host_addressable:
            pytest.skip("the host cannot address this memory")
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        chain = [Buffer(owner.allocator, int64, _SIZE) for _ in range(9)]
        chain[0].copyin(np.arange(_SIZE).data)
        for source, result in itertools.pairwise(chain):
            _launch(built, (result, source), {"scale": 2, "shift": 1})
        assert _read_result(chain[-1], way) == [256 * n + 255 for n in range(_SIZE)], (
            f"{way} reads a result before its launch is done"
        )

    def test_a_timed_call_runs_the_kernel_and_says_how_many_nanoseconds_it_took(
        self, backend: Backend, owner: Device
    ) -> None:
        built = build(get_case(backend.target, "variables"), backend, owner.name)
        timed = built.program
        if not isinstance(timed, TimedProgram):
            pytest.skip("the programs of this backend have no timed_call")
        times: list[int] = []

        class Timed:
            name, entry = timed.name, None

            def __call__(self, *arguments: Any) -> None:
                times.append(timed.timed_call(*arguments))

        for seed, values in enumerate(built.case.values):
            check_kernel(replace(built, program=Timed()), owner, values, seed)
        for elapsed in times:
            assert isinstance(elapsed, int) and not isinstance(elapsed, bool), (
                f"timed_call returns {elapsed!r}, not an int"
            )
            assert elapsed >= 0, f"timed_call returns {elapsed}, a negative time"

    @staticmethod
    def _get_plugin(owner: Device, backend: Backend) -> Plugin:
        name = next(name for name in owner.backend_names if owner.get_backend(name) is backend)
        plugins = get_registry().iter_plugins()
        return next(
            p
            for p in plugins
            if p.group == COMPILERS and (p.kind, p.backend) == (owner.base_key, name)
        )


def _read_result(buffer: Buffer, way: str) -> list[int]:
    match way:
        case "as_memoryview":
            return buffer.as_memoryview().cast("q").tolist()
        case "to_bytes":
            return np.frombuffer(buffer.to_bytes(), np.int64).tolist()
        case "copy to the CPU" | "copy on the device":
            allocator = get_allocator("CPU") if way == "copy to the CPU" else buffer.allocator
            copied = Buffer(allocator, int64, _SIZE)
            copy_buffer(copied, buffer)
            return copied.as_numpy().tolist()
        case _:
            return buffer.as_numpy().tolist()


class LauncherConformance(Conformance):
    """Tests that a batch launcher runs groups in order, and reads addresses and values at each run."""

    @pytest.fixture
    def launcher(self, backend: Backend) -> BatchLauncher:
        """The backend's batch launcher; tests are skipped without one."""
        if backend.launcher is None:
            pytest.skip("the backend has no batch launcher")
        return backend.launcher

    @pytest.fixture
    def step(self, backend: Backend, owner: Device) -> BuiltKernel:
        """Kernel y = x * scale + shift of int64."""
        return build(get_case(backend.target, "variables"), backend, owner.name)

    def test_groups_run_in_order(
        self, step: BuiltKernel, launcher: BatchLauncher, owner: Device
    ) -> None:
        chain = _Chain(step, owner, length=6)
        table = launcher.make_table(chain.launches)
        launcher.run(table)
        chain.check()

    def test_one_table_runs_again_on_changed_values(
        self, step: BuiltKernel, launcher: BatchLauncher, owner: Device
    ) -> None:
        chain = _Chain(step, owner, length=4)
        table = launcher.make_table(chain.launches)
        for turn in range(5):
            chain.set_values(scale=turn, shift=7 * turn - 10)
            launcher.run(table)
            chain.check()

    def test_one_table_runs_again_on_other_buffers(
        self, step: BuiltKernel, launcher: BatchLauncher, owner: Device
    ) -> None:
        chain = _Chain(step, owner, length=3)
        table = launcher.make_table(chain.launches)
        launcher.run(table)
        chain.check()
        chain.replace_input(np.arange(100, 100 + _SIZE))
        launcher.run(table)
        chain.check()

    def test_launches_of_one_group_all_run(
        self, step: BuiltKernel, launcher: BatchLauncher, owner: Device
    ) -> None:
        chains = [_Chain(step, owner, length=1) for _ in range(9)]
        for index, chain in enumerate(chains):
            chain.set_values(scale=index, shift=index * index)
        launcher.run(launcher.make_table([chain.launches[0] for chain in chains]))
        for chain in chains:
            chain.check()

    def test_two_tables_run_at_once(
        self, step: BuiltKernel, launcher: BatchLauncher, owner: Device
    ) -> None:
        chains = [_Chain(step, owner, length=3) for _ in range(3)]
        tables = [launcher.make_table(chain.launches) for chain in chains]

        def work(thread: int) -> None:
            for turn in range(10):
                chains[thread].set_values(scale=thread, shift=turn)
                launcher.run(tables[thread])
                chains[thread].check()

        run_in_threads(*(partial(work, thread) for thread in range(len(chains))))

    def test_a_table_keeps_its_programs_alive(
        self, backend: Backend, launcher: BatchLauncher, owner: Device
    ) -> None:
        chain = _Chain(
            build(get_case(backend.target, "variables"), backend, owner.name), owner, length=2
        )
        table = launcher.make_table(chain.launches)
        chain.forget_programs()
        launcher.run(table)
        chain.check()

    def test_all_parts_of_a_launch_run(
        self, backend: Backend, launcher: BatchLauncher, owner: Device
    ) -> None:
        built = build(get_case(backend.target, "parallel"), backend, owner.name)
        result, data = Buffer(owner.allocator, int32, 21), np.arange(21, dtype=np.int32)
        source = Buffer(owner.allocator, int32, 21)
        source.copyin(data.data)
        result.copyin(data.data)
        launcher.run(
            launcher.make_table([_make_launch(built, [result.address, source.address], (), 0)])
        )
        assert result.as_numpy().tolist() == [i + i // 3 for i in range(21)]


class _Chain:
    """Chain of launches of one kernel, each on the previous result and in a separate group."""

    def __init__(self, step: BuiltKernel, owner: Device, *, length: int) -> None:
        self._owner = owner
        self._input = np.arange(_SIZE)
        self.buffers = [Buffer(owner.allocator, int64, _SIZE) for _ in range(length + 1)]
        for buffer in self.buffers:
            buffer.copyin(np.full(_SIZE, -1, np.int64).data)
        self.buffers[0].copyin(self._input.data)
        self._values = {"scale": 2, "shift": 1}
        self._var_names = step.spec.var_names
        values = [self._values[name] for name in self._var_names]
        pairs = itertools.pairwise(self.buffers)
        self.launches = [
            _make_launch(step, [result.address, source.address], values, group)
            for group, (source, result) in enumerate(pairs)
        ]

    def set_values(self, **values: int) -> None:
        self._values = values
        for launch in self.launches:
            for position, name in enumerate(self._var_names):
                launch.values[position] = values[name]

    def replace_input(self, data: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        self._input = data
        self.buffers[0] = Buffer(self._owner.allocator, int64, _SIZE)
        self.buffers[0].copyin(data.data)
        self.launches[0].buffers[1] = self.buffers[0].address

    def forget_programs(self) -> None:
        self.launches = []
        gc.collect()

    def check(self) -> None:
        expected = self._input
        for buffer in self.buffers[1:]:
            expected = expected * self._values["scale"] + self._values["shift"]
            assert buffer.as_numpy().tolist() == expected.tolist()


def _make_launch(
    built: BuiltKernel, addresses: Sequence[int], values: Sequence[int], group: int
) -> Launch:
    dims = built.spec.launch_dims({})
    return Launch(
        built.program,
        array("Q", addresses),
        array("q", values),
        dims.global_size,
        dims.local_size,
        group,
    )


def _launch(built: BuiltKernel, buffers: Sequence[Buffer], values: Mapping[str, int]) -> None:
    dims = built.spec.launch_dims(values)
    built.program(
        [buffer.ensure_allocated().address for buffer in buffers],
        [values[name] for name in built.spec.var_names],
        dims.global_size,
        dims.local_size,
    )
