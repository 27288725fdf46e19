"""Bodies of kernels and calls: arguments, joined stores, and kernel graphs that a call repeats.

Imports no pass.
"""
