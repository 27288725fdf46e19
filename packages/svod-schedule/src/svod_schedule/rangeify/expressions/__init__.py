"""Materialized nodes as expressions over the loops of a kernel.

Imports `analysis`.
"""
