"""Opts: the `Scheduler` that applies them, the transformation of each, and the Opts that a search
tries.

Imports `lower` for the limits and the tensor cores of a target, and no other package of optimize.
"""
