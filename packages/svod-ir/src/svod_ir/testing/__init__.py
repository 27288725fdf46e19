"""What tests of passes need: random graphs, golden files, and a comparison by meaning (extra `testing`).

from hypothesis import given
from svod_ir.testing import assert_same, graphs

@given(graphs())
def test_my_pass_keeps_the_meaning(graph):
    assert_same(graph, my_pass(graph))
"""

from __future__ import annotations

from svod_ir.compare import assert_close, assert_same, random_array, random_inputs, tolerance
from svod_ir.testing.effort import count_examples, take_share
from svod_ir.testing.golden import GoldenCase, GoldenMismatch, check_case, list_cases, read_cases
from svod_ir.testing.looping import loops
from svod_ir.testing.processes import count_steps_beside, run_in_child, run_in_threads, run_script, start_threads
from svod_ir.testing.strategies import conditions, dtypes, expressions, graphs, shapes
from svod_ir.testing.texts import parse_linear, parse_nodes

__all__ = [
    "GoldenCase", "GoldenMismatch", "assert_close", "assert_same", "check_case", "conditions", "count_examples", "count_steps_beside",
    "dtypes", "expressions", "graphs", "list_cases", "loops", "parse_linear", "parse_nodes", "random_array", "random_inputs",
    "read_cases", "run_in_child", "run_in_threads", "run_script", "shapes", "start_threads", "take_share", "tolerance",
]  # fmt: skip
