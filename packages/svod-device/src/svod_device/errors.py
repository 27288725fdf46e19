"""The errors of svod-device.

UserError
├── UnknownDeviceError (LookupError)       nothing provides a device of this kind
├── UnknownBackendError (LookupError)      the device has no backend of this name, or none at all
├── PluginLoadError (ImportError)          the plugin that provides it does not work
├── PluginInterfaceError (ImportError)     it is written for another version of the plugin interface
├── DuplicatePluginError (ValueError)      two distributions provide the same name
├── OutOfMemoryError (MemoryError)
├── DeviceLostError (RuntimeError)         a device that failed, so that all that it held is gone
├── DiskError (OSError)                    a DISK file that cannot be mapped
├── ReadOnlyError (PermissionError)        a write to memory that is only read
├── NotHostAddressableError (TypeError)    a host view of memory that the host cannot address
├── ViewError (ValueError)                 a view that its base does not hold
├── SizeMismatchError (ValueError)         a copy between different sizes
└── LaunchSizeError (ValueError)           a launch size that has no value or no usable value
InternalError
├── ProgramStageError (ValueError)         a PROGRAM node that lacks a stage or has a wrong one
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
    """A device kind that nothing provides."""

    def __init__(self, *, device: str, known: Sequence[str]) -> None:
        self.device, self.known = device, tuple(known)
        super().__init__(
            f"no device {device!r}: nothing provides its kind",
            notes=(f"devices that are there: {', '.join(self.known) or 'none'}",),
            hint=(
                "install the plugin that provides it; `python -m svod_device` lists what is"
                " installed"
            ),
        )


class UnknownBackendError(UserError, LookupError):
    """A backend that a device does not have."""

    def __init__(self, *, device: str, backend: str | None, known: Sequence[str]) -> None:
        self.device, self.backend, self.known = device, backend, tuple(known)
        if not self.known:
            super().__init__(
                f"device {device!r} runs no kernels: no compiler is registered for it",
                hint='copy the data to a device that computes, as in x.to("CPU")',
            )
            return
        super().__init__(
            f"device {device!r} has no backend {backend!r}",
            notes=(f"backends that are there: {', '.join(self.known)}",),
            hint=f"set SVOD_{device.partition(':')[0].upper()}_BACKEND={self.known[0]}",
        )


class PluginLoadError(UserError, ImportError):
    """A plugin that is installed but does not work; what its own error says of it is kept."""

    def __init__(self, *, name: str, distribution: str, value: str, cause: BaseException) -> None:
        self.plugin, self.distribution, self.cause = name, distribution, cause
        known = cause if isinstance(cause, SvodError) else None
        problem = known.headline if known is not None else str(cause)
        super().__init__(
            f"plugin {name!r} of distribution {distribution!r} does not work:"
            f" {type(cause).__name__}: {problem}",
            notes=(*(known.notes if known is not None else ()), f"entry point: {value}"),
            hint=(known.hint if known is not None else None)
            or f"reinstall or uninstall {distribution}",
        )


class PluginInterfaceError(UserError, ImportError):
    """A plugin for another version of the plugin interface; `declared` is None where it declares
    none.
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
                        'entry point that declares it: group "svod.interface", version ='
                        f' "svod_device.interface:v{expected}"'
                    ),
                ),
                hint=(
                    f"install a {distribution} that declares it; `docs/new-device.md` tells plugin"
                    " authors how"
                ),
            )
            return
        super().__init__(
            f"plugin {name!r} of {owner} is written for version {declared} of the plugin interface;"
            f" svod-device has version {expected}",
            hint=f"upgrade {'svod-device' if declared > expected else distribution}",
        )


class DuplicatePluginError(UserError, ValueError):
    """One name that two distributions provide."""

    def __init__(self, *, name: str, providers: Sequence[str]) -> None:
        self.plugin, self.providers = name, tuple(providers)
        super().__init__(
            f"plugin {name!r} is provided twice: by {' and by '.join(self.providers)}",
            hint="uninstall one of them",
        )


class OutOfMemoryError(UserError, MemoryError):
    """No block of the size that was asked for, also after the cache was emptied."""

    def __init__(self, *, device: str, nbytes: int, in_use: int, released: int = 0) -> None:
        self.device, self.nbytes, self.in_use, self.released = device, nbytes, in_use, released
        super().__init__(
            f"out of memory on {device}: asked for {_show_bytes(nbytes)} with {_show_bytes(in_use)}"
            " in use",
            notes=(
                (
                    f"{_show_bytes(released)} of cached blocks were released first, which was not"
                    " enough"
                ),
            )
            * bool(released),
            hint=(
                "release tensors and plans that are no longer needed, or make the largest tensors"
                " smaller"
            ),
        )


class DeviceLostError(UserError, RuntimeError):
    """A device that failed, or was closed: what it held is gone, and every use of it fails in this
    way.

    A plugin raises it with `device` and `problem`. svod says what was being done, `operation`, and,
    where the loss was noticed before, what that was at that time, `earlier`."""

    def __init__(
        self, *, device: str, problem: str, operation: str | None = None, earlier: str | None = None
    ) -> None:
        self.device, self.problem, self.operation, self.earlier = (
            device,
            problem,
            operation,
            earlier,
        )
        failed = "" if operation is None else f"{operation} failed: "
        super().__init__(
            f"{failed}device {device} is lost: {problem}",
            notes=() if earlier is None else (f"it was lost before, while {earlier}",),
            hint=(
                f"what it held is gone: call svod_device.close_device({device!r}), and make its"
                " tensors anew"
            ),
        )


class DiskError(UserError, OSError):
    """A file that a DISK buffer cannot map."""

    def __init__(self, *, path: str, problem: str, hint: str | None = None) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"DISK:{path}: {problem}", hint=hint)


class ReadOnlyError(UserError, PermissionError):
    """A write to memory that is only read."""

    def __init__(self, *, device: str) -> None:
        self.device = device
        super().__init__(
            f"memory of {device} is read-only", hint='copy it first, as in x.to("CPU")'
        )


class NotHostAddressableError(UserError, TypeError):
    """A host view of memory that the host cannot address."""

    def __init__(self, *, device: str) -> None:
        self.device = device
        super().__init__(
            f"memory of {device} has no address on the host",
            hint="read it with copyout, or copy it to CPU",
        )


class ViewError(UserError, ValueError):
    """A view that does not lie inside its base."""

    def __init__(
        self, *, offset: int, nbytes: int, base_nbytes: int, problem: str | None = None
    ) -> None:
        self.offset, self.nbytes, self.base_nbytes = offset, nbytes, base_nbytes
        super().__init__(
            f"a view of {nbytes} bytes at byte {offset} "
            + (problem or f"does not lie inside a buffer of {base_nbytes} bytes")
        )


class SizeMismatchError(UserError, ValueError):
    """A copy between different numbers of bytes."""

    def __init__(self, *, operation: str, expected: int, found: int) -> None:
        self.expected, self.found = expected, found
        super().__init__(
            f"{operation}: the buffer has {expected} bytes, the other side has {found}"
        )


class LaunchSizeError(UserError, ValueError):
    """A launch size whose expression has no value, or none that a device can use."""

    def __init__(self, *, expression: str, problem: str) -> None:
        self.expression, self.problem = expression, problem
        super().__init__(f"launch size {expression}: {problem}")


class ProgramStageError(InternalError, ValueError):
    """A PROGRAM node that lacks a stage or holds another op in its place."""

    def __init__(self, *, stage: str, expected: str, found: str) -> None:
        self.stage, self.expected, self.found = stage, expected, found
        super().__init__(f"stage {stage} of a PROGRAM must be {expected}, found {found}")


class NotAllocatedError(InternalError, RuntimeError):
    """The address of a buffer that has no memory yet."""

    def __init__(self, *, device: str, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        super().__init__(
            f"a buffer of {nbytes} bytes on {device} has no memory yet",
            hint="call ensure_allocated() first",
        )


def _show_bytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n} bytes ({n / size:.1f} {unit})"
    return f"{n} bytes"
