"""`python -m svod_schedule.prove [--quick] [--kernels] [NAME ...]`: prove rules, and print a table
and any counterexample.

A NAME is a rule, a rule set of the compiler, or `package.module:RULES` for a rule, a set or a tuple
of your own. Your rules must hold for whole tensors too, unless `--kernels` says that they are used
only in kernels, like the compiler's own. The exit status is 1 if a rule is wrong or never fired, 2
if a name is unknown or z3 is not installed."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

from svod_ir import Rule, RuleSet
from svod_schedule.errors import MissingPackageError, UnknownRuleError

try:
    from svod_schedule.prove import QUICK, THOROUGH, Report, list_rule_sets, prove_rules
except MissingPackageError as error:
    if __name__ != "__main__":
        raise
    sys.stderr.write(f"error: {'; '.join(map(str.strip, str(error).splitlines()))}\n")
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["get_rules", "main"]


def get_rules(names: list[str]) -> list[Rule]:
    """Look up rules by name; without names, return all rules of the compiler.

    Raises:
        UnknownRuleError: if a name is unknown.
    """
    sets = list_rule_sets()
    rules = [rule for rule_set in sets.values() for rule in rule_set]
    if not names:
        return list(dict.fromkeys(rules))
    return list(dict.fromkeys(rule for name in names for rule in _find(name, sets, rules)))


def _find(name: str, sets: dict[str, RuleSet], rules: list[Rule]) -> list[Rule]:
    if ":" in name:
        return _import_rules(name)
    if name in sets:
        return list(sets[name])
    named = [rule for rule in rules if rule.name == name]
    if not named:
        raise UnknownRuleError(name=name, known=[*sets, *sorted({r.name for r in rules})])
    return named


def _import_rules(name: str) -> list[Rule]:
    module, attribute = name.split(":", 1)
    try:
        known = vars(import_module(module))
    except ModuleNotFoundError as error:
        raise UnknownRuleError(name=name, known=[], problem=str(error)) from error
    value: object = known.get(attribute)
    listed = cast("Sequence[object]", value if isinstance(value, tuple | list) else (value,))
    if isinstance(value, RuleSet):
        listed = value.rules
    rules = [rule for rule in listed if isinstance(rule, Rule)]
    if not rules or len(rules) != len(listed):
        mine = [key for key, value in known.items() if isinstance(value, Rule | RuleSet)]
        raise UnknownRuleError(name=name, known=[f"{module}:{key}" for key in mine])
    return rules


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m svod_schedule.prove", description="Prove rewrite rules."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a rule, a rule set, or package.module:RULES; default: all",
    )
    parser.add_argument("--quick", action="store_true", help="fewer instances of each pattern")
    parser.add_argument(
        "--kernels",
        action="store_true",
        help="the rules are used only in kernels: try no whole tensors",
    )
    parsed = parser.parse_args(arguments)
    try:
        rules = get_rules(parsed.names)
    except UnknownRuleError as error:
        parser.error(str(error))
    effort = QUICK if parsed.quick else THOROUGH
    of_kernels = {rule for rule_set in list_rule_sets().values() for rule in rule_set}
    proofs = [
        prove_rules([rule], effort, tensors=not parsed.kernels and rule not in of_kernels)
        for rule in rules
    ]
    report = Report(tuple(rule_report for proof in proofs for rule_report in proof.rules))
    print(report)
    for name in report.unfired:
        print(f"error: {name} never fired")
    return 1 if report.counterexamples or report.unfired else 0


if __name__ == "__main__":
    raise SystemExit(main())
