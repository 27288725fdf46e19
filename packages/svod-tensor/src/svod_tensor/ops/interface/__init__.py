"""Python's view of a tensor: operators, indexing syntax, protocols, reading values, construction
from data, devices.
"""
