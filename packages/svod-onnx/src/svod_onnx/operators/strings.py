"""Operators on strings, computed on the host by onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from svod_onnx._folding import compute_on_host
from svod_onnx._registry import Known, Value, operator
from svod_onnx._trace import Call

__all__ = [
    "TfIdfVectorizerAttributes",
    "regex_full_match",
    "string_concat",
    "string_normalizer",
    "string_split",
    "tf_idf_vectorizer",
]


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
) -> tuple[Value, ...]:
    """Strings without stop words, in lower or upper case."""
    del case_change_action, is_case_sensitive, locale, stopwords
    return _compute(node, x)


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
