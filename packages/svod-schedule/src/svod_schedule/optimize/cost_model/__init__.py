"""Cost model: predicted time of an optimized kernel on a target.

Imports `lower`, which the model follows, and no other package of optimize.
"""
