"""The errors of svod-device.

UserError
├── UnknownDeviceError (LookupError)       no plugin provides this device kind
├── UnknownBackendError (LookupError)      the device has no backend, or none of this name
├── PluginLoadError (ImportError)          an installed plugin that cannot be loaded
├── PluginInterfaceError (ImportError)     a plugin for a different interface version
├── DuplicatePluginError (ValueError)      two distributions provide the same name
├── OutOfMemoryError (MemoryError)         an allocation that failed
├── DeviceLostError (RuntimeError)         a device that failed; its memory is lost
├── DiskError (OSError)                    a DISK file that cannot be mapped
├── ReadOnlyError (PermissionError)        a write to read-only memory
├── NotHostAddressableError (TypeError)    a host view of memory that the host cannot address
├── ViewError (ValueError)                 a view that is out of bounds or misaligned
├── SizeMismatchError (ValueError)         a copy between different sizes
└── LaunchSizeError (ValueError)           a launch size that cannot be evaluated or used
InternalError
├── ProgramStageError (ValueError)         a PROGRAM node with a missing or wrong stage
└── NotAllocatedError (RuntimeError)       the address of a buffer without memory
"""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import InternalError, SvodError, UserError

__all__ = [
    "DeviceLostError",
    "DiskError",
    "DuplicatePluginError",
    "LaunchSizeError",
    "NotAllocatedError",
    "NotHostAddressableError",
    "OutOfMemoryError",
    "PluginInterfaceError",
    "PluginLoadError",
    "ProgramStageError",
    "ReadOnlyError",
    "SizeMismatchError",
    "UnknownBackendError",
    "UnknownDeviceError",
    "ViewError",
]


class UnknownDeviceError(UserError, LookupError):
    """Unknown device kind: no installed plugin provides it."""

    def __init__(self, *, device: str, known: Sequence[str]) -> None:
        self.device, self.known = device, tuple(known)
        super().__init__(
            f"unknown device {device!r}: no installed plugin provides this kind",
            notes=(f"available devices: {', '.join(self.known) or 'none'}",),
            hint="install its plugin; `python -m svod_device` lists the installed plugins",
        )


class UnknownBackendError(UserError, LookupError):
    """Unknown backend, or a device without backends."""

    def __init__(self, *, device: str, backend: str | None, known: Sequence[str]) -> None:
        self.device, self.backend, self.known = device, backend, tuple(known)
        if not self.known:
            super().__init__(
                f"device {device!r} has no backend: it stores data but cannot run kernels",
                hint='copy the data to a device with a backend, as in x.to("CPU")',
            )
            return
        super().__init__(
            f"device {device!r} has no backend {backend!r}",
            notes=(f"available backends: {', '.join(self.known)}",),
            hint=f"set SVOD_{device.partition(':')[0].upper()}_BACKEND={self.known[0]}",
        )


class PluginLoadError(UserError, ImportError):
    """Installed plugin that failed to load. It keeps the notes and hint of the original error."""

    def __init__(self, *, name: str, distribution: str, value: str, cause: BaseException) -> None:
        self.plugin, self.distribution, self.cause = name, distribution, cause
        known = cause if isinstance(cause, SvodError) else None
        problem = known.headline if known is not None else str(cause)
        super().__init__(
            f"plugin {name!r} of distribution {distribution!r} failed to load:"
            f" {type(cause).__name__}: {problem}",
            notes=(*(known.notes if known is not None else ()), f"entry point: {value}"),
            hint=(known.hint if known is not None else None)
            or f"reinstall or uninstall {distribution}",
        )


class PluginInterfaceError(UserError, ImportError):
    """Plugin for a different version of the plugin interface. `declared` is None if the plugin
    declares no version.
    """

    def __init__(
        self, *, name: str, distribution: str, version: str, declared: int | None, expected: int
    ) -> None:
        self.plugin, self.distribution, self.version = name, distribution, version
        self.declared, self.expected = declared, expected
        owner = " ".join(filter(None, (distribution, version)))
        if declared is None:
            super().__init__(
                f"plugin {name!r} of {owner} declares no version of the plugin interface;"
                f" svod-device has version {expected}",
                notes=(
                    (
                        'required entry point: group "svod.interface", version ='
                        f' "svod_device.interface:v{expected}"'
                    ),
                ),
                hint=(
                    f"install a release of {distribution} that declares it; plugin authors:"
                    " see `docs/new-device.md`"
                ),
            )
            return
        super().__init__(
            f"plugin {name!r} of {owner} is written for version {declared} of the plugin interface;"
            f" svod-device has version {expected}",
            hint=f"upgrade {'svod-device' if declared > expected else distribution}",
        )


class DuplicatePluginError(UserError, ValueError):
    """Plugin name that two distributions provide."""

    def __init__(self, *, name: str, providers: Sequence[str]) -> None:
        self.plugin, self.providers = name, tuple(providers)
        super().__init__(
            f"plugin {name!r} is provided twice: by {' and by '.join(self.providers)}",
            hint="uninstall one of them",
        )


class OutOfMemoryError(UserError, MemoryError):
    """Failed allocation: no block of this size, even after the cache was emptied."""

    def __init__(self, *, device: str, nbytes: int, in_use: int, released: int = 0) -> None:
        self.device, self.nbytes, self.in_use, self.released = device, nbytes, in_use, released
        super().__init__(
            f"out of memory on {device}: tried to allocate {_show_bytes(nbytes)} with"
            f" {_show_bytes(in_use)} in use",
            notes=(f"{_show_bytes(released)} of cached blocks were released before the retry",)
            * bool(released),
            hint="delete unused tensors and plans, or reduce the size of the largest tensors",
        )


class DeviceLostError(UserError, RuntimeError):
    """Device that failed or was closed. Its memory is lost, and every use raises this error.

    A plugin raises it with `device` and `problem`. svod adds the current `operation` and, if the
    loss was detected before, the operation that detected it, `earlier`.
    """

    def __init__(
        self, *, device: str, problem: str, operation: str | None = None, earlier: str | None = None
    ) -> None:
        self.device, self.problem, self.operation, self.earlier = (
            device,
            problem,
            operation,
            earlier,
        )
        context = "" if operation is None else f"{operation} failed: "
        super().__init__(
            f"{context}device {device} is lost: {problem}",
            notes=() if earlier is None else (f"the loss was detected while {earlier}",),
            hint=(
                f"its memory is lost: call svod_device.close_device({device!r}) and create its"
                " tensors again"
            ),
        )


class DiskError(UserError, OSError):
    """File that a DISK buffer cannot map."""

    def __init__(self, *, path: str, problem: str, hint: str | None = None) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"DISK:{path}: {problem}", hint=hint)


class ReadOnlyError(UserError, PermissionError):
    """Write to read-only memory."""

    def __init__(self, *, device: str) -> None:
        self.device = device
        super().__init__(
            f"memory of {device} is read-only", hint='copy it first, as in x.to("CPU")'
        )


class NotHostAddressableError(UserError, TypeError):
    """Host view of memory that the host cannot address."""

    def __init__(self, *, device: str) -> None:
        self.device = device
        super().__init__(
            f"memory of {device} is not addressable by the host",
            hint="read it with copyout, or copy it to CPU",
        )


class ViewError(UserError, ValueError):
    """View that is out of bounds or misaligned."""

    def __init__(
        self, *, offset: int, nbytes: int, base_nbytes: int, problem: str | None = None
    ) -> None:
        self.offset, self.nbytes, self.base_nbytes = offset, nbytes, base_nbytes
        super().__init__(
            f"view of {nbytes} bytes at offset {offset} "
            + (problem or f"is out of bounds for a buffer of {base_nbytes} bytes")
        )


class SizeMismatchError(UserError, ValueError):
    """Copy between different sizes in bytes."""

    def __init__(self, *, operation: str, expected: int, found: int) -> None:
        self.expected, self.found = expected, found
        super().__init__(
            f"{operation}: sizes differ: the buffer has {expected} bytes, got {found} bytes"
        )


class LaunchSizeError(UserError, ValueError):
    """Launch size that cannot be evaluated, or is not positive."""

    def __init__(self, *, expression: str, problem: str) -> None:
        self.expression, self.problem = expression, problem
        super().__init__(f"launch size {expression}: {problem}")


class ProgramStageError(InternalError, ValueError):
    """PROGRAM node with a missing or wrong stage."""

    def __init__(self, *, stage: str, expected: str, found: str) -> None:
        self.stage, self.expected, self.found = stage, expected, found
        super().__init__(f"stage {stage} of a PROGRAM must be {expected}, found {found}")


class NotAllocatedError(InternalError, RuntimeError):
    """Access to the address of a buffer without memory."""

    def __init__(self, *, device: str, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        super().__init__(
            f"buffer of {nbytes} bytes on {device} has no memory yet",
            hint="call ensure_allocated() first",
        )


def _show_bytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n} bytes ({n / size:.1f} {unit})"
    return f"{n} bytes"
