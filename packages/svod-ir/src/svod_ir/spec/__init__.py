"""Verifier of graphs: the ops, operands, dtypes and args that each stage allows.

`verify` walks a graph once and raises at the first invalid node; it runs between passes in tests
and under SVOD_CHECK. `svod_ir.ops` defines the stages and their ops; this package checks the
operands.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp, verify
    >>> from svod_ir.spec import find_violation
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU"))
    >>> verify(x + 1.0, "graph")
    >>> find_violation(UOp(Op.ADD, float32, (x,)), "graph")
    'ADD takes left right, not 1 operands'
    >>> find_violation(x, "kernel")
    'BUFFER is not allowed in this stage'
"""

from __future__ import annotations

from svod_ir.spec.check import find_violation, verify

__all__ = ["find_violation", "verify"]
