"""The examples in the docstrings are right, and every public class and function of more than one
argument has one.
"""

from __future__ import annotations

import doctest
import inspect

import pytest

import svod_nn
from svod_nn import initializers, schedules

PLACES = {"svod_nn": svod_nn, "initializers": initializers, "schedules": schedules}
PUBLIC = [
    f"{place}.{name}"
    for place, module in PLACES.items()
    for name in module.__all__
    if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_is_right(name: str):
    place, _, attribute = name.partition(".")
    text = inspect.getdoc(getattr(PLACES[place], attribute)) or ""
    assert "Example:\n    >>> " in text
    # An empty namespace: an example runs where it is pasted.
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=report.append)
    assert not report, "".join(report)
