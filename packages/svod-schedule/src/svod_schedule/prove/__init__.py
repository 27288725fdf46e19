"""Proofs of rewrite rules with z3, over the whole range of each dtype (extra `prove`).

    from svod_schedule.prove import prove_rules

    print(prove_rules(MY_RULES))

`python -m svod_schedule.prove` proves the compiler's own rules; with names, only these rules or rule
sets. `package.module:MY_RULES` refers to a set of your own.

Example:
    >>> from svod_ir import UOp, rule
    >>> from svod_ir.pattern import INT, var
    >>> from svod_schedule.prove import QUICK, Effort, Report, RuleReport, list_rule_sets, prove_rules
    >>> @rule(var("x", INT) + var("y", INT))
    ... def swapped(x: UOp, y: UOp) -> UOp | None:
    ...     '''x + y -> y + x.'''
    ...     return y + x
    >>> report = prove_rules([swapped], QUICK)
    >>> isinstance(report, Report), isinstance(QUICK, Effort), all(isinstance(r, RuleReport) for r in report.rules)
    (True, True, True)
    >>> from svod_schedule.prove import THOROUGH
    >>> prove_rules([swapped], THOROUGH).counterexamples  # more instances, more slowly
    []
    >>> report.counterexamples, len(list_rule_sets()) > 0
    ([], True)

    For a wrong rule, it finds a counterexample:

    >>> from svod_schedule.prove import Counterexample
    >>> @rule(var("x", INT) - var("y", INT))
    ... def turned(x: UOp, y: UOp) -> UOp | None:
    ...     '''x - y -> y - x.'''
    ...     return y - x
    >>> found = prove_rules([turned], QUICK).counterexamples[0]
    >>> isinstance(found, Counterexample), found.rule, found.is_confirmed
    (True, 'turned', True)
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from svod_schedule.errors import MissingPackageError

# Without z3 the package itself can be imported, so that `python -m svod_schedule.prove` reaches the
# code that reports what is missing.
if TYPE_CHECKING or find_spec("z3") is not None:
    from svod_schedule.prove.prover import (
        QUICK,
        THOROUGH,
        Counterexample,
        Effort,
        Report,
        RuleReport,
        prove_rules,
    )
    from svod_schedule.prove.rules import list_rule_sets
else:

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise MissingPackageError(
                feature="svod_schedule.prove", module="z3", package="z3-solver"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "QUICK",
    "THOROUGH",
    "Counterexample",
    "Effort",
    "Report",
    "RuleReport",
    "list_rule_sets",
    "prove_rules",
]
