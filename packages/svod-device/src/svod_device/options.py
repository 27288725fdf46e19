"""Options of svod-device and their environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from svod_ir.environment import read_integer

__all__ = ["DEFAULT_CACHE_BYTES", "DeviceOptions"]

DEFAULT_CACHE_BYTES = 1 << 30
"""Default budget of the caching allocator, in bytes."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Options of svod-device.

    Attributes:
        allocator_cache_bytes: bytes of freed blocks that each allocator caches for reuse
            (`SVOD_ALLOCATOR_CACHE_BYTES`, 1 GiB; 0 disables the cache).
        backends: device kind -> backend name (`SVOD_<KIND>_BACKEND`, as in SVOD_CPU_BACKEND). By
            default a device uses its allocator's preference (`llvm` for the CPU), else the first
            backend by name.

    Example:
        >>> from svod_device import DeviceOptions
        >>> DeviceOptions.from_env({"SVOD_CPU_BACKEND": "c", "SVOD_ALLOCATOR_CACHE_BYTES": "0"})
        DeviceOptions(allocator_cache_bytes=0, backends={'CPU': 'c'})
        >>> from svod_device.options import DEFAULT_CACHE_BYTES
        >>> DeviceOptions(DEFAULT_CACHE_BYTES // 4).allocator_cache_bytes >> 20  # in MiB
        256
    """

    allocator_cache_bytes: int = DEFAULT_CACHE_BYTES
    backends: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> DeviceOptions:
        """Read the options from environment variables; unset variables give the defaults.

        Args:
            environment: variables by name; by default `os.environ`.

        Raises:
            OptionError: if a variable has an invalid value.
        """
        variables = os.environ if environment is None else environment
        backends: dict[str, str] = {}
        for name, value in variables.items():
            # By pattern, since plugins define kinds that this package does not know.
            match = re.fullmatch(r"SVOD_([A-Z][A-Z0-9_]*)_BACKEND", name)
            if match and value.strip():
                backends[match[1]] = value.strip()
        return cls(
            read_integer(variables, "SVOD_ALLOCATOR_CACHE_BYTES", DEFAULT_CACHE_BYTES), backends
        )
