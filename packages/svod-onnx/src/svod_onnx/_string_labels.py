"""String labels of classifiers: the classifier returns indices, which the host maps to strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from svod_onnx._graph import Graph, Node, ValueInfo
from svod_onnx._inlining import Inline
from svod_onnx._scores import ML_DOMAIN
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["expand_string_labels"]

_LABEL_ENCODER: Final = 2
"""Version of LabelEncoder, the first with keys and values."""


def expand_string_labels(
    node: Call, x: Tensor, labels: Sequence[str], *, strings: str, integers: str
) -> Inline:
    """Replace a classifier with string labels by the classifier with indices as labels, and a
    LabelEncoder.

    Args:
        node: classifier of rows `x`, which returns labels and scores.
        x: rows.
        labels: string labels.
        strings: name of the attribute of string labels.
        integers: name of the attribute of integer labels.
    """
    indices = list(range(len(labels)))
    attributes = {key: value for key, value in node.node.attributes.items() if key != strings}
    classifier = replace(
        node.node,
        inputs=("x",),
        outputs=("index", "scores"),
        attributes={**attributes, integers: indices},
        message=None,
    )
    encoder = Node(
        "LabelEncoder",
        ML_DOMAIN,
        _LABEL_ENCODER,
        f"{node.node.title}/labels",
        ("index",),
        ("label",),
        {"keys_int64s": indices, "values_strings": list(labels)},
    )
    graph = Graph(
        "labels",
        (classifier, encoder),
        (ValueInfo("x", "tensor", 0, None),),
        (ValueInfo("label", "tensor", 0, None), ValueInfo("scores", "tensor", 0, None)),
    )
    return Inline(graph, (x,))
