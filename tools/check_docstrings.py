"""Count the public functions, classes and methods without a docstring or without an example.

python tools/check_docstrings.py            # counts and names; status 1 if any is missing

A name counts as shown if it occurs in an example of its own docstring, of its class, of its module,
or of a public module that exports it. Error classes need no example: docs/errors.md has the message
of each."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from typing import NamedTuple

from surface import Distribution, get_bound_names, get_distributions, iter_statements, read_tree

# Methods need an example in the packages that users call, and a docstring in all of them.
WITH_METHODS = ("svod_tensor", "svod_nn", "svod_onnx")


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
    for module in distribution.public_modules:
        for name in distribution.get_public_names(module):
            definition = distribution.find_definition(module, name)
            if definition is None or definition[1] is None or (definition[0], name) in seen:
                continue
            home = definition[0]
            seen.add((home, name))
            node = _get_last(distribution, home, name)
            if (
                not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or name == "main"
            ):  # docs/reference/commands.md describes the commands
                continue
            modules = dict.fromkeys((home, module))
            context = "\n".join(get_examples(read_tree(distribution.modules[m])) for m in modules)
            yield from _check(
                f"{module}.{name}", node, context, needs_example=not _is_error(home, node)
            )
            if isinstance(node, ast.ClassDef) and not _is_error(home, node):
                context += get_examples(node)
                for method in _list_methods(distribution, home, node):
                    yield from _check(
                        f"{module}.{name}.{method.name}",
                        method,
                        context,
                        needs_example=distribution.package in WITH_METHODS,
                    )


def _get_last(distribution: Distribution, module: str, name: str) -> ast.AST | None:
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
    """Return the code of a docstring's examples without results and imports.

    An import of a name does not demonstrate it.
    """
    examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
    return "".join(
        example.source
        for example in examples
        if not example.source.startswith(("import ", "from "))
    )


def _check(
    name: str, node: ast.ClassDef | ast.FunctionDef, context: str, *, needs_example: bool = True
) -> Iterator[Missing]:
    if not ast.get_docstring(node):
        yield Missing(name, "docstring")
    examples = get_examples(node)
    if needs_example and not examples and not re.search(rf"\b{re.escape(node.name)}\b", context):
        yield Missing(name, "example")


def _is_error(module: str, node: ast.AST) -> bool:
    return module.endswith(".errors") and isinstance(node, ast.ClassDef)


def _is_accessor(method: ast.FunctionDef) -> bool:
    """True for properties, whose type documents them, and for setters and overloads."""
    kinds = {ast.unparse(decorator).split(".")[-1] for decorator in method.decorator_list}
    return bool(kinds & {"property", "cached_property", "setter", "overload"})


if __name__ == "__main__":
    raise SystemExit(main())
