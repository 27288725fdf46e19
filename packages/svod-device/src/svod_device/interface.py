"""The version of the plugin interface, which says whether a plugin works with the distributions
beside it.

It covers whatever a plugin is built on: the protocols, the specs and what a factory is called with,
the ops, dtypes and targets that its renderer sees, and the renderer of C-like languages in
svod-codegen. A plugin's distribution declares the version that it is written for, so that it can be
checked before any of its code runs, and requires the first releases that have it, without an upper
bound: versions of the distributions grow for other reasons too.

    [project]
    dependencies = ["svod-device>=0.1"]

    [project.entry-points."svod.interface"]
    version = "svod_device.interface:v1"

The number grows when a plugin that worked would no longer work, or would compute something else.
Version 1 is the first, of release 0.1."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["GROUP", "INTERFACE_VERSION", "parse_interface", "v1"]

GROUP: Final = "svod.interface"

v1: Final = 1
INTERFACE_VERSION: Final = v1
"""The one that this svod-device has."""


def parse_interface(value: str) -> int | None:
    """The number in an entry point's value, None where there is none.

    Example:
        >>> parse_interface("svod_device.interface:v1")
        1
    """
    found = re.fullmatch(r"svod_device\.interface:v(\d+)", value.replace(" ", ""))
    return int(found[1]) if found else None
