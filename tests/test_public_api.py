"""Tools for the public API and for imports between distributions, on a distribution of three
modules.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"
FRONT = """
from shop._till import pay as pay, Till
__all__ = ["Till", "pay"]
"""
TILL = """
from typing import NamedTuple
__all__ = ["Till", "pay"]
class _Drawer:
    def open(self) -> None: ...
    def _jam(self) -> None: ...
class Till(_Drawer):
    coins: int = 0
def pay(amount: int, *, tip: float = 0.0) -> Till: ...
"""
GOODS = """
from shop._till import Till
__all__ = ["PRICES", "Till"]
PRICES: dict[str, int] = {}
"""


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    found: dict[str, ModuleType] = {}
    for name in ("surface", "public_api", "check_borders"):
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        found[name] = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, found[name])
        spec.loader.exec_module(found[name])
    return found


def _make_shop(
    tools: dict[str, ModuleType],
    folder: Path,
    till: str = TILL,
    public: str = '"shop", "shop.goods"',
):
    source = folder / "src" / "shop"
    source.mkdir(parents=True)
    for name, text in {"__init__": FRONT, "_till": till, "goods": GOODS}.items():
        (source / f"{name}.py").write_text(text)
    (folder / "pyproject.toml").write_text(f"[tool.svod]\npublic-modules = [{public}]\n")
    return tools["surface"].Distribution(folder, "shop")


def test_each_public_name_stands_once_with_what_others_may_use_of_it(tools, tmp_path: Path) -> None:
    lines = tools["public_api"].describe(_make_shop(tools, tmp_path)).splitlines()
    assert lines[2:] == [
        "shop",
        "    class Till(_Drawer)",
        "        coins: int = ...",
        "        def open(self) -> None",
        "    def pay(amount: int, *, tip: float=0.0) -> Till",
        "",
        "shop.goods",
        "    PRICES: dict[str, int] = ...",
        "    Till: from shop",
    ]


def test_methods_of_a_stub_count_with_all_their_overloads_and_functions_by_the_name_that_is_public(
    tools, tmp_path: Path
) -> None:
    shop = _make_shop(tools, tmp_path)
    (shop.source / "_drawer.py").write_text("class Drawer:\n    __slots__ = ()\n")
    (shop.source / "_drawer.pyi").write_text(
        "class Drawer:\n    @overload\n    def open(self) -> None: ...\n    @overload\n    def"
        " open(self, key: int) -> int: ...\n"
    )
    (shop.source / "_till.py").write_text(
        "from shop._drawer import Drawer\nclass Till(Drawer):\n    coins: int = 0\n"
        '@operation(test="")\ndef pay(x: Till, /, tip: float = 0.0) -> Till: ...\n'
    )
    (shop.source / "goods.py").write_text(
        'from shop._till import pay as settle\n__all__ = ["settle"]\n'
    )
    lines = tools["public_api"].describe(shop).splitlines()
    assert lines[2:] == [
        "shop",
        "    class Till(Drawer)",
        "        coins: int = ...",
        "        overload def open(self) -> None",
        "        overload def open(self, key: int) -> int",
        "    def pay(x: Operand, /, tip: float=0.0) -> Till",
        "",
        "shop.goods",
        "    def settle(x: Operand, /, tip: float=0.0) -> Till",
    ]


def test_a_changed_signature_changes_the_page_and_a_changed_body_does_not(
    tools, tmp_path: Path
) -> None:
    page = [
        tools["public_api"].describe(_make_shop(tools, tmp_path / str(i) / "shop", till))
        for i, till in enumerate(
            (
                TILL,
                TILL.replace("tip: float", "tip: int"),
                TILL.replace("Till: ...", "Till: return 1"),
            )
        )
    ]
    assert page[0] != page[1]
    assert page[0] == page[2]


@pytest.mark.parametrize(
    ("module", "name", "problem"),
    [
        ("shop", "pay", None),
        ("shop", None, None),
        ("shop", "goods", None),
        ("shop.goods", "PRICES", None),
        ("shop.goods", "Till", "import Till from shop itself"),
        ("shop.goods", "COSTS", "COSTS is not in `shop.goods.__all__`"),
        ("shop._till", "pay", "shop._till is private (pay)"),
        ("shop", "_till", "shop._till is private"),
    ],
)
def test_only_public_names_of_public_modules_cross_a_border(
    tools, tmp_path: Path, module, name, problem
) -> None:
    assert tools["check_borders"].find_problem(_make_shop(tools, tmp_path), module, name) == problem


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("value = node.src[0]", [1]),
        ("\nvalue = node.source.src[-1].dtype", [2]),
        ("first, second = node.src[0], node.src[1]", [1, 1]),
        ("rest = node.src[1:]", []),
        ("value = node.src[position]", []),
        ("value = sources[0]", []),
    ],
)
def test_an_operand_that_is_taken_by_its_index_is_found(
    tools, source: str, lines: list[int]
) -> None:
    assert [*tools["check_borders"].iter_indexed_operands(ast.parse(source))] == lines


@pytest.mark.parametrize(("package", "is_allowed"), [("shop", False), ("svod_ir", True)])
def test_operands_are_taken_by_index_in_svod_ir_only(
    tools, tmp_path: Path, monkeypatch, capsys, package, is_allowed
) -> None:
    folder = tmp_path / "packages" / package
    check = tools["check_borders"]
    shop = _make_shop(tools, folder)
    (shop.source / "_till.py").write_text(TILL + "def first(node): return node.src[0]\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "get_distributions", dict)
    monkeypatch.setattr(
        check, "iter_files", lambda _: [(path, package) for path in shop.modules.values()]
    )
    assert check.main([]) == (0 if is_allowed else 1)
    assert ("_till.py:10: operand accessed by index" in capsys.readouterr().out) is not is_allowed


def test_a_module_is_declared_or_private_by_its_name(tools, tmp_path: Path) -> None:
    (problem,) = tools["check_borders"].iter_declared(_make_shop(tools, tmp_path, public='"shop"'))
    assert problem.endswith("shop.goods is not declared public, so its name must begin with _")
