"""Machine code of a kernel gives the same results with any sequence of legal opts.

Any device of the registry can be tested, with any number of sequences:

    SVOD_TEST_OPTS_DEVICE=OPENCL SVOD_TEST_OPTS_SEQUENCES=2000 SVOD_OPENCL_BUILD_OPTIONS=-cl-opt-disable
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_device import Device, PluginLoadError, get_device
from svod_dtype import float16, float64, int32, uint8
from svod_ir import (
    AxisType,
    Op,
    Opt,
    UOp,
    format_opts,
    make_expand,
    make_pad,
    make_permute,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    make_shrink,
)
from svod_ir.testing import count_examples
from svod_ir.testing.programs import fit, gelu, layernorm, matmul, reduce, softmax, tensor
from svod_schedule import OptError
from svod_schedule.optimize import Scheduler
from svod_schedule.optimize.candidates import Dropped
from svod_schedule.optimize.opts.actions import iter_actions
from svod_schedule.pipeline import Context, run_pipeline
from svod_tensor.tuning.buffer_data import describe_buffers, estimate_tolerance
from svod_tensor.tuning.time_box import TimeBox
from svod_tensor.tuning.workers import ProcessCompilers, ProcessRunner

DEVICE = os.environ.get("SVOD_TEST_OPTS_DEVICE", "CPU")
# Compilers of other devices may take a second per kernel, and much longer for long sources.
IS_FAST = DEVICE == "CPU"
N_SEQUENCES = int(os.environ.get("SVOD_TEST_OPTS_SEQUENCES") or count_examples(2000))
BATCH = 15
MAX_COPIES = 128 if IS_FAST else 32
MAX_UOPS = 100_000

Opts: TypeAlias = tuple[Opt, ...]


GRAPHS: dict[str, Callable[[], UOp]] = {
    "matmul": lambda: matmul(tensor(1, 12, 20), tensor(2, 20, 17)),
    "matmul of doubles": lambda: matmul(
        tensor(1, 9, 8, dtype=float64), tensor(2, 8, 16, dtype=float64)
    ),
    "product with a vector": lambda: matmul(tensor(1, 24, 33), tensor(2, 33, 1)),
    "softmax": lambda: softmax(tensor(1, 7, 24)),
    "layernorm": lambda: layernorm(tensor(1, 6, 20), tensor(2, 20), tensor(3, 20)),
    "gelu": lambda: gelu(tensor(1, 5, 33)),
    "attention": lambda: matmul(softmax(tensor(1, 8, 12)), tensor(2, 12, 16)),
    "sum of rows": lambda: reduce(tensor(1, 18, 37), 1),
    "sum of columns": lambda: reduce(tensor(1, 37, 18), 0),
    "largest of rows": lambda: reduce(tensor(1, 9, 31), 1, Op.MAX),
    "sum of columns of integers": lambda: reduce(tensor(1, 24, 10, dtype=int32), 0),
    "sum of all": lambda: reduce(make_reshape(tensor(1, 6, 35), (210,)), 0),
    "transposed": lambda: make_permute(tensor(1, 14, 24), (1, 0)) + 1,
    "product of transposed operands": lambda: matmul(
        make_permute(tensor(1, 20, 12), (1, 0)), make_permute(tensor(2, 16, 20), (1, 0))
    ),
    "product with rows that evict each other": lambda: matmul(
        tensor(1, 8, 512), make_permute(tensor(2, 16, 512), (1, 0))
    ),
    "transposed rows of transposed matrices": lambda: (
        make_permute(tensor(1, 6, 8, 16), (2, 0, 1)) + make_permute(tensor(2, 8, 16, 6), (1, 2, 0))
    ),
    "concatenated": lambda: (
        make_pad(tensor(1, 9, 3), ((0, 7), (0, 0))) + make_pad(tensor(2, 7, 3), ((9, 0), (0, 0)))
    ),
    "outer": lambda: make_expand(tensor(1, 9, 1), (9, 16)) * make_expand(tensor(2, 1, 16), (9, 16)),
    "padded and cut": lambda: (
        make_pad(make_shrink(tensor(1, 12, 20), ((1, 11), (3, 19))), ((2, 1), (0, 5))) * 2
    ),
    "integers": lambda: reduce(tensor(1, 11, 26, dtype=int32) * tensor(2, 11, 26, dtype=int32), 1),
    "bytes": lambda: tensor(1, 13, 40, dtype=uint8) + tensor(2, 13, 40, dtype=uint8),
    "half": lambda: reduce(tensor(1, 10, 24, dtype=float16) * tensor(2, 10, 24, dtype=float16), 1),
    "running sum": lambda: make_scan_axis(tensor(1, 6, 21), Op.ADD, 1),
    "rows at positions": lambda: make_scatter_add(
        tensor(1, 12, 24), fit(tensor(2, 12, dtype=uint8), (12,)) % 7, 0, 5
    ),
    "three axes": lambda: reduce(tensor(1, 4, 6, 10) * fit(tensor(2, 10), (4, 6, 10)), 1),
}


class Machine:
    """Device with the processes that compile and run for it."""

    def __init__(self) -> None:
        self.device: Device = get_device(DEVICE)
        self.context = Context(target=self.device.target, device=self.device.name)
        self.compilers = ProcessCompilers(self.device, MAX_UOPS, n_workers=2)

    def compile(self, kernel: UOp, sequences: Iterable[Opts]) -> list[bytes | Dropped]:
        made = [
            run_pipeline("optimize", kernel, replace(self.context, opts=opts)) for opts in sequences
        ]
        return self.compilers.compile(made, 60.0, TimeBox(600.0))

    def check(
        self, kernel: UOp, sequences: list[Opts], reference: bytes, runner: ProcessRunner
    ) -> None:
        """Check that the kernel has the same results with each sequence as without opts."""
        # Some drivers lose files that several processes write concurrently, so each kernel is
        # compiled once.
        different = list(dict.fromkeys(sequences))
        for opts, code in zip(different, self.compile(kernel, different), strict=True):
            assert isinstance(code, bytes), f"{format_opts(opts)}: {code}"
            found = runner.compare(format_opts(opts) or "none", code, reference, 60.0)
            assert found == "", f"{format_opts(opts)}: {found}"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    try:
        machine = Machine()
    except PluginLoadError as error:
        if DEVICE == "CPU":
            raise
        pytest.skip(str(error))
    yield machine
    machine.compilers.close()


def make_body(graph: UOp, context: Context) -> UOp:
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)
    # A scatter-add is preceded by a kernel that writes zeros.
    return [*kernels.iter_ops(Op.CALL)][-1].src[0]


def count_copies(scheduler: Scheduler) -> int:
    """Number of copies of the kernel's body in the unrolled code."""
    return prod(
        int(r.vmax) + 1
        for r in scheduler.sink.iter_ops(Op.RANGE)
        if r.arg[1] in (AxisType.UPCAST, AxisType.UNROLL)
    )


def draw_sequence(draw: st.DrawFn, start: Scheduler) -> Opts:
    scheduler = start.copy()
    for _ in range(draw(st.integers(1, 6))):
        actions = list(iter_actions(scheduler, can_pad=True))
        # Each kind of opt has equal probability, however many amounts it has.
        kinds = sorted({action.op for action in actions}, key=lambda op: op.name)
        kind = kinds[draw(st.integers(0, len(kinds) - 1))] if kinds else None
        of_kind = [n for n, action in enumerate(actions) if action.op is kind]
        at = of_kind[draw(st.integers(0, len(of_kind) - 1))] if of_kind else 0
        # The first legal opt from a random index: most opts are legal.
        tried = (try_action(scheduler, action) for action in (*actions[at:], *actions[:at]))
        scheduler = next((t for t in tried if t is not None), scheduler)
    return tuple(scheduler.applied_opts)


def try_action(scheduler: Scheduler, action: Opt) -> Scheduler | None:
    changed = scheduler.copy()
    try:
        changed.apply_opt(action)
    except OptError:
        return None
    return changed if count_copies(changed) <= MAX_COPIES else None


@pytest.mark.parametrize("name", GRAPHS)
def test_any_legal_sequence_of_opts_computes_the_same(machine: Machine, name: str) -> None:
    kernel = make_body(GRAPHS[name](), machine.context)
    start = Scheduler(
        run_pipeline("optimize", kernel, machine.context, until="apply-opts"), machine.device.target
    )
    (reference,) = machine.compile(kernel, [()])
    assert isinstance(reference, bytes)
    runner = ProcessRunner(
        machine.device, describe_buffers(kernel, {}), estimate_tolerance(kernel), 60.0
    )

    @st.composite
    def batches(draw: st.DrawFn) -> list[Opts]:
        return [draw_sequence(draw, start) for _ in range(BATCH)]

    @settings(
        max_examples=-(-N_SEQUENCES // (BATCH * len(GRAPHS))),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(batches())
    def check(sequences: list[Opts]) -> None:
        machine.check(kernel, sequences, reference, runner)

    try:
        check()
    finally:
        runner.close()
