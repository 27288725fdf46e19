"""Device names: `KIND`, `KIND:index` or `KIND:location`.

Plugins add device kinds. The kind's factory defines the meaning of a location: a file path for
DISK, a network address for a remote device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from svod_dtype.errors import DeviceNameError

__all__ = ["DeviceName", "parse_device_name"]


@dataclass(frozen=True, slots=True)
class DeviceName:
    """Parsed device name.

    Attributes:
        kind: device kind, in upper case.
        index: device index; 0 if there is a location.
        location: text after the colon if it is not an index, else None.
    """

    kind: str
    index: int = 0
    location: str | None = None

    def __str__(self) -> str:
        if self.location is not None:
            return f"{self.kind}:{self.location}"
        # "CPU" and "CPU:0" are one device, which has one spelling.
        return self.kind if self.index == 0 else f"{self.kind}:{self.index}"

    def get_index(self) -> int:
        """Return the index, for kinds whose devices have no locations.

        Raises:
            DeviceNameError: if the name has a location.
        """
        if self.location is not None:
            reason = f"{self.location!r} is not a device index"
            raise DeviceNameError(given=str(self), reason=reason)
        return self.index


# Cached, since the same few names are parsed repeatedly. Bounded, since each DISK file has a name.
@lru_cache(maxsize=1024)
def parse_device_name(text: str) -> DeviceName:
    """Parse a device name. The canonical spelling of `CPU:0` is `CPU`.

    Raises:
        DeviceNameError: if the kind is not an identifier, the text after the colon is empty, or
            DISK has no path.
    """
    kind, colon, suffix = text.partition(":")
    kind = kind.upper()
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", kind):
        raise DeviceNameError(given=text, reason="the kind is not an identifier")
    if kind == "DISK":
        # A path may consist of digits, so it is never an index.
        if not suffix:
            raise DeviceNameError(given=text, reason="DISK needs a file path")
        return DeviceName(kind, 0, suffix)
    if not colon:
        return DeviceName(kind)
    if not suffix.strip():
        raise DeviceNameError(given=text, reason="missing index or location after the colon")
    if re.fullmatch("[0-9]+", suffix):
        return DeviceName(kind, int(suffix))
    return DeviceName(kind, 0, suffix)
