"""Device TOY: memory that the host cannot address, and an interpreter of linearized kernels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from svod_device import Backend, CompiledSpec, Dims, Memory, ProgramSpec
from svod_dtype import void
from svod_ir import Op, Target, UOp, parse_graph, print_graph
from svod_ir.evaluate import evaluate_linear

__all__ = [
    "ToyAllocator",
    "ToyCompiler",
    "ToyProgram",
    "ToyRenderer",
    "make_allocator",
    "make_backend",
]

OFFSET_BITS = 40
"""Number of low bits of an address for the offset into a block; the block's index is above."""

_blocks: dict[int, bytearray] = {}
_indices = itertools.count(1)


class ToyAllocator:
    """Allocator of memory blocks that only this device's kernels and copies can access."""

    is_host_addressable = False
    is_writable = True

    def __init__(self, device: str) -> None:
        self.device = device

    def allocate(self, nbytes: int) -> Memory:
        index = next(_indices)
        _blocks[index] = bytearray(nbytes)
        return Memory(index << OFFSET_BITS, nbytes)

    def free(self, memory: Memory) -> None:
        _blocks.pop(memory.address >> OFFSET_BITS, None)

    def copy_in(self, address: int, source: memoryview) -> None:
        get_bytes(address, source.nbytes)[:] = source.cast("B")

    def copy_out(self, destination: memoryview, address: int) -> None:
        destination.cast("B")[:] = get_bytes(address, destination.nbytes)

    def synchronize(self) -> None:
        """Return at once, since a launch returns after its kernel has finished."""


class ToyRenderer:
    """Renderer of a kernel to the text form of its linear program."""

    def render(self, linear: Sequence[UOp], name: str) -> str:
        return f"# {name}\n{print_graph(UOp(Op.LINEAR, void, tuple(linear)))}"


class ToyCompiler:
    """Compiler that returns the source unchanged."""

    cache_key = "toy-1"

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        return CompiledSpec.from_source(spec)


class ToyProgram:
    """Parsed kernel. A call interprets it for every index of its grid."""

    entry = None

    def __init__(self, compiled: CompiledSpec) -> None:
        assert compiled.source is not None
        self.name = compiled.name
        self._var_names = compiled.var_names
        self._nodes = parse_graph(compiled.source).src
        self._params = sorted(
            {node for node in self._nodes if node.op is Op.PARAM}, key=lambda node: node.arg.slot
        )

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        arrays: dict[UOp | int | str, np.ndarray] = {}
        for param, address in zip(self._params, buffers, strict=True):
            data = get_bytes(address, param.arg.size * param.dtype.itemsize)
            arrays[param.arg.slot] = np.frombuffer(data, param.dtype.numpy)
        evaluate_linear(self._nodes, arrays, dict(zip(self._var_names, values, strict=True)))


def get_bytes(address: int, nbytes: int) -> memoryview:
    """Return the bytes at an address of this device."""
    start = address & ((1 << OFFSET_BITS) - 1)
    return memoryview(_blocks[address >> OFFSET_BITS])[start : start + nbytes]


def make_allocator(device: str) -> ToyAllocator:
    """Return the allocator of TOY: the factory of the entry point `TOY`."""
    return ToyAllocator(device)


def make_backend(device: str) -> Backend:
    """Return the backend of TOY: the factory of the entry point `TOY.interpreter`."""
    return Backend(ToyRenderer(), ToyCompiler(), ToyProgram, Target.generic(cores=1))
