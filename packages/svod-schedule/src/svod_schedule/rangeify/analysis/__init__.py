"""Analyses that passes of rangeify share: which nodes are materialized, at which coordinates each is
read, and which device computes it.

Imports no pass and no other package of rangeify.
"""
