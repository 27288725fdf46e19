"""The numbers that the choices of Opts are made with, and what measured them.

`benchmarks/heuristics.py` measures kernels with half and with double of each: "half 1.24, double
1.02" says how many times as long those take whose opts differ, as a geometric mean, one thread,
vectors of 512 bits (AMD EPYC, 2026-11-22, on a busy machine, so that 5 % are no difference). A
number without such a line made no difference there, or is about a machine that was not there."""

from __future__ import annotations

__all__: list[str] = []

# Of all kernels.

MIN_THREADED_WORK = 1 << 15
"""Below this many steps, waking threads costs more than they save. Two threads: half 1.11, double
0.91, and nothing certain, since others used the cores."""

SLOW_STEPS = 8
"""So many steps an op counts as that takes much longer than an addition."""

MAX_PANEL_BYTES = 1 << 19
"""A panel lies on the stack of a thread, which has a few mebibytes."""

MIN_EXPECTED_GAIN = 0.1
"""The part of the time that the model of cost has to expect to be saved, before another candidate
than the first is taken. Of 14 lengths of rows, it then took what is 1.1 to 2.9 times as fast for
five, and nothing slower."""

# Of vectors.

VECTORS_OF_RESULTS = 4
"""Vectors of results that are computed at a time, so that their latencies overlap: half 1.03,
double 1.09.
"""

ROUND_COST = 1.0
"""What a round of a loop over tiles costs, in vectors of results that are soon computed."""

SHORT_ROWS = (8, 4, 2)
"""Rows shorter than a vector that are taken at a time, as many of them as divide the axis: images
of twice, three and four times the size took 0.33 to 0.6 of the time of one row at a time, images
whose channels go to the end 0.4."""

VECTORS_OF_SUMS = 8
"""The same where the results are sums, whose additions wait for each other: half 1.24, double 1.02.
Twice as many where half of the registers hold them, nothing is slow, and they divide the axis:
longer parts of each row are then read at once, which took 0.67 to 1.04 of the time for 14 kernels,
and 0.79 for columns of 4096 x 4096 in two threads."""

VECTORS_OF_TILES = 2
"""The same where the results are a tile, whose other side fills the registers: half 1.13, double
1.13.
"""

VECTORS_OF_TERMS = 4
"""Vectors of elements of one sum that are added at a time: half 1.15, double 1.01. Fewer where the
model of cost expects much less to be left over, since that is added up one by one."""

MIN_GATHERED_BYTES = 4
"""The narrowest element that processors gather."""

TRANSPOSED_TILE = 8
"""Rows and columns of a transposition that are taken at a time: half 1.23, double 1.30. Half or a
quarter where that divides both sides and this does not, which took 0.37 to 0.71 of the time of
tiles that overlap, for seven shapes."""

FEW_RESULTS = 4
"""Results of a tile along an axis that only shares loads of single elements: half 1.18, double
1.22.
"""

LONG_AXIS = 32
"""From this many tiles on, one that overlaps its neighbour does not count: half 1.00,
double 0.98.
"""

# Of panels.

MIN_PACKED_ROWS = 16
"""So many rows have to use a packed panel for the copy to pay: half 2.20, double 1.00."""

TILED_ROWS = 6
"""Rows that a tile of a packed product takes at least; its vectors are the wider for it, and other
rows are read less often: half 1.41, double 1.03."""

LOADS_OF_A_VECTOR = 1 / 3
"""What loading the other operand adds to the time of a tile that is one vector wide, as a part of
it: half 1.00, double 1.08.
"""

FEW_ROWS = 96
FEW_ROWS_OF_PARTS = 64
"""A product with fewer rows, or columns, reads two operands that lie along a long reduction where
they are; fewer still where that reduction has several short loops, or a rest that is no vector:
half 0.99, double 1.06. 64 rows of five layers of encoders took 0.68 to 0.97 of the time of a panel,
128 rows 0.9 to 1.2 (Intel Xeon, 2 threads)."""

MIN_DEEP_VECTORS = 16
"""A reduction of so many vectors makes up for adding the lanes of each result: half 0.97, double
1.07.
"""

VECTOR_COPY_COST = 8
ACROSS_COST = 1
"""Steps of a product in the time of copying a vector to a panel (half 1.00, double 1.03), and of
copying one element of rows that lie across it: 12 products of 128 to 512 rows took 1.02 to 1.19
times as long as those of a transposed matrix (Intel Xeon, 2 threads)."""

APART_COST = 4
CONFLICT_COST = 12
"""The same for a result that is stored alone, and where the rows of a panel are stored at distances
that share so few sets of the first cache that they push each other out: 9 such products took 1.12
to 2 times as long as those that store whole vectors."""

SINGLE_COST = 2
"""The same for an element that a product reads alone where it lies: half 1.10, double 1.00."""

FETCHING_COST = 0.1
"""What a product takes longer, as a part of its work, where a tile fetches so many lines of an
operand, here and there, that they fill half of the first cache: 512 rows took 1.27 to 1.34 times as
long as with a panel where the operands came from the third cache, and 1.0 to 1.05 times where they
were in the second (Intel Xeon, 2 threads)."""

FAR_ROWS_COST = 2
"""What a product with a panel of one operand takes longer, as a part of its work, where each step
reads the other one from another page: 32, 33, 64, 96 and 128 rows by 4096 x 4096 took three to six
times as long as with panels of the other (Intel Xeon, 2 threads)."""

# Of tensor cores.

MIN_GAIN = 1.25
"""So many times faster than vectors a core has to be, idle lanes counted."""

ROW_COST, GROUP_COST, ELEMENT_COST = 0.06, 0.5, 1.5
"""Cycles for packing an element where whole vectors lie together; for packing a group that does;
for other elements, and small groups that are widened as well."""

LOAD_COST = 0.25
"""The part of the time of loading a core's operands that is seen beside its work."""

PANEL_TILES = 8
"""Register tiles that use a packed part of a."""

# Of workgroups.

N_STEPS = 8
"""How many times as many work-items as run in step a workgroup has, so that some compute while
others wait.
"""

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
