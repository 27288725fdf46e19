"""Pages of docs/reference: public names by defining module, and the commands.

A page lists names with the first lines of their docstrings, read from the sources without importing
them. Below, mkdocstrings (`:::`) inserts signatures, docstrings and sources.
`tools/check_docstrings.py` checks the docstrings."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
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
    "svod_testing.programs",
    "svod_testing.loop_programs",
)
OPERATIONS = "svod_tensor.ops"
LAYERS = (
    "tensor",
    "nn",
    "onnx",
    "dtype",
    "ir",
    "schedule",
    "device",
    "runtime",
    "codegen",
    "testing",
)
"""Short names of the distributions, those for most users first."""


def reference_pages() -> dict[str, Callable[[], str]]:
    """Return the function that writes each page, by the page's path."""
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
        (
            "Every public name, with its signature, docstring, an example and its source."
            " Anything else is"
        ),
        "private: [versions](../versions.md) explains the difference.",
        "",
        "| distribution | contents |",
        "|---|---|",
    ]
    for layer in LAYERS:
        distribution = _get_distribution(layer)
        lines.append(
            f"| [{distribution.name}]({layer}.md) |"
            f" {_get_summary(distribution, distribution.package)} |"
        )
    lines += [
        "",
        "Tensor operations by theme ([one table of all operations](../operations.md)):",
        "",
        "| theme | contents |",
        "|---|---|",
    ]
    for theme, node in _list_themes().items():
        lines.append(
            f"| [{theme}](operations/{theme}.md) | {_first_sentence(ast.get_docstring(node))} |"
        )
    lines += [
        "",
        "Generated tables:",
        (
            "[commands](commands.md), [environment variables](../environment.md),"
            " [errors](../errors.md), [ops](../ops.md),"
        ),
        (
            "[passes](../pipeline.md), [operators of ONNX](../onnx-operators.md), [names of the"
            " array API standard](../array-api.md),"
        ),
        (
            "[accuracy in each dtype](../accuracy.md), [conventions of"
            " derivatives](../derivatives.md)."
        ),
    ]
    return "\n".join(lines)


def _distribution_page(distribution: Distribution) -> str:
    """Write the page of a distribution: its public modules, and their names by defining module."""
    lines = [f"# {distribution.name}", "", _get_summary(distribution, distribution.package)]
    if distribution.package == "svod_tensor":
        text = (
            "Operations, which are methods of `Tensor` and most of them functions too, are on pages"
            " by theme:"
        )
        lines += ["", f"{text} [the list](index.md)."]
    theme_modules = {f"{OPERATIONS}.{theme}" for theme in _list_themes()}
    shown: set[tuple[str, str]] = set()
    for module in distribution.public_modules:
        homes: dict[str, list[str]] = {}
        for name in distribution.get_public_names(module):
            definition = distribution.find_definition(module, name)
            if (
                definition is not None
                and definition[1] is not None
                and not isinstance(definition[1], ast.Module)
                and (definition[0], name) not in shown
                and definition[0] not in theme_modules
            ):
                shown.add((definition[0], name))
                homes.setdefault(definition[0], []).append(name)
        if homes:
            lines += ["", f"## {module}", "", *_show_module(distribution, module)]
        for home, names in sorted(homes.items()):
            lines += ["", *_show_home(distribution, module, home, names)]
    return "\n".join(lines)


def _show_home(
    distribution: Distribution, module: str, home: str, names: list[str]
) -> Iterator[str]:
    path = distribution.modules[home].relative_to(ROOT)
    if home != module:
        yield f"### {home.removeprefix(distribution.package + '.').lstrip('_')}"
        yield from ("", *_show_module(distribution, home))
    yield from ("", f"Source: [{path}](../../{path})", "", "| name | description |", "|---|---|")
    for name in names:
        definition = distribution.find_definition(module, name)
        text = (
            ast.get_docstring(definition[1])
            if definition and isinstance(definition[1], (ast.FunctionDef, ast.ClassDef))
            else ""
        )
        yield f"| `{name}` | {_first_sentence(text)} |"
    for name in names:
        yield from ("", f"::: {module}.{name}")
        if (module, name) == ("svod_tensor", "Tensor"):
            yield from ("    options:", "      members: [__init__, realize, prepare]")


def _show_module(distribution: Distribution, module: str) -> Iterator[str]:
    """Show the first sentence of a module's docstring, or all of it if it has examples."""
    if ">>>" in (ast.get_docstring(read_tree(distribution.modules[module])) or ""):
        yield from (
            f"::: {module}",
            "    options:",
            "      members: false",
            "      show_root_heading: false",
        )
        yield "      show_root_toc_entry: false"
    else:
        yield _get_summary(distribution, module)


def _theme_page(theme: str) -> str:
    """Write the page of a theme: functions of a module in `svod_tensor.ops`, or methods of its
    class.
    """
    node = _list_themes()[theme]
    methods = list(_iter_operations(node))
    path = _get_distribution("tensor").modules[f"{OPERATIONS}.{theme}"].relative_to(ROOT)
    lines = [f"# Tensor: {theme}", "", _first_sentence(ast.get_docstring(node)), ""]
    lines += [f"Source: [{path}](../../../{path})", "", "| name | description |", "|---|---|"]
    for method in methods:
        also = "".join(f", `{name}`" for name in _get_other_names(method))
        lines.append(f"| `{method.name}`{also} | {_first_sentence(ast.get_docstring(method))} |")
    is_class = isinstance(node, ast.ClassDef)
    lines += [
        "",
        f"::: {OPERATIONS}.{theme}" + (f".{node.name}" if is_class else ""),
        "    options:",
        *([] if is_class else [f"      members: [{', '.join(method.name for method in methods)}]"]),
        "      show_root_heading: false",
        "      show_root_toc_entry: false",
    ]
    return "\n".join(lines)


def _iter_operations(node: ast.ClassDef | ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the public methods of a class, or the registered operations of a module."""
    for statement in iter_statements(node.body):
        if isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_"):
            kinds = {ast.unparse(d).split("(")[0].split(".")[-1] for d in statement.decorator_list}
            is_registered = bool(kinds & {"operation", "static_operation"})
            if (
                is_registered
                if isinstance(node, ast.Module)
                else not kinds & {"overload", "setter"}
            ):
                yield statement


def _get_other_names(operation: ast.FunctionDef) -> list[str]:
    """Return the aliases of a registered operation, as listed in its decorator."""
    keywords = [k for d in operation.decorator_list if isinstance(d, ast.Call) for k in d.keywords]
    return [
        name
        for k in keywords
        if k.arg in ("aliases", "methods")
        for name in ast.literal_eval(k.value)
    ]


@cache
def _list_themes() -> dict[str, ast.ClassDef | ast.Module]:
    """Return the modules of registered operations, and the classes with the other methods of
    `Tensor`, by theme.
    """
    distribution = _get_distribution("tensor")
    table = distribution.modules[f"{OPERATIONS}.core.table"].read_text()
    names = dict.fromkeys(re.findall(r'Member\("\w+", "([\w.]+)"', table))
    themes: dict[str, ast.ClassDef | ast.Module] = {}
    for theme in names:
        module = f"{OPERATIONS}.{theme}"
        if module in distribution.modules:
            classes = [
                n
                for n in read_tree(distribution.modules[module]).body
                if isinstance(n, ast.ClassDef) and not n.name.startswith("_")
            ]
            themes[theme] = max(classes, key=lambda node: len(node.body))
    modules = {
        name: read_tree(path)
        for name, path in distribution.modules.items()
        if name.startswith(OPERATIONS)
    }
    registered = {name: tree for name, tree in modules.items() if any(_iter_operations(tree))}
    return themes | {name.removeprefix(f"{OPERATIONS}."): tree for name, tree in registered.items()}


def _commands_page() -> str:
    """Write the page of all `python -m` commands with their `--help` texts."""
    lines = [
        "# Commands",
        "",
        (
            "Each command is a module for `python -m`. The packages install no scripts under"
            " other names."
        ),
    ]
    # pipeline prints its table, and takes no arguments.
    with_help = [command for command in COMMANDS if command != "svod_schedule.pipeline"]
    with ThreadPoolExecutor() as executor:
        help_texts = dict(zip(with_help, executor.map(_get_help, with_help), strict=True))
    for command in COMMANDS:
        distribution = get_distributions()[command.split(".")[0]]
        lines += [
            "",
            f"## python -m {command}",
            "",
            f"From {distribution.name}. {_get_summary(distribution, command)}",
        ]
        if command in help_texts:
            lines += ["", "```text", help_texts[command], "```"]
    return "\n".join(lines)


def _get_help(command: str) -> str:
    environment = {**os.environ, "COLUMNS": "100"}
    run = [sys.executable, "-m", command, "--help"]
    text = subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout
    # Newer versions of Python write an option's value only after its last name.
    return re.sub(r"(-\w) [A-Z][\w.]*, (--[\w-]+ )", r"\1, \2", text).rstrip()


def _get_distribution(layer: str) -> Distribution:
    return get_distributions()[f"svod_{layer}"]


def _get_summary(distribution: Distribution, module: str) -> str:
    return _first_sentence(ast.get_docstring(read_tree(distribution.modules[module])))


def _first_sentence(text: str | None) -> str:
    """Format the first paragraph of a docstring as a table cell."""
    return re.sub(r"\s+", " ", (text or "").split("\n\n")[0]).replace("|", "\\|")
