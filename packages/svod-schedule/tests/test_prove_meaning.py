"""What z3 is told an op means, against the reference meaning, for every op and dtype."""

from __future__ import annotations

from random import Random

import pytest

from svod_dtype import INTEGER_DTYPES, DType, bool_, index, int8, int32, uint8, uint64
from svod_ir import AxisType, Op, UOp
from svod_ir.evaluate import evaluate
from svod_ir.ops import COMPARISON, TABLE, count_operands, takes
from svod_ir.testing.nodes import param, reduce_over

z3 = pytest.importorskip("z3")

from svod_schedule.prove.bits import TRANSLATED, Bits  # noqa: E402
from svod_schedule.prove.integers import Integers  # noqa: E402
from svod_schedule.prove.solve import decide_equal  # noqa: E402
from svod_schedule.prove.terms import Meaning, Untranslated  # noqa: E402
from svod_schedule.prove.translate import Translation  # noqa: E402

DTYPES = (bool_, *INTEGER_DTYPES, index)
OPS = sorted((op for op, row in TABLE.items() if row.is_proved), key=lambda op: op.value)
MEANINGS = (Bits, Integers)


def draw(random: Random, dtype: DType) -> int:
    low, high = int(dtype.min), int(dtype.max)
    near = [v for v in (low, low + 1, high - 1, high, 0, 1, -1, 2, 3, 7, 8, 63) if low <= v <= high]
    return random.choice(
        (*near, random.randint(low, high), random.randint(max(low, -20), min(high, 20)))
    )


def value_in(meaning: Meaning, root: UOp) -> int | None:
    """The value that a meaning gives a graph of constants; None where it assumes the graph away."""
    (term,) = Translation(meaning).to_terms(root)
    if any(z3.is_false(z3.simplify(a)) for a in meaning.assumed):
        return None
    found = z3.simplify(meaning.raw(term))
    if root.dtype.is_bool:
        return int(z3.is_true(found))
    if z3.is_int_value(found):
        return found.as_long()
    return found.as_signed_long() if root.dtype.is_signed else found.as_long()


def assert_agrees(meaning: type[Meaning], root: UOp) -> bool:
    """Whether the meaning has a term for the node; where it has, and nothing is assumed away,
    values must agree.
    """
    try:
        found = value_in(meaning(), root)
    except Untranslated:
        return False
    assert found is None or found == int(evaluate(root)), (
        f"{meaning.__name__}: {root.op} {[s.arg for s in root.src]}"
    )
    return True


@pytest.mark.parametrize("meaning", MEANINGS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_op_means_what_evaluate_says(dtype: DType, meaning: type[Meaning]) -> None:
    random = Random(f"{dtype}")
    for op in OPS:
        if not takes(op, dtype):
            continue
        n_operands = count_operands(op)
        result = bool_ if op in COMPARISON else dtype
        translated = []
        for _ in range(25):
            operands = tuple(UOp.const(dtype, draw(random, dtype)) for _ in range(n_operands))
            translated.append(assert_agrees(meaning, UOp(op, result, operands)))
        if meaning is Bits and op not in (Op.POW, Op.MULACC):
            assert all(translated), op


@pytest.mark.parametrize("meaning", MEANINGS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_conversion_means_what_evaluate_says(source: DType, meaning: type[Meaning]) -> None:
    random = Random(f"{source}")
    for target in DTYPES:
        for op in (Op.CAST, Op.BITCAST):
            if op is Op.BITCAST and (source.bits != target.bits or bool_ in (source, target)):
                continue
            for _ in range(12):
                root = UOp(op, target, (UOp.const(source, draw(random, source)),))
                assert assert_agrees(meaning, root)


def test_the_table_of_ops_lists_the_ops_of_the_prover() -> None:
    assert {op for op, row in TABLE.items() if row.is_proved} == TRANSLATED


def test_a_loop_is_the_sum_of_its_iterations() -> None:
    n = UOp.variable("n", 0, 4)
    r = UOp.range(n, 0, AxisType.REDUCE)
    total = reduce_over(r, r)
    # n * (n - 1) // 2
    gauss = (n * (n - 1)) // 2
    assert decide_equal(total, gauss).verdict == "equal"
    wrong = decide_equal(total, n)
    assert wrong.verdict == "different"
    assert wrong.values[n] not in (0, 3)


def test_memory_is_a_function_of_the_position_and_a_closed_gate_gives_zero() -> None:
    memory = param(0, 64, int32)
    i, open_ = UOp.variable("i", 0, 9), UOp.variable("g", 0, 1, bool_)
    read, gated = UOp(Op.INDEX, int32, (memory, i)), UOp(Op.INDEX, int32, (memory, i, open_))
    assert decide_equal(gated, open_.where(read, UOp.const(int32, 0))).verdict == "equal"
    assert decide_equal(gated, read).verdict == "different"


def test_an_index_does_not_overflow_but_what_a_rule_makes_of_it_may() -> None:
    x = UOp.variable("x", 0, 1 << 40)
    assert decide_equal(x // (1 << 40), x // (1 << 20) // (1 << 20)).verdict == "equal"
    # 2**41 * 2**23 wraps to 0.
    assert decide_equal(x, x * (1 << 41) * (1 << 23) // 2).verdict == "different"


def test_equal_wide_products_and_divisions_are_decided() -> None:
    x = UOp.variable("x", int(uint64.min), int(uint64.max), uint64)
    assert decide_equal(x // 12, x // 4 // 3).verdict == "equal"
    s = UOp.variable("s", -128, 127, int8)
    assert decide_equal((s + 1) // 2, s // 2).verdict == "different"
    u = UOp.variable("u", 0, 255, uint8)
    assert decide_equal((u * 2) // 2, u).verdict == "different"
