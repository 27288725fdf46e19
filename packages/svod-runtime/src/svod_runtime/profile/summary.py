"""Summaries of launches, by kernel and by scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_runtime.profile.kernel_profile import Measured

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = ["KernelSummary", "ScopeSummary", "get_scope"]


def get_scope(origins: Iterable[Origin]) -> str:
    """Return the innermost scope that contains all origins."""
    names = [o.scope.split(".") if o.scope else [] for o in origins]
    common: list[str] = []
    # Not strict: the shortest scope bounds the common one.
    for level in zip(*names, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return ".".join(common)


@dataclass(frozen=True, slots=True)
class KernelSummary(Measured):
    """Sums over all launches of a kernel, or calls of a custom function; rates are averages.

    Attributes:
        origins: source lines of its launches.
        best_ns: minimum time of all launches, None if unknown.
        bound: limiting resource of that minimum, `compute` or `memory`.
        reasons: reasons for the kernel's opts.
    """

    name: str
    device: str
    n_launches: int
    elapsed_ns: int
    fastest_ns: int
    n_operations: int
    n_bytes: int
    origins: tuple[Origin, ...] = ()
    best_ns: float | None = None
    bound: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def share_of_limit(self) -> float | None:
        """Minimum time of the work divided by the measured time."""
        return None if self.best_ns is None else self.best_ns / max(self.elapsed_ns, 1)

    @property
    def scope(self) -> str:
        return get_scope(self.origins)


@dataclass(frozen=True, slots=True)
class ScopeSummary(Measured):
    """Sums over all launches of one scope."""

    scope: str
    n_launches: int
    elapsed_ns: int
    n_operations: int
    n_bytes: int
