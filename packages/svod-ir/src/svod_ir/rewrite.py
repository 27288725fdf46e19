"""Rewriting of a graph with a rule set to a fixed point, where no rule matches any node.

Example:
    >>> from svod_ir import Match, Op, RuleSet, UOp, count_matches, graph_rewrite, rule, watch_matches
    >>> from svod_ir.pattern import var
    >>> from svod_ir.rewrite import clear_rewrite_cache, is_watched
    >>> @rule(var("x") + 0)
    ... def add_zero(x: UOp) -> UOp:
    ...     'x + 0 -> x.'
    ...     return x
    >>> simplify = RuleSet("simplify", (add_zero,))
    >>> i = UOp.variable("i", 0, 9)
    >>> padded = UOp(Op.ADD, i.dtype, (i, UOp.const(i.dtype, 0)))
    >>> with count_matches() as counts:
    ...     graph_rewrite(simplify, padded) is i, is_watched()
    (True, True)
    >>> counts["add_zero"], is_watched()
    (1, False)
    >>> def report(match: Match) -> None:
    ...     print(match.rule, match.before, match.after)
    >>> with watch_matches(report):
    ...     _ = graph_rewrite(simplify, padded)
    add_zero ADD(DEFINE_VAR, CONST):index DEFINE_VAR():index[VariableArg(name='i', low=0, high=9)]
    >>> clear_rewrite_cache()  # a test may want its rules to be called again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from svod_ir.errors import RewriteError, RuleError
from svod_ir.ops import Op
from svod_ir.ruleset import Rule, RuleSet
from svod_ir.uop import UOp

__all__ = [
    "Match",
    "clear_rewrite_cache",
    "count_matches",
    "graph_rewrite",
    "is_watched",
    "watch_matches",
]

# Cached: reading a member from the enum takes longer than the comparison.
_CALL: Final = Op.CALL

_NO_ATOMS: Final[frozenset[Op]] = frozenset()

_MAX_GENERATION: Final = 4000
"""Maximum number of rules that fire each on the result of the previous one, in a small graph;
beyond it, rewriting counts as endless.
"""

# Marks an unknown result; None means that the node is its own result. It is part of no graph.
_UNKNOWN: Final = UOp(Op.NOOP, arg="unknown")

_watchers: ContextVar[tuple[Callable[[Match], None], ...]] = ContextVar("watchers", default=())

# Keys are weak. An unchanged node is stored as None, since a value that refers to its own key
# would keep it alive forever.
_Memory = WeakKeyDictionary[UOp, UOp | None]
_cache: Final[WeakKeyDictionary[RuleSet, dict[frozenset[Op], _Memory]]] = WeakKeyDictionary()


def graph_rewrite(
    ruleset: RuleSet,
    root: UOp,
    ctx: object = None,
    bottom_up: bool = False,
    enter_calls: bool = False,
    atoms: frozenset[Op] = _NO_ATOMS,
) -> UOp:
    """Apply `ruleset` to every node of a graph, and to the replacements, until no rule matches.

    Each node is rewritten once, and every use of it gets the same result. Operands are rewritten
    before the nodes that use them, so that rules see rewritten operands; with `bottom_up` the rules
    see a node with its original operands first, and its result's operands are rewritten after it.

    Args:
        ctx: the value of the rules' parameter `ctx`.
        enter_calls: whether to rewrite the bodies of CALLs, which are graphs of their own.
        atoms: ops whose nodes stay unchanged, with everything below them.

    Raises:
        RewriteError: if rules undo each other, or grow the graph forever.
        RuleError: if a rule returns something other than a node.
    """
    return _Rewrite(ruleset, ctx, bottom_up, enter_calls, atoms).run(root)


class Match(NamedTuple):
    """A replacement: the rule set and the rule, and the node before and after it."""

    ruleset: str
    rule: str
    before: UOp
    after: UOp


@contextmanager
def watch_matches(report: Callable[[Match], None]) -> Generator[None]:
    """Report each replacement by rewrites in this context; cached results are recomputed.

    Every cache of a pass's results, from expressions to compiled kernels, must check `is_watched`
    and recompute."""
    token = _watchers.set((*_watchers.get(), report))
    try:
        yield
    finally:
        _watchers.reset(token)


def is_watched() -> bool:
    """True if matches are watched or counted in this context, so that caches must be bypassed."""
    return bool(_watchers.get())


@contextmanager
def count_matches() -> Generator[Counter[str]]:
    """Count the replacements by rewrites in this context, by rule name."""
    counts: Counter[str] = Counter()
    with watch_matches(lambda match: counts.update((match.rule,))):
        yield counts


def clear_rewrite_cache() -> None:
    """Clear the cached results of pure rule sets."""
    _cache.clear()


class _Rewrite:
    """State of one call of `graph_rewrite`.

    `done` maps a node to its final form, which maps to itself. `became` maps a node that is not
    done to the node whose final form it shares: a replacement, or the node with rewritten operands.
    `generation` counts the rules that led to a node, if any."""

    def __init__(
        self,
        ruleset: RuleSet,
        ctx: object,
        is_bottom_up: bool,
        enters_calls: bool,
        atoms: frozenset[Op],
    ) -> None:
        self.ruleset, self.ctx, self.is_bottom_up, self.enters_calls = (
            ruleset,
            ctx,
            is_bottom_up,
            enters_calls,
        )
        self.atoms = atoms
        self.limit = _MAX_GENERATION
        self.done: dict[UOp, UOp] = {}
        self.became: dict[UOp, UOp] = {}
        self.generation: dict[UOp, int] = {}
        self.fired: dict[UOp, Rule] = {}
        self.is_settled: set[UOp] = set()
        self.watchers = _watchers.get()
        # Cached results would not be reported, and may differ bottom up or inside of calls.
        is_plain = ctx is None and not self.watchers and not is_bottom_up and not enters_calls
        self.memory = _get_memory(ruleset, atoms) if ruleset.is_pure and is_plain else None

    def run(self, root: UOp) -> UOp:
        self.root = root
        done = self.done
        stack = [root]
        visit = self._visit
        while stack:
            current = stack[-1]
            if current in done:
                stack.pop()
            else:
                following = visit(current)
                if following is None:
                    stack.pop()
                else:
                    stack.extend(following)
        return done[root]

    def _visit(self, current: UOp) -> list[UOp] | tuple[UOp, ...] | None:
        """Finish `current` and return None, or return the nodes that must be finished first."""
        done = self.done
        following = self.became.get(current)
        if following is not None:
            self._finish(current, done[following])
            return None
        src = current.src
        if self.memory is not None and src:
            known = self.memory.get(current, _UNKNOWN)
            if known is not _UNKNOWN:
                done[current] = current if known is None else known
                return None
        if self.atoms and current.op in self.atoms:
            done[current] = current
            return None
        if self.is_bottom_up and current not in self.is_settled:
            replacement = self.ruleset.find_replacement(current, self.ctx)
            if replacement is not None:
                return self._replace(current, *replacement)
            self.is_settled.add(current)
        if current.op is _CALL and not self.enters_calls:
            done.setdefault(src[0], src[0])
        missing = [s for s in src if s not in done]
        if missing:
            self._check_progress(current, missing)
            return missing
        return self._settle(current, src)

    def _settle(self, current: UOp, src: tuple[UOp, ...]) -> tuple[UOp, ...] | None:
        """Rebuild `current`, whose operands are done, or apply the rules to it."""
        done = self.done
        rebuilt = None
        for operand in src:
            if done[operand] is not operand:
                rebuilt = UOp(current.op, current.dtype, tuple([done[s] for s in src]), current.arg)
                break
        if rebuilt is not None:
            if rebuilt in done:
                self._finish(current, done[rebuilt])
                return None
            if self.is_bottom_up:
                return self._become(current, rebuilt)
            # The operands of the rebuilt node are final: its rules can be tried at once.
            if rebuilt in self.became:
                raise self._endless(current, rebuilt)
            replacement = self.ruleset.find_replacement(rebuilt, self.ctx)
            if replacement is None:
                self._finish(rebuilt, rebuilt)
                self._finish(current, rebuilt)
                return None
            self._become(current, rebuilt)
            return (rebuilt, *self._replace(rebuilt, *replacement))
        replacement = (
            None if self.is_bottom_up else self.ruleset.find_replacement(current, self.ctx)
        )
        if replacement is None:
            self._finish(current, current)
            return None
        return self._replace(current, *replacement)

    def _finish(self, current: UOp, result: UOp) -> None:
        self.done[current] = result
        # Rewriting a leaf is as fast as a look-up.
        if self.memory is not None and current.src:
            self.memory[current] = None if result is current else result

    def _become(self, current: UOp, rebuilt: UOp) -> tuple[UOp]:
        if rebuilt in self.became:
            raise self._endless(current, rebuilt)
        self.became[current] = rebuilt
        generation = self.generation.get(current)
        if generation is not None:
            self.generation[rebuilt] = generation
        return (rebuilt,)

    def _replace(self, current: UOp, result: UOp, rule: Rule) -> tuple[UOp]:
        if result.__class__ is not UOp:
            raise RuleError(
                rule=rule.name, problem=f"returned {result!r} for {current}, which is not a node"
            )
        for report in self.watchers:
            report(Match(self.ruleset.name, rule.name, current, result))
        self.became[current] = result
        self.fired[current] = rule
        generation = self.generation.get(current, 0) + 1
        self.generation[result] = generation
        if (result in self.became and result not in self.done) or (
            generation > self.limit and self._is_over_limit(generation)
        ):
            raise self._endless(current, result)
        return (result,)

    def _is_over_limit(self, generation: int) -> bool:
        # A rule may fire once for each node of a long chain, each time on its previous result.
        self.limit = _MAX_GENERATION + 4 * len(self.root.toposort())
        return generation > self.limit

    def _check_progress(self, current: UOp, missing: list[UOp]) -> None:
        """Raise if an operand waits for `current`; else propagate the generation of `current` to
        it.
        """
        generation = self.generation.get(current, 0)
        for operand in missing:
            if operand in self.became:
                raise self._endless(current, operand)
            if generation:
                self.generation[operand] = generation

    def _endless(self, current: UOp, result: UOp) -> RewriteError:
        # The rules that fired last are the ones in the cycle; a short cycle repeats its rules.
        recent = [rule.name for rule in list(self.fired.values())[-64:]]
        return RewriteError(
            ruleset=self.ruleset.name,
            rules=tuple(dict.fromkeys(reversed(recent))),
            node=current,
            result=result,
        )


def _get_memory(ruleset: RuleSet, atoms: frozenset[Op]) -> _Memory:
    memories = _cache.setdefault(ruleset, {})
    memory = memories.get(atoms)
    if memory is None:
        memory = memories[atoms] = WeakKeyDictionary()
    return memory
