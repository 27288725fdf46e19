"""Peak rates of a device, which measured rates are compared with."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from svod_device import get_device
from svod_dtype import SvodError

if TYPE_CHECKING:
    from svod_ir import Target

__all__ = ["Limits", "get_limits"]


class Limits(NamedTuple):
    """What a device could do at best.

    Attributes:
        operations: a second.
        levels: of its memory, the nearest first: up to how many bytes it holds, and how many it
            moves a second.

    Example:
        >>> near, far = (32e6, 1e12), (inf, 1e11)
        >>> limits = Limits(operations=2e12, levels=(near, far))
        >>> limits.get_bound(n_operations=2 * 1024**3, n_bytes=12 * 1024**2)
        (0.001073741824, 'compute')
        >>> limits.get_bound(n_operations=10**8, n_bytes=10**9)
        (0.01, 'memory')
    """

    operations: float
    levels: tuple[tuple[float, float], ...]

    @staticmethod
    def of(target: Target) -> Limits:
        """The estimates of a target, with all its cores at work."""
        rates, cores = target.rates, target.cores
        near = [
            (target.l2_bytes * cores, rates.l2_bytes * rates.clock * cores),
            (target.l3_bytes, rates.l3_bytes * rates.clock * cores),
        ]
        levels = [(size, speed) for size, speed in near if size and speed > target.memory_bandwidth]
        return Limits(target.peak_flops * cores, (*levels, (inf, target.memory_bandwidth)))

    def get_bandwidth(self, n_bytes: int) -> float:
        """Bytes a second of the nearest memory that holds so many."""
        return next(speed for size, speed in self.levels if n_bytes <= size)

    def get_bound(
        self, n_operations: int, n_bytes: int
    ) -> tuple[float, Literal["compute", "memory"]]:
        """The least time in seconds for one launch, and what takes it."""
        compute, memory = n_operations / self.operations, n_bytes / self.get_bandwidth(n_bytes)
        return (compute, "compute") if compute > memory else (memory, "memory")


def get_limits(devices: Iterable[str]) -> dict[str, Limits]:
    """The limits of those devices that exist here and say what they are."""
    found: dict[str, Limits] = {}
    for name in devices:
        try:
            found[name] = Limits.of(get_device(name).target)
        except SvodError:
            # A report of another machine has no limits here.
            continue
    return found
