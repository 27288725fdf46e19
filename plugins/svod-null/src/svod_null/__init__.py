"""The device NULL: a processor with workgroups that exists only in software.

Its memory is host memory, and the reference evaluator runs its kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from svod_device import (
    Backend,
    CompiledSpec,
    DeviceLostError,
    Dims,
    Memory,
    OutOfMemoryError,
    ProgramSpec,
)
from svod_device.host_memory import ALIGNMENT, address_of, copy_host, view_host
from svod_dtype import void
from svod_ir import Op, Target, UOp, parse_graph, print_graph
from svod_ir.evaluate import evaluate_linear

__all__ = ["NullAllocator", "NullCompiler", "NullProgram", "NullRenderer", "make_backend"]

TARGET = replace(
    Target.generic(cores=1),
    name="null",
    vector_bits=128,
    has_local=True,
    has_shared=True,
    shared_bytes=32 << 10,
    max_global=(2**31 - 1, 65535, 65535),
    max_local=256,
)


class NullAllocator:
    """Allocator of numpy arrays that only copies can access, like memory behind a bus."""

    is_host_addressable = False
    is_writable = True

    def __init__(self, device: str) -> None:
        self.device, self.is_unplugged = device, False

    def allocate(self, nbytes: int) -> Memory:
        self.synchronize()
        try:
            # NumPy aligns less than the contract asks for: the address is rounded up within a
            # larger array.
            array = np.empty(nbytes + ALIGNMENT, np.uint8)
        except MemoryError as error:
            raise OutOfMemoryError(device=self.device, nbytes=nbytes, in_use=0) from error
        return Memory(-(-array.ctypes.data // ALIGNMENT) * ALIGNMENT, nbytes, owner=array)

    def free(self, memory: Memory) -> None:
        """Do nothing: the array is freed with the last reference to the block's owner."""

    def copy_in(self, address: int, source: memoryview) -> None:
        self.synchronize()
        copy_host(address, address_of(source)[0], source.nbytes)

    def copy_out(self, destination: memoryview, address: int) -> None:
        self.synchronize()
        copy_host(address_of(destination)[0], address, destination.nbytes)

    def synchronize(self) -> None:
        """Check the connection. Launches are synchronous, so there is no queued work."""
        if self.is_unplugged:
            raise DeviceLostError(device=self.device, problem="it was unplugged")


class NullRenderer:
    """Renderer to the text form of the IR."""

    def render(self, linear: Sequence[UOp], name: str) -> str:
        # The printed graph is the source, since it can be parsed again.
        return f"# {name}\n{print_graph(UOp(Op.LINEAR, void, tuple(linear)))}"


class NullCompiler:
    """Compiler that returns the source unchanged, for the loader to parse."""

    cache_key = "null-1"

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        # Not compiled: the program reads the source.
        return CompiledSpec.from_source(spec)


class NullProgram:
    """Parsed kernel. Calls keep no state, so they are thread-safe."""

    # No address of a C function: the runtime calls the object.
    entry = None

    def __init__(self, compiled: CompiledSpec) -> None:
        assert compiled.source is not None
        self.name, self._var_names = compiled.name, compiled.var_names
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
        arrays = {
            param.arg.slot: np.frombuffer(
                view_host(address, param.arg.size * param.dtype.itemsize, None), param.dtype.numpy
            )
            for param, address in zip(self._params, buffers, strict=True)
        }
        evaluate_linear(self._nodes, arrays, dict(zip(self._var_names, values, strict=True)))


def make_backend(device: str) -> Backend:
    """Return a backend of NULL: the factory of entry point `NULL.reference`."""
    return Backend(NullRenderer(), NullCompiler(), NullProgram, TARGET)
