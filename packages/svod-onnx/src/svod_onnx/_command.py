"""The command: a model's inputs, outputs, operators and parameters, and with `--run` one run of it.

python -m svod_onnx model.onnx
python -m svod_onnx model.onnx --run --size batch=2          # on random inputs
python -m svod_onnx model.onnx --run --input x=x.npy         # on an array of one's own
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Final, TextIO, cast

import numpy as np

from svod_onnx._function_bodies import has_body
from svod_onnx._graph import Constant, Graph, Node, ValueInfo
from svod_onnx._model import Model
from svod_onnx._reading import ModelFile, read_model
from svod_onnx._registry import Value, find_operator
from svod_onnx._types import find_host_type
from svod_tensor import Tensor
from svod_tensor.errors import UserError

__all__ = ["main"]

_SEED: Final = 0
_SIZE: Final = 1
"""Of a dimension that neither the model nor `--size` gives a size."""


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Describe a model, and run it where that is asked for; 2 and a message where that cannot be."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_onnx", description="Say what is in an ONNX model, and run it."
    )
    parser.add_argument("model", help="the file")
    parser.add_argument("--run", action="store_true", help="run it, on random inputs where none are given")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="size of a symbolic dimension (1)"
    )
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="array of an input")
    given = parser.parse_args(arguments)
    written: TextIO = sys.stdout if out is None else out
    try:
        file = read_model(given.model)
        written.write("\n".join(_describe(file)) + "\n")
        if given.run:
            arrays = {name: np.load(path) for name, path in map(_split, given.input)}
            sizes = {name: int(size) for name, size in map(_split, given.size)}
            written.write("\n".join(_run(file, sizes, arrays)) + "\n")
    except (UserError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _describe(file: ModelFile) -> Iterator[str]:
    for title, infos in (("inputs", file.graph.inputs), ("outputs", file.graph.outputs)):
        yield f"{title}:"
        yield from (f"  {info}" for info in infos)
    nodes = list(_iter_nodes(file.graph))
    counts = Counter((node.qualified, node.version, _is_known(node)) for node in nodes)
    yield f"operators: {len(nodes)} nodes"
    for (name, version, is_known), count in sorted(counts.items(), key=lambda row: (-row[1], row[0])):
        yield f"  {count:5}  {name} (version {version}){'' if is_known else ': svod-onnx has it not'}"
    weights = list(_iter_constants(file.graph))
    n_bytes = sum(weight.size * np.dtype(str(weight.dtype)).itemsize for weight in weights if _is_number(weight))
    yield f"parameters: {sum(weight.size for weight in weights):,} in {len(weights)} tensors, {n_bytes / 2**20:.1f} MiB"


def _is_known(node: Node) -> bool:
    return find_operator(node.operator, node.domain, node.version) is not None or has_body(node)


def _is_number(weight: Constant) -> bool:
    return not isinstance(weight, np.ndarray) or weight.dtype.kind != "O"


def _iter_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.subgraphs():
            yield from _iter_nodes(inner)


def _iter_constants(graph: Graph) -> Iterator[Constant]:
    yield from graph.constants.values()
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from _iter_constants(inner)


def _run(file: ModelFile, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    model, generator = Model(file), np.random.default_rng(_SEED)
    made = {info.name: _draw(info, sizes, generator) for info in model.inputs if info.name not in arrays}
    for name in ("first run", "second run"):
        start = perf_counter()
        results = cast("dict[str, Value]", model(**made, **arrays))
        found = {name: value.numpy() if isinstance(value, Tensor) else value for name, value in results.items()}
        yield f"{name}: {(perf_counter() - start) * 1e3:.1f} ms"
    for name, value in found.items():
        array = np.asarray(value, dtype=None if isinstance(value, np.ndarray) else object)
        facts = f", {array.min()} to {array.max()}" if array.size and array.dtype.kind in "fiu" else ""
        yield f"  {name}: {array.dtype}{array.shape}{facts}"


def _draw(info: ValueInfo, sizes: Mapping[str, int], generator: np.random.Generator) -> np.ndarray:
    """Normal numbers, or zeros and ones where the dtype is not of floats."""
    dtype = find_host_type(info.element_type)
    if info.kind != "tensor" or info.shape is None or dtype is None:
        raise ValueError(f"nothing can be drawn for input {info}: give it with --input {info.name}=FILE.npy")
    shape = [size if isinstance(size, int) else sizes.get(size or "", _SIZE) for size in info.shape]
    is_float = dtype.kind in "fcV"
    return (generator.standard_normal(shape) if is_float else generator.integers(0, 2, shape)).astype(dtype)
