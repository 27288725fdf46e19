"""Bodies of kernels and calls: arguments, joined stores, and kernel graphs of loop bodies.

Imports no pass.
"""
