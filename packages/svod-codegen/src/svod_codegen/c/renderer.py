"""`CRenderer`: rendering of linear programs to C99, and the base class for C-like languages.

A plugin overrides the differences of its language: the names of types (`type_name`), vectors
(`vector_type`, `make_vector`, `lane`), the function's head (`open_function`), qualifiers of memory
(`declare_local`, `pointer_type`), workgroups (`grid_index`, `barrier`) and single ops
(`scalar_operation`). Everything else follows from these. Each value is assigned by one statement.

Vectors are structs of lanes here, so that plain C99 compilers accept them; `GnuCRenderer` uses the
vector types of gcc and clang.
"""

from __future__ import annotations

from collections.abc import Sequence

from svod_codegen._locations import memory_of
from svod_codegen.c.kernel import KernelWriter
from svod_codegen.c.language import Buffer, CLanguage, Variable
from svod_ir import Op, UOp

__all__ = ["CRenderer"]


class CRenderer(CLanguage):
    """Renderer of linear programs to C99, with the calling convention of CPU kernels."""

    def render(self, linear: Sequence[UOp], name: str) -> str:
        """Render one kernel.

        Raises:
            RenderError: if a node has no rendering.
        """
        writer = KernelWriter(self)
        written = {memory_of(n.location) for n in linear if n.op is Op.STORE}
        params = sorted({n for n in linear if n.op is Op.PARAM}, key=lambda n: n.arg.slot)
        buffers = [Buffer(f"data{n.arg.slot}", n, n in written) for n in params]
        named = dict.fromkeys(n for n in linear if n.op is Op.DEFINE_VAR)
        variables = [
            Variable("part" if n.arg.name == "core_id" else f"var_{n.arg.name}", n) for n in named
        ]
        writer.names.update((item.node, item.name) for item in (*buffers, *variables))
        for node in linear:
            writer.write(node)
        types = [line for line in map(self.declare_vector, writer.types) if line]
        head = self.open_function(name, buffers, variables)
        return "\n".join([*self.open_file(), *types, *head, *writer.lines, "}", ""])
