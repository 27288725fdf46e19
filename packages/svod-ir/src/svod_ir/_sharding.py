"""On which devices a tensor is, and how it is split between them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["Placement", "Sharding"]


class Sharding(NamedTuple):
    """One tensor on several devices: split along `axis` in parts of `sizes`, or, where `axis` is
    None, whole on each.

    Example:
        >>> rows = Sharding(("CPU", "CPU:1"), axis=0, sizes=(4, 3))
        >>> rows.bounds(1), rows.replicated
        ((4, 7), Sharding(devices=('CPU', 'CPU:1'), axis=None, sizes=()))
    """

    devices: tuple[str, ...]
    axis: int | None = None
    sizes: tuple[int, ...] = ()

    def bounds(self, position: int) -> tuple[int, int]:
        """Where the shard at `position` begins and ends along the axis."""
        end = sum(self.sizes[: position + 1])
        return end - self.sizes[position], end

    @property
    def replicated(self) -> Sharding:
        """The whole tensor on each of the same devices."""
        return Sharding(self.devices)


Placement: TypeAlias = "str | Sharding | None"
