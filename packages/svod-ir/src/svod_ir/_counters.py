"""Variables of loop bodies: free variables, and counters that LOOPs bind.

A graph keeps its semantics when it moves into or out of a body only if no loop captures its
variables. Nested LOOPs therefore bind different names, and the name of a new counter does not occur
in its body."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final

from svod_ir._bodies import get_bodies, map_bodies
from svod_ir.ops import Op
from svod_ir.origins import make_images
from svod_ir.uop import UOp

__all__ = [
    "COUNTER_PREFIX",
    "choose_counter",
    "list_bound_names",
    "list_free_variables",
    "rename_inner_counters",
    "replace_variable",
]

COUNTER_PREFIX: Final = "loop_counter_"
"""Prefix of the names of all loop counters, and of no other variable."""


def choose_counter(body: UOp, first: int = 0, scope: Collection[str] = ()) -> str:
    """Choose the name of a counter for a loop with this body: one that no variable in the body has,
    free or bound.

    Args:
        body: the graph that binds the counter.
        first: the smallest suffix of the name.
        scope: other names to avoid.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.loops import choose_counter
        >>> choose_counter(UOp.sink(UOp.variable("loop_counter_0", 0, 3).cast(int32)))
        'loop_counter_1'
    """
    taken = {*scope, *_list_names(body)}
    return next(
        name for k in itertools.count(first) if (name := f"{COUNTER_PREFIX}{k}") not in taken
    )


def rename_inner_counters(body: UOp, counter: str | None) -> UOp:
    """Rename the counters called `counter` of loops in `body`, so that an outer loop can bind the
    name.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import Op, UOp
        >>> from svod_ir.loops import make_counter, make_loop, make_parameter, rename_inner_counters
        >>> i = make_counter("loop_counter_0", 3)
        >>> start = UOp.const(int32, 0)
        >>> (total,) = make_loop(UOp.sink(make_parameter(start, 0) + i.cast(int32)), 3, (start,), n_carried=1, counter=i.arg.name)
        >>> renamed = rename_inner_counters(UOp.sink(total * i.cast(int32)), "loop_counter_0")
        >>> [node.arg.counter for node in renamed.iter_ops(Op.LOOP)], i in renamed.toposort()
        (['loop_counter_1'], True)
    """
    # The body itself, so that its identity and all facts cached for it remain.
    if counter is None or counter not in list_bound_names(body):
        return body
    return _rename_loops(body, counter, choose_counter(body, scope=(counter,)))


def _rename_loops(graph: UOp, counter: str, name: str) -> UOp:
    done = make_images()
    for node in graph.toposort():
        new = node.with_images(done)
        if new.op is Op.LOOP and new.arg.counter == counter:
            inside = _rename_loops(new.arg.body, counter, name)
            # Several nodes may have the name: their bounds or dtypes differ.
            for variable in _list_free(inside):
                if variable.arg.name == counter:
                    inside = replace_variable(
                        inside, variable, variable.with_arg(variable.arg._replace(name=name))
                    )
            new = new.with_arg(new.arg._replace(body=inside, counter=name))
        elif get_bodies(new):
            new = map_bodies(new, lambda body: _rename_loops(body, counter, name))
        done[node] = new
    return done[graph]


def replace_variable(root: UOp, variable: UOp, value: UOp) -> UOp:
    """Substitute `value` for a free variable of `root`, also in the bodies of loops and switches.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.evaluate import evaluate
        >>> from svod_ir.loops import make_loop, make_parameter, replace_variable
        >>> from svod_ir.uop import to_node
        >>> one, n = UOp.const(int32, 1), UOp.variable("n", 1, 8)
        >>> (power,) = make_loop(UOp.sink(make_parameter(one, 0) * n.cast(int32)), 3, (one,), n_carried=1)
        >>> evaluate(replace_variable(power, n, to_node(5))).item()
        125
    """
    done = make_images()
    done[variable] = value
    for node in root.toposort():
        if node in done:
            continue
        new = node.with_images(done)
        # This loop binds the name itself: in its body it is the loop's counter.
        is_hidden = new.op is Op.LOOP and new.arg.counter == variable.arg.name
        done[node] = (
            map_bodies(new, lambda body: replace_variable(body, variable, value))
            if get_bodies(new) and not is_hidden
            else new
        )
    return done[root]


def list_free_variables(root: UOp) -> list[UOp]:
    """The free variables of the bodies in a graph, also nested ones: variables that no loop binds.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.loops import list_free_variables, make_counter, make_loop, make_parameter
        >>> zero, n = UOp.const(int32, 0), UOp.variable("n", 1, 8)
        >>> i = make_counter("i", 10)
        >>> body = UOp.sink(make_parameter(zero, 0) + (i * n).cast(int32))
        >>> (total,) = make_loop(body, 10, (zero,), n_carried=1, counter="i")
        >>> list_free_variables(total) == [n], i.bounds
        (True, (0, 9))
    """
    # A dict keeps the order of the graph; the order of a set of nodes would depend on addresses.
    free: dict[UOp, None] = {}
    for node in root.toposort():
        counter = node.arg.counter if node.op is Op.LOOP else None
        for body in get_bodies(node):
            free.update(dict.fromkeys(n for n in _list_free(body) if n.arg.name != counter))
    return list(free)


def _list_free(graph: UOp) -> tuple[UOp, ...]:
    return (*graph.iter_ops(Op.DEFINE_VAR), *list_free_variables(graph))


def list_bound_names(graph: UOp) -> set[str]:
    """The names of the counters of all loops in a graph, also nested ones."""
    names: set[str] = set()
    for node in graph.iter_ops(Op.LOOP, Op.SWITCH):
        if node.op is Op.LOOP and node.arg.counter is not None:
            names.add(node.arg.counter)
        for body in get_bodies(node):
            names |= list_bound_names(body)
    return names


def _list_names(graph: UOp) -> set[str]:
    """The names of all variables in a graph, free and bound."""
    names: set[str] = set()
    # Free names count as well: a counter with the name of a variable would capture it.
    for node in graph.iter_ops(Op.LOOP, Op.SWITCH, Op.DEFINE_VAR):
        if node.op is Op.DEFINE_VAR:
            names.add(node.arg.name)
        elif node.op is Op.LOOP and node.arg.counter is not None:
            names.add(node.arg.counter)
        for body in get_bodies(node):
            names |= _list_names(body)
    return names
