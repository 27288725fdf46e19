"""The themes that `Tensor` is composed of: side by side, on one base."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from pathlib import Path

from svod_tensor import Tensor
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.methods import Methods
from svod_tensor.ops.operation import OPERATIONS
from svod_tensor.ops.theme import Theme

THEMES = tuple(base for base in Tensor.__bases__ if base is not Methods)
FOLDER = Path(inspect.getfile(Theme)).parent


def test_each_theme_stands_on_the_one_base_alone():
    assert [theme.__bases__ for theme in THEMES] == [(Theme,)] * len(THEMES)
    assert Theme.__bases__ == (Methods,)
    assert Methods.__bases__ == (TensorBase,)


def test_a_theme_has_the_name_of_its_file():
    assert [theme.__name__.lower() for theme in THEMES] == [theme.__module__.rpartition(".")[2] for theme in THEMES]


def test_the_themes_are_composed_in_alphabetical_order_which_means_nothing():
    names = [theme.__name__ for theme in THEMES]
    assert names == sorted(names)


def test_no_name_is_defined_twice():
    places: dict[str, list[str]] = defaultdict(list)
    for place in (Tensor, Theme, Methods, *THEMES):
        for name in vars(place):
            places[name].append(place.__name__)
    of_every_class = set(vars(type("Empty", (), {"__slots__": (), "__doc__": "", "__module__": ""})))
    declared = set(find_declared())
    assert {
        n for n, found in places.items() if len(found) > 1 and n not in of_every_class and n not in declared
    } == set()
    assert not declared & {name for one in OPERATIONS.values() for name in one.names}


def find_declared() -> list[str]:
    """The names that the base declares for its themes, without defining them."""
    tree = ast.parse((FOLDER / "theme.py").read_text())
    (base,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return [n.name for n in base.body if isinstance(n, ast.FunctionDef) and ast.unparse(n.body) == "..."]


def test_what_themes_call_of_each_other_is_defined_by_one_of_them_or_by_the_whole():
    for name in find_declared():
        assert any(name in vars(place) for place in (Tensor, Methods, *THEMES)), f"nothing defines {name}"


def test_no_theme_imports_the_class_of_another():
    classes = {theme.__name__ for theme in THEMES}
    for theme in THEMES:
        module = importlib.import_module(theme.__module__)
        others = {name for name, value in vars(module).items() if name in classes and isinstance(value, type)}
        assert others == {theme.__name__}, module.__name__


def test_the_base_declares_nothing_that_no_theme_calls_of_another():
    called: dict[str, set[str]] = defaultdict(set)
    # What factors and solves matrices is computed with methods, as themes are.
    for path in (*FOLDER.glob("*.py"), *(FOLDER.parent / "matrices").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                called[node.attr].add(path.stem)
            elif isinstance(node, ast.Subscript):
                called["__getitem__"].add(path.stem)
    for name in find_declared():
        (owner,) = (place.__name__.lower() for place in (Tensor, Methods, *THEMES) if name in vars(place))
        assert called[name] - {owner}, f"no other theme calls {name}"
