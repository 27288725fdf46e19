"""The machine that runs a layout."""

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
    """Runs the steps of a layout; `run` stops at each barrier."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.values = layout.initial

    def value_of(self, node: UOp) -> Any:
        found = self.values[self.layout.slot(node)]
        if isinstance(found, Poison):
            raise found.fail()
        return found

    def run_to_end(self) -> None:
        for _ in self.run():
            pass

    def run(self) -> Iterator[None]:
        with quiet():
            yield from self._run()

    def _run(self) -> Iterator[None]:
        code, values, place = self.layout.code, self.values, 0
        while place < len(code):
            step = code[place]
            kind = step[0]
            if kind == STEP:
                _, run, target, operands = step
                values[target] = run(*[values[o] for o in operands])
                place += 1
            elif kind == NEXT:
                _, slot, end, body = step
                values[slot] = values[slot] + 1
                place = body if values[slot] < values[end] else place + 1
            elif kind == LOOP:
                _, slot, start, end, after = step
                values[slot] = np.int64(0 if start is None else values[start])
                place = place + 1 if values[slot] < values[end] else after
            else:
                place += 1
                yield
