"""Patterns, rules and rule sets: what a rewrite looks for, in one declarative line, and what it makes of it.

    x, c = var("x"), const("c")

    @rule(x + 0)
    def add_zero(x: UOp) -> UOp:
        '''x + 0 -> x.'''
        return x

- A name captures the node that stands there and is a parameter of the function; the same name twice
  stands for the same node. A parameter called `ctx` takes the context of the rewrite.
- A number matches a constant of that value: a CONST, or a VCONST with that value in every lane; 0 does
  not match -0.0.
- Commutative ops match in both orders; where the function declines one order, the other is tried.
- A function that gives None declines: the node is left to the next rule.

A pattern is compiled to closures over numbered registers when a node that may match is first seen. A
rule set looks up a node's candidates by its op, its kind of dtype and its operands' ops: a rule whose
operands cannot match costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from types import CodeType, FunctionType
from typing import Final, Protocol

from svod_ir.errors import RuleError
from svod_ir.ops import COMMUTATIVE, Op
from svod_ir.uop import UOp

__all__ = [
    "BOOL", "FLOAT", "INT", "NUMBER", "Pattern", "Rule", "RuleFunction", "RuleSet", "const", "node", "rule", "splat", "splat_value", "var",
]  # fmt: skip

Kinds = frozenset[str]
Number = bool | int | float

INT: Final[Kinds] = frozenset({"int", "uint", "index"})
FLOAT: Final[Kinds] = frozenset({"float"})
BOOL: Final[Kinds] = frozenset({"bool"})
NUMBER: Final[Kinds] = INT | FLOAT

_CONSTANTS: Final = frozenset({Op.CONST, Op.VCONST})
_ANY: Final = object()


class RuleFunction(Protocol):
    """Makes the replacement of captured nodes, or None to decline."""

    __code__: CodeType

    def __call__(self, *captured: UOp) -> UOp | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What a node must look like: `var`, `const`, `splat` and `node` make patterns, operators combine them.

    `ops`, `src`, `kinds` and `when` are None where anything will do. With `has_more` the node may have
    operands after those of `src`.
    """

    ops: frozenset[Op] | None = None
    src: tuple[Pattern, ...] | None = None
    name: str | None = None
    kinds: Kinds | None = None
    arg: object = _ANY
    when: Callable[[UOp], bool] | None = None
    is_ordered: bool = False
    has_more: bool = False

    def named(self, name: str) -> Pattern:
        """This pattern, capturing its node."""
        return replace(self, name=name)

    def ordered(self) -> Pattern:
        """This pattern with its operands in the written order only."""
        return replace(self, is_ordered=True)

    def of(self, kinds: Kinds) -> Pattern:
        """This pattern for nodes of these kinds of dtype."""
        return replace(self, kinds=kinds)

    @property
    def is_commutative(self) -> bool:
        if self.is_ordered or self.ops is None or self.src is None:
            return False
        return len(self.src) == 2 and self.ops <= COMMUTATIVE

    def accepts_ops(self, op: Op, kind: str, operands: tuple[Op, ...]) -> bool:
        """False where no node with this op, kind of dtype and operands' ops matches."""
        if (self.ops is not None and op not in self.ops) or (self.kinds is not None and kind not in self.kinds):
            return False
        if self.src is None:
            return True
        if len(operands) != len(self.src) and not (self.has_more and len(operands) > len(self.src)):
            return False
        orders = (operands, operands[::-1]) if self.is_commutative else (operands,)
        return any(all(p.ops is None or o in p.ops for p, o in zip(self.src, order, strict=False)) for order in orders)

    def __add__(self, other: Pattern | Number) -> Pattern:
        return node(Op.ADD, self, other)

    def __sub__(self, other: Pattern | Number) -> Pattern:
        return node(Op.SUB, self, other)

    def __mul__(self, other: Pattern | Number) -> Pattern:
        return node(Op.MUL, self, other)

    def __floordiv__(self, other: Pattern | Number) -> Pattern:
        return node(Op.IDIV, self, other)

    def __mod__(self, other: Pattern | Number) -> Pattern:
        return node(Op.MOD, self, other)

    def __truediv__(self, other: Pattern | Number) -> Pattern:
        return node(Op.FDIV, self, other)

    def __and__(self, other: Pattern | Number) -> Pattern:
        return node(Op.AND, self, other)

    def __or__(self, other: Pattern | Number) -> Pattern:
        return node(Op.OR, self, other)

    def __xor__(self, other: Pattern | Number) -> Pattern:
        return node(Op.XOR, self, other)

    def __lshift__(self, other: Pattern | Number) -> Pattern:
        return node(Op.SHL, self, other)

    def __rshift__(self, other: Pattern | Number) -> Pattern:
        return node(Op.SHR, self, other)

    def __lt__(self, other: Pattern | Number) -> Pattern:
        return node(Op.LT, self, other)

    def __le__(self, other: Pattern | Number) -> Pattern:
        return node(Op.LE, self, other)

    def __neg__(self) -> Pattern:
        return node(Op.NEG, self)

    def __invert__(self) -> Pattern:
        return node(Op.NOT, self)

    def eq(self, other: Pattern | Number) -> Pattern:
        return node(Op.EQ, self, other)

    def ne(self, other: Pattern | Number) -> Pattern:
        return node(Op.NE, self, other)

    def maximum(self, other: Pattern | Number) -> Pattern:
        return node(Op.MAX, self, other)

    def minimum(self, other: Pattern | Number) -> Pattern:
        return node(Op.MIN, self, other)

    def where(self, x: Pattern | Number, y: Pattern | Number) -> Pattern:
        return node(Op.WHERE, self, x, y)

    def cast(self) -> Pattern:
        return node(Op.CAST, self)


def var(name: str | None = None, kinds: Kinds | None = None, when: Callable[[UOp], bool] | None = None) -> Pattern:
    """Any node."""
    return Pattern(name=name, kinds=kinds, when=when)


def const(name: str | None = None, kinds: Kinds | None = None, when: Callable[[UOp], bool] | None = None) -> Pattern:
    """A scalar constant; its value is the `arg` of the captured node."""
    return Pattern(frozenset({Op.CONST}), (), name, kinds, when=when)


def splat(name: str | None = None, kinds: Kinds | None = None, value: object = _ANY) -> Pattern:
    """A constant with one value in all its lanes (`splat_value` gives it), or with the value given."""
    if value is _ANY:
        return Pattern(_CONSTANTS, (), name, kinds, when=lambda n: splat_value(n) is not None)
    assert isinstance(value, (bool, int, float))
    return Pattern(_CONSTANTS, (), name, kinds, when=_is_value(value))


def node(
    op: Op | frozenset[Op], *src: Pattern | Number, name: str | None = None, kinds: Kinds | None = None, arg: object = _ANY,
    when: Callable[[UOp], bool] | None = None, has_more: bool = False,
) -> Pattern:  # fmt: skip
    """A node of this op, or of one of these; without `src` its operands may be any."""
    ops = op if isinstance(op, frozenset) else frozenset({op})
    operands = tuple(s if isinstance(s, Pattern) else splat(value=s) for s in src)
    return Pattern(ops, operands or None, name, kinds, arg, when, has_more=has_more)


def splat_value(constant: UOp) -> Number | None:
    """The value that every lane of a CONST or VCONST has, or None."""
    if constant.op is Op.CONST:
        return constant.arg
    if constant.op is Op.VCONST:
        first = constant.arg[0]
        # The lanes of a float constant are compared with their signs; a NaN is equal to no lane.
        if all(lane == first for lane in constant.arg) and (first != 0 or constant is UOp.const(constant.dtype, first)):
            return first
    return None


def _is_value(value: Number) -> Callable[[UOp], bool]:
    is_negative = math.copysign(1.0, value) < 0

    def check(constant: UOp) -> bool:
        found = splat_value(constant)
        return found is not None and found == value and (value != 0 or (math.copysign(1.0, found) < 0) == is_negative)

    return check


class Rule:
    """A named rewrite: patterns, and the function that makes the replacement."""

    __slots__ = ("_matchers", "doc", "fn", "name", "patterns")

    def __init__(self, name: str, patterns: tuple[Pattern, ...], fn: RuleFunction, doc: str = "") -> None:
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
            matcher = self._matchers[pattern] = _Compiler(self.fn).compile(pattern)
        return matcher


def rule(*patterns: Pattern) -> Callable[[Callable[..., UOp | None]], Rule]:
    """Make a `Rule` of a function whose docstring states the rule, for nodes that match one of the patterns.

    Raises:
        RuleError: if there is no pattern, or a parameter of the function is no name in one of them.
    """
    if not patterns or not all(isinstance(p, Pattern) for p in patterns):  # pyright: ignore[reportUnnecessaryIsInstance]
        name = getattr(patterns[0], "__name__", "") if patterns else ""
        raise RuleError(rule=name, problem="has no pattern", hint='write it above the function, as @rule(var("x") + 0)')

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
                    rule=fn.__name__, problem=f"has the parameter {parameter!r}, which its pattern does not capture",
                    hint=f"captured are: {', '.join(sorted(captured)) or 'none'}; a first parameter `ctx` takes the context",
                )  # fmt: skip


def _iter_names(pattern: Pattern) -> Iterator[str]:
    if pattern.name is not None:
        yield pattern.name
    for operand in pattern.src or ():
        yield from _iter_names(operand)


class RuleSet:
    """Rules in order of precedence; `+` puts the rules of the right side after those of the left.

    `is_pure` says that no rule reads a context or anything else but the node: results may be remembered
    from one rewrite to the next.
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
            candidates = self._find_candidates(found, key)
        for matcher, owner in candidates:
            result = matcher(found, ctx)
            if result is not None and result is not found:
                return result, owner
        return None

    def _find_candidates(self, found: UOp, key: object) -> tuple[Candidate, ...]:
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


Matcher = Callable[[UOp, object], UOp | None]
Candidate = tuple[Matcher, Rule]
Registers = list[UOp]
Step = Callable[[Registers, object], UOp | None]


class _Compiler:
    """Turns a pattern into a chain of closures.

    Each place of the pattern has a register. A step checks the node in its register, fills the
    registers of the node's operands, and calls the next step, so that a failure anywhere later makes
    a commutative step try its other order; the last step calls the rule's function.
    """

    def __init__(self, fn: RuleFunction) -> None:
        self.fn = fn
        self.captured: dict[str, int] = {}
        self.n_registers = 1

    def compile(self, pattern: Pattern) -> Matcher:
        first = self._chain([(0, pattern)])
        spare: Registers = [None] * (self.n_registers - 1)  # pyright: ignore[reportAssignmentType]

        def match(found: UOp, ctx: object) -> UOp | None:
            return first([found, *spare], ctx)

        return match

    def _chain(self, work: list[tuple[int, Pattern]]) -> Step:
        # Breadth first: every operand's op is checked before any operand's operands.
        if not work:
            return self._call()
        (register, pattern), rest = work[0], work[1:]
        if pattern.name is not None and pattern.name in self.captured:
            return _same(register, self.captured[pattern.name], self._chain(rest))
        if pattern.name is not None:
            self.captured[pattern.name] = register
        first = self.n_registers
        operands = pattern.src or ()
        self.n_registers += len(operands)
        step = self._chain([*rest, *((first + i, p) for i, p in enumerate(operands))])
        if operands:
            step = _operands(register, first, pattern, step)
        return _check(register, pattern, step, is_root=register == 0)

    def _call(self) -> Step:
        fn, code = self.fn, self.fn.__code__  # the protocol has no code object
        parameters: tuple[str, ...] = code.co_varnames[: code.co_argcount]
        has_context = bool(parameters) and parameters[0] == "ctx"
        slots = [self.captured[p] for p in parameters[has_context:]]
        if has_context:
            return lambda registers, ctx: fn(ctx, *[registers[s] for s in slots])  # pyright: ignore[reportArgumentType]
        match slots:
            case [a]:
                return lambda registers, _: fn(registers[a])
            case [a, b]:
                return lambda registers, _: fn(registers[a], registers[b])
            case [a, b, c]:
                return lambda registers, _: fn(registers[a], registers[b], registers[c])
            case _:
                return lambda registers, _: fn(*[registers[s] for s in slots])


def _same(register: int, other: int, step: Step) -> Step:
    def check(registers: Registers, ctx: object) -> UOp | None:
        return step(registers, ctx) if registers[register] is registers[other] else None

    return check


def _operands(register: int, first: int, pattern: Pattern, step: Step) -> Step:
    assert pattern.src is not None
    count, end, has_more = len(pattern.src), first + len(pattern.src), pattern.has_more
    if pattern.is_commutative:
        second = first + 1

        def swap(registers: Registers, ctx: object) -> UOp | None:
            src = registers[register].src
            registers[first], registers[second] = src
            found = step(registers, ctx)
            if found is not None or src[0] is src[1]:
                return found
            registers[second], registers[first] = src
            return step(registers, ctx)

        return swap

    def fill(registers: Registers, ctx: object) -> UOp | None:
        src = registers[register].src
        if len(src) != count:
            if not has_more or len(src) < count:
                return None
            src = src[:count]
        registers[first:end] = src
        return step(registers, ctx)

    return fill


def _check(register: int, pattern: Pattern, step: Step, *, is_root: bool) -> Step:
    # The order is from cheap to expensive: this function wraps the step from the inside out.
    if pattern.when is not None:
        step = _check_when(register, pattern.when, step)
    if pattern.arg is not _ANY:
        step = _check_arg(register, pattern.arg, step)
    if is_root:
        return step
    if pattern.kinds is not None:
        step = _check_kinds(register, pattern.kinds, step)
    if pattern.ops is not None:
        step = _check_op(register, pattern.ops, step)
    return step


def _check_when(register: int, when: Callable[[UOp], bool], step: Step) -> Step:
    return lambda registers, ctx: step(registers, ctx) if when(registers[register]) else None


def _check_arg(register: int, arg: object, step: Step) -> Step:
    return lambda registers, ctx: step(registers, ctx) if registers[register].arg == arg else None


def _check_kinds(register: int, kinds: Kinds, step: Step) -> Step:
    return lambda registers, ctx: step(registers, ctx) if registers[register].dtype.kind in kinds else None


def _check_op(register: int, ops: frozenset[Op], step: Step) -> Step:
    if len(ops) == 1:
        (op,) = ops
        return lambda registers, ctx: step(registers, ctx) if registers[register].op is op else None
    return lambda registers, ctx: step(registers, ctx) if registers[register].op in ops else None
