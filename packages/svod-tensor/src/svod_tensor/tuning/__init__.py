"""Tuning: candidates of a search are compiled, timed and checked here, and what was found is kept
on disk.
"""
