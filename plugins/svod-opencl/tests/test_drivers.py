"""Discovery of drivers and selection of working devices."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import pyopencl as cl
import pytest

from svod_opencl import drivers
from svod_opencl.build import BuildFailure, build_program
from svod_opencl.context import choose_device, get_context
from svod_opencl.drivers import find_fault
from svod_opencl.errors import NoDeviceError


@dataclass
class FakePlatform:
    name: str = "Old Drivers"
    version: str = "OpenCL 3.0"


@dataclass
class FakeDevice:
    name: str
    fault: str | None = None
    available: bool = True
    compiler_available: bool = True
    platform: FakePlatform = field(default_factory=FakePlatform)
    asked: int = 0

    def find_fault(self) -> str | None:
        self.asked += 1
        return self.fault


OLD = "error: unknown target CPU 'generic'"


def test_devices_whose_driver_does_not_work_are_skipped() -> None:
    devices = [
        FakeDevice("a", OLD),
        FakeDevice("b"),
        FakeDevice("c", OLD),
        FakeDevice("d"),
        FakeDevice("e"),
    ]
    assert choose_device("OPENCL", devices, FakeDevice.find_fault) is devices[1]
    assert [d.asked for d in devices] == [1, 1, 0, 0, 0]
    assert choose_device("OPENCL:1", devices, FakeDevice.find_fault) is devices[3]


def test_without_a_working_driver_the_error_says_why_and_what_to_install() -> None:
    with pytest.raises(NoDeviceError) as caught:
        choose_device("OPENCL", [FakeDevice("pthread-EPYC", OLD)], FakeDevice.find_fault)
    assert caught.value.headline == "no device 'OPENCL': 0 OpenCL devices work"
    assert caught.value.notes == (f"pthread-EPYC of Old Drivers does not work: {OLD}",)
    assert caught.value.hint is not None and "svod-opencl[cpu]" in caught.value.hint


def test_an_index_beyond_the_last_device_lists_the_working_devices() -> None:
    with pytest.raises(NoDeviceError) as caught:
        choose_device(
            "OPENCL:2",
            [FakeDevice("a"), FakeDevice("b", OLD), FakeDevice("c")],
            FakeDevice.find_fault,
        )
    assert caught.value.working == ("a", "c")
    assert caught.value.faults == (("b of Old Drivers", OLD),)
    assert caught.value.notes[:2] == ("OPENCL:0 is a", "OPENCL:1 is c")


def test_a_device_that_runs_a_kernel_has_no_fault() -> None:
    assert find_fault(get_context("OPENCL").device) is None


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (
            "__kernel void svod_probe(__global int *out) { out[get_global_id(0)] = 5; }",
            "a kernel returned [5, 5, 5, 5], not",
        ),
        ("__kernel void svod_probe(__global int *out) { nonsense }", "nonsense"),
        ("__kernel void other(__global int *out) {}", "svod_probe"),
    ],
)
def test_a_device_with_wrong_results_has_a_fault(
    monkeypatch: pytest.MonkeyPatch, code: str, fault: str
) -> None:
    monkeypatch.setattr(drivers, "_SOURCE", code)
    actual = find_fault(get_context("OPENCL").device)
    assert actual is not None
    assert fault in actual or "INVALID_KERNEL_NAME" in actual
    assert "\n" not in actual


def test_a_driver_that_would_end_the_process_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    old = FakeDevice(
        "pthread",
        platform=FakePlatform("Portable Computing Language", "OpenCL 3.0 PoCL 3.0-rc2  Linux"),
    )
    assert "install binutils" in (find_fault(old) or "")  # type: ignore[arg-type]


def read_c_environment(name: str) -> str | None:
    """Return a variable of the C environment, which the OpenCL loader reads."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value: bytes | None = getenv(name.encode())
    return None if value is None else value.decode()


def test_wheels_are_added_to_the_drivers_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(drivers, "_iter_wheels", lambda: iter([Path("/wheel/libdriver.so")]))
    (tmp_path / "gpu.icd").write_text("libgpu.so\n")
    with drivers._register_wheels(tmp_path):
        listed = Path(read_c_environment("OCL_ICD_VENDORS") or "")
        assert "OCL_ICD_VENDORS" not in os.environ
        assert sorted(path.read_text() for path in listed.glob("*.icd")) == [
            "/wheel/libdriver.so\n",
            "libgpu.so\n",
        ]
    assert read_c_environment("OCL_ICD_VENDORS") is None
    assert not listed.exists()


def test_drivers_set_by_the_user_are_the_only_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    monkeypatch.setattr(drivers, "_iter_wheels", lambda: iter([Path("/wheel/libdriver.so")]))
    with drivers._register_wheels():
        assert read_c_environment("OCL_ICD_VENDORS") == "/mine"


def test_the_log_of_a_successful_build_is_not_a_warning_in_any_thread() -> None:
    """Warning filters are process-wide: a filter set around a build is undone by another thread."""
    context = get_context("OPENCL")
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(6):
                source = (
                    f"#warning {n}\n__kernel void k{number}_{n}(__global int *o) {{ *o = {n}; }}"
                )
                build_program(context.context, context.device, source)
        except BaseException as error:
            failed.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed


def test_a_rejected_program_is_a_build_failure_with_the_driver_s_log() -> None:
    context = get_context("OPENCL")
    with pytest.raises(BuildFailure, match="nothing_of_this_name"):
        build_program(
            context.context,
            context.device,
            "__kernel void k(__global int *o) { *o = nothing_of_this_name; }",
        )
    with pytest.raises(BuildFailure):
        build_program(context.context, context.device, b"no binary")
    assert isinstance(
        build_program(context.context, context.device, "__kernel void k() {}"), cl.Program
    )
