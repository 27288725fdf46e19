"""Count what the reference cannot show: public functions, classes and methods without a docstring
or without an example.

python tools/check_docstrings.py            # a line for each distribution, and the names; status 1 where something is missing

A name is shown by the examples of its own docstring, of its class or of its module, or of the
public module that has it. Classes of errors need none: docs/errors.md has the message of each."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from typing import NamedTuple

from surface import Distribution, get_bound_names, get_distributions, iter_statements, read_tree

# What people call who use svod; of what lies below, the names alone are asked for.
WITH_METHODS = ("svod_tensor", "svod_nn", "svod_onnx")


class Missing(NamedTuple):
    """A public name, and what it lacks: a docstring or an example."""

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
    """What lacks something, in the order of the public modules; a name counts once."""
    seen: set[tuple[str, str]] = set()
    for module in distribution.public_modules:
        for name in distribution.get_public_names(module):
            found = distribution.find_definition(module, name)
            if found is None or found[1] is None or (found[0], name) in seen:
                continue
            seen.add((found[0], name))
            node = _get_last(distribution, found[0], name)
            if (
                not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or name == "main"
            ):  # docs/reference/commands.md has those
                continue
            places = dict.fromkeys((found[0], module))
            around = "\n".join(
                get_examples(read_tree(distribution.modules[place])) for place in places
            )
            yield from _look_at(
                f"{module}.{name}", node, around, needs_example=not _is_error(found[0], node)
            )
            if (
                isinstance(node, ast.ClassDef)
                and distribution.package in WITH_METHODS
                and not _is_error(found[0], node)
            ):
                around += get_examples(node)
                for method in _list_methods(distribution, found[0], node):
                    yield from _look_at(f"{module}.{name}.{method.name}", method, around)


def _get_last(distribution: Distribution, module: str, name: str) -> ast.AST | None:
    """What a name means at the end of its module: the function behind its overloads."""
    nodes = iter_statements(read_tree(distribution.modules[module]).body)
    return next((node for node in reversed(nodes) if name in get_bound_names(node)), None)


def _list_methods(
    distribution: Distribution, module: str, node: ast.ClassDef
) -> list[ast.FunctionDef]:
    """What is called on an object, without what a base class explains; a module's `forward` is
    shown by calling the module.
    """
    above = set(_iter_inherited(distribution, module, node)) | {"forward"}
    methods = [
        method for method in iter_statements(node.body) if isinstance(method, ast.FunctionDef)
    ]
    return [
        method
        for method in methods
        if not method.name.startswith(("_", "test_"))
        and method.name not in above
        and not _is_accessor(method)
    ]


def _iter_inherited(distribution: Distribution, module: str, node: ast.ClassDef) -> Iterator[str]:
    """The names of the documented methods of base classes."""
    for base in node.bases:
        name = ast.unparse(base).split("[")[0]
        found = distribution.find_definition(module, name) if name.isidentifier() else None
        if found is not None and isinstance(found[1], ast.ClassDef):
            yield from (
                m.name
                for m in found[1].body
                if isinstance(m, ast.FunctionDef) and ast.get_docstring(m)
            )
            yield from _iter_inherited(distribution, found[0], found[1])


def get_examples(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """The code of a docstring's examples, without their results, and without imports, which show
    nothing.
    """
    examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
    return "".join(
        one.source for one in examples if not one.source.startswith(("import ", "from "))
    )


def _look_at(
    name: str, node: ast.ClassDef | ast.FunctionDef, around: str, *, needs_example: bool = True
) -> Iterator[Missing]:
    if not ast.get_docstring(node):
        yield Missing(name, "docstring")
    own = get_examples(node)
    if needs_example and not own and not re.search(rf"\b{re.escape(node.name)}\b", around):
        yield Missing(name, "example")


def _is_error(module: str, node: ast.AST) -> bool:
    return module.endswith(".errors") and isinstance(node, ast.ClassDef)


def _is_accessor(method: ast.FunctionDef) -> bool:
    """Properties are shown as what they are, by their types; a setter and an overload belong to
    another definition.
    """
    kinds = {ast.unparse(decorator).split(".")[-1] for decorator in method.decorator_list}
    return bool(kinds & {"property", "cached_property", "setter", "overload"})


if __name__ == "__main__":
    raise SystemExit(main())
