"""Operation registry, operand conversion, and rules shared by all operations.

Only `themes` imports operations.
"""
