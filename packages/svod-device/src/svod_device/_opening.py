"""`Opening`: a device from its first use until it is lost or closed.

All that a plugin made for a device is called through `guarded`. So whatever notices first that a
device is gone, a copy, a launch or a wait, raises a `DeviceLostError` that says what was being
done, and from then on so does everything else on that opening: no address of it reaches the plugin
again, also after the device was opened anew."""

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
_openings: weakref.WeakSet[Opening] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class _Loss:
    """Why an opening cannot be used any more; `operation` is what noticed it, None where nothing
    was going on.
    """

    problem: str
    operation: str | None


class Opening:
    """One opening of a device; `serial` is a number that no other one of this process has."""

    def __init__(self, device: str, synchronize: Callable[[], None]) -> None:
        self.device, self.serial = device, next(_serials)
        self._synchronize = synchronize
        self._loss: _Loss | None = None
        _openings.add(self)

    def __repr__(self) -> str:
        return f"Opening({self.device}, {'in use' if self._loss is None else self._loss.problem})"

    @property
    def is_lost(self) -> bool:
        """Whether it can never be used again."""
        return self._loss is not None

    def lose(self, problem: str, operation: str | None = None) -> None:
        """Let every use fail from now on; what was said first stays."""
        if self._loss is None:
            self._loss = _Loss(problem, operation)

    def check(self, operation: str) -> None:
        """Do nothing, as long as the device is there.

        Raises:
            DeviceLostError: if it is lost or was closed.
        """
        if self._loss is not None:
            problem, earlier = self._loss.problem, self._loss.operation
            raise DeviceLostError(
                device=self.device, problem=problem, operation=operation, earlier=earlier
            )

    def fail(self, operation: str, error: Exception, *, is_certain: bool = False) -> NoReturn:
        """Raise what a caller gets for an error of the plugin.

        An error of a device that can still be waited for is the operation's own, and is raised as
        it is.

        Raises:
            DeviceLostError: if the device is lost, as is certain, the error itself says, or waiting
                for the device shows.
        """
        if not is_certain and not isinstance(error, DeviceLostError) and self._can_wait():
            raise error
        problem = error.problem if isinstance(error, DeviceLostError) else _describe(error)
        if self._loss is None:
            self.lose(problem, operation)
        raise DeviceLostError(device=self.device, problem=problem, operation=operation) from error

    def _can_wait(self) -> bool:
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
        opening.lose("the process that opened it is the parent of this one, which os.fork made")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
