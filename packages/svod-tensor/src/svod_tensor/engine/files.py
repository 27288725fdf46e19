"""Copies of files for kernels that cannot read the host's memory."""

from __future__ import annotations

from collections.abc import Collection

from svod_ir import Op, Sharding, UOp
from svod_ir.origins import make_images
from svod_ir.placement import is_file

__all__ = ["copy_files"]


def copy_files(sink: UOp, far: Collection[str], default_device: str) -> UOp:
    """`sink` with a COPY of each file to each of the devices in `far` that reads it."""
    done = make_images()
    files: dict[UOp, frozenset[UOp]] = {}
    no_files: frozenset[UOp] = frozenset()
    for node in sink.toposort():
        if node.op is Op.BUFFER and is_file(node.placement):
            files[node] = frozenset({node})
        elif node.placement is None or is_file(node.placement):
            # Values computed only from files have no device: they are computed on the device of
            # their reader.
            files[node] = no_files.union(*(files[s] for s in node.src))
        else:
            files[node] = no_files
        device = _device_of(node, default_device)
        # A COPY of a file transfers it already.
        reads = device in far and not (node.op is Op.COPY and is_file(node.source.placement))
        done[node] = node.with_src(
            tuple(
                _copied(done[s], files[s], device) if reads and files[s] else done[s]
                for s in node.src
            )
        )
    return done[sink]


def _device_of(node: UOp, default_device: str) -> str:
    if node.op is Op.SINK:
        return default_device
    placement = node.placement
    if isinstance(placement, Sharding):
        return placement.devices[0]
    return "" if placement is None or is_file(placement) else placement


def _copied(node: UOp, files: frozenset[UOp], device: str) -> UOp:
    return node.substitute({file: UOp(Op.COPY, file.dtype, (file,), device) for file in files})
