"""Whole kernels on disk: what comes back, and what tells one key from another."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from svod_codegen.disk_store import DiskStore
from svod_codegen.kernel_store import KernelStore, describe_target, fingerprint_code
from svod_device.spec import CompiledSpec, ProgramSpec, Variable
from svod_dtype import index
from svod_ir.ops import Op
from svod_ir.target import Target
from svod_ir.uop import UOp

KEY = ("hash", "CPU", "compiler", "heuristics")
SPEC = ProgramSpec(
    "E_16", "define void @E_16() { ; \u00fc\n}", "CPU",
    variables=(Variable("n", 1, 9), Variable("core_id", 0, 3)), var_names=("n",),
    globals=(0, 2, 5), outs=(0,), ins=(2, 5), global_size=(4, 1, 1), local_size=(1, 1, 1), n_operations=16, n_bytes=128,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(DiskStore(tmp_path, kind="kernels", max_bytes=1 << 20))


def test_a_kernel_comes_back_as_it_was(store: KernelStore):
    assert store.find(KEY) is None
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"\x7fELF\0code"))
    found = store.find(KEY)
    assert found is not None
    assert found.spec == SPEC
    assert found.compiled == CompiledSpec.from_bytes(SPEC, b"\x7fELF\0code")


def test_the_graph_is_not_kept(store: KernelStore):
    spec = replace(SPEC, ast=UOp.const(index, 3))
    store.add(KEY, spec, CompiledSpec.from_bytes(spec, b"code"))
    found = store.find(KEY)
    assert found is not None
    assert found.spec == SPEC
    assert found.compiled.ast is None


def test_a_kernel_that_is_compiled_when_loaded_comes_back_as_source(store: KernelStore):
    spec = replace(SPEC, local_size=None)
    store.add(KEY, spec, CompiledSpec.from_source(spec))
    found = store.find(KEY)
    assert found is not None
    assert found.spec == spec
    assert found.compiled == CompiledSpec.from_source(spec)


def test_a_kernel_whose_grid_depends_on_a_variable_is_not_stored(store: KernelStore):
    n = UOp(Op.DEFINE_VAR, index, (), ("n", 1, 9))
    for spec in (replace(SPEC, global_size=(n, 1, 1)), replace(SPEC, local_size=(1, n, 1))):
        store.add(KEY, spec, CompiledSpec.from_bytes(spec, b"code"))
        assert store.find(KEY) is None


def test_each_part_of_the_key_counts(store: KernelStore):
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"code"))
    for position in range(len(KEY)):
        assert store.find([part + "!" if i == position else part for i, part in enumerate(KEY)]) is None


def test_without_a_cache_the_store_is_empty():
    store = KernelStore(DiskStore(Path(), kind="kernels", max_bytes=0))
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"code"))
    assert store.find(KEY) is None


def test_a_target_is_described_by_all_it_says():
    target = Target.generic()
    assert describe_target(target) == describe_target(Target.generic())
    for changed in (
        replace(target, cores=7),
        replace(target, native_ops=frozenset({Op.ADD})),
        replace(target, name="x"),
    ):
        assert describe_target(changed) != describe_target(target)


def test_other_processes_describe_a_target_and_the_code_alike():
    code = (
        "from svod_codegen.kernel_store import describe_target, fingerprint_code; from svod_ir.target import Target;"
        "print(describe_target(Target.generic()), fingerprint_code('json'))"
    )
    command = [sys.executable, "-c", code]
    found = {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() for _ in range(3)}
    assert found == {f"{describe_target(Target.generic())} {fingerprint_code('json')}"}


def test_a_change_of_any_source_file_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "svod_test_plugin"
    (package / "inner").mkdir(parents=True)
    file = package / "inner" / "a.py"
    (package / "__init__.py").write_text("")
    file.write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def fingerprint() -> str:
        fingerprint_code.cache_clear()
        return fingerprint_code("svod_test_plugin")

    before = fingerprint()
    assert fingerprint() == before
    file.write_text("x = 11\n")
    after = fingerprint()
    assert after != before
    (package / "inner" / "b.py").write_text("")
    assert fingerprint() not in (before, after)
    fingerprint_code.cache_clear()
