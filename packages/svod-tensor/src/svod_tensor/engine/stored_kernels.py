"""Disk cache of kernels: a kernel that an earlier process compiled needs no passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_codegen.kernel_store import describe_target, fingerprint_code, get_kernel_store

if TYPE_CHECKING:
    from svod_codegen.kernel_store import StoredKernel
    from svod_device import CompiledSpec, Device, ProgramSpec
    from svod_ir import IROptions
    from svod_tensor.engine.caches import KernelKey

__all__ = [
    "claim_kernel",
    "find_stored_kernel",
    "reject_stored_kernel",
    "release_kernel",
    "store_kernel",
    "wait_for_kernel",
]


def find_stored_kernel(key: KernelKey, device: Device, options: IROptions) -> StoredKernel | None:
    """The kernel that an earlier process stored under `key`; None also if an observer must see the
    passes run.
    """
    if options.needs_passes:
        return None
    return get_kernel_store().find(_make_parts(key, device))


def reject_stored_kernel(key: KernelKey, device: Device) -> None:
    """Remove a stored kernel that the device's loader refuses."""
    get_kernel_store().reject(_make_parts(key, device))


def store_kernel(key: KernelKey, device: Device, spec: ProgramSpec, compiled: CompiledSpec) -> None:
    """Store a compiled kernel for later processes."""
    get_kernel_store().add(_make_parts(key, device), spec, compiled)


def claim_kernel(key: KernelKey, device: Device) -> bool:
    """Claim the compilation of a kernel; False if another process compiles it, or has stored it."""
    return get_kernel_store().claim(_make_parts(key, device))


def wait_for_kernel(key: KernelKey, device: Device) -> bool:
    """Wait while another process compiles a kernel; False if it takes more than 20 s."""
    return get_kernel_store().wait(_make_parts(key, device))


def release_kernel(key: KernelKey, device: Device) -> None:
    """Release a claim."""
    get_kernel_store().release(_make_parts(key, device))


def _make_parts(key: KernelKey, device: Device) -> tuple[str, ...]:
    """Everything that a kernel depends on. A plugin's renderer counts as code of the compiler."""
    renderer_package = type(device.renderer).__module__.partition(".")[0]
    # A part that is missing here would let a process load a kernel for another target.
    return (
        key.ast_hash,
        key.device,
        key.compiler,
        key.config,
        describe_target(device.target),
        fingerprint_code(renderer_package),
    )
