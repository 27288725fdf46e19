"""Write the functions of the namespace that are methods too: `python tools/functions.py --write` makes them, `--check` compares.

`svod_tensor/ops/standard.py` names the functions and their parameters. Each of them calls the method of `Tensor` that
`svod_tensor/ops/table.py` gives it, and has that method's types and docstring, with the example as a call of the function.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from svod_tensor import Tensor
from svod_tensor.ops.standard import FUNCTIONS, WRITTEN, iter_functions
from svod_tensor.ops.table import Operation

sys.path.insert(0, str(Path(__file__).parent))
from stubs import iter_imports

__all__ = ["FOLDER", "describe_all", "main"]

FOLDER = Path(__file__).resolve().parent.parent / "packages/svod-tensor/src/svod_tensor/functions"
_WIDTH = 120
_HEAD = '''"""Functions that call the methods of `Tensor` in `svod_tensor.ops.{theme}`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

{imports}

__all__ = [
{names}
]
'''
_PLACES_HEAD = '''"""Which module of svod_tensor has each function of the array API standard."""

# Written by tools/functions.py from svod_tensor/ops/standard.py.

from __future__ import annotations

from typing import Final

__all__ = ["PLACES"]

PLACES: Final = {
'''
_PLACES = {
    "Amounts": "svod_tensor.ops.base", "Axes": "svod_tensor._shapes",
    "DTypeLike": "svod_tensor.ops.base", "IndexItem": "svod_tensor.ops.index_items",
    "Operand": "svod_tensor.ops.base", "SInt": "svod_ir", "TensorBase": "svod_tensor.ops.base",
    **dict.fromkeys(("Numbers", "Padding"), "svod_tensor.ops.window_options"), "PadMode": "svod_tensor.ops.cutting",
    "QuantileMethod": "svod_tensor.ops.quantiles", "ReductionAt": "svod_tensor.ops.reductions_at",
    "ResizingMode": "svod_tensor.ops.resizing",
    **dict.fromkeys(("SamplingMode", "SamplingPadding"), "svod_tensor.ops.sampling"),
    **dict.fromkeys(("UniqueAllResult", "UniqueCountsResult", "UniqueInverseResult"), "svod_tensor.ops.selecting"),
}  # fmt: skip
"""Where the types that stand in annotations come from."""


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
    themes: dict[str, list[tuple[str, Operation]]] = {}
    for name, row in sorted(iter_functions()):
        themes.setdefault(row.theme, []).append((name, row))
    files = {FOLDER / f"{theme}.py": _describe(theme, rows) for theme, rows in themes.items()}
    places = {name: theme for theme, rows in themes.items() for name, _ in rows}
    places |= {name: module for module, names in WRITTEN.items() for name in names}
    lines = [f'    "{name}": "functions.{places[name]}",\n' for name in sorted(places)]
    front = FOLDER.parent / "__init__.py"
    exported = {name: (f"svod_tensor.functions.{place}", name) for name, place in places.items()}
    exported |= {name: (module, own) for name, module, own in iter_imports()}
    return files | {
        FOLDER / "_places.py": _PLACES_HEAD + "".join(lines) + "}\n",
        front: _export(front.read_text(), exported),
    }


def _export(text: str, places: dict[str, tuple[str, str]]) -> str:
    """`svod_tensor/__init__.py` with the functions among its names, in place of those that it has."""
    tree = ast.parse(text)
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    (listed,) = (n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    imports = [n for n in block.body if isinstance(n, ast.ImportFrom)]
    old = [n for n in imports if (n.module or "").startswith(("svod_tensor.functions.", "svod_tensor.ops."))]
    lines = text.splitlines()
    names = set(ast.literal_eval(listed.value)) - {a.asname or a.name for n in old for a in n.names} | set(places)
    whole = textwrap.fill(
        ", ".join(f'"{name}"' for name in sorted(names, key=_exported)), _WIDTH - 10, initial_indent="    ",
        subsequent_indent="    ",
    )  # fmt: skip
    lines[listed.lineno - 1 : listed.end_lineno] = ["__all__ = [", *f"{whole},".splitlines(), "]  # fmt: skip"]
    kept = {n: lines[n.lineno - 1 : n.end_lineno] for n in imports if n not in old}
    written = [(n.module or "", shown) for n, shown in kept.items()]
    written += [(module, list(_import_names(module, places))) for module in {module for module, _ in places.values()}]
    begin, end = block.body[0].lineno - 1, block.body[-1].end_lineno
    lines[begin:end] = [line for _, shown in sorted(written) for line in shown]
    return "\n".join(lines) + "\n"


def _import_names(module: str, places: dict[str, tuple[str, str]]) -> Iterator[str]:
    names = [(own, name) for name, (place, own) in places.items() if place == module]
    names.sort(key=lambda pair: (_natural(pair[0]), _natural(pair[1])))
    shown = [own if own == name else f"{own} as {name}" for own, name in names]
    whole = f"    from {module} import {', '.join(shown)}"
    if len(whole) <= _WIDTH:
        yield whole
    else:
        yield from (f"    from {module} import (", *(f"        {n}," for n in shown), "    )")


def _exported(name: str) -> tuple[int, list[object]]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), _natural(name)


def _describe(theme: str, rows: list[tuple[str, Operation]]) -> str:
    body = "".join(_Function(name, row).text for name, row in rows)
    names = "\n".join(f'    "{name}",' for name, _ in sorted(rows, key=lambda row: _natural(row[0])))
    return _HEAD.format(theme=theme, imports="\n".join(_iter_imports(body)), names=names) + body


def _iter_imports(body: str) -> Iterator[str]:
    def has(name: str) -> bool:
        return re.search(rf"\b{name}\b", re.sub(r'""".*?"""', "", body, flags=re.S)) is not None

    typing = [name for name in ("Literal",) if has(name)]
    if typing_only := [name for name in sorted(_PLACES) if has(name)]:
        typing.insert(0, "TYPE_CHECKING")
    if has("Sequence"):
        yield "from collections.abc import Sequence"
    if typing:
        yield f"from typing import {', '.join(sorted(typing, key=lambda name: (not name.isupper(), name)))}"
    if typing or has("Sequence"):
        yield ""
    yield (
        "from svod_tensor.ops.operands import "
        + ", ".join(name for name in ("first_operand", "to_tensor") if has(name))
    )
    yield "from svod_tensor.ops.argument_names import explained"
    yield "from svod_tensor.tensor import Tensor"
    if typing_only:
        yield ""
        yield "if TYPE_CHECKING:"
        for place in sorted({_PLACES[name] for name in typing_only}):
            yield f"    from {place} import {', '.join(n for n in typing_only if _PLACES[n] == place)}"


def _natural(name: str) -> list[object]:
    """The order in which the linter wants names: numbers in them by their value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


_APART = ("q", "weights", "fweights", "aweights")
"""Operands that do not change the dtype of the first one."""


class _Function:
    """The text of one function."""

    def __init__(self, name: str, row: Operation) -> None:
        self.name = name
        self.method = name if name in (row.name, *row.also) else row.name
        member = inspect.getattr_static(Tensor, self.method)
        self.is_property = isinstance(member, property)
        member = member.fget if isinstance(member, property) else member
        assert inspect.isfunction(member), name
        self.doc = inspect.getdoc(member) or ""
        _, *self.taken = inspect.signature(member).parameters.values()
        self.returns = _to_type(str(inspect.signature(member).return_annotation))
        made = ast.parse(f"lambda {FUNCTIONS[name]}: 0", mode="eval").body
        assert isinstance(made, ast.Lambda)
        self.arguments = made.args
        first, *others = [*self.arguments.posonlyargs, *self.arguments.args]
        self.first = first.arg
        self.renamed = dict(zip([p.name for p in self.taken], [a.arg for a in others], strict=False))
        """A parameter of the method that may be given by its place -> that of the function."""
        self.by_name = {a.arg for a in self.arguments.kwonlyargs}
        unknown = self.by_name - {p.name for p in self.taken}
        assert not unknown, f"Tensor.{self.method} does not take {unknown}, which {name} has"

    @property
    def text(self) -> str:
        return f"\n\n@explained\n{self._head()}\n{self._doc()}\n{self._call()}\n"

    def _head(self) -> str:
        return _wrap(f"def {self.name}(", list(self._parameters()), f") -> {self.returns}:")

    def _parameters(self) -> Iterator[str]:
        places = [*self.arguments.posonlyargs, *self.arguments.args]
        defaults = [None] * (len(places) - len(self.arguments.defaults)) + self.arguments.defaults
        for number, (argument, default) in enumerate(zip(places, defaults, strict=True)):
            if number == len(self.arguments.posonlyargs):
                yield "/"
            yield self._declare(argument.arg, default, "Operand" if not number else self._type_of(argument.arg))
        if not self.arguments.args:
            yield "/"
        if self.arguments.kwonlyargs:
            yield "*"
        for argument, default in zip(self.arguments.kwonlyargs, self.arguments.kw_defaults, strict=True):
            yield self._declare(argument.arg, default, self._type_of(argument.arg))

    def _type_of(self, name: str) -> str:
        renamed = {ours: theirs for theirs, ours in self.renamed.items()}
        (found,) = (p for p in self.taken if p.name == renamed.get(name, name))
        return _to_type(str(found.annotation))

    def _declare(self, name: str, default: ast.expr | None, typed: str) -> str:
        return f"{name}: {typed}" + ("" if default is None else f" = {ast.unparse(default).replace(chr(39), chr(34))}")

    def _call(self) -> str:
        # Numbers have the digits and, beside one tensor, the dtype of the other operands.
        _, *rest = [*self.arguments.posonlyargs, *self.arguments.args, *self.arguments.kwonlyargs]
        others = [a.arg for a in rest if self._promotes(a.arg)]
        owner = f"first_operand({', '.join([self.first, *others])})" if others else f"to_tensor({self.first})"
        given = [
            *self.renamed.values(),
            *(f"{name}={name}" for name in [p.name for p in self.taken] if name in self.by_name),
        ]
        start = f"    return {owner}.{self.method}"
        return start if self.is_property else _wrap(f"{start}(", given, ")")

    def _promotes(self, name: str) -> bool:
        """Whether the dtype of a parameter is promoted with that of the first one."""
        is_operand = self._type_of(name) in ("Operand", "Operand | None") or name in ("x2", "prepend", "append")
        return is_operand and name not in _APART

    def _doc(self) -> str:
        """The docstring of the method, about the arguments of the function."""
        parts = re.split(r"\n\n(?=Args:|Raises:|Returns:|Example:)", self.doc)
        lines: list[str] = []
        for part in parts:
            if part.startswith("Example:"):
                part = self._example(part)
            elif part.startswith("Args:"):
                part = self._args(part)
                part = self._speak(part)
            else:
                part = self._speak(part)
            if part:
                lines += ["", *part.splitlines()]
        lines[1] = f'"""{lines[1]}'
        if len(lines) == 2 and len(lines[1]) + 7 <= _WIDTH:
            return f'    {lines[1]}"""'
        return "\n".join(f"    {line}" if line else "" for line in [*lines[1:], '"""'])

    def _args(self, part: str) -> str:
        entries = re.split(r"\n(?=    \w)", part)[1:]
        known = {*self.renamed, *self.by_name}
        kept = [e for e in entries if re.match(r"    (\w+):", e)[1] in known]  # pyright: ignore[reportOptionalSubscript]
        kept = [re.sub(r"^    (\w+):", lambda m: f"    {self.renamed.get(m[1], m[1])}:", e) for e in kept]
        return "\n".join(["Args:", *kept]) if kept else ""

    def _speak(self, text: str) -> str:
        for theirs, ours in self.renamed.items():
            if theirs != ours:
                text = re.sub(rf"(`[^`\n]*)\b{theirs}\b([^`\n]*`)", rf"\g<1>{ours}\g<2>", text)
        return re.sub(r"\b[Tt]his tensor\b(?! of)", f"`{self.first}`", text)

    def _example(self, part: str) -> str:
        lines = ["Example:", "    >>> import svod_tensor as sv"]
        n_changed = 0
        for statement in re.split(r"^    >>> ", part, flags=re.M)[1:]:
            line, _, output = statement.rstrip("\n").partition("\n")
            calls = _Calls(self)
            changed = ast.unparse(calls.visit(ast.parse(line)))
            n_changed += calls.n_changed
            if not calls.has_more:
                lines += [f"    >>> {changed}", *output.splitlines()]
        assert n_changed, f"no example of Tensor.{self.method} calls it"
        return "\n".join(lines)


class _Calls(ast.NodeTransformer):
    """Calls of a method as calls of its function."""

    def __init__(self, function: _Function) -> None:
        self.function, self.n_changed, self.has_more = function, 0, False
        """The last one: whether a call has an argument that the function lacks."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not self.function.is_property or node.attr != self.function.method:
            return node
        self.n_changed += 1
        name = ast.Attribute(ast.Name("sv", ast.Load()), self.function.name, ast.Load())
        return ast.Call(name, [node.value], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = self.function
        names = {getattr(Tensor, n, None) for n in (function.method,)}
        if not (isinstance(node.func, ast.Attribute) and getattr(Tensor, node.func.attr, 0) in names):
            return node
        self.n_changed += 1
        given = [node.func.value, *node.args]
        taken = [p.kind for p in function.taken if p.name in function.renamed]
        takes_many = taken[:1] == [inspect.Parameter.VAR_POSITIONAL]
        if takes_many and len(node.args) != 1:
            given = [node.func.value, ast.Tuple(node.args, ast.Load())]
        n_places = 1 + len(function.renamed)
        later = [p.name for p in function.taken if p.name not in function.renamed]
        named = [ast.keyword(name, value) for name, value in zip(later, given[n_places:], strict=False)]
        self.has_more |= bool({k.arg for k in [*named, *node.keywords]} - {*function.renamed, *function.by_name})
        if len(given) > n_places:
            # What the method takes by its place, and the function by its name alone.
            given = given[:n_places]
        by_place = {a.arg for a in function.arguments.posonlyargs}
        ours = [ast.keyword(function.renamed.get(k.arg or "", k.arg), k.value) for k in node.keywords]
        keywords = [k for k in ours if k.arg not in by_place]
        placed = [k.value for k in ours if k.arg in by_place]
        name = ast.Attribute(ast.Name("sv", ast.Load()), function.name, ast.Load())
        return ast.Call(name, [*given, *placed], [*named, *keywords])


def _wrap(start: str, given: list[str], end: str) -> str:
    """A call or a signature on one line, with what is in its parentheses on the next, or with a line for each of that."""
    whole = f"{start}{', '.join(given)}{end}"
    if len(whole) <= _WIDTH:
        return whole
    margin = " " * (len(start) - len(start.lstrip()))
    inner = f"{margin}    {', '.join(given)}"
    if len(inner) > _WIDTH:
        inner = "\n".join(f"{margin}    {one}," for one in given)
    return f"{start}\n{inner}\n{margin}{end}"


def _to_type(annotation: str) -> str:
    return re.sub(r"\b(Self|TensorBase)\b", "Tensor", annotation).replace("'", '"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
