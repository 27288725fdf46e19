"""Operations of tensors.

A package holds the modules of a theme; `core` holds the registry, operands and rules that they
share.
"""
