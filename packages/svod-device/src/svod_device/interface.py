"""Version of the plugin interface: decides whether a plugin works with the installed svod.

The interface covers everything that a plugin is built on: the protocols and specs, the arguments of
factories, the ops, dtypes and targets that its renderer sees, and svod-codegen's renderer of C-like
languages. A plugin's distribution declares its version by entry point, so that svod can check it
before it runs any of the plugin's code. It requires the first releases with that version, without
an upper bound, since releases of the distributions increment for other reasons too.

    [project]
    dependencies = ["svod-device>=0.1"]

    [project.entry-points."svod.interface"]
    version = "svod_device.interface:v1"

The version is incremented when an existing plugin would break or compute different results.
Version 1 is that of release 0.1.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["GROUP", "INTERFACE_VERSION", "parse_interface", "v1"]

GROUP: Final = "svod.interface"
"""Entry point group of a plugin's declaration."""

v1: Final = 1
"""The version that entry points name `svod_device.interface:v1`."""
INTERFACE_VERSION: Final = v1
"""Version that this svod-device implements."""


def parse_interface(value: str) -> int | None:
    """Return the version in an entry point's value, or None if it has none.

    Example:
        >>> from svod_device.interface import parse_interface
        >>> parse_interface("svod_device.interface:v1")
        1

        Whether installed plugins are for this version:

        >>> from importlib.metadata import entry_points
        >>> from svod_device.interface import GROUP, INTERFACE_VERSION, v1
        >>> versions = {parse_interface(point.value) for point in entry_points(group=GROUP)}
        >>> INTERFACE_VERSION == v1, versions <= {None, INTERFACE_VERSION}
        (True, True)
    """
    match = re.fullmatch(r"svod_device\.interface:v(\d+)", value.replace(" ", ""))
    return int(match[1]) if match else None
