"""Storage cells: the variables behind tensors, their aliases, and the order of reads and writes.

A tensor is a storage cell or a view of one. A cell (`cell.Cell`) holds one node of the graph: its
present value. Nodes are immutable, so a cell is the variable behind SSA values: a write does not
change a node, it makes another node the value of the cell.

Terms:

- **Path**: the movement steps from a cell to a view of it (`views`). Two tensors on one cell are
  aliases, and each sees the writes of the other.
- **Version**: memory has a version for each write. The first is a BUFFER node; each later one is an
  AFTER node over its ASSIGN (`svod_tensor.engine.versions`). A version whose write is not computed
  yet is pending. A node always reads the same version.
- **Reader**: a live cell whose graph reads a version.
- **Hazard**: write after read. A reader that is computed after the write would see the new
  elements, so readers are computed together with the write or before it (`overwriting`).
- **Commit**: after a write was computed, its owner gets a new BUFFER, and pending graphs are
  rebound to it (`overwriting.commit_writes`). The former BUFFER is invalidated; graphs that still
  read it are stale (`overwriting.resolve_stale_nodes`).
- **Computation**: the compilation and execution of one program by a thread, with the storages that
  it touches and the storages that it writes (`registry.Computation`).

Invariants:

1. A node never changes its meaning. After a write was committed, the cell that owns the memory
   holds a new BUFFER node for the same buffer, and graphs on the former node read a copy of the
   former elements.
2. Memory is written only through the cell that owns it. A cell that shares memory with another cell
   or with a numpy array gets memory of its own first (`writing.make_own`, `lending`, `loans`).
3. No computation writes a storage that a computation of another thread touches.
4. The tables of live cells (`tables`) hold weak references: a tensor without references leaves, and
   its buffer is freed with its BUFFER node.
5. The result of a program does not depend on when a tensor is computed. `growth` relies on this
   when it computes graphs that have become too large.

Locks: `tables.lock` (`registry.lock` is the same object) is reentrant and guards nodes of cells,
the tables, and the list of computations. It is taken before the locks of plans and allocators.
Compilation and execution do not hold it, except for the small plans of `known_work`, which run
within microseconds. A thread whose computation conflicts with a running one waits on the lock's
condition and then decides again from the beginning.

The life of one write, `x[1:3] = v`:

1. `ops.interface.assignment.write` checks shape, dtype and device, and calls
   `writing.write(cell, path, value)`.
2. `writing._can_overwrite` decides between memory and value. A cell that owns writable memory gets
   a pending version, `AFTER(memory, ASSIGN(view of it, v))`. Any other cell gets a new value, the
   old one with `v` in the selected elements, and no memory changes.
3. `cell.set_node` makes it the cell's value. Aliases see it, since they follow their paths from the
   cell's node; tensors that were computed from `x` before keep the former version.

A later read, `y.numpy()`, where the graph of `y` reads the new version:

4. `_realize.realize_tensors` calls `work.start_work`. Under the lock, `work._try_start` builds the
   graph of `y`, adds the readers of the overwritten version
   (`overwriting.list_readers_of_overwritten`), and registers the computation, or waits for a
   conflicting one (`registry.start_computation`).
5. Without the lock, `engine.compute.make_plan` and `execute` compile and run the program. In it,
   readers run before the write that overwrites the memory they read (`_order_writes` of the pass
   `cut-kernels`; the pass `protect-assigned` copies where no order works).
6. Under the lock again, `work.adopt_outputs` binds the results to the cells, and
   `overwriting.commit_writes` marks the version as committed, gives its owner the new BUFFER, and
   rebinds pending graphs that were built meanwhile. `registry.end_computation` wakes the waiting
   threads.
"""
