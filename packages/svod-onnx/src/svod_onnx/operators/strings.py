"""Operators on strings, computed on the host, most of them by onnx's reference implementation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from svod_onnx._folding import compute_on_host
from svod_onnx._registry import Known, Value, operator
from svod_onnx._trace import Call
from svod_onnx.operators.microsoft import MICROSOFT

__all__ = [
    "TfIdfVectorizerAttributes",
    "regex_full_match",
    "string_concat",
    "string_normalizer",
    "string_split",
    "tf_idf_vectorizer",
    "tokenizer",
]


_CASES: Final[dict[str, Callable[[str], str]]] = {
    "NONE": str,
    "LOWER": str.lower,
    "UPPER": str.upper,
}


def _compute(node: Call, *operands: Known) -> tuple[Value, ...]:
    """Compute the node, whose attributes the reference implementation reads from its message."""
    # Attributes are declared for validation only; the reference implementation reads them from the
    # node.
    return cast("tuple[Value, ...]", compute_on_host(node.node, operands))


@operator("StringConcat", is_host=True)
def string_concat(node: Call, x: Known, y: Known) -> tuple[Value, ...]:
    """Elementwise concatenation of strings."""
    return _compute(node, x, y)


@operator("StringSplit", is_host=True)
def string_split(
    node: Call, x: Known, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[Value, ...]:
    """Substrings of each element, and their number."""
    del delimiter, maxsplit
    return _compute(node, x)


@operator("StringNormalizer", is_host=True)
def string_normalizer(
    node: Call,
    x: Known,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: Sequence[str] = (),
) -> Value:
    """Strings of a vector or a single row without stop words, in lower or upper case.

    The result is a single empty string if no string remains."""
    # Not by the reference implementation, which removes accents and stop words within a string, and
    # sets the locale of the process. Python's case conversion depends on no locale.
    del locale
    if not (x.ndim == 1 or (x.ndim == 2 and x.shape[0] == 1)):
        raise node.refuse(f"expected strings of shape (n,) or (1, n), got {x.shape}")
    if case_change_action not in _CASES:
        raise node.refuse(
            f"unknown case_change_action {case_change_action!r}; expected one of {', '.join(_CASES)}"
        )
    words = [str(word) for word in x.ravel()]
    change = _CASES[case_change_action]
    if stopwords and is_case_sensitive:
        words = [word for word in words if word not in stopwords]
    elif stopwords:
        lower = {word.lower() for word in stopwords}
        words = [word for word in words if word.lower() not in lower]
    result = np.array([change(word) for word in words] or [""], object)
    return result if x.ndim == 1 else result.reshape(1, -1)


@operator("RegexFullMatch", is_host=True)
def regex_full_match(node: Call, x: Known, *, pattern: str | None = None) -> tuple[Value, ...]:
    """Whether each string matches `pattern` entirely."""
    del pattern
    return _compute(node, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class TfIdfVectorizerAttributes:
    """Attributes of TfIdfVectorizer."""

    max_gram_length: int
    max_skip_count: int
    min_gram_length: int
    mode: str
    ngram_counts: Sequence[int]
    ngram_indexes: Sequence[int]
    pool_int64s: Sequence[int] = ()
    pool_strings: Sequence[str] = ()
    weights: Sequence[float] = ()


@operator("TfIdfVectorizer", is_host=True)
def tf_idf_vectorizer(
    node: Call,
    x: Known,
    *,
    attributes: TfIdfVectorizerAttributes,
) -> tuple[Value, ...]:
    """Counts or weights of the n-grams in each row."""
    return _compute(node, x)


_START, _END = "\x02", "\x03"
"""Tokens at the start and the end of a text."""


@operator("Tokenizer", domain=MICROSOFT, is_host=True)
def tokenizer(
    node: Call,
    x: Known,
    *,
    mark: int,
    mincharnum: int,
    pad_value: str,
    separators: Sequence[str] = (),
    tokenexp: str | None = None,
) -> Value:
    """Tokens of each string along a new last axis.

    Tokens match `tokenexp`, or are separated by matches of `separators`. Shorter tokens than
    `mincharnum` are left out. `mark` adds a token before and after each string's tokens.
    `pad_value` fills the rows."""
    if bool(separators) == bool(tokenexp):
        raise node.refuse("expected one of the attributes 'separators' and 'tokenexp'")
    try:
        patterns = [re.compile(text) for text in separators or [tokenexp or ""]]
    except re.error as error:
        raise node.refuse(f"invalid expression: {error}") from error
    texts = [str(text) for text in x.ravel()]
    if list(separators) == [""]:
        rows = [list(text) for text in texts]
    elif tokenexp:
        rows = [[match.group() for match in patterns[0].finditer(text)] for text in texts]
        rows = [_select_long(tokens, mincharnum) for tokens in rows]
    else:
        rows = [_split(text, patterns, mincharnum) for text in texts]
    if mark and any(rows):
        rows = [[_START, *tokens, _END] for tokens in rows]
    width = max(map(len, rows), default=0)
    result = np.full((len(rows), width), pad_value, object)
    for row, tokens in zip(result, rows, strict=True):
        row[: len(tokens)] = tokens
    return result.reshape(*x.shape, width)


def _select_long(tokens: Sequence[str], mincharnum: int) -> list[str]:
    return [token for token in tokens if len(token) >= max(mincharnum, 1)]


def _split(text: str, patterns: Sequence[re.Pattern[str]], mincharnum: int) -> list[str]:
    """Split at the matches of each pattern in turn."""
    tokens = [text]
    for pattern in patterns:
        # Not `pattern.split`, which also returns what groups match.
        parts: list[str] = []
        for token in tokens:
            start = 0
            for match in pattern.finditer(token):
                parts.append(token[start : match.start()])
                start = match.end()
            parts.append(token[start:])
        tokens = _select_long(parts, mincharnum)
    return tokens
