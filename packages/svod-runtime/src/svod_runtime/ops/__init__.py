"""Ops of a plan: kernels, copies, views, custom functions and loops, with their checks, variables
and dependencies.

Imports no other package of the runtime.
"""
