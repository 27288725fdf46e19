"""Interpreter of the steps of a layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from svod_ir._arithmetic import quiet
from svod_ir.evaluate.layout import LOOP, NEXT, STEP, Layout
from svod_ir.evaluate.memory import Poison
from svod_ir.uop import UOp

__all__ = ["Machine"]


class Machine:
    """Interpreter of the steps of a layout; `run` yields at each barrier."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.values = layout.initial

    def value_of(self, node: UOp) -> Any:
        value = self.values[self.layout.slot(node)]
        if isinstance(value, Poison):
            raise value.fail()
        return value

    def run_to_end(self) -> None:
        for _ in self.run():
            pass

    def run(self) -> Iterator[None]:
        with quiet():
            yield from self._run()

    def _run(self) -> Iterator[None]:
        # A flat list with jumps instead of nested calls: a work-item can be suspended at a barrier
        # inside of loops, and deep nests need no recursion.
        code, values, counter = self.layout.code, self.values, 0
        while counter < len(code):
            step = code[counter]
            kind = step[0]
            if kind == STEP:
                _, run, target, operands = step
                values[target] = run(*[values[o] for o in operands])
                counter += 1
            elif kind == NEXT:
                _, slot, end, body = step
                values[slot] = values[slot] + 1
                counter = body if values[slot] < values[end] else counter + 1
            elif kind == LOOP:
                _, slot, start, end, after = step
                # 64 bits whatever the dtype: the end of a loop is compared without wrapping.
                values[slot] = np.int64(0 if start is None else values[start])
                counter = counter + 1 if values[slot] < values[end] else after
            else:
                counter += 1
                yield
