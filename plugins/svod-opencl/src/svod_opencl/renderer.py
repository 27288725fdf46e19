"""Renderer of linear programs to OpenCL C 1.2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from svod_codegen.c import Buffer, CRenderer, Variable, storage_bits
from svod_dtype import DType, float16, float64
from svod_ir import Op, Target, UOp
from svod_ir.args import find_grid_index
from svod_opencl.expressions import Expressions
from svod_opencl.types import constant, memory_name, scalar_name, split_lanes, vector_name

__all__ = ["OpenCLRenderer"]

_SPECIAL: Final = {"gidx": "get_group_id", "lidx": "get_local_id", "idx": "get_global_id"}


class OpenCLRenderer(CRenderer):
    """Renderer of kernels to OpenCL C 1.2.

    A kernel takes each buffer as a memory object and an offset in bytes, and then its variables
    as `long`s. Vectors of 2, 3, 4, 8 and 16 lanes are built-in types; wider vectors are structs of
    built-in vectors. No built-in vector is larger than `vector_bytes`. In one kernel, all have at
    most `part_lanes` lanes, so that vectors of all dtypes split at the same lanes."""

    def __init__(
        self,
        target: Target,
        *,
        has_exact_division: bool = True,
        vector_bytes: int = 128,
        part_lanes: int = 16,
    ) -> None:
        super().__init__(target)
        self.has_exact_division = has_exact_division
        self.vector_bytes = vector_bytes
        self.part_lanes = part_lanes

    def render(self, linear: Sequence[UOp], name: str) -> str:
        # One number of lanes for the whole kernel, so that parts of all vectors match lane by lane.
        widest = max((self._computed_bytes(n) for n in linear if n.dtype.lanes > 1), default=1)
        part_lanes = max(min(self.vector_bytes // widest, 16), 1)
        # Another renderer, rather than a field changed while rendering: this one may serve threads.
        if part_lanes == self.part_lanes:
            return super().render(linear, name)
        narrower = OpenCLRenderer(
            self.target,
            has_exact_division=self.has_exact_division,
            vector_bytes=self.vector_bytes,
            part_lanes=part_lanes,
        )
        return narrower.render(linear, name)

    def type_name(self, dtype: DType) -> str:
        return scalar_name(dtype, self.target)

    def vector_type(self, dtype: DType) -> str:
        self.type_name(dtype)
        return (
            dtype.short if self._is_struct(dtype) else vector_name(dtype, dtype.lanes, self.target)
        )

    def declare_vector(self, dtype: DType) -> str:
        if not self._is_struct(dtype):
            return ""
        names = (vector_name(dtype, size, self.target) for size in self._split(dtype))
        fields = " ".join(f"{name} part{i};" for i, name in enumerate(names))
        return f"typedef struct {{ {fields} }} {self.vector_type(dtype)};"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        vectors = [
            self._make_built_in_vector(dtype, lanes[start : start + size])
            for start, size in self._iter_parts(dtype)
        ]
        return self._join(dtype, vectors)

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        part_index, component = self._locate_lane(dtype, position)
        text = f"{self._parts(dtype, vector)[part_index]}{component}"
        # A lane of a mask is -1, and a scalar bool must be 1.
        return f"({text} != 0)" if dtype.is_bool else text

    def load_vector(self, dtype: DType, address: str) -> str | None:
        loads: list[str] = []
        for start, size in self._iter_parts(dtype):
            # A load through a vector pointer would need the alignment of the vector.
            text = f"vload{size}(0, {address} + {start})" if size > 1 else f"({address})[{start}]"
            loads.append(
                f"-convert_{vector_name(dtype, size, self.target)}({text})"
                if dtype.is_bool
                else text
            )
        return self._join(dtype, loads)

    def store_vector(self, dtype: DType, address: str, value: str) -> str | None:
        statements: list[str] = []
        for (start, size), part in zip(
            self._iter_parts(dtype), self._parts(dtype, value), strict=True
        ):
            # Memory holds a bool as 1, a mask as -1.
            suffix = "" if size == 1 else str(size)
            text = f"convert_uchar{suffix}(-{part})" if dtype.is_bool else part
            statement = (
                f"({address})[{start}] = {text};"
                if size == 1
                else f"vstore{size}({text}, 0, {address} + {start});"
            )
            statements.append(statement)
        return " ".join(statements)

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        dtype = node.dtype
        operand_parts = [self._parts(s.dtype, o) for s, o in zip(node.src, operands, strict=True)]
        results: list[str] = []
        for i, size in enumerate(self._split(dtype)):
            expressions = Expressions(self.target, size, self.has_exact_division)
            texts = [
                expressions.spread(s.dtype.scalar, parts[0]) if s.dtype.lanes == 1 else parts[i]
                for s, parts in zip(node.src, operand_parts, strict=True)
            ]
            text = expressions.write(node, texts)
            results.append(f"(char)-({text})" if size == 1 and dtype.is_bool else text)
        return self._join(dtype, results)

    def scalar_operation(self, node: UOp, operands: Sequence[str]) -> str:
        return Expressions(self.target, 1, self.has_exact_division).write(node, operands)

    def constant(self, dtype: DType, value: bool | int | float) -> str:
        if self.is_stored(dtype):
            return f"{storage_bits(float(value), dtype)}{'uL' if dtype.itemsize == 8 else ''}"
        return constant(dtype, value)

    def is_stored(self, dtype: DType) -> bool:
        return dtype.is_float and self.type_name(dtype).startswith("u")

    def pointer_type(self, dtype: DType) -> str:
        return f"__global {memory_name(dtype, self.target)} *restrict"

    def open_file(self) -> list[str]:
        # ON contracts only within one expression. MULACC is one expression, so it may be fused; a
        # separate MUL and ADD are two statements and stay separate, since some polynomials rely on
        # both roundings.
        lines = ["#pragma OPENCL FP_CONTRACT ON"]
        if float64 in self.target.native_dtypes:
            lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        if float16 in self.target.native_dtypes:
            lines.append("#pragma OPENCL EXTENSION cl_khr_fp16 : enable")
        return [*lines, ""]

    def open_function(
        self, name: str, buffers: Sequence[Buffer], variables: Sequence[Variable]
    ) -> list[str]:
        arguments: list[str] = []
        lines: list[str] = []
        for buffer in buffers:
            element = f"{'' if buffer.is_written else 'const '}{memory_name(buffer.node.dtype, self.target)}"
            self.type_name(buffer.node.dtype)
            # A block and an offset in bytes: OpenCL has no address within a block that a kernel
            # could take.
            arguments += [f"__global {element} *{buffer.name}_block", f"ulong {buffer.name}_offset"]
            byte = f"__global {'' if buffer.is_written else 'const '}uchar *"
            start = f"(({byte}){buffer.name}_block + {buffer.name}_offset)"
            lines.append(
                f"  __global {element} *restrict {buffer.name} = (__global {element} *){start};"
            )
        for variable in variables:
            type_name = self.type_name(variable.node.dtype)
            # All variables as long, so that arguments are packed without knowing their types.
            arguments.append(f"long given_{variable.name}")
            lines.append(
                f"  const {type_name} {variable.name} = ({type_name})given_{variable.name};"
            )
        return [f"__kernel void {name}({', '.join(arguments)}) {{", *lines]

    def declare_local(self, name: str, dtype: DType, size: int) -> str:
        return f"__local {self._memory_type(dtype)} {name}[{size}];"

    def declare_register(self, name: str, dtype: DType, size: int) -> str:
        return f"{self._memory_type(dtype)} {name}[{size}];"

    def grid_index(self, node: UOp) -> str:
        grid_index = find_grid_index(node.arg)
        assert grid_index is not None
        return f"({self.type_name(node.dtype)}){_SPECIAL[grid_index.kind]}({grid_index.axis})"

    def barrier(self) -> str:
        # Only shared memory is exchanged within a kernel: global memory needs no fence.
        return "barrier(CLK_LOCAL_MEM_FENCE);"

    def _computed_bytes(self, node: UOp) -> int:
        """Size in bytes of the elements that a node is computed with."""
        is_divided = node.op in (Op.FDIV, Op.SQRT) and not self.has_exact_division
        # These are computed in double, which has to fit into a vector as well.
        return max(node.dtype.itemsize, 8) if is_divided else node.dtype.itemsize

    def _memory_type(self, dtype: DType) -> str:
        return self.vector_type(dtype) if dtype.lanes > 1 else memory_name(dtype, self.target)

    def _make_built_in_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        # A literal of one scalar fills all lanes; the source is shorter.
        if len(set(lanes)) == 1 and len(lanes) > 1:
            return Expressions(self.target, len(lanes)).spread(dtype.scalar, lanes[0])
        texts = [f"(char)-({x})" for x in lanes] if dtype.is_bool else lanes
        name = vector_name(dtype, len(lanes), self.target)
        return texts[0] if len(texts) == 1 else f"({name})({', '.join(texts)})"

    def _join(self, dtype: DType, parts: Sequence[str]) -> str:
        return (
            f"({self.vector_type(dtype)}){{ {', '.join(parts)} }}"
            if self._is_struct(dtype)
            else parts[0]
        )

    def _parts(self, dtype: DType, value: str) -> list[str]:
        """Expressions of the built-in vectors that make up a value."""
        if not self._is_struct(dtype):
            return [value]
        return [f"{value}.part{i}" for i in range(len(self._split(dtype)))]

    def _split(self, dtype: DType) -> Sequence[int]:
        return split_lanes(dtype.lanes, self.part_lanes)

    def _is_struct(self, dtype: DType) -> bool:
        return len(self._split(dtype)) > 1

    def _iter_parts(self, dtype: DType) -> Iterable[tuple[int, int]]:
        """Yield the first lane and the size of each built-in vector."""
        start = 0
        for size in self._split(dtype):
            yield start, size
            start += size

    def _locate_lane(self, dtype: DType, index: int) -> tuple[int, str]:
        """Return the index of the built-in vector that holds a lane, and the component suffix."""
        for part_index, (start, size) in enumerate(self._iter_parts(dtype)):
            if index < start + size:
                return part_index, f".s{index - start:x}" if size > 1 else ""
        raise IndexError(index)
