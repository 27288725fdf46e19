"""The backend `CPU.c`: finding a compiler, its identity, its errors, and what its objects need."""

from __future__ import annotations

import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from svod_codegen._elf import list_undefined_symbols
from svod_codegen.c.backend import make_c_backend
from svod_codegen.c.compiler import CCompiler
from svod_codegen.c.toolchain import Toolchain, get_toolchain, make_c_target
from svod_codegen.disk_store import DiskStore
from svod_codegen.errors import CompileError, CompilerCrashError, NoCompilerError
from svod_codegen.launcher import CpuProgram
from svod_codegen.llvm.target import host_target, make_target
from svod_device import CompiledSpec, PluginLoadError, ProgramSpec, Registry
from svod_device._registry import ALLOCATORS, COMPILERS
from svod_dtype import float16

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")

ADD_ONE = """
#include <stdint.h>
void add_one(void *const *buffers, const int64_t *values, int64_t core_id) { ((float *)buffers[0])[core_id] += values[0]; }
"""


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "store", kind="objects", max_bytes=1 << 20)


def make_script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@needs_compiler
def test_the_first_compiler_on_the_path_is_found_with_flags_for_this_machine() -> None:
    toolchain = get_toolchain(None)
    assert toolchain.command[0] == COMPILER
    assert {"-fPIC", "-ffp-contract=fast"} <= set(toolchain.command)
    assert any(flag in toolchain.command for flag in ("-march=native", "-mcpu=native"))
    assert not any("fast-math" in flag for flag in toolchain.command)
    assert toolchain.version in str(toolchain)
    assert get_toolchain(COMPILER).identity == toolchain.identity


@needs_compiler
def test_flags_that_the_user_adds_make_another_compiler() -> None:
    plain, other = get_toolchain(COMPILER), get_toolchain(f"{COMPILER} -O1 -DMINE")
    assert other.command[1:3] == ("-O1", "-DMINE")
    assert other.identity != plain.identity
    assert str(COMPILER) in plain.identity and plain.version in plain.identity


def test_without_a_compiler_the_error_lists_the_tried_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompilerError) as caught:
        get_toolchain(None)
    missing = [f"{name}: not found on PATH={[str(tmp_path)]}" for name in ("cc", "gcc", "clang")]
    assert caught.value.headline == "no C compiler works here"
    assert caught.value.notes == caught.value.tried == tuple(missing)
    assert (
        caught.value.hint
        == "install gcc or clang, or set SVOD_CC to the path of one; SVOD_CPU_BACKEND=llvm needs"
        " none"
    )
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize("wanted", ["/no/such/compiler", "no-such-compiler -O2"])
def test_a_named_compiler_that_is_not_there_is_an_error(wanted: str) -> None:
    with pytest.raises(NoCompilerError, match=f"the C compiler '{wanted}' does not work") as caught:
        get_toolchain(wanted)
    assert caught.value.wanted == wanted
    assert "not found" in caught.value.tried[0]


def test_a_compiler_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    path = make_script(tmp_path / "mycc", "echo 'mycc: no license' >&2; exit 3")
    with pytest.raises(NoCompilerError) as caught:
        get_toolchain(path)
    assert caught.value.tried == (f"{path}: mycc: no license",)


def test_the_registry_keeps_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVOD_CC", "/no/such/compiler")
    registry = Registry([])
    registry.register(ALLOCATORS, "CPU", lambda device: pytest.fail("not asked for"))
    registry.register(COMPILERS, "CPU.c", make_c_backend, "svod-codegen")
    with pytest.raises(
        PluginLoadError, match="NoCompilerError: the C compiler '/no/such/compiler' does not work"
    ) as caught:
        next(p for p in registry.iter_plugins() if p.backend == "c").make("CPU", object)
    assert "SVOD_CC" in str(caught.value.hint)


@needs_compiler
def test_a_kernel_is_compiled_once_for_all_processes(store: DiskStore) -> None:
    toolchain = get_toolchain(None)
    spec = ProgramSpec("add_one", ADD_ONE, "CPU")
    first = CCompiler(toolchain, store).compile(spec)
    broken = replace(toolchain, command=("/no/such/compiler",))
    assert CCompiler(broken, store).compile(spec).binary == first.binary
    data = np.ones(3, np.float32)
    CpuProgram.load(first)([data.ctypes.data], [4], (3, 1, 1))
    assert data.tolist() == [5, 5, 5]


@needs_compiler
def test_equal_compilers_have_equal_cache_keys(store: DiskStore) -> None:
    toolchain = get_toolchain(None)
    key = CCompiler(toolchain, store).cache_key
    assert key == CCompiler(get_toolchain(COMPILER), store).cache_key
    assert key != CCompiler(replace(toolchain, identity="another"), store).cache_key


@needs_compiler
def test_rejected_source_is_an_error_with_command_line_and_message(store: DiskStore) -> None:
    source = "void f(void) {\n  int x = y;\n}\n"
    with pytest.raises(CompileError) as caught:
        CCompiler(get_toolchain(None), store).compile(ProgramSpec("f", source, "CPU"))
    error = caught.value
    assert error.line == 2 and "y" in error.message and error.message in error.stderr
    assert "    2 |   int x = y;" in str(error)
    assert error.hint == "for the full output, run: " + " ".join(error.command)
    path = Path(error.command[-1])
    assert path.read_text() == source
    assert subprocess.run(error.command, capture_output=True, check=False).returncode != 0
    path.unlink()


def test_a_compiler_that_crashes_is_an_error(store: DiskStore, tmp_path: Path) -> None:
    path = make_script(tmp_path / "crash", "echo 'internal compiler error' >&2; kill -9 $$")
    broken = Toolchain((path,), "1", "crash", has_half=False)
    with pytest.raises(CompilerCrashError, match="ended with status -9: internal compiler error"):
        CCompiler(broken, store).compile(ProgramSpec("f", ADD_ONE, "CPU"))


@needs_compiler
def test_functions_of_the_compiler_s_own_library_come_with_the_object(store: DiskStore) -> None:
    # No processor divides 128 bits, and no library of the system exports the function that does.
    source = (
        "#include <stdint.h>\nvoid f(void *const *b, const int64_t *v, int64_t c) {"
        " __int128 x = (__int128)v[0] << 64; ((int64_t *)b[0])[0] = (int64_t)(x / (v[1] + c)); }"
    )
    code = CCompiler(get_toolchain(None), store).compile_source(source)
    assert "__divti3" not in list_undefined_symbols(code)
    data = np.zeros(1, np.int64)
    CpuProgram.load(CompiledSpec("f", binary=code))([data.ctypes.data], [1, 1 << 10], (1, 1, 1))
    assert data[0] == 1 << 54


def test_half_is_computed_in_only_if_the_compiler_has_it() -> None:
    host = replace(host_target(), native_dtypes=host_target().native_dtypes | {float16})
    toolchain = Toolchain(("cc",), "1", "x", has_half=False)
    assert float16 not in make_c_target(host, toolchain).native_dtypes
    assert float16 in make_c_target(host, replace(toolchain, has_half=True)).native_dtypes


def test_c_has_no_matrix_instructions() -> None:
    cores = make_target(
        "x86_64", {"avx512vnni", "avx512f", "avx512vl", "avx512bw", "avx512dq"}, (1, 1, 1)
    )
    assert cores.tensor_cores
    assert make_c_target(cores, Toolchain(("cc",), "1", "x", has_half=False)).tensor_cores == ()
