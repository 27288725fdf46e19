"""Measurements of executions: launch profiles, summaries, reports, tables, and device limits.

Imports `ops`.
"""
