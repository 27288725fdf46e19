"""What the docstrings of operations say: every argument by name, and an example that is right."""

from __future__ import annotations

import doctest
import inspect
import re
from types import MemberDescriptorType

import pytest

import svod_tensor
from svod_tensor import Tensor
from svod_tensor.ops.core.table import TABLE

PUBLIC = [
    name
    for name in svod_tensor.__all__
    if getattr(getattr(svod_tensor, name), "__module__", "").startswith("svod_tensor")
]


def find_function(name: str) -> object:
    member = inspect.getattr_static(Tensor, name)
    return getattr(member, "__func__", member)


OPERATIONS = [
    row.name for row in TABLE if not isinstance(find_function(row.name), MemberDescriptorType)
]
"""All but slots, which the docstring of their class describes."""

SYNTAX = ["__init__", "__getitem__", "__setitem__", "__len__", "__iter__"]
"""What has no other name."""


def run_examples(text: str, name: str) -> None:
    """Run the examples of a docstring, which import what they use."""
    assert "Example:\n    >>> " in text
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", OPERATIONS + SYNTAX)
def test_the_example_of_an_operation_is_right(name: str):
    run_examples(inspect.getdoc(find_function(name)) or "", name)


@pytest.mark.parametrize("name", OPERATIONS + SYNTAX)
def test_the_docstring_of_an_operation_describes_every_argument(name: str):
    function = find_function(name)
    text = inspect.getdoc(function) or ""
    _, *taken = inspect.signature(function).parameters if callable(function) else ("self",)
    missing = [
        n for n in taken if not re.search(rf"`{n}`|`[^`\n]*\b{n}\b[^`\n]*`|^    {n}: ", text, re.M)
    ]
    assert not missing, f"no word of {missing}"


@pytest.mark.usefixtures("own_stores")
@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_is_right(name: str):
    run_examples(inspect.getdoc(getattr(svod_tensor, name)) or "", name)
