"""The grammar: every operation of random programs."""

from __future__ import annotations

from typing import Final

from svod_tensor.testing.programs.elementwise import ELEMENTWISE
from svod_tensor.testing.programs.movement import LEAVES, MOVEMENT, make_data
from svod_tensor.testing.programs.operation import Operation
from svod_tensor.testing.programs.places import PLACES
from svod_tensor.testing.programs.reductions import REDUCTIONS

__all__ = ["OPERATIONS", "make_data"]

OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation for operation in (*LEAVES, *ELEMENTWISE, *MOVEMENT, *REDUCTIONS, *PLACES)
}
