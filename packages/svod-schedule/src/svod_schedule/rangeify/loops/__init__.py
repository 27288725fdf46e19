"""Steps of simplify-loops, and the costs and drafts that they share.

Imports no pass and no other package of rangeify.
"""
