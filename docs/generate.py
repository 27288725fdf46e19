"""Write the generated pages of docs/, or list the stale pages with `--check`.

python docs/generate.py            # write
python docs/generate.py --check    # exit status 1 if a page differs from the sources
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from journey import journey_page
from reference_pages import reference_pages

if TYPE_CHECKING:
    from svod_onnx._registry import Operator

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (
    "dtype",
    "ir",
    "schedule",
    "device",
    "runtime",
    "codegen",
    "tensor",
    "nn",
    "onnx",
    "testing",
)
VARIABLE = re.compile(r"((?:SVOD|BEAM)_[A-Z0-9_<>]+)(?:=\w+)?")
CONTRACT_PARTS = {
    "R": "Realization",
    "S": "Schedule",
    "E": "Execution",
    "O": "Optimizer and lowering",
    "D": "Devices",
    "M": "Memory planner",
    "G": "Derivatives",
    "N": "Networks",
    "P": "Packaging",
}
NOTICE = "<!-- Written by docs/generate.py; change the sources instead. -->\n"


def ops_page() -> str:
    """Write the table of ops, grouped as they are declared."""
    from svod_ir import ops

    lines = [
        "# Ops",
        "",
        (
            f"The {len(ops.TABLE)} ops of the IR, from `svod_ir.ops.TABLE`. `?` marks an optional"
            " operand, `*` any number of them."
        ),
        "",
        "| op | operands | arg | dtype | stages |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{op.name}` | {_cell(row.operands)} | {_cell(row.arg_text)} | {_cell(row.dtype)} |"
        f" {row.stages} |"
        for op in ops.Op
        if (row := ops.TABLE.get(op)) is not None
    ]
    lines += ["", "The stages:", ""]
    lines += [f"- **{stage}**" for stage in ops.STAGES]
    return "\n".join(lines)


def operations_page() -> str:
    """Write the tables of public names of `Tensor` by theme."""
    from svod_tensor import Tensor
    from svod_tensor.ops.core.table import TABLE
    from svod_tensor.ops.core.themes import THEMES

    lines = [
        "# Operations",
        "",
        "All operations of `Tensor`; each section is a module of `svod_tensor/ops/`.",
        (
            "`help(Tensor.softmax)` has details. The last column is the name in the array API"
            " standard (2025.12)."
        ),
    ]
    themes = list(dict.fromkeys(row.theme for row in TABLE))
    owners: dict[str, object] = {_get_theme(owner.__module__): owner for owner in Tensor.__mro__}
    owners |= {_get_theme(module.__name__): module for module in THEMES}
    for theme in themes:
        lines += [
            "",
            f"## {theme}",
            "",
            _first_line(owners[theme].__doc__),
            "",
            "| call | does | standard |",
            "|---|---|---|",
        ]
        for row in TABLE:
            if row.theme == theme:
                value = inspect.getattr_static(Tensor, row.name)
                also = f"; also {', '.join(f'`{name}`' for name in row.also)}" if row.also else ""
                standard = f"`{row.standard}`" if row.standard else ""
                lines.append(
                    f"| `{_call(row.name, value)}`{also} | {_cell(_first_line(value.__doc__))} |"
                    f" {standard} |"
                )
    return "\n".join(lines)


def _get_theme(module: str) -> str:
    return module.removeprefix("svod_tensor.").removeprefix("ops.")


def _call(name: str, value: object) -> str:
    """Format a call of a method: its arguments with defaults, without types."""
    if not callable(getattr(value, "__func__", value)):
        return f"x.{name}"
    owner = "Tensor" if isinstance(value, (classmethod, staticmethod)) else "x"
    parameters = list(inspect.signature(getattr(value, "__func__", value)).parameters.values())
    # `x.concat(y)` has `x` among its arrays; other methods have the tensor, or its class, as a
    # separate first parameter, which the call does not show.
    if (
        not isinstance(value, staticmethod)
        and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL
    ):
        del parameters[0]
    shown = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return f"{owner}.{name}{inspect.Signature(shown)}"


def pipeline_page() -> str:
    """Write the table of passes, one section for each pipeline."""
    from svod_schedule.pipeline import PIPELINES

    lines = [
        "# Passes",
        "",
        (
            "Every pass of the compiler, in execution order, from the table in"
            " `svod_schedule/pipeline.py`."
        ),
        (
            "`stage` is the specification that the graph satisfies afterwards (see"
            " [ops.md](ops.md)); `after` names passes that must"
        ),
        "come earlier. `SVOD_DUMP=<pipeline>:<pass>` prints the graph after a pass.",
    ]
    for name, passes in PIPELINES.items():
        lines += [
            "",
            f"## {name}",
            "",
            "| # | pass | does | stage | after |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {index} | `{row.name}` | {_cell(row.does)} | {row.stage} | {', '.join(row.after)} |"
            for index, row in enumerate(passes, 1)
        ]
    return "\n".join(lines)


def errors_page() -> str:
    """Write the page of error classes: meaning, base classes and message of each."""
    lines = [
        "# Errors",
        "",
        (
            "Every exception derives from `svod_dtype.SvodError`: the caller can"
            " fix a `UserError`; an `InternalError` is"
        ),
        (
            "a bug in svod or in a plugin. The values in a message are fields of the exception, and"
            " each class also derives"
        ),
        "from the builtin that a Python user would catch.",
    ]
    for layer in LAYERS:
        path = ROOT / f"packages/svod-{layer}/src/svod_{layer}/errors.py"
        if not path.exists():
            continue
        lines += ["", f"## svod_{layer}"]
        for error in _iter_errors(path):
            lines += [
                "",
                f"### {error.name}",
                "",
                f"`{error.name}({', '.join(error.bases)})`. {error.summary}",
            ]
            lines += ["", *(f"    {line}" for line in error.message)] if error.message else []
    return "\n".join(lines)


def onnx_operators_page() -> str:
    """Operators of ONNX that svod-onnx supports, by domain, with the functions that implement their versions."""
    from svod_onnx import _registry

    lines = [
        "# Operators of svod-onnx",
        "",
        "A function implements the operator from the listed version up to the next listed one. An operator on the *host* runs in",
        "numpy between plans, since its result has strings or a data-dependent shape; all other operators become kernels. An",
        "operator that is not listed, but has a function body in the standard, runs as its body: SwiGLU, LinearAttention,",
        "CausalConvWithState and FlexAttention do. Loading a model that needs any other operator raises an",
        "`UnsupportedOperatorsError`, which lists it.",
    ]
    rows: dict[str, dict[str, list[Operator]]] = {}
    for row in _registry.iter_operators():
        rows.setdefault(row.domain, {}).setdefault(row.name, []).append(row)
    for domain, operators in sorted(rows.items()):
        lines += [
            "",
            f"## {domain or 'ai.onnx'}",
            "",
            "| operator | since version | computed by |",
            "|---|---|---|",
        ]
        for name, versions in sorted(operators.items()):
            lines += [f"| {name} | {row.since} | {_name_operator(row)} |" for row in versions]
    return "\n".join(lines)


def _name_operator(row: Operator) -> str:
    function = row.function or row.host
    assert function is not None
    name = f"`{function.__module__.rpartition('.')[2]}.{function.__name__}`"
    return name if row.function is not None else f"{name}, on the host"


def environment_page() -> str:
    """Write the tables of environment variables, from the option classes that read them."""
    lines = [
        "# Environment variables",
        "",
        (
            "Each distribution reads the environment in one module, `options.py`. A field of its"
            " options class that the caller sets"
        ),
        "overrides the variable.",
    ]
    for layer in LAYERS:
        path = ROOT / f"packages/svod-{layer}/src/svod_{layer}/options.py"
        if not path.exists():
            continue
        rows = list(_iter_variables(path))
        if rows:
            lines += [
                "",
                f"## svod_{layer}",
                "",
                "| variable | field | default | meaning |",
                "|---|---|---|---|",
            ]
            lines += [
                f"| `{row.variable}` | {_code(row.field)} | {row.default} | {_cell(row.meaning)} |"
                for row in rows
            ]
    return "\n".join(lines)


def contract_page() -> str:
    """Write the tables of promised behaviour with the tests that show it."""
    lines = [
        "# Behaviour",
        "",
        (
            "Behaviour of svod, with the tests that show each row, from"
            " `tests/contract.toml`. A check in"
        ),
        (
            "`tests/test_architecture.py` fails if a row has no test or lists a test that does not"
            " exist."
        ),
    ]
    rows = tomllib.loads((ROOT / "tests/contract.toml").read_text())
    for letter, title in CONTRACT_PARTS.items():
        lines += ["", f"## {title}", "", "| row | behaviour | shown by |", "|---|---|---|"]
        for name, row in rows.items():
            if name[0] == letter:
                shown = [f"`{test}`" for test in row["tests"]]
                shown += [f"**open**: {row['open']}"] if "open" in row else []
                lines.append(f"| {name} | {_cell(row['does'])} | {'<br>'.join(shown)} |")
    return "\n".join(lines)


class ErrorEntry(NamedTuple):
    """Exception class; `message` has one line for the headline, each note and the hint."""

    name: str
    bases: tuple[str, ...]
    summary: str
    message: tuple[str, ...]


class VariableEntry(NamedTuple):
    """Environment variable and the option that it sets."""

    variable: str
    field: str
    default: str
    meaning: str


def _iter_errors(path: Path) -> Iterator[ErrorEntry]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = tuple(ast.unparse(base) for base in node.bases)
            yield ErrorEntry(node.name, bases, _first_line(ast.get_docstring(node)), _message(node))


def _message(node: ast.ClassDef) -> tuple[str, ...]:
    """Return the message that the constructor passes to its base class, with values in braces."""
    for call in ast.walk(node):
        is_init = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "__init__"
        )
        if not is_init or any(
            keyword.arg == "notes" and _is_name(keyword.value, "notes") for keyword in call.keywords
        ):
            continue
        positional = [argument for argument in call.args if not _is_name(argument, "self")]
        lines = [_template(argument) for argument in positional[:1]]
        for keyword in call.keywords:
            if keyword.arg == "notes" and isinstance(keyword.value, ast.Tuple):
                lines += [f"  note: {_template(note)}" for note in keyword.value.elts]
            elif keyword.arg == "hint":
                lines.append(f"  hint: {_template(keyword.value)}")
        return tuple(lines)
    return ()


def _template(node: ast.expr) -> str:
    """Format an f-string as its source text, with expressions in braces."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_template(value) for value in values)
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
        case _:
            return "{" + ast.unparse(node) + "}"


def _iter_variables(path: Path) -> Iterator[VariableEntry]:
    """Yield the variables in the `Attributes` sections of the option classes, in order.

    Raises:
        SystemExit: if the module reads a variable that no attribute's text mentions.
    """
    tree = ast.parse(path.read_text())
    rows: list[VariableEntry] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            defaults = {
                field.target.id: f"`{ast.unparse(field.value)}`"
                for field in node.body
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(field.value, ast.Constant)
            }
            for field, text in _iter_attributes(ast.get_docstring(node) or ""):
                meaning, names = _split_variables(text)
                rows += [
                    VariableEntry(name, field, defaults.get(field, ""), meaning) for name in names
                ]
        elif isinstance(node, ast.FunctionDef):
            meaning, names = _split_variables(_first_line(ast.get_docstring(node)))
            rows += [VariableEntry(name, "", "", meaning) for name in names]
    documented = {row.variable for row in rows}
    read = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and VARIABLE.fullmatch(node.value)
    }
    if missing := read - documented:
        raise SystemExit(f"{path}: no attribute's text mentions {', '.join(sorted(missing))}")
    yield from rows


def _iter_attributes(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the (name, text) pairs of the section `Attributes:`."""
    _, _, section = docstring.partition("Attributes:\n")
    for match in re.finditer(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE):
        yield match[1], " ".join(match[2].split())


def _split_variables(text: str) -> tuple[str, list[str]]:
    """Split a text into the text without its backquoted variables, and the variables."""
    names: list[str] = []
    for quoted in re.findall(r"`([^`]+)`", text):
        if match := VARIABLE.fullmatch(quoted):
            names.append(match[1])
            text = re.sub(rf" ?\(`{re.escape(quoted)}`\)|`{re.escape(quoted)}`[,;] ?", "", text)
    return text, names


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _first_line(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].split())


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    "docs/journey.md": journey_page,
    "docs/pipeline.md": pipeline_page,
    "docs/ops.md": ops_page,
    "docs/operations.md": operations_page,
    "docs/errors.md": errors_page,
    "docs/onnx-operators.md": onnx_operators_page,
    "docs/environment.md": environment_page,
    "tests/contract.md": contract_page,
    **reference_pages(),
}


def main(arguments: list[str]) -> int:
    stale: list[str] = []
    for name, write in PAGES.items():
        path = ROOT / name
        text = NOTICE + "\n" + write().rstrip() + "\n"
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in arguments:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    verb = "stale" if "--check" in arguments else "written"
    print(f"{len(PAGES)} pages, {len(stale)} {verb}: {', '.join(stale) or '-'}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
