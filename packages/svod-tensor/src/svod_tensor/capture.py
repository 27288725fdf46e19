"""What is going on while `svod_tensor.jit` runs a function to find out what it computes.

A capture belongs to the thread that runs the function. Meanwhile nothing can be computed, and each
assignment is recorded, so that it becomes part of the plan, or is taken back if the capture fails.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING

from svod_tensor import registry
from svod_tensor.errors import CaptureError

if TYPE_CHECKING:
    from svod_ir.uop import UOp
    from svod_tensor.ops.base import TensorBase

__all__ = ["Capture", "check_not_capturing", "find_capture", "start_capture"]


class Capture:
    """The writes of one run of a function.

    Attributes:
        name: of the function.
        states: the last pending state of each BUFFER that was assigned to.
        assigned: every state that an assignment of it leads to, and the one before the first of them.

    Until the capture ends, no other thread computes what depends on such a state: it was made from placeholders.
    """

    def __init__(self, name: str, alive: dict[int, TensorBase]) -> None:
        self.name = name
        self.states: dict[UOp, UOp] = {}
        self._alive = alive
        self._undo: list[tuple[weakref.ref[TensorBase], UOp]] = []
        self.assigned: dict[UOp, UOp] = {}
        self._computation: registry.Computation | None = None

    def record_move(self, tensor: TensorBase, old: UOp) -> None:
        """Remember what `tensor` stood for."""
        self._undo.append((weakref.ref(tensor), old))

    def record_state(self, state: UOp, before: UOp) -> None:
        """Remember an assignment, which leads from one state of a BUFFER to another; the caller holds `registry.lock`."""
        memory = state.src[0]
        self.states[memory] = state
        self.assigned[state] = self.assigned.get(before, before)
        buffer = registry.find_buffer(memory)
        if buffer is not None:
            self._computation = registry.extend_computation(self._computation, buffer.storage_id)

    def end(self) -> None:
        """Let other threads compute with what was assigned to."""
        if self._computation is not None:
            registry.end_computation(self._computation)

    def check_has_memory(self, tensor: TensorBase) -> None:
        """Raise if a write to a tensor without memory would be lost after this run."""
        if self._alive.get(id(tensor)) is tensor:
            raise CaptureError(
                function=self.name,
                problem=f"it assigns to a tensor of shape {tensor.shape} that has no memory yet",
                hint="realize the tensor before, so that there is memory for what is assigned",
            )

    def take_back(self) -> None:
        """Let every tensor stand for what it stood for before."""
        for ref, node in reversed(self._undo):
            tensor = ref()
            if tensor is not None:
                tensor.set_node(node)
        # Other threads may have made tensors of what was assigned.
        registry.replace_nodes(self.assigned)


class _Active(threading.local):
    capture: Capture | None = None


_active = _Active()


def find_capture() -> Capture | None:
    """The capture that this thread is running, or None."""
    return _active.capture


def check_not_capturing(action: str) -> None:
    """Raise if this thread is running a capture, during which `action` is impossible.

    Raises:
        CaptureError: if it is.
    """
    if _active.capture is not None:
        raise CaptureError(
            function=_active.capture.name,
            problem=f"it {action} while it is captured",
            hint="compute with tensors instead, as with x.where(...), or move this out of the function",
        )


@contextlib.contextmanager
def start_capture(name: str, alive: dict[int, TensorBase]) -> Generator[Capture]:
    """Record what this thread does to tensors; `alive` are those that were there before, by id."""
    capture = Capture(name, alive)
    _active.capture = capture
    try:
        yield capture
    except BaseException:
        capture.take_back()
        raise
    finally:
        _active.capture = None
        capture.end()
