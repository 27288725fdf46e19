"""Runs what may never end: a plugin that waits for itself must fail a test, and not stop all of
them.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

from svod_device._protocols import Allocator
from svod_device._wrapped import WrappedAllocator

__all__ = ["get_plugin_allocator", "run_with_limit"]


def get_plugin_allocator(allocator: Allocator) -> Allocator:
    """What the plugin's factory made, without what guards it."""
    opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None
    while (
        opening is not None
        and isinstance(allocator, WrappedAllocator)
        and allocator.opening is opening
    ):
        allocator = allocator.inner
    return allocator


def run_with_limit(
    allocator: Allocator, limit_s: float, work: Callable[[], None], problem: str
) -> None:
    """Run `work` in a thread of its own, and raise its error here.

    Raises:
        AssertionError: with `problem` and the place where it waits, if it takes longer than the
            limit. The device counts as lost then: every use of it fails at once instead of waiting
            as well.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        if isinstance(allocator, WrappedAllocator) and allocator.opening is not None:
            allocator.opening.lose(problem)
        frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
        place = "".join(traceback.format_stack(frame)) if frame is not None else ""
        raise AssertionError(f"{problem}: no end after {limit_s:g} s\n{place}")
    if errors:
        raise errors[0]
