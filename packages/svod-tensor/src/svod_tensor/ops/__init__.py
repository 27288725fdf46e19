"""Operations of tensors.

Each package holds the modules of one theme; `core` holds the shared registry, operands and rules.
"""
