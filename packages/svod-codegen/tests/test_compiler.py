"""Compiling IR text: what the code looks like, what is rejected and how, and several threads at once."""

from __future__ import annotations

import threading

import pytest

from svod_codegen.errors import CompileError
from svod_codegen.llvm import compiler
from svod_codegen.llvm.binding import can_run_unlocked, load_binding
from svod_codegen.llvm.cached import LlvmCompiler
from svod_codegen.llvm.compiler import compile_assembly, compile_ir, compile_many
from svod_codegen.llvm.target import host_target
from svod_codegen.object_cache import ObjectCache
from svod_device.spec import ProgramSpec

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
    not (host_target().name == "cpu-x86_64" and host_target().has_fma), reason="the instruction names are x86's"
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


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_many_sources_give_the_same_objects_in_order_on_any_number_of_threads(n_threads: int):
    sources = [constant_function(i) for i in range(12)]
    assert compile_many(sources, n_threads=n_threads) == [compile_ir(source) for source in sources]


def test_many_sources_compile_one_by_one_where_llvmlites_lock_is_not_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler, "can_run_unlocked", lambda: False)
    sources = [constant_function(i) for i in range(3)]
    assert compile_many(sources, n_threads=2) == [compile_ir(source) for source in sources]


def test_no_sources_give_no_objects():
    assert compile_many([], n_threads=4) == []


def test_the_first_bad_source_is_reported():
    sources = [constant_function(1), "bad one", "bad two"]
    with pytest.raises(CompileError) as caught:
        compile_many(sources, n_threads=2)
    assert caught.value.source == "bad one"


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


def test_a_compiled_kernel_keeps_its_specs_launch_data(tmp_path):
    spec = ProgramSpec("f", constant_function(1), "CPU", var_names=("n",), globals=(0, 2), global_size=(4, 1, 1))
    compiled = LlvmCompiler(None).compile(spec)
    assert (compiled.name, compiled.var_names, compiled.n_buffers, compiled.global_size) == ("f", ("n",), 2, (4, 1, 1))
    assert compiled.source is None
    assert compiled.binary == compile_ir(spec.source)


def test_the_second_compilation_of_a_source_comes_from_the_cache(tmp_path, monkeypatch: pytest.MonkeyPatch):
    cache = ObjectCache(tmp_path, kind="objects", max_bytes=1 << 20)
    code = LlvmCompiler(cache).compile_source(SUM)

    def refuse(sources, **_):
        assert sources == []
        return []

    monkeypatch.setattr("svod_codegen.llvm.cached.compile_many", refuse)
    assert LlvmCompiler(cache).compile_source(SUM) == code


def test_equal_sources_in_one_batch_are_compiled_once(monkeypatch: pytest.MonkeyPatch):
    batches: list[list[str]] = []

    def record(sources, *, n_threads):
        batches.append(list(sources))
        return compile_many(sources, n_threads=n_threads)

    monkeypatch.setattr("svod_codegen.llvm.cached.compile_many", record)
    first, second, third = LlvmCompiler(None, n_threads=2).compile_sources([SUM, constant_function(7), SUM])
    assert batches == [[SUM, constant_function(7)]]
    assert first == third != second


def test_the_cache_key_names_the_flags_and_the_host():
    key = LlvmCompiler(None).cache_key
    assert compiler.COMPILER_FLAGS in key
    assert "llvmlite" in key or "22." in key
