"""Time limits for tests: a plugin that deadlocks fails one test instead of blocking the suite."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

from svod_device._protocols import Allocator
from svod_device._wrapped import WrappedAllocator

__all__ = ["get_plugin_allocator", "run_with_limit"]


def get_plugin_allocator(allocator: Allocator) -> Allocator:
    """Return the plugin's own allocator, without the guards around it."""
    opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None
    # A plugin may return a wrapped allocator of its own, which has no opening.
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
    """Run `work` in a thread, and raise its exception in the caller.

    Raises:
        AssertionError: if it exceeds the limit. The message has `problem` and the thread's stack.
            The device is marked as lost, so that later uses fail at once instead of blocking too.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    # A daemon, since a blocked thread cannot be ended and must not block the process's exit.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        if isinstance(allocator, WrappedAllocator) and allocator.opening is not None:
            allocator.opening.lose(problem)
        frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        raise AssertionError(f"{problem}: timed out after {limit_s:g} s\n{stack}")
    if errors:
        raise errors[0]
