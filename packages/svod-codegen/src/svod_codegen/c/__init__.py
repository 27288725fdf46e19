"""Renderers of C: a base class for the languages of device plugins, and C for gcc and clang.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> from svod_schedule.pipeline import Context
    >>> from svod_schedule.steps import lower, optimize
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 8)) for slot in range(2))
    >>> i = UOp.range(8, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> context = Context(target=Target.generic(cores=1), opts=())
    >>> lowered = lower(optimize(kernel, context), context)
    >>> from svod_codegen.c import Buffer, CRenderer, GnuCRenderer, Variable, storage_bits
    >>> class OpenCl(CRenderer):
    ...     def open_file(self):
    ...         return []
    ...     def open_function(self, name, buffers: list[Buffer], variables: list[Variable]):
    ...         pointers = [f"__global {'' if b.is_written else 'const '}float *{b.name}" for b in buffers]
    ...         values = [f"int {v.name}" for v in variables]
    ...         return [f"__kernel void {name}({', '.join([*pointers, *values])}) {{"]
    >>> from svod_codegen.steps import linearize, render
    >>> print(render(linearize(lowered, "CPU"), OpenCl()).source.rstrip())
    __kernel void E_L8(__global float *data0, __global const float *data1) {
      for (int32_t i1 = 0; i1 < 8; i1++) {
        const float v2 = data1[i1];
        const float v3 = v2 * 0x1.0000000000000p+1f;
        data0[i1] = v3;
      }
    }

    The C of gcc and clang has vectors; a float dtype without arithmetic is represented by its bits:

    >>> from svod_dtype import float16
    >>> print(CRenderer().declare_vector(float32.vec(4)))
    typedef struct { float lane[4]; } f32x4;
    >>> print(GnuCRenderer().declare_vector(float32.vec(4)))
    typedef float f32x4 __attribute__((vector_size(16)));
    typedef float f32x4_in_memory __attribute__((vector_size(16), aligned(4), may_alias));
    typedef int32_t mf32x4 __attribute__((vector_size(16)));
    >>> hex(storage_bits(1.0, float16))
    '0x3c00'

    A plugin that compiles its own C passes the flags that the code requires:

    >>> from svod_codegen.c import REQUIRED_FLAGS
    >>> def make_command(source: str, binary: str) -> list[str]:
    ...     return ["my-cc", "-O2", *REQUIRED_FLAGS, source, "-o", binary]
    >>> make_command("kernel.c", "kernel.so")[2]
    '-fno-strict-aliasing'
"""

from __future__ import annotations

from svod_codegen._float_bits import storage_bits
from svod_codegen.c.gnu import GnuCRenderer
from svod_codegen.c.language import Buffer, Variable
from svod_codegen.c.renderer import CRenderer
from svod_codegen.c.toolchain import REQUIRED_FLAGS

__all__ = ["REQUIRED_FLAGS", "Buffer", "CRenderer", "GnuCRenderer", "Variable", "storage_bits"]
