"""Steps of simplify-loops, with their cost model and the editable form of a loop.

Imports no pass and no other package of rangeify.
"""
