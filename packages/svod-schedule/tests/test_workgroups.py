"""What the heuristics choose for a machine whose work-items of a workgroup run in step, and what
tiles in shared memory are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest

from svod_dtype import float16
from svod_ir import (
    AxisType,
    Op,
    Opt,
    OptOp,
    Target,
    UOp,
    format_opts,
    make_pad,
    make_permute,
    parse_opts,
)
from svod_ir.target import COMMON_DTYPES
from svod_ir.testing import assert_same
from svod_ir.testing.programs import layernorm, linear, matmul, reduce, softmax, tensor
from svod_schedule._linear_index import find_stride
from svod_schedule.linearize import linearize
from svod_schedule.lower.place_launch_axes import get_work_items
from svod_schedule.optimize import Scheduler, choose
from svod_schedule.optimize.opts.workgroup_limits import describe_excess
from svod_schedule.pipeline import Context, run_pipeline

GPU = replace(
    Target.generic(cores=60),
    name="gpu",
    vector_bits=128,
    vector_registers=64,
    l3_bytes=0,
    has_local=True,
    has_shared=True,
    shared_bytes=48 << 10,
    max_global=(2**31 - 1, 65535, 65535),
    max_local=1024,
    max_local_dims=(1024, 1024, 64),
    lockstep=32,
    native_dtypes=COMMON_DTYPES | {float16},
)
"""What most current GPUs have."""


def make_kernels(graph: UOp, target: Target = GPU) -> list[UOp]:
    """The kernels that compute `graph` on a machine with workgroups."""
    context = Context(target=target, device="GPU")
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)
    calls = [call.src[0] for call in kernels.iter_ops(Op.CALL)]
    return [run_pipeline("optimize", body, context, until="apply-opts") for body in calls]


def choose_all(graph: UOp, target: Target = GPU) -> list[Scheduler]:
    return [choose(kernel, target).scheduler for kernel in make_kernels(graph, target)]


def show(graph: UOp, target: Target = GPU) -> list[str]:
    return [
        f"{s.finish().arg.name}: {format_opts(s.applied_opts)}" for s in choose_all(graph, target)
    ]


CHOICES: dict[str, tuple[Callable[[], UOp], list[str]]] = {
    # 128 groups of 16 x 16 work-items with 8 x 4 results each, from tiles of 128 x 16 and 16 x 64.
    "matmul": (
        lambda: matmul(tensor(1, 1024, 1024), tensor(2, 1024, 1024)),
        [
            "r_g8_g16_l16_l16_u8_u4_u4_u2_u4_R64_r16: UPCAST(0, 8) LOCAL(0, 16) UPCAST(1, 4)"
            " LOCAL(1, 16) UNROLL(0, 16) PACK(6)"
        ],
    ),
    # A work-item has twice four columns, with those of its neighbours between them.
    "large matmul": (
        lambda: matmul(tensor(1, 4096, 4096), tensor(2, 4096, 4096)),
        [
            "r_g32_g32_l16_l16_u8_u2_u4_u2_u4_u2_u4_R256_r16: UPCAST(0, 8) LOCAL(0, 16) UPCAST(1,"
            " 4) LOCAL(1, 16) UPCAST(1, 2) UNROLL(0, 16) PACK(7)"
        ],
    ),
    "matmul of sizes that nothing divides": (
        lambda: matmul(tensor(1, 100, 70), tensor(2, 70, 130)),
        [
            "r_g7_g9_l16_l16_R6_R4_r16: PADTO(0, 16) LOCAL(0, 16) PADTO(1, 16) LOCAL(1, 16)"
            " UNROLL(0, 16) PACK(5)"
        ],
    ),
    "product with a vector": (
        lambda: matmul(tensor(1, 4096, 1024), tensor(2, 1024, 1)),
        ["r_g4096_G128_R2_r4: UNROLL(0, 4) GROUP(0, 128)"],
    ),
    # Each row is one workgroup's, in all four kernels.
    "softmax": (
        lambda: softmax(tensor(1, 4096, 1024)),
        [
            "r_g4096_G128_R2_r4: UNROLL(0, 4) GROUP(0, 128)",
            "E_g4096_l256_u4: UPCAST(1, 4) LOCAL(1, 256)",
            "r_g4096_G128_R2_r4: UNROLL(0, 4) GROUP(0, 128)",
            "E_g4096_l256_u4: UPCAST(1, 4) LOCAL(1, 256)",
        ],
    ),
    "layernorm": (
        lambda: layernorm(tensor(1, 4096, 768), tensor(2, 768), tensor(3, 768)),
        [
            "r_g4096_G64_R3_r4: UNROLL(0, 4) GROUP(0, 64)",
            "E_g4096_l192_u4: UPCAST(1, 4) LOCAL(1, 192)",
            "r_g4096_G64_R3_r4: UNROLL(0, 4) GROUP(0, 64)",
            "E_g4096_l192_u4: UPCAST(1, 4) LOCAL(1, 192)",
        ],
    ),
    "sum of rows": (
        lambda: reduce(tensor(1, 4096, 1024), 1),
        ["r_g4096_G128_R2_r4: UNROLL(0, 4) GROUP(0, 128)"],
    ),
    "sum of short rows": (
        lambda: reduce(tensor(1, 100_000, 48), 1),
        ["r_g3125_l32_G4_R3_r4: UNROLL(0, 4) GROUP(0, 4) LOCAL(0, 32)"],
    ),
    "sum of rows that nothing divides": (
        lambda: reduce(tensor(1, 4096, 1009), 1),
        ["r_g4096_G256_R4: PADTO(1, 256) GROUP(0, 256)"],
    ),
    # 32 neighbours read one line of each row.
    "sum of columns": (
        lambda: reduce(tensor(1, 4096, 1024), 0),
        ["r_g32_l32_G8_R512: LOCAL(0, 32) GROUP(0, 8)"],
    ),
    "sum of many columns": (
        lambda: reduce(tensor(1, 64, 1 << 20), 0),
        ["r_g4096_l256_R64: LOCAL(0, 256)"],
    ),
    "transposed": (
        lambda: make_permute(tensor(1, 2048, 1024), (1, 0)) + 1,
        ["E_g8_g16_l16_l16_u8_u8: UPCAST(0, 8) UPCAST(1, 8) LOCAL(0, 16) LOCAL(1, 16)"],
    ),
    "sum of two": (
        lambda: tensor(1, 1024, 1024) + tensor(2, 1024, 1024),
        ["E_g1024_l256_u4: UPCAST(0, 4) LOCAL(0, 256)"],
    ),
    "elements that nothing divides": (
        lambda: tensor(1, 1_000_003) * 2,
        ["E_g3907_l256: PADTO(0, 256) LOCAL(0, 256)"],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_kernel_is_shared_out_as_a_gpu_wants_it(name: str) -> None:
    make, expected = CHOICES[name]
    assert show(make()) == expected


@pytest.mark.parametrize("name", CHOICES)
def test_neighbours_store_side_by_side_within_the_limits(name: str) -> None:
    for scheduler in choose_all(CHOICES[name][0]()):
        sink = scheduler.sink
        assert describe_excess(sink, GPU) == ""
        neighbours = get_work_items(sink)[-1]
        for store in (n.src[0] for n in sink.iter_ops(Op.STORE) if n.src[0].src[0].op is Op.PARAM):
            stride = find_stride(store.src[1], neighbours)
            assert stride is not None
            assert stride <= 8


@pytest.mark.parametrize("name", CHOICES)
def test_all_cores_get_a_workgroup_of_whole_steps(name: str) -> None:
    for scheduler in choose_all(CHOICES[name][0]()):
        sink = scheduler.finish()
        n_work_items = prod(int(r.vmax) + 1 for r in get_work_items(sink))
        assert n_work_items % GPU.lockstep == 0
        n_groups = prod(
            int(r.vmax) + 1 for r in sink.iter_ops(Op.RANGE) if r.arg[1] is AxisType.GLOBAL
        )
        assert n_groups >= min(GPU.cores, 32)


SMALL = replace(
    GPU, cores=2, max_local=16, max_local_dims=(16, 16, 4), shared_bytes=2048, lockstep=4
)
"""The same machine in small, on which kernels that can be interpreted are large."""


def lower(scheduler: Scheduler) -> tuple[UOp, ...]:
    return linearize(
        run_pipeline("lower", scheduler.finish(), Context(target=scheduler.target, device="GPU"))
    )


SMALL_GRAPHS: dict[str, Callable[[], UOp]] = {
    "matmul": lambda: matmul(tensor(1, 8, 20), tensor(2, 20, 16)),
    "matmul that nothing divides": lambda: matmul(tensor(1, 17, 18), tensor(2, 18, 19)),
    "matmul of a transposed side": lambda: matmul(
        tensor(1, 20, 16), make_permute(tensor(2, 24, 16), (1, 0))
    ),
    "matmul of two transposed sides": lambda: matmul(
        make_permute(tensor(1, 16, 20), (1, 0)), make_permute(tensor(2, 24, 16), (1, 0))
    ),
    "linear": lambda: linear(tensor(1, 17, 18), tensor(2, 16, 18), tensor(3, 16)),
    "product of padded rows": lambda: matmul(
        make_pad(tensor(1, 14, 20), ((1, 1), (0, 4))), tensor(2, 24, 16)
    ),
    "softmax": lambda: softmax(tensor(1, 9, 64)),
    "layernorm": lambda: layernorm(tensor(1, 6, 33), tensor(2, 33), tensor(3, 33)),
    "sum of long rows": lambda: reduce(tensor(1, 5, 512), 1),
    "largest of rows": lambda: reduce(tensor(1, 5, 67), 1, Op.MAX),
    "sum of columns": lambda: reduce(tensor(1, 64, 20), 0),
    "transposed": lambda: make_permute(tensor(1, 16, 24), (1, 0)) + 1,
    "elements": lambda: tensor(1, 131) * 2,
}


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_distribution_over_work_items_preserves_the_results(name: str) -> None:
    for kernel in make_kernels(SMALL_GRAPHS[name](), SMALL):
        assert_same(kernel, lower(choose(kernel, SMALL).scheduler))


def test_no_kernel_changes_its_meaning(kernel: UOp) -> None:
    assert_same(kernel, lower(choose(kernel, SMALL).scheduler))


def test_members_that_run_sequentially_share_no_memory(kernel: UOp) -> None:
    opts = choose(kernel, replace(SMALL, lockstep=1)).opts
    assert not {o.op for o in opts} & {OptOp.LOCAL, OptOp.GROUP, OptOp.GROUPTOP}


def test_without_shared_memory_members_only_take_results() -> None:
    target = replace(GPU, has_shared=False, shared_bytes=0)
    for make, _ in CHOICES.values():
        for scheduler in choose_all(make(), target):
            assert not {o.op for o in scheduler.applied_opts} & {
                OptOp.GROUP,
                OptOp.GROUPTOP,
                OptOp.PACK,
            }
            assert OptOp.LOCAL in {o.op for o in scheduler.applied_opts}


PRODUCT_OPTS = {
    "one result each": "LOCAL(0, 2) LOCAL(1, 2) UNROLL(0, 4)",
    "squares": "UPCAST(0, 2) UPCAST(1, 4) LOCAL(0, 2) LOCAL(1, 2) UNROLL(0, 4)",
    "masked": (
        "PADTO(0, 12) PADTO(1, 24) UPCAST(0, 2) UPCAST(1, 4) LOCAL(0, 3) LOCAL(1, 3) UNROLL(0, 4)"
    ),
    "overlapping": "OVERLAP(0, 3) OVERLAP(1, 5) LOCAL(1, 2) UNROLL(0, 5)",
    "without unrolling": "LOCAL(0, 4) LOCAL(1, 2)",
    "one operand": "LOCAL(1, 4) UNROLL(0, 4)",
}


@pytest.mark.parametrize(
    ("name", "turned"),
    [*((name, "") for name in PRODUCT_OPTS), *(("squares", side) for side in ("left", "right"))],
)
def test_tiles_in_shared_memory_preserve_the_results_of_a_product(name: str, turned: str) -> None:
    left = make_permute(tensor(1, 13, 8), (1, 0)) if turned == "left" else tensor(1, 8, 13)
    right = make_permute(tensor(2, 16, 13), (1, 0)) if turned == "right" else tensor(2, 13, 16)
    (kernel,) = make_kernels(matmul(left, right))
    scheduler = apply(kernel, PRODUCT_OPTS[name])
    linear_form = lower(scheduler)
    assert sum(n.op is Op.DEFINE_LOCAL for n in linear_form) == (2 if name in BOTH_SIDES else 1)
    assert_same(kernel, linear_form)


BOTH_SIDES = ("one result each", "squares", "masked", "without unrolling")
"""Where work-items take rows and columns, both operands are shared."""


def apply(kernel: UOp, opts: str) -> Scheduler:
    """The kernel with these opts and its tiles in shared memory."""
    scheduler = Scheduler(kernel, GPU)
    for opt in parse_opts(opts):
        scheduler.apply_opt(opt)
    iteration = next(i for i, r in enumerate(scheduler.axes) if r.arg[1] is AxisType.REDUCE)
    scheduler.apply_opt(Opt(OptOp.PACK, iteration))
    return scheduler


def test_a_shared_tile_is_read_from_afar_once_in_a_turn() -> None:
    (kernel,) = make_kernels(matmul(tensor(1, 16, 32), tensor(2, 32, 16)))
    loads = [
        n for n in lower(apply(kernel, "LOCAL(0, 8) LOCAL(1, 8) UNROLL(0, 8)")) if n.op is Op.LOAD
    ]
    afar = [n for n in loads if n.src[0].src[0].op is Op.PARAM]
    # Of 8 x 8 elements of either operand each of 64 work-items reads one; it uses 16.
    assert sum(n.dtype.lanes for n in afar) == 2
