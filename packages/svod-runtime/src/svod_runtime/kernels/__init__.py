"""Kernels of a plan: groups that run concurrently, arrangement into calls, and state between
executions.

Imports `ops` and `profile`.
"""
