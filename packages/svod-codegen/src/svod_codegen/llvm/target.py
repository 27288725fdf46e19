"""Description of the host: the CPU for LLVM, and the `Target` for the optimizer.

`host_cpu()` needs llvmlite; `host_target()` does not on Linux, so that a process that finds all its
kernels in a cache never imports it.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svod_codegen.llvm.tensor_cores import UNITS, list_tensor_cores
from svod_codegen.llvm.tile_permission import may_use_tiles
from svod_codegen.options import CodegenOptions
from svod_dtype import float16
from svod_ir import Op, Target
from svod_ir.target import COMMON_DTYPES

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

__all__ = [
    "HostCpu",
    "get_cpu_features",
    "get_machine",
    "host_cpu",
    "host_key",
    "host_target",
    "make_target",
]

_PARTS_PER_CORE: Final = 8
"""Maximum number of parts of a kernel for each thread of the pool: the last one to finish is late by
an eighth of its work.
"""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """A processor in LLVM's terms; equal values give equal code for equal IR."""

    triple: str
    name: str
    features: str
    llvm_version: str

    @property
    def key(self) -> str:
        """All fields as one line, for cache keys."""
        return f"{self.triple};{self.name};{self.features};{self.llvm_version}"


@cache
def host_cpu() -> HostCpu:
    """Describe the processor of this process."""
    from svod_codegen.llvm.binding import load_binding

    binding = load_binding()
    features = binding.get_host_cpu_features().flatten()
    if "+avx512f" in features:
        # LLVM's tuning of many of these CPUs prefers 256 bits, which would split the full-width
        # vectors that we emit.
        features += ",-prefer-256-bit"
    return HostCpu(
        triple=binding.get_process_triple(),
        name=binding.get_host_cpu_name(),
        features=features,
        llvm_version=".".join(map(str, binding.llvm_version_info)),
    )


@cache
def host_key() -> str:
    """Identify LLVM and the host's processor: object code of equal keys is interchangeable.

    On Linux the processor is identified by /proc/cpuinfo, which determines LLVM's name and
    features, so that a process does not need LLVM to find its objects in the cache.
    """
    import llvmlite

    if sys.platform == "linux":
        identity = _read_cpu_identity(Path("/proc/cpuinfo"))
        if identity:
            return f"linux;{get_machine()};{identity};llvmlite {llvmlite.__version__}"
    return host_cpu().key


@cache
def host_target(options: CodegenOptions | None = None) -> Target:
    """Describe the host for the optimizer."""
    resolved = options or CodegenOptions.from_env()
    return replace(
        make_target(get_machine(), get_cpu_features(), _get_cache_sizes()),
        cores=resolved.threads,
        parts_per_core=_PARTS_PER_CORE,
        contracts=resolved.contracts,
    )


def get_cpu_features() -> frozenset[str]:
    """Return the host's features, by LLVM's names, that `make_target` uses and that this process may
    use.
    """
    features = _get_all_features()
    return features if _TILES not in features or may_use_tiles() else features - {_TILES}


def _get_all_features() -> frozenset[str]:
    if sys.platform == "linux" and get_machine() == "x86_64":
        try:
            return _parse_cpuinfo(Path("/proc/cpuinfo"))
        except OSError:
            pass  # no /proc in this container: ask LLVM
    from svod_codegen.llvm.binding import load_binding

    return frozenset(
        name for name, present in load_binding().get_host_cpu_features().items() if present
    )


def make_target(machine: str, features: AbstractSet[str], caches: tuple[int, int, int]) -> Target:
    """Describe a CPU with these features and cache sizes (l1, l2, l3) in bytes, with one core.

    On x86 with AVX2 but no AVX-512, masked access exists for elements of 4 and 8 bytes only; the
    renderer lowers other masks to a branch for each lane.
    """
    wide = {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features
    if machine == "x86_64":
        vector_bits = 512 if wide else 256 if "avx2" in features else 128
        registers = 32 if wide else 16
        has_masked_access = has_gather = "avx2" in features
        has_fma = "fma" in features
        has_half = "f16c" in features
    else:
        vector_bits, registers = 128, 32 if machine == "aarch64" else 16
        has_masked_access = has_gather = False
        has_fma = has_half = machine == "aarch64"
    l1, l2, l3 = caches
    return Target(
        name=f"cpu-{machine}",
        vector_bits=vector_bits,
        vector_registers=registers,
        cores=1,
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
        has_masked_access=has_masked_access,
        has_gather=has_gather,
        has_fma=has_fma,
        # If the CPU only converts half, LLVM computes in float and rounds after each operation.
        native_dtypes=COMMON_DTYPES | {float16} if has_half else COMMON_DTYPES,
        shared_ops=frozenset({Op.SIN, Op.COS, Op.TAN}),
        tensor_cores=list_tensor_cores(features, vector_bits) if machine == "x86_64" else (),
        # Assumes two vector units at 3 GHz, each with a fused multiply-add or an add per cycle.
        peak_flops=3e9 * 2 * (vector_bits // 32) * (2 if has_fma else 1),
        # As measured on two cores of a server; one core reads half of it.
        memory_bandwidth=30e9,
    )


_TILES: Final = "amx-tile"
_KNOWN_FEATURES: Final = frozenset(
    {"fma", "avx2", "f16c", "avx", "avx512f", "avx512vl", "avx512bw", "avx512dq"}
).union(*(unit.features for unit in UNITS))
_CPUINFO_NAMES: Final = {
    "avx512_bf16": "avx512bf16",
    "avx512_vnni": "avx512vnni",
    "avx_vnni": "avxvnni",
    "amx_tile": "amx-tile",
    "amx_bf16": "amx-bf16",
    "amx_fp16": "amx-fp16",
    "amx_int8": "amx-int8",
}
"""LLVM's names of features that have other names in Linux."""


def _parse_cpuinfo(path: Path) -> frozenset[str]:
    with path.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("flags"):
                flags = line.partition(":")[2].split()
                return _KNOWN_FEATURES.intersection(
                    _CPUINFO_NAMES.get(flag, flag) for flag in flags
                )
    return frozenset()


_IDENTITY_FIELDS: Final = frozenset(
    {
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "flags",
        "CPU implementer",
        "CPU architecture",
        "CPU variant",
        "CPU part",
        "CPU revision",
        "Features",
    }
)


def _read_cpu_identity(path: Path) -> str:
    """Read the fields that identify the processor model of the first core; empty if unknown."""
    values: list[str] = []
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if not name.strip() and values:
                    break
                if name.strip() in _IDENTITY_FIELDS:
                    values.append(value.strip())
    except OSError:
        return ""
    return ";".join(values)


def get_machine() -> str:
    """Return the canonical name of the architecture."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _get_cache_sizes() -> tuple[int, int, int]:
    """Return the data cache sizes (l1, l2, l3) of core 0 in bytes, or common sizes if unknown."""
    # The smallest of common processors: a panel that is too small costs little, one that is too
    # large misses the cache.
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 0}
    root = Path("/sys/devices/system/cpu/cpu0/cache")
    for entry in sorted(root.glob("index*")):
        try:
            level, kind, size = (
                (entry / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            sizes[int(level)] = int(size[:-1]) << 10
    return sizes[1], sizes[2], sizes[3]
