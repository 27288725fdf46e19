"""Capabilities of a device as its driver reports them, as a `Target`."""

from __future__ import annotations

import pyopencl as cl

from svod_dtype import float16, float64
from svod_ir import Op, Target
from svod_ir.target import COMMON_DTYPES, COMMON_OPS
from svod_opencl.drivers import is_pocl_before

__all__ = ["has_exact_division", "make_target", "max_vector_bytes"]

_MIN_VECTOR_BITS = 128
"""Bits that one memory access moves on devices without vector arithmetic."""


def make_target(device: cl.Device) -> Target:
    """Return the target that describes a device to the optimizer, the lowering and the renderer."""
    float_bits = min(32 * device.native_vector_width_float, 8 * max_vector_bytes(device))
    extensions = device.extensions.split()
    dtypes = COMMON_DTYPES - {float64}
    if "cl_khr_fp64" in extensions or device.double_fp_config:
        dtypes |= {float64}
    if "cl_khr_fp16" in extensions:
        dtypes |= {float16}
    return Target(
        name=f"opencl {device.name.strip()}",
        vector_bits=max(float_bits, _MIN_VECTOR_BITS),
        vector_registers=_count_registers(float_bits),
        cores=device.max_compute_units,
        l1_bytes=min(device.local_mem_size, 32 << 10),
        l2_bytes=_cache_bytes(device),
        l3_bytes=0,
        cache_line_bytes=device.global_mem_cacheline_size or 64,
        has_local=True,
        has_shared=device.local_mem_type == cl.device_local_mem_type.LOCAL
        or device.local_mem_size > 0,
        shared_bytes=device.local_mem_size,
        max_global=((1 << min(device.address_bits, 63)) - 1,)
        * min(device.max_work_item_dimensions, 3),
        max_local=device.max_work_group_size,
        max_local_dims=tuple(device.max_work_item_sizes[:3]),
        lockstep=_count_lockstep(device),
        # The driver may fuse a product and a sum, but does not report whether it does. `has_fma`
        # would promise it.
        native_ops=COMMON_OPS | {Op.MULACC},
        native_dtypes=dtypes,
    )


def has_exact_division(device: cl.Device) -> bool:
    """True if the driver has an option for correctly rounded float32 division and square root."""
    return bool(device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)


def max_vector_bytes(device: cl.Device) -> int:
    """Size in bytes of the largest built-in vector in generated code."""
    # PoCL before 4 chooses its built-in functions by the CPU's features, but compiles kernels for
    # the CPU's name. If its LLVM is older than the CPU, functions on 64-byte vectors do not match
    # the kernels, whose compilation never ends.
    return 32 if is_pocl_before(4, device.platform) else 128


def _count_lockstep(device: cl.Device) -> int:
    """Number of work-items that run in lockstep: a GPU's warp or wavefront, and 1 on a CPU."""
    if not device.type & cl.device_type.GPU:
        return 1
    for name in ("warp_size_nv", "wavefront_width_amd"):
        try:
            return int(getattr(device, name))
        except (AttributeError, cl.Error):
            pass  # another vendor's device
    return 32


def _count_registers(float_bits: int) -> int:
    # OpenCL does not report it. A CPU has 32 registers if they have 512 bits and mostly 16
    # otherwise; a GPU's thread has more.
    return 16 if 128 <= float_bits < 512 else 32


def _cache_bytes(device: cl.Device) -> int:
    # The reported cache may be the last level, which all compute units share.
    return max(device.global_mem_cache_size // max(device.max_compute_units, 1), 256 << 10)
