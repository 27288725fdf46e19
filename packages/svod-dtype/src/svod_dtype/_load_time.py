"""Time at which this process loaded svod: source files modified later differ from the running code."""

from __future__ import annotations

from time import time_ns
from typing import Final

__all__ = ["LOADED_AT_NS"]

LOADED_AT_NS: Final = time_ns()
"""Load time of svod in nanoseconds since the epoch, as file modification times. Every svod
distribution imports svod_dtype first.
"""
