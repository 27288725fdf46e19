"""Typed interface to llvmlite, initialized once, and callable from several threads at a time.

llvmlite serializes all calls into LLVM by one process-wide lock, although LLVM itself is thread-safe
as long as two threads do not share a context.  The four slow calls (parse, verify, run passes, emit)
skip that lock inside `unlocked()`, and only for the thread that entered it, so that other users of
llvmlite in the process keep their guarantee.  The lock is a private attribute; if it is not found,
compilation is serial.

A fork waits until no thread is inside LLVM: otherwise that lock, or LLVM's own, could never be
acquired in the child."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from svod_ir.forks import delaying_forks, hold_across_fork

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from svod_ir.forks import Lock

__all__ = [
    "Binding",
    "Context",
    "HostFeatures",
    "Jit",
    "LibraryBuilder",
    "LinkedLibrary",
    "Module",
    "PassManager",
    "TargetMachine",
    "can_run_unlocked",
    "load_binding",
    "unlocked",
]

# Two compilations of 180 ms in two threads take 360 ms with the lock and 170 without.
_LONG_CALLS: Final = (
    "LLVMPY_ParseAssembly",
    "LLVMPY_VerifyModule",
    "LLVMPY_RunNewModulePassManager",
    "LLVMPY_TargetMachineEmitToMemory",
)


class _Closeable(Protocol):
    def close(self) -> None: ...


class Context(_Closeable, Protocol):
    """Owner of the types and constants of its modules; must not be shared by two threads."""


class Module(_Closeable, Protocol):
    """A parsed IR module."""

    data_layout: str
    triple: str

    def verify(self) -> None: ...


class PassManager(_Closeable, Protocol):
    """A pipeline of module passes of the new pass manager."""

    def add_sroa_pass(self) -> None: ...
    def run(self, IR: Module, pb: _Closeable) -> None: ...


class TargetMachine(_Closeable, Protocol):
    """A code generator for one CPU."""

    @property
    def target_data(self) -> object: ...
    @property
    def triple(self) -> str: ...
    def emit_object(self, module: Module) -> bytes: ...
    def emit_assembly(self, module: Module) -> str: ...


class HostFeatures(Protocol):
    """The host's CPU features by LLVM's names."""

    def flatten(self) -> str: ...
    def items(self) -> list[tuple[str, bool]]: ...


class LinkedLibrary(Protocol):
    """Linked code, which is unmapped when this object is deleted."""

    def __getitem__(self, item: str) -> int: ...


class Jit(Protocol):
    """An ORC linker and its memory."""


class LibraryBuilder(Protocol):
    """Collector of objects and symbols to link."""

    def add_object_img(self, data: bytes) -> LibraryBuilder: ...
    def add_current_process(self) -> LibraryBuilder: ...
    def import_symbol(self, name: str, address: int) -> LibraryBuilder: ...
    def export_symbol(self, name: str) -> LibraryBuilder: ...
    def link(self, lljit: Jit, library_name: str) -> LinkedLibrary: ...


class _Target(Protocol):
    def create_target_machine(
        self, *, cpu: str, features: str, opt: int, reloc: str, codemodel: str, jit: bool
    ) -> TargetMachine: ...


class _TargetFactory(Protocol):
    def from_triple(self, triple: str) -> _Target: ...


class Binding(Protocol):
    """`llvmlite.binding`, as far as svod uses it."""

    Target: _TargetFactory
    llvm_version_info: tuple[int, int, int]

    def JITLibraryBuilder(self) -> LibraryBuilder: ...
    def create_context(self) -> Context: ...
    def create_lljit_compiler(
        self, target_machine: TargetMachine | None, *, use_jit_link: bool, suppress_errors: bool
    ) -> Jit: ...
    def create_new_module_pass_manager(self) -> PassManager: ...
    def create_pass_builder(self, tm: TargetMachine, pto: _Closeable) -> _Closeable: ...
    def create_pipeline_tuning_options(self, speed_level: int) -> _Closeable: ...
    def get_host_cpu_features(self) -> HostFeatures: ...
    def get_host_cpu_name(self) -> str: ...
    def get_process_triple(self) -> str: ...
    def initialize_native_asmparser(self) -> None: ...
    def initialize_native_asmprinter(self) -> None: ...
    def initialize_native_target(self) -> None: ...
    def parse_assembly(self, llvmir: str, context: Context) -> Module: ...


class _LockManager(Protocol):
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class _ReentrantLockManager(_LockManager, Protocol):
    _lock: Lock


class _LockedFunction(Protocol):
    _lock: _LockManager


class _LockedLibrary(Protocol):
    _lock: _ReentrantLockManager


_thread = threading.local()


class _SkippableLock:
    """llvmlite's lock, except for a thread inside `unlocked()`."""

    __slots__ = ("_lock",)

    def __init__(self, lock: _LockManager) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not getattr(_thread, "unlocked", False):
            self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not getattr(_thread, "unlocked", False):
            self._lock.__exit__(kind, error, trace)


def load_binding() -> Binding:
    """Import llvmlite and initialize it for the host, once per process."""
    return _load()[0]


def can_run_unlocked() -> bool:
    """Whether `unlocked()` has an effect with the installed llvmlite."""
    return _load()[1]


@contextmanager
def unlocked() -> Generator[None]:
    """Allow this thread's slow LLVM calls to run in parallel with other threads.

    Contexts, modules and target machines used inside must not be shared with other threads.
    """
    load_binding()
    # Restored, not cleared: the block may be entered again inside itself.
    was_unlocked = getattr(_thread, "unlocked", False)
    with delaying_forks():
        _thread.unlocked = True
        try:
            yield
        finally:
            _thread.unlocked = was_unlocked


@cache
def _load() -> tuple[Binding, bool]:
    binding = cast("Binding", import_module("llvmlite.binding"))
    _hold_lock_across_fork()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    # Without a parser, LLVM aborts the process on inline assembly.
    binding.initialize_native_asmparser()
    return binding, _make_locks_skippable()


def _hold_lock_across_fork() -> None:
    library = cast("_LockedLibrary", import_module("llvmlite.binding.ffi").lib)
    with suppress(AttributeError):
        hold_across_fork(library._lock._lock)  # pyright: ignore[reportPrivateUsage]


def _make_locks_skippable() -> bool:
    # All of them are found before one is changed: another llvmlite is left as it is.
    library = import_module("llvmlite.binding.ffi").lib
    try:
        functions = [cast("_LockedFunction", getattr(library, name)) for name in _LONG_CALLS]
        locks = [function._lock for function in functions]  # pyright: ignore[reportPrivateUsage]
        for function, lock in zip(functions, locks, strict=True):
            function._lock = _SkippableLock(lock)  # pyright: ignore[reportPrivateUsage]
    except AttributeError:
        return False
    return True
