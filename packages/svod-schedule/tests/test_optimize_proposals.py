"""Golden cases of every choice of the heuristics: the opts of a kernel for a target, and why it
gets them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from svod_dtype import int8, int32, uint8
from svod_ir import OptOp, Target, TensorCore, UOp, parse_graph
from svod_ir.testing import GoldenCase, list_cases
from svod_ir.testing.pytest_plugin import CheckGolden
from svod_schedule.optimize import Reason, Scheduler, apply_opts, choose
from svod_schedule.optimize.heuristics.facts import make_facts
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, answer
from svod_schedule.pipeline import Context, run_pipeline

CASES = list_cases(Path(__file__).parent / "choices")
AVX2 = Target.generic(cores=4)
AVX512 = replace(
    AVX2, vector_bits=512, vector_registers=32, has_masked_access=True, has_gather=True
)
GPU = replace(
    AVX2,
    cores=60,
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
)
TARGETS = {
    "avx2": AVX2,
    "avx512": AVX512,
    "shared": replace(AVX512, cores=2, parts_per_core=8),
    "neon": replace(AVX2, vector_bits=128, vector_registers=32),
    "tensor-cores": replace(
        AVX512, tensor_cores=(TensorCore((16, 1, 4), 4, (uint8, int8, int32)),)
    ),
    "gpu": GPU,
    "gpu-one-by-one": replace(GPU, lockstep=1),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_choice(case: GoldenCase, check_golden: CheckGolden) -> None:
    target = TARGETS[case.pass_name]

    def run(kernel: UOp) -> str:
        chosen = choose(kernel, target)
        assert tuple(opt for reason in chosen.reasons for opt in reason.opts) == chosen.opts
        return "".join(f"{reason}\n" for reason in chosen.reasons)

    check_golden(case, run)


def test_every_opt_that_is_ever_chosen_has_a_golden_case() -> None:
    shown = {
        opt.op
        for case in CASES
        for opt in choose(parse_graph(case.before), TARGETS[case.pass_name]).opts
    }
    assert shown == set(OptOp) - {OptOp.GROUPTOP, OptOp.NOLOCALS}


PRODUCT = """
%m = RANGE index 6 [0, LOOP]
%n = RANGE index 64 [1, LOOP]
%k = RANGE index 32 [2, REDUCE]
%out = PARAM f32 [0, 384]
%a = PARAM f32 [1, 192]
%b = PARAM f32 [2, 2048]
%sum = REDUCE f32 %a[%m * 32 + %k] * %b[%k * 64 + %n], %k [ADD]
%store = STORE %out[%m * 64 + %n], %sum
%end = END %store, %m, %n
SINK %end ["kernel"]
"""


def test_facts_say_how_accesses_move_and_how_often_operands_are_used() -> None:
    facts = make_facts(parse_graph(PRODUCT), AVX2)
    m, n, k = facts.axes
    (reduction,) = facts.reductions
    assert (facts.results, reduction.loops) == ((m, n), (k,))
    a, b = reduction.operands
    assert [[x.stride(r) for r in (m, n, k)] for x in (a, b)] == [[32, 0, 1], [0, 1, 64]]
    assert (reduction.reuse(a), reduction.reuse(b)) == (64, 6)
    assert (facts.is_stored_along(m), facts.is_stored_along(n)) == (False, True)
    # The loops over results store, and those with the reduced one multiply.
    assert facts.work == 6 * 64 + 6 * 64 * 32
    assert [facts.name(r) for r in (m, n, k)] == [
        "axis 0 (6)",
        "axis 1 (64)",
        "reduced axis 0 (32)",
    ]


def test_a_proposal_is_taken_whole_or_not_at_all() -> None:
    kernel = parse_graph(PRODUCT)
    scheduler, (m, n, _) = Scheduler(kernel, AVX2), make_facts(kernel, AVX2).axes
    refused = Proposal("members", (Move(OptOp.PADTO, m, 4), Move(OptOp.LOCAL, m, 4)))
    taken = Proposal("lanes", (Move(OptOp.SWAP, m, other=n), Move(OptOp.UPCAST, n, 8)))
    (reason,) = answer(scheduler, [[refused, taken], [refused]])
    assert str(reason) == "SWAP(0, 1) UPCAST(0, 8): lanes"
    assert scheduler.finish() is apply_opts(kernel, AVX2, reason.opts)


def test_reasons_change_no_kernel() -> None:
    kernel = parse_graph(PRODUCT)
    noted: list[Reason] = []
    sink = run_pipeline("optimize", kernel, Context(target=AVX2, note_reasons=noted.extend))
    assert tuple(noted) == choose(kernel, AVX2).reasons
    assert sink is run_pipeline("optimize", kernel, Context(target=AVX2))
