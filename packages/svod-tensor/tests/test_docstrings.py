"""What the docstrings of operations say: every argument by name, and an example that is right."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from types import MemberDescriptorType

import numpy as np
import pytest

import svod_tensor
from svod_tensor import Tensor
from svod_tensor.ops.table import TABLE, Operation

PUBLIC = [
    name
    for name in svod_tensor.__all__
    if getattr(getattr(svod_tensor, name), "__module__", "").startswith("svod_tensor")
]


def name_of(row: Operation) -> str:
    return row.name


def find_function(row: Operation) -> object:
    member = inspect.getattr_static(Tensor, row.name)
    return getattr(member, "__func__", member)


def run_examples(text: str | None, name: str) -> None:
    """Run the examples of a docstring, with `Tensor` and `np` at hand."""
    found = doctest.DocTestParser().get_doctest(text or "", {"Tensor": Tensor, "np": np}, name, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=report.append)
    assert not report, "".join(report)


DOCUMENTED = [row for row in TABLE if not isinstance(find_function(row), MemberDescriptorType)]
"""All but slots, which the docstring of their class describes."""


@pytest.mark.parametrize("row", DOCUMENTED, ids=name_of)
def test_an_operation_has_a_docstring_with_an_example_and_every_argument(row: Operation):
    function = find_function(row)
    text = inspect.getdoc(function) or ""
    assert "Example:\n    >>> " in text
    if callable(function):
        _, *taken = inspect.signature(function).parameters
        missing = [
            name for name in taken if not re.search(rf"`{name}`|`[^`\n]*\b{name}\b[^`\n]*`|^    {name}: ", text, re.M)
        ]
        assert not missing, f"no word of {missing}"


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_the_example_of_an_operation_is_right(row: Operation):
    run_examples(inspect.getdoc(find_function(row)), row.name)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # Counting what is on disk takes as long as there are files.
    monkeypatch.setenv("SVOD_CACHE_DIR", str(tmp_path))
    text = inspect.getdoc(getattr(svod_tensor, name)) or ""
    assert "Example:\n    >>> " in text
    run_examples(text, name)
