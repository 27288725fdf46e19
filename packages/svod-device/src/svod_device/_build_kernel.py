"""From a kernel as a linear program to what can be launched: rendered, compiled and loaded by one
backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from svod_device._protocols import Backend, Program
from svod_device._spec import CompiledSpec, ProgramSpec
from svod_dtype import void
from svod_ir import Op, UOp

__all__ = ["Built", "build_kernel", "order_nodes", "render_spec"]

_FIRST = frozenset({Op.PARAM, Op.DEFINE_VAR, Op.DEFINE_REG, Op.DEFINE_LOCAL, Op.CONST})


class Built(NamedTuple):
    """A kernel that is ready to launch."""

    spec: ProgramSpec
    compiled: CompiledSpec
    program: Program


def order_nodes(sink: UOp, order: Sequence[UOp] = ()) -> tuple[UOp, ...]:
    """The nodes of a kernel in the order in which they run; `order` are some that run one after
    another.
    """
    nodes = dict.fromkeys(node for root in (*order, sink) for node in root.toposort())
    first = [n for n in nodes if n.op in _FIRST]
    first.sort(key=lambda n: n.arg.slot if n.op is Op.PARAM else 1 << 30)
    rest = [n for n in nodes if n.op not in _FIRST and n is not sink]
    return (*first, *rest)


def render_spec(
    name: str, sink: UOp, linear: Sequence[UOp], backend: Backend, device: str
) -> ProgramSpec:
    """Render a kernel, and derive what its launches must know."""
    source = backend.renderer.render(linear, name)
    stages = (sink, UOp(Op.LINEAR, void, tuple(linear)), UOp(Op.SOURCE, void, (), source))
    return ProgramSpec.from_program(UOp(Op.PROGRAM, void, stages, device))


def build_kernel(
    name: str, sink: UOp, linear: Sequence[UOp], backend: Backend, device: str
) -> Built:
    """Render, compile and load a kernel, as if it came from a cache on disk: without its graph."""
    spec = render_spec(name, sink, linear, backend, device)
    compiled = replace(backend.compiler.compile(spec), ast=None)
    return Built(spec, compiled, backend.loader(compiled))
