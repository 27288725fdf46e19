"""Profile events: measurements of a launch in a profiled execution."""

from __future__ import annotations

from dataclasses import dataclass, replace

from svod_ir.origins import Origin, format_origins
from svod_runtime.ops.prepared import CachedKernel

__all__ = ["FunctionProfile", "KernelProfile", "LaunchSums", "Measured"]


class Measured:
    """Rates of an event with a duration, an operation count and a byte count."""

    # Without it, instances of the subclasses would have a dict in spite of their slots.
    __slots__ = ()

    elapsed_ns: int
    n_operations: int
    n_bytes: int

    @property
    def elapsed_us(self) -> float:
        return self.elapsed_ns / 1e3

    @property
    def gflops(self) -> float:
        """Operations per second, in units of 10^9."""
        # A timer with a coarse tick may report 0.
        return self.n_operations / max(self.elapsed_ns, 1)

    @property
    def gigabytes_per_second(self) -> float:
        return self.n_bytes / max(self.elapsed_ns, 1)


@dataclass(frozen=True, slots=True, repr=False)
class KernelProfile(Measured):
    """Profile event of a kernel launch, from the call until its results are available.

    On devices with timers, the transfer of the call to the device is excluded. All launches of a
    kernel in a loop are one event: time, operations and bytes are the sums over `n_launches`, and
    `fastest_ns` is the shortest launch.

    `n_operations` is 0 without an estimate; `n_bytes` is then the size of all buffers. `start_ns`
    is on the clock of `time.perf_counter_ns`. `origins` are the source lines of the kernel, if they
    were tracked.
    """

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
        """Reasons for the kernel's opts."""
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


@dataclass(frozen=True, slots=True)
class FunctionProfile(Measured):
    """Profile event of a custom function.

    All calls in a loop are one event, like the launches of a kernel. `n_bytes` is the size of all
    buffers; the operations are unknown.

    Example:
        >>> import numpy as np
        >>> from svod_runtime import FunctionProfile
        >>> from svod_tensor import Tensor, custom_function, float32, register_custom_function
        >>> register_custom_function("flip", lambda out, x: np.copyto(out, x[::-1]))
        >>> y = custom_function("flip", Tensor([1.0, 2.0]).realize(), outputs=((2,), float32))
        >>> (function,) = y.prepare().profile(n_runs=1).functions
        >>> isinstance(function, FunctionProfile), function.name, function.n_bytes
        (True, 'flip', 16)
    """

    name: str
    device: str
    n_buffers: int
    elapsed_ns: int
    n_bytes: int
    start_ns: int = 0
    n_launches: int = 1
    fastest_ns: int | None = None
    n_operations: int = 0
    origins: tuple[Origin, ...] = ()
    reasons: tuple[str, ...] = ()


class LaunchSums:
    """Running sums over the launches of a loop's kernels and custom functions.

    Args:
        started: start of the loop on the clock of `time.perf_counter_ns`.
    """

    def __init__(self, started: int) -> None:
        self._started = started
        self._sums: dict[
            tuple[int | str, str, tuple[Origin, ...]], KernelProfile | FunctionProfile
        ] = {}

    def add(self, profile: KernelProfile | FunctionProfile) -> None:
        """Add a launch, or the launches of an inner loop."""
        # By identity: kernels of equal names may have different sources.
        code = id(profile.kernel) if isinstance(profile, KernelProfile) else profile.name
        key = code, profile.device, profile.origins
        known = self._sums.get(key)
        fastest = profile.elapsed_ns if profile.fastest_ns is None else profile.fastest_ns
        if known is None:
            self._sums[key] = replace(profile, fastest_ns=fastest)
            return
        # Holds for every entry, since the first launch sets it above.
        assert known.fastest_ns is not None
        self._sums[key] = replace(
            known,
            elapsed_ns=known.elapsed_ns + profile.elapsed_ns,
            n_operations=known.n_operations + profile.n_operations,
            n_bytes=known.n_bytes + profile.n_bytes,
            n_launches=known.n_launches + profile.n_launches,
            fastest_ns=min(known.fastest_ns, fastest),
        )

    def list_profiles(self) -> list[KernelProfile | FunctionProfile]:
        """Return one profile per kernel or function, in order of first launch, as if the launches
        of each were contiguous.
        """
        start = self._started
        profiles: list[KernelProfile | FunctionProfile] = []
        for profile in self._sums.values():
            profiles.append(replace(profile, start_ns=start))
            start += profile.elapsed_ns
        return profiles
