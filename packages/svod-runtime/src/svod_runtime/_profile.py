"""What profiled execution measures."""

from __future__ import annotations

from dataclasses import dataclass

from svod_ir.origins import Origin, format_origins
from svod_runtime._prepared import CachedKernel

__all__ = ["KernelProfile", "Measured"]


class Measured:
    """Rates of something that took a time, did operations and moved bytes."""

    __slots__ = ()

    elapsed_ns: int
    n_operations: int
    n_bytes: int

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


@dataclass(frozen=True, slots=True, repr=False)
class KernelProfile(Measured):
    """One launch of a kernel, from the call until its results were there; without the way to a device that keeps time.

    `n_operations` is 0 where nothing estimated it; `n_bytes` is then the size of all buffers. `start_ns` is on the
    clock of `time.perf_counter_ns`. `origins` are the lines of the program that the kernel comes from, where
    they were tracked.
    """

    kernel: CachedKernel
    device: str
    n_buffers: int
    elapsed_ns: int
    n_operations: int
    n_bytes: int
    start_ns: int = 0
    origins: tuple[Origin, ...] = ()

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the kernel has its opts."""
        return self.kernel.spec.reasons

    def __repr__(self) -> str:
        rates = f"{self.elapsed_us:.2f} us, {self.gflops:.2f} GFLOP/s, {self.gigabytes_per_second:.2f} GB/s"
        lines = f", from {format_origins(self.origins)}" if self.origins else ""
        return f"<KernelProfile {self.name} on {self.device}: {rates}{lines}>"

    def __str__(self) -> str:
        rates = f"{self.gflops:8.2f} GFLOP/s {self.gigabytes_per_second:8.2f} GB/s"
        lines = f", from {format_origins(self.origins)}" if self.origins else ""
        return f"{self.elapsed_us:10.2f} us {rates}  {self.name} on {self.device}, {self.n_buffers} buffers{lines}"
