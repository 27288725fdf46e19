"""Functions that a kernel defines once and calls: sine, cosine and tangent.

A call inside of a branch, a loop of at most one iteration, gets rare arguments and takes the slow path
alone, `rare_sin_cos_v8f32`. Other calls get all arguments: `sin_v8f32`, which calls the slow path for
rare ones, and `sin_cos_v8f32` where the sine and the cosine of one argument are needed in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_codegen.llvm.function import FunctionWriter
from svod_codegen.llvm.text import suffix_text, type_text
from svod_dtype import DType
from svod_ir import Op, UOp
from svod_schedule.lower import SharedFunctions, define_shared

if TYPE_CHECKING:
    from svod_ir import Target

__all__ = ["Call", "Function", "define_functions", "emit_call", "is_condition", "list_calls"]

_PAIR: Final = (Op.SIN, Op.COS)

Writer = Callable[[FunctionWriter, UOp], None]
"""Writes a node of an expression without loops and memory."""


class Call(NamedTuple):
    """A call of a function with the nodes that it computes.

    `branch` is the loop of the branch that contains the call, if it is a call for rare arguments.
    """

    nodes: tuple[UOp, ...]
    branch: UOp | None

    @property
    def function(self) -> Function:
        """The function that is called."""
        ops = tuple(node.op for node in self.nodes)
        function = Function(ops, self.nodes[0].dtype, is_rare=False)
        return function if self.branch is None else function.get_slow_path()


class Function(NamedTuple):
    """A function of vectors of `dtype`, or its slow path for rare arguments."""

    ops: tuple[Op, ...]
    dtype: DType
    is_rare: bool

    @property
    def name(self) -> str:
        """The name in the kernel, such as `rare_sin_cos_v8f32`."""
        ops = "_".join(op.name.lower() for op in self.ops)
        return f"{'rare_' if self.is_rare else ''}{ops}_{suffix_text(self.dtype)}"

    @property
    def result_type(self) -> str:
        """The type of the result: one value, or a pair."""
        kind = type_text(self.dtype)
        return kind if len(self.ops) == 1 else f"{{ {kind}, {kind} }}"

    def get_slow_path(self) -> Function:
        """Return the slow path. Sine and cosine have a common one, since nearly all of its work is
        the reduction of the argument.
        """
        ops = _PAIR if self.ops[0] in _PAIR else self.ops
        return Function(ops, self.dtype, is_rare=True)


def is_condition(stop: UOp) -> bool:
    """Whether a loop is a branch: one iteration if a condition holds, none otherwise."""
    return stop.op is Op.CAST and stop.source.dtype.is_bool


def list_calls(linear: tuple[UOp, ...], target: Target) -> dict[UOp, Call]:
    """List the calls of a kernel, each for each of its nodes."""
    calls: dict[UOp, Call] = {}
    # A sine and a cosine are one call only inside of the same loop: what is computed in a loop is
    # unknown outside of it.
    nodes_of: dict[tuple[UOp | None, UOp, bool], list[UOp]] = {}
    entered: list[UOp] = []
    for node in linear:
        if node.op is Op.RANGE:
            entered.append(node)
        elif node.op is Op.END:
            entered.pop()
        elif node.op in target.shared_ops:
            loop = entered[-1] if entered else None
            if loop is not None and is_condition(loop.stop):
                calls[node] = Call((node,), loop)
            else:
                nodes_of.setdefault((loop, node.source, node.op in _PAIR), []).append(node)
    for nodes in nodes_of.values():
        call = Call(tuple(sorted(nodes, key=lambda n: n.op is Op.COS)), None)
        calls |= dict.fromkeys(nodes, call)
    return calls


def emit_call(w: FunctionWriter, call: Call) -> None:
    """Write a call where the first of its nodes stands."""
    if call.nodes[0] in w.names:
        return
    results = _emit_results(w, call.function, w.value(call.nodes[0].source))
    for node in call.nodes:
        w.names[node] = results[node.op]


def define_functions(
    kernel: FunctionWriter, calls: Iterable[Call], write: Writer, rarely: str
) -> list[str]:
    """Define each function that is called, once.

    Args:
        kernel: the writer of the kernel, which gets the declarations.
        calls: the calls of the kernel.
        write: writer of the nodes of their bodies.
        rarely: metadata of a branch that is seldom taken.
    """
    # The slow paths last, since the others call them. A dict keeps the order of the first calls.
    called = dict.fromkeys(call.function for call in calls)
    functions = dict.fromkeys([*called, *(f.get_slow_path() for f in called)])
    lines: list[str] = []
    for function in functions:
        w = FunctionWriter(kernel.target)
        shared = define_shared(function.ops, function.dtype, w.target)
        w.names[shared.argument] = "%x"
        kind = function.result_type
        if function.is_rare:
            _write_nodes(w, shared.rare, write)
            result = _join(w, function, [w.value(value) for value in shared.rare])
        else:
            result = _write_branch(w, function, shared, write, rarely)
        kernel.declarations |= w.declarations
        parameter = f"{type_text(function.dtype)} %x"
        # Not inlined: the slow path has several hundred instructions.
        head = f"define internal {kind} @{function.name}({parameter})"
        lines += [f"{head} noinline nounwind memory(none) {{", "entry:", *w.lines]
        lines += [f"  ret {kind} {result}", "}"]
    return lines


def _write_branch(
    w: FunctionWriter, function: Function, shared: SharedFunctions, write: Writer, rarely: str
) -> str:
    """Write the values of common arguments, and a call of the slow path if a lane is rare."""
    _write_nodes(w, (shared.is_rare, shared.has_rare, *shared.common), write)
    kind, lanes = type_text(function.dtype), type_text(shared.is_rare.dtype)
    values = [w.value(value) for value in shared.common]
    common = _join(w, function, values)
    w.do(f"br i1 {w.value(shared.has_rare)}, label %rare, label %done{rarely}")
    w.start_block("rare")
    slow = _emit_results(w, function.get_slow_path(), "%x")
    exact = [
        w.emit(f"select {lanes} {w.value(shared.is_rare)}, {kind} {slow[op]}, {kind} {value}")
        for op, value in zip(function.ops, values, strict=True)
    ]
    corrected = _join(w, function, exact)
    w.do("br label %done")
    w.start_block("done")
    return w.emit(f"phi {function.result_type} [ {common}, %entry ], [ {corrected}, %rare ]")


def _emit_results(w: FunctionWriter, function: Function, argument: str) -> dict[Op, str]:
    """Write a call, and return its results by op."""
    kind = function.result_type
    result = w.emit(f"call {kind} @{function.name}({type_text(function.dtype)} {argument})")
    if len(function.ops) == 1:
        return {function.ops[0]: result}
    return {op: w.emit(f"extractvalue {kind} {result}, {i}") for i, op in enumerate(function.ops)}


def _join(w: FunctionWriter, function: Function, values: Sequence[str]) -> str:
    """Join the results of a function to the value that it returns."""
    if len(values) == 1:
        return values[0]
    pair, kind = function.result_type, type_text(function.dtype)
    joined = "poison"
    for i, value in enumerate(values):
        joined = w.emit(f"insertvalue {pair} {joined}, {kind} {value}, {i}")
    return joined


def _write_nodes(w: FunctionWriter, roots: Sequence[UOp], write: Writer) -> None:
    """Write the nodes of an expression that are not written yet."""
    for node in UOp.sink(*roots).toposort():
        if node not in w.names:
            write(w, node)
