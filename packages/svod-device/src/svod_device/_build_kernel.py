"""Building of kernels: render, compile and load a linear program with a backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from svod_device._protocols import Backend, Program
from svod_device._spec import CompiledSpec, ProgramSpec
from svod_dtype import void
from svod_ir import Op, UOp

__all__ = ["Built", "build_kernel", "order_nodes", "render_spec"]

_DECLARATIONS = frozenset({Op.PARAM, Op.DEFINE_VAR, Op.DEFINE_REG, Op.DEFINE_LOCAL, Op.CONST})


class Built(NamedTuple):
    """Kernel that is ready to launch."""

    spec: ProgramSpec
    compiled: CompiledSpec
    program: Program


def order_nodes(sink: UOp, order: Sequence[UOp] = ()) -> tuple[UOp, ...]:
    """Return the nodes of a kernel in execution order. The nodes of `order` keep their relative
    order.
    """
    nodes = dict.fromkeys(node for root in (*order, sink) for node in root.toposort())
    declarations = [n for n in nodes if n.op in _DECLARATIONS]
    # Parameters first, by slot, as in the signature of the kernel.
    declarations.sort(key=lambda n: n.arg.slot if n.op is Op.PARAM else 1 << 30)
    statements = [n for n in nodes if n.op not in _DECLARATIONS and n is not sink]
    return (*declarations, *statements)


def render_spec(
    name: str, sink: UOp, linear: Sequence[UOp], backend: Backend, device: str
) -> ProgramSpec:
    """Render a kernel and return its spec."""
    source = backend.renderer.render(linear, name)
    stages = (sink, UOp(Op.LINEAR, void, tuple(linear)), UOp(Op.SOURCE, void, (), source))
    return ProgramSpec.from_program(UOp(Op.PROGRAM, void, stages, device))


def build_kernel(
    name: str, sink: UOp, linear: Sequence[UOp], backend: Backend, device: str
) -> Built:
    """Render, compile and load a kernel. The loader gets no graph, as from a disk cache."""
    spec = render_spec(name, sink, linear, backend, device)
    compiled = replace(backend.compiler.compile(spec), ast=None)
    return Built(spec, compiled, backend.loader(compiled))
