"""Write the declarations of registered operations with `--write`; without it, list stale files.

`svod_tensor/ops/core/methods.pyi` declares the methods of `Tensor` for type checkers and editors;
the imports under TYPE_CHECKING and `__all__` in `svod_tensor/__init__.py` declare the functions of
the package."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import get_overloads

from svod_tensor.ops.core.methods import Methods
from svod_tensor.ops.core.operation import OPERATIONS, SPECIAL_METHODS, Operation

__all__ = ["describe_all", "main"]

_FOLDER = Path(inspect.getfile(Methods)).parent
_WIDTH = 100
_MODULES = {"np": "import numpy as np", "os": "import os"}
"""Import statements of the modules that annotations use."""

_HASH = '''    def __hash__(self) -> int:
        """Hash of the tensor's identity, since `==` compares elements."""
'''
"""Type checkers take a class that declares `__eq__` without `__hash__` as unhashable."""

_HEAD = '''"""Methods of `Tensor` that are registered operations."""

# Written by tools/stubs.py from svod_tensor.ops: change the functions there.

'''


def main(arguments: list[str]) -> int:
    n_stale = 0
    for path, text in describe_all().items():
        if path.exists() and path.read_text() == text:
            continue
        n_stale += 1
        print(f"{'wrote' if '--write' in arguments else 'stale:'} {path.name}")
        if "--write" in arguments:
            path.write_text(text)
    return 1 if n_stale and "--write" not in arguments else 0


def describe_all() -> dict[Path, str]:
    """Return the text of each generated file by path."""
    front = _FOLDER.parent.parent / "__init__.py"
    return {_FOLDER / "methods.pyi": _describe_methods(), front: _export(front.read_text())}


def _iter_functions() -> Iterator[tuple[str, str, str]]:
    """Yield the package-level name of each operation, its module, and its name in that module."""
    for operation in OPERATIONS.values():
        if operation.is_function:
            for name in (operation.name, *operation.aliases):
                yield name, operation.function.__module__, operation.name


def _export(text: str) -> str:
    """Return `svod_tensor/__init__.py` with imports and `__all__` entries for all operations."""
    origins = {name: (module, original) for name, module, original in _iter_functions()}
    tree = ast.parse(text)
    (block,) = (
        n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    )
    (all_statement,) = (
        n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"
    )
    imports = [n for n in block.body if isinstance(n, ast.ImportFrom)]
    old = [n for n in imports if (n.module or "").startswith("svod_tensor.ops.")]
    lines = text.splitlines()
    names = set(ast.literal_eval(all_statement.value)) - {
        a.asname or a.name for n in old for a in n.names
    } | set(origins)
    joined = textwrap.fill(
        ", ".join(f'"{name}"' for name in sorted(names, key=_exported)),
        _WIDTH - 10,
        initial_indent="    ",
        subsequent_indent="    ",
    )
    lines[all_statement.lineno - 1 : all_statement.end_lineno] = [
        "__all__ = [",
        *f"{joined},".splitlines(),
        "]  # fmt: skip",
    ]
    kept = {n: lines[n.lineno - 1 : n.end_lineno] for n in imports if n not in old}
    written = [(n.module or "", imported) for n, imported in kept.items()]
    written += [
        (module, list(_import_names(module, origins)))
        for module in {module for module, _ in origins.values()}
    ]
    begin, end = block.body[0].lineno - 1, block.body[-1].end_lineno
    lines[begin:end] = [line for _, imported in sorted(written) for line in imported]
    return "\n".join(lines) + "\n"


def _import_names(module: str, origins: dict[str, tuple[str, str]]) -> Iterator[str]:
    names = [(original, name) for name, (origin, original) in origins.items() if origin == module]
    names.sort(key=lambda pair: (_natural(pair[0]), pair[0] != pair[1], _natural(pair[1])))
    imported = [
        original if original == name else f"{original} as {name}" for original, name in names
    ]
    joined = f"    from {module} import {', '.join(imported)}"
    if len(joined) <= _WIDTH:
        yield joined
    else:
        yield from (f"    from {module} import (", *(f"        {n}," for n in imported), "    )")


def _exported(name: str) -> tuple[int, list[object]]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), _natural(name)


def _natural(name: str) -> list[object]:
    """Sort key in the linter's order, which compares digits in names by value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _describe_methods() -> str:
    methods: list[str] = []
    names: set[str] = set()
    for operation in sorted(OPERATIONS.values(), key=lambda operation: operation.name):
        text, used = _describe(operation)
        methods.append(text)
        names |= {(_find_module(operation.function.__module__, name), name) for name in used}
    for function in SPECIAL_METHODS.values():
        text, used = _describe_special(function)
        methods.append(text)
        names |= {(_find_module(function.__module__, name), name) for name in used}
    imports: dict[str, list[str]] = {}
    for module, name in names | {("typing", "Self"), ("svod_tensor.ops.core.base", "TensorBase")}:
        imports.setdefault(module, []).append(name)
    lines = [f"{_MODULES[name]}\n" for name in sorted(imports.get("", ()))]
    lines += [
        f"from {module} import {', '.join(sorted(imports[module]))}\n"
        for module in sorted(imports)
        if module
    ]
    return _HEAD + "".join(lines) + "\nclass Methods(TensorBase):\n" + "".join(methods) + _HASH


def _describe(operation: Operation) -> tuple[str, set[str]]:
    """Return the declarations of an operation's methods and the names in their annotations."""
    summary = (inspect.getdoc(operation.function) or "").split("\n\n")[0].replace("\n", " ")
    docstring = textwrap.fill(
        f'"""{summary}"""', _WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8
    )
    decorators = (
        ["property"]
        if operation.is_property
        else ["staticmethod"]
        if operation.is_static and not operation.binds
        else []
    )
    # Overloads are registered for the undecorated function.
    overloads = get_overloads(inspect.unwrap(operation.function))
    text, used = "", set[str]()
    for name in operation.names:
        for function in overloads or [operation.function]:
            head, names = _declare_function(name, inspect.signature(function), operation)
            lines = [
                f"@{decorator}" for decorator in (["overload"] if overloads else []) + decorators
            ]
            text += "".join(f"    {line}\n" for line in (*lines, head)) + docstring + "\n"
            used |= names | ({"overload"} if overloads else set())
    return text, used


def _describe_special(function: Callable[..., object]) -> tuple[str, set[str]]:
    """Return the declaration of a special method and the names in its annotations."""
    head, names = _declare_function(function.__name__, inspect.signature(function))
    if function.__name__ in ("__eq__", "__ne__"):
        head += "  # pyright: ignore[reportIncompatibleMethodOverride]"
    summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    docstring = textwrap.fill(
        f'"""{summary}"""', _WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8
    )
    return f"    {head}\n{docstring if summary else '        ...'}\n", names


def _declare_function(
    name: str, signature: inspect.Signature, operation: Operation | None = None
) -> tuple[str, set[str]]:
    parameters = list(signature.parameters.values())
    is_static = operation is not None and operation.is_static
    parameters = parameters if is_static else parameters[1:]
    returns = _clean(signature.return_annotation, is_static=is_static)
    if operation is not None and operation.is_variadic:
        parameters[0] = parameters[0].replace(
            kind=inspect.Parameter.VAR_POSITIONAL, default=inspect.Parameter.empty
        )
        parameters[1:] = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[1:]]
    declarations = [_declare(p, _clean(p.annotation, is_static=is_static)) for p in parameters]
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        declarations.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        declarations.insert(len(declarations) - kinds.count(inspect.Parameter.KEYWORD_ONLY), "*")
    declarations = declarations if is_static else ["self", *declarations]
    annotations = [returns, *(_clean(p.annotation, is_static=is_static) for p in parameters)]
    names = {n.id for a in annotations for n in ast.walk(ast.parse(a)) if isinstance(n, ast.Name)}
    return f"def {name}({', '.join(declarations)}) -> {returns}:", {
        n for n in names if not hasattr(builtins, n) and n != "Self"
    }


def _declare(parameter: inspect.Parameter, annotation: str) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
        parameter.kind, ""
    )
    value = parameter.default
    default_text = value.__name__ if isinstance(value, type) else repr(value)
    default = "" if value is inspect.Parameter.empty else f" = {default_text}"
    return f"{star}{parameter.name}: {annotation}{default}"


def _clean(annotation: object, *, is_static: bool) -> str:
    """Return an annotation for the stub, with Self for Tensor."""
    text = str(annotation).replace("'", '"')
    return text if is_static else re.sub(r"\bTensor\b", "Self", text)


@cache
def _list_imports(module: str) -> dict[str, str]:
    """Map names that a module imports (also under TYPE_CHECKING) or defines to their modules."""
    path = inspect.getsourcefile(importlib.import_module(module))
    assert path is not None
    tree = ast.parse(Path(path).read_text())
    modules = {n.name: module for n in tree.body if isinstance(n, ast.ClassDef)}
    modules |= {
        target.id: module
        for n in tree.body
        if isinstance(n, (ast.Assign, ast.AnnAssign))
        for target in (n.targets if isinstance(n, ast.Assign) else [n.target])
        if isinstance(target, ast.Name)
    }
    return modules | {
        name.asname or name.name: n.module or ""
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom)
        for name in n.names
    }


def _find_module(module: str, name: str) -> str:
    return "" if name in _MODULES else _list_imports(module)[name]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
