"""The IR of svod: a graph of hash-consed nodes, its text form, its meaning, and rewriting.

`svod_ir.evaluate` (the reference meaning) and `svod_ir.testing` are modules of their own, since they need numpy.
"""

from __future__ import annotations

# Each defines what a node derives.
from svod_ir import bounds, origins, scope, shape  # noqa: F401  # pyright: ignore[reportUnusedImport]
from svod_ir.args import BufferArg, BufferizeArg, CheckArg, KernelInfo, Opt, OptOp, ParamArg, format_opts, parse_opts
from svod_ir.build import (
    make_alu,
    make_cast,
    make_check,
    make_constant_like,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_shrink,
)
from svod_ir.errors import (
    AxisError,
    BroadcastError,
    DeviceMismatchError,
    EvaluationError,
    GraphError,
    MeaningError,
    OperandError,
    OptionError,
    ParseError,
    RewriteError,
    RuleError,
    ShapeError,
    SpecError,
    UnknownMeaningError,
)
from svod_ir.log import get_logger
from svod_ir.ops import AxisType, Op
from svod_ir.options import IROptions
from svod_ir.pattern import Pattern
from svod_ir.placement import Sharding
from svod_ir.rewrite import Match, count_matches, graph_rewrite, watch_matches
from svod_ir.ruleset import Rule, RuleSet, rule
from svod_ir.spec import verify
from svod_ir.target import Rates, Target, TensorCore
from svod_ir.text import format_expression, parse_graph, print_graph
from svod_ir.uop import SInt, UOp

__all__ = [
    "AxisError", "AxisType", "BroadcastError", "BufferArg", "BufferizeArg", "CheckArg", "DeviceMismatchError",
    "EvaluationError", "GraphError", "IROptions", "KernelInfo", "Match", "MeaningError", "Op", "OperandError", "Opt",
    "OptOp", "OptionError", "ParamArg", "ParseError", "Pattern", "Rates", "RewriteError", "Rule", "RuleError",
    "RuleSet", "SInt", "ShapeError", "Sharding", "SpecError", "Target", "TensorCore", "UOp", "UnknownMeaningError",
    "count_matches", "format_expression", "format_opts", "get_logger", "graph_rewrite", "make_alu", "make_cast",
    "make_check", "make_constant_like", "make_expand", "make_flip", "make_gather", "make_iota", "make_pad",
    "make_permute", "make_reduce_axis", "make_reshape", "make_scan_axis", "make_shrink", "parse_graph", "parse_opts",
    "print_graph", "rule", "verify", "watch_matches",
]  # fmt: skip
