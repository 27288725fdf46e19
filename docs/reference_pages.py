"""The pages of docs/reference: every public name, grouped by the module that defines it, and the commands.

A page lists names with the first lines of their docstrings, read from the sources without importing them, and asks
mkdocstrings (`:::`) to show signatures, docstrings and sources below. `tools/check_docstrings.py` looks at what these say.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from surface import Distribution, get_distributions, iter_statements, read_tree  # noqa: E402

__all__ = ["reference_pages"]

COMMANDS = (
    "svod_tensor.explain",
    "svod_tensor.tune",
    "svod_onnx",
    "svod_device",
    "svod_schedule.pipeline",
    "svod_schedule.prove",
    "svod_tensor.testing.programs",
    "svod_tensor.testing.loop_programs",
)
OPERATIONS = "svod_tensor.ops"
LAYERS = ("tensor", "nn", "onnx", "dtype", "ir", "schedule", "device", "runtime", "codegen")
"""What most people use first."""


def reference_pages() -> dict[str, Callable[[], str]]:
    """What writes each page, by the page's path."""
    pages: dict[str, Callable[[], str]] = {"docs/reference/index.md": _index_page}
    for layer in LAYERS:
        pages[f"docs/reference/{layer}.md"] = partial(_distribution_page, _get_distribution(layer))
    for theme in _list_themes():
        pages[f"docs/reference/operations/{theme}.md"] = partial(_theme_page, theme)
    return pages | {"docs/reference/commands.md": _commands_page}


def _index_page() -> str:
    lines = [
        "# Reference",
        "",
        "Every public name, with its signature, what its docstring says of it, an example, and its source. What is not here is",
        "private: [what a version promises](../versions.md) says what that means.",
        "",
        "| distribution | what |",
        "|---|---|",
    ]
    for layer in LAYERS:
        distribution = _get_distribution(layer)
        lines.append(f"| [{distribution.name}]({layer}.md) | {_get_summary(distribution, distribution.package)} |")
    lines += [
        "",
        "What a tensor does, by theme ([one table of all operations](../operations.md)):",
        "",
        "| theme | what |",
        "|---|---|",
    ]
    for theme, node in _list_themes().items():
        lines.append(f"| [{theme}](operations/{theme}.md) | {_first_sentence(ast.get_docstring(node))} |")
    lines += [
        "",
        "Generated tables:",
        "[commands](commands.md), [environment variables](../environment.md), [errors](../errors.md), [ops](../ops.md),",
        "[passes](../pipeline.md), [operators of ONNX](../onnx-operators.md), [names of the array API standard](../array-api.md),",
        "[accuracy in each dtype](../accuracy.md), [conventions of derivatives](../derivatives.md).",
    ]
    return "\n".join(lines)


def _distribution_page(distribution: Distribution) -> str:
    """The public modules of a distribution, and in each the names by the module that defines them."""
    lines = [f"# {distribution.name}", "", _get_summary(distribution, distribution.package)]
    if distribution.package == "svod_tensor":
        lines += ["", "The methods of `Tensor` are on pages by theme: [the list](index.md)."]
    shown: set[tuple[str, str]] = set()
    for module in distribution.public_modules:
        homes: dict[str, list[str]] = {}
        for name in distribution.get_public_names(module):
            found = distribution.find_definition(module, name)
            if (
                found is not None
                and found[1] is not None
                and not isinstance(found[1], ast.Module)
                and (found[0], name) not in shown
            ):
                shown.add((found[0], name))
                homes.setdefault(found[0], []).append(name)
        if homes:
            lines += ["", f"## {module}", "", *_show_module(distribution, module)]
        for home, names in sorted(homes.items()):
            lines += ["", *_show_home(distribution, module, home, names)]
    return "\n".join(lines)


def _show_home(distribution: Distribution, module: str, home: str, names: list[str]) -> Iterator[str]:
    path = distribution.modules[home].relative_to(ROOT)
    if home != module:
        yield f"### {home.removeprefix(distribution.package + '.').lstrip('_')}"
        yield from ("", *_show_module(distribution, home))
    yield from ("", f"Source: [{path}](../../{path})", "", "| name | what |", "|---|---|")
    for name in names:
        found = distribution.find_definition(module, name)
        text = ast.get_docstring(found[1]) if found and isinstance(found[1], (ast.FunctionDef, ast.ClassDef)) else ""
        yield f"| `{name}` | {_first_sentence(text)} |"
    for name in names:
        yield from ("", f"::: {module}.{name}")
        if (module, name) == ("svod_tensor", "Tensor"):
            yield from ("    options:", "      members: [__init__, realize, prepare]")


def _show_module(distribution: Distribution, module: str) -> Iterator[str]:
    """The first sentence of a module's docstring, or all of it where it has examples."""
    if ">>>" in (ast.get_docstring(read_tree(distribution.modules[module])) or ""):
        yield from (f"::: {module}", "    options:", "      members: false", "      show_root_heading: false")
        yield "      show_root_toc_entry: false"
    else:
        yield _get_summary(distribution, module)


def _theme_page(theme: str) -> str:
    """The methods of a theme, which is a class of `svod_tensor.ops`."""
    node = _list_themes()[theme]
    path = _get_distribution("tensor").modules[f"{OPERATIONS}.{theme}"].relative_to(ROOT)
    lines = [f"# Tensor: {theme}", "", _first_sentence(ast.get_docstring(node)), ""]
    lines += [f"Source: [{path}](../../../{path})", "", "| name | what |", "|---|---|"]
    for method in iter_statements(node.body):
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            kinds = {ast.unparse(d).split(".")[-1] for d in method.decorator_list}
            if not kinds & {"overload", "setter"}:
                lines.append(f"| `{method.name}` | {_first_sentence(ast.get_docstring(method))} |")
    lines += [
        "",
        f"::: {OPERATIONS}.{theme}.{node.name}",
        "    options:",
        "      show_root_heading: false",
        "      show_root_toc_entry: false",
    ]
    return "\n".join(lines)


def _list_themes() -> dict[str, ast.ClassDef]:
    """The classes that `Tensor` is made of, by their modules, from the table of operations."""
    distribution = _get_distribution("tensor")
    table = distribution.modules[f"{OPERATIONS}.table"].read_text()
    names = dict.fromkeys(re.findall(r'Operation\("\w+", "(\w+)"', table))
    found: dict[str, ast.ClassDef] = {}
    for theme in names:
        module = f"{OPERATIONS}.{theme}"
        if module in distribution.modules:
            classes = [
                n
                for n in read_tree(distribution.modules[module]).body
                if isinstance(n, ast.ClassDef) and not n.name.startswith("_")
            ]
            found[theme] = max(classes, key=lambda node: len(node.body))
    return found


def _commands_page() -> str:
    """Every `python -m` command, with what `--help` says."""
    lines = [
        "# Commands",
        "",
        "Each is a module that Python runs; a package that brings one brings no script of another name.",
    ]
    for command in COMMANDS:
        distribution = get_distributions()[command.split(".")[0]]
        lines += ["", f"## python -m {command}", "", f"From {distribution.name}. {_get_summary(distribution, command)}"]
        if command != "svod_schedule.pipeline":  # prints its table, and takes no arguments
            lines += ["", "```text", _get_help(command), "```"]
    return "\n".join(lines)


def _get_help(command: str) -> str:
    environment = {**os.environ, "COLUMNS": "100"}
    run = [sys.executable, "-m", command, "--help"]
    text = subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout
    # Newer versions of Python write the value behind the last name of an option alone.
    return re.sub(r"(-\w) [A-Z][\w.]*, (--[\w-]+ )", r"\1, \2", text).rstrip()


def _get_distribution(layer: str) -> Distribution:
    return get_distributions()[f"svod_{layer}"]


def _get_summary(distribution: Distribution, module: str) -> str:
    return _first_sentence(ast.get_docstring(read_tree(distribution.modules[module])))


def _first_sentence(text: str | None) -> str:
    """The first paragraph of a docstring as a cell of a table."""
    return re.sub(r"\s+", " ", (text or "").split("\n\n")[0]).replace("|", "\\|")
