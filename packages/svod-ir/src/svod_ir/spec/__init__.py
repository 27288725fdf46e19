"""What may stand in a graph of each stage: ops, operands, dtypes and args.

`verify` walks a graph once and raises at the first node that breaks a rule; it runs between passes
in tests and under SVOD_CHECK=1.  Which ops a stage has is read from `svod_ir.ops.TABLE`; here are
the rules for their operands.  Beside the stages of the table there are `kernel graph`,
the CALLs that kernelize makes, and `lowering`, a kernel on its way between kernel and lowered, where
the forms of both may stand side by side.
"""

from __future__ import annotations

from svod_ir.spec.check import SPEC_STAGES, find_violation, verify

__all__ = ["SPEC_STAGES", "find_violation", "verify"]
