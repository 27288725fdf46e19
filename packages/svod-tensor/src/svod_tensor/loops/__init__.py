"""Programs that repeat: loops over tensors, choices between functions, and what is built on them.

`scan`, `fori_loop`, `while_loop`, `cond` and `switch` mean what those of `jax.lax` mean, and take
their arguments in the same order. A function runs once on tensors without values (`tracing`), what
it made is closed into a body (`closing`), and that becomes one node of the graph (`repeat`,
`choose`). What is different from JAX:

- Tensors can be written. What a body assigns to tensors outside of it is assigned in each
  iteration, and what it reads there is what the last iteration left; a body that does so runs once
  more while the loop is made, one that is nested in others once more for each of them. What it
  assigns to its carry does not reach the initial value.
- Generators are drawn from in each iteration, and go on: a body draws the numbers that a loop of
  Python would.
- Numbers of iterations and bounds may be variables, whose values come later, and of `fori_loop`
  tensors. A count from a tensor cannot stack results: `scan` takes integers and variables. There is
  no `unroll`: short loops are written out where that is cheaper.
- The number `i` of `fori_loop` is a tensor of int32 or int64, not a weak number: beside int8 it
  gives int32. `x[i]` is a view where `i` is known to be a position of the axis; a position that may
  be outside reads as 0 and writes nothing, and is not clamped.
- Numbers of Python in an initial value take a wider dtype if the first iteration gives one, as in
  JAX. Where a body returns a number, it is one of the dtype that is carried, if that can hold it.
- Named tuples, tuples, lists, dicts and None nest; other classes are no containers, and there are
  no registered ones.
- `cond` takes a bool of shape () and no other number. Known conditions and indices choose as
  computed ones do: all branches run once while the choice is made, and have to agree.
- Sharded values are carried as the initial value is split: what an iteration splits otherwise is
  brought there.
- Nothing is differentiated.
"""
