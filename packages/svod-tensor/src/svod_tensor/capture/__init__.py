"""Capture of functions: `jit` traces a function once for each signature and then runs its plan.

Terms:

- **Signature**: all of a call's arguments except for the elements of tensors and the values of
  variables: dtypes, shapes and devices, the structure of trees, numbers, texts, and the identity of
  other objects (`signature`, `keys`, `nested`). It is the cache key of a plan.
- **Placeholder**: a tensor that represents an argument while the function is traced.
- **Capture**: the record of one trace: existing tensors that the function reads and writes without
  getting them as arguments, and tensors that it creates (`cells.recording.Capture`).
- **Held tensor**: a tensor that the function uses without getting it as an argument.
- **Outside value**: a global, a closure variable, an attribute or an item that the code can read
  besides its arguments. Static analysis of the bytecode finds them (`access_paths`,
  `outside_values`).
- **Guard**: a check before each call that the outside values are the same objects or equal numbers
  (`dependencies.Guards`); attributes of networks are one counter (`attribute_changes`).
- **Captured**: a signature's plan (`plan_forks`), with the mapping of arguments to buffers and of
  buffers to results, what must be as it was (`validity`), and the memory that calls write
  (`memory_writes`): `calls.Captured`.

Invariants:

1. A call returns what the plain function would return now. Where a guard fails, the function is
   traced again. Changes that no guard detects are listed in the guide to `jit`; `SVOD_CHECK=1`
   compares results with the plain function (`checking`).
2. A trace leaves no placeholder behind. A tensor made of placeholders that outlives the trace is an
   error (`tracing._check_leaks`).
3. A plan keeps no argument alive. It refers weakly to arguments that are known by their identity,
   and is dropped with them.
4. One thread traces at a time. Others wait before they write or trace
   (`cells.registry.wait_for_capture`).
5. Each call has its own results, and concurrent calls have their own intermediates, in forks of the
   plan.

Locks: `JitFunction._capturing` is held while a function is traced, `PlanTable._lock` while the
table of plans changes, `MemoryWrites.lock` while memory that outlives the call is written, and
`PlanForks._lock` while a fork is added. `_capturing` is taken before `PlanTable._lock`,
`MemoryWrites.lock` before `PlanForks._lock`, and all of them before `cells.tables.lock`.
Finalizers of arguments never wait for a lock (`PlanTable.on_owner_death`).

The life of one captured call, `f(x)`:

1. `function.JitFunction.__call__` tries the fast path, `quick.QuickCall.run`: same specs of the
   arguments as in the call before, guards hold. It checks each argument once, allocates the
   results, and runs the plan with the addresses of this call (`svod_runtime`'s `execute_direct`).
2. Otherwise `signature.read_arguments` makes the key, and `PlanTable.find` looks for a plan whose
   guards hold.
3. If there is none, `tracing.trace_call` traces the function. `outside_values` lists the values that
   the code can read; `placeholders` replaces tensors; the function runs within `_start_capture`; and
   `_list_recipes` maps each result to a graph, argument or held tensor. From the trace,
   `function_plan.make_captured` makes the plan with `engine.compute.make_plan`.
4. `calls.Captured.run` computes arguments that are pending, binds their buffers, executes the plan,
   and commits writes: arguments that the function writes get the new version (`cells.overwriting`).
5. `recipes.Results.make` builds the results on the buffers that the plan filled. Calls without
   writes and variables skip nodes and graphs altogether (`direct.DirectCall`)."""
