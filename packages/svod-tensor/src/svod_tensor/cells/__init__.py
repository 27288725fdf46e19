"""Storage cells: the variables behind tensors, their aliases, and the order of reads and writes.

A tensor is a storage cell or a view of one. A cell (`cell.Cell`) holds one node of the graph: its
present value. Nodes are immutable, so a cell is to nodes what a variable is to the values of static
single assignment: a write changes no node, it gives the cell another one.

Terms:

- **Path**: the movement steps from a cell to a view of it (`views`). Two tensors on one cell are
  aliases, and each sees what the other one writes.
- **Version**: memory has a version for each write. The first is a BUFFER node; each later one is an
  AFTER node over the ASSIGN that makes it (`svod_tensor.engine.states`). A version whose write is
  not computed yet is pending. A node reads the same version for ever.
- **Reader**: a live cell whose graph reads a version.
- **Hazard**: write after read. A reader that is computed after the write would see the new
  elements, so readers are computed together with the write or before it (`overwriting`).
- **Computation**: what a thread compiles and executes now, with the storages that it touches and
  those that it writes (`registry.Computation`).

Invariants:

1. A node never changes its meaning. After a write was computed, the cell that owns the memory holds
   a new BUFFER node for the same buffer, and graphs on the former node read a copy of the former
   elements.
2. Memory is written only through the cell that owns it. A cell that shares memory with another cell
   or with a numpy array gets memory of its own first (`writing.make_own`, `lending`, `loans`).
3. No computation writes a storage that a computation of another thread touches.
4. The tables of live cells (`tables`) hold weak references: a tensor without references leaves, and
   its buffer is freed with its BUFFER node.
5. The result of a program does not depend on the moment at which something is computed. `growth`
   relies on this when it computes graphs that have become too large.

Locks: `tables.lock` (`registry.lock` is the same object) is reentrant and guards nodes of cells, the
tables, and the list of computations. It is taken before the locks of plans and allocators.
Compilation and execution do not hold it, except for the small plans of `known_work`, which run
within microseconds. A thread that would get in the way of a running computation waits on the lock's
condition and then decides again from the beginning.

The life of one write, `x[1:3] = v`:

1. `ops.interface.assignment.write` checks shape, dtype and device, and calls
   `writing.write(cell, path, value)`.
2. `writing._can_overwrite` decides between memory and value. A cell that owns writable memory gets
   a pending version, `AFTER(memory, ASSIGN(view of it, v))`. Any other cell gets a new value, the
   old one with `v` in its place, and no memory changes.
3. `cell.set_node` makes it the cell's value. Aliases see it, since they follow their paths from the
   cell's node; tensors that were computed from `x` before keep the former version.

A later read, `y.numpy()`, where the graph of `y` reads the new version:

4. `_realize.realize_tensors` calls `work.start_work`. Under the lock, `work._enter` builds the graph
   of `y`, adds the readers of the overwritten version (`overwriting.list_overtaken`), and registers
   the computation, or waits for one that is in the way (`registry.start_computation`).
5. Without the lock, `engine.compute.make_plan` and `execute` compile and run the program. In it,
   readers come before the write that overwrites what they read.
6. Under the lock again, `work.adopt_outputs` puts the results into the cells, and
   `overwriting.settle` marks the version as computed, gives its owner the new BUFFER, and rewrites
   pending graphs that were built meanwhile. `registry.end_computation` wakes the threads that wait.
"""
