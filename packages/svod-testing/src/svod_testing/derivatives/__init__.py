"""Derivatives under test: calls of operations and random programs, with their counterparts in
PyTorch and JAX.

- `cases`, `image_cases`, `linalg_cases`: a call of each operation that has a derivative, and the
  same call of another library.
- `points`: arguments where derivatives are special (zeros, kinks, ties, poles), and a comparison of
  both modes there.
- `programs`: random compositions of operations.
- `loop_programs`, `loop_libraries`, `loop_shrinking`: random programs with loops and choices, the
  libraries that run them, and their shrinking.
- `carry_programs`, `carry_libraries`, `carry_shrinking`: the same for loops that carry values of any
  shape and dtype.

A case or program belongs here if its derivative is tested. Those whose values alone are tested are
in `svod_testing.programs` and `svod_testing.loop_programs`."""
