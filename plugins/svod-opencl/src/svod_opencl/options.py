"""The options of svod-opencl and the environment variables that set them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from svod_ir import OptionError
from svod_ir.environment import read_switch

__all__ = ["OpenCLOptions"]


@dataclass(frozen=True, slots=True)
class OpenCLOptions:
    """Options of svod-opencl.

    Attributes:
        platform: only platforms whose name or vendor has this in it, in any case, are looked at
            (`SVOD_OPENCL_PLATFORM`; empty for all). `OPENCL:0` is then the first device of the
            first such platform.
        use_binaries: whether kernels are kept as the driver's binaries (`SVOD_OPENCL_BINARIES`), by
            default only where the driver has no cache of its own: some take longer to write a
            binary than to compile.
        build_options: what the driver's compiler is told besides (`SVOD_OPENCL_BUILD_OPTIONS`,
            words as in a shell): `-g`, a vendor's own options, or `-cl-opt-disable`, with which it
            takes less time.
    """

    platform: str = ""
    use_binaries: bool | None = None
    build_options: tuple[str, ...] = ()

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> OpenCLOptions:
        """The options that the environment sets.

        Raises:
            OptionError: if a value cannot be used.
        """
        variables = os.environ if environment is None else environment
        is_chosen = bool(variables.get("SVOD_OPENCL_BINARIES", "").strip())
        use_binaries = (
            read_switch(variables, "SVOD_OPENCL_BINARIES", default=False) if is_chosen else None
        )
        given = variables.get("SVOD_OPENCL_BUILD_OPTIONS", "")
        try:
            build_options = tuple(shlex.split(given))
        except ValueError as error:
            expected = f"words as in a shell ({error})"
            raise OptionError(
                variable="SVOD_OPENCL_BUILD_OPTIONS", value=given, expected=expected
            ) from None
        return cls(variables.get("SVOD_OPENCL_PLATFORM", "").strip(), use_binaries, build_options)
