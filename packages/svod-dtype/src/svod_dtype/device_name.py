"""Device names: `KIND`, `KIND:index` and `DISK:<path>`, for kinds that anybody may add."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from svod_dtype.errors import DeviceNameError

__all__ = ["DeviceName", "parse_device_name"]


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A parsed device name: `kind` in upper case, an `index`, and for DISK the `path`."""

    kind: str
    index: int = 0
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"{self.kind}:{self.path}"
        return self.kind if self.index == 0 else f"{self.kind}:{self.index}"


@lru_cache(maxsize=1024)
def parse_device_name(text: str) -> DeviceName:
    """Parse a device name; the canonical spelling of `CPU:0` is `CPU`.

    Raises:
        DeviceNameError: if `text` is empty, has a kind that is no identifier, an index that is no
            number, or names DISK without a path.
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
    if not rest.isdecimal():
        raise DeviceNameError(given=text, reason=f"{rest!r} is not a device number")
    return DeviceName(kind, int(rest))
