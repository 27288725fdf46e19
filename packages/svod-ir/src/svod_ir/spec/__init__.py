"""What may stand in a graph of each stage: ops, operands, dtypes and args.

`verify` walks a graph once and raises at the first node that breaks a rule; it runs between passes
in tests and under SVOD_CHECK.  Which stages there are, and which ops each has, is read from `svod_ir.ops`;
here are the rules for their operands.
"""

from __future__ import annotations

from svod_ir.spec.check import find_violation, verify

__all__ = ["find_violation", "verify"]
