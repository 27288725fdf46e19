"""The options of svod-device and the environment variables that set them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from svod_ir.environment import read_integer

__all__ = ["DEFAULT_CACHE_BYTES", "DeviceOptions"]

DEFAULT_CACHE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Options of svod-device.

    Attributes:
        allocator_cache_bytes: how many bytes of freed blocks each allocator keeps for reuse
            (`SVOD_ALLOCATOR_CACHE_BYTES`, 1 GiB; 0 keeps none).
        backends: device kind -> name of the backend to use (`SVOD_<KIND>_BACKEND`, as in
            SVOD_CPU_BACKEND). Without it a device uses the one that its allocator names (`llvm` for
            the CPU), else the first by name.

    Example:
        >>> DeviceOptions.from_env({"SVOD_CPU_BACKEND": "c", "SVOD_ALLOCATOR_CACHE_BYTES": "0"})
        DeviceOptions(allocator_cache_bytes=0, backends={'CPU': 'c'})
    """

    allocator_cache_bytes: int = DEFAULT_CACHE_BYTES
    backends: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> DeviceOptions:
        """The options that the environment sets.

        Raises:
            OptionError: if a value cannot be used.
        """
        variables = os.environ if environment is None else environment
        backends: dict[str, str] = {}
        for name, value in variables.items():
            match = re.fullmatch(r"SVOD_([A-Z][A-Z0-9_]*)_BACKEND", name)
            if match and value.strip():
                backends[match[1]] = value.strip()
        return cls(
            read_integer(variables, "SVOD_ALLOCATOR_CACHE_BYTES", DEFAULT_CACHE_BYTES), backends
        )
