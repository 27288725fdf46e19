"""The host as the optimizer and as LLVM see it, and descriptions of machines that are not here."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from svod_codegen.llvm import target as target_module
from svod_codegen.llvm.binding import load_binding
from svod_codegen.llvm.target import (
    get_cpu_features,
    get_machine,
    host_cpu,
    host_key,
    host_target,
    make_target,
)
from svod_codegen.llvm.tile_permission import may_use_tiles
from svod_codegen.options import CodegenOptions
from svod_dtype import float32, float64

AVX512 = {"avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bw", "avx512dq"}
CACHES = (48 << 10, 2 << 20, 100 << 20)


def test_cpu_features_of_the_kernel_match_llvm():
    known = {"avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512dq"}
    known |= {"avx512bf16", "avx512vnni", "avxvnni", "sse4a"}
    of_llvm = {name for name, present in load_binding().get_host_cpu_features().items() if present}
    assert get_cpu_features() & known == of_llvm & known


def test_the_host_has_sensible_sizes():
    target = host_target()
    assert target.vector_bits in (128, 256, 512)
    assert target.vector_registers in (16, 32)
    assert target.cores >= 1
    assert 0 < target.l1_bytes < target.l2_bytes
    assert target.l3_bytes == 0 or target.l3_bytes > target.l2_bytes
    assert target.peak_flops > target.memory_bandwidth > 0


def test_the_options_decide_how_many_cores_a_kernel_may_use():
    assert host_target(replace(CodegenOptions.from_env({}), threads=3)).cores == 3


def test_a_machine_with_avx512_has_wide_masked_vectors():
    target = make_target("x86_64", AVX512, CACHES)
    assert (target.vector_bits, target.vector_registers) == (512, 32)
    assert target.has_masked_access and target.has_gather and target.has_fma
    assert (target.l1_bytes, target.l2_bytes, target.l3_bytes) == CACHES
    assert (target.lanes(float32), target.lanes(float64)) == (16, 8)


def test_a_first_generation_avx512_machine_without_all_parts_gets_256_bits():
    assert make_target("x86_64", AVX512 - {"avx512bw"}, CACHES).vector_bits == 256


def test_a_machine_with_avx2_has_half_as_much():
    target = make_target("x86_64", {"avx", "avx2", "fma"}, CACHES)
    assert (target.vector_bits, target.vector_registers) == (256, 16)
    assert target.has_masked_access and target.has_gather and target.has_fma


def test_an_old_x86_machine_has_128_bits_and_no_masks():
    target = make_target("x86_64", set(), CACHES)
    assert (target.vector_bits, target.vector_registers) == (128, 16)
    assert not (target.has_masked_access or target.has_gather or target.has_fma)


def test_an_arm_machine_has_32_registers_of_128_bits():
    target = make_target("aarch64", {"neon"}, CACHES)
    assert (target.name, target.vector_bits, target.vector_registers) == ("cpu-aarch64", 128, 32)
    assert target.has_fma and not target.has_masked_access


def names(features: set[str]) -> list[str]:
    return [str(core) for core in make_target("x86_64", features, CACHES).tensor_cores]


def test_the_instructions_that_multiply_matrices_are_tensor_cores():
    assert names({"avx", "avx2", "fma"}) == []
    assert names(AVX512 | {"avx512vnni"}) == ["WMMA_16_1_4_u8_i8_i32", "WMMA_16_1_2_i16_i16_i32"]
    assert names({"avx2", "fma", "avxvnni"}) == ["WMMA_8_1_4_u8_i8_i32", "WMMA_8_1_2_i16_i16_i32"]
    tiles = names(AVX512 | {"amx-tile", "amx-bf16", "amx-int8"})
    assert tiles[0] == "WMMA_16_16_32_bf16_bf16_f32" and len(tiles) == 5


def test_vectors_of_one_width_are_used_with_units_of_that_width():
    """Newer processors with AVX-512 have the narrow form too."""
    assert names(AVX512 | {"avx512vnni", "avxvnni"}) == names(AVX512 | {"avx512vnni"})
    assert names({"avx2", "avx512vnni", "avxvnni"}) == names({"avx2", "avxvnni"})


def test_the_dot_product_of_bfloat16_is_used_where_it_is_fast():
    """Intel's takes four times as long as a multiply-add; sse4a is AMD's alone."""
    assert names(AVX512 | {"avx512bf16"}) == []
    assert names(AVX512 | {"avx512bf16", "sse4a"}) == ["WMMA_16_1_2_bf16_bf16_f32"]


@pytest.mark.parametrize("is_permitted", [True, False])
def test_a_process_without_permission_has_no_tiles(
    monkeypatch: pytest.MonkeyPatch, is_permitted: bool
):
    features = frozenset(AVX512 | {"amx-tile", "amx-bf16"})
    monkeypatch.setattr(target_module, "_get_all_features", lambda: features)
    monkeypatch.setattr(target_module, "may_use_tiles", lambda: is_permitted)
    found = make_target("x86_64", get_cpu_features(), CACHES).tensor_cores
    assert [core.tiles for core in found] == ([8] if is_permitted else [])


def test_asking_for_tiles_that_the_processor_does_not_have_is_no_error():
    assert may_use_tiles() or "amx-tile" not in get_cpu_features()


def test_full_width_vectors_are_not_split_on_avx512():
    features = host_cpu().features
    assert ("+avx512f" in features) == ("-prefer-256-bit" in features)


def test_a_machine_has_a_canonical_name(monkeypatch: pytest.MonkeyPatch):
    for name, canonical in (
        ("AMD64", "x86_64"),
        ("x86_64", "x86_64"),
        ("arm64", "aarch64"),
        ("riscv64", "riscv64"),
    ):
        monkeypatch.setattr(platform, "machine", lambda name=name: name)
        assert get_machine() == canonical


def test_the_host_key_is_the_same_in_every_process():
    code = "from svod_codegen.llvm.target import host_key; print(host_key())"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert found == host_key()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ask LLVM")
def test_asking_for_the_host_does_not_load_llvm():
    code = (
        "import sys; from svod_codegen.llvm.target import host_key, host_target; host_key();"
        " host_target(); assert 'llvmlite.binding' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the form of /proc/cpuinfo")
def test_the_key_tells_processors_apart(tmp_path: Path):
    def identity(text: str) -> str:
        (tmp_path / "cpuinfo").write_text(text)
        return target_module._read_cpu_identity(tmp_path / "cpuinfo")

    first = "processor\t: 0\nmodel name\t: X\ncpu MHz\t: 1.0\nflags\t: fpu avx\n\n"
    second = "processor\t: 1\nmodel name\t: X\ncpu MHz\t: 2.0\nflags\t: fpu avx\n\n"
    assert identity(first + second) == identity(second) != ""
    assert identity(first.replace("fpu avx", "fpu")) != identity(first)
    assert target_module._read_cpu_identity(tmp_path / "nothing") == ""
