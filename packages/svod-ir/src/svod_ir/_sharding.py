"""Sharding of tensors over devices."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["Placement", "Sharding"]


class Sharding(NamedTuple):
    """One tensor on several devices: sharded along `axis` in parts of `sizes`, or, if `axis` is
    None, replicated.

    Example:
        >>> from svod_ir import Sharding
        >>> rows = Sharding(("CPU", "CPU:1"), axis=0, sizes=(4, 3))
        >>> rows.bounds(1), rows.replicated
        ((4, 7), Sharding(devices=('CPU', 'CPU:1'), axis=None, sizes=()))
    """

    devices: tuple[str, ...]
    axis: int | None = None
    sizes: tuple[int, ...] = ()

    def bounds(self, index: int) -> tuple[int, int]:
        """Begin and end of shard `index` along the axis."""
        end = sum(self.sizes[: index + 1])
        return end - self.sizes[index], end

    @property
    def replicated(self) -> Sharding:
        """The replicated sharding on the same devices."""
        return Sharding(self.devices)


Placement: TypeAlias = "str | Sharding | None"
"""A device, the devices and shards of a sharded value, or None."""
