"""`python -m svod_device`: each device is tried in a child process, and failures are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from svod_device import (
    INTERFACE_VERSION,
    Backend,
    CompiledSpec,
    HostAllocator,
    ProgramSpec,
    Registry,
    clear,
)
from svod_device.__main__ import main
from svod_device._registry import ALLOCATORS, COMPILERS
from svod_device._report import DeviceReport, describe, report_devices
from svod_dtype import DeviceNameError
from svod_ir import Target

WORKING = Path(__file__).with_name("working_device.py").read_text()
RAISE = """
import os
def fail(*_):
    raise OSError("no luck")
def with_call(call, right=make_program):
    def make(allocator):
        program = right(allocator)
        program.__call__ = call
        return program
    return make
"""
BAD = {
    "open": ("Allocator.__init__ = fail", "failed to load: OSError: no luck"),
    "allocate": ("Allocator.allocate = fail", "allocating 4096 bytes: OSError: no luck"),
    "copy": (
        "def garble(self, to, at): to[:] = bytes(len(to))\nAllocator.copy_out = garble",
        "copying 4096 bytes from the device: 4079 of 4096 bytes differ from those written",
    ),
    "crash": (
        "def crash(self, at, to): os._exit(3)\nAllocator.copy_in = crash",
        "copying 4096 bytes to the device: the process exited with status 3",
    ),
    "signal": (
        "def crash(self, at, to): os.abort()\nAllocator.copy_in = crash",
        "copying 4096 bytes to the device: the process was killed by signal 6",
    ),
    "lost": (
        "Allocator.copy_in = fail\nAllocator.synchronize = fail",
        "copying 4096 bytes to BAD failed: device BAD is lost",
    ),
}
BAD_BACKENDS = {
    "make": ("make_backend = fail", "failed to load: OSError: no luck"),
    "compile": ("Compiler.compile = fail", "building a kernel: OSError: no luck"),
    "load": ("make_program = lambda _: fail", "building a kernel: OSError: no luck"),
    "launch": ("make_program = with_call(fail)", "running a kernel: OSError: no luck"),
    "nothing": (
        "make_program = with_call(lambda *_: None)",
        "running a kernel: element 0 is -5, expected -8",
    ),
}
HANG = """
import subprocess, sys
def hang(*_):
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
Allocator.copy_in = hang
"""
TALK = """
import os, sys
print('{"step": "nonsense"}')
def fail(*_):
    sys.stderr.write("fatal: card 3 is on fire\\n")
    sys.stderr.flush()
    os._exit(1)
Allocator.allocate = fail
"""
ALL = {"allocators": ["BAD = MODULE:Allocator"], "compilers": ["BAD.x = MODULE:make_backend"]}


def report_of(name: str, limit_s: float | None = 60) -> DeviceReport:
    (report,) = report_devices(Registry(), [name], limit_s=limit_s)
    return report


@pytest.mark.parametrize("limit_s", [60, None])
def test_a_device_that_computes_works(install: Callable[..., str], limit_s: float | None) -> None:
    install("svod-good", WORKING, **ALL)
    report = report_of("BAD", limit_s)
    assert (report.problem, report.works) == (None, True)
    assert [(b.name, b.target, b.problem, b.is_default) for b in report.backends] == [
        ("x", "generic", None, True)
    ]


@pytest.mark.parametrize("name", BAD)
def test_a_failure_of_the_memory_is_reported_with_its_step(
    install: Callable[..., str], name: str
) -> None:
    text, problem = BAD[name]
    install("svod-bad", f"{WORKING}\n{RAISE}{text}", **ALL)
    report = report_of("BAD")
    assert report.problem is not None and problem in report.problem
    assert not report.works


@pytest.mark.parametrize("name", BAD_BACKENDS)
def test_a_failure_of_a_backend_is_reported_with_its_step(
    install: Callable[..., str], name: str
) -> None:
    text, problem = BAD_BACKENDS[name]
    install("svod-bad", f"{WORKING}\n{RAISE}{text}", **ALL)
    report = report_of("BAD")
    assert report.problem is None
    assert report.backends[0].problem is not None and problem in report.backends[0].problem
    assert not report.works


def test_a_device_that_hangs_is_reported_as_a_timeout(install: Callable[..., str]) -> None:
    install("svod-bad", WORKING + HANG, **ALL)
    report = report_of("BAD", limit_s=3)
    assert report.problem is not None and "timed out after 3 s" in report.problem
    assert not report.works


def test_the_last_line_of_a_crashed_plugin_s_output_is_reported(
    install: Callable[..., str],
) -> None:
    install("svod-bad", WORKING + TALK, **ALL)
    problem = "allocating 4096 bytes: the process exited with status 1: fatal: card 3 is on fire"
    assert report_of("BAD").problem == problem


def make_allocator(device: str) -> HostAllocator:
    return HostAllocator(device)


class Text:
    cache_key = "text"

    def render(self, linear: object, name: str) -> str:
        return name

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        raise OSError("first line\n\nsecond line")


def make_backend(device: str) -> Backend:
    return Backend(Text(), Text(), None, Target.generic())  # type: ignore[arg-type]


def test_the_report_lists_providers_and_problems(
    install: Callable[..., str],
) -> None:
    install("svod-broken", "import no_such_module", allocators=["BROKEN = MODULE:make"])
    install("svod-half", "", compilers=["HALF.x = MODULE:make"])
    module = install("svod-good", WORKING, **ALL)
    registry = Registry()
    registry.register(ALLOCATORS, "EMPTY", make_allocator, "fakery")
    registry.register(ALLOCATORS, "FAKE", make_allocator, "fakery")
    registry.register(COMPILERS, "FAKE.one", make_backend, "fakery")
    report = "\n".join(describe(report_devices(registry)))
    assert module
    assert report.startswith(f"svod-device, plugin interface {INTERFACE_VERSION}\n")
    assert (
        "BAD: memory by svod-good 1.0: works\n  BAD.x by svod-good 1.0 (target generic, the"
        " default): works\n" in report
    )
    assert (
        "EMPTY: memory by fakery: works\n  no backend: it stores data but cannot run kernels"
        in report
    )
    assert (
        "  FAKE.one by fakery (target generic, the default): does not work: building a kernel:"
        " OSError: first line\n      second line\n" in report
    )
    broken = "plugin 'BROKEN' of distribution 'svod-broken' failed to load: ModuleNotFoundError"
    assert f"BROKEN: memory by svod-broken 1.0: does not work: {broken}" in report
    assert "  hint: reinstall or uninstall svod-broken" in report
    half = (
        "HALF: no memory: does not work: no plugin provides an allocator\n  HALF.x by svod-half 1.0"
        " (the default): does not work"
    )
    assert half in report
    assert "DISK: memory by " in report


def test_a_device_kind_that_requires_a_location_is_not_tried_without_it(
    tmp_path: object,
) -> None:
    def make(device: str) -> HostAllocator:
        if ":" not in device:
            raise DeviceNameError(given=device, reason="FAR needs the address of a machine")
        return HostAllocator(device)

    registry = Registry()
    registry.register(ALLOCATORS, "FAR", make, "fakery")
    untried, tried, disk = report_devices(registry, ["FAR", "far:host:80", "DISK"])
    assert (untried.works, untried.problem) == (True, None)
    assert untried.untried == "invalid device name 'FAR': FAR needs the address of a machine"
    assert (tried.works, tried.untried) == (True, None)
    lines = list(describe([untried, tried, disk]))
    assert lines[1] == f"FAR: memory by fakery: not tried: {untried.untried}"
    assert lines[2] == "far:host:80: memory by fakery: works"
    assert lines[4].startswith("DISK: memory by svod-device")
    assert lines[4].endswith("not tried: invalid device name 'DISK': DISK needs a file path")


def test_the_report_has_the_state_of_each_backend(install: Callable[..., str]) -> None:
    module = install("svod-good", WORKING, **ALL)
    registry = Registry()
    registry.register(COMPILERS, "BAD.y", lambda device: 1 / 0, "other")  # type: ignore[arg-type, return-value]
    (report,) = report_devices(registry, ["BAD"], limit_s=60)
    assert report.works
    assert [(b.name, b.is_default, b.problem is None) for b in report.backends] == [
        ("x", True, True),
        ("y", False, False),
    ]
    provider = report.providers[0]
    assert (provider.version, provider.interface, provider.entry_point) == (
        "1.0",
        INTERFACE_VERSION,
        f"{module}:Allocator",
    )


def test_the_report_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["CPU"]) == 0
    assert "CPU: memory by " in capsys.readouterr().out


def test_the_report_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json", "CPU", "NOPE"])
    report = json.loads(capsys.readouterr().out)
    assert report["interface"] == INTERFACE_VERSION
    cpu, nope = report["devices"]
    assert (cpu["kind"], cpu["works"], cpu["problem"]) == ("CPU", True, None)
    assert cpu["providers"][0]["distribution"].startswith("svod")
    assert (nope["works"], nope["problem"]) == (False, "no plugin provides an allocator")


def test_the_exit_status_is_zero_if_all_devices_work(
    install: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    clear()
    try:
        assert main(["CPU", "DISK"]) == 0
        install("svod-broken", "import no_such_module", allocators=["BROKEN = MODULE:make"])
        clear()
        assert main([]) == 1
        assert "svod-broken" in capsys.readouterr().out
    finally:
        clear()
