"""Compilation of patterns to closures over registers."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Protocol

from svod_ir.ops import Op
from svod_ir.pattern import ANYTHING, Kinds, Pattern
from svod_ir.uop import UOp

__all__ = ["Matcher", "RuleFunction", "compile_pattern"]

Matcher = Callable[[UOp, object], UOp | None]
"""Returns the replacement of a node in a context; None if the pattern does not match or the
function declines.
"""

Registers = list[UOp]
Step = Callable[[Registers, object], UOp | None]


class RuleFunction(Protocol):
    """Returns the replacement of captured nodes, or None to decline."""

    __code__: CodeType

    def __call__(self, *captured: UOp) -> UOp | None: ...


def compile_pattern(pattern: Pattern, fn: RuleFunction) -> Matcher:
    """Compile a pattern to a function that calls `fn` with the captured nodes, for nodes that its
    `accepts_ops` accepts.
    """
    return _Compiler(fn).compile(pattern)


class _Compiler:
    """Compiler of a pattern to a chain of closures.

    Each subpattern has a register. A step checks the node in its register, fills the registers of
    the node's operands, and calls the next step. A later failure thus makes a commutative step try
    its other order. The last step calls the rule's function."""

    def __init__(self, fn: RuleFunction) -> None:
        self.fn = fn
        self.captured: dict[str, int] = {}
        self.n_registers = 1

    def compile(self, pattern: Pattern) -> Matcher:
        first = self._chain([(0, pattern)])
        spare: Registers = [None] * (self.n_registers - 1)  # pyright: ignore[reportAssignmentType]

        def match(node: UOp, ctx: object) -> UOp | None:
            return first([node, *spare], ctx)

        return match

    def _chain(self, work: list[tuple[int, Pattern]]) -> Step:
        # Breadth first: every operand's op is checked before any operand's operands.
        if not work:
            return self._call()
        (register, pattern), remaining = work[0], work[1:]
        if pattern.name is not None and pattern.name in self.captured:
            return _same(register, self.captured[pattern.name], self._chain(remaining))
        if pattern.name is not None:
            self.captured[pattern.name] = register
        first = self.n_registers
        operands = pattern.src or ()
        self.n_registers += len(operands)
        step = self._chain([*remaining, *((first + i, p) for i, p in enumerate(operands))])
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
        # Unrolled for the common numbers of captures: this is called for each match.
        match slots:
            case [a]:
                return lambda registers, _: fn(registers[a])
            case [a, b]:
                return lambda registers, _: fn(registers[a], registers[b])
            case [a, b, c]:
                return lambda registers, _: fn(registers[a], registers[b], registers[c])
            case _:
                return lambda registers, _: fn(*[registers[s] for s in slots])


def _same(register: int, earlier: int, step: Step) -> Step:
    def check(registers: Registers, ctx: object) -> UOp | None:
        return step(registers, ctx) if registers[register] is registers[earlier] else None

    return check


def _operands(register: int, first: int, pattern: Pattern, step: Step) -> Step:
    assert pattern.src is not None
    count, end, has_more = len(pattern.src), first + len(pattern.src), pattern.has_more
    if pattern.is_commutative:
        second = first + 1

        def swap(registers: Registers, ctx: object) -> UOp | None:
            src = registers[register].src
            registers[first], registers[second] = src
            replacement = step(registers, ctx)
            if replacement is not None or src[0] is src[1]:
                return replacement
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
    # The checks run from cheap to expensive: this function wraps the step from the inside out.
    if pattern.when is not None:
        step = _check_when(register, pattern.when, step)
    if pattern.arg is not ANYTHING:
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
    return lambda registers, ctx: (
        step(registers, ctx) if registers[register].dtype.kind in kinds else None
    )


def _check_op(register: int, ops: frozenset[Op], step: Step) -> Step:
    if len(ops) == 1:
        (op,) = ops
        return lambda registers, ctx: step(registers, ctx) if registers[register].op is op else None
    return lambda registers, ctx: step(registers, ctx) if registers[register].op in ops else None
