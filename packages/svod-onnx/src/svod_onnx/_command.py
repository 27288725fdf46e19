"""Command line: print a model's inputs, outputs, operators and parameters, and with `--run` run it
once.

python -m svod_onnx model.onnx
python -m svod_onnx model.onnx --run --size batch=2          # on random inputs
python -m svod_onnx model.onnx --run --input x=x.npy         # on an array from a file
python -m svod_onnx model.onnx --profile --trace run.json    # time per kernel and operator
python -m svod_onnx model.onnx --tune                        # tune its kernels; later runs reuse them
python -m svod_onnx model.onnx --bench                       # time and memory, and onnxruntime's
python -m svod_onnx model.onnx --compare --bisect            # compare with onnxruntime, and find the first node that differs
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final, TextIO, cast

import numpy as np
import onnx

from svod_onnx._benchmark import iter_rows
from svod_onnx._function_bodies import is_supported
from svod_onnx._graph import Constant, Graph, Node, ValueInfo
from svod_onnx._model import Model
from svod_onnx._progress import show_progress
from svod_onnx._reading import ModelFile, read_model
from svod_onnx._reference_comparison import iter_lines
from svod_onnx._registry import Value
from svod_onnx._types import find_host_type
from svod_tensor import Tensor
from svod_tensor.errors import UserError
from svod_tensor.tune import searching

__all__ = ["main"]

_SEED: Final = 0
_SIZE: Final = 1
"""Size of a symbolic dimension that `--size` does not set."""


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Describe a model and run it on request. Return 0, or 2 after printing an error."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_onnx", description="Describe an ONNX model, and run it."
    )
    parser.add_argument("model", help="path of the model")
    parser.add_argument(
        "--run", action="store_true", help="run the model; inputs without --input are random"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a symbolic dimension (default 1)",
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="array of an input"
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="run the model and print the time per kernel and operator",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="run the model and write a trace for ui.perfetto.dev"
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="tune each new kernel, then run; later runs reuse the result",
    )
    parser.add_argument("--seconds", type=float, help="approximate time limit of --tune")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="compare with onnxruntime, or with onnx's reference implementation",
    )
    parser.add_argument(
        "--bisect", action="store_true", help="compare, and find the first node that differs"
    )
    parser.add_argument(
        "--bench",
        action="store_true",
        help="print the time to load, of the first call and of a call, and the peak memory, and"
        " those of onnxruntime",
    )
    options = parser.parse_args(arguments)
    output: TextIO = sys.stdout if out is None else out
    try:
        file = read_model(options.model)
        output.write("\n".join(_describe(file)) + "\n")
        runs = options.run or options.profile or options.trace or options.tune
        if not (runs or options.compare or options.bisect or options.bench):
            return 0
        sizes = {name: int(size) for name, size in map(_split, options.size)}
        arrays = _fill_inputs(
            file, sizes, {name: np.load(path) for name, path in map(_split, options.input)}
        )
        lines: list[str] = []
        if runs:
            runnable = Model(file)
            with (
                searching(output, seconds=options.seconds)
                if options.tune
                else show_progress(sys.stderr)
            ):
                lines += _run(runnable, arrays)
            lines += _profile(runnable, file, prints=options.profile, trace=options.trace)
        if options.bench:
            lines += iter_rows(options.model, arrays)
        if options.compare or options.bisect:
            # The reference needs the protobuf message, which `read_model` does not keep.
            model = onnx.load(options.model)  # pyright: ignore[reportUnknownMemberType]
            lines += iter_lines(model, arrays, bisects=options.bisect)
        output.write("\n".join(lines) + "\n")
    except (UserError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _describe(file: ModelFile) -> Iterator[str]:
    for title, infos in (("inputs", file.graph.inputs), ("outputs", file.graph.outputs)):
        yield f"{title}:"
        yield from (f"  {info}" for info in infos)
    nodes = list(_iter_nodes(file.graph))
    counts = Counter((node.qualified, node.version, is_supported(node)) for node in nodes)
    yield f"operators: {len(nodes)} nodes"
    for (name, version, is_known), count in sorted(
        counts.items(), key=lambda row: (-row[1], row[0])
    ):
        yield f"  {count:5}  {name} (version {version}){'' if is_known else ': not supported'}"
    weights = list(_iter_constants(file.graph))
    # String tensors have no fixed element size.
    n_bytes = sum(
        weight.size * np.dtype(str(weight.dtype)).itemsize
        for weight in weights
        if _is_numeric(weight)
    )
    yield f"parameters: {sum(weight.size for weight in weights):,} in {len(weights)} tensors, {n_bytes / 2**20:.1f} MiB"


def _is_numeric(weight: Constant) -> bool:
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


def _fill_inputs(
    file: ModelFile, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The inputs by name: the given arrays, and random arrays for the other inputs."""
    generator = np.random.default_rng(_SEED)
    missing = [info for info in file.graph.inputs if info.name not in arrays]
    return {**arrays, **{info.name: _sample(info, sizes, generator) for info in missing}}


def _run(model: Model, arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Run the model twice, and yield the times and a summary of each output."""
    outputs: dict[str, Value] = {}
    # The first run compiles kernels; the second shows the time of a call.
    for name in ("first run", "second run"):
        start = perf_counter()
        results = cast("dict[str, Value]", model(**arrays))
        outputs = {
            name: value.numpy() if isinstance(value, Tensor) else value
            for name, value in results.items()
        }
        yield f"{name}: {(perf_counter() - start) * 1e3:.1f} ms"
    for name, value in outputs.items():
        array = np.asarray(value, dtype=None if isinstance(value, np.ndarray) else object)
        facts = (
            f", {array.min()} to {array.max()}" if array.size and array.dtype.kind in "fiu" else ""
        )
        yield f"  {name}: {array.dtype}{array.shape}{facts}"


def _profile(model: Model, file: ModelFile, *, prints: bool, trace: str | None) -> Iterator[str]:
    """Yield the time per kernel, and the time per operator.

    A fused kernel counts for the set of its operators.
    """
    operators = {node.scope: node.qualified for node in _iter_nodes(file.graph)}
    times: Counter[str] = Counter()
    for index, plan in enumerate(model.plans()):
        report = plan.profile()
        if trace:
            path = Path(trace)
            # A model in stages has several plans; each gets its own file.
            report.save_trace(path if not index else path.with_stem(f"{path.stem}-{index}"))
        for row in report.summaries():
            scopes = {origin.scope for origin in row.origins}
            names = dict.fromkeys(name for title, name in operators.items() if title in scopes)
            # A kernel's time cannot be divided among the operators that it fuses.
            times[" + ".join(names) or "other"] += row.elapsed_ns / 1e3 / report.n_runs
        if prints:
            yield f"\n{report}"
    if prints:
        yield "\ntime by operator; each set of fused operators has its own line:"
        yield from (f"  {elapsed:10.1f} us  {name}" for name, elapsed in times.most_common())


def _sample(
    info: ValueInfo, sizes: Mapping[str, int], generator: np.random.Generator
) -> np.ndarray:
    """Normally distributed floats, or zeros and ones for any other dtype."""
    dtype = find_host_type(info.element_type)
    if info.kind != "tensor" or info.shape is None or dtype is None:
        raise ValueError(
            f"cannot generate a random array for input {info}: pass --input {info.name}=FILE.npy"
        )
    shape = [size if isinstance(size, int) else sizes.get(size or "", _SIZE) for size in info.shape]
    # Kind V are the extension dtypes of ml_dtypes. Integers stay 0 or 1, since they are often
    # indices.
    is_float = dtype.kind in "fcV"
    return (
        generator.standard_normal(shape) if is_float else generator.integers(0, 2, shape)
    ).astype(dtype)
