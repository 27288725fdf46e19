"""Whole kernels on disk: what comes back, and what tells one key from another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from svod_codegen import kernel_store
from svod_codegen.disk_store import DiskStore
from svod_codegen.kernel_store import KernelStore, describe_target, fingerprint_code
from svod_device import CompiledSpec, ProgramSpec, Variable
from svod_dtype import LOADED_AT_NS, index
from svod_ir import Op, Target, UOp

KEY = ("hash", "CPU", "compiler", "heuristics")
SPEC = ProgramSpec(
    "E_16",
    "define void @E_16() { ; \u00fc\n}",
    "CPU",
    variables=(Variable("n", 1, 9), Variable("core_id", 0, 3)),
    var_names=("n",),
    globals=(0, 2, 5),
    outs=(0,),
    ins=(2, 5),
    global_size=(4, 1, 1),
    local_size=(1, 1, 1),
    n_operations=16,
    n_bytes=128,
    reasons=("UPCAST(0, 4): lanes along axis 0 (16)",),
)


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
    n = UOp.variable("n", 1, 9)
    for spec in (replace(SPEC, global_size=(n, 1, 1)), replace(SPEC, local_size=(1, n, 1))):
        store.add(KEY, spec, CompiledSpec.from_bytes(spec, b"code"))
        assert store.find(KEY) is None


def test_each_part_of_the_key_counts(store: KernelStore):
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"code"))
    for position in range(len(KEY)):
        assert (
            store.find([part + "!" if i == position else part for i, part in enumerate(KEY)])
            is None
        )


def test_without_a_cache_the_store_is_empty():
    store = KernelStore(DiskStore(Path(), kind="kernels", max_bytes=0))
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"code"))
    assert store.find(KEY) is None


def test_the_description_of_a_target_has_all_fields():
    target = Target.generic()
    assert describe_target(target) == describe_target(Target.generic())
    for changed in (
        replace(target, cores=7),
        replace(target, native_ops=frozenset({Op.ADD})),
        replace(target, name="x"),
    ):
        assert describe_target(changed) != describe_target(target)


def test_other_processes_describe_a_target_and_the_code_equally(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel_store, "_COMPILER_PACKAGES", ())
    fingerprint_code.cache_clear()
    code = (
        "from svod_codegen import kernel_store; from svod_ir.target import"
        " Target;kernel_store._COMPILER_PACKAGES ="
        " ();print(kernel_store.describe_target(Target.generic()),"
        " kernel_store.fingerprint_code('json'))"
    )
    command = [sys.executable, "-c", code]
    found = {
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        for _ in range(3)
    }
    assert found == {f"{describe_target(Target.generic())} {fingerprint_code('json')}"}
    fingerprint_code.cache_clear()


def test_every_distribution_that_makes_kernels_counts(monkeypatch: pytest.MonkeyPatch):
    looked_at: list[str] = []
    monkeypatch.setattr(kernel_store, "find_spec", looked_at.append)
    fingerprint_code.cache_clear()
    fingerprint_code("svod_test_plugin")
    assert looked_at == [
        "svod_codegen",
        "svod_device",
        "svod_dtype",
        "svod_ir",
        "svod_schedule",
        "svod_test_plugin",
    ]
    fingerprint_code.cache_clear()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of files that changed long ago, alone: whoever works on svod changes its own files
    meanwhile.
    """
    monkeypatch.setattr(kernel_store, "_COMPILER_PACKAGES", ())
    package = tmp_path / "svod_test_plugin"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/a.py"):
        write_long_ago(package / name, "x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    fingerprint_code.cache_clear()


def write_long_ago(file: Path, text: str) -> None:
    file.write_text(text)
    os.utime(file, (1_700_000_000, 1_700_000_000))


def fingerprint() -> str:
    fingerprint_code.cache_clear()
    return fingerprint_code("svod_test_plugin")


def test_a_change_of_any_source_file_changes_the_fingerprint(plugin: Path):
    before = fingerprint()
    assert fingerprint() == before
    write_long_ago(plugin / "inner" / "a.py", "x = 11\n")
    after = fingerprint()
    assert after != before
    write_long_ago(plugin / "inner" / "b.py", "")
    assert fingerprint() not in (before, after)
    (plugin / "inner" / "b.py").unlink()
    assert fingerprint() == after


def test_code_that_changed_since_it_was_loaded_has_a_unique_fingerprint(plugin: Path):
    os.utime(plugin / "inner" / "a.py", ns=(LOADED_AT_NS, LOADED_AT_NS))
    assert fingerprint() == fingerprint()
    os.utime(plugin / "inner" / "a.py", ns=(LOADED_AT_NS + 1, LOADED_AT_NS + 1))
    assert fingerprint() != fingerprint()


def test_a_whole_entry_that_is_no_kernel_is_a_miss_and_is_removed(store: KernelStore):
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"code"))
    ((name, content),) = store.store.iter_entries()
    for damaged in (
        b"",
        b"\0\0\0\0",
        content[:40],
        b"\xff" * 99,
        content.replace(b'"outs"', b'"uots"'),
    ):
        store.store.put(name, damaged)
        assert store.find(KEY) is None
        assert store.store.counts().entries == 0
    assert store.store.counts()[1:3] == (0, 5)


def test_a_kernel_that_is_rejected_is_gone(store: KernelStore):
    store.add(KEY, SPEC, CompiledSpec.from_bytes(SPEC, b"code"))
    assert store.find(KEY) is not None
    store.reject(KEY)
    assert store.find(KEY) is None
    assert store.store.counts()[:3] == (0, 0, 2)
