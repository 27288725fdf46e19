"""Launches of a profile put together: by kernel, and by scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_runtime.profile.kernel_profile import Measured

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = ["KernelSummary", "ScopeSummary", "get_scope"]


def get_scope(origins: Iterable[Origin]) -> str:
    """The innermost scope that all origins are part of."""
    names = [o.scope.split(".") if o.scope else [] for o in origins]
    common: list[str] = []
    for parts in zip(*names, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


@dataclass(frozen=True, slots=True)
class KernelSummary(Measured):
    """All launches of one kernel together; rates are those of the average launch.

    Attributes:
        origins: the lines of the program that its launches come from.
        best_ns: what all launches take at best, None where that is not known.
        bound: what takes that time, `compute` or `memory`.
        reasons: why the kernel has its opts.
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
        """The time that the work takes at best over the time that it took."""
        return None if self.best_ns is None else self.best_ns / max(self.elapsed_ns, 1)

    @property
    def scope(self) -> str:
        return get_scope(self.origins)


@dataclass(frozen=True, slots=True)
class ScopeSummary(Measured):
    """All launches that come from one scope."""

    scope: str
    n_launches: int
    elapsed_ns: int
    n_operations: int
    n_bytes: int
