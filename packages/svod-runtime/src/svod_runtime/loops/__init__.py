"""Loops of a plan: form, order of the body, state, and iteration by Python or by a batch launcher.

Bindings of a loop are part of its op, in `ops.loop_bindings`. Imports `ops` and `kernels`.
"""
