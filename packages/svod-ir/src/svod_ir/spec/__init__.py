"""What may stand in a graph of each stage: ops, operands, dtypes and args.

`verify` walks a graph once and raises at the first node that breaks a rule; it runs between passes
in tests and under SVOD_CHECK.  Which stages there are, and which ops each has, is read from
`svod_ir.ops`; here are the rules for their operands.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp, verify
    >>> from svod_ir.spec import find_violation
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU"))
    >>> verify(x + 1.0, "graph")
    >>> find_violation(UOp(Op.ADD, float32, (x,)), "graph")
    'ADD takes left right, not 1 operands'
    >>> find_violation(x, "kernel")
    'BUFFER stands in no graph of this stage'
"""

from __future__ import annotations

from svod_ir.spec.check import find_violation, verify

__all__ = ["find_violation", "verify"]
