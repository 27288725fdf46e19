"""Base class of allocators that forward to an inner allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_device._protocols import ChoosingAllocator, ExclusiveAllocator, PermanentAllocator

if TYPE_CHECKING:
    from svod_device._opening import Opening
    from svod_device._protocols import Allocator, Memory

__all__ = ["WrappedAllocator"]


class WrappedAllocator:
    """Allocator that forwards to `inner`; derived classes override methods.

    `opening` is the opening of the allocator's device; None for memory that cannot be lost.
    """

    __slots__ = (
        "default_backend",
        "device",
        "inner",
        "is_exclusive",
        "is_host_addressable",
        "is_permanent",
        "is_writable",
        "opening",
    )

    def __init__(self, inner: Allocator) -> None:
        self.inner = inner
        self.opening: Opening | None = (
            inner.opening if isinstance(inner, WrappedAllocator) else None
        )
        # Read once: attribute reads are faster than properties that forward, and protocol checks
        # are slow.
        self.device, self.is_host_addressable = inner.device, inner.is_host_addressable
        self.is_writable = inner.is_writable
        self.is_exclusive = isinstance(inner, ExclusiveAllocator) and inner.is_exclusive
        self.is_permanent: bool = isinstance(inner, PermanentAllocator) and inner.is_permanent
        self.default_backend = (
            inner.default_backend if isinstance(inner, ChoosingAllocator) else None
        )

    def allocate(self, nbytes: int) -> Memory:
        return self.inner.allocate(nbytes)

    def free(self, memory: Memory) -> None:
        self.inner.free(memory)

    def copy_in(self, address: int, source: memoryview) -> None:
        self.inner.copy_in(address, source)

    def copy_out(self, destination: memoryview, address: int) -> None:
        self.inner.copy_out(destination, address)

    def synchronize(self) -> None:
        self.inner.synchronize()
