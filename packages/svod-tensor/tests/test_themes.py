"""The methods of `Tensor`: those of its core, and operations that modules of `svod_tensor.ops`
register.
"""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict

from svod_tensor import Tensor, tensor
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.methods import Methods
from svod_tensor.ops.core.operation import OPERATIONS, SPECIAL_METHODS
from svod_tensor.ops.core.themes import SYNTAX, THEMES


def test_a_tensor_is_its_core_with_operations_in_one_class():
    assert Tensor.__mro__ == (Tensor, Methods, TensorBase, object)
    assert {
        name for one in OPERATIONS.values() for name in one.names
    } | SPECIAL_METHODS.keys() <= vars(Methods).keys()


def test_no_name_is_defined_twice():
    classes: dict[str, list[str]] = defaultdict(list)
    for owner in (Tensor, Methods, TensorBase):
        for name in vars(owner):
            classes[name].append(owner.__name__)
    of_every_class = set(
        vars(type("Empty", (), {"__slots__": (), "__doc__": "", "__module__": ""}))
    )
    assert {
        name for name, found in classes.items() if len(found) > 1 and name not in of_every_class
    } == set()


def test_each_module_of_operations_is_listed_in_alphabetical_order():
    names = [module.__name__.removeprefix("svod_tensor.ops.") for module in THEMES]
    assert names == sorted({one.theme for one in OPERATIONS.values()})
    of_special_methods = {
        method.__module__.removeprefix("svod_tensor.ops.") for method in SPECIAL_METHODS.values()
    }
    assert {
        module.__name__.removeprefix("svod_tensor.ops.") for module in SYNTAX
    } == of_special_methods - set(names)


def test_the_class_of_tensors_imports_no_operations():
    imported = {
        node.module
        for node in ast.walk(ast.parse(inspect.getsource(tensor)))
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.startswith("svod_tensor.ops")
    }
    assert imported == {"svod_tensor.ops.core.methods"}


def test_an_operation_is_one_object_as_a_function_and_as_a_method():
    for one in OPERATIONS.values():
        member = inspect.getattr_static(Tensor, one.name)
        assert getattr(member, "fget", getattr(member, "__func__", member)) is one.public, one.name
