"""Kernels for other CPUs: LLVM compiles them, and they call no function that may be missing.

LLVM ends the process if it cannot select an instruction, so a child process does the work.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """\
import json, sys
import llvmlite.binding as llvm
import numpy as np
from svod_codegen.llvm.compiler import compile_assembly, compile_ir
from svod_codegen._elf import list_undefined_symbols
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import HostCpu, host_cpu, make_target
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline
from svod_tensor import Tensor
from svod_tensor.engine import compute
from dataclasses import replace

machine, triple, name, features = sys.argv[1:]
llvm.initialize_all_targets(), llvm.initialize_all_asmprinters()
cpu = HostCpu(triple, name, "", host_cpu().llvm_version)
target = replace(make_target(machine, set(features.split(",")), (32 << 10, 1 << 20, 32 << 20)), cores=4)

bodies = {}
optimize = compute.optimize
def keep(kernel, context):
    bodies[kernel.content_hash] = kernel
    return optimize(kernel, context)
compute.optimize = keep

generator = np.random.default_rng(0)
def data(*shape, dtype="float32"):
    return Tensor(generator.integers(1, 100, shape).astype(dtype))
tensors = [
    data(100, 100) + data(100, 100), data(33, 1000).exp(), data(70, 70) @ data(70, 70), data(37, 131) @ data(131, 61),
    data(64, 100).sum(0), data(64, 100).sum(1), data(30, 31).max(1), data(20, 100).softmax(-1),
    data(50, dtype="float64").sin(), data(1000, dtype="int32") // 7 % 5, data(1000, dtype="int64") // data(1000, dtype="int64"),
    data(100, dtype="uint8") + data(100, dtype="uint8"), data(200, dtype="float16") * 2 + 1, data(5, 40).cumsum(1),
    data(100) > data(100), data(100, dtype="float64") @ data(100, dtype="float64"),
    data(40, 70, dtype="uint8").cast("int32") @ data(70, 50, dtype="int8").cast("int32"),
    data(40, 70).cast("bfloat16").realize() @ data(70, 50).cast("bfloat16").realize(),
    data(64, 64).cast("bfloat16").realize() @ data(64, 64).cast("bfloat16").realize().T,
    sum((data(300) * k).sin() for k in range(1, 9)), sum((data(300, dtype="float64") * k).tan() for k in range(1, 9)),
]
rows = data(40, 70).realize()
rows[Tensor([3, 5])] = data(2, 70)
tensors += [rows, data(40, 70).add_at(Tensor([3, 5]), data(2, 70))]
for tensor in tensors:
    tensor.prepare()

context = Context(target=target)
missing, text = set(), []
for body in bodies.values():
    lowered = run_pipeline("lower", run_pipeline("optimize", body, context), context)
    source = render(tuple(linearize(lowered)), lowered.arg.name, target)
    missing |= set(list_undefined_symbols(compile_ir(source, cpu=cpu)))
    text.append(compile_assembly(source, cpu=cpu))
seen = [r for r in ("zmm", "ymm", "xmm", ".4s", "tdpbf16ps", "vdpbf16ps", "vpdpbusd") if any(r in t for t in text)]
print(json.dumps({"kernels": len(text), "missing": sorted(missing), "seen": seen}))
"""

AVX512 = "avx,avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq"
CPUS = {
    "sapphirerapids": (
        "x86_64",
        "x86_64-unknown-linux-gnu",
        f"{AVX512},avx512vnni,amx-tile,amx-bf16,amx-int8",
        "tdpbf16ps",
    ),
    "znver4": (
        "x86_64",
        "x86_64-unknown-linux-gnu",
        f"{AVX512},avx512vnni,avx512bf16,sse4a",
        "vdpbf16ps",
    ),
    "alderlake": ("x86_64", "x86_64-unknown-linux-gnu", "avx,avx2,fma,f16c,avxvnni", "vpdpbusd"),
    "skylake-avx512": ("x86_64", "x86_64-unknown-linux-gnu", AVX512, "zmm"),
    "haswell": ("x86_64", "x86_64-unknown-linux-gnu", "avx,avx2,fma,f16c", "ymm"),
    "x86-64": ("x86_64", "x86_64-unknown-linux-gnu", "", "xmm"),
    "neoverse-n1": ("aarch64", "aarch64-unknown-linux-gnu", "neon", ".4s"),
    "apple-m1": ("aarch64", "arm64-apple-macosx14.0", "neon", ".4s"),
}
PROVIDED = {
    "fma",
    "fmaf",
    "fmod",
    "fmodf",
    "memcpy",
    "memset",
    "__truncsfhf2",
    "__truncdfhf2",
    "__truncsfbf2",
    "__truncdfbf2",
    "__extendhfsf2",
}


@pytest.mark.parametrize("name", CPUS)
def test_llvm_compiles_every_kernel_for(name: str):
    machine, triple, features, word = CPUS[name]
    command = [sys.executable, "-c", PROGRAM, machine, triple, name, features]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kernels"] >= 14
    assert word in found["seen"]
    assert set(found["missing"]) <= PROVIDED
