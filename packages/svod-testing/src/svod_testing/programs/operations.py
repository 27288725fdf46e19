"""The grammar: every operation of random programs."""

from __future__ import annotations

from typing import Final

from svod_testing.programs.arrangement import ARRANGEMENT
from svod_testing.programs.elementwise import ELEMENTWISE
from svod_testing.programs.functions import FUNCTIONS
from svod_testing.programs.layers import LAYERS
from svod_testing.programs.movement import LEAVES, MOVEMENT, make_data
from svod_testing.programs.nans import NANS
from svod_testing.programs.operation import Drawable
from svod_testing.programs.places import PLACES
from svod_testing.programs.reductions import REDUCTIONS
from svod_testing.programs.samples import SAMPLES
from svod_testing.programs.searching import SEARCHING
from svod_testing.programs.writes import WRITES

__all__ = ["OPERATIONS", "make_data"]

_GROUPS: Final = (
    *LEAVES,
    *ELEMENTWISE,
    *FUNCTIONS,
    *MOVEMENT,
    *ARRANGEMENT,
    *REDUCTIONS,
    *NANS,
    *LAYERS,
    *PLACES,
    *SAMPLES,
    *SEARCHING,
    *WRITES,
)

OPERATIONS: Final[dict[str, Drawable]] = {operation.name: operation for operation in _GROUPS}
