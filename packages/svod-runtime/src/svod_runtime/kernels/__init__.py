"""Kernels of a plan: groups that run at the same time, their arrangement, and their state between
executions.

Imports `ops` and `profile`.
"""
