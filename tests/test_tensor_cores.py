"""Tensor programs on a CPU with matrix units: the units of this machine, and emulated AMX.

The programs run in a child process, which sets the CPU's features before the first use.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import json, sys
from dataclasses import replace
import numpy as np
import svod_codegen.backend as backend
from svod_codegen.llvm.tensor_cores import UNITS
from svod_codegen.testing import emulate_tiles
from svod_tensor import Tensor, jit

used = set()
render = backend.render
def render_emulated(linear, name, target):
    used.update(str(node.arg) for node in linear if node.op.name == "WMMA")
    return emulate_tiles(render(linear, name, target))
backend.render = render_emulated
host = backend.host_target()
if sys.argv[1] == "amx":
    tiles = tuple(unit.core for unit in UNITS if unit.core.tiles)
    backend.host_target = lambda: replace(host, tensor_cores=tiles)

rng = np.random.default_rng(0)
def floats(*shape):
    data = rng.integers(-4, 5, shape).astype(np.float32)
    return data, Tensor(data).cast("bfloat16").realize()
def integers(dtype, *shape):
    data = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, endpoint=True).astype(dtype)
    return data, Tensor(data).realize()
def wide(x):
    return x.cast("float32")

a, x = floats(64, 96)
b, y = floats(96, 80)
c, z = floats(80, 96)
v, bias = floats(80)
p, batch = floats(3, 40, 64)
q, other = floats(3, 64, 33)
image, pixels = floats(2, 32, 12, 12)
filters, weights = floats(32, 32, 3, 3)
i, bytes_ = integers(np.uint8, 50, 128)
j, signed = integers(np.int8, 128, 64)
k, both = integers(np.int8, 50, 128)
padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
convolved = sum(
    np.einsum("bchw,oc->bohw", padded[:, :, r : r + 12, s : s + 12], filters[:, :, r, s]) for r in range(3) for s in range(3)
)
layer = jit(lambda x: (wide(x) @ wide(z).T + wide(bias)).relu())
cases = {
    "product": (wide(x) @ wide(y), a @ b),
    "transposed": (wide(x) @ wide(z).T, a @ c.T),
    "rows of bytes": (bytes_.cast("int32") @ signed.cast("int32"), i.astype(np.int32) @ j),
    "signed bytes": (both.cast("int32") @ signed.cast("int32"), k.astype(np.int32) @ j),
    "batch": (wide(batch) @ wide(other), p @ q),
    "layer": (layer(x), np.maximum(a @ c.T + v, 0)),
    "layer again": (layer(x), np.maximum(a @ c.T + v, 0)),
    "convolution": (wide(pixels).conv2d(wide(weights), padding=1), convolved),
    "chain": (wide((wide(x) @ wide(y)).relu().cast("bfloat16")) @ wide(z), None),
}
wrong = []
for name, (tensor, expected) in cases.items():
    if expected is None:
        middle = Tensor(np.maximum(a @ b, 0)).cast("bfloat16").cast("float32").numpy()
        expected = middle @ c
    found = tensor.numpy()
    if not np.array_equal(found, expected):
        wrong.append(f"{name}: {np.abs(found - expected).max()}")
print(json.dumps({"wrong": wrong, "used": sorted(used)}))
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cpu", ["host", "amx"])
def test_tensor_programs_are_right_on_matrix_units(tmp_path: Path, cpu: str, threads: int):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {"SVOD_CACHE_DIR": str(tmp_path), "SVOD_THREADS": str(threads), "SVOD_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, str(script), cpu],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    if cpu == "amx":
        assert {"WMMA_16_16_32_bf16_bf16_f32", "WMMA_16_16_64_i8_i8_i32"} <= set(found["used"])
