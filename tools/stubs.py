"""Write the declarations of registered operations: `python tools/stubs.py --write` makes them,
without it stale files are listed.

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
"""Modules that annotations name, and their imports."""

_HASH = '''    def __hash__(self) -> int:
        """The identity of the tensor: `==` compares elements."""
'''
"""A class that declares `__eq__` alone counts as one without hashes."""

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
    """The text of each file that is written."""
    front = _FOLDER.parent.parent / "__init__.py"
    return {_FOLDER / "methods.pyi": _describe_methods(), front: _export(front.read_text())}


def _iter_functions() -> Iterator[tuple[str, str, str]]:
    """Each function of the package that is an operation: its name there, its module, and its name
    in the module.
    """
    for one in OPERATIONS.values():
        if one.is_function:
            for name in (one.name, *one.aliases):
                yield name, one.function.__module__, one.name


def _export(text: str) -> str:
    """`svod_tensor/__init__.py` with all operations among its names."""
    places = {name: (module, own) for name, module, own in _iter_functions()}
    tree = ast.parse(text)
    (block,) = (
        n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    )
    (listed,) = (
        n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"
    )
    imports = [n for n in block.body if isinstance(n, ast.ImportFrom)]
    old = [n for n in imports if (n.module or "").startswith("svod_tensor.ops.")]
    lines = text.splitlines()
    names = set(ast.literal_eval(listed.value)) - {
        a.asname or a.name for n in old for a in n.names
    } | set(places)
    whole = textwrap.fill(
        ", ".join(f'"{name}"' for name in sorted(names, key=_exported)),
        _WIDTH - 10,
        initial_indent="    ",
        subsequent_indent="    ",
    )
    lines[listed.lineno - 1 : listed.end_lineno] = [
        "__all__ = [",
        *f"{whole},".splitlines(),
        "]  # fmt: skip",
    ]
    kept = {n: lines[n.lineno - 1 : n.end_lineno] for n in imports if n not in old}
    written = [(n.module or "", shown) for n, shown in kept.items()]
    written += [
        (module, list(_import_names(module, places)))
        for module in {module for module, _ in places.values()}
    ]
    begin, end = block.body[0].lineno - 1, block.body[-1].end_lineno
    lines[begin:end] = [line for _, shown in sorted(written) for line in shown]
    return "\n".join(lines) + "\n"


def _import_names(module: str, places: dict[str, tuple[str, str]]) -> Iterator[str]:
    names = [(own, name) for name, (place, own) in places.items() if place == module]
    names.sort(key=lambda pair: (_natural(pair[0]), pair[0] != pair[1], _natural(pair[1])))
    shown = [own if own == name else f"{own} as {name}" for own, name in names]
    whole = f"    from {module} import {', '.join(shown)}"
    if len(whole) <= _WIDTH:
        yield whole
    else:
        yield from (f"    from {module} import (", *(f"        {n}," for n in shown), "    )")


def _exported(name: str) -> tuple[int, list[object]]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), _natural(name)


def _natural(name: str) -> list[object]:
    """The order in which the linter wants names: numbers in them by their value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _describe_methods() -> str:
    methods: list[str] = []
    names: set[str] = set()
    for one in sorted(OPERATIONS.values(), key=lambda one: one.name):
        text, used = _describe(one)
        methods.append(text)
        names |= {(_find_module(one.function.__module__, name), name) for name in used}
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


def _describe(one: Operation) -> tuple[str, set[str]]:
    """The declarations of an operation's methods, and the names in their annotations."""
    summary = (inspect.getdoc(one.function) or "").split("\n\n")[0].replace("\n", " ")
    shown = textwrap.fill(
        f'"""{summary}"""', _WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8
    )
    decorators = (
        ["property"]
        if one.is_property
        else ["staticmethod"]
        if one.is_static and not one.binds
        else []
    )
    # A decorated function keeps the overloads of the one that it wraps.
    overloads = get_overloads(inspect.unwrap(one.function))
    text, used = "", set[str]()
    for name in one.names:
        for function in overloads or [one.function]:
            head, names = _declare_function(name, inspect.signature(function), one)
            lines = [
                f"@{decorator}" for decorator in (["overload"] if overloads else []) + decorators
            ]
            text += "".join(f"    {line}\n" for line in (*lines, head)) + shown + "\n"
            used |= names | ({"overload"} if overloads else set())
    return text, used


def _describe_special(function: Callable[..., object]) -> tuple[str, set[str]]:
    """The declaration of a special method, and the names in its annotations."""
    head, names = _declare_function(function.__name__, inspect.signature(function))
    if function.__name__ in ("__eq__", "__ne__"):
        head += "  # pyright: ignore[reportIncompatibleMethodOverride]"
    summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    shown = textwrap.fill(
        f'"""{summary}"""', _WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8
    )
    return f"    {head}\n{shown if summary else '        ...'}\n", names


def _declare_function(
    name: str, signature: inspect.Signature, one: Operation | None = None
) -> tuple[str, set[str]]:
    parameters = list(signature.parameters.values())
    is_static = one is not None and one.is_static
    parameters = parameters if is_static else parameters[1:]
    returns = _clean(signature.return_annotation, is_static=is_static)
    if one is not None and one.is_variadic:
        parameters[0] = parameters[0].replace(
            kind=inspect.Parameter.VAR_POSITIONAL, default=inspect.Parameter.empty
        )
        parameters[1:] = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[1:]]
    parts = [_declare(p, _clean(p.annotation, is_static=is_static)) for p in parameters]
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        parts.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parts.insert(len(parts) - kinds.count(inspect.Parameter.KEYWORD_ONLY), "*")
    parts = parts if is_static else ["self", *parts]
    annotations = [returns, *(_clean(p.annotation, is_static=is_static) for p in parameters)]
    names = {n.id for a in annotations for n in ast.walk(ast.parse(a)) if isinstance(n, ast.Name)}
    return f"def {name}({', '.join(parts)}) -> {returns}:", {
        n for n in names if not hasattr(builtins, n) and n != "Self"
    }


def _declare(parameter: inspect.Parameter, annotation: str) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
        parameter.kind, ""
    )
    value = parameter.default
    shown = value.__name__ if isinstance(value, type) else repr(value)
    default = "" if value is inspect.Parameter.empty else f" = {shown}"
    return f"{star}{parameter.name}: {annotation}{default}"


def _clean(annotation: object, *, is_static: bool) -> str:
    """An annotation in the stub: the class of the tensor that has the method stands for Tensor."""
    text = str(annotation).replace("'", '"')
    return text if is_static else re.sub(r"\bTensor\b", "Self", text)


@cache
def _list_imports(module: str) -> dict[str, str]:
    """The names that a module imports or defines, under TYPE_CHECKING too, and the modules that
    they come from.
    """
    path = inspect.getsourcefile(importlib.import_module(module))
    assert path is not None
    tree = ast.parse(Path(path).read_text())
    found = {n.name: module for n in tree.body if isinstance(n, ast.ClassDef)}
    found |= {
        target.id: module
        for n in tree.body
        if isinstance(n, (ast.Assign, ast.AnnAssign))
        for target in (n.targets if isinstance(n, ast.Assign) else [n.target])
        if isinstance(target, ast.Name)
    }
    return found | {
        name.asname or name.name: n.module or ""
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom)
        for name in n.names
    }


def _find_module(module: str, name: str) -> str:
    return "" if name in _MODULES else _list_imports(module)[name]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
