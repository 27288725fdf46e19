"""Test support for passes: random graphs, golden files, and comparison of semantics (extra
`testing`).

Example:
    >>> from hypothesis import HealthCheck, given, settings
    >>> from svod_ir import make_empty, parse_graph, print_graph, verify
    >>> from svod_ir.testing import assert_same, conditions, count_examples, dtypes, expressions, graphs, loops, shapes
    >>> few = settings(max_examples=count_examples(20), deadline=None, suppress_health_check=list(HealthCheck))
    >>> @few
    ... @given(expressions(), conditions())
    ... def test_where_of_equal_values_is_that_value(x, condition):
    ...     assert_same(condition.where(x, x), x)
    >>> test_where_of_equal_values_is_that_value()
    >>> @few
    ... @given(graphs(max_ops=3), loops(max_ops=2))
    ... def test_printed_graphs_parse_to_the_identical_node(graph, loop):
    ...     verify(loop, "graph")
    ...     assert parse_graph(print_graph(graph)) is graph
    >>> test_printed_graphs_parse_to_the_identical_node()
    >>> @few
    ... @given(dtypes(), shapes(max_ndim=2))
    ... def test_an_empty_tensor_has_a_shape(dtype, shape):
    ...     assert make_empty(dtype, (0, *shape)).shape == (0, *shape)
    >>> test_an_empty_tensor_has_a_shape()
    >>> from svod_ir.testing import parse_linear, parse_nodes
    >>> text = '''
    ... %x = DEFINE_VAR index ["x", 0, 9]
    ... %sum = ADD index %x, 1
    ... '''
    >>> parse_nodes(text)["sum"].bounds, [node.op for node in parse_linear(text)]
    ((1, 10), [DEFINE_VAR, CONST, ADD])
    >>> from svod_ir.testing import run_script
    >>> script = '''
    ... print(run_in_child(lambda: 3))
    ... '''
    >>> print(run_script(script), end="")  # the exit status of a forked child
    3
"""

from __future__ import annotations

from svod_ir.compare import assert_close, assert_same, random_array, random_inputs, tolerance
from svod_ir.testing.effort import count_examples, take_share
from svod_ir.testing.golden import GoldenCase, GoldenMismatch, check_case, list_cases, read_cases
from svod_ir.testing.looping import loops
from svod_ir.testing.processes import (
    count_steps_beside,
    run_in_child,
    run_in_threads,
    run_script,
    start_threads,
)
from svod_ir.testing.strategies import conditions, dtypes, expressions, graphs, shapes
from svod_ir.testing.texts import parse_linear, parse_nodes

__all__ = [
    "GoldenCase",
    "GoldenMismatch",
    "assert_close",
    "assert_same",
    "check_case",
    "conditions",
    "count_examples",
    "count_steps_beside",
    "dtypes",
    "expressions",
    "graphs",
    "list_cases",
    "loops",
    "parse_linear",
    "parse_nodes",
    "random_array",
    "random_inputs",
    "read_cases",
    "run_in_child",
    "run_in_threads",
    "run_script",
    "shapes",
    "start_threads",
    "take_share",
    "tolerance",
]
