"""Openings: the lifetime of a device from its first use until it is lost or closed.

The wrappers in `_guarded` call all objects of a plugin. The first copy, launch or wait that detects
a loss raises a `DeviceLostError` with its operation. Afterwards every use of this opening raises:
none of its addresses reaches the plugin again, even if the device is opened again.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import NoReturn

from svod_device.errors import DeviceLostError

__all__ = ["Opening"]

_serials = count(1)
# For the fork hook only; weak, so that closed openings can be freed.
_openings: weakref.WeakSet[Opening] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class _Loss:
    """Reason why an opening is unusable. `operation` detected the loss; None if the device was
    closed.
    """

    problem: str
    operation: str | None


class Opening:
    """Opening of a device. `serial` is unique in this process."""

    def __init__(self, device: str, synchronize: Callable[[], None]) -> None:
        self.device, self.serial = device, next(_serials)
        self._synchronize = synchronize
        self._loss: _Loss | None = None
        _openings.add(self)

    def __repr__(self) -> str:
        return f"Opening({self.device}, {'in use' if self._loss is None else self._loss.problem})"

    @property
    def is_lost(self) -> bool:
        """True if the device was lost or closed; this is final."""
        return self._loss is not None

    def lose(self, problem: str, operation: str | None = None) -> None:
        """Mark the opening as lost. The first reason is kept."""
        if self._loss is None:
            self._loss = _Loss(problem, operation)

    def check(self, operation: str) -> None:
        """Check that the device can be used.

        Raises:
            DeviceLostError: if it was lost or closed.
        """
        if self._loss is not None:
            problem, earlier = self._loss.problem, self._loss.operation
            raise DeviceLostError(
                device=self.device, problem=problem, operation=operation, earlier=earlier
            )

    def fail(self, operation: str, error: Exception, *, is_certain: bool = False) -> NoReturn:
        """Raise the caller's error for an error of the plugin.

        If the device still synchronizes, only the operation failed, and its error is raised as is.

        Raises:
            DeviceLostError: if the device is lost: if `is_certain` is true, the error is a
                `DeviceLostError`, or synchronizing the device fails.
        """
        if not is_certain and not isinstance(error, DeviceLostError) and self._can_wait():
            raise error
        problem = error.problem if isinstance(error, DeviceLostError) else _describe(error)
        # Another thread may have reported the loss first, with the original cause.
        if self._loss is None:
            self.lose(problem, operation)
        raise DeviceLostError(device=self.device, problem=problem, operation=operation) from error

    def _can_wait(self) -> bool:
        # No call reaches the plugin after a loss: it could block, or use a freed connection.
        if self.is_lost:
            return False
        try:
            self._synchronize()
        except Exception:
            return False
        return True


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _leave_to_parent() -> None:
    for opening in list(_openings):
        # The child has copies of the addresses, but no connection to the device.
        opening.lose("it was opened by the parent process, before os.fork")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
