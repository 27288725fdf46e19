"""Store of whole kernels on disk: from the hash of a kernel's graph to its launch data and its code.

The store of objects saves the compiler's work; this one also saves all earlier steps, so that a
second process neither optimizes, lowers nor renders the kernels that an earlier one prepared.  An
entry is valid for an equal graph, device, compiler and target, and for the same source code of svod:
`fingerprint_code` identifies the state of its files, including changes in a working tree.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from svod_codegen.disk_store import DiskStore
    >>> from svod_codegen.kernel_store import KernelStore, StoredKernel, decode_kernel, encode_kernel, get_kernel_store
    >>> from svod_device import CompiledSpec, ProgramSpec
    >>> spec = ProgramSpec("double", "double(x) ...", "CPU", globals=(0, 1), outs=(0,), ins=(1,))
    >>> compiled = CompiledSpec.from_bytes(spec, b"machine code")
    >>> decode_kernel(encode_kernel(spec, compiled)) == StoredKernel(spec, compiled)
    True
    >>> from svod_codegen.kernel_store import describe_target, fingerprint_code
    >>> from svod_ir import Target
    >>> key = ["hash of a graph", describe_target(Target.generic(cores=1)), fingerprint_code()]
    >>> store = KernelStore(DiskStore(Path(tempfile.mkdtemp()) / "svod", kind="kernels", max_bytes=1 << 20))
    >>> store.claim(key)  # otherwise another process compiles it
    True
    >>> store.add(key, spec, compiled)
    >>> store.release(key)
    >>> store.wait(key)  # until the process that compiles it is done
    True
    >>> store.find(key).compiled.binary, store.find(["hash of another graph", *key[1:]])
    (b'machine code', None)
    >>> isinstance(get_kernel_store(), KernelStore)
    True
    >>> store.reject(key)  # it could not be loaded
    >>> store.find(key) is None
    True
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, cast

from svod_codegen.disk_store import DiskStore, get_disk_store, make_key
from svod_codegen.options import CodegenOptions
from svod_device import CompiledSpec, ProgramSpec, Variable
from svod_dtype import LOADED_AT_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from svod_device import LaunchSizes
    from svod_ir import Target

__all__ = [
    "KernelStore",
    "StoredKernel",
    "decode_kernel",
    "describe_target",
    "encode_kernel",
    "fingerprint_code",
    "get_kernel_store",
]

_LENGTH_BYTES: Final = 4
# All distributions whose code takes part in compiling a kernel or in its launch data.
_COMPILER_PACKAGES: Final = (
    "svod_dtype",
    "svod_ir",
    "svod_schedule",
    "svod_codegen",
    "svod_device",
)


class StoredKernel(NamedTuple):
    """A kernel as needed by its launches and its loader, without its graph."""

    spec: ProgramSpec
    compiled: CompiledSpec


class KernelStore:
    """Map from the inputs of a kernel's preparation to the kernel; thread-safe."""

    def __init__(self, store: DiskStore) -> None:
        self.store = store

    def find(self, key: Sequence[str]) -> StoredKernel | None:
        """Find the kernel stored under `key`, or None."""
        name = make_key(*key)
        data = self.store.get(name)
        if data is None:
            return None
        try:
            return decode_kernel(data)
        except (ValueError, KeyError, TypeError):
            # A valid entry that is no kernel: another program wrote it.
            self.store.reject(name)
            return None

    def claim(self, key: Sequence[str]) -> bool:
        """Claim the compilation of a kernel for this process; False if another process compiles it
        now, or has stored it.
        """
        return self.store.claim(make_key(*key))

    def wait(self, key: Sequence[str]) -> bool:
        """Wait while another process compiles a kernel; False if it takes more than 20 s."""
        return self.store.wait(make_key(*key))

    def release(self, key: Sequence[str]) -> None:
        """Release a claim."""
        self.store.release(make_key(*key))

    def reject(self, key: Sequence[str]) -> None:
        """Remove a kernel that `find` returned and that cannot be loaded."""
        self.store.reject(make_key(*key))

    def add(self, key: Sequence[str], spec: ProgramSpec, compiled: CompiledSpec) -> None:
        """Store a compiled kernel and its spec under `key`, unless its launch sizes depend on
        variables: expressions cannot be stored.
        """
        data = encode_kernel(spec, compiled)
        if data:
            self.store.put(make_key(*key), data)


@cache
def get_kernel_store() -> KernelStore:
    """Return the process's store, in the folder `kernels` of the disk cache (`SVOD_CACHE_DIR`).

    The store is empty and does not access the disk if `SVOD_KERNEL_STORE` turns it off.
    """
    is_enabled = CodegenOptions.from_env().use_kernel_store
    return KernelStore(
        get_disk_store("kernels") if is_enabled else DiskStore(Path(), kind="kernels", max_bytes=0)
    )


def describe_target(target: Target) -> str:
    """Format all fields of a target, equally in every process."""
    entries: list[str] = []
    for field in fields(target):
        value: object = getattr(target, field.name)
        # The iteration order of sets differs between processes.
        text = (
            sorted(map(str, cast("frozenset[object]", value)))
            if isinstance(value, frozenset)
            else repr(value)
        )
        entries.append(f"{field.name}={text}")
    return ";".join(entries)


@cache
def fingerprint_code(*packages: str) -> str:
    """Identify the state of the source files of the compiler and of further `packages`, by sizes and
    modification times.

    If a file changed after this process loaded svod, the state that runs here is unknown, so the
    fingerprint is unique."""
    # Files are only listed, which takes about a millisecond; reading them all
    # would take many times as long.
    names = sorted({*_COMPILER_PACKAGES, *packages})
    states = [state for name in names for state in _iter_file_states(name)]
    is_known = all(state.changed_ns <= LOADED_AT_NS for state in states)
    return make_key(*map(repr, states), *(() if is_known else (os.urandom(16),)))


class _FileState(NamedTuple):
    path: str
    size_bytes: int = 0
    changed_ns: int = 0


def _iter_file_states(package: str) -> Iterator[_FileState]:
    # Found without an import, which would load packages that the process does not need.
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield _FileState(root)
        yield from _iter_directory(root)


def _iter_directory(path: str) -> Iterator[_FileState]:
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield _FileState(entry.path, status.st_size, status.st_mtime_ns)
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _iter_directory(entry.path)


class _Header(TypedDict):
    """Fields of an entry besides the source and the code."""

    name: str
    device: str
    variables: list[tuple[str, int, int]]
    var_names: list[str]
    globals: list[int]
    outs: list[int]
    ins: list[int]
    global_size: tuple[int, int, int]
    local_size: tuple[int, int, int] | None
    n_operations: int
    n_bytes: int
    reasons: list[str]
    is_source_compiled: bool
    source_bytes: int


def _make_header(spec: ProgramSpec, compiled: CompiledSpec) -> _Header | None:
    global_size, local_size = _find_constant(spec.global_size), _find_constant(spec.local_size)
    # Sizes that depend on variables are expressions, which JSON does not hold.
    if global_size is None or (local_size is None and spec.local_size is not None):
        return None
    return _Header(
        name=spec.name,
        device=spec.device,
        variables=[(v.name, v.min, v.max) for v in spec.variables],
        var_names=list(spec.var_names),
        globals=list(spec.globals),
        outs=list(spec.outs),
        ins=list(spec.ins),
        global_size=global_size,
        local_size=local_size,
        n_operations=spec.n_operations,
        n_bytes=spec.n_bytes,
        reasons=list(spec.reasons),
        is_source_compiled=compiled.source is not None,
        source_bytes=len(spec.source.encode()),
    )


def _find_constant(sizes: LaunchSizes | None) -> tuple[int, int, int] | None:
    if sizes is None:
        return None
    x, y, z = sizes
    return (x, y, z) if isinstance(x, int) and isinstance(y, int) and isinstance(z, int) else None


def encode_kernel(spec: ProgramSpec, compiled: CompiledSpec) -> bytes:
    """Serialize a kernel, for the disk and for other processes; empty if its launch sizes depend on
    variables.
    """
    header = _make_header(spec, compiled)
    if header is None:
        return b""
    # Source and code follow the header as they are: in JSON, the code would need an encoding and a
    # third more bytes.
    text = json.dumps(header).encode()
    return (
        len(text).to_bytes(_LENGTH_BYTES, "little") + text + spec.source.encode() + compiled.binary
    )


def decode_kernel(data: bytes) -> StoredKernel:
    """Deserialize a kernel that `encode_kernel` wrote.

    Raises:
        ValueError, KeyError, TypeError: if the data is not of this form.
    """
    source_at = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = cast("_Header", json.loads(data[_LENGTH_BYTES:source_at]))
    binary_at = source_at + header["source_bytes"]
    spec = ProgramSpec(
        header["name"],
        data[source_at:binary_at].decode(),
        header["device"],
        variables=tuple(Variable(*variable) for variable in header["variables"]),
        var_names=tuple(header["var_names"]),
        globals=tuple(header["globals"]),
        outs=tuple(header["outs"]),
        ins=tuple(header["ins"]),
        global_size=_make_sizes(header["global_size"]),
        local_size=None if header["local_size"] is None else _make_sizes(header["local_size"]),
        n_operations=header["n_operations"],
        n_bytes=header["n_bytes"],
        reasons=tuple(header["reasons"]),
    )
    if header["is_source_compiled"]:
        return StoredKernel(spec, CompiledSpec.from_source(spec))
    return StoredKernel(spec, CompiledSpec.from_bytes(spec, data[binary_at:]))


def _make_sizes(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = sizes  # JSON has lists only
    return x, y, z
