"""Equivalence of graphs, tested by evaluating both on the same inputs.

`find_change` compares the values and memory that whole graphs of any stage compute, within the
rounding of their floats. `find_difference` compares expressions at many values of their variables,
to the last bit or within some roundings.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp
    >>> from svod_ir.compare import assert_close, assert_same, count_steps, differ_at, find_change, find_difference, list_special
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 3, "CPU"))
    >>> assert_same(x + x, x * 2.0)
    >>> find_change(x + x, x * 3.0) is None, count_steps(x + x) > 0
    (False, True)
    >>> i = UOp.variable("i", 0, 9)
    >>> find_difference(i * 2, i + i, seed=0, n_samples=10), differ_at(i * 2, i + 1, {i: 3})
    (None, True)
    >>> assert_close([1.0], [1.0])
    >>> len(list_special(float32)) > 3
    True
    >>> import numpy as np
    >>> from svod_ir.compare import Change, hide_reads, random_array, random_inputs, tolerance
    >>> change = find_change(x + x, x * 3.0)
    >>> isinstance(change, Change), change.problem
    (True, 'value: element 0 is 9.0, expected 6.0 (2 of 3 differ)')
    >>> {node.op: value.dtype for node, value in random_inputs(x + x).items()}
    {BUFFER: dtype('float32')}
    >>> random_array(float32, 3, np.random.default_rng(0)).shape, tolerance(x)
    ((3,), 9.5367431640625e-07)
    >>> from svod_ir import make_reduce_axis
    >>> total = make_reduce_axis(x, Op.ADD, (0,))
    >>> left, right = hide_reads(total + total, total * 2.0, max_nodes=20)
    >>> left.op, right.op, left.left is right.left, left.left.op
    (ADD, MUL, True, BUFFER)
"""

from __future__ import annotations

from svod_ir.compare.effort import count_steps
from svod_ir.compare.expressions import differ_at, find_difference, list_special
from svod_ir.compare.graphs import (
    Change,
    assert_close,
    assert_same,
    find_change,
    random_array,
    random_inputs,
    tolerance,
)
from svod_ir.compare.reads import hide_reads

__all__ = [
    "Change",
    "assert_close",
    "assert_same",
    "count_steps",
    "differ_at",
    "find_change",
    "find_difference",
    "hide_reads",
    "list_special",
    "random_array",
    "random_inputs",
    "tolerance",
]
