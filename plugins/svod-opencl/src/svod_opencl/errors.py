"""The errors of svod-opencl.

UserError
├── NoPlatformError (LookupError)         no driver is installed, or none is called as asked
└── NoDeviceError (LookupError)           fewer devices work
InternalError
└── UnknownAddressError (ValueError)      an address in no block of the device
"""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import InternalError, UserError

__all__ = ["NoDeviceError", "NoPlatformError", "UnknownAddressError"]


class NoPlatformError(UserError, LookupError):
    """No OpenCL driver, or none with the name that was asked for."""

    def __init__(self, *, wanted: str, found: Sequence[str]) -> None:
        self.wanted, self.found = wanted, tuple(found)
        if self.found:
            super().__init__(
                f"no OpenCL platform is called {wanted!r}",
                notes=(f"platforms that are there: {', '.join(self.found)}",),
                hint="set SVOD_OPENCL_PLATFORM to a part of one of these names, or unset it",
            )
        else:
            super().__init__(
                "no OpenCL platform is installed",
                hint=(
                    "install your device's driver, or `pip install svod-opencl[cpu]` for one that"
                    " runs on the CPU"
                ),
            )


class NoDeviceError(UserError, LookupError):
    """A device number beyond the last device that works.

    `found` are the names of those that do, `faults` the names of the others and why.
    """

    def __init__(
        self, *, device: str, found: Sequence[str], faults: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.device, self.found, self.faults = device, tuple(found), tuple(faults)
        working = (f"OPENCL:{number} is {name}" for number, name in enumerate(self.found))
        broken = (f"{name} does not work: {fault}" for name, fault in self.faults)
        super().__init__(
            f"no device {device!r}: {len(self.found)} OpenCL devices work",
            notes=(*working, *broken),
            hint=(
                None
                if self.found
                else (
                    "install another driver: `pip install svod-opencl[cpu]` for one that runs on"
                    " the CPU"
                )
            ),
        )


class UnknownAddressError(InternalError, ValueError):
    """An address that lies in no block: one of another device, or of a block that was freed."""

    def __init__(self, *, device: str, address: int) -> None:
        self.device, self.address = device, address
        super().__init__(f"{address:#x} is no address of {device}")
