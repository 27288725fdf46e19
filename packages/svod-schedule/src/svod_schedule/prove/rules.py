"""Rules to prove: all rule sets of the compiler that rewrite values."""

from __future__ import annotations

from dataclasses import replace

from svod_dtype import float32, float64
from svod_ir import RuleSet, Target
from svod_schedule.lower.arithmetic.division import DIVISION
from svod_schedule.lower.decompose import CHEAPER, FOR_MISSING, FUSE, SIMPLER
from svod_schedule.optimize.emulate import make_emulation
from svod_schedule.symbolic import GUARDED, REDUCTIONS, SYMBOLIC

__all__ = ["list_rule_sets"]


def list_rule_sets() -> dict[str, RuleSet]:
    """Map names to rule sets: algebra, rules for conditions and loops, and the late decompositions."""
    missing = RuleSet("missing", tuple(rule for _, rule in FOR_MISSING), is_pure=True)
    decompose = (DIVISION + SIMPLER + CHEAPER + FUSE + missing).renamed("decompose")
    plain = Target.generic(cores=1)
    emulate = make_emulation(replace(plain, native_dtypes=frozenset({float32, float64})))
    return {
        "symbolic": SYMBOLIC,
        "reductions": REDUCTIONS,
        "guarded": GUARDED,
        "decompose": decompose,
        "emulate": emulate,
    }
