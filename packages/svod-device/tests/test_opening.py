"""Openings of devices: reports of device loss, and uses after a loss, a close or a fork."""

from __future__ import annotations

import contextlib
import gc
import itertools
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from svod_device import (
    Backend,
    BatchItem,
    Buffer,
    CachingAllocator,
    CompiledSpec,
    DeviceLostError,
    Dims,
    HostAllocator,
    Launch,
    LoopingLauncher,
    Memory,
    Move,
    OutOfMemoryError,
    ProgramSpec,
    Registry,
    Repeat,
    TimedProgram,
    Word,
    copy_buffer,
)
from svod_device._registry import ALLOCATORS, COMPILERS
from svod_dtype import uint8
from svod_ir import Target
from svod_ir.testing import run_in_child


@dataclass
class Server:
    """Memory behind a connection. An unknown address ends the server."""

    blocks: dict[int, bytearray] = field(default_factory=dict[int, bytearray])
    is_gone: bool = False
    late_error: str = ""
    limit: int = 1 << 30
    closed: int = 0
    addresses: itertools.count[int] = field(default_factory=lambda: itertools.count(64, 1 << 20))

    def ask(self, address: int | None = None) -> bytearray:
        if self.is_gone:
            raise ConnectionResetError("peer closed the connection")
        if self.late_error:
            raise ValueError(self.late_error)
        if address is not None and address not in self.blocks:
            self.is_gone = True
            raise AssertionError("a stale address reached the server")
        return self.blocks.get(address or 0, bytearray())


class Remote:
    """Allocator that connects to the current server."""

    is_host_addressable = False
    is_writable = True
    server = Server()

    def __init__(self, device: str) -> None:
        self.device = device

    def allocate(self, nbytes: int) -> Memory:
        self.server.ask()
        if nbytes + sum(map(len, self.server.blocks.values())) > self.server.limit:
            raise MemoryError
        address = next(self.server.addresses)
        self.server.blocks[address] = bytearray(nbytes)
        return Memory(address, nbytes)

    def free(self, memory: Memory) -> None:
        with contextlib.suppress(Exception):
            self.server.ask(memory.address)
            del self.server.blocks[memory.address]

    def copy_in(self, address: int, source: memoryview) -> None:
        self.server.ask(address)[: source.nbytes] = source

    def copy_out(self, destination: memoryview, address: int) -> None:
        destination[:] = self.server.ask(address)[: destination.nbytes]

    def synchronize(self) -> None:
        self.server.ask()

    def close(self) -> None:
        self.server.ask()
        self.server.closed += 1


class RemoteProgram:
    """Program whose calls fail without buffers; so does `timed_call`."""

    entry = None

    def __init__(self, compiled: CompiledSpec) -> None:
        self.name = compiled.name
        Remote.server.ask()

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        if not buffers:
            raise TypeError("no buffers")
        for address in buffers:
            Remote.server.ask(address)

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        self(buffers, values, global_size, local_size)
        return 7


class RemoteCompiler:
    cache_key = "remote-1"

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        Remote.server.ask()
        return CompiledSpec.from_source(spec)


class RemoteLauncher:
    def make_table(self, launches: Sequence[Launch]) -> object:
        if not all(isinstance(launch.program, RemoteProgram) for launch in launches):
            raise ValueError("no program of this launcher")
        return list(launches)

    def run(self, table: object) -> None:
        assert isinstance(table, list)
        for launch in table:
            launch.program(launch.buffers, launch.values, launch.global_size, launch.local_size)


class Renderer:
    def render(self, linear: object, name: str) -> str:
        return name


def make_backend(device: str) -> Backend:
    return Backend(Renderer(), RemoteCompiler(), RemoteProgram, Target.generic(), RemoteLauncher())


@pytest.fixture
def registry() -> Iterator[Registry]:
    Remote.server = Server()
    registry = Registry([])
    registry.register(ALLOCATORS, "REMOTE", Remote)
    registry.register(COMPILERS, "REMOTE.x", make_backend)
    yield registry
    # Prevent buffers of this test from reaching the next test's server.
    Remote.server = Server()
    registry.clear()


SPEC = ProgramSpec("scale", "text", "REMOTE", globals=(0,), outs=(0,))
ONE: Dims = (1, 1, 1)


class Everything:
    """Buffer, program and table of one opening, and all operations on them."""

    def __init__(self, registry: Registry) -> None:
        self.device = registry.get_device("REMOTE")
        self.buffer = Buffer(self.device.allocator, uint8, 4)
        self.buffer.copyin(b"abcd")
        self.program = self.device.loader(self.device.compiler.compile(SPEC))
        addresses = array("Q", [self.buffer.address])
        launcher = self.device.launcher
        assert launcher is not None and isinstance(self.program, TimedProgram)
        table = launcher.make_table([Launch(self.program, addresses, array("q"), ONE, None, 0)])
        near = Buffer(HostAllocator(), uint8, 4)
        self.uses: dict[str, Callable[[], object]] = {
            "copying 4 bytes to REMOTE": lambda: self.buffer.copyin(b"efgh"),
            "copying 4 bytes from REMOTE": self.buffer.to_bytes,
            "allocating 8 bytes on REMOTE": (
                Buffer(self.device.allocator, uint8, 8).ensure_allocated
            ),
            "waiting for REMOTE": self.device.allocator.synchronize,
            "compiling kernel scale": lambda: self.device.compiler.compile(SPEC),
            "loading kernel scale": lambda: self.device.loader(CompiledSpec("scale", "text")),
            "launching kernel scale": lambda: self.program(addresses, (), ONE),
            "launching kernel scale ": lambda: self.program.timed_call(addresses, (), ONE),
            "launching kernels scale": lambda: launcher.run(table),
            "copying 4 bytes from REMOTE ": lambda: copy_buffer(near, self.buffer),
        }


USES = [
    "copying 4 bytes to REMOTE",
    "copying 4 bytes from REMOTE",
    "allocating 8 bytes on REMOTE",
    "waiting for REMOTE",
    "compiling kernel scale",
    "loading kernel scale",
    "launching kernel scale",
    "launching kernel scale ",
    "launching kernels scale",
    "copying 4 bytes from REMOTE ",
]


@pytest.mark.parametrize("use", USES)
def test_every_operation_on_a_lost_device_raises_device_lost_with_its_name(
    registry: Registry, use: str
) -> None:
    everything = Everything(registry)
    assert list(everything.uses) == USES
    Remote.server.is_gone = True
    with pytest.raises(DeviceLostError) as caught:
        everything.uses[use]()
    error = caught.value
    problem = "ConnectionResetError: peer closed the connection"
    assert (
        str(error)
        == f"{use.strip()} failed: device REMOTE is lost: {problem}\n  hint: its memory is lost:"
        " call svod_device.close_device('REMOTE') and create its tensors again"
    )
    assert (error.device, error.operation, error.problem) == ("REMOTE", use.strip(), problem)
    assert isinstance(error.__cause__, ConnectionResetError)
    # The new server fails on any address of the old one.
    Remote.server = Server()
    for operation, run in everything.uses.items():
        with pytest.raises(DeviceLostError) as caught:
            run()
        assert (caught.value.problem, caught.value.earlier) == (problem, use.strip()), operation
    with pytest.raises(
        DeviceLostError, match=r"^using a buffer of 4 bytes on REMOTE failed: device REMOTE is lost"
    ):
        _ = everything.buffer.address
    del everything
    gc.collect()
    assert not Remote.server.is_gone


def test_an_error_of_a_working_device_is_raised_unchanged(registry: Registry) -> None:
    everything = Everything(registry)
    with pytest.raises(TypeError, match="no buffers"):
        everything.program((), (), ONE)
    with pytest.raises(ValueError, match="no program of this launcher"):
        everything.device.launcher.make_table(
            [Launch(everything.device, array("Q"), array("q"), ONE, None, 0)]
        )
    assert everything.buffer.to_bytes() == b"abcd"


class LoopingRemoteLauncher(RemoteLauncher):
    runs_loops = True

    def make_table(self, launches: Sequence[BatchItem]) -> object:
        return list(launches)


def test_a_guarded_launcher_runs_loops_with_unguarded_programs(
    registry: Registry,
) -> None:
    looping = LoopingRemoteLauncher()
    registry.register(
        COMPILERS, "REMOTE.loops", lambda device: replace(make_backend(device), launcher=looping)
    )
    plain = registry.get_device("REMOTE").get_backend("x").launcher
    assert isinstance(plain, LoopingLauncher) and not plain.runs_loops
    backend = registry.get_device("REMOTE").get_backend("loops")
    launcher, program = backend.launcher, backend.loader(CompiledSpec("scale", "text"))
    assert isinstance(launcher, LoopingLauncher) and launcher.runs_loops
    addresses = array("Q", [0, 0])
    move = Move(Word(addresses, 0), Word(addresses, 1), 4, 1)
    body = (Launch(program, addresses, array("q"), ONE, None, 0), move)
    table = launcher.make_table([Repeat((Repeat(body, 0),), 0), body[0]])
    outer, launch = table.inner
    assert isinstance(launch.program, RemoteProgram)
    (inner,) = outer.body
    assert isinstance(inner.body[0].program, RemoteProgram) and inner.body[1] is move
    assert table.operation == "launching kernels scale, scale"


def test_an_asynchronous_error_is_raised_by_the_first_wait_and_every_later_call(
    registry: Registry,
) -> None:
    everything = Everything(registry)
    everything.uses["launching kernel scale"]()
    Remote.server.late_error = "kernel scale wrote past its buffer"
    with pytest.raises(
        DeviceLostError,
        match=r"^copying 4 bytes from REMOTE failed: device REMOTE is lost: ValueError: kernel",
    ):
        everything.buffer.to_bytes()
    Remote.server.late_error = ""
    for run in everything.uses.values():
        with pytest.raises(
            DeviceLostError, match="the loss was detected while copying 4 bytes from REMOTE"
        ):
            run()


def test_an_error_of_synchronize_is_a_loss_even_if_the_plugin_forgets_it(
    registry: Registry,
) -> None:
    everything = Everything(registry)
    Remote.server.late_error = "a fault"
    real = Remote.synchronize

    def fail_once(self: Remote) -> None:
        message, self.server.late_error = self.server.late_error, ""
        if message:
            raise ValueError(message)

    Remote.synchronize = fail_once  # type: ignore[method-assign]
    try:
        with pytest.raises(DeviceLostError, match="a fault"):
            everything.device.allocator.synchronize()
    finally:
        Remote.synchronize = real  # type: ignore[method-assign]
    with pytest.raises(DeviceLostError, match="a fault"):
        everything.buffer.to_bytes()


def test_the_problem_of_a_plugin_s_device_lost_error_is_kept(registry: Registry) -> None:
    everything = Everything(registry)
    cause = DeviceLostError(device="REMOTE", problem="error 43: fell off the bus")

    def fail(address: int, source: memoryview) -> None:
        raise cause

    everything.device.allocator.inner.copy_in = fail  # type: ignore[attr-defined]
    with pytest.raises(DeviceLostError) as caught:
        everything.buffer.copyin(b"1234")
    headline = "copying 4 bytes to REMOTE failed: device REMOTE is lost: error 43: fell off the bus"
    assert caught.value.headline == headline
    assert caught.value.__cause__ is cause


def test_a_reopened_device_rejects_buffers_of_the_lost_opening(
    registry: Registry,
) -> None:
    before = Everything(registry)
    Remote.server.is_gone = True
    with pytest.raises(DeviceLostError):
        before.buffer.to_bytes()
    Remote.server = Server()
    registry.close("remote:0")
    after = Everything(registry)
    assert after.device is not before.device
    assert after.device.opening != before.device.opening
    for run in after.uses.values():
        run()
    for run in before.uses.values():
        with pytest.raises(DeviceLostError):
            run()
    with pytest.raises(DeviceLostError):
        copy_buffer(after.buffer, before.buffer)
    del before
    gc.collect()
    assert not Remote.server.is_gone
    assert after.buffer.to_bytes() == b"efgh"


def test_closing_a_device_invalidates_its_buffers_and_calls_close_once(registry: Registry) -> None:
    for close in (lambda: registry.close("REMOTE"), registry.clear):
        registry.register(ALLOCATORS, "REMOTE", Remote)
        registry.register(COMPILERS, "REMOTE.x", make_backend)
        everything, server = Everything(registry), Remote.server
        n_closed = server.closed
        close()
        assert server.closed == n_closed + 1
        registry.close("REMOTE")
        with pytest.raises(
            DeviceLostError,
            match=r"^copying 4 bytes from REMOTE failed: device REMOTE is lost: it was closed",
        ):
            everything.buffer.to_bytes()
        del everything
        gc.collect()
        assert not server.is_gone


def test_errors_of_close_are_raised_unless_the_device_was_lost(
    registry: Registry,
) -> None:
    everything = Everything(registry)
    Remote.server.is_gone = True
    with pytest.raises(DeviceLostError):
        everything.buffer.to_bytes()
    registry.close("REMOTE")
    Remote.server = Server(late_error="busy")
    Remote.server.late_error = ""
    registry.get_allocator("REMOTE")
    Remote.server.late_error = "busy"
    with pytest.raises(ValueError, match="busy"):
        registry.close("REMOTE")


def test_memory_of_a_closed_cpu_device_remains_usable() -> None:
    registry = Registry()
    buffer = Buffer(registry.get_allocator("CPU"), uint8, 4)
    buffer.copyin(b"abcd")
    registry.close("CPU")
    assert buffer.to_bytes() == b"abcd"
    assert registry.get_allocator("CPU") is not buffer.allocator


def test_a_caching_allocator_forwards_close(registry: Registry) -> None:
    registry.register(ALLOCATORS, "CACHED", lambda name: CachingAllocator(Remote(name), 1 << 20))
    for _ in range(3):
        Buffer(registry.get_allocator("CACHED"), uint8, 100).ensure_allocated()
    assert len(Remote.server.blocks) == 1
    registry.close("CACHED")
    assert Remote.server.closed == 1


def test_a_forked_child_opens_the_device_again() -> None:
    import svod_device

    Remote.server = Server()
    svod_device.clear()
    svod_device.register_allocator("REMOTE", Remote)
    try:
        buffer = Buffer(svod_device.get_allocator("REMOTE"), uint8, 4)
        buffer.copyin(b"abcd")

        def use() -> bool:
            with pytest.raises(DeviceLostError, match="it was opened by the parent process"):
                buffer.to_bytes()
            own = Buffer(svod_device.get_allocator("REMOTE"), uint8, 4)
            own.copyin(b"efgh")
            return own.to_bytes() != b"efgh"

        assert run_in_child(use) == 0
        assert buffer.to_bytes() == b"abcd"
    finally:
        svod_device.clear()


def test_out_of_memory_collects_garbage_first_and_reports_the_usage(
    registry: Registry,
) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.buffer, self.me = (
                Buffer(registry.get_allocator("REMOTE"), uint8, 600).ensure_allocated(),
                self,
            )

    Remote.server.limit = 1000
    gc.disable()
    try:
        Cycle()
        assert len(Remote.server.blocks) == 1
        kept = Buffer(registry.get_allocator("REMOTE"), uint8, 700).ensure_allocated()
        assert len(Remote.server.blocks) == 1
    finally:
        gc.enable()
    with pytest.raises(
        OutOfMemoryError,
        match="out of memory on REMOTE: tried to allocate 400 bytes with 700 bytes in use",
    ):
        Buffer(registry.get_allocator("REMOTE"), uint8, 400).ensure_allocated()
    assert kept.to_bytes() == bytes(700)


def test_an_allocator_may_declare_its_device_exclusive(registry: Registry) -> None:
    class Exclusive(Remote):
        is_exclusive = True

    registry.register(ALLOCATORS, "ONLY", Exclusive)
    registry.register(ALLOCATORS, "CACHED", lambda name: CachingAllocator(Exclusive(name), 1 << 20))
    exclusive = [registry.get_device(name).is_exclusive for name in ("ONLY", "CACHED", "REMOTE")]
    assert exclusive == [True, True, False]
