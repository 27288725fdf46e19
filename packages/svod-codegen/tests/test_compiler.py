"""Compiling IR text: what the code looks like, what is rejected and how, and several threads at
once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from svod_codegen.disk_store import DiskStore
from svod_codegen.errors import CompileError
from svod_codegen.llvm import compiler
from svod_codegen.llvm.binding import can_run_unlocked, load_binding
from svod_codegen.llvm.cached import LlvmCompiler
from svod_codegen.llvm.compiler import compile_assembly, compile_ir
from svod_codegen.llvm.target import host_target
from svod_device import ProgramSpec
from svod_ir.testing import run_script

MULTIPLY_ADD = """\
define void @f(ptr %buffers, ptr %values, i64 %core) nounwind {{
  %x = load <{lanes} x float>, ptr %buffers, align 4
  %y = load <{lanes} x float>, ptr %values, align 4
  %product = fmul {flags} <{lanes} x float> %x, %y
  %sum = fadd {flags} <{lanes} x float> %product, %x
  store <{lanes} x float> %sum, ptr %buffers, align 4
  ret void
}}
"""

SUM = """\
define void @f(ptr %buffers, ptr %values, i64 %core) nounwind {
entry:
  %sum = alloca float, align 4
  store float 0.0, ptr %sum
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %at = getelementptr float, ptr %buffers, i64 %i
  %x = load float, ptr %at
  %old = load float, ptr %sum
  %new = fadd float %old, %x
  store float %new, ptr %sum
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 1000
  br i1 %more, label %loop, label %done
done:
  %total = load float, ptr %sum
  store float %total, ptr %values
  ret void
}
"""


def constant_function(value: int, name: str = "f") -> str:
    return f"define i64 @{name}() nounwind {{\n  ret i64 {value}\n}}\n"


is_x86_with_fma = pytest.mark.skipif(
    not (host_target().name == "cpu-x86_64" and host_target().has_fma),
    reason="the instruction names are x86's",
)


@is_x86_with_fma
def test_a_contracted_multiply_and_add_become_one_instruction():
    assert "vfmadd" in compile_assembly(MULTIPLY_ADD.format(lanes=8, flags="contract"))


@is_x86_with_fma
def test_an_uncontracted_multiply_and_add_stay_two():
    assembly = compile_assembly(MULTIPLY_ADD.format(lanes=8, flags=""))
    assert "vfmadd" not in assembly
    assert "vmulps" in assembly


@is_x86_with_fma
def test_a_vector_of_the_targets_width_takes_one_register():
    lanes = host_target().vector_bits // 32
    register = {512: "%zmm", 256: "%ymm", 128: "%xmm"}[host_target().vector_bits]
    assembly = compile_assembly(MULTIPLY_ADD.format(lanes=lanes, flags="contract"))
    assert register in assembly
    assert assembly.count("vfmadd") == 1


@is_x86_with_fma
def test_an_accumulator_in_memory_moves_to_a_register():
    assert "%rsp" not in compile_assembly(SUM)


def test_equal_sources_give_equal_objects():
    assert compile_ir(SUM) == compile_ir(SUM)


def test_a_syntax_error_names_its_line():
    with pytest.raises(CompileError, match="value doesn't match function result type") as caught:
        compile_ir("define void @f() {\n  ret i32 1\n}")
    assert caught.value.line == 2
    assert any("2 |   ret i32 1" in note for note in caught.value.notes)


def test_an_undefined_value_is_an_error():
    with pytest.raises(CompileError, match="use of undefined value '%y'"):
        compile_ir("define void @f() {\n  %x = add i32 1, %y\n  ret void\n}")


def test_a_value_used_before_its_definition_is_an_error():
    source = (
        "define i32 @f(i1 %c) {\nentry:\n  br i1 %c, label %a, label %b\n"
        "a:\n  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 %x\n}"
    )
    with pytest.raises(CompileError, match="does not dominate"):
        compile_ir(source)


def test_the_compiler_works_after_an_error():
    with pytest.raises(CompileError):
        compile_ir("nonsense")
    assert compile_ir(SUM)


def compile_on_threads(sources: list[str], n_threads: int) -> list[bytes]:
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(compile_ir, sources))


def test_threads_that_compile_at_once_get_what_one_thread_gets():
    sources = [constant_function(i) for i in range(24)] + [
        SUM,
        MULTIPLY_ADD.format(lanes=8, flags="contract"),
    ] * 4
    assert compile_on_threads(sources, 5) == [compile_ir(source) for source in sources]


def test_threads_compile_sequentially_if_llvmlites_lock_cannot_be_skipped():
    # What a future llvmlite without the private attribute leaves: the lock, and correct results.
    code = (
        "import llvmlite.binding.ffi as ffi\n"
        "class Function:\n"
        "    __slots__ = ('call', 'restype', 'argtypes')\n"
        "    def __init__(self, call): self.call = call\n"
        "    def __call__(self, *args): return self.call(*args)\n"
        "import llvmlite.binding, svod_codegen.llvm.binding as binding\n"
        "for name in binding._LONG_CALLS: ffi.lib._fntab[name] = Function(getattr(ffi.lib, name))\n"
        "assert not binding.can_run_unlocked()\n"
        "from svod_codegen.llvm.compiler import compile_ir\n"
        f"print(compile_ir({SUM!r}).hex())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert bytes.fromhex(found) == compile_ir(SUM)


def test_an_error_in_one_thread_does_not_affect_others():
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(compile_ir, "bad" if i % 3 == 0 else constant_function(i))
            for i in range(12)
        ]
    assert [isinstance(job.exception(), CompileError) for job in jobs] == [
        i % 3 == 0 for i in range(12)
    ]


@pytest.mark.skipif(not can_run_unlocked(), reason="this llvmlite has another lock")
def test_llvmlite_outside_svod_still_waits_for_its_lock():
    from llvmlite.binding import ffi

    lock = ffi.lib._lock
    finished = threading.Event()

    def parse() -> None:
        load_binding().parse_assembly(constant_function(1), load_binding().create_context()).close()
        finished.set()

    with lock:
        other = threading.Thread(target=parse)
        other.start()
        assert not finished.wait(0.05)
    other.join()
    assert finished.is_set()


def run_fork_amid(block: str) -> str:
    """What a script prints whose child compiles, forked while another thread was inside `block`;
    whether the thread left it first.
    """
    return run_script(f"""
from svod_codegen.llvm.binding import load_binding, unlocked
from svod_codegen.llvm.compiler import compile_ir
source = "define i64 @f() nounwind {{\\n  ret i64 1\\n}}"
expected = compile_ir(source)
is_inside, is_forking = threading.Event(), threading.Event()
os.register_at_fork(before=is_forking.set)
has_left = []
def enter():
    with {block}:
        is_inside.set()
        is_forking.wait()
        has_left.append(True)
(thread,) = start_threads(enter)
is_inside.wait()
print(run_in_child(lambda: has_left != [True] or compile_ir(source) != expected))
thread.join()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "block", ["load_binding().ffi.lib._lock", "unlocked()"], ids=["llvmlite's lock", "LLVM"]
)
def test_the_child_of_a_fork_amid_another_threads_compilation_compiles(block: str):
    assert run_fork_amid(block).split() == ["0"]


def test_a_compiled_kernel_keeps_its_specs_launch_data(tmp_path):
    spec = ProgramSpec(
        "f", constant_function(1), "CPU", var_names=("n",), globals=(0, 2), global_size=(4, 1, 1)
    )
    compiled = LlvmCompiler(DiskStore(Path(), kind="objects", max_bytes=0)).compile(spec)
    assert (compiled.name, compiled.var_names, compiled.n_buffers, compiled.global_size) == (
        "f",
        ("n",),
        2,
        (4, 1, 1),
    )
    assert compiled.source is None
    assert compiled.binary == compile_ir(spec.source)


def test_the_second_compilation_of_a_source_comes_from_the_cache(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    cache = DiskStore(tmp_path, kind="objects", max_bytes=1 << 20)
    code = LlvmCompiler(cache).compile_source(SUM)

    def refuse(source: str) -> bytes:
        raise AssertionError(source)

    monkeypatch.setattr("svod_codegen.llvm.cached.compile_ir", refuse)
    assert LlvmCompiler(cache).compile_source(SUM) == code


@pytest.mark.skipif(sys.platform != "linux", reason="objects are ELF files on Linux")
@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, "foreign"])
def test_a_cached_object_for_another_machine_is_compiled_again(tmp_path, damage):
    store = DiskStore(tmp_path, kind="objects", max_bytes=1 << 20)
    code = LlvmCompiler(store).compile_source(SUM)
    ((key, kept),) = store.iter_entries()
    assert kept == code
    machine = (183 if code[18] == 62 else 62).to_bytes(2, "little")
    store.put(key, code[:18] + machine + code[20:] if damage == "foreign" else damage)
    assert LlvmCompiler(store).compile_source(SUM) == code
    assert LlvmCompiler(store).compile_source(SUM) == code
    assert store.counts()[:3] == (1, 1, 2)


def test_the_cache_key_names_the_flags_and_the_host():
    key = LlvmCompiler(DiskStore(Path(), kind="objects", max_bytes=0)).cache_key
    assert compiler.COMPILER_FLAGS in key
    assert "llvmlite" in key or "22." in key
