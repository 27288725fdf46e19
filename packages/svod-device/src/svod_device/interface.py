"""The version of the plugin interface: of the protocols, the specs, and what a factory is called with.

A plugin's distribution declares the version that it is written for, so that it can be checked before any of its code runs:

    [project.entry-points."svod.interface"]
    version = "svod_device.interface:v1"

The number grows when a plugin that worked would no longer work, or would compute something else. Version 1 is the first.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["GROUP", "INTERFACE_VERSION", "parse_interface", "v1"]

GROUP: Final = "svod.interface"

v1: Final = 1
INTERFACE_VERSION: Final = v1
"""The one that this svod-device has."""


def parse_interface(value: str) -> int | None:
    """The number in an entry point's value, None where there is none."""
    found = re.fullmatch(r"svod_device\.interface:v(\d+)", value.replace(" ", ""))
    return int(found[1]) if found else None
