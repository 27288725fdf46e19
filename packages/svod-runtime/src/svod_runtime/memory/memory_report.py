"""Memory report of a plan: bytes of the intermediates before and after planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["MemoryReport", "PlannerMode"]

PlannerMode: TypeAlias = Literal["arena", "remap", "disabled"]
"""`arena` packs intermediates into one block per device, `remap` reuses whole buffers of equal
size, `disabled` shares nothing.
"""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Result of memory planning.

    Attributes:
        mode: mode of the planner.
        n_buffers: number of intermediates that could share memory.
        bytes_before: their size without sharing.
        bytes_after: their size with sharing, outside donated memory.
        lower_bound: peak size of simultaneously live intermediates, outside donated memory.
        n_donated: number of outputs in donated inputs.
        bytes_donated: size of these outputs.

    Example:
        >>> import svod_tensor as sv
        >>> from svod_runtime import MemoryReport, PlannerMode
        >>> def plan_memory(planner: PlannerMode) -> MemoryReport:
        ...     x, config = sv.ones((64, 64)), sv.PrepareConfig(memory_planner=planner)
        ...     return ((x @ x).contiguous() @ x).prepare_with(config).memory_report
        >>> plan_memory("disabled").mode, plan_memory("arena").ratio
        ('disabled', 1.0)
    """

    mode: str
    n_buffers: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    lower_bound: int = 0
    n_donated: int = 0
    bytes_donated: int = 0

    @property
    def bytes_saved(self) -> int:
        return self.bytes_before - self.bytes_after + self.bytes_donated

    @property
    def ratio(self) -> float:
        """Planned size relative to the lower bound: 1 is optimal."""
        return self.bytes_after / self.lower_bound if self.lower_bound else 1.0

    def __str__(self) -> str:
        shared = f"{self.mode}: {self.n_buffers} intermediates of {_show_bytes(self.bytes_before)}"
        taken = (
            f"in {_show_bytes(self.bytes_after)}, {self.ratio:.2f} times the least possible"
            if self.n_buffers
            else ""
        )
        donated = (
            f"{self.n_donated} outputs of {_show_bytes(self.bytes_donated)} in donated memory"
            if self.n_donated
            else ""
        )
        return ", ".join(text for text in (f"{shared} {taken}".rstrip(), donated) if text)


def _show_bytes(n_bytes: int) -> str:
    """Format a number of bytes with a unit."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{n_bytes} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
