"""The options of svod-opencl and the environment variables that set them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["OpenCLOptions"]


@dataclass(frozen=True, slots=True)
class OpenCLOptions:
    """Options of svod-opencl.

    Attributes:
        platform: only platforms whose name or vendor has this in it, in any case, are looked at
            (`SVOD_OPENCL_PLATFORM`; empty for all). `OPENCL:0` is then the first device of the first such platform.
    """

    platform: str = ""

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> OpenCLOptions:
        """The options that the environment sets."""
        variables = os.environ if environment is None else environment
        return cls(variables.get("SVOD_OPENCL_PLATFORM", "").strip())
