"""Compiling in a child process: crashes and hangs are errors of one source."""

from __future__ import annotations

import pytest

from svod_codegen.errors import CompileError, CompilerCrashError, CompileTimeoutError
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.isolated import IsolatedCompiler

GOOD = "define i64 @f() nounwind {\n  ret i64 7\n}\n"
CRASHES = 'define void @f() {\n  call void asm sideeffect "no such instruction", ""()\n  ret void\n}\n'


def long_source(n_functions: int) -> str:
    body = "".join(f"  %x{i + 1} = mul i64 %x{i}, %x{i // 2}\n" for i in range(300))
    return "".join(f"define i64 @f{n}(i64 %x0) {{\n{body}  ret i64 %x300\n}}\n" for n in range(n_functions))


def test_a_good_source_gives_the_object_that_the_process_itself_would_make():
    with IsolatedCompiler(timeout_s=60) as compiler:
        assert [compiler.compile(GOOD) for _ in range(3)] == [compile_ir(GOOD)] * 3


def test_a_rejected_source_is_an_error_and_the_child_lives_on():
    with IsolatedCompiler(timeout_s=60) as compiler:
        with pytest.raises(CompileError, match="expected"):
            compiler.compile("define nonsense")
        assert compiler.compile(GOOD) == compile_ir(GOOD)


def test_a_crash_is_an_error_with_llvms_reason_and_the_next_source_compiles():
    with IsolatedCompiler(timeout_s=60) as compiler:
        with pytest.raises(CompilerCrashError, match="inline asm") as caught:
            compiler.compile(CRASHES)
        assert caught.value.exit_status != 0
        assert compiler.compile(GOOD) == compile_ir(GOOD)


def test_a_compilation_that_takes_too_long_is_stopped_and_the_next_source_compiles():
    with IsolatedCompiler(timeout_s=0.02) as compiler:
        with pytest.raises(CompileTimeoutError, match=r"more than 0\.02 s"):
            compiler.compile(long_source(600))
        for _ in range(20):
            try:
                assert compiler.compile(GOOD) == compile_ir(GOOD)
                break
            except CompileTimeoutError:  # on a machine that does something else just now
                continue
        else:
            pytest.fail("the compiler did not recover")


def test_closing_twice_does_nothing():
    compiler = IsolatedCompiler(timeout_s=60)
    compiler.compile(GOOD)
    compiler.close()
    compiler.close()
