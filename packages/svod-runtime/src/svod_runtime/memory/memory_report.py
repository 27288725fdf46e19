"""Bytes that the intermediates of a plan take, as its planner left them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["MemoryReport", "PlannerMode"]

PlannerMode: TypeAlias = Literal["arena", "remap", "disabled"]
"""Intermediates are packed into one block for each device, take each other's place whole, or share
nothing.
"""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a memory planner made of a plan.

    Attributes:
        mode: of the planner.
        n_buffers: how many intermediates could share memory.
        bytes_before: what they would take, each by itself.
        bytes_after: what they take, outside donated memory.
        lower_bound: the largest sum of the bytes of those outside donated memory that are needed at
            the same time.
        n_donated: how many outputs took the memory of a donated input.
        bytes_donated: what they would take by themselves.
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
        """How much longer than the lower bound the result is: 1 is best."""
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
        return ", ".join(part for part in (f"{shared} {taken}".rstrip(), donated) if part)


def _show_bytes(n_bytes: int) -> str:
    """A number of bytes with a unit."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{n_bytes} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
