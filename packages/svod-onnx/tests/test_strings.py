"""Operators on strings, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import svod_onnx
from svod_onnx.errors import NodeError

MakeModel = Callable[..., onnx.ModelProto]

TEXTS = np.array(
    ["The quick, brown fox", "", "no  one", "the The THE", "x-ray and rays", "Größe über 3"], object
)


def _check(make_model: MakeModel, operator: str, x: np.ndarray, **options: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = make_model(operator, [x], 21, **options)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (expected,) = session.run(None, {"x0": x})
    result: Any = svod_onnx.load(proto)(x0=x)["y0"]
    result = result if isinstance(result, np.ndarray) else result.numpy()
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(6,), (1, 6)])
@pytest.mark.parametrize("case_change_action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("is_case_sensitive", [0, 1])
@pytest.mark.parametrize("stopwords", [[], ["the", "no  one", "THE THE THE"]])
def test_string_normalizer(
    make_node_model: MakeModel,
    shape: tuple[int, ...],
    case_change_action: str,
    is_case_sensitive: int,
    stopwords: list[str],
) -> None:
    options: dict[str, Any] = {"stopwords": stopwords} if stopwords else {}
    _check(
        make_node_model,
        "StringNormalizer",
        np.concatenate([TEXTS[:5], ["The"]]).astype(object).reshape(shape),
        case_change_action=case_change_action,
        is_case_sensitive=is_case_sensitive,
        # onnxruntime needs the locale on this system; the default is en_US.
        locale="C",
        **options,
    )


@pytest.mark.parametrize("shape", [(2,), (1, 2)])
def test_string_normalizer_without_remaining_strings(
    make_node_model: MakeModel, shape: tuple[int, ...]
) -> None:
    words = np.array(["a", "b"], object).reshape(shape)
    options: dict[str, Any] = {"stopwords": ["a", "b"], "is_case_sensitive": 1, "locale": "C"}
    _check(make_node_model, "StringNormalizer", words, **options)


def test_accents_stay(run_node: Callable[..., list[np.ndarray]]) -> None:
    (result,) = run_node("StringNormalizer", [TEXTS], 21, case_change_action="LOWER")
    assert result[-1] == "größe über 3"


@pytest.mark.parametrize("shape", [(6,), (6, 1), (2, 3)])
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "attributes",
    [
        {"tokenexp": "[a-zA-Z0-9_]+", "mincharnum": 1},
        {"tokenexp": "[a-zA-Z0-9_]+", "mincharnum": 3},
        {"separators": [" "], "mincharnum": 1},
        {"separators": ["[ ,]+", "-"], "mincharnum": 2},
        {"separators": [""], "mincharnum": 1},
    ],
)
def test_tokenizer(
    make_node_model: MakeModel, shape: tuple[int, ...], mark: int, attributes: dict[str, Any]
) -> None:
    _check(
        make_node_model,
        "Tokenizer",
        TEXTS.reshape(shape),
        domain="com.microsoft",
        mark=mark,
        pad_value="#",
        **attributes,
    )


@pytest.mark.parametrize("attributes", [{"tokenexp": "x+"}, {"separators": [","]}])
def test_tokenizer_without_tokens(make_node_model: MakeModel, attributes: dict[str, Any]) -> None:
    _check(
        make_node_model,
        "Tokenizer",
        np.array([",", ""], object),
        domain="com.microsoft",
        mark=0,
        pad_value="#",
        mincharnum=1,
        **attributes,
    )


def test_tokenizer_needs_one_kind_of_expressions(run_node: Callable[..., Any]) -> None:
    for attributes in ({}, {"tokenexp": "a", "separators": ["b"]}):
        with pytest.raises(NodeError, match="expected one of the attributes"):
            run_node(
                "Tokenizer",
                [TEXTS],
                21,
                domain="com.microsoft",
                mark=0,
                pad_value="#",
                mincharnum=1,
                **attributes,
            )
    with pytest.raises(NodeError, match="invalid expression"):
        run_node(
            "Tokenizer",
            [TEXTS],
            21,
            domain="com.microsoft",
            mark=0,
            pad_value="#",
            mincharnum=1,
            tokenexp="(",
        )


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("max_skip_count", [0, 1, 5])
@pytest.mark.parametrize("shape", [(12,), (3, 4)])
@pytest.mark.parametrize("is_text", [False, True])
def test_tf_idf_vectorizer(
    make_node_model: MakeModel,
    mode: str,
    max_skip_count: int,
    shape: tuple[int, ...],
    is_text: bool,
) -> None:
    ids = np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], np.int64)
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    options: dict[str, Any] = {"pool_int64s": pool}
    x: np.ndarray = ids
    if is_text:
        options = {"pool_strings": [str(value) for value in pool]}
        x = np.array([str(value) for value in ids.tolist()], object)
    _check(
        make_node_model,
        "TfIdfVectorizer",
        x.reshape(shape),
        mode=mode,
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=max_skip_count,
        ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
        weights=[0.5, 1.0, 2.0, 3.0, 1.5, 0.25, 4.0],
        **options,
    )


@pytest.mark.parametrize(("max_skip_count", "column"), [((1 << 63) - 1, 1), (0, 1 << 24)])
def test_tf_idf_takes_no_steps_for_skip_counts_and_columns_without_ngrams(
    run_node: Callable[..., list[np.ndarray]], max_skip_count: int, column: int
) -> None:
    (result,) = run_node(
        "TfIdfVectorizer",
        [np.array([7, 9, 7])],
        9,
        mode="IDF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=max_skip_count,
        ngram_counts=[0],
        ngram_indexes=[0, column],
        pool_int64s=[9, 7],
    )
    assert result.shape == (column + 1,)
    assert np.flatnonzero(result).tolist() == [0, column]


@pytest.mark.parametrize("counts", [[0, 1 << 31], [1, 0], [-1]], ids=str)
def test_tf_idf_offsets_outside_of_the_pool_are_rejected(
    run_node: Callable[..., list[np.ndarray]], counts: list[int]
) -> None:
    with pytest.raises(NodeError, match="ngram_counts must be offsets into the pool of 2 items"):
        run_node(
            "TfIdfVectorizer",
            [np.array([7, 9, 7])],
            9,
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=counts,
            ngram_indexes=[0, 1],
            pool_int64s=[9, 7],
        )


def test_tf_idf_of_many_ngrams(run_node: Callable[..., list[np.ndarray]]) -> None:
    n = 30000  # more than a node's message keeps
    (result,) = run_node(
        "TfIdfVectorizer",
        [np.array([n - 1, 5, 5])],
        9,
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=list(range(n)),
        pool_int64s=list(range(n)),
    )
    assert result[[5, n - 1]].tolist() == [2, 1]
    assert result.sum() == 3
