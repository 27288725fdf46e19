"""Opts: the `Scheduler` that applies them to a kernel, the transformation of each, and the list of
those worth trying.

Imports `lower` for the limits and the products of a target, and no other package of optimize.
"""
