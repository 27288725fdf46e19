"""Names of the captured functions that plans are made for, and counts of their calls: which kernels
matter in a run is known only at its end.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["PlanUse", "find_plan_use", "noting_plan_use"]


class _Counted(Protocol):
    """Part of the interface of a capture."""

    @property
    def n_calls(self) -> int: ...
    @property
    def n_quick_calls(self) -> int: ...


class PlanUse:
    """Use of a plan by a captured function.

    Attributes:
        name: the name of the function.
        captured: the capture, which counts the calls; None until it is complete.
    """

    __slots__ = ("captured", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.captured: _Counted | None = None

    def count_calls(self) -> int:
        """Number of calls so far; at least 1."""
        captured = self.captured
        return 1 if captured is None else max(captured.n_calls + captured.n_quick_calls, 1)


_use: Final[ContextVar[PlanUse | None]] = ContextVar("use", default=None)


@contextmanager
def noting_plan_use(name: str) -> Generator[PlanUse]:
    """Note that plans which are made in the block are for the captured function `name`."""
    use = PlanUse(name)
    token = _use.set(use)
    try:
        yield use
    finally:
        _use.reset(token)


def find_plan_use() -> PlanUse | None:
    """The use of the plan that is being made; None outside of captured functions."""
    return _use.get()
