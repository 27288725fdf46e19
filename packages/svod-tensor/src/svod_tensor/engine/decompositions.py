"""Cache of decompositions: the graphs that composed operations build, without their operands."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeAlias

from svod_tensor.engine.bounded_cache import BoundedCache

__all__ = ["DECOMPOSITIONS", "CallKey"]

MAX_DECOMPOSITIONS: Final = 1024
"""Maximum number of entries. A model calls tens of operations, with at most a few shapes each."""

CallKey: TypeAlias = tuple[Hashable, ...]
"""An operation, the shape, dtype and placement of each operand, the other arguments, and the default
float dtype.
"""

DECOMPOSITIONS: Final = BoundedCache[CallKey, object](lambda: MAX_DECOMPOSITIONS)
"""A `Decomposition` of `ops.core.reuse`; `"called"` for an operation that was called once, and
`"varies"` for one whose graph cannot be built again.
"""
