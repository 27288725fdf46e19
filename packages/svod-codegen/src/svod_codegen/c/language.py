"""Syntax of a C-like language: types, vectors, operations, and the head of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from svod_codegen._float_bits import storage_bits
from svod_codegen.c.expressions import constant_expression, scalar_expression
from svod_codegen.errors import RenderError
from svod_dtype import DType, bool_, float16, float32, float64
from svod_ir import Target, UOp

__all__ = ["Buffer", "CLanguage", "Variable"]


class Buffer(NamedTuple):
    """A kernel's buffer: its name in the text, the PARAM, and whether the kernel writes it."""

    name: str
    node: UOp
    is_written: bool


class Variable(NamedTuple):
    """A kernel's variable: its name in the text and its DEFINE_VAR."""

    name: str
    node: UOp


class CLanguage:
    """C99 with the calling convention of CPU kernels."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or Target.generic()

    def type_name(self, dtype: DType) -> str:
        """Return the scalar type; a float dtype without arithmetic is an unsigned integer of its
        size.
        """
        scalar = dtype.scalar
        if scalar is float32:
            return "float"
        if scalar is float64 and float64 in self.target.native_dtypes:
            return "double"
        if scalar is bool_:
            return "bool"
        if scalar is float16 and float16 in self.target.native_dtypes:
            return "_Float16"
        # Narrow floats are moved and selected, but lowering leaves no arithmetic on them.
        if scalar.is_float:
            return f"uint{scalar.bits}_t"
        return f"{'u' if scalar.is_unsigned else ''}int{scalar.bits}_t"

    def vector_type(self, dtype: DType) -> str:
        """Return the name of a vector type: `f32x8`."""
        return dtype.short

    def declare_vector(self, dtype: DType) -> str:
        """Declare a vector type that the kernel uses; may be empty."""
        return (
            f"typedef struct {{ {self.type_name(dtype)} lane[{dtype.lanes}]; }}"
            f" {self.vector_type(dtype)};"
        )

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        """Format a vector of these lanes."""
        return f"({self.vector_type(dtype)}){{ {{ {', '.join(lanes)} }} }}"

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        """Format one lane of a named vector."""
        del dtype
        return f"{vector}.lane[{position}]"

    def load_vector(self, dtype: DType, address: str) -> str | None:
        """Format a load of contiguous elements from an address that is aligned like one element; None
        to load them one by one.
        """
        del dtype, address
        return None

    def store_vector(self, dtype: DType, address: str, value: str) -> str | None:
        """Format a store of contiguous elements; None to store them one by one."""
        del dtype, address, value
        return None

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        """Format an elementwise op on whole vectors; None to scalarize it."""
        del node, operands
        return None

    def vector_selection(self, node: UOp, value: Callable[[UOp], str]) -> str | None:
        """Format a WHERE on whole vectors by the operands of its comparison.

        Args:
            node: the WHERE.
            value: returns the text of a node.

        Returns:
            None to select by the value of the condition.
        """
        del node, value
        return None

    def halves(self, dtype: DType, vector: str) -> tuple[DType, str, str] | None:
        """Return the type and the text of both halves of a named vector; None to scalarize it."""
        del dtype, vector
        return None

    def scalar_operation(self, node: UOp, operands: Sequence[str]) -> str:
        """Format an elementwise op on scalars, or on one lane."""
        return scalar_expression(node, list(operands), self.type_name)

    def constant(self, dtype: DType, value: bool | int | float) -> str:
        """Format a scalar constant."""
        # As its bits, since the type has no literals.
        if dtype.is_float and self.is_stored(dtype):
            return f"{storage_bits(float(value), dtype)}{'ull' if dtype.itemsize == 8 else ''}"
        return constant_expression(dtype, value)

    def pointer_type(self, dtype: DType) -> str:
        """Return the type of a pointer to elements of a buffer."""
        # Memory that a kernel writes does not overlap its other buffers.
        return f"{self.type_name(dtype)} *restrict"

    def open_file(self) -> list[str]:
        """Return the lines before all declarations."""
        return ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", ""]

    def open_function(
        self, name: str, buffers: Sequence[Buffer], variables: Sequence[Variable]
    ) -> list[str]:
        """Return the function's head, its opening brace, and the definitions of buffers and
        variables.
        """
        lines = [f"void {name}(void *const *buffers, const int64_t *values, int64_t core_id) {{"]
        for position, buffer in enumerate(buffers):
            lines.append(
                f"  {self.pointer_type(buffer.node.dtype)} {buffer.name} = buffers[{position}];"
            )
        position = 0
        for variable in variables:
            type_name = self.type_name(variable.node.dtype)
            # It differs between the calls of one launch, which share their values.
            if variable.node.arg.name == "core_id":
                lines.append(f"  const {type_name} {variable.name} = ({type_name})core_id;")
            else:
                lines.append(
                    f"  const {type_name} {variable.name} = ({type_name})values[{position}];"
                )
                position += 1
        # Kernels without variables or threads would cause warnings.
        return [*lines, *(f"  (void){unused};" for unused in ("buffers", "values", "core_id"))]

    def declare_local(self, name: str, dtype: DType, size: int) -> str:
        """Declare memory that a workgroup shares; on a CPU, private to a call."""
        return f"{self.value_type(dtype)} {name}[{size}];"

    def declare_register(self, name: str, dtype: DType, size: int) -> str:
        """Declare memory of one thread."""
        return f"{self.value_type(dtype)} {name}[{size}];"

    def grid_index(self, node: UOp) -> str:
        """Format the index in the grid of a SPECIAL.

        Raises:
            RenderError: always, unless overridden, since a CPU has no grid.
        """
        raise RenderError(problem="is a grid index, which this target does not have", node=node)

    def barrier(self) -> str:
        """Return the statement of a barrier for the threads of a workgroup."""
        return ""

    def matrix_operation(self, node: UOp, operands: Sequence[str]) -> str:
        """Format a WMMA. The operands a, b, the accumulator and the result are vectors, as its
        `TensorCore` defines.

        Raises:
            RenderError: always, unless overridden. A language that overrides this lists its units in
                `Target.tensor_cores`.
        """
        del operands
        raise RenderError(
            problem="is a matrix operation, which this target does not have", node=node
        )

    def value_type(self, dtype: DType) -> str:
        """Return the type of a value, scalar or vector."""
        return self.vector_type(dtype) if dtype.lanes > 1 else self.type_name(dtype)

    def is_stored(self, dtype: DType) -> bool:
        """Whether the target has no arithmetic on this float dtype, so that values are stored as
        bits.
        """
        return (
            dtype.is_float
            and dtype.scalar is not float32
            and self.type_name(dtype).startswith("uint")
        )
