"""Integer division and float remainder in operations that processors have.

Imports `transcendental` for the layout of floats, and no pass.
"""
