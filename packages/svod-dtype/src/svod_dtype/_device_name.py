"""Device names: `KIND`, `KIND:index`, and `KIND:place` for kinds to which more than a number says
where a device is.

Anybody may add kinds. What may stand behind the colon is for the kind's own factory to say: the
path of a file for DISK, perhaps the address of a machine for another one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from svod_dtype.errors import DeviceNameError

__all__ = ["DeviceName", "parse_device_name"]


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A parsed device name:

    `kind` in upper case, and an `index`, or the `place` that stands behind the colon instead.
    """

    kind: str
    index: int = 0
    place: str | None = None

    def __str__(self) -> str:
        if self.place is not None:
            return f"{self.kind}:{self.place}"
        return self.kind if self.index == 0 else f"{self.kind}:{self.index}"

    def get_index(self) -> int:
        """The index, for kinds whose devices have numbers alone.

        Raises:
            DeviceNameError: if there is a place instead.
        """
        if self.place is not None:
            raise DeviceNameError(given=str(self), reason=f"{self.place!r} is not a device number")
        return self.index


@lru_cache(maxsize=1024)
def parse_device_name(text: str) -> DeviceName:
    """Parse a device name; the canonical spelling of `CPU:0` is `CPU`.

    Raises:
        DeviceNameError: if `text` is empty, has a kind that is no identifier or nothing behind its
            colon, or names DISK without a path.
    """
    kind, colon, rest = text.partition(":")
    kind = kind.upper()
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", kind):
        raise DeviceNameError(given=text, reason="the kind is not an identifier")
    if kind == "DISK":
        if not rest:
            raise DeviceNameError(given=text, reason="DISK needs the path of a file")
        return DeviceName(kind, 0, rest)
    if not colon:
        return DeviceName(kind)
    if not rest.strip():
        raise DeviceNameError(given=text, reason="nothing stands behind the colon")
    return (
        DeviceName(kind, int(rest)) if re.fullmatch("[0-9]+", rest) else DeviceName(kind, 0, rest)
    )
