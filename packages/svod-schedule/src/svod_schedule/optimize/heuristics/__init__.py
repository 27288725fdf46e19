"""Heuristics that choose Opts for a kernel, from facts about it and from measured constants.

Imports `opts` and `cost_model`.
"""
