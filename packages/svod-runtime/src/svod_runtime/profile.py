"""What profiled execution measures."""

from __future__ import annotations

from dataclasses import dataclass

from svod_runtime.prepared import CachedKernel

__all__ = ["KernelProfile"]


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One launch of a kernel, from the call until its results were there; without the way to a device that keeps time.

    `n_operations` is 0 where nothing estimated it; `n_bytes` is then the size of all buffers. `start_ns` is on the
    clock of `time.perf_counter_ns`.
    """

    kernel: CachedKernel
    device: str
    n_buffers: int
    elapsed_ns: int
    n_operations: int
    n_bytes: int
    start_ns: int = 0

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def elapsed_us(self) -> float:
        return self.elapsed_ns / 1e3

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return self.n_operations / max(self.elapsed_ns, 1)

    @property
    def gigabytes_per_second(self) -> float:
        return self.n_bytes / max(self.elapsed_ns, 1)

    def __str__(self) -> str:
        rates = f"{self.gflops:8.2f} GFLOP/s {self.gigabytes_per_second:8.2f} GB/s"
        return f"{self.elapsed_us:10.2f} us {rates}  {self.name} on {self.device}, {self.n_buffers} buffers"
