"""Rules and rule sets: patterns, and the functions that build the replacement.

    @rule(var("x") + 0)
    def add_zero(x: UOp) -> UOp:
        '''x + 0 -> x.'''
        return x

- The nodes that a pattern captures are parameters of the function. A parameter called `ctx`
  receives the context of the rewrite.
- If the function declines one order of a commutative op, the other order is tried.
- A function that returns None declines: the next rule is tried.

A pattern is compiled when the first candidate node is seen. A rule set looks up the candidate rules
of a node by its op, its kind of dtype and its operands' ops, so that a rule whose operands cannot
match costs nothing."""

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
    """A named rewrite: patterns, and the function that builds the replacement.

    Example:
        >>> from svod_ir import Op, Rule, UOp, rule
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
        >>> product = UOp(Op.MUL, i.dtype, (i, UOp.const(i.dtype, 1)))
        >>> match = times_one.get_matcher(times_one.patterns[0])  # compiled once, for all nodes
        >>> match(product, None) is i
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

    def apply(self, node: UOp, ctx: object = None) -> UOp | None:
        """Apply only this rule to a node; return the replacement, or None if it does not match."""
        ops = tuple(s.op for s in node.src)
        for pattern in self.patterns:
            if pattern.accepts_ops(node.op, node.dtype.kind, ops):
                result = self.get_matcher(pattern)(node, ctx)
                # A rule that returns its node has changed nothing, and a rewrite that counts it
                # would not end.
                if result is not None and result is not node:
                    return result
        return None

    def get_matcher(self, pattern: Pattern) -> Matcher:
        """The compiled form of a pattern, for nodes that its `accepts_ops` accepts."""
        matcher = self._matchers.get(pattern)
        if matcher is None:
            matcher = self._matchers[pattern] = compile_pattern(pattern, self.fn)
        return matcher


def rule(*patterns: Pattern) -> Callable[[Callable[..., UOp | None]], Rule]:
    """Decorate a function as a `Rule` for nodes that match a pattern; its docstring states the
    rule.

    Raises:
        RuleError: if there is no pattern, or a parameter of the function is not captured by one.
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
        # At the declaration, since a rule may otherwise be wrong until the first match.
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
    """Rules in order of precedence; in a sum with `+`, the rules of the left side come first.

    If `is_pure`, rules read nothing but the node, so results are cached between rewrites.

    Example:
        >>> from svod_ir import Op, RuleSet, UOp, rule
        >>> from svod_ir.pattern import var
        >>> @rule(var("x") * 1)
        ... def times_one(x: UOp) -> UOp:
        ...     'x * 1 -> x.'
        ...     return x
        >>> products = RuleSet("ones", (times_one,)).renamed("products")
        >>> i = UOp.variable("i", 0, 9)
        >>> products.find_replacement(UOp(Op.MUL, i.dtype, (i, UOp.const(i.dtype, 1))))[1].name
        'times_one'
        >>> products, products.find_replacement(i) is None
        (RuleSet(products, 1 rules), True)
    """

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
        # Without duplicates: sets that share rules are added.
        rules = tuple(dict.fromkeys(chain(self.rules, other.rules)))
        return RuleSet(f"{self.name}+{other.name}", rules, is_pure=self.is_pure and other.is_pure)

    def renamed(self, name: str) -> RuleSet:
        """The same rules under another name."""
        return RuleSet(name, self.rules, is_pure=self.is_pure)

    def find_replacement(self, node: UOp, ctx: object = None) -> tuple[UOp, Rule] | None:
        """Replacement of a node by the first matching rule, and that rule; None if no rule matches."""
        src = node.src
        # Unrolled for the common numbers of operands: this runs for each node of each rewrite.
        match len(src):
            case 2:
                key = (node.op, node.dtype.kind, src[0].op, src[1].op)
            case 1:
                key = (node.op, node.dtype.kind, src[0].op)
            case 0:
                key = (node.op, node.dtype.kind)
            case 3:
                key = (node.op, node.dtype.kind, src[0].op, src[1].op, src[2].op)
            case _:
                key = (node.op, node.dtype.kind, *(s.op for s in src)) if len(src) < 6 else None
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = self._get_candidates(node, key)
        owner = None
        # Around the loop: entering a `try` costs nothing, and this runs for each node.
        try:
            for matcher, owner in candidates:
                result = matcher(node, ctx)
                if result is not None and result is not node:
                    return result, owner
        except Exception as error:
            if owner is not None:
                error.add_note(f"in rule {owner.name} of {self.name}, on the node {node}")
            raise
        return None

    def _get_candidates(self, node: UOp, key: object) -> tuple[Candidate, ...]:
        ops = tuple(s.op for s in node.src)
        candidates = tuple(
            (r.get_matcher(p), r)
            for r in self.rules
            for p in r.patterns
            if p.accepts_ops(node.op, node.dtype.kind, ops)
        )
        # Nodes with many operands have too many combinations to cache.
        if key is not None:
            self._candidates[key] = candidates
        return candidates
