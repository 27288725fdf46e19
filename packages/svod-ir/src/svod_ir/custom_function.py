"""CUSTOM_FUNCTION: a call of a host function, with its arrays and scalars.

The operands encode how many arrays it writes and reads, each as a dtype (a constant of it), a rank
and sizes; the arrays that it reads and the scalars follow:

    CUSTOM_FUNCTION[kind] memory, n_outputs, outputs..., n_inputs, inputs..., arrays..., scalars...

In a graph the node is the memory that the function fills: its output, or bytes that hold all
outputs. Inside a CALL it is an effect on the arguments of the CALL, and has no arrays among its
operands.

Example:
    >>> from svod_dtype import float32, int32
    >>> from svod_ir import Op, UOp
    >>> from svod_ir.custom_function import ArraySpec, CustomSignature, make_custom_function, read_signature
    >>> from svod_ir.testing.programs import tensor
    >>> x = tensor(1, 4, 3)
    >>> outputs = [ArraySpec(float32, (4,)), ArraySpec(int32, (4,))]
    >>> best = make_custom_function("argmax", outputs, [x], [UOp.const(int32, 1)])
    >>> signature = read_signature(best)
    >>> isinstance(signature, CustomSignature), signature.outputs == tuple(outputs), signature.arrays == (x,)
    (True, True, True)
    >>> signature.memory, signature.offsets
    (ArraySpec(dtype=uint8, shape=(80,)), (0, 64))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from svod_dtype import DType, index, uint8, void
from svod_ir.ops import Op
from svod_ir.sizes import max_size
from svod_ir.uop import SInt, UOp, to_node

__all__ = ["ArraySpec", "CustomSignature", "make_custom_function", "read_signature"]

# The alignment of allocations: each output is an array of its own for the function.
_ALIGNMENT = 64  # bytes


class ArraySpec(NamedTuple):
    """The dtype and shape of an array."""

    dtype: DType
    shape: tuple[SInt, ...]

    @property
    def n_elements(self) -> int:
        """Maximum number of elements, over all values of the variables in the shape."""
        # Memory is allocated before the values of variables are known.
        return math.prod(map(max_size, self.shape))

    @property
    def nbytes(self) -> int:
        return self.n_elements * self.dtype.itemsize


class CustomSignature(NamedTuple):
    """The operands of a custom function, decoded from its node.

    Attributes:
        memory: memory that holds all outputs.
        outputs: dtype and shape of each output, at `offsets` in the memory.
        inputs: dtype and shape of each input.
        arrays: node of each input; empty inside a CALL, whose arguments are the inputs.
        scalars: nodes of the scalar arguments.
    """

    memory: ArraySpec
    outputs: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]
    arrays: tuple[UOp, ...]
    scalars: tuple[UOp, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offset of each output in the memory, in bytes."""
        ends = [0]
        for spec in self.outputs:
            ends.append(-(-(ends[-1] + spec.nbytes) // _ALIGNMENT) * _ALIGNMENT)
        return tuple(ends[:-1])


def make_custom_function(
    kind: str, outputs: Sequence[ArraySpec], inputs: Sequence[UOp], scalars: Sequence[UOp] = ()
) -> UOp:
    """The memory that a custom function fills; the function reads all elements of `inputs`.

    Args:
        kind: name of the registered function.
        outputs: dtype and shape of each result; several results share one memory of bytes.
        inputs: tensors to read.
        scalars: integers to pass by value.
    """
    signature = CustomSignature(outputs[0], tuple(outputs), (), (), ())
    if len(outputs) > 1:
        n_bytes = signature.offsets[-1] + outputs[-1].nbytes
        # Bytes, since a node has one dtype and the outputs have several.
        signature = signature._replace(memory=ArraySpec(uint8, (n_bytes,)))
    read = [ArraySpec(x.dtype, x.shape) for x in inputs]
    src = [*_encode(signature.memory), *_encode_all(outputs), *_encode_all(read), *inputs, *scalars]
    return UOp(Op.CUSTOM_FUNCTION, signature.memory.dtype, tuple(src), kind)


def read_signature(node: UOp) -> CustomSignature:
    """Decode the operands of a CUSTOM_FUNCTION."""
    operands = list(node.src)
    (memory,), operands = _decode(1, operands)
    outputs, operands = _decode(int(operands[0].arg), operands[1:])
    inputs, operands = _decode(int(operands[0].arg), operands[1:])
    n_read = 0 if node.dtype is void else len(inputs)
    return CustomSignature(
        memory, outputs, inputs, tuple(operands[:n_read]), tuple(operands[n_read:])
    )


def _encode(spec: ArraySpec) -> list[UOp]:
    return [UOp.const(spec.dtype, 0), UOp.const(index, len(spec.shape)), *map(to_node, spec.shape)]


def _encode_all(specs: Sequence[ArraySpec]) -> list[UOp]:
    return [UOp.const(index, len(specs)), *(node for spec in specs for node in _encode(spec))]


def _decode(count: int, operands: list[UOp]) -> tuple[tuple[ArraySpec, ...], list[UOp]]:
    specs: list[ArraySpec] = []
    for _ in range(count):
        ndim = int(operands[1].arg)
        sizes: tuple[SInt, ...] = tuple(
            s.arg if s.op is Op.CONST else s for s in operands[2 : 2 + ndim]
        )
        specs.append(ArraySpec(operands[0].dtype, sizes))
        operands = operands[2 + ndim :]
    return tuple(specs), operands
