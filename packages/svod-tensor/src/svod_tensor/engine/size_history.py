"""Symbolic sizes: kernels of graphs that differ only in sizes are compiled once for all of them.

The first two sizes of a graph get specialized kernels. When a third one comes, all graphs of that
outline share the kernels of a graph with a variable for the size:

    x [700] + 1, x [900] + 1    two kernels
    x [800] + 1                 a kernel of x [n] + 1, 257 <= n <= 2048
    x [801] + 1                 the same kernel

The bounds of a variable tell the compiler the amount of work, so sizes far apart get different
kernels. Sizes that recur often get specialized kernels, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_device import Buffer, get_allocator
from svod_ir import Op, UOp
from svod_ir.forks import make_lock
from svod_ir.sizes import bounds_of_size, max_size, product
from svod_runtime import find_sharing
from svod_tensor.engine.bounded_cache import BoundedCache
from svod_tensor.engine.choose_device import choose_device
from svod_tensor.engine.graph_outlines import find_outline, resize
from svod_tensor.engine.job import Inputs, Job
from svod_tensor.engine.memory_nodes import make_memory
from svod_tensor.engine.size_patterns import Numbers, SizePattern, find_pattern

if TYPE_CHECKING:
    from svod_tensor.engine.build import TensorGraph
    from svod_tensor.options import PrepareConfig

__all__ = ["MAX_SPARE_BYTES", "OUTLINES", "ResizedJob", "SizeHistory", "find_resized", "note_sizes"]

OutlineKey: TypeAlias = tuple[Hashable, tuple[str, ...]]

MAX_OUTLINES: Final = 1024
# The bounds tell the optimizer the approximate amount of work, by which it chooses vectors and
# threads. With these steps most data sets need one to three intervals.
SMALLEST_BOUND: Final = 256
BOUND_STEP: Final = 8
MAX_ELEMENTS: Final = 1 << 27
"""Maximum number of elements of a tensor in a graph. Larger tensors take longer to compute than to
compile.
"""

MAX_SPARE_BYTES: Final = 1 << 26
"""Maximum bytes of a plan's intermediates, whose memory has room for the largest sizes."""

MAX_USES: Final = 32
"""Number of calls with recurring sizes, with few others in between, after which a specialized
kernel is compiled.
"""

_MAX_COUNTED: Final = 16
_MAX_SAMPLES: Final = 8
_MAX_PATTERNS: Final = 4
_MAX_JOBS: Final = 64


class ResizedJob(NamedTuple):
    """A job with symbolic sizes that covers another job.

    Attributes:
        job: the job, on memory for the largest sizes, which is never allocated.
        values: values of the variables for the covered job.
        output_sizes: the number of elements of its outputs.
    """

    job: Job
    values: Mapping[str, int]
    output_sizes: tuple[int, ...]


class SizeHistory:
    """Sizes that graphs of one outline came with, and the patterns and jobs derived from them."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._samples: deque[Numbers] = deque(maxlen=_MAX_SAMPLES)
        self._patterns: list[SizePattern] = []
        self._jobs: dict[tuple[int, tuple[tuple[int, int], ...]], Job | None] = {}
        self._uses: dict[Numbers, int] = {}

    def find(self, job: Job, numbers: Numbers) -> tuple[Job, Mapping[str, int]] | None:
        """The job with symbolic sizes that covers `job`, and the values of its variables.

        None if these sizes are among the first, have no pattern, or recur often enough for
        specialized kernels."""
        with self._lock:
            if self._count_call(numbers) > MAX_USES:
                return None
            for index, values in self._iter_matching(numbers):
                bounds = tuple(map(_choose_bounds, values))
                key = index, bounds
                if key not in self._jobs and len(self._jobs) < _MAX_JOBS:
                    self._jobs[key] = _make_job(job, self._patterns[index], bounds)
                resized = self._jobs.get(key)
                if resized is not None:
                    return resized, {
                        _name(variable): value for variable, value in enumerate(values)
                    }
        return None

    def _count_call(self, numbers: Numbers) -> int:
        """The number of recent calls with these sizes; only the most recent sizes are remembered."""
        count = self._uses[numbers] = self._uses.pop(numbers, 0) + 1
        if len(self._uses) > _MAX_COUNTED:
            del self._uses[next(iter(self._uses))]
        return count

    def _iter_matching(self, numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
        """The patterns that these sizes match, oldest first, with the values of their variables."""
        n_known = len(self._patterns)
        for index, pattern in enumerate(self._patterns):
            values = pattern.find_values(numbers)
            if values is not None:
                yield index, values
        if n_known == _MAX_PATTERNS or numbers in self._samples:
            return
        pairs = combinations(reversed(self._samples), 2)
        pattern_ = next(
            (p for pair in pairs if (p := find_pattern([numbers, *pair])) is not None), None
        )
        self._samples.append(numbers)
        if pattern_ is not None and pattern_ not in self._patterns:
            self._patterns.append(pattern_)
            values = pattern_.find_values(numbers)
            assert values is not None
            yield n_known, values


OUTLINES: Final = BoundedCache[OutlineKey, SizeHistory](lambda: MAX_OUTLINES)


def find_resized(job: Job, config: PrepareConfig) -> ResizedJob | None:
    """The job with symbolic sizes that covers this one; None if its kernels should be specialized."""
    if (
        not _supports_symbolic_sizes(job, config)
        or choose_device(job.graph.devices[0], config).target.has_local
    ):
        # GPU kernels split reductions evenly over work-items, which needs known sizes.
        return None
    outline = find_outline(job.graph.sink)
    if outline is None:
        return None
    history = OUTLINES.get((outline.key, job.graph.devices), SizeHistory)
    resized = history.find(job, outline.sizes)
    if resized is None:
        return None
    sizes = tuple([max_size(product(output.shape)) for output in job.graph.sink.src])
    return ResizedJob(*resized, sizes)


def note_sizes(job: Job, config: PrepareConfig) -> None:
    """Remember the sizes of a job that gets kernels for them, as an example for later sizes."""
    find_resized(job, config)


def _choose_bounds(value: int) -> tuple[int, int]:
    """The bounds of the variable for a size."""
    low, high = 2, SMALLEST_BOUND
    while high < value:
        low, high = high + 1, high * BOUND_STEP
    return low, high


def _supports_symbolic_sizes(job: Job, config: PrepareConfig) -> bool:
    """True if symbolic sizes would change nothing about a job except the rounding of sums."""
    graph = job.graph
    return (
        config.vary_sizes
        and config.passes is None
        # Opts that a search or the caller chooses are for one size.
        and not (config.is_searched or config.fixed_opts)
        and config.check_floats == "off"
        and job.guard is None
        and job.inputs.outputs is None
        and len(graph.devices) == 1
        and not (job.donated or graph.values or graph.lines or graph.written or graph.has_files)
        and find_sharing(job.inputs.buffers) is None
    )


def _name(index: int) -> str:
    return f"size{index}"


def _make_job(job: Job, pattern: SizePattern, bounds: Sequence[tuple[int, int]]) -> Job | None:
    """`job` with symbolic sizes; None if its shapes are inconsistent for some of their values."""
    # The processes of a mesh agree on sizes, which a variable of one process would change.
    if any(node.op is Op.RESHARD or node.op is Op.MULTI for node in job.graph.sink.toposort()):
        return None
    variables = [UOp.variable(_name(size), *ends) for size, ends in enumerate(bounds)]
    numbers = pattern.express(variables)
    if any(bounds_of_size(size)[0] < 1 for size in numbers):
        return None
    sink = resize(job.graph.sink, numbers)
    if sink is None or not all(_is_small(node) for node in sink.toposort()):
        return None
    room = {node.arg.slot: node.arg.size for node in sink.iter_ops(Op.PARAM)}
    buffers = [
        Buffer(get_allocator(buffer.device), buffer.dtype, room[slot])
        for slot, buffer in enumerate(job.inputs.buffers)
    ]
    nodes = tuple(
        [make_memory(buffer.dtype, buffer.size, buffer.device, buffer) for buffer in buffers]
    )
    graph: TensorGraph = job.graph._replace(sink=sink, params=nodes)
    return Job(graph, Inputs(nodes, tuple(buffers), None))


def _is_small(node: UOp) -> bool:
    shape = node.find_shape()
    return shape is None or max_size(product(shape)) <= MAX_ELEMENTS
