"""Launcher of a batch of kernels.

Kernel objects and their arguments are created once; a run only enqueues them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pyopencl as cl

from svod_device import Dims, Launch
from svod_opencl.context import DeviceContext
from svod_opencl.program import OpenCLProgram, global_items, set_arguments

__all__ = ["OpenCLBatchLauncher"]


@dataclass(slots=True)
class _Entry:
    """A launch, its own kernel object, and the arguments set on that object."""

    launch: Launch
    kernel: cl.Kernel
    items: Dims
    addresses: array[int] = field(default_factory=lambda: array("Q"))
    values: array[int] = field(default_factory=lambda: array("q"))

    def refresh(self, context: DeviceContext) -> None:
        """Set the arguments again if they changed since the last run."""
        launch = self.launch
        # Setting arguments costs more than comparing them, and most launches repeat. A kernel
        # without buffers has nothing to compare with the first time.
        if self.addresses != launch.buffers or self.values != launch.values or not self.addresses:
            set_arguments(self.kernel, context, launch.buffers, launch.values)
            # Copies, since a launch's arrays are changed in place.
            self.addresses, self.values = launch.buffers[:], launch.values[:]


class OpenCLBatchLauncher:
    """Batch launcher of one device.

    Its queue runs launches in order, so groups need no barriers between them.
    """

    def __init__(self, context: DeviceContext) -> None:
        self.context = context

    def make_table(self, launches: Sequence[Launch]) -> list[_Entry]:
        entries: list[_Entry] = []
        for launch in launches:
            program = launch.program
            if not isinstance(program, OpenCLProgram) or program.context is not self.context:
                raise ValueError(f"program {program.name} is not loaded on {self.context.name}")
            entries.append(
                _Entry(
                    launch,
                    # A kernel object of its own keeps its arguments from one run to the next.
                    program.make_kernel(),
                    global_items(launch.global_size, launch.local_size),
                )
            )
        return entries

    def run(self, table: object) -> None:
        queue = self.context.queue
        for entry in cast("list[_Entry]", table):
            entry.refresh(self.context)
            # The queue runs commands in order, so launches that depend on each other need no
            # events.
            cl.enqueue_nd_range_kernel(queue, entry.kernel, entry.items, entry.launch.local_size)
        queue.flush()
