"""The functions of the array API standard are written by `tools/functions.py`, and are what it would write."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

import svod_tensor
from svod_tensor.functions._places import PLACES
from svod_tensor.ops.operation import FUNCTIONS as OPERATION_FUNCTIONS
from svod_tensor.ops.standard import API_VERSION, FUNCTIONS, WRITTEN

TOOL = Path(__file__).resolve().parent.parent / "tools/functions.py"


def test_the_functions_are_what_the_table_and_the_methods_say():
    spec = importlib.util.spec_from_file_location("functions_tool", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stale = [path.name for path, text in tool.describe_all().items() if path.read_text() != text]
    assert not stale, f"write them again: python {TOOL.relative_to(TOOL.parents[1])} --write"


def test_each_function_of_the_table_is_one_of_the_package():
    written = {name for names in WRITTEN.values() for name in names}
    assert set(PLACES) | set(OPERATION_FUNCTIONS) == {*FUNCTIONS, *written}
    assert set(PLACES) <= set(svod_tensor.__all__)
    assert svod_tensor.__array_api_version__ == API_VERSION


@pytest.mark.parametrize("name", sorted(set(PLACES)))
def test_a_function_has_the_signature_and_the_place_that_the_table_says(name: str):
    function = getattr(svod_tensor, name)
    assert function.__module__ == f"svod_tensor.{PLACES[name]}"
    assert function.__name__ == name
    if name in FUNCTIONS:
        empty = inspect.Parameter.empty
        shown = [p.replace(annotation=empty) for p in inspect.signature(function).parameters.values()]
        expected = inspect.signature(eval(f"lambda {FUNCTIONS[name]}: 0"))
        assert inspect.Signature(shown) == expected
