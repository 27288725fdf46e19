"""Compare the cost model's predictions with measured times, for random opts of the workloads'
kernels.

    python benchmarks/cost_model.py                   # all workloads at an eighth of their size, some minutes
    python benchmarks/cost_model.py softmax linear    # some
    python benchmarks/cost_model.py --candidates 60 --seed 3

Candidates are random walks through the legal opts, from no opts and from the heuristics' choice.
`rank` is Spearman's correlation of predicted and measured times: 1 if the model orders all
candidates correctly, 0 if there is no correlation. `pick` is the measured time of the candidate
with the best prediction over the best measured time; `ratio` is the median of predicted over
measured times.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from report import describe_machine, format_machine, format_table, format_time, write_json
from workloads import Workload, iter_workloads

SKIPPED = ("dispatch", "dispatch100", "demo")
"""Skipped workloads: calls with little work, and a model whose weights may not be installed."""

LONGEST_PREDICTED = 0.5
"""Predicted seconds above which a candidate is not measured."""
HEAD = ("kernel", "candidates", "best", "worst", "rank", "pick", "ratio")


@dataclass(frozen=True)
class Sample:
    """Candidate: its opts as text, and its times in seconds."""

    opts: str
    predicted: float
    measured: float


def main() -> int:
    arguments = _parse_arguments()
    os.environ["SVOD_KERNEL_STORE"] = os.environ["SVOD_OBJECT_CACHE"] = "0"
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    samples: dict[str, list[Sample]] = {}
    for workload in iter_workloads(is_quick=not arguments.full):
        if workload.name in arguments.names if arguments.names else workload.name not in SKIPPED:
            print(f"{workload.name} ...", end=" ", flush=True, file=sys.stderr)
            samples |= measure_workload(workload, arguments.candidates, Random(arguments.seed))
    print(file=sys.stderr)
    print(
        format_table(HEAD, [_format_row(name, candidates) for name, candidates in samples.items()])
    )
    ranks = [_rank(candidates) for candidates in samples.values()]
    every = [sample for candidates in samples.values() for sample in candidates]
    print(
        f"mean of {len(ranks)} kernels {sum(ranks) / len(ranks):.2f}, all {len(every)} candidates"
        f" {_rank(every):.2f}"
    )
    print(
        write_json(
            "cost_model",
            {
                "machine": machine,
                "samples": {
                    name: [vars(s) for s in candidates] for name, candidates in samples.items()
                },
            },
        )
    )
    return 0


def measure_workload(
    workload: Workload, n_candidates: int, random: Random
) -> dict[str, list[Sample]]:
    """Random candidates of each kernel of a workload, by the kernel's name."""
    from svod_ir import Op, UOp
    from svod_tensor import PrepareConfig, Tensor
    from svod_tensor.engine.uncached import make_schedule

    result = workload.svod(*map(Tensor, workload.inputs))
    sink = UOp.sink(UOp(Op.CONTIGUOUS, result.dtype, (result.uop,)))
    schedule = make_schedule(sink, PrepareConfig())
    candidates: dict[str, list[Sample]] = {}
    seen: set[str] = set()
    for item in schedule.iter_kernels():
        if item.ast.content_hash not in seen:
            seen.add(item.ast.content_hash)
            alone = replace(item, dependencies=())
            single = replace(schedule, items=[alone], output_ids=item.buffer_ids[:1])
            name = f"{workload.name} {len(seen)}" if len(schedule.items) > 1 else workload.name
            candidates[name] = list(_iter_samples(single, n_candidates, random))
    return {name: samples for name, samples in candidates.items() if len(samples) >= 3}


def _iter_samples(schedule: Any, n_candidates: int, random: Random) -> Iterator[Sample]:
    from svod_device import get_device
    from svod_ir import format_opts
    from svod_schedule import OptimizerConfig
    from svod_schedule.optimize import Scheduler, choose
    from svod_schedule.optimize.candidates import make_key
    from svod_schedule.optimize.cost_model.expected_time import estimate_cost
    from svod_schedule.pipeline import run_pipeline
    from svod_tensor import PrepareConfig
    from svod_tensor.engine.kernels import make_context

    device = get_device("CPU")
    context = make_context(device, PrepareConfig())
    kernel = run_pipeline("optimize", schedule.items[0].ast, context, until="apply-opts")
    plain, chosen = Scheduler(kernel, device.target), choose(kernel, device.target).scheduler
    limits = OptimizerConfig()
    seen: set[str] = set()
    for n in range(20 * n_candidates):
        start = (plain, chosen)[n % 2]
        scheduler = start.copy() if n < 2 else _walk(start, random)
        candidate = scheduler.finish()
        cost = estimate_cost(candidate, device.target)
        key = make_key(candidate)
        if key in seen or cost.n_taken > limits.max_upcast or cost.seconds > LONGEST_PREDICTED:
            continue
        seen.add(key)
        opts = tuple(scheduler.applied_opts)
        if _count_uops(candidate, context) <= limits.max_uops:
            yield Sample(format_opts(opts), cost.seconds, _measure(schedule, opts))
        if len(seen) == n_candidates:
            return


def _count_uops(candidate: Any, context: Any) -> int:
    from svod_schedule.linearize import linearize
    from svod_schedule.pipeline import run_pipeline

    return len(linearize(run_pipeline("lower", candidate, context)))


def _walk(start: Any, random: Random) -> Any:
    """Apply random opts to `start`, each kind with equal probability."""
    from svod_schedule.optimize.opts.actions import iter_actions

    scheduler = start.copy()
    for _ in range(random.randint(1, 3 if start.applied_opts else 6)):
        actions = list(iter_actions(scheduler))
        kinds = sorted({opt.op.name for opt in actions})
        if kinds:
            kind = random.choice(kinds)
            scheduler.try_opt(random.choice([opt for opt in actions if opt.op.name == kind]))
    return scheduler


def _measure(schedule: Any, opts: Any, seconds: float = 0.03) -> float:
    """Minimum time of a kernel with these opts, over batches of at least 0.2 ms."""
    from svod_tensor import PrepareConfig
    from svod_tensor.engine.caches import KERNELS
    from svod_tensor.engine.uncached import plan_schedule

    plan = plan_schedule(schedule, PrepareConfig(opts=opts, memory_planner="disabled"))
    KERNELS.clear()
    plan.execute()
    least = float("inf")
    end = perf_counter() + seconds
    n_batches = 0
    while n_batches < 2 or perf_counter() < end:
        n_calls, elapsed, start = 0, 0.0, perf_counter()
        while elapsed < 2e-4:
            plan.execute()
            n_calls, elapsed = n_calls + 1, perf_counter() - start
        least = min(least, elapsed / n_calls)
        n_batches += 1
    return least


def _rank(samples: Sequence[Sample]) -> float:
    """Spearman's rank correlation of predicted and measured times."""
    predicted, measured = (
        _order([s.predicted for s in samples]),
        _order([s.measured for s in samples]),
    )
    middle = (len(samples) - 1) / 2
    covariance = sum((p - middle) * (m - middle) for p, m in zip(predicted, measured, strict=True))
    spread = [sum((x - middle) ** 2 for x in ranks) ** 0.5 for ranks in (predicted, measured)]
    return covariance / (spread[0] * spread[1]) if all(spread) else 0.0


def _order(values: Sequence[float]) -> list[float]:
    """Rank of each value; equal values share their mean rank."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]


def _format_row(name: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    best, worst = min(s.measured for s in samples), max(s.measured for s in samples)
    pick = min(samples, key=lambda s: s.predicted).measured / best
    ratio = median(s.predicted / s.measured for s in samples)
    rank = f"{_rank(samples):.2f}"
    return (
        name,
        str(len(samples)),
        format_time(best),
        format_time(worst),
        rank,
        f"{pick:.2f}",
        f"{ratio:.2f}",
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="workloads (default: nearly all)")
    parser.add_argument(
        "--candidates", type=int, default=30, help="number of candidates for each kernel"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random opts")
    parser.add_argument("--full", action="store_true", help="run workloads at their full sizes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
