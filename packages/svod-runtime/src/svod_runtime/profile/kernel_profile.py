"""Measurements of one launch in a profiled execution."""

from __future__ import annotations

from dataclasses import dataclass, replace

from svod_ir.origins import Origin, format_origins
from svod_runtime.ops.prepared import CachedKernel

__all__ = ["KernelProfile", "LaunchSums", "Measured"]


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
    """One launch of a kernel, from the call until its results were there; without the way to a
    device that keeps time.

    All launches of a kernel in a loop are one profile: times, operations and bytes are then those
    of all `n_launches`, of which the fastest took `fastest_ns`.

    `n_operations` is 0 where nothing estimated it; `n_bytes` is then the size of all buffers.
    `start_ns` is on the clock of `time.perf_counter_ns`. `origins` are the lines of the program
    that the kernel comes from, where they were tracked."""

    kernel: CachedKernel
    device: str
    n_buffers: int
    elapsed_ns: int
    n_operations: int
    n_bytes: int
    start_ns: int = 0
    origins: tuple[Origin, ...] = ()
    n_launches: int = 1
    fastest_ns: int | None = None

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the kernel has its opts."""
        return self.kernel.spec.reasons

    def __repr__(self) -> str:
        rates = (
            f"{self.elapsed_us:.2f} us, {self.gflops:.2f} GFLOP/s, {self.gigabytes_per_second:.2f}"
            " GB/s"
        )
        lines = f", from {format_origins(self.origins)}" if self.origins else ""
        rates = rates if self.n_launches == 1 else f"{self.n_launches} launches, {rates}"
        return f"<KernelProfile {self.name} on {self.device}: {rates}{lines}>"

    def __str__(self) -> str:
        rates = f"{self.gflops:8.2f} GFLOP/s {self.gigabytes_per_second:8.2f} GB/s"
        lines = f", from {format_origins(self.origins)}" if self.origins else ""
        calls = "" if self.n_launches == 1 else f", {self.n_launches} launches"
        return (
            f"{self.elapsed_us:10.2f} us {rates}  {self.name} on {self.device}, {self.n_buffers}"
            f" buffers{calls}{lines}"
        )


class LaunchSums:
    """The launches of a loop's kernels, added up kernel by kernel while it runs.

    Args:
        started: when the loop began, on the clock of `time.perf_counter_ns`.
    """

    def __init__(self, started: int) -> None:
        self._started = started
        self._sums: dict[tuple[int, str, tuple[Origin, ...]], KernelProfile] = {}

    def add(self, profile: KernelProfile) -> None:
        """Count one more launch, or those of a loop in the loop."""
        key = id(profile.kernel), profile.device, profile.origins
        known = self._sums.get(key)
        fastest = profile.elapsed_ns if profile.fastest_ns is None else profile.fastest_ns
        if known is None:
            self._sums[key] = replace(profile, fastest_ns=fastest)
            return
        assert known.fastest_ns is not None
        self._sums[key] = replace(
            known,
            elapsed_ns=known.elapsed_ns + profile.elapsed_ns,
            n_operations=known.n_operations + profile.n_operations,
            n_bytes=known.n_bytes + profile.n_bytes,
            n_launches=known.n_launches + profile.n_launches,
            fastest_ns=min(known.fastest_ns, fastest),
        )

    def list_profiles(self) -> list[KernelProfile]:
        """One profile for each kernel, in the order in which they first ran, and as if all of its
        launches were in a row.
        """
        start = self._started
        found: list[KernelProfile] = []
        for profile in self._sums.values():
            found.append(replace(profile, start_ns=start))
            start += profile.elapsed_ns
        return found
