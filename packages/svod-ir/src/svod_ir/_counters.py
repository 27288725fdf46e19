"""Variables of loop bodies: free variables, and the counters that LOOPs bind.

A graph that moves into a body, or out of it, keeps its meaning if no other loop captures one of its
variables. So a LOOP inside of a LOOP binds a variable of another name, and a new counter gets a
name that its body does not contain."""

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
"""The names of the variables that count iterations begin with this, and no other variable's name
does.
"""


def choose_counter(body: UOp, first: int = 0, scope: Collection[str] = ()) -> str:
    """A name for the counter of a loop with this body: no variable in the body has it, neither free
    nor bound.

    Args:
        body: the graph that the counter is to be bound in.
        first: the lowest number that the name may end in.
        scope: other names that it must not be.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir.loops import choose_counter
        >>> choose_counter(UOp.sink(UOp.variable("loop_counter_0", 0, 3).cast(int32)))
        'loop_counter_1'
    """
    taken = {*scope, *_list_names(body)}
    return next(
        name for k in itertools.count(first) if (name := f"{COUNTER_PREFIX}{k}") not in taken
    )


def rename_inner_counters(body: UOp, counter: str | None) -> UOp:
    """`body` with other names for the counters of its loops that are called `counter`, so that a
    loop can bind this name.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir.loops import make_counter, make_loop, make_parameter, rename_inner_counters
        >>> i = make_counter("loop_counter_0", 3)
        >>> start = UOp.const(int32, 0)
        >>> (total,) = make_loop(UOp.sink(make_parameter(start, 0) + i.cast(int32)), 3, (start,), n_carried=1, counter=i.arg.name)
        >>> renamed = rename_inner_counters(UOp.sink(total * i.cast(int32)), "loop_counter_0")
        >>> [node.arg.counter for node in renamed.iter_ops(Op.LOOP)], i in renamed.toposort()
        (['loop_counter_1'], True)
    """
    if counter is None or counter not in list_bound_names(body):
        return body
    return _rename_loops(body, counter, choose_counter(body, scope=(counter,)))


def _rename_loops(graph: UOp, counter: str, name: str) -> UOp:
    done = make_images()
    for node in graph.toposort():
        new = node.with_images(done)
        if new.op is Op.LOOP and new.arg.counter == counter:
            inside = _rename_loops(new.arg.body, counter, name)
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
    """`root` with `value` for a variable that is free in it, in the bodies of loops and choices
    too.

    Example:
        >>> from svod_dtype import int32
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
        is_hidden = new.op is Op.LOOP and new.arg.counter == variable.arg.name
        done[node] = (
            map_bodies(new, lambda body: replace_variable(body, variable, value))
            if get_bodies(new) and not is_hidden
            else new
        )
    return done[root]


def list_free_variables(root: UOp) -> list[UOp]:
    """The variables in the bodies of a graph, nested ones too, that no loop there counts by.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir.loops import list_free_variables, make_counter, make_loop, make_parameter
        >>> zero, n = UOp.const(int32, 0), UOp.variable("n", 1, 8)
        >>> i = make_counter("i", 10)
        >>> body = UOp.sink(make_parameter(zero, 0) + (i * n).cast(int32))
        >>> (total,) = make_loop(body, 10, (zero,), n_carried=1, counter="i")
        >>> list_free_variables(total) == [n], i.bounds
        (True, (0, 9))
    """
    found: dict[UOp, None] = {}
    for node in root.toposort():
        counter = node.arg.counter if node.op is Op.LOOP else None
        for body in get_bodies(node):
            found.update(dict.fromkeys(n for n in _list_free(body) if n.arg.name != counter))
    return list(found)


def _list_free(graph: UOp) -> tuple[UOp, ...]:
    return (*graph.iter_ops(Op.DEFINE_VAR), *list_free_variables(graph))


def list_bound_names(graph: UOp) -> set[str]:
    """The names of the counters of the loops in a graph, and in their bodies."""
    found: set[str] = set()
    for node in graph.iter_ops(Op.LOOP, Op.SWITCH):
        if node.op is Op.LOOP and node.arg.counter is not None:
            found.add(node.arg.counter)
        for body in get_bodies(node):
            found |= list_bound_names(body)
    return found


def _list_names(graph: UOp) -> set[str]:
    """The names of all variables in a graph, bound ones too."""
    found: set[str] = set()
    for node in graph.iter_ops(Op.LOOP, Op.SWITCH, Op.DEFINE_VAR):
        if node.op is Op.DEFINE_VAR:
            found.add(node.arg.name)
        elif node.op is Op.LOOP and node.arg.counter is not None:
            found.add(node.arg.counter)
        for body in get_bodies(node):
            found |= _list_names(body)
    return found
