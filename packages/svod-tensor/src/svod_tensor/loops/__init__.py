"""Structured control flow: loops over tensors, branches, and functions built on them.

`scan`, `fori_loop`, `while_loop`, `cond` and `switch` have the semantics and the argument order of
`jax.lax`. A function is traced once, on tensors without values (`tracing`), its nodes are closed
into a body (`closing`), and the body becomes one node of the graph (`repeat`, `choose`). Differences
from JAX:

- Tensors can be written. Assignments of a body to outer tensors happen in each iteration, and reads
  see the version of the previous iteration. A body with such assignments is traced once more, a
  nested body once more for each enclosing loop. Assignments to the carry do not change the initial
  value.
- A body samples from generators in each iteration, and gets the same numbers as a Python loop.
- Trip counts and bounds may be variables, which are bound later, and bounds of `fori_loop` may be
  tensors. A loop whose trip count is a tensor cannot stack results: `scan` takes integers and
  variables. There is no `unroll`: short loops are unrolled if that is faster.
- The index `i` of `fori_loop` is a tensor of int32 or int64, not a weak number: int8 + `i` is int32.
  `x[i]` is a view if `i` is provably within bounds; otherwise an index out of bounds reads 0 and
  writes no element, and is not clamped.
- Python numbers in an initial value take a wider dtype if the first iteration returns one, as in
  JAX. A Python number that a body returns is converted to the dtype of the carry, if that can hold
  it.
- Tuples, named tuples, lists, dicts and None nest; other classes are leaves and cannot be registered.
- `cond` takes a bool of shape () only. Constant conditions and indices behave like computed ones:
  all branches are traced, and must agree.
- A sharded carry keeps the sharding of its initial value; results of other shardings are resharded.
"""
