"""Constants of the heuristics, with the measurements behind them.

`benchmarks/heuristics.py` measures kernels with half and with double of each constant: "half 1.24,
double 1.02" is the relative time of the kernels whose opts differ, as a geometric mean, with one
thread and vectors of 512 bits (AMD EPYC, 2026-11-22, on a busy machine: 5 % is noise). A constant
without such a line made no difference there, or concerns hardware that was not available."""

from __future__ import annotations

__all__: list[str] = []

# All kernels.

MIN_THREADED_WORK = 1 << 15
"""Minimum number of steps for which waking threads pays. Two threads: half 1.11, double 0.91, but
uncertain, since other processes used the cores."""

SHARED_LINE_COST = 512
"""Time in which a thread waits for a cache line that another thread writes to, in bytes of results that
one step computes."""

MAX_IMBALANCE = 0.05
"""Fraction of the work that threads may repeat, or of the time that they may wait, before another loop is
split instead."""

MIN_PART_WORK = 1 << 16
"""Minimum number of steps of a part, where there are more parts than threads."""

UNEVEN_COST = 0.2
"""Fraction of the time that threads are expected to wait for a slow one if each gets one part; it is
inversely proportional to the number of parts."""

FETCHED_BYTE_COST = 5
"""Time in which a thread waits for a byte of an operand that the cache of another core holds, in steps
of a product. With it, the rows of an image are shared where it takes more memory than the filters:
then a core mostly reads what it has written."""

MIN_UPDATED_BYTES = 1 << 11
"""Minimum part of each updated row for a thread. With less, the threads wait for the cache lines that
they share, and read all indices: rows of 92 bytes took two to five times as long on two threads, rows
of 2 KB as long as on one, rows of 4 KB half as long."""

SLOW_STEPS = 8
"""Weight, in steps, of an op that takes much longer than an addition."""

MAX_PANEL_BYTES = 1 << 19
"""Maximum size of a panel. It is on the stack of a thread, which has a few mebibytes."""

MIN_EXPECTED_GAIN = 0.1
"""Relative saving that the cost model must predict before a candidate replaces the preferred one.
Of 14 row lengths, it then chose a candidate that is 1.1 to 2.9 times faster for five, and a slower
one for none."""

# Vectors.

VECTORS_OF_RESULTS = 4
"""Vectors of results per iteration, so that their latencies overlap: half 1.03, double 1.09."""

VECTORS_OF_UPDATES = 4
UPDATE_COST = 3
"""Maximum number of vectors of a row that an update changes at a time, and the overhead of an update,
in vectors: its index is read and compared with the bounds."""

SPLIT_VECTOR_BITS = 256
"""Size of the narrowest vectors that are aligned to their size in memory."""

ALIGNED_EXCESS = 1.25
"""Maximum number of elements of aligned tiles, relative to the size of a row."""

ROUND_COST = 1.0
"""Overhead of an iteration of a loop over tiles, in vectors of inexpensive results; half of it for
expensive ones. With half for all, rows of 150 to 200 elements that are copied and scaled took 1.2
times as long; with the whole for all, tanh of 33 to 48 elements did."""

SHORT_ROWS = (8, 4, 2)
"""Numbers of rows shorter than a vector that are computed at a time, the first one that divides the
axis. Against one row at a time, resizing images by two, three and four was 1.7 to 3 times faster,
and moving channels to the last axis 2.5 times."""

VECTORS_OF_SUMS = 8
"""The same where the results are sums, whose additions depend on each other: half 1.24, double
1.02. Doubled where half of the registers hold them, no op is slow, and they divide the axis: longer
runs of each row are then read at once. For 14 kernels this was up to 1.5 times faster and at most
4 % slower, and 1.27 times faster for columns of 4096 x 4096 in two threads."""

VECTORS_OF_TILES = 2
"""The same for a register tile, whose other side fills the registers: half 1.13, double 1.13."""

VECTORS_OF_TERMS = 4
"""Vectors of elements of one sum per iteration: half 1.15, double 1.01. Fewer where the cost model
predicts a much shorter tail, since its elements are added one by one."""

MIN_GATHERED_BYTES = 4
"""Size of the narrowest element for which processors have a gather instruction."""

TRANSPOSED_TILE = 8
"""Rows and columns of a transposition per tile, which is transposed in registers. With tiles of 16,
bytes took 0.5 to 0.9 times as long, and rows of 4 KB and more, which evict each other, of 16 and 32
bits 0.5 to 1.1 times; everything else took 1.1 to 2 times as long. Half or a quarter where only that
divides both sides, which was up to 1.4 times faster than overlapping tiles, and slower for two of
eleven shapes."""

FEW_LANES = 4
"""Minimum length of an axis that is vectorized although the results along it are scattered, where it
is half of a vector; one more on a wider vector. With 2 and 3 rows, x.T @ w.T took 1.2 to 4 times as
long as with lanes along the reduced axis, with 5 to 16 rows a half to a tenth."""

FEW_RESULTS = 4
"""Size of a register tile along an axis that only shares scalar loads: half 1.18, double 1.22."""

TILE_COST = 1
"""Overhead of a register tile, in rows: the vectors that its rows share are loaded for each tile."""

# Panels.

STREAMED_ROWS = 32
"""Maximum number of rows of a product for which a large operand is read in order
(`lower.stream_rows`) instead of packed. Of 16 and 32 rows by 4,096 x 4,096 floats, packing took 1.6
and 1.2 times as long, of 64 rows 0.9 times."""

STREAMED_TILE = 8
"""Maximum number of rows of a register tile whose large operand is read in order, which leaves
registers for the sums of a block. Of 16 rows, tiles of 16 took twice as long as tiles of 8. Up to so
many rows, floats are streamed where a tensor core would need packing: a core took 1.5, 1.1 and 0.8
times as long for 4, 8 and 16 rows by 4,096 x 4,096 bfloat16."""

MIN_PACKED_ROWS = 16
"""Minimum number of rows that use a panel for which packing it pays: half 2.20, double 1.00."""

TILED_ROWS = 6
"""Minimum number of rows of a register tile of a packed product, which bounds its width: half 1.41,
double 1.03.
"""

LOADS_OF_A_VECTOR = 1 / 3
"""Relative cost of loading the other operand for a tile that is one vector wide: half 1.00, double
1.08.
"""

WIDENED_LOADS = 3
"""Factor of that cost for an operand that is converted to a wider dtype."""

FEW_ROWS = 96
FEW_ROWS_OF_PARTS = 64
"""A product with fewer rows (or columns) reads its operands in place if both are contiguous along a
long reduction. The second limit is for a reduction of several short loops, or one with a tail that
is no vector: half 0.99, double 1.06. For five encoder layers, 64 rows were up to 1.5 times faster
than with a panel, 128 rows between 1.1 times faster and 1.2 times slower (Intel Xeon, 2 threads)."""

MIN_DEEP_VECTORS = 16
"""Minimum number of vectors of a reduction that makes up for the horizontal sum of each result: half
0.97, double 1.07.
"""

VECTOR_COPY_COST = 8
ACROSS_COST = 1
"""Cost, in steps of a product, of copying a contiguous vector to a panel (half 1.00, double 1.03),
and of copying one element of rows that run across the panel, in squares that are transposed in
registers: 12 products of 128 to 512 rows took 1.02 to 1.19 times as long as products of a transposed
matrix (Intel Xeon, 2 threads)."""

HORIZONTAL_COST = 2
TAIL_COST = 1.6
"""The same for each of the log2(lanes) additions that sum up the lanes of a result, and for an element
of a tail that fills no vector. With these, a panel was chosen for 36 of 66 products of 3 to 40 rows by
a transposed weight, 1.05 to 7 times as fast as lanes along the reduction (Intel Xeon, one thread)."""

TRANSPOSED_COST = 1
APART_COST = 4
CONFLICT_COST = 12
"""The same for a result of a tile that is transposed in registers; for one that is stored as a scalar;
and for one whose neighbours are so far apart that they map to few sets of the L1 cache and evict
each other: 9 such products took 1.12 to 2 times as long as products that store whole vectors."""

SINGLE_COST = 2
"""The same for an element that a product loads in place as a scalar: half 1.10, double 1.00."""

FETCHING_COST = 0.1
"""Relative slowdown of a product whose tile reads so many scattered lines of an operand that they
fill half of the L1 cache: 512 rows took 1.27 to 1.34 times as long as with a panel where the
operands came from the L3 cache, and 1.0 to 1.05 times where they were in L2 (Intel Xeon, 2
threads)."""

SPLIT_COST = 0.05
"""Relative slowdown of a product that loads vectors of an operand in place, if its rows are no
multiple of a cache line, so that a vector has parts of two."""

FAR_ROWS_COST = 2
"""Relative slowdown of a product with a panel of one operand, if each step reads the second operand
from another page: 32, 33, 64, 96 and 128 rows by 4096 x 4096 took three to six times as long as
with panels of the second operand (Intel Xeon, 2 threads)."""

# Tensor cores.

# The means of this part are over products of 1 to 1024 rows in bytes, int16 and bfloat16, on the
# same kind of machine (AVX-512 with VNNI and BF16).

MIN_GAIN = 1.25
"""Minimum predicted speedup over vectors for which a core is used, idle lanes included: half 0.88,
double 1.76. Half is better for one row and worse for four rows of transposed operands."""

ROW_COST, GROUP_COST, ELEMENT_COST = 0.06, 0.5, 1.5
"""Cycles for packing an element of contiguous vectors (half 0.64, double 1.18: only products of one
to eight rows differ); for packing a contiguous group of elements (half 1.42, double 1.64); for any
other element, and for small groups that are also widened (half 1.00, double 1.98)."""

LOAD_COST = 0.25
"""Fraction of the time of loading a core's operands that its arithmetic does not hide: half 0.89,
double 1.02. Half is better for 100 rows, and makes no difference for 256."""

FEW_TILES = 2
"""Maximum number of tiles along the rows for which each tile interleaves the columns in registers,
instead of packing them for all. Of 768 x 3,072 bytes, int16 and bfloat16, packing took 1.2 to 1.4
times as long for one tile of a symbolic number of rows, 0.96 to 1.36 times for two tiles, 0.8 to
1.2 times for four (AMD EPYC, one thread)."""

PANEL_TILES = 8
"""Register tiles that reuse a packed block of `a`."""

# Workgroups.

N_STEPS = 8
"""Lockstep groups (warps) per workgroup, so that some compute while others wait."""

N_GROUPS = 2
"""Workgroups per core that must remain when a work-item gets a larger tile."""

TILES = ((8, 8), (8, 4), (4, 4), (2, 4), (2, 2), (1, 1))
"""Candidate tiles of a work-item: rows and columns of a product, the largest first."""

DEPTHS = (16, 8, 4)
"""Candidate numbers of reduction steps whose operands are copied to shared memory at a time."""

MIN_SIDE = 16
"""Minimum number of rows and columns of a product; smaller ones are treated as reductions."""

SEGMENT_BYTES = 32
"""Minimum number of bytes transferred per partially used cache line."""
