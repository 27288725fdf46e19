"""mark-results: say in the graph itself which nodes are its results.

before → after:

    SINK(x, ADD(x, y))      SINK(c, ADD(c, y)) with c = CONTIGUOUS(x)

Each operand of the SINK becomes a CONTIGUOUS node, which is always stored, and every other reader
of the same value reads the stored one. So does what is copied to another device and has no memory
of its own. A result that is a RESHAPE is stored below it, where its elements stand in the same
order. A control dependency is attached to a stored value:

    CONTROL_DEPENDENCY(RESHAPE(ADD(x, y)), z)      RESHAPE(CONTROL_DEPENDENCY(CONTIGUOUS(ADD(x, y)), z))

A result that is computed from constants and variables only is stored for the SINK, and its other
readers keep the expression: it may be a size, a trip count or a number of a custom function, which
are evaluated and never loaded.

    SINK(3, CUSTOM_FUNCTION(x, 3))    SINK(CONTIGUOUS(3), CUSTOM_FUNCTION(x, 3))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from svod_ir import Op, UOp, make_reshape
from svod_ir.ops import ELEMENTWISE, MARKS, MEMORY, MOVEMENT
from svod_ir.origins import make_images
from svod_ir.placement import is_file
from svod_schedule.rangeify.analysis.devices import (
    get_read_whole,
    is_always_stored,
    is_transfer,
    list_positions_read_whole,
)

__all__ = ["mark_results"]

_DROPPED = MARKS | {Op.CHECK}
_TRANSPARENT = _DROPPED | {Op.CONTIGUOUS}
_SAME_ORDER = frozenset({Op.RESHAPE})
_NUMBERS = ELEMENTWISE | {Op.CONST, Op.DEFINE_VAR, Op.BIND}


def mark_results(sink: UOp) -> UOp:
    """`sink` with CONTIGUOUS operands, and without the nodes that only say something."""
    order = sink.toposort()
    wanted = (
        _choose_values(sink)
        | set(map(_value_of, _iter_copied(order)))
        | set(_iter_control_dependent(order))
    )
    done = make_images()
    unmarked: dict[UOp, UOp] = {}
    numbers: set[UOp] = set()
    for node in order:
        if node.op in _DROPPED:
            done[node] = done[node.source]
            continue
        operands = tuple(done[s] for s in node.src)
        if numbers:
            whole = list_positions_read_whole(node)
            operands = tuple(
                _store_number(o, numbers) if i in whole else o for i, o in enumerate(operands)
            )
        if node.op is Op.ASSIGN:
            # What is written is the memory itself, also where a copy of it is a result.
            operands = (_remake_view(node.target, done, unmarked), operands[1])
        if node.op is Op.CONTIGUOUS and _is_stored(_without(_SAME_ORDER, operands[0])):
            done[node] = operands[0]
            continue
        if node is sink:
            # A result that is stored as itself is no RESHAPE any more.
            operands = tuple(
                _store_number(_without(_SAME_ORDER, operand), numbers) for operand in operands
            )
        new = (
            _wait(operands[0], operands[1:])
            if node.op is Op.CONTROL_DEPENDENCY
            else node.with_src(operands)
        )
        done[node] = new
        if node in wanted and not _is_stored(new):
            if _is_number(new):
                numbers.add(new)
            else:
                unmarked[node], done[node] = new, UOp(Op.CONTIGUOUS, new.dtype, (new,))
    return done[sink]


def _is_number(node: UOp) -> bool:
    """Whether `node` is a scalar expression of constants and variables."""
    return node.placement is None and all(n.op in _NUMBERS for n in node.toposort())


def _store_number(view: UOp, numbers: set[UOp]) -> UOp:
    """`view`, stored below its RESHAPEs if that is one of `numbers`."""
    number = _without(_SAME_ORDER, view)
    if number not in numbers:
        return view
    stored = UOp(Op.CONTIGUOUS, number.dtype, (number,))
    return stored if view is number else make_reshape(stored, view.shape)


def _remake_view(view: UOp, images: Mapping[UOp, UOp], unmarked: Mapping[UOp, UOp]) -> UOp:
    """`view` of the image of the memory below it, none of which is marked as a result."""
    chain: list[UOp] = []
    while view.op in MOVEMENT:
        chain.append(view)
        view = view.source
    new = unmarked.get(view, images[view])
    for node in reversed(chain):
        new = node.with_src((new, *(images[s] for s in node.src[1:])))
    return new


def _choose_values(sink: UOp) -> set[UOp]:
    """What to store for the results, each in memory of its own: one of several that differ in their
    shapes is stored below these.
    """
    results = dict.fromkeys(_without(_TRANSPARENT, s) for s in sink.src)
    values = {result for result in results if _value_of(result) is result}
    for result in results:
        value = _value_of(result)
        values.add(result if value in values else value)
    return values


def _iter_copied(order: list[UOp]) -> Iterator[UOp]:
    """What is copied to another device and is no memory yet."""
    for node in order:
        for source in get_read_whole(node) if is_transfer(node) else ():
            source = _without(_SAME_ORDER, source)
            if source.op not in MEMORY and source.op is not Op.AFTER and not _is_stored(source):
                yield source


def _iter_control_dependent(order: list[UOp]) -> Iterator[UOp]:
    """What is read again later, and so is stored, unless it comes from no memory and is
    made again.
    """
    for node in order:
        if node.op is Op.CONTROL_DEPENDENCY:
            base = _without(_TRANSPARENT | MOVEMENT | {Op.CONTROL_DEPENDENCY}, node.source)
            if base.placement is not None and base.op not in MEMORY and base.op is not Op.AFTER:
                yield base


def _wait(view: UOp, events: tuple[UOp, ...]) -> UOp:
    """`view` of memory that is read once the events are computed."""
    chain: list[UOp] = []
    while view.op in MOVEMENT:
        chain.append(view)
        view = view.source
    is_memory = (
        view.op in MEMORY
        or view.op is Op.AFTER
        or view.op is Op.CONTROL_DEPENDENCY
        or _is_stored(view)
    )
    new = UOp(Op.CONTROL_DEPENDENCY, view.dtype, (view, *events)) if is_memory else view
    for node in reversed(chain):
        new = node.with_src((new, *node.src[1:]))
    return new


def _is_stored(node: UOp) -> bool:
    # A result that only were a view of memory would change with it; of a file, nothing does.
    is_alias = node.op is Op.BUFFER_VIEW and not is_file(node.placement)
    return is_always_stored(node) and not is_alias


def _value_of(node: UOp) -> UOp:
    """What is stored for a result: the value below its RESHAPEs, whose loops are simpler, unless
    that is memory already.
    """
    value = _without(_TRANSPARENT, node)
    below = _without(_TRANSPARENT | _SAME_ORDER, value)
    return value if below.op in MEMORY or below.op is Op.AFTER else below


def _without(ops: frozenset[Op], node: UOp) -> UOp:
    """The first node below `node` whose op is none of `ops`."""
    return node.strip(ops)
