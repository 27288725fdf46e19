"""Memory planning: the order of ops, the live range of each buffer, and the buffers that share
memory.

Imports `ops`, `kernels` and `loops`.
"""
