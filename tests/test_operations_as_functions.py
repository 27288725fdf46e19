"""Declarations match the registry of operations, and the package exports every function."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import svod_tensor
from svod_tensor import Tensor
from svod_tensor.ops.core.operation import FUNCTIONS, OPERATIONS

TOOL = Path(__file__).resolve().parent.parent / "tools/stubs.py"


def test_the_declarations_are_fresh():
    spec = importlib.util.spec_from_file_location("stubs_tool", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stale = [path.name for path, text in tool.describe_all().items() if path.read_text() != text]
    assert not stale, f"write them again: python {TOOL.relative_to(TOOL.parents[1])} --write"


def test_the_package_has_each_function():
    assert set(FUNCTIONS) <= set(svod_tensor.__all__)
    for name, function in FUNCTIONS.items():
        assert getattr(svod_tensor, name) is function


def test_tensors_have_each_method():
    for one in OPERATIONS.values():
        for name in one.names:
            assert hasattr(Tensor, name), name


def test_a_name_stands_for_one_operation():
    names = [name for one in OPERATIONS.values() for name in (one.name, *one.aliases, *one.methods)]
    assert len(names) == len(set(names))
