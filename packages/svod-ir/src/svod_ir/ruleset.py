"""Rules and rule sets: patterns, and the functions that make the replacement.

    @rule(var("x") + 0)
    def add_zero(x: UOp) -> UOp:
        '''x + 0 -> x.'''
        return x

- What a pattern captures is a parameter of the function. A parameter called `ctx` takes the context
  of the rewrite.
- Where the function declines one order of a commutative op, the other is tried.
- A function that gives None declines: the node is left to the next rule.

A pattern is compiled when a node that may match is first seen. A rule set looks up a node's
candidates by its op, its kind of dtype and its operands' ops: a rule whose operands cannot match
costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType

from svod_ir._matcher import Matcher, RuleFunction, compile_pattern
from svod_ir.errors import RuleError
from svod_ir.pattern import Pattern
from svod_ir.uop import UOp

__all__ = ["Rule", "RuleSet", "rule"]


class Rule:
    """A named rewrite: patterns, and the function that makes the replacement.

    Example:
        >>> from svod_ir import rule
        >>> from svod_ir.pattern import var
        >>> @rule(var("x") * 1)
        ... def times_one(x: UOp) -> UOp:
        ...     'x * 1 -> x.'
        ...     return x
        >>> isinstance(times_one, Rule), times_one
        (True, Rule(times_one: x * 1 -> x.))
        >>> i = UOp.variable("i", 0, 9)
        >>> times_one.apply(i) is None
        True
    """

    __slots__ = ("_matchers", "doc", "fn", "name", "patterns")

    def __init__(
        self, name: str, patterns: tuple[Pattern, ...], fn: RuleFunction, doc: str = ""
    ) -> None:
        self.name, self.patterns, self.fn, self.doc = name, patterns, fn, doc
        self._matchers: dict[Pattern, Matcher] = {}

    def __repr__(self) -> str:
        return f"Rule({self.name}: {self.doc})"

    def apply(self, found: UOp, ctx: object = None) -> UOp | None:
        """The replacement of `found` by this rule alone, or None where it does not match."""
        ops = tuple(s.op for s in found.src)
        for pattern in self.patterns:
            if pattern.accepts_ops(found.op, found.dtype.kind, ops):
                result = self.get_matcher(pattern)(found, ctx)
                if result is not None and result is not found:
                    return result
        return None

    def get_matcher(self, pattern: Pattern) -> Matcher:
        """The compiled form of one of the patterns, for nodes that its `accepts_ops` accepts."""
        matcher = self._matchers.get(pattern)
        if matcher is None:
            matcher = self._matchers[pattern] = compile_pattern(pattern, self.fn)
        return matcher


def rule(*patterns: Pattern) -> Callable[[Callable[..., UOp | None]], Rule]:
    """Make a `Rule` of a function whose docstring states the rule, for nodes that match one of the
    patterns.

    Raises:
        RuleError: if there is no pattern, or a parameter of the function is no name in one of them.
    """
    if not patterns or not all(isinstance(p, Pattern) for p in patterns):  # pyright: ignore[reportUnnecessaryIsInstance]
        name = getattr(patterns[0], "__name__", "") if patterns else ""
        raise RuleError(
            rule=name,
            problem="has no pattern",
            hint='write it above the function, as @rule(var("x") + 0)',
        )

    def decorate(fn: Callable[..., UOp | None]) -> Rule:
        assert isinstance(fn, FunctionType)
        _check_parameters(fn, patterns)
        return Rule(fn.__name__, patterns, fn, (fn.__doc__ or "").strip())

    return decorate


def _check_parameters(fn: FunctionType, patterns: tuple[Pattern, ...]) -> None:
    code = fn.__code__
    for pattern in patterns:
        captured = set(_iter_names(pattern))
        for position, parameter in enumerate(code.co_varnames[: code.co_argcount]):
            if parameter not in captured and not (parameter == "ctx" and position == 0):
                raise RuleError(
                    rule=fn.__name__,
                    problem=f"has the parameter {parameter!r}, which its pattern does not capture",
                    hint=(
                        f"captured are: {', '.join(sorted(captured)) or 'none'}; a first parameter"
                        " `ctx` takes the context"
                    ),
                )


def _iter_names(pattern: Pattern) -> Iterator[str]:
    if pattern.name is not None:
        yield pattern.name
    for operand in pattern.src or ():
        yield from _iter_names(operand)


Candidate = tuple[Matcher, Rule]


class RuleSet:
    """Rules in order of precedence; `+` puts the rules of the right side after those of the left.

    `is_pure` says that no rule reads a context or anything else but the node: results may be
    remembered from one rewrite to the next."""

    __slots__ = ("__weakref__", "_candidates", "is_pure", "name", "rules")

    def __init__(self, name: str, rules: tuple[Rule, ...], *, is_pure: bool = False) -> None:
        self.name, self.rules, self.is_pure = name, rules, is_pure
        self._candidates: dict[object, tuple[Candidate, ...]] = {}

    def __repr__(self) -> str:
        return f"RuleSet({self.name}, {len(self.rules)} rules)"

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __add__(self, other: RuleSet) -> RuleSet:
        rules = tuple(dict.fromkeys(chain(self.rules, other.rules)))
        return RuleSet(f"{self.name}+{other.name}", rules, is_pure=self.is_pure and other.is_pure)

    def renamed(self, name: str) -> RuleSet:
        """The same rules under another name."""
        return RuleSet(name, self.rules, is_pure=self.is_pure)

    def find_replacement(self, found: UOp, ctx: object = None) -> tuple[UOp, Rule] | None:
        """What the first matching rule makes of `found`, and that rule."""
        src = found.src
        match len(src):
            case 2:
                key = (found.op, found.dtype.kind, src[0].op, src[1].op)
            case 1:
                key = (found.op, found.dtype.kind, src[0].op)
            case 0:
                key = (found.op, found.dtype.kind)
            case 3:
                key = (found.op, found.dtype.kind, src[0].op, src[1].op, src[2].op)
            case _:
                key = (found.op, found.dtype.kind, *(s.op for s in src)) if len(src) < 6 else None
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = self._get_candidates(found, key)
        for matcher, owner in candidates:
            result = matcher(found, ctx)
            if result is not None and result is not found:
                return result, owner
        return None

    def _get_candidates(self, found: UOp, key: object) -> tuple[Candidate, ...]:
        ops = tuple(s.op for s in found.src)
        candidates = tuple(
            (r.get_matcher(p), r)
            for r in self.rules
            for p in r.patterns
            if p.accepts_ops(found.op, found.dtype.kind, ops)
        )
        # Nodes with many operands have too many combinations to remember.
        if key is not None:
            self._candidates[key] = candidates
        return candidates
