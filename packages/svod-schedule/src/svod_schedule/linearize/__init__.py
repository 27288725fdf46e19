"""linearize: a lowered kernel → its nodes in execution order.

Each node is placed in the innermost loop that it depends on: loop-invariant values are hoisted out
of the loop. The effects that an END closes are placed in its innermost loop even if they are
invariant, since a loop of no iterations must write nothing. Within a loop, nodes keep the order of
the graph (operands first), and an inner loop is at the position of its END, after all outer values
that its body reads. So a single walk over the graph is enough.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> from svod_schedule.linearize import linearize
    >>> [node.op.name for node in linearize(kernel)]
    ['PARAM', 'CONST', 'PARAM', 'CONST', 'RANGE', 'INDEX', 'INDEX', 'MUL', 'STORE', 'END']
"""

from __future__ import annotations

from svod_dtype import void
from svod_ir import Op, UOp
from svod_schedule.errors import LinearizeError

__all__ = ["linearize"]

_SILENT = frozenset({Op.SINK, Op.GROUP, Op.NOOP})
_END, _RANGE = Op.END, Op.RANGE


def linearize(sink: UOp) -> tuple[UOp, ...]:
    """List the nodes of a kernel in execution order; each END closes one RANGE, and loops nest."""
    order = sink.toposort()
    loops = _Loops(order)
    body: dict[UOp | None, list[UOp]] = {None: []}
    for node in order:
        op = node.op
        if op is _END:
            body.setdefault(loops.parent[node.loops[0]], []).append(node)
        elif op is _RANGE:
            body.setdefault(node, [])
        elif op not in _SILENT:
            body.setdefault(loops.find_loop(node), []).append(node)
    result: list[UOp] = []
    _emit(body[None], body, result)
    return tuple(result)


class _Loops:
    """Loop nest: the enclosing RANGE of each RANGE (None for the outermost) and its depth."""

    def __init__(self, order: list[UOp]) -> None:
        self.parent: dict[UOp, UOp | None] = {}
        self.innermost_of: dict[frozenset[UOp], UOp] = {}
        self.depth: dict[UOp, int] = {}
        self._closed_in: dict[UOp, UOp] = {}
        # Outer loops are closed by later ENDs, so walking backwards meets them first.
        for node in reversed(order):
            if node.op is _END:
                around = self.find_loop(node)
                for r in node.loops:
                    if r in self.parent:
                        raise LinearizeError(problem="two ENDs close one range", node=r)
                    self.parent[r] = around
                    self.depth[r] = 0 if around is None else self.depth[around] + 1
                    around = r
                self._closed_in |= dict.fromkeys(_list_effects(node.body), node.loops[-1])

    def find_loop(self, node: UOp) -> UOp | None:
        """Return the RANGE of the loop that contains a node, or None outside all loops."""
        return self._closed_in.get(node) or self.innermost(node)

    def innermost(self, node: UOp) -> UOp | None:
        ranges = node.ranges
        if not ranges:
            return None
        # Many nodes depend on the same loops, and the check below walks the whole nest.
        cached = self.innermost_of.get(ranges)
        if cached is not None:
            return cached
        try:
            loop = max(ranges, key=self.depth.__getitem__)
        except KeyError as missing:
            raise LinearizeError(problem=f"no END closes {missing.args[0]}", node=node) from missing
        around: UOp | None = loop
        # Every loop that the node depends on has to enclose the innermost one.
        n_around = 0
        while around is not None:
            n_around += around in ranges
            around = self.parent[around]
        if n_around != len(ranges):
            raise LinearizeError(
                problem="a node depends on two loops of which neither encloses the other", node=node
            )
        self.innermost_of[ranges] = loop
        return loop


def _list_effects(body: UOp) -> list[UOp]:
    """List the effects of a loop body: its STOREs, and inner loops."""
    return (
        [effect for s in body.src for effect in _list_effects(s)] if body.op in _SILENT else [body]
    )


def _emit(nodes: list[UOp], body: dict[UOp | None, list[UOp]], result: list[UOp]) -> None:
    # Recursion is as deep as the loop nest.
    for node in nodes:
        if node.op is not _END:
            result.append(node)
            continue
        ranges = node.loops
        for r in ranges:
            result.append(r)
            _emit(body[r], body, result)
        result.extend(UOp(Op.END, void, (node.body, r)) for r in reversed(ranges))
