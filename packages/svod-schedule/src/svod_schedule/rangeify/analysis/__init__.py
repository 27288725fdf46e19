"""Questions about graphs that passes of rangeify ask: which nodes are stored, where each is read,
and which device computes it.

Imports no pass and no other package of rangeify.
"""
