"""Count the public names and methods without a docstring or without an example.

python tools/check_docstrings.py            # counts and names; status 1 if any is missing

A name has an example if its docstring has one, or if an example that the tests run uses it: in the
docstring of its class, in one of its module or of a public module that exports it, or on a page
that imports its distribution. An import of a name does not use it. An alias has the examples of its
target. Error classes need no example: docs/errors.md has the message of each."""

from __future__ import annotations

import ast
import contextlib
import doctest
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from surface import (
    ROOT,
    Distribution,
    get_bound_names,
    get_distributions,
    iter_statements,
    read_tree,
)

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# The tests run the code of these pages.
PAGES = ("README.md", "packages/*/README.md", "docs/**/*.md")


class Missing(NamedTuple):
    """A public name, and whether its docstring or its example is missing."""

    name: str
    what: str


def main() -> int:
    status = 0
    for distribution in get_distributions().values():
        missing = list(find_missing(distribution))
        undocumented = [name for name, what in missing if what == "docstring"]
        n_examples = len(missing) - len(undocumented)
        print(
            f"{distribution.name}: {len(undocumented)} without a docstring, {n_examples} without an"
            " example"
        )
        if missing:
            print(*(f"    {name}: no {what}" for name, what in missing), sep="\n")
        status |= bool(missing)
    return int(status)


def find_missing(distribution: Distribution) -> Iterator[Missing]:
    """Yield missing docstrings and examples in the order of the public modules, each name once."""
    seen: set[tuple[str, str]] = set()
    on_pages = read_pages(distribution.package)
    for module in distribution.public_modules:
        for name in distribution.get_public_names(module):
            definition = distribution.find_definition(module, name)
            if definition is None or definition[1] is None or (definition[0], name) in seen:
                continue
            home = definition[0]
            seen.add((home, name))
            node = _get_last(distribution, home, name)
            # docs/reference/commands.md describes the commands.
            if node is None or name == "main":
                continue
            used = on_pages | _get_names_used(distribution, {home, module})
            yield from _check_name(distribution, f"{module}.{name}", home, node, used)


def _check_name(
    distribution: Distribution, path: str, home: str, node: ast.stmt, used: set[str]
) -> Iterator[Missing]:
    """Yield what a name of a module lacks, and what the methods of a class lack."""
    name = path.split(".")[-1]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        target = node.value.id if isinstance(node.value, ast.Name) else name
        if not _get_text_below(read_tree(distribution.modules[home]).body, node) and (
            target == name
        ):
            yield Missing(path, "docstring")
        if not used & {name, target} and not _has_example(distribution, home, target):
            yield Missing(path, "example")
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        needs_example = not _is_error(home, node)
        yield from _check(path, node, used, needs_example=needs_example)
        if isinstance(node, ast.ClassDef) and needs_example:
            used = used | get_used_names(get_examples(node))
            for method in _list_methods(distribution, home, node):
                yield from _check(f"{path}.{method.name}", method, used)


@cache
def read_pages(package: str) -> set[str]:
    """Return the names that the code of pages uses, of the pages that import a package."""
    used: set[str] = set()
    for path in (path for pattern in PAGES for path in sorted(ROOT.glob(pattern))):
        blocks = BLOCK.findall(path.read_text())
        if any(re.search(rf"^(import|from) {package}\b", block, re.MULTILINE) for block in blocks):
            for block in blocks:
                with contextlib.suppress(SyntaxError):  # the first lines of a quoted class
                    used |= get_used_names(block)
    return used


def _get_names_used(distribution: Distribution, modules: Iterable[str]) -> set[str]:
    """Return the names that the examples of modules use, also those of their functions."""
    used: set[str] = set()
    for module in modules:
        for node in ast.walk(read_tree(distribution.modules[module])):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                used |= get_used_names(get_examples(node))
    return used


def get_used_names(code: str) -> set[str]:
    """Return the names and attributes in code, without those that are only imported.

    A class uses the methods that it defines, since it implements an interface. A string of several
    lines that is a program is a script that the code runs.
    """
    used: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name():
                used.add(node.id)
            case ast.Attribute():
                used.add(node.attr)
            case ast.ClassDef():
                used |= {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
            case ast.Constant(str(text)) if "\n" in text:
                with contextlib.suppress(SyntaxError):  # other text
                    used |= get_used_names(text)
            case _:
                pass
    return used


def _has_example(distribution: Distribution, module: str, name: str) -> bool:
    """True if the docstring of a function or class has an example, followed through imports."""
    definition = distribution.find_definition(module, name)
    if definition is None or definition[1] is None:
        return False
    node = _get_last(distribution, definition[0], name)
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and bool(get_examples(node))


def _get_text_below(body: list[ast.stmt], node: ast.stmt) -> str:
    """Return the docstring below an assignment, or an empty string."""
    statements = iter_statements(body)
    following = statements[statements.index(node) + 1 :][:1]
    match following:
        case [ast.Expr(ast.Constant(str(text)))]:
            return text
    return ""


def _get_last(distribution: Distribution, module: str, name: str) -> ast.stmt | None:
    """Return the last definition of a name in a module: the function after its overloads."""
    nodes = iter_statements(read_tree(distribution.modules[module]).body)
    return next((node for node in reversed(nodes) if name in get_bound_names(node)), None)


def _list_methods(
    distribution: Distribution, module: str, node: ast.ClassDef
) -> list[ast.FunctionDef]:
    """Return the public methods of a class that no base class documents.

    `forward` is left out, since examples call the module itself.
    """
    inherited = set(_iter_inherited(distribution, module, node)) | {"forward"}
    methods = [
        method for method in iter_statements(node.body) if isinstance(method, ast.FunctionDef)
    ]
    return [
        method
        for method in methods
        if not method.name.startswith(("_", "test_"))
        and method.name not in inherited
        and not _is_accessor(method)
        and not _is_called_by_pytest(method)
    ]


def _iter_inherited(distribution: Distribution, module: str, node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of the documented methods of base classes."""
    for base in node.bases:
        name = ast.unparse(base).split("[")[0]
        definition = distribution.find_definition(module, name) if name.isidentifier() else None
        if definition is not None and isinstance(definition[1], ast.ClassDef):
            yield from (
                m.name
                for m in definition[1].body
                if isinstance(m, ast.FunctionDef) and ast.get_docstring(m)
            )
            yield from _iter_inherited(distribution, definition[0], definition[1])


def get_examples(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """Return the code of a docstring's examples without results."""
    examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
    return "".join(example.source for example in examples)


def _check(
    path: str, node: ast.ClassDef | ast.FunctionDef, used: set[str], *, needs_example: bool = True
) -> Iterator[Missing]:
    if not ast.get_docstring(node):
        yield Missing(path, "docstring")
    if needs_example and node.name not in used and not get_examples(node):
        yield Missing(path, "example")


def _is_error(module: str, node: ast.AST) -> bool:
    return module.endswith(".errors") and isinstance(node, ast.ClassDef)


def _is_called_by_pytest(method: ast.FunctionDef) -> bool:
    """True for fixtures and hooks of a test class, which no program calls."""
    decorators = {ast.unparse(decorator).split("(")[0] for decorator in method.decorator_list}
    return method.name.startswith("pytest_") or "pytest.fixture" in decorators


def _is_accessor(method: ast.FunctionDef) -> bool:
    """True for properties, whose type documents them, and for setters and overloads."""
    kinds = {ast.unparse(decorator).split(".")[-1] for decorator in method.decorator_list}
    return bool(kinds & {"property", "cached_property", "setter", "overload"})


if __name__ == "__main__":
    raise SystemExit(main())
