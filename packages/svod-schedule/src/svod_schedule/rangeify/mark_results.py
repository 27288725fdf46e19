"""mark-results: mark the results of a graph as materialized.

before → after:

    SINK(x, ADD(x, y))      SINK(c, ADD(c, y)) with c = CONTIGUOUS(x)

Each operand of the SINK becomes a CONTIGUOUS node, which is always stored, and every other reader
of the same value reads the stored one. A computed value that is copied to another device is marked
too. A result that is a RESHAPE is stored below the RESHAPE, whose elements have the same order. A
control dependency is attached to a stored value:

    CONTROL_DEPENDENCY(RESHAPE(ADD(x, y)), z)      RESHAPE(CONTROL_DEPENDENCY(CONTIGUOUS(ADD(x, y)), z))

A result that is computed from constants and variables only is stored for the SINK, and its other
readers keep the expression: it may be a size, a trip count or a scalar argument of a custom
function, which are evaluated on the host and never loaded.

    SINK(3, CUSTOM_FUNCTION(x, 3))    SINK(CONTIGUOUS(3), CUSTOM_FUNCTION(x, 3))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from svod_ir import Op, UOp, make_reshape
from svod_ir.ops import ELEMENTWISE, MARKS, MEMORY, MOVEMENT
from svod_ir.origins import make_images
from svod_ir.placement import is_file
from svod_schedule.rangeify.analysis.devices import (
    get_memory_operands,
    is_always_stored,
    is_transfer,
    list_memory_operand_indices,
)

__all__ = ["mark_results"]

_DROPPED = MARKS | {Op.CHECK}
_TRANSPARENT = _DROPPED | {Op.CONTIGUOUS}
# A RESHAPE keeps the row-major order of elements, so that the memory of its source serves it.
_SAME_ORDER = frozenset({Op.RESHAPE})
_SCALAR_OPS = ELEMENTWISE | {Op.CONST, Op.DEFINE_VAR, Op.BIND}


def mark_results(sink: UOp) -> UOp:
    """Mark the results of `sink` as CONTIGUOUS, and drop marks and checks."""
    order = sink.toposort()
    materialized = (
        _choose_values(sink)
        | set(map(_value_of, _iter_copied(order)))
        | set(_iter_control_dependent(order))
    )
    done = make_images()
    unmarked: dict[UOp, UOp] = {}
    scalars: set[UOp] = set()
    for node in order:
        if node.op in _DROPPED:
            done[node] = done[node.source]
            continue
        operands = tuple(done[s] for s in node.src)
        if scalars:
            read_whole = list_memory_operand_indices(node)
            operands = tuple(
                _store_scalar(o, scalars) if i in read_whole else o for i, o in enumerate(operands)
            )
        if node.op is Op.ASSIGN:
            # The target is the memory itself, also where a copy of that memory is a result.
            operands = (_remake_view(node.target, done, unmarked), operands[1])
        # A value that is stored already needs no copy, also where only its shape differs.
        if node.op is Op.CONTIGUOUS and _is_stored(_without(_SAME_ORDER, operands[0])):
            done[node] = operands[0]
            continue
        if node is sink:
            # A result is stored below its RESHAPEs.
            operands = tuple(
                _store_scalar(_without(_SAME_ORDER, operand), scalars) for operand in operands
            )
        new = (
            _add_events(operands[0], operands[1:])
            if node.op is Op.CONTROL_DEPENDENCY
            else node.with_src(operands)
        )
        done[node] = new
        if node in materialized and not _is_stored(new):
            if _is_scalar(new):
                scalars.add(new)
            else:
                unmarked[node], done[node] = new, UOp(Op.CONTIGUOUS, new.dtype, (new,))
    return done[sink]


def _is_scalar(node: UOp) -> bool:
    """Whether `node` is a scalar expression of constants and variables."""
    return node.placement is None and all(n.op in _SCALAR_OPS for n in node.toposort())


def _store_scalar(view: UOp, scalars: set[UOp]) -> UOp:
    """Materialize `view` below its RESHAPEs if the value there is in `scalars`."""
    scalar = _without(_SAME_ORDER, view)
    if scalar not in scalars:
        return view
    stored = UOp(Op.CONTIGUOUS, scalar.dtype, (scalar,))
    return stored if view is scalar else make_reshape(stored, view.shape)


def _remake_view(view: UOp, images: Mapping[UOp, UOp], unmarked: Mapping[UOp, UOp]) -> UOp:
    """Rebuild `view` on the image of its memory, without the marks of results."""
    chain: list[UOp] = []
    while view.op in MOVEMENT:
        chain.append(view)
        view = view.source
    new = unmarked.get(view, images[view])
    for node in reversed(chain):
        new = node.with_src((new, *(images[s] for s in node.src[1:])))
    return new


def _choose_values(sink: UOp) -> set[UOp]:
    """Choose the values to materialize for the results, each in a buffer of its own.

    Of results that differ only in shape, one is stored below its RESHAPEs and the others as they
    are.
    """
    # In the order of the results: the first of several with equal elements takes the value below the
    # RESHAPEs, and the others are stored in their own shapes.
    results = dict.fromkeys(_without(_TRANSPARENT, s) for s in sink.src)
    values = {result for result in results if _value_of(result) is result}
    for result in results:
        value = _value_of(result)
        values.add(result if value in values else value)
    return values


def _iter_copied(order: list[UOp]) -> Iterator[UOp]:
    """Yield the computed values that are copied to another device."""
    for node in order:
        for source in get_memory_operands(node) if is_transfer(node) else ():
            source = _without(_SAME_ORDER, source)
            if source.op not in MEMORY and source.op is not Op.AFTER and not _is_stored(source):
                yield source


def _iter_control_dependent(order: list[UOp]) -> Iterator[UOp]:
    """Yield the computed values below control dependencies.

    These are read again later, so they are stored. A value that depends on no memory is recomputed
    instead.
    """
    for node in order:
        if node.op is Op.CONTROL_DEPENDENCY:
            base = _without(_TRANSPARENT | MOVEMENT | {Op.CONTROL_DEPENDENCY}, node.source)
            if base.placement is not None and base.op not in MEMORY and base.op is not Op.AFTER:
                yield base


def _add_events(view: UOp, events: tuple[UOp, ...]) -> UOp:
    """Rebuild `view` on memory that is read only after `events`."""
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
    # A result that aliases a buffer would change with it; files are read-only.
    is_alias = node.op is Op.BUFFER_VIEW and not is_file(node.placement)
    return is_always_stored(node) and not is_alias


def _value_of(node: UOp) -> UOp:
    """Return the value to store for a result: the value below its RESHAPEs, whose loop nest is
    simpler, unless that is memory already.
    """
    value = _without(_TRANSPARENT, node)
    below = _without(_TRANSPARENT | _SAME_ORDER, value)
    return value if below.op in MEMORY or below.op is Op.AFTER else below


def _without(ops: frozenset[Op], node: UOp) -> UOp:
    """Return the first node at or below `node` whose op is not in `ops`."""
    return node.strip(ops)
