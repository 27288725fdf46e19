"""Vectors and tiles: access to memory along a lane axis, and products on tensor cores.

Imports no pass.
"""
