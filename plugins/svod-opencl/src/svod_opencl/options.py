"""Options of svod-opencl and the environment variables that set them."""

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
        platform: case-insensitive substring of the name or vendor of the platforms to use
            (`SVOD_OPENCL_PLATFORM`; empty for all). `OPENCL:0` is then the first device of the
            first matching platform.
        use_binaries: True to cache kernels as the driver's binaries (`SVOD_OPENCL_BINARIES`). The
            default is to do so only if the driver has no cache, since some drivers take longer to
            write a binary than to compile.
        build_options: additional options for the driver's compiler (`SVOD_OPENCL_BUILD_OPTIONS`,
            quoted as in a shell): `-g`, vendor options, or `-cl-opt-disable` for faster
            compilation.
    """

    platform: str = ""
    use_binaries: bool | None = None
    build_options: tuple[str, ...] = ()

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> OpenCLOptions:
        """Read the options from environment variables; unset variables give the defaults.

        Args:
            environment: variables by name; by default `os.environ`.

        Raises:
            OptionError: if a variable has an invalid value.
        """
        variables = os.environ if environment is None else environment
        # Three states: without a choice, the device decides.
        is_chosen = bool(variables.get("SVOD_OPENCL_BINARIES", "").strip())
        use_binaries = (
            read_switch(variables, "SVOD_OPENCL_BINARIES", default=False) if is_chosen else None
        )
        text = variables.get("SVOD_OPENCL_BUILD_OPTIONS", "")
        try:
            # Quoted as in a shell, because an include path may have spaces.
            build_options = tuple(shlex.split(text))
        except ValueError as error:
            expected = f"options quoted as in a shell ({error})"
            raise OptionError(
                variable="SVOD_OPENCL_BUILD_OPTIONS", value=text, expected=expected
            ) from None
        return cls(variables.get("SVOD_OPENCL_PLATFORM", "").strip(), use_binaries, build_options)
