"""Tokenizer of one line of text."""

from __future__ import annotations

import json
import re
import struct
from typing import Final, NamedTuple

from svod_ir.errors import ParseError

__all__ = ["Number", "Reader", "Record", "Reference", "Symbol"]

# Of alternatives that match the same text, the first wins: floats come before integers, and signs
# of two characters before signs of one.
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|(?P<name>%\w+)|(?P<text>"(?:[^"\\]|\\.)*")|hex"(?P<hex>[0-9a-f]*)"|(?P<nan>nan:[0-9a-f]{16})
    |(?P<float>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)(?!\w))|(?P<int>-?\d+(?!\w))|(?P<word>[A-Za-z_]\w*)
    |(?P<sign>//|<<|>>|<=|==|!=|\*\*|[=,:()\[\]+\-*/%<&|^~]))""",
    re.VERBOSE,
)


_OPENING: Final = ("[", "(")


class Symbol(NamedTuple):
    """A name that is not a keyword."""

    name: str


class Record(NamedTuple):
    """A name with values in parentheses."""

    name: str
    fields: tuple[object, ...]


class Reference(NamedTuple):
    """The name of a node."""

    name: str


class Number(NamedTuple):
    """A number or a truth value where a node is expected."""

    value: bool | int | float

    def __str__(self) -> str:
        return str(self.value).lower()


class Reader:
    """The tokens of one line."""

    def __init__(self, number: int, line: str) -> None:
        self.number, self.line = number, line
        self.tokens: list[tuple[str, str]] = []
        self.position = 0
        offset, end = 0, len(line.rstrip())
        while offset < end:
            match = _TOKEN.match(line, offset)
            if match is None or match.lastgroup is None:
                raise self.error(f"cannot read {line[offset:].strip()[:20]!r}")
            if match.lastgroup != "comment":
                # `%0[1]` is a location and `ADD %0 [1]` an arg: a bracket without a space before it
                # is another token.
                touches = match[0] in _OPENING and match[0] == self._opening()
                self.tokens.append(
                    ("touch" if touches else match.lastgroup, match[match.lastgroup])
                )
            offset = match.end()

    def _opening(self) -> str:
        """The bracket that may directly follow the last token: of indices, or of a function's
        operands.
        """
        kind, text = self.tokens[-1] if self.tokens else ("end", "")
        return "(" if kind == "word" else "[" if kind == "name" or text == ")" else ""

    def error(self, problem: str, hint: str | None = None) -> ParseError:
        return ParseError(line=self.number, text=self.line, problem=problem, hint=hint)

    def is_done(self) -> bool:
        return self.position == len(self.tokens)

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else ("end", "the end of the line")

    def take(self, kind: str) -> str:
        token_kind, text = self.peek()
        if token_kind != kind:
            meaning = {
                "name": "a node such as %0",
                "word": "an op or a dtype",
                "operand": "a node or a number",
                "int": "a number",
            }[kind]
            raise self.error(f"expected {meaning}, found {text!r}")
        self.position += 1
        return text

    def accept(self, text: str, kind: str = "sign") -> bool:
        if self.peek() == (kind, text):
            self.position += 1
            return True
        return False

    def accept_number(self) -> Number | None:
        kind, text = self.peek()
        if kind not in ("int", "float", "nan") and text not in ("true", "false"):
            return None
        value = self.read_value()
        assert isinstance(value, (bool, int, float))
        return Number(value)

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise self.error(f"expected {sign!r}, found {self.peek()[1]!r}")

    def take_names(self) -> list[str]:
        """Read comma-separated names up to the brackets or the end of the line; empty if there are
        other tokens.
        """
        names: list[str] = []
        # Without `peek`: most lines of a printed graph are read here.
        index, tokens = self.position, self.tokens
        while index < len(tokens) and tokens[index][0] == "name":
            names.append(tokens[index][1])
            index += 1
            if index == len(tokens) or tokens[index] == ("sign", "["):
                self.position = index
                return names
            if tokens[index] != ("sign", ","):
                break
            index += 1
        return []

    def read_values(self, closing: str) -> tuple[object, ...]:
        """Read values up to the closing sign; a trailing comma is allowed."""
        values: list[object] = []
        while not self.accept(closing):
            values.append(self.read_value())
            if not self.accept(","):
                self.expect(closing)
                break
        return tuple(values)

    def read_value(self) -> object:
        if self.accept("("):
            return self.read_values(")")
        kind, text = self.peek()
        self.position += 1
        match kind:
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "nan":
                # The bits of a NaN with a payload, which no decimal text denotes.
                return struct.unpack(">d", bytes.fromhex(text[4:]))[0]
            case "text":
                return self._read_text(text)
            case "hex":
                if len(text) % 2:
                    raise self.error("invalid bytes literal: expected two hex digits for each byte")
                return bytes.fromhex(text)
            # A node's name; the reader knows no nodes, so the caller resolves it.
            case "name":
                return Reference(text)
            case "word" if text in _WORDS:
                return _WORDS[text]
            case "word":
                return (
                    Record(text, self.read_values(")"))
                    if self.accept("(", kind="touch")
                    else Symbol(text)
                )
            case _:
                raise self.error(f"expected a value, found {text!r}")

    def _read_text(self, text: str) -> str:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self.error(f"invalid string literal {text}") from error


_WORDS: Final = {"true": True, "false": False, "none": None}
