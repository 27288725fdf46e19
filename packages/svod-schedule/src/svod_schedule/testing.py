"""What tests of compiled programs need of the compiler."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from svod_schedule.optimize import constants

__all__ = ["using_threads_from"]


@contextmanager
def using_threads_from(least_work: int) -> Generator[None]:
    """Let kernels of so many steps or more be split over threads, in this process, whether it pays or not."""
    before, constants.MIN_THREADED_WORK = constants.MIN_THREADED_WORK, least_work
    try:
        yield
    finally:
        constants.MIN_THREADED_WORK = before
