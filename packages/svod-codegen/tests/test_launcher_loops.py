"""Tables with loops: each does what a slow interpreter of the same loops does, whatever threads,
signals and forks do.
"""

from __future__ import annotations

import ctypes
import random
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from svod_codegen.launcher import CpuBatchLauncher, CpuProgram, Pool
from svod_codegen.launcher.ir import Parking, PoolLayout
from svod_codegen.launcher.pool import get_parking
from svod_codegen.llvm.cached import default_compiler
from svod_device import BatchItem, CompiledSpec, Launch, LoopCarried, LoopSlice, Move, Repeat, Word
from svod_ir.testing import run_in_threads, run_script

AFFINE = """\
define void @affine(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
  %out = load ptr, ptr %buffers
  %in_at = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %in_at
  %scale = load i64, ptr %values
  %shift_at = getelementptr i64, ptr %values, i64 1
  %shift = load i64, ptr %shift_at
  %from = getelementptr i64, ptr %in, i64 %core_id
  %old = load i64, ptr %from
  %scaled = mul i64 %old, %scale
  %new = add i64 %scaled, %shift
  %to = getelementptr i64, ptr %out, i64 %core_id
  store i64 %new, ptr %to
  ret void
}
"""
"""out[part] = in[part] * scale + shift."""

ADD = """\
define void @add(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
  %out = load ptr, ptr %buffers
  %left_at = getelementptr ptr, ptr %buffers, i64 1
  %right_at = getelementptr ptr, ptr %buffers, i64 2
  %left = load ptr, ptr %left_at
  %right = load ptr, ptr %right_at
  %x_at = getelementptr i64, ptr %left, i64 %core_id
  %y_at = getelementptr i64, ptr %right, i64 %core_id
  %x = load i64, ptr %x_at
  %y = load i64, ptr %y_at
  %sum = add i64 %x, %y
  %to = getelementptr i64, ptr %out, i64 %core_id
  store i64 %sum, ptr %to
  ret void
}
"""
"""out[part] = left[part] + right[part]."""

LESS = """\
define void @less(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
  %out = load ptr, ptr %buffers
  %in_at = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %in_at
  %limit = load i64, ptr %values
  %x = load i64, ptr %in
  %is_less = icmp slt i64 %x, %limit
  %byte = zext i1 %is_less to i8
  store i8 %byte, ptr %out
  ret void
}
"""
"""A byte: in[0] < limit."""

SPIN = """\
define void @spin(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %n = load i64, ptr %values
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %x = phi i64 [1, %entry], [%odd, %loop]
  %square = mul i64 %x, %x
  %odd = add i64 %square, 2
  call void asm sideeffect "", "r"(i64 %odd)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
"""Iterations that wait for each other: a processor may run two empty ones in a cycle, but not two
of these in four.
"""


def load(source: str, name: str) -> CpuProgram:
    return CpuProgram.load(CompiledSpec(name, binary=default_compiler().compile_source(source)))


@dataclass(frozen=True)
class Kernels:
    affine: CpuProgram
    add: CpuProgram
    less: CpuProgram
    spin: CpuProgram


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(load(AFFINE, "affine"), load(ADD, "add"), load(LESS, "less"), load(SPIN, "spin"))


PARKINGS: list[Parking] = ["none", "condition", "futex"]


@pytest.fixture(
    params=[(parking, n) for parking in PARKINGS for n in (1, 3)], ids=lambda p: f"{p[0]}-{p[1]}"
)
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    parking, n_threads = request.param
    if parking != "none" and get_parking() not in (parking, "futex"):
        pytest.skip("threads cannot sleep in this way here")
    pool = Pool(n_threads, parking=parking)
    yield pool
    pool.stop()


@pytest.fixture
def launcher(pool: Pool) -> CpuBatchLauncher:
    return CpuBatchLauncher(pool)


def address(data: array[int], position: int = 0) -> int:
    return data.buffer_info()[0] + position * data.itemsize


def words(*addresses: int) -> array[int]:
    return array("Q", addresses)


def launch(
    program: CpuProgram,
    addresses: array[int],
    values: Sequence[int] = (),
    n_parts: int = 1,
    group: int = 0,
) -> Launch:
    return Launch(program, addresses, array("q", values), (n_parts, 1, 1), None, group)


def times(n: int) -> Word:
    return Word(array("q", [n]), 0)


def read(word: Word) -> int:
    return word.array[word.position] + word.offset


def write(word: Word, value: int) -> None:
    word.array[word.position] = value + word.offset


def run_slowly(items: Sequence[BatchItem]) -> None:
    """What a table of these items means."""
    for item in items:
        match item:
            case Launch():
                item.program(item.buffers, item.values, item.global_size)
            case Move():
                ctypes.memmove(read(item.destination), read(item.source), item.nbytes)
            case Repeat():
                repeat_slowly(item)


def repeat_slowly(loop: Repeat) -> None:
    count = (
        read(loop.count)
        if loop.count
        else ctypes.c_int64.from_address(read(loop.count_address)).value
    )  # type: ignore[arg-type]
    if loop.branch is not None:
        count = int(min(max(count, 0), loop.n_branches - 1) == loop.branch)
        if not count:
            return
    values = [
        (read(c.initial), read(c.result), read(c.result if c.spare is None else c.spare), c)
        for c in loop.carried
    ]
    for initial, result, spare, carried in values:
        if initial != result and (count <= 0 or spare == result):
            ctypes.memmove(result, initial, carried.nbytes)
    sources = [result if spare == result else initial for initial, result, spare, _ in values]
    bases = [read(part.base) for part in loop.slices]
    for t in range(count):
        for word in loop.counters:
            write(word, t)
        for base, part in zip(bases, loop.slices, strict=True):
            for word in part.words:
                write(word, base + (count - 1 - t if loop.is_reversed else t) * part.stride)
        for number, (initial, result, spare, carried) in enumerate(values):
            is_result = (t % 2 == 0) == (count % 2 == 1 and initial != result)
            target = result if is_result else spare
            for word in carried.reads:
                write(word, sources[number])
            for word in carried.writes:
                write(word, target)
            sources[number] = target
        run_slowly(loop.body)
        if loop.go_on is not None and not ctypes.c_uint8.from_address(read(loop.go_on)).value:
            break
    if count > 0:
        for source, (_, result, _, carried) in zip(sources, values, strict=True):
            if source != result:
                ctypes.memmove(result, source, carried.nbytes)


COUNTS = [-3, 0, 1, 2, 3, 7, 10, 1001]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("n_parts", [1, 4])
def test_a_value_is_carried_from_iteration_to_iteration(
    launcher: CpuBatchLauncher, kernels: Kernels, count: int, n_parts: int
):
    initial, result, spare = array("q", [5] * 4), array("q", [-1] * 4), array("q", [-2] * 4)
    step = launch(kernels.affine, words(0, 0), [1, 3], n_parts)
    outside = words(address(initial), address(result), address(spare))
    carried = LoopCarried(
        Word(outside, 0),
        Word(outside, 1),
        Word(outside, 2),
        8 * n_parts,
        (Word(step.buffers, 1),),
        (Word(step.buffers, 0),),
    )
    table = launcher.make_table([Repeat((step,), 0, times(count), carried=(carried,))])
    for _ in range(2):
        launcher.run(table)
        assert result[:n_parts].tolist() == [5 + 3 * max(count, 0)] * n_parts
        assert initial.tolist() == [5] * 4
    # A known number of iterations ends in the result by itself: one iteration never touches the
    # spare.
    assert (spare[0] == -2) == (count <= 1)


@pytest.mark.parametrize("count", COUNTS)
def test_a_result_that_is_the_initial_value_is_read_before_it_is_written(
    launcher: CpuBatchLauncher, kernels: Kernels, count: int
):
    value, spare, delayed = array("q", [1]), array("q", [-2]), array("q", [0])
    # Writes its result first and reads what it carries afterwards.
    first, second = (
        launch(kernels.affine, words(0, 0), [1, 1]),
        launch(kernels.affine, words(address(delayed), 0), [1, 0], 1, 1),
    )
    outside = words(address(value), address(value), address(spare))
    carried = LoopCarried(
        Word(outside, 0),
        Word(outside, 1),
        Word(outside, 2),
        8,
        (Word(first.buffers, 1), Word(second.buffers, 1)),
        (Word(first.buffers, 0),),
    )
    launcher.run(
        launcher.make_table([Repeat((first, second), 0, times(count), carried=(carried,))])
    )
    assert value[0] == 1 + max(count, 0)
    assert delayed[0] == max(count, 0)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("is_same", [False, True])
def test_a_carried_value_is_updated_in_place(
    launcher: CpuBatchLauncher, kernels: Kernels, count: int, is_same: bool
):
    initial, result = array("q", [5]), array("q", [-1])
    step = launch(kernels.affine, words(0, 0), [1, 3])
    outside = words(address(result if is_same else initial), address(result))
    carried = LoopCarried(
        Word(outside, 0),
        Word(outside, 1),
        None,
        8,
        (Word(step.buffers, 1),),
        (Word(step.buffers, 0),),
    )
    launcher.run(launcher.make_table([Repeat((step,), 0, times(count), carried=(carried,))]))
    assert result[0] == (-1 if is_same else 5) + 3 * max(count, 0)
    assert initial[0] == 5


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_iterations_take_and_fill_slices(
    launcher: CpuBatchLauncher, kernels: Kernels, count: int, is_reversed: bool
):
    n = max(count, 0)
    xs, sums, total, spare = (
        array("q", range(2 * n + 2)),
        array("q", [0]) * (n + 1),
        array("q", [0]),
        array("q", [0]),
    )
    order = array("q", [0]) * (n + 1)
    step = launch(kernels.add, words(0, 0, 0))
    copy = Move(Word(words(0), 0), Word(step.buffers, 0), 8, 1)
    number = launch(kernels.affine, words(0, address(xs)), [0, -1], 1, 2)
    outside = words(
        address(array("q", [0])),
        address(total),
        address(spare),
        address(xs),
        address(sums),
        address(order),
    )
    zero = array("q", [0])
    outside[0] = address(zero)
    carried = LoopCarried(
        Word(outside, 0),
        Word(outside, 1),
        Word(outside, 2),
        8,
        (Word(step.buffers, 1),),
        (Word(step.buffers, 0),),
    )
    slices = (
        LoopSlice(
            Word(outside, 3, 8), 16, (Word(step.buffers, 2, 8),)
        ),  # every second one, from the third on
        LoopSlice(Word(outside, 4), 8, (copy.destination,)),
        LoopSlice(Word(outside, 5), 8, (Word(number.buffers, 0),)),
    )
    loop = Repeat(
        (step, copy, number),
        0,
        times(count),
        counters=(Word(number.values, 1),),
        slices=slices,
        carried=(carried,),
        is_reversed=is_reversed,
    )
    launcher.run(launcher.make_table([loop]))
    taken = [xs[2 + 2 * t] for t in range(n)]
    steps = range(n)[::-1] if is_reversed else range(n)
    expected = [0] * n
    running = 0
    for t in steps:
        running += taken[t]
        expected[t] = running
    assert total[0] == sum(taken)
    assert sums.tolist() == [*expected, 0]
    assert order[:n].tolist() == list(steps)


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 10_000])
@pytest.mark.parametrize("count", [0, 1, 2, 8, 2**31 - 1, 2**63 - 1])
def test_a_loop_ends_after_the_iteration_whose_condition_is_false(
    launcher: CpuBatchLauncher, kernels: Kernels, limit: int, count: int
):
    initial, result, spare, flag = (
        array("q", [0]),
        array("q", [-1]),
        array("q", [-2]),
        array("B", [77]),
    )
    step = launch(kernels.affine, words(0, 0), [1, 1])
    ask = launch(kernels.less, words(address(flag), 0), [limit], 1, 1)
    outside = words(address(initial), address(result), address(spare))
    carried = LoopCarried(
        Word(outside, 0),
        Word(outside, 1),
        Word(outside, 2),
        8,
        (Word(step.buffers, 1),),
        (Word(step.buffers, 0), Word(ask.buffers, 1)),
    )
    loop = Repeat((step, ask), 0, times(count), carried=(carried,), go_on=Word(ask.buffers, 0))
    launcher.run(launcher.make_table([loop]))
    assert result[0] == min(max(limit, 1), count)


def test_a_count_in_memory_is_read_when_the_loop_begins(
    launcher: CpuBatchLauncher, kernels: Kernels
):
    count, total = array("q", [99, 4]), array("q", [0])
    # The first kernel doubles the count that the loop reads behind it.
    double = launch(kernels.affine, words(address(count, 1), address(count, 1)), [2, 0])
    step = launch(kernels.affine, words(address(total), address(total)), [1, 1])
    loop = Repeat((step,), 1, count_address=Word(words(address(count)), 0, 8))
    table = launcher.make_table([double, loop])
    launcher.run(table)
    assert total[0] == 8
    launcher.run(table)
    assert total[0] == 24
    count[1] = -100
    launcher.run(table)
    assert total[0] == 24


@pytest.mark.parametrize(
    ("index", "taken"), [(-(2**62), 0), (-1, 0), (0, 0), (1, 1), (2, 2), (3, 2), (2**40, 2)]
)
@pytest.mark.parametrize("is_in_memory", [False, True])
def test_a_switch_runs_one_branch(
    launcher: CpuBatchLauncher, kernels: Kernels, index: int, taken: int, is_in_memory: bool
):
    data, where = array("q", [1]), array("q", [index])
    branches: list[BatchItem] = []
    for number in range(3):
        step = launch(kernels.affine, words(0, 0), [10, number])
        outside = words(address(data), address(data))
        reads, writes = (Word(step.buffers, 1),), (Word(step.buffers, 0),)
        carried = LoopCarried(Word(outside, 0), Word(outside, 1), None, 8, reads, writes)
        given = (
            {"count_address": Word(words(address(where)), 0)}
            if is_in_memory
            else {"count": Word(where, 0)}
        )
        branches.append(
            Repeat((step,), 0, **given, branch=number, n_branches=3, carried=(carried,))
        )
    table = launcher.make_table(branches)
    launcher.run(table)
    assert data[0] == 10 + taken


def test_a_branch_not_taken_leaves_its_memory_unchanged(launcher: CpuBatchLauncher):
    initial, result = array("q", [1]), array("q", [2])
    outside = words(address(initial), address(result))
    carried = LoopCarried(Word(outside, 0), Word(outside, 1), None, 8, (), ())
    launcher.run(
        launcher.make_table([Repeat((), 0, times(1), branch=0, n_branches=2, carried=(carried,))])
    )
    assert result[0] == 2


def test_words_are_read_at_each_run(launcher: CpuBatchLauncher, kernels: Kernels):
    first, second = array("q", [1, 2, 3]), array("q", [10, 20, 30])
    step = launch(kernels.add, words(0, 0, 0))
    sums = [array("q", [0]) for _ in range(2)]
    outside, count = words(address(first), address(sums[0])), array("q", [3])
    loop = Repeat(
        (step,),
        0,
        Word(count, 0),
        slices=(LoopSlice(Word(outside, 0), 8, (Word(step.buffers, 2),)),),
        carried=(
            LoopCarried(
                Word(outside, 1),
                Word(outside, 1),
                None,
                8,
                (Word(step.buffers, 1),),
                (Word(step.buffers, 0),),
            ),
        ),
    )
    table = launcher.make_table([loop])
    launcher.run(table)
    assert [s[0] for s in sums] == [6, 0]
    outside[0], outside[1], count[0] = address(second), address(sums[1]), 2
    launcher.run(table)
    assert [s[0] for s in sums] == [6, 30]


def test_a_copy_to_its_own_source_has_no_effect(launcher: CpuBatchLauncher):
    data = array("q", [1, 2, 3])
    launcher.run(
        launcher.make_table(
            [Move(Word(words(address(data)), 0), Word(words(address(data)), 0), 24, 0)]
        )
    )
    assert data.tolist() == [1, 2, 3]


def test_a_loop_with_an_empty_body_ends(launcher: CpuBatchLauncher, kernels: Kernels):
    data = array("q", [1])
    step = launch(kernels.affine, words(address(data), address(data)), [1, 1], 1, 1)
    launcher.run(launcher.make_table([Repeat((), 0, times(1_000_000)), step]))
    assert data[0] == 2


SLOT = 4
"""Numbers that a launch of a random program works on at most."""
N_SLOTS = 18
N_BEHIND = 24
"""Slots behind those that are picked: slices of slices of slices reach there."""


class RandomProgram:
    """Nested loops over one arena, with everything that a loop may have."""

    def __init__(self, seed: int, kernels: Kernels) -> None:
        self.rng = random.Random(seed)
        self.kernels = kernels
        self.arena = array(
            "q", [self.rng.randrange(-9, 9) for _ in range((N_SLOTS + N_BEHIND) * SLOT)]
        )
        self.items = self.make_body(0, [])

    def pick(self) -> int:
        """The address of a slot."""
        return address(self.arena, SLOT * self.rng.randrange(N_SLOTS))

    def make_body(self, depth: int, free: list[Word]) -> list[BatchItem]:
        """Items, and to `free` the words of addresses that a loop around them may change."""
        rng, items = self.rng, []
        for group in range(rng.randint(1, 4)):
            match rng.randrange(6):
                case 0 | 1 | 2:
                    buffers = words(self.pick(), self.pick(), self.pick())
                    program = rng.choice([self.kernels.affine, self.kernels.add])
                    values = [rng.randrange(-3, 4), rng.randrange(-9, 9)]
                    items.append(
                        launch(program, buffers, values, rng.choice([1, 1, 1, 2, 4]), group)
                    )
                    free += [Word(buffers, position) for position in range(3)]
                case 3:
                    pair = words(self.pick(), self.pick())
                    items.append(Move(Word(pair, 0), Word(pair, 1), 8 * SLOT, group))
                    free += [Word(pair, 0), Word(pair, 1)]
                case _ if depth < 3:
                    items.append(self.make_loop(depth, group, free))
                case _:
                    pass
        return items

    def make_loop(self, depth: int, group: int, outside: list[Word]) -> Repeat:
        rng = self.rng
        free: list[Word] = []
        body = self.make_body(depth + 1, free)
        rng.shuffle(free)
        slices, carried = [], []
        count = rng.choice([-1, 0, 1, 2, 3, 5, 6])
        for _ in range(rng.randrange(3)):
            base = words(self.pick())
            outside.append(Word(base, 0))
            targets = tuple(
                free.pop()._replace(offset=8 * SLOT * rng.randrange(2)) for _ in free[:2]
            )
            slices.append(LoopSlice(Word(base, 0, 8 * SLOT * rng.randrange(2)), 8 * SLOT, targets))
        slots = rng.sample(range(N_SLOTS), 9)
        for number in range(rng.randrange(4)):
            places = words(
                *(address(self.arena, SLOT * slot) for slot in slots[3 * number : 3 * number + 3])
            )
            if rng.random() < 0.3:
                places[0] = places[1]
            targets = tuple(free.pop() for _ in free[: rng.randrange(4)])
            middle = rng.randint(0, len(targets))
            spare = Word(places, 2) if rng.random() < 0.7 else None
            initial, result = Word(places, 0), Word(places, 1)
            carried.append(
                LoopCarried(initial, result, spare, 8 * SLOT, targets[:middle], targets[middle:])
            )
        counters = tuple(
            Word(i.values, rng.randrange(2), rng.randrange(3))
            for i in body
            if isinstance(i, Launch)
        )[:2]
        loop = Repeat(
            tuple(body),
            group,
            Word(array("q", [count - 1]), 0, 1),
            counters=counters,
            slices=tuple(slices),
            carried=tuple(carried),
            is_reversed=rng.random() < 0.5,
        )
        if rng.random() < 0.3:
            loop = replace(loop, go_on=Word(words(self.pick()), 0, rng.randrange(3)))
        if rng.random() < 0.2:
            position = rng.randrange(1, SLOT)
            self.arena[-position] = count
            loop = replace(
                loop,
                count=None,
                count_address=Word(words(address(self.arena)), 0, 8 * (len(self.arena) - position)),
            )
        if rng.random() < 0.2:
            loop = replace(loop, branch=rng.randrange(3), n_branches=3)
        return loop


def test_random_nested_loops_match_a_slow_interpreter(kernels: Kernels):
    pool = Pool(2)
    launcher = CpuBatchLauncher(pool)
    for seed in range(1000):
        program = RandomProgram(seed, kernels)
        if not program.items:
            continue
        before = program.arena[:]
        table = launcher.make_table(program.items)
        run_slowly(program.items)
        expected = program.arena.tolist()
        for _ in range(2):
            program.arena[:] = before
            launcher.run(table)
            assert program.arena.tolist() == expected, seed
    pool.stop()


def make_sum(kernels: Kernels, n_outer: int, n_parts: int = 1) -> tuple[Repeat, array[int]]:
    """Three loops in each other that count their iterations together: n_outer * 3 * 5."""
    total = array("q", [0] * 4)
    step = launch(kernels.affine, words(address(total), address(total)), [1, 1], n_parts)
    inner = Repeat((step,), 0, times(5))
    middle = Repeat((inner,), 0, times(3))
    return Repeat((middle,), 0, times(n_outer)), total


def test_loops_run_from_several_threads_at_once(kernels: Kernels):
    pool = Pool(3)
    launcher = CpuBatchLauncher(pool)
    made = [make_sum(kernels, 200, n_parts) for n_parts in (1, 4, 4, 1)]

    def work(number: int) -> None:
        table = launcher.make_table([made[number][0]])
        for _ in range(20):
            launcher.run(table)

    run_in_threads(*(lambda number=number: work(number) for number in range(len(made))))
    pool.stop()
    assert [total.tolist() for _, total in made] == [
        [60_000, 0, 0, 0],
        [60_000] * 4,
        [60_000] * 4,
        [60_000, 0, 0, 0],
    ]


def test_a_long_loop_returns_to_python_and_is_resumed(pool: Pool, kernels: Kernels):
    calls: list[int] = []
    run_loops = pool.run_loops

    def count_calls(*arguments: object) -> int:
        calls.append(run_loops(*arguments))  # type: ignore[arg-type]
        return calls[-1]

    pool.run_loops = count_calls  # type: ignore[assignment]
    launcher = CpuBatchLauncher(pool)
    total = array("q", [0])
    xs, seen = array("q", range(100)), array("q", [0])
    spin = launch(kernels.spin, words(), [150_000])
    step = launch(kernels.affine, words(address(total), address(total)), [1, 1], 1, 1)
    look = launch(kernels.affine, words(address(seen), 0), [1, 0], 1, 2)
    inner = Repeat((spin, step), 0, times(10))
    slices = (LoopSlice(Word(words(address(xs)), 0), 8, (Word(look.buffers, 1),)),)
    launcher.run(launcher.make_table([Repeat((inner, look), 0, times(100), slices=slices)]))
    assert (total[0], seen[0]) == (1000, 99)
    assert calls[-1] == 0 and 1 < len(calls) < 1000
    assert set(calls[:-1]) == {1}


def test_short_loops_are_one_foreign_call(kernels: Kernels):
    pool = Pool(1)
    calls: list[int] = []
    run_loops = pool.run_loops
    pool.run_loops = lambda *arguments: calls.append(run_loops(*arguments)) or calls[-1]  # type: ignore[assignment]
    loop, total = make_sum(kernels, 10)
    CpuBatchLauncher(pool).run(CpuBatchLauncher(pool).make_table([loop]))
    assert (calls, total[0]) == ([0], 150)


def test_kernels_of_one_part_start_and_wake_no_workers(kernels: Kernels):
    pool = Pool(3)
    launcher = CpuBatchLauncher(pool)
    loop, _ = make_sum(kernels, 1000)
    launcher.run(launcher.make_table([loop]))
    assert pool.n_workers == 0


@pytest.mark.skipif(get_parking() == "none", reason="no workers here")
def test_workers_fall_asleep_while_a_loop_runs_kernels_of_one_part(kernels: Kernels):
    pool = Pool(3)
    launcher = CpuBatchLauncher(pool)
    counter, flag = array("q", [0]), array("B", [1])
    parallel = launch(kernels.spin, words(), [1], 3)
    spin = launch(kernels.spin, words(), [1000])
    loop = Repeat(
        (spin,),
        1,
        times(2**62),
        counters=(Word(counter, 0),),
        go_on=Word(words(flag.buffer_info()[0]), 0),
    )
    table = launcher.make_table([parallel, loop])
    thread = threading.Thread(target=launcher.run, args=(table,))
    thread.start()
    try:
        tick = threading.Event()
        while not (pool.n_workers and pool.n_sleeping == pool.n_workers):
            tick.wait(0.002)
        # Whoever wakes them changes the word that they wait on.
        sequence, before = pool._words[PoolLayout.SEQUENCE // 8], counter[0]
        while counter[0] < before + 1000:
            tick.wait(0.002)
        assert pool._words[PoolLayout.SEQUENCE // 8] == sequence
        assert thread.is_alive()
    finally:
        flag[0] = 0
        thread.join()
        pool.stop()


def test_arrays_and_programs_live_as_long_as_the_table(kernels: Kernels):
    launcher = CpuBatchLauncher(Pool(1))
    result = array("q", [0])

    def make() -> object:
        step = launch(load(AFFINE, "affine"), words(0, 0), [1, 1])
        outside = words(address(result))
        carried = LoopCarried(
            Word(outside, 0),
            Word(outside, 0),
            None,
            8,
            (Word(step.buffers, 1),),
            (Word(step.buffers, 0),),
        )
        return launcher.make_table(
            [Repeat((Repeat((step,), 0, times(3), carried=(carried,)),), 0, times(2))]
        )

    table = make()
    junk = [array("q", [7] * 4) for _ in range(1000)]
    launcher.run(table)
    assert result[0] == 6
    del junk


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Repeat((), 0), "either a count or the address"),
        (lambda: Repeat((), 0, times(1), times(1)), "either a count or the address"),
        (lambda: Repeat((), 0, Word(array("q"), 0)), "no 64-bit word 0 in an array of 0 items"),
        (
            lambda: Repeat((), 0, Word(array("b", [1]), 0)),
            "no 64-bit word 0 in an array of 1 items",
        ),
        (
            lambda: Repeat((), 0, times(1), counters=(Word(array("q", [1]), -1),)),
            "no 64-bit word -1",
        ),
    ],
)
def test_a_malformed_loop_is_refused(make: Callable[[], Repeat], match: str):
    with pytest.raises(ValueError, match=match):
        CpuBatchLauncher().make_table([make()])


SCRIPT_HEAD = f"""\
import os, signal, threading
from array import array
from svod_codegen.launcher import CpuBatchLauncher, CpuProgram, get_pool
from svod_codegen.llvm.cached import default_compiler
from svod_device import CompiledSpec, Launch, LoopCarried, Repeat, Word
program = CpuProgram.load(CompiledSpec("affine", binary=default_compiler().compile_source({AFFINE!r})))
launcher = CpuBatchLauncher()
total, counter, count = array("q", [0] * 4), array("q", [0]), array("q", [0])
address = total.buffer_info()[0]
values = array("q", [1, 1])
step = Launch(program, array("Q", [address, address]), values, (N_PARTS, 1, 1), None, 0)
inner = Repeat((step,), 0, Word(array("q", [3]), 0))
table = launcher.make_table([Repeat((inner,), 0, Word(count, 0), counters=(Word(counter, 0),))])
"""


@pytest.mark.parametrize("n_parts", [1, 4])
def test_an_interrupt_ends_a_loop_between_iterations_and_the_table_runs_again_from_its_start(
    n_parts: int,
):
    out = run_script(
        SCRIPT_HEAD.replace("N_PARTS", str(n_parts))
        + """
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell turns off in the background
def interrupt():
    while counter[0] < 100:
        pass
    os.kill(os.getpid(), signal.SIGINT)
for _ in range(3):
    count[0], counter[0] = 2**62, 0
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        launcher.run(table)
    except KeyboardInterrupt:
        print("interrupted")
    thread.join()
    reached = total[0]
    print(reached >= 300, counter[0] >= 100)
    total[0], count[0] = 0, 7
    launcher.run(table)
    print(total[0], counter[0])
    total[0] = 0
""",
        environment={"SVOD_THREADS": "3"},
    )
    assert out.splitlines() == ["interrupted", "True True", "21 6"] * 3


def test_the_child_of_a_fork_runs_loops_that_its_parent_is_in(kernels: Kernels):
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("no fork here")
    out = run_script(
        SCRIPT_HEAD.replace("N_PARTS", "4")
        + """
count[0] = 2**62
own = array("q", [50])
stop = threading.Event()
(thread,) = start_threads(lambda: launcher.run(table))
while counter[0] < 10:
    pass
mine = array("q", [0] * 4)
at = mine.buffer_info()[0]
again = Launch(program, array("Q", [at, at]), values, (4, 1, 1), None, 0)
other = launcher.make_table([Repeat((again,), 0, Word(own, 0))])
def work():
    launcher.run(other)
    return mine.tolist() != [50] * 4
for _ in range(10):
    print(run_in_child(work))
print(flush=True)
os._exit(0)
""",
        environment={"SVOD_THREADS": "3"},
    )
    assert out.split() == ["0"] * 10


def test_python_threads_run_while_a_loop_runs(kernels: Kernels):
    counter = array("q", [0])
    spin = launch(kernels.spin, words(), [1000])
    flag = array("B", [1])
    loop = Repeat(
        (spin,),
        0,
        times(2**62),
        counters=(Word(counter, 0),),
        go_on=Word(words(flag.buffer_info()[0]), 0),
    )
    launcher = CpuBatchLauncher(Pool(1))
    table = launcher.make_table([loop])
    thread = threading.Thread(target=launcher.run, args=(table,))
    thread.start()
    while counter[0] < 10:
        pass
    flag[0] = 0
    thread.join()
    assert counter[0] >= 10
