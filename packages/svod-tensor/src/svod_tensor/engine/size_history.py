"""Sizes that became variables: kernels of graphs that differ in sizes alone are compiled once for
all of them.

The first two sizes of a graph get kernels of their own, which know them. When a third one comes,
all graphs of that outline take their kernels from one in which a variable stands for the size:

    x [700] + 1, x [900] + 1    two kernels
    x [800] + 1                 a kernel of x [n] + 1, 257 <= n <= 2048
    x [801] + 1                 the same kernel

The bounds of a variable tell the compiler about how much there is to do; sizes far from each other
get kernels of their own. Sizes that come again and again do so, too."""

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

__all__ = ["MAX_SPARE_BYTES", "OUTLINES", "ResizedJob", "SizeHistory", "find_resized"]

OutlineKey: TypeAlias = tuple[Hashable, tuple[str, ...]]

MAX_OUTLINES: Final = 1024
SMALLEST_BOUND: Final = 256
BOUND_STEP: Final = 8
MAX_ELEMENTS: Final = 1 << 27
"""Of the largest tensor in a graph. What is larger takes longer to compute than to compile."""

MAX_SPARE_BYTES: Final = 1 << 26
"""Of what a plan stores besides its results, for which it has the memory that the largest sizes
take.
"""

MAX_USES: Final = 32
"""How often sizes may come back, with few others between, before a kernel that knows them is
compiled.
"""

_MAX_COUNTED: Final = 16
_MAX_SAMPLES: Final = 8
_MAX_PATTERNS: Final = 4
_MAX_JOBS: Final = 64


class ResizedJob(NamedTuple):
    """A job with variables in the place of sizes, of which another one is a case.

    Attributes:
        job: the job, on memory that has room for the largest sizes, and is never allocated.
        values: what the variables are in that case.
        output_sizes: how many elements its outputs have.
    """

    job: Job
    values: Mapping[str, int]
    output_sizes: tuple[int, ...]


class SizeHistory:
    """The numbers that the graphs of one outline came with, and what was made of them."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._samples: deque[Numbers] = deque(maxlen=_MAX_SAMPLES)
        self._patterns: list[SizePattern] = []
        self._jobs: dict[tuple[int, tuple[tuple[int, int], ...]], Job | None] = {}
        self._uses: dict[Numbers, int] = {}

    def find(self, job: Job, numbers: Numbers) -> tuple[Job, Mapping[str, int]] | None:
        """The job with variables that stands for `job`, and their values there.

        None if these sizes are among the first ones, have no pattern, or come often enough for
        kernels of their own."""
        with self._lock:
            if self._count_use(numbers) > MAX_USES:
                return None
            for place, values in self._iter_fitting(numbers):
                bounds = tuple(map(_get_bounds, values))
                key = place, bounds
                if key not in self._jobs and len(self._jobs) < _MAX_JOBS:
                    self._jobs[key] = _make_job(job, self._patterns[place], bounds)
                made = self._jobs.get(key)
                if made is not None:
                    return made, {_name(number): value for number, value in enumerate(values)}
        return None

    def _count_use(self, numbers: Numbers) -> int:
        """How often these numbers came, as far as that is remembered: of those that came last."""
        count = self._uses[numbers] = self._uses.pop(numbers, 0) + 1
        if len(self._uses) > _MAX_COUNTED:
            del self._uses[next(iter(self._uses))]
        return count

    def _iter_fitting(self, numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
        """The patterns that these numbers fit, those that were found before first, and the values
        of their variables.
        """
        n_known = len(self._patterns)
        for place, pattern in enumerate(self._patterns):
            values = pattern.find_values(numbers)
            if values is not None:
                yield place, values
        if n_known == _MAX_PATTERNS or numbers in self._samples:
            return
        pairs = combinations(reversed(self._samples), 2)
        found = next(
            (p for pair in pairs if (p := find_pattern([numbers, *pair])) is not None), None
        )
        self._samples.append(numbers)
        if found is not None and found not in self._patterns:
            self._patterns.append(found)
            values = found.find_values(numbers)
            assert values is not None
            yield n_known, values


OUTLINES: Final = BoundedCache[OutlineKey, SizeHistory](lambda: MAX_OUTLINES)


def find_resized(job: Job, config: PrepareConfig) -> ResizedJob | None:
    """The job with sizes as variables that stands for this one; None where its kernels are to know
    the sizes.
    """
    if not _may_vary(job, config) or choose_device(job.graph.devices[0], config).target.has_local:
        # A grid wants its sums split over work-items, evenly.
        return None
    outline = find_outline(job.graph.sink)
    if outline is None:
        return None
    history = OUTLINES.get((outline.key, job.graph.devices), SizeHistory)
    found = history.find(job, outline.numbers)
    if found is None:
        return None
    sizes = tuple([max_size(product(output.shape)) for output in job.graph.sink.src])
    return ResizedJob(*found, sizes)


def _get_bounds(value: int) -> tuple[int, int]:
    """The bounds of the variable that stands for a size."""
    low, high = 2, SMALLEST_BOUND
    while high < value:
        low, high = high + 1, high * BOUND_STEP
    return low, high


def _may_vary(job: Job, config: PrepareConfig) -> bool:
    """Whether a job is of the kind that compilation with variables makes no difference to but the
    rounding of sums.
    """
    graph = job.graph
    return (
        config.vary_sizes
        and config.passes is None
        # What a search or the caller chooses is for one size.
        and not (config.is_searched or config.fixed_opts)
        and config.check_floats == "off"
        and job.guard is None
        and job.inputs.outputs is None
        and len(graph.devices) == 1
        and not (job.donated or graph.values or graph.lines or graph.written or graph.has_files)
        and find_sharing(job.inputs.buffers) is None
    )


def _name(number: int) -> str:
    return f"size{number}"


def _make_job(job: Job, pattern: SizePattern, bounds: Sequence[tuple[int, int]]) -> Job | None:
    """`job` with variables; None where the sizes do not fit together for all their values."""
    variables = [UOp.variable(_name(number), *ends) for number, ends in enumerate(bounds)]
    numbers = pattern.express(variables)
    if any(bounds_of_size(number)[0] < 1 for number in numbers):
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
