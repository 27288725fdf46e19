"""Structure of the project: requirements for every distribution."""

from __future__ import annotations

import ast
import importlib
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from svod_device import INTERFACE_VERSION
from svod_device.interface import GROUP, parse_interface

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (
    "dtype",
    "ir",
    "schedule",
    "codegen",
    "device",
    "runtime",
    "tensor",
    "nn",
    "onnx",
    "testing",
)
RENAMED = {"_cffi_backend": "cffi"}
SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))
SOURCES_OF_PLUGINS = sorted(ROOT.glob("plugins/*/src/**/*.py"))
PLUGINS = sorted(
    path.parent
    for group in ("plugins", "examples")
    for path in ROOT.glob(f"{group}/*/pyproject.toml")
    # Others provide no device.
    if GROUP in path.read_text()
)


pytestmark = pytest.mark.xdist_group("sources")
"""Run these tests in one worker, which parses the sources once."""


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parse(path)))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT / "packages"))


def test_a_module_lists_its_public_names() -> None:
    for path in SOURCES:
        tree = _parse(path)
        listed, defined = _listed_names(tree), _bound_names(path)
        if listed is None and not defined - {"annotations"}:
            continue  # a folder's docstring
        assert listed is not None, f"{path} has no __all__"
        lazy = any(
            isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body
        )
        assert lazy or set(listed) <= defined, (
            f"{path}: __all__ names what is not there: {set(listed) - defined}"
        )
        own = {name for name in _own_names(tree) if not name.startswith("_")}
        assert own <= set(listed), (
            f"{path}: public by name, but not in __all__: {sorted(own - set(listed))}"
        )


@pytest.mark.parametrize("layer", LAYERS)
def test_exported_names_can_be_imported(layer: str) -> None:
    package = importlib.import_module(f"svod_{layer}")
    for name in package.__all__:
        assert hasattr(package, name), name


def test_only_options_read_the_environment() -> None:
    for path in SOURCES:
        if path.name == "options.py":
            continue
        for node in _nodes(path):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "os"
            ):
                assert node.attr not in ("environ", "getenv", "environb"), f"{path}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                assert not {alias.name for alias in node.names} & {"environ", "getenv"}, (
                    f"{path}:{node.lineno}"
                )


def test_no_module_writes_the_environment() -> None:
    for path in [*SOURCES, *SOURCES_OF_PLUGINS]:
        for node in _nodes(path):
            targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                targets = (
                    [node.func]
                    if node.func.attr in ("update", "pop", "setdefault", "clear", "popitem")
                    else []
                )
            written = {
                ast.unparse(t.value)
                for t in targets
                if isinstance(t, (ast.Subscript, ast.Attribute))
            }
            assert not written & {"os.environ", "os.environb", "environ"}, f"{path}:{node.lineno}"


def test_few_imports_are_local() -> None:
    """Local imports are only for optional or expensive dependencies."""
    n_imports = n_local = 0
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        n_imports += len(imports)
        n_local += sum(
            isinstance(node, (ast.Import, ast.ImportFrom))
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
        )
    assert n_local < 0.03 * n_imports, (n_local, n_imports)


def test_functions_named_find_may_return_none() -> None:
    """`find_` may return None; `get_` returns a value or raises."""
    for path in [*SOURCES, *SOURCES_OF_PLUGINS]:
        for node in _nodes(path):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("find_"):
                assert node.returns is not None and ast.unparse(node.returns).endswith("| None"), (
                    f"{path}:{node.lineno}: {node.name}"
                )


@pytest.mark.parametrize("layer", LAYERS)
def test_no_two_classes_of_a_distribution_share_a_name(layer: str) -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        if f"svod_{layer}" in path.parts:
            for node in _nodes(path):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name.lstrip("_"), []).append(
                        f"{_name(path)}:{node.lineno}"
                    )
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_distribution_has_the_required_files(layer: str) -> None:
    folder = ROOT / f"packages/svod-{layer}"
    for part in (
        "README.md",
        "CHANGELOG.md",
        f"src/svod_{layer}/py.typed",
        f"src/svod_{layer}/__init__.py",
    ):
        assert (folder / part).is_file(), part
    assert list(folder.glob("tests/test_*.py")), "no test"
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert f"\n## {_project(layer)['version']}\n" in (folder / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_distribution_declares_exactly_its_imports(layer: str) -> None:
    extras = _project(layer).get("optional-dependencies", {})
    declared, optional = (
        {Requirement(text).name.replace("-", "_") for text in texts}
        for texts in (
            _project(layer)["dependencies"],
            [*extras.get("prove", []), *extras.get("testing", [])],
        )
    )
    imported = {
        name for path in SOURCES if f"svod-{layer}/" in _name(path) for name in _imports(path)
    }
    imported = {RENAMED.get(name, name) for name in imported}
    known = {
        "cachetools",
        "numpy",
        "ml_dtypes",
        "structlog",
        "llvmlite",
        "cffi",
        "onnx",
        "hypothesis",
        "pytest",
        *(f"svod_{name}" for name in LAYERS),
    }
    assert (imported & known) - {f"svod_{layer}"} - (optional - declared) == declared


def test_code_is_generated_with_the_llvm_that_it_was_written_for() -> None:
    """Each release 0.x of llvmlite has a different LLVM."""
    (llvmlite,) = (
        r for r in map(Requirement, _project("codegen")["dependencies"]) if r.name == "llvmlite"
    )
    assert llvmlite.specifier.contains("0.50.9")
    assert not llvmlite.specifier.contains("0.51.0")


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_a_plugin_works_with_every_release_that_has_the_interface_which_it_declares(
    folder: Path,
) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *project.get("optional-dependencies", {}).get("test", [])]
    required = {r.name: r.specifier for r in map(Requirement, texts) if r.name.startswith("svod-")}
    assert "svod-device" in required
    for name, specifier in required.items():
        assert specifier.contains(_project(name.removeprefix("svod-"))["version"]), name
        assert specifier.contains("1000.0"), f"{name}: a later release may have the same interface"
    assert parse_interface(project["entry-points"][GROUP]["version"]) == INTERFACE_VERSION


CONTRACT = tomllib.loads((ROOT / "tests/contract.toml").read_text())
CONTRACT_ROWS = {"R": 12, "S": 7, "E": 10, "O": 7, "D": 6, "M": 3, "G": 6, "N": 4, "P": 4}


def test_the_contract_has_every_row() -> None:
    wanted = {
        f"{letter}{number}"
        for letter, count in CONTRACT_ROWS.items()
        for number in range(1, count + 1)
    }
    assert set(CONTRACT) == wanted


@pytest.mark.parametrize("name", CONTRACT)
def test_the_tests_of_a_contract_row_exist(name: str) -> None:
    row = CONTRACT[name]
    assert set(row) <= {"does", "tests", "open"}
    assert row["tests"] or row["open"], (
        "nothing shows this row, and it does not say what is missing"
    )
    for test in row["tests"]:
        folder, _, rest = test.partition("/")
        file, _, function = rest.partition("::")
        path = (
            ROOT / "tests" / file
            if folder == "tests"
            else ROOT / "packages" / folder / "tests" / file
        )
        assert path.is_file(), test
        assert function in _find_functions(path), test


@cache
def _find_functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }


def _project(layer: str) -> dict[str, object]:
    return tomllib.loads((ROOT / f"packages/svod-{layer}/pyproject.toml").read_text())["project"]


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def _listed_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return ast.literal_eval(node.value)
    return None


def _own_names(tree: ast.Module) -> set[str]:
    """Return the functions and classes that a module defines.

    Rules are left out, since their rule set lists them.
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        node.name
        for node in tree.body
        if isinstance(node, kinds) and not any(map(_is_rule, node.decorator_list))
    }


def _is_rule(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "rule"
    )


def _bound_names(path: Path) -> set[str]:
    """Return every name that the module binds at its top level, also under conditions."""
    found = _own_names(_parse(path))
    for node in _nodes(path):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found
