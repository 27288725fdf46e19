"""Integer division and float remainder in terms of machine operations.

Imports `transcendental` for the layout of floats, and no pass.
"""
