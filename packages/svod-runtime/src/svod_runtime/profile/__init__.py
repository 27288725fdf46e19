"""Measurements of executions: profiles of launches, their summaries, reports and tables, and the
limits of a device.

Imports `ops`.
"""
