"""The IR of svod: a graph of hash-consed nodes, its text form, its semantics, and rewriting.

`svod_ir.evaluate` (the reference semantics) and `svod_ir.testing` must be imported separately,
since they need numpy.

Example:
    >>> import numpy as np
    >>> from svod_dtype import float32, int32
    >>> from svod_ir import BufferArg, Op, RuleSet, UOp, graph_rewrite, parse_graph, print_graph, rule
    >>> from svod_ir import make_permute, make_reduce_axis, make_reshape
    >>> from svod_ir.evaluate import evaluate
    >>> x = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU")), (3, 4))
    >>> y = make_reduce_axis(make_permute(x, (1, 0)) * 2.0, Op.ADD, (1,))
    >>> y.shape, y.dtype, parse_graph(print_graph(y)) is y
    ((4, 1), float32, True)
    >>> from svod_ir.pattern import INT, const, var
    >>> @rule(var("x", INT) * const(when=lambda c: c.arg == 1))
    ... def times_one(x: UOp) -> UOp | None:
    ...     'x * 1 -> x.'
    ...     return x
    >>> i = UOp.variable("i", 0, 9)
    >>> product = UOp(Op.MUL, i.dtype, (i, UOp.const(i.dtype, 1)))
    >>> graph_rewrite(RuleSet("ones", (times_one,)), product) is i
    True
    >>> from svod_ir import watch_matches
    >>> seen = []
    >>> with watch_matches(seen.append):
    ...     _ = graph_rewrite(RuleSet("ones", (times_one,)), product)
    >>> [match.rule for match in seen]
    ['times_one']
    >>> from svod_ir import dtype_bounds, format_expression, format_shape, format_size
    >>> dtype_bounds(int32), format_expression(i * 2 + 1), format_shape((2, i)), format_size(i)
    ((-2147483648, 2147483647), '((i * 2) + 1)', '(2, i)', 'i')
"""

from __future__ import annotations

# Importing these modules registers the derived properties of nodes.
from svod_ir import _bounds, _scope, _shape, origins  # noqa: F401  # pyright: ignore[reportUnusedImport]
from svod_ir._bounds import dtype_bounds
from svod_ir._cache_counts import CacheCounts, HitCounter
from svod_ir._concat import index_dtype_for, make_broadcasted_iota, make_concat, make_empty
from svod_ir._constant import evaluate_scalar, is_zero
from svod_ir._dependency_order import sort_by_dependencies
from svod_ir._fresh_ids import FreshIds
from svod_ir._node_order import compare_nodes, node_key
from svod_ir._size_text import format_shape, format_size
from svod_ir._threefry import threefry
from svod_ir._trips import exact_trips, max_trips, typical_trips
from svod_ir.args import (
    BufferArg,
    BufferizeArg,
    CheckArg,
    KernelInfo,
    Opt,
    OptOp,
    ParamArg,
    RepeatArg,
    format_opts,
    parse_opts,
)
from svod_ir.build import (
    make_alu,
    make_as_complex,
    make_as_real,
    make_cast,
    make_check,
    make_complex,
    make_constant_like,
    make_expand,
    make_flip,
    make_gather,
    make_imag,
    make_iota,
    make_pad,
    make_permute,
    make_real,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter,
    make_scatter_add,
    make_shrink,
)
from svod_ir.errors import (
    AxisError,
    BroadcastError,
    DeviceMismatchError,
    EvaluationError,
    GraphError,
    MiscompilationError,
    NotDifferentiableError,
    OperandError,
    OptionError,
    ParseError,
    RewriteError,
    RuleError,
    ShapeError,
    SpecError,
    TargetError,
    UndecidedError,
    UnsupportedOpError,
)
from svod_ir.log import get_logger
from svod_ir.ops import AxisType, Op
from svod_ir.options import IROptions
from svod_ir.pattern import Pattern
from svod_ir.placement import Mesh, MeshLayout, Sharding
from svod_ir.rewrite import Match, count_matches, graph_rewrite, watch_matches
from svod_ir.ruleset import Rule, RuleSet, rule
from svod_ir.spec import verify
from svod_ir.target import Rates, Target, TensorCore
from svod_ir.text import format_expression, parse_graph, print_graph
from svod_ir.uop import SInt, UOp

__all__ = [
    "AxisError",
    "AxisType",
    "BroadcastError",
    "BufferArg",
    "BufferizeArg",
    "CacheCounts",
    "CheckArg",
    "DeviceMismatchError",
    "EvaluationError",
    "FreshIds",
    "GraphError",
    "HitCounter",
    "IROptions",
    "KernelInfo",
    "Match",
    "Mesh",
    "MeshLayout",
    "MiscompilationError",
    "NotDifferentiableError",
    "Op",
    "OperandError",
    "Opt",
    "OptOp",
    "OptionError",
    "ParamArg",
    "ParseError",
    "Pattern",
    "Rates",
    "RepeatArg",
    "RewriteError",
    "Rule",
    "RuleError",
    "RuleSet",
    "SInt",
    "ShapeError",
    "Sharding",
    "SpecError",
    "Target",
    "TargetError",
    "TensorCore",
    "UOp",
    "UndecidedError",
    "UnsupportedOpError",
    "compare_nodes",
    "count_matches",
    "dtype_bounds",
    "evaluate_scalar",
    "exact_trips",
    "format_expression",
    "format_opts",
    "format_shape",
    "format_size",
    "get_logger",
    "graph_rewrite",
    "index_dtype_for",
    "is_zero",
    "make_alu",
    "make_as_complex",
    "make_as_real",
    "make_broadcasted_iota",
    "make_cast",
    "make_check",
    "make_complex",
    "make_concat",
    "make_constant_like",
    "make_empty",
    "make_expand",
    "make_flip",
    "make_gather",
    "make_imag",
    "make_iota",
    "make_pad",
    "make_permute",
    "make_real",
    "make_reduce_axis",
    "make_reshape",
    "make_scan_axis",
    "make_scatter",
    "make_scatter_add",
    "make_shrink",
    "max_trips",
    "node_key",
    "parse_graph",
    "parse_opts",
    "print_graph",
    "rule",
    "sort_by_dependencies",
    "threefry",
    "typical_trips",
    "verify",
    "watch_matches",
]
