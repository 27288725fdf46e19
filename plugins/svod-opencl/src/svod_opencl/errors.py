"""The errors of svod-opencl.

UserError
├── NoPlatformError (LookupError)         no driver is installed, or none matches the requested name
└── NoDeviceError (LookupError)           the index is beyond the last working device
InternalError
└── UnknownAddressError (ValueError)      an address outside of every block of the device
"""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import InternalError, UserError

__all__ = ["NoDeviceError", "NoPlatformError", "UnknownAddressError"]


class NoPlatformError(UserError, LookupError):
    """No OpenCL driver is installed, or no driver matches the requested name."""

    def __init__(self, *, wanted: str, platforms: Sequence[str]) -> None:
        self.wanted, self.platforms = wanted, tuple(platforms)
        if self.platforms:
            super().__init__(
                f"no OpenCL platform matches {wanted!r}",
                notes=(f"installed platforms: {', '.join(self.platforms)}",),
                hint="set SVOD_OPENCL_PLATFORM to a substring of one of these names, or unset it",
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
    """A device index beyond the last working device.

    `working` holds the names of the devices that work, `faults` the name of each other device
    and the reason why it does not.
    """

    def __init__(
        self, *, device: str, working: Sequence[str], faults: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.device, self.working, self.faults = device, tuple(working), tuple(faults)
        available = (f"OPENCL:{index} is {name}" for index, name in enumerate(self.working))
        broken = (f"{name} does not work: {fault}" for name, fault in self.faults)
        super().__init__(
            f"no device {device!r}: {len(self.working)} OpenCL devices work",
            notes=(*available, *broken),
            hint=(
                None
                if self.working
                else (
                    "install another driver: `pip install svod-opencl[cpu]` for one that runs on"
                    " the CPU"
                )
            ),
        )


class UnknownAddressError(InternalError, ValueError):
    """An address outside of every block: it belongs to another device or to a freed block."""

    def __init__(self, *, device: str, address: int) -> None:
        self.device, self.address = device, address
        super().__init__(f"{address:#x} is not an address of {device}")
