"""Outputs that are maps: ZipMap at the end of a classifier, computed on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._graph import Graph, Node, ValueInfo, iter_reads
from svod_onnx._session.host_values import to_host_value
from svod_onnx._session.metadata import NodeArg

__all__ = ["MapOutput", "convert_maps", "separate_maps"]

_DOMAIN: Final = "ai.onnx.ml"


@dataclass(frozen=True, slots=True)
class MapOutput:
    """An output that is a sequence of maps from labels to scores.

    Attributes:
        name: name of the output.
        scores: name of the tensor with the scores.
        labels: strings or integers.
    """

    name: str
    scores: str
    labels: Sequence[str] | Sequence[int]

    @property
    def declaration(self) -> NodeArg:
        """Declaration in the form of onnxruntime."""
        key = "string" if self.labels and isinstance(self.labels[0], str) else "int64"
        return NodeArg(self.name, f"seq(map({key},tensor(float)))", [])

    def convert(self, scores: Any) -> list[dict[str | int, float]]:
        """A map for each row of the scores."""
        rows = np.atleast_2d(to_host_value(scores)).tolist()
        return [dict(zip(self.labels, row, strict=True)) for row in rows]


def separate_maps(graph: Graph) -> tuple[Graph, dict[str, MapOutput]]:
    """The graph with scores instead of maps as outputs, and the maps by name.

    A ZipMap whose result a node reads stays.
    """
    read = {name for node in graph.nodes for name in iter_reads(node)}
    outputs = {info.name for info in graph.outputs}
    maps: dict[str, MapOutput] = {}
    for node in graph.nodes:
        if (node.operator, node.domain) == ("ZipMap", _DOMAIN):
            (name,) = node.outputs
            if name in outputs and name not in read:
                maps[name] = MapOutput(name, node.inputs[0], _read_labels(node))
    if not maps:
        return graph, maps
    # By name: the scores may be an output too.
    infos = {info.name: info for info in graph.outputs if info.name not in maps}
    for output in maps.values():
        scores = ValueInfo(output.scores, "tensor", onnx.TensorProto.FLOAT, None)
        infos.setdefault(output.scores, scores)
    nodes = tuple(node for node in graph.nodes if maps.keys().isdisjoint(node.outputs))
    return replace(graph, nodes=nodes, outputs=tuple(infos.values())), maps


def convert_maps(
    results: Mapping[str, Any], names: Sequence[str], maps: Mapping[str, MapOutput]
) -> dict[str, Any]:
    """The results of the named outputs, with maps instead of their scores."""
    return {
        name: maps[name].convert(results[maps[name].scores]) if name in maps else results[name]
        for name in names
    }


def _read_labels(node: Node) -> Sequence[str] | Sequence[int]:
    for name in ("classlabels_strings", "classlabels_int64s"):
        if name in node.attributes:
            return cast("Sequence[str] | Sequence[int]", node.attributes[name])
    return []
