"""The structured `arg`s of nodes: frozen values with a text form."""

from __future__ import annotations

from typing import NamedTuple

from svod_dtype import AddressSpace

__all__ = ["BufferArg", "BufferizeArg", "KernelInfo", "Opt", "OptOp", "ParamArg"]

from enum import Enum


class BufferArg(NamedTuple):
    """A buffer: a process-unique `id` (negative: numbered within one schedule), elements, device."""

    id: int
    size: int
    device: str


class ParamArg(NamedTuple):
    """A numbered argument of a kernel (device None) or of a normalised graph."""

    slot: int
    size: int
    device: str | None = None


class BufferizeArg(NamedTuple):
    """How a BUFFERIZE stores its value."""

    device: str
    space: AddressSpace = AddressSpace.GLOBAL


class OptOp(Enum):
    """The kinds of kernel transformation."""

    UPCAST = "UPCAST"
    UNROLL = "UNROLL"
    LOCAL = "LOCAL"
    GROUP = "GROUP"
    GROUPTOP = "GROUPTOP"
    TC = "TC"
    PADTO = "PADTO"
    OVERLAP = "OVERLAP"
    PACK = "PACK"
    SWAP = "SWAP"
    THREAD = "THREAD"
    NOLOCALS = "NOLOCALS"


class Opt(NamedTuple):
    """One transformation: its kind, the axis it takes, and an amount (0: the whole axis)."""

    op: OptOp
    axis: int | None = None
    amount: int | None = None

    def __str__(self) -> str:
        numbers = ", ".join(str(n) for n in (self.axis, self.amount) if n is not None)
        return f"{self.op.value}({numbers})"


class KernelInfo(NamedTuple):
    """What a kernel's SINK carries: its name and the opts that made it (None: not optimised yet)."""

    name: str = "kernel"
    applied_opts: tuple[Opt, ...] | None = None
