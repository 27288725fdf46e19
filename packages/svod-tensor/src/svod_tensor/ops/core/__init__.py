"""Registration of operations, operands, and rules that operations have in common.

Imports no operation but in `themes`.
"""
