"""Examples in docstrings of modules and of svod-ir to svod-codegen give their results."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The distributions' own tests run the examples of functions and classes.
HAVE_OWN = ("svod_tensor", "svod_nn")


def iter_examples() -> list[tuple[str, str]]:
    """Yield (location, docstring) of docstrings with examples that no distribution tests."""
    found: list[tuple[str, str]] = []
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        text = path.read_text()
        if ">>>" in text:
            tree = ast.parse(text)
            kinds = (
                ast.Module
                if path.parts[len(ROOT.parts) + 3] in HAVE_OWN
                else (ast.Module, ast.ClassDef, ast.FunctionDef)
            )
            for node in ast.walk(tree):
                if isinstance(node, kinds) and ">>>" in (ast.get_docstring(node) or ""):
                    name = getattr(node, "name", "")
                    place = re.sub(
                        r"^packages/[^/]+/src/|(/__init__)?\.py$", "", str(path.relative_to(ROOT))
                    )
                    found.append((f"{place}:{name}", ast.get_docstring(node) or ""))
    return found


EXAMPLES = iter_examples()


@pytest.mark.parametrize(("place", "text"), EXAMPLES, ids=[place for place, _ in EXAMPLES])
def test_the_examples_of_a_docstring_are_right(
    place: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "SVOD_CACHE_DIR", str(tmp_path)
    )  # one of them searches, and keeps what it finds
    if place.startswith("svod_schedule/prove"):
        pytest.importorskip("z3", reason="proofs need z3-solver")
    if place.startswith("svod_tensor/dask"):
        pytest.importorskip("dask.array", reason="dask is not installed")
    # An empty namespace: an example runs where it is pasted.
    example = doctest.DocTestParser().get_doctest(text, {}, place, None, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load `tools/check_docstrings.py` and the module `surface`, which it imports."""
    for name in ("surface", "check_docstrings"):
        spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
        assert spec is not None and spec.loader is not None
        monkeypatch.setitem(sys.modules, name, module := importlib.util.module_from_spec(spec))
        spec.loader.exec_module(module)
    return sys.modules["check_docstrings"]


def test_what_lacks_a_docstring_or_an_example_is_found(counter: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "src" / "svod_nn"
    source.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.svod]\npublic-modules = ["svod_nn"]\n')
    (source / "__init__.py").write_text(
        '"""A shop.\n\n>>> from svod_nn import sell, rob\n>>> sell(1)\n"""\n'
        '__all__ = ["Till", "rob", "sell"]\n'
        'def sell(n):\n    """Sell."""\n'
        "def rob():\n    pass\n"
        'class Till:\n    """A till.\n\n    >>> Till().open()\n    """\n'
        '    def open(self):\n        """Open."""\n    def close(self):\n        """Close."""\n'
    )
    missing = list(counter.find_missing(sys.modules["surface"].Distribution(tmp_path, "svod_nn")))
    assert missing == [
        ("svod_nn.Till.close", "example"),
        ("svod_nn.rob", "docstring"),
        ("svod_nn.rob", "example"),
    ]


def test_constants_aliases_and_methods_need_an_example(
    counter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src" / "svod_ir"
    source.mkdir(parents=True)
    monkeypatch.setattr(counter, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text(
        "```python\nfrom svod_ir import COINS, NOTES, Till\n\nprint(COINS)\n```\n\n"
        "```text\nNOTES\n```\n"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.svod]\npublic-modules = ["svod_ir"]\n')
    (source / "__init__.py").write_text(
        '"""A shop.\n\n>>> from svod_ir import vend, Till, COINS\n>>> price: Price = 3\n"""\n'
        '__all__ = ["COINS", "LIMIT", "NOTES", "Price", "Till", "sell", "vend"]\n'
        'COINS = (1, 2)\n"""Values of coins."""\n'
        "LIMIT = 9\n"
        'NOTES = (5, 10)\n"""Values of notes."""\n'
        'Price = int\n"""A number of cents."""\n'
        'def sell(n):\n    """Sell.\n\n    >>> sell(1)\n    """\n'
        "vend = sell\n"
        'class Till:\n    """A till.\n\n    >>> Till().open()\n    >>> class Lock(Till):\n'
        '    ...     def lock(self):\n    ...         pass\n    """\n'
        '    def open(self):\n        """Open."""\n    def close(self):\n        """Close."""\n'
        '    def lock(self):\n        """Lock."""\n'
        '    @pytest.fixture\n    def key(self):\n        """Key."""\n'
    )
    missing = list(counter.find_missing(sys.modules["surface"].Distribution(tmp_path, "svod_ir")))
    assert missing == [
        ("svod_ir.LIMIT", "docstring"),
        ("svod_ir.LIMIT", "example"),
        ("svod_ir.NOTES", "example"),
        ("svod_ir.Till.close", "example"),
    ]


def test_a_script_in_a_string_is_an_example(counter: ModuleType) -> None:
    code = "script = '''\nfrom shop import sell\nsell(1)\n'''\ntext = '''\nnot a program\n'''\n"
    assert counter.get_used_names(code) == {"script", "sell", "text"}
