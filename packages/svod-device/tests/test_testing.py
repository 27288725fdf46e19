"""Conformance suite: correct devices pass, faulty devices fail, and expected failures are strict."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from svod_device.testing import AllocatorConformance, Conformance, iter_kernels
from svod_ir import Op, Target
from svod_ir.evaluate import evaluate_linear

HEAD = """
from svod_device import HostAllocator, register_allocator
from svod_device.testing import AllocatorConformance, BufferConformance
"""
DEVICE = """
class {name}(HostAllocator):
    {body}

register_allocator("{name}", {name})

class Test{name}(AllocatorConformance, BufferConformance):
    device = "{name}"
    {options}
"""
SYNCHRONIZE = "test_synchronize_returns_with_and_without_work"
BAD = {
    "UNALIGNED": (
        (
            "def allocate(self, n): m = super().allocate(n + 8); return"
            " m._replace(address=m.address + 8)"
        ),
        "test_a_block_is_aligned_and_keeps_its_bytes[63]",
    ),
    "ROUNDED": (
        "def copy_out(self, to, at): super().copy_out(to, at & -64)",
        "test_an_address_plus_n_is_the_n_th_byte[7-3]",
    ),
    "BOUNDLESS": (
        "def allocate(self, n): return super().allocate(min(n, 1 << 24))",
        "test_a_block_that_no_machine_has_is_a_memory_error",
    ),
    "BUSY": ("def free(self, memory): raise OSError('busy')", "test_freed_memory_can_be_had_again"),
    "SHARED": (
        "block = HostAllocator().allocate(1 << 24)\n    def allocate(self, n): return self.block",
        "test_blocks_do_not_overlap",
    ),
}
OPT_OUT = f"expected_failures = {{{SYNCHRONIZE!r}: 'the driver hangs'}}"
CHECKED = "aligned or n_th or no_machine or had_again or overlap or synchronize or views_share"


pytestmark = pytest.mark.xdist_group("outcomes")  # they share a slow fixture


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Outcomes of the tests by class and name: of a correct device, of faulty devices, and of two
    devices with expected failures.
    """
    devices = [
        ("GOOD", "pass", "pass"),
        *((name, body, "pass") for name, (body, _) in BAD.items()),
        ("HANGING", "def synchronize(self): raise OSError", OPT_OUT),
        ("MENDED", "pass", OPT_OUT),
    ]
    directory = tmp_path_factory.mktemp("suite")
    parts = [
        DEVICE.format(name=name, body=body, options=options) for name, body, options in devices
    ]
    (directory / "test_mine.py").write_text("".join([HEAD, *parts]))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        "-k",
        CHECKED,
        ".",
    ]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    results = re.findall(r"::Test(\w+::\S+) (PASSED|FAILED|XFAIL)", done.stdout)
    assert results, done.stdout + done.stderr
    return dict(results)


def test_a_good_device_passes(outcomes: dict[str, str]) -> None:
    good = [outcome for name, outcome in outcomes.items() if name.startswith("GOOD::")]
    assert len(good) > 30 and set(good) == {"PASSED"}


@pytest.mark.parametrize("name", BAD)
def test_a_faulty_allocator_fails_the_test_of_its_fault(
    outcomes: dict[str, str], name: str
) -> None:
    assert outcomes[f"{name}::{BAD[name][1]}"] == "FAILED"


def test_an_opt_out_names_a_test_and_must_fail(outcomes: dict[str, str]) -> None:
    assert outcomes[f"HANGING::{SYNCHRONIZE}"] == "XFAIL"
    assert outcomes[f"MENDED::{SYNCHRONIZE}"] == "FAILED"
    with pytest.raises(TypeError, match="unknown test 'test_of_nothing'"):
        type("TestMine", (AllocatorConformance,), {"expected_failures": {"test_of_nothing": "?"}})
    assert issubclass(AllocatorConformance, Conformance)


WORKING = Path(__file__).with_name("working_device.py").read_text()
WRONG_DEVICE = """
import threading
import types
from svod_device import register_allocator, register_backend
from svod_device.testing import DeviceConformance

{body}

register_allocator("{name}", Allocator)
register_backend("{name}.x", make_backend)


class Test{name}(DeviceConformance):
    device = "{name}"
    limit_s = {limit_s}

    def break_device(self, allocator):
        allocator.is_broken = True
"""
FREED = "test_a_block_may_be_freed_while_a_launch_that_uses_it_is_queued"
FINALIZER = "test_a_finalizer_may_free_a_block_in_the_midst_of_any_call"
WAITING = "test_whoever_waits_for_a_device_that_failed_gets_an_error_each_time"
TIMED = "test_a_timed_call_runs_the_kernel_and_says_how_many_nanoseconds_it_took"
WRONG = {
    "LOCKED": (
        """
right_allocate, right_free, lock = Allocator.allocate, Allocator.free, threading.Lock()
def allocate(self, nbytes):
    with lock:
        return right_allocate(self, nbytes)
def free(self, memory):
    with lock:
        right_free(self, memory)
Allocator.allocate, Allocator.free = allocate, free
""",
        f"{FINALIZER}[allocate]",
        (
            "free, called by a finalizer during allocate, waits for a lock of allocate:"
            " timed out after 1 s"
        ),
    ),
    "SWALLOWING": (
        """
right_wait = Allocator.wait
def wait(self):
    try:
        right_wait(self)
    except DeviceLostError:
        self.problem = ""
Allocator.wait = wait
""",
        f"{WAITING}[synchronize]",
        "synchronize of a failed device returns: the launch error is swallowed",
    ),
    "FORGETTING": (
        """
right_wait = Allocator.wait
def wait(self):
    try:
        right_wait(self)
    finally:
        self.problem = ""
Allocator.wait = wait
""",
        f"{WAITING}[copy_in]",
        (
            "copy_in of a failed device returns, although it raised before: the launch"
            " error is swallowed"
        ),
    ),
    "GARBAGE": (
        """
right_copy = Allocator.copy_out
def copy_out(self, destination, address):
    try:
        right_copy(self, destination, address)
    except DeviceLostError:
        pass
Allocator.copy_out = copy_out
""",
        f"{WAITING}[copy_out]",
        "copy_out of a failed device returns: it read garbage",
    ),
    "NEGATIVE": (
        """
right_make = make_program
def make_program(allocator):
    program = right_make(allocator)
    right_call = program.timed_call
    program.timed_call = lambda self, *arguments: right_call(self, *arguments) - 12
    return program
""",
        TIMED,
        "timed_call returns -5, a negative time",
    ),
    "EAGER": (
        """
def free(self, memory):
    ctypes.memset(memory.address, 0xA5, memory.capacity)
Allocator.free = free
""",
        FREED,
        "a block was freed before a queued launch had read it",
    ),
}


class Tried(NamedTuple):
    """Result of a run of the suite: the outcomes of the tests by device, and the output."""

    outcomes: dict[str, dict[str, str]]
    output: str


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """Result of the suite in a child process, on a correct device and on devices with one fault."""
    directory = tmp_path_factory.mktemp("wrong")
    for name, body in {"RIGHT": "", **{name: text for name, (text, _, _) in WRONG.items()}}.items():
        text = WRONG_DEVICE.format(name=name, body=body, limit_s=1 if name == "LOCKED" else 60)
        (directory / f"test_{name.lower()}.py").write_text(WORKING + text)
    chosen = " or ".join((FREED, FINALIZER, TIMED, "device_that_failed"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        "-k",
        chosen,
        ".",
    ]
    # The timeout fails this fixture if a device that blocks stops the suite.
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=600
    )
    outcomes: dict[str, dict[str, str]] = {}
    for name, case, outcome in re.findall(
        r"::Test(\w+)::(\S+) (PASSED|FAILED|ERROR|SKIPPED)", done.stdout
    ):
        outcomes.setdefault(name, {})[case] = outcome
    return Tried(outcomes, done.stdout + done.stderr)


def test_a_correct_device_passes_all_tests(tried: Tried) -> None:
    assert len(tried.outcomes["RIGHT"]) == 13, tried.output
    assert set(tried.outcomes["RIGHT"].values()) == {"PASSED"}, tried.output


@pytest.mark.parametrize("name", WRONG)
def test_a_faulty_device_fails_the_test_of_its_fault(tried: Tried, name: str) -> None:
    _, case, message = WRONG[name]
    assert tried.outcomes[name][case] == "FAILED", tried.output
    assert message in tried.output


def test_a_device_that_blocks_fails_one_test_and_the_others_run(tried: Tried) -> None:
    assert set(tried.outcomes["LOCKED"]) == set(tried.outcomes["RIGHT"]), tried.output
    assert (
        "device LOCKED is lost: free, called by a finalizer during allocate, waits" in tried.output
    )


def test_kernels_follow_the_target() -> None:
    cpu = Target.generic(cores=1)
    gpu = Target(
        name="gpu",
        vector_bits=32,
        vector_registers=32,
        cores=1,
        l1_bytes=1,
        l2_bytes=1,
        l3_bytes=0,
        has_local=True,
        has_shared=True,
        shared_bytes=1 << 15,
        max_local=64,
        native_ops=cpu.native_ops | {Op.EXP2},
    )
    on_cpu, on_gpu = ({case.name for case in iter_kernels(target)} for target in (cpu, gpu))
    assert {"grid", "workgroup", "function_exp2"} <= on_gpu - on_cpu
    assert "vectors_float32" in on_cpu - on_gpu
    assert {"copy_bfloat16", "gates", "parallel"} <= on_cpu & on_gpu


SMALL = replace(
    Target.generic(cores=1),
    vector_bits=32,
    has_local=True,
    has_shared=True,
    shared_bytes=64,
    max_local=3,
    max_local_dims=(2, 2),
    max_global=(7, 2),
    max_buffers=6,
)


def test_kernels_stay_within_the_limits_of_a_small_target() -> None:
    cases = list(iter_kernels(SMALL))
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        sizes = {node.arg: node.src[0].arg for node in case.linear if node.op is Op.SPECIAL}
        for prefix, limits in (
            ("gidx", SMALL.max_global),
            ("idx", SMALL.max_global),
            ("lidx", SMALL.max_local_dims),
        ):
            dims = [sizes.get(f"{prefix}{axis}", 1) for axis in range(3)]
            assert all(size <= limit for size, limit in zip(dims, (*limits, 1), strict=True)), (
                case.name
            )
        assert math.prod(size for name, size in sizes.items() if name[0] == "l") <= SMALL.max_local
        assert sum(node.op is Op.PARAM for node in case.linear) <= 6, case.name


@pytest.mark.parametrize("target", [Target.generic(), SMALL], ids=["generic", "small"])
def test_every_kernel_has_reference_results(target: Target) -> None:
    for case in iter_kernels(target):
        params = [node for node in case.linear if node.op is Op.PARAM]
        assert [p.arg.slot for p in params] == sorted(p.arg.slot for p in params)
        for values in case.values:
            arrays = {p.arg.slot: bytearray(p.arg.size * p.dtype.itemsize) for p in params}
            evaluate_linear(
                case.linear,
                {p.arg.slot: np.frombuffer(arrays[p.arg.slot], p.dtype.numpy) for p in params},
                values,
            )
