"""The numbers that the choices of Opts are made with."""

from __future__ import annotations

__all__: list[str] = []

# Of all kernels.

MIN_THREADED_WORK = 1 << 15
"""Below this many steps, waking threads costs more than they save."""

SLOW_STEPS = 8
"""So many steps an op counts as that takes much longer than an addition."""

MAX_PANEL_BYTES = 1 << 19
"""A panel lies on the stack of a thread, which has a few mebibytes."""

# Of vectors.

VECTORS_OF_RESULTS = 4
"""Vectors of results that are computed at a time, so that their latencies overlap."""

VECTORS_OF_SUMS = 8
"""The same where the results are sums, whose additions wait for each other."""

VECTORS_OF_TILES = 2
"""The same where the results are a tile, whose other side fills the registers."""

VECTORS_OF_TERMS = 4
"""Vectors of elements of one sum that are added at a time."""

MIN_GATHERED_BYTES = 4
"""The narrowest element that processors gather."""

TRANSPOSED_TILE = 8
"""Rows and columns of a transposition that are taken at a time."""

FEW_RESULTS = 4
"""Results of a tile along an axis that only shares loads of single elements."""

LONG_AXIS = 32
"""From this many tiles on, one that overlaps its neighbour does not count."""

# Of panels.

MIN_PACKED_ROWS = 16
"""So many rows have to use a packed panel for the copy to pay."""

TILED_ROWS = 6
"""Rows that a tile of a packed product takes at least; its vectors are the wider for it, and other rows are read less often."""

LOADS_OF_A_VECTOR = 1 / 3
"""What loading the other operand adds to the time of a tile that is one vector wide, as a part of it."""

FEW_ROWS = 64
"""A product with fewer rows, or columns, reads two operands that lie along a long reduction where they are."""

MIN_DEEP_VECTORS = 16
"""A reduction of so many vectors makes up for adding the lanes of each result."""

VECTOR_COPY_COST = 8
SINGLE_COST = 2
"""Steps of a product in the time of copying a vector to a panel, and of copying or storing one element."""

# Of tensor cores.

MIN_GAIN = 1.25
"""So many times faster than vectors a core has to be, idle lanes counted."""

ROW_COST, GROUP_COST, ELEMENT_COST = 0.06, 0.5, 1.5
"""Cycles for packing an element where whole vectors lie together; for packing a group that does; for other elements, and small
groups that are widened as well."""

LOAD_COST = 0.25
"""The part of the time of loading a core's operands that is seen beside its work."""

PANEL_TILES = 8
"""Register tiles that use a packed part of a."""

# Of workgroups.

N_STEPS = 8
"""How many times as many work-items as run in step a workgroup has, so that some compute while others wait."""

N_GROUPS = 2
"""How many workgroups there should be for each core before work-items get more to do."""

TILES = ((8, 8), (8, 4), (4, 4), (2, 4), (2, 2), (1, 1))
"""Rows and columns of a product that a work-item computes."""

DEPTHS = (16, 8, 4)
"""Steps of a product for which tiles are copied at a time."""

MIN_SIDE = 16
"""Products with fewer rows or columns than this are reductions that read one operand again."""

SEGMENT_BYTES = 32
"""What is moved at least where a line of memory is used in part."""
