"""Proofs of rewrite rules with z3, over the whole range of each dtype (extra `prove`).

    from svod_schedule.prove import prove_rules

    print(prove_rules(MY_RULES))

`python -m svod_schedule.prove` proves the compiler's own rules; with names, these rules or sets alone;
`package.module:MY_RULES` names a set of your own.
"""

from __future__ import annotations

from svod_schedule.prove.prover import QUICK, THOROUGH, Counterexample, Effort, Report, RuleReport, prove_rules
from svod_schedule.prove.rules import list_rule_sets

__all__ = ["QUICK", "THOROUGH", "Counterexample", "Effort", "Report", "RuleReport", "list_rule_sets", "prove_rules"]
