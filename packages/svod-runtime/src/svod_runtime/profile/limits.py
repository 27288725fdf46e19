"""Peak rates of a device, as references for measured rates."""

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
    """Peak rates of a device.

    Attributes:
        operations: operations per second.
        levels: memory levels, the nearest first: capacity in bytes, and bandwidth in bytes per
            second.

    Example:
        >>> from svod_runtime import Limits
        >>> from svod_runtime.profile.limits import inf
        >>> near, far = (32e6, 1e12), (inf, 1e11)
        >>> limits = Limits(operations=2e12, levels=(near, far))
        >>> limits.get_bound(n_operations=2 * 1024**3, n_bytes=12 * 1024**2)
        (0.001073741824, 'compute')
        >>> limits.get_bound(n_operations=10**8, n_bytes=10**9)
        (0.01, 'memory')
        >>> limits.get_bandwidth(n_bytes=10**6), limits.get_bandwidth(n_bytes=10**9)
        (1000000000000.0, 100000000000.0)
        >>> from svod_ir import Target
        >>> Limits.of(Target.generic(cores=4)).operations / Limits.of(Target.generic(cores=1)).operations
        4.0
    """

    operations: float
    levels: tuple[tuple[float, float], ...]

    @staticmethod
    def of(target: Target) -> Limits:
        """Return the estimates of a target with all its cores busy."""
        rates, cores = target.rates, target.cores
        near = [
            (target.l2_bytes * cores, rates.l2_bytes * rates.clock * cores),
            (target.l3_bytes, rates.l3_bytes * rates.clock * cores),
        ]
        # A target may lack a cache level, or rate it below main memory: skip it then.
        levels = [(size, speed) for size, speed in near if size and speed > target.memory_bandwidth]
        return Limits(target.peak_flops * cores, (*levels, (inf, target.memory_bandwidth)))

    def get_bandwidth(self, n_bytes: int) -> float:
        """Return the bandwidth of the nearest memory level that holds `n_bytes`."""
        # The last level, main memory, has infinite capacity, so one is always found.
        return next(speed for size, speed in self.levels if n_bytes <= size)

    def get_bound(
        self, n_operations: int, n_bytes: int
    ) -> tuple[float, Literal["compute", "memory"]]:
        """Return the minimum time of a launch in seconds, and the limiting resource."""
        compute, memory = n_operations / self.operations, n_bytes / self.get_bandwidth(n_bytes)
        return (compute, "compute") if compute > memory else (memory, "memory")


def get_limits(devices: Iterable[str]) -> dict[str, Limits]:
    """Return the limits of the devices that exist on this machine and have a target."""
    limits: dict[str, Limits] = {}
    for name in devices:
        try:
            limits[name] = Limits.of(get_device(name).target)
        except SvodError:
            # A saved report may name devices of another machine.
            continue
    return limits
