"""Plans: building, templates, binding of buffers and variables, changes between executions, and
execution.

Imports every other package of the runtime; none of them imports it.
"""
