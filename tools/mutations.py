"""Small changes to a Python file that a test should notice: what `mutate.py` tries, one at a time.

Every change is made to the text, so that what survives is shown as the line that it is. Left out
are changes that no test has to notice: docstrings, messages of errors, annotations, decorators,
`__all__`, logs and `__repr__`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

__all__ = ["Mutant", "iter_mutants"]

_Operator = TypeVar("_Operator", ast.cmpop, ast.operator)

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_BOUND: Final = (
    ast.Attribute,
    ast.Call,
    ast.Constant,
    ast.List,
    ast.Name,
    ast.Set,
    ast.Subscript,
    ast.Tuple,
)
"""What needs no parentheses, wherever it stands."""
_TYPES: Final = {"defaultdict", "dict", "frozenset", "list", "set", "tuple"}
_UNTESTED: Final = {"__repr__", "__all__"}
_LOGS: Final = {"log", "_log", "logger"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place in a file.

    Attributes:
        line: the first line of the statement.
        lines: those that run when the statement does; without the body, where it has one.
        what: the kind of change.
        source: the whole changed file.
    """

    line: int
    lines: range
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class _Change:
    """`node` is replaced by `text`, an expression or a statement."""

    node: ast.expr | ast.stmt | list[ast.stmt]
    what: str
    text: str


def iter_mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its lines; none is equal to the file or to another
    one.
    """
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    seen = {ast.dump(ast.parse(source))}
    found: list[Mutant] = []
    for statement in _iter_statements(ast.parse(source).body):
        for change in _iter_changes(statement):
            text = _apply(lines, change)
            dump = _find_dump(text)
            if dump is not None and dump not in seen:
                seen.add(dump)
                found.append(
                    Mutant(
                        statement.lineno,
                        _lines_of(_statement_at(change) or statement),
                        change.what,
                        text,
                    )
                )
    yield from sorted(found, key=lambda mutant: mutant.line)


def _iter_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements that are worth changing, with those inside them."""
    for statement in body:
        if _is_untested(statement):
            continue
        yield statement
        for inner in _bodies_of(statement):
            yield from _iter_statements(inner)


def _is_untested(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]) if (
            name in _UNTESTED
        ):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case (
            ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom() | ast.Pass()
        ):
            return True
        case ast.Expr(value=ast.Constant()) | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name in _LOGS:
            return True
        case _:
            return False


def _bodies_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    bodies = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    inner = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    return [body for body in (*bodies, *(part.body for part in inner)) if body]


def _statement_at(change: _Change) -> ast.stmt | None:
    """The statement in whose place the change is, if it is none within a statement."""
    node = change.node[0] if isinstance(change.node, list) else change.node
    return node if isinstance(node, ast.stmt) else None


def _lines_of(statement: ast.stmt) -> range:
    bodies = _bodies_of(statement)
    end = statement.end_lineno or statement.lineno
    return range(
        statement.lineno, max(statement.lineno, bodies[0][0].lineno - 1 if bodies else end) + 1
    )


def _iter_changes(statement: ast.stmt) -> Iterator[_Change]:
    yield from _iter_statement_changes(statement)
    if not isinstance(statement, ast.Raise):
        for expression in _expressions_of(statement):
            yield from _iter_expression_changes(expression)


def _iter_statement_changes(statement: ast.stmt) -> Iterator[_Change]:
    match statement:
        case ast.FunctionDef(body=body) if len(body) > 1 or not isinstance(
            body[0], ast.Expr | ast.Return | ast.Pass
        ):
            rest = (
                body[1:]
                if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
                else body
            )
            if rest:
                yield _Change(rest, "early return", "return None")
        case ast.If(test=test) | ast.While(test=test):
            yield _Change(test, "branch removed", "False")
            if isinstance(statement, ast.If):
                yield _Change(test, "branch always taken", "True")
        case ast.Match(cases=cases):
            yield from (_Change(case.body, "branch removed", "pass") for case in cases)
        case ast.Try(handlers=handlers):
            yield from (_Change(handler.body, "branch removed", "raise") for handler in handlers)
        case (
            ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break()
        ):
            yield _Change(statement, "statement removed", "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield _Change(statement, "statement removed", "pass")
        case _:
            return


def _expressions_of(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that are a statement's own, but for annotations and decorators."""
    match statement:
        case ast.FunctionDef(args=arguments):
            yield from (e for e in (*arguments.defaults, *arguments.kw_defaults) if e is not None)
        case ast.ClassDef():
            return
        case ast.AnnAssign(value=value):
            if value is not None:
                yield value
        case ast.Match(subject=subject, cases=cases):
            yield subject
            yield from (case.guard for case in cases if case.guard is not None)
        case ast.With(items=items):
            yield from (item.context_expr for item in items)
        case _:
            yield from (
                child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)
            )


def _iter_expression_changes(expression: ast.expr) -> Iterator[_Change]:
    for node in _walk(expression):
        match node:
            case ast.Compare(ops=operators):
                yield from _iter_swaps(
                    node, operators, _COMPARISONS, "comparison swapped", _with_comparison
                )
            case ast.BinOp(op=operator):
                yield from _iter_swaps(
                    node, [operator], _OPERATORS, "operator swapped", _with_operator
                )
            case ast.BoolOp(op=operator, values=values):
                other = ast.Or() if isinstance(operator, ast.And) else ast.And()
                yield _change(node, "and/or swapped", ast.BoolOp(other, values))
                for index in range(len(values)):
                    rest = values[:index] + values[index + 1 :]
                    yield _change(
                        node,
                        "condition removed",
                        ast.BoolOp(operator, rest) if len(rest) > 1 else rest[0],
                    )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield _change(node, "not removed", operand)
            case ast.IfExp(body=body, orelse=otherwise):
                yield _change(node, "branch removed", otherwise)
                yield _change(node, "branch always taken", body)
            case ast.Constant(value=bool(value)):
                yield _Change(node, "constant changed", str(not value))
            case ast.Constant(value=int(value) | float(value)):
                yield _Change(node, "constant changed", repr(value + 1))
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements) if (
                len(elements) > 1
            ):
                yield from _iter_removals(node, elements)
            case ast.Call():
                yield from _iter_call_changes(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                for test in (test for generator in node.generators for test in generator.ifs):
                    yield _Change(test, "filter removed", "True")
            case _:
                pass


def _walk(expression: ast.expr) -> Iterator[ast.expr]:
    """The expressions in one, but for those in a text or a type, and the `strict` of zip, which
    makes a bug an error.
    """
    stack: list[ast.AST] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.keyword) and node.arg == "strict"
        ):
            continue
        if isinstance(node, ast.expr):
            yield node
        is_type = (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in _TYPES
        )
        stack.extend([] if is_type else ast.iter_child_nodes(node))


def _iter_swaps(
    node: ast.expr,
    operators: list[_Operator],
    table: dict[type[_Operator], type[_Operator]],
    what: str,
    replace: Callable[[ast.expr, int, _Operator], ast.expr],
) -> Iterator[_Change]:
    for index, operator in enumerate(operators):
        if (other := table.get(type(operator))) is not None:
            yield _change(node, what, replace(node, index, other()))


def _with_comparison(node: ast.expr, index: int, operator: ast.cmpop) -> ast.expr:
    assert isinstance(node, ast.Compare)
    return ast.Compare(
        node.left, [*node.ops[:index], operator, *node.ops[index + 1 :]], node.comparators
    )


def _with_operator(node: ast.expr, _index: int, operator: ast.operator) -> ast.expr:
    assert isinstance(node, ast.BinOp)
    return ast.BinOp(node.left, operator, node.right)


def _iter_removals(
    node: ast.Tuple | ast.List | ast.Set, elements: list[ast.expr]
) -> Iterator[_Change]:
    """One element less: of a key, that two things are no longer told apart."""
    if not isinstance(node, ast.Set) and not isinstance(node.ctx, ast.Load):
        return
    for index in range(len(elements)):
        rest = elements[:index] + elements[index + 1 :]
        shorter = ast.Set(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())
        yield _change(node, "element removed", shorter)


def _iter_call_changes(node: ast.Call) -> Iterator[_Change]:
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        yield _Change(node.func, "function swapped", _FUNCTIONS[node.func.id])
    for index, keyword in enumerate(node.keywords):
        if keyword.arg == "strict":
            continue
        rest = node.keywords[:index] + node.keywords[index + 1 :]
        yield _change(node, "argument removed", ast.Call(node.func, node.args, rest))


def _change(node: ast.expr, what: str, new: ast.expr) -> _Change:
    text = ast.unparse(ast.fix_missing_locations(new))
    return _Change(node, what, text if isinstance(new, _BOUND) else f"({text})")


def _apply(lines: list[bytes], change: _Change) -> str:
    """The whole file with the change."""
    nodes = change.node if isinstance(change.node, list) else [change.node]
    first, last = nodes[0], nodes[-1]
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    after = lines[last.end_lineno - 1][last.end_col_offset :] + b"".join(lines[last.end_lineno :])
    return (before + change.text.encode() + after).decode()


def _find_dump(source: str) -> str | None:
    """The syntax tree as text, None where the text is no Python."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None
