"""Loops of a plan: form, order of the body, state, and iteration by Python or by a batch launcher.

The bindings of a loop belong to its op, in `ops.loop_bindings`. Imports `ops` and `kernels`.
"""
