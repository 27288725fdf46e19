"""Cost model: the time that an optimized kernel should take on a target.

Imports `lower`, which the model follows, and no other package of optimize.
"""
