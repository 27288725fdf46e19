"""Fakes: kernels as Python functions on arrays, batch launchers, and builders of small plans
and of loops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from svod_device import (
    BatchItem,
    Buffer,
    Dims,
    HostAllocator,
    Launch,
    LaunchSizes,
    Move,
    ProgramSpec,
    Repeat,
    Variable,
    Word,
)
from svod_device.host_memory import copy_host, view_host
from svod_dtype import DType, float32
from svod_ir import UOp
from svod_runtime import (
    Binding,
    CachedKernel,
    Carried,
    CarriedIn,
    CarriedOut,
    ExecutionPlan,
    ExecutionPlanBuilder,
    LoopBody,
    PlannerMode,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
    Slice,
    Whole,
)
from svod_runtime.ops.custom_functions import clear_custom_functions

Array = npt.NDArray[np.float32]
Body = Callable[..., None]


class FakeProgram:
    """Program that calls a Python function with the first bytes of its buffers as arrays, and logs
    each call.
    """

    entry: int | None = None

    def __init__(
        self,
        name: str,
        body: Body,
        log: list[tuple[str, Dims]],
        shapes: Sequence[tuple[int, DType]],
    ) -> None:
        self.name, self.body, self.log, self.shapes = name, body, log, shapes

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        self.log.append((self.name, global_size))
        arrays = [
            np.frombuffer(view_host(address, size * dtype.nbytes, None), dtype.numpy)
            for address, (size, dtype) in zip(buffers, self.shapes, strict=True)
        ]
        self.body(*arrays, *values)


class FakeLauncher:
    """A batch launcher that runs its launches in order and keeps its tables."""

    def __init__(self) -> None:
        self.tables: list[list[Launch]] = []
        self.n_runs = 0

    def make_table(self, launches: Sequence[Launch]) -> object:
        self.tables.append(list(launches))
        return self.tables[-1]

    def run(self, table: object) -> None:
        self.n_runs += 1
        assert isinstance(table, list)
        for launch in table:
            launch.program(launch.buffers, launch.values, launch.global_size, launch.local_size)


class LoopingLauncher(FakeLauncher):
    """Batch launcher that runs loops: reference semantics of `Repeat` and `Move`."""

    runs_loops = True

    def run(self, table: object) -> None:
        self.n_runs += 1
        assert isinstance(table, list)
        _run_items(table)


def _run_items(items: Sequence[BatchItem]) -> None:
    assert [item.group for item in items] == sorted(item.group for item in items)
    for item in items:
        match item:
            case Launch():
                item.program(item.buffers, item.values, item.global_size, item.local_size)
            case Move():
                _move(_read(item.destination), _read(item.source), item.nbytes)
            case Repeat():
                _run_repeat(item)


def _run_repeat(repeat: Repeat) -> None:
    if repeat.count is None:
        assert repeat.count_address is not None
        count = int(np.frombuffer(view_host(_read(repeat.count_address), 8, None), np.int64)[0])
    else:
        count = _read(repeat.count)
    if repeat.branch is not None:
        if min(max(count, 0), repeat.n_branches - 1) != repeat.branch:
            return
        count = 1
    values = [
        (value, _read(value.initial), _read(value.result), _read(value.spare or value.result))
        for value in repeat.carried
    ]
    states: list[tuple[int, int]] = []
    for value, initial, result, spare in values:
        if spare == result:
            _move(result, initial, value.nbytes)
        states.append(
            (
                result if spare == result else initial,
                spare if count % 2 == 0 or initial == result else result,
            )
        )
    bases = [_read(part.base) for part in repeat.slices]
    for number in range(count):
        for (value, *_), (source, target) in zip(values, states, strict=True):
            _write(value.reads, source)
            _write(value.writes, target)
        at = count - 1 - number if repeat.is_reversed else number
        for part, base in zip(repeat.slices, bases, strict=True):
            _write(part.words, base + at * part.stride)
        _write(repeat.counters, number)
        _run_items(repeat.body)
        states = [
            (target, spare if target == result else result)
            for (_, _, result, spare), (_, target) in zip(values, states, strict=True)
        ]
        if repeat.go_on is not None and not view_host(_read(repeat.go_on), 1, None)[0]:
            break
    for (value, _, result, _), (source, _) in zip(values, states, strict=True):
        _move(result, source, value.nbytes)


def _read(word: Word) -> int:
    return word.array[word.position] + word.offset


def _write(words: Sequence[Word], value: int) -> None:
    for word in words:
        word.array[word.position] = value + word.offset


def _move(destination: int, source: int, nbytes: int) -> None:
    if destination != source:
        copy_host(destination, source, nbytes)


class Plans:
    """Builds plans over float32 buffers; a buffer's AST id is 100 + its index."""

    def __init__(self) -> None:
        self.allocator = HostAllocator()
        self.builder = ExecutionPlanBuilder("CPU")
        self.log: list[tuple[str, Dims]] = []
        self.buffers: list[Buffer] = []
        self.kernels: list[CachedKernel] = []
        self.ids = iter(range(1, 1000))
        self.default_launcher: FakeLauncher | None = None
        self.sees_all = False

    def buffer(self, size: int = 4, fill: float = 0.0) -> int:
        buffer = Buffer(self.allocator, float32, size)
        buffer.copyin(np.full(size, fill, np.float32))
        return self.add(buffer)

    def add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return self.builder.add_buffer(100 + len(self.buffers) - 1, buffer)

    def intermediate(self, size: int = 4) -> int:
        """Intermediate, which is allocated with the plan."""
        return self.add(Buffer(self.allocator, float32, size))

    def view(self, base: int, start: int, size: int, dtype: DType = float32) -> int:
        return self.add(self.buffers[base].view(4 * start, 4 * size, dtype))

    def kernel(
        self,
        body: Body,
        outs: Sequence[int],
        ins: Sequence[int] = (),
        *,
        name: str | None = None,
        op_id: int | None = None,
        variables: Sequence[Variable] = (),
        values: Sequence[int] = (),
        fixedvars: Mapping[str, int] | None = None,
        dependencies: Sequence[int] = (),
        global_size: LaunchSizes = (1, 1, 1),
        launcher: FakeLauncher | None = None,
        is_safe: bool = True,
        n_operations: int = 0,
        n_bytes: int = 0,
        device: str = "CPU",
    ) -> PreparedKernel:
        """A kernel whose function gets the outputs, then the inputs, then the variables."""
        op_id = next(self.ids) if op_id is None else op_id
        name = name or f"k{op_id}"
        n = len(outs) + len(ins)
        taken = [self.buffers[i] for i in (*outs, *ins)]
        shapes = self.shapes_of(taken)
        spec = ProgramSpec(
            name,
            f"source of {name}",
            device,
            variables=tuple(variables),
            var_names=tuple(v.name for v in variables if v.name != "core_id"),
            globals=tuple(range(n)),
            outs=tuple(range(len(outs))),
            ins=tuple(range(len(outs), n)),
            global_size=global_size,
            n_operations=n_operations,
            n_bytes=n_bytes,
        )
        kernel = CachedKernel(
            FakeProgram(name, body, self.log, shapes),
            spec,
            launcher or self.default_launcher,
            is_safe,
        )
        self.kernels.append(kernel)
        return PreparedKernel(
            op_id,
            kernel,
            device,
            (*outs, *ins),
            tuple(range(len(outs))),
            tuple(values),
            dict(fixedvars or {}),
            tuple(dependencies),
        )

    def shapes_of(self, taken: Sequence[Buffer]) -> list[tuple[int, DType]]:
        """Shapes of a kernel's arguments: whole buffers, or the smallest size if all are floats."""
        if self.sees_all or any(buffer.dtype is not float32 for buffer in taken):
            return [(buffer.size, buffer.dtype) for buffer in taken]
        size = min((buffer.size for buffer in taken), default=1)
        return [(size, float32) for _ in taken]

    def op(self, op: PreparedOp, after: Sequence[int] = ()) -> int:
        return self.builder.add_op(op, after)

    def build(self, *outputs: int) -> ExecutionPlan:
        self.builder.set_output_buffers(outputs or [0])
        return self.builder.build()

    def plan(self, mode: PlannerMode, *outputs: int) -> ExecutionPlan:
        """Plan with all allocated buffers as inputs; the other buffers share memory."""
        self.builder.set_output_buffers(outputs)
        inputs = [buffer for buffer in self.buffers if buffer.is_allocated]
        return self.builder.build_template(inputs, planner=mode).bind(inputs)

    def names(self) -> list[str]:
        """The kernels that ran, in order."""
        return [name for name, _ in self.log]

    def read(self, index: int) -> list[float]:
        return self.buffers[index].as_numpy().tolist()

    def body(self) -> Loops:
        """The body of a loop over this plan's buffers, or over the local buffers of this body."""
        return Loops(self)

    @staticmethod
    def launcher() -> FakeLauncher:
        return FakeLauncher()

    @staticmethod
    def looping_launcher() -> LoopingLauncher:
        return LoopingLauncher()

    @staticmethod
    def add_one(out: Array, source: Array) -> None:
        out[:] = source + 1

    @staticmethod
    def fill(value: float) -> Body:
        def body(out: Array) -> None:
            out[:] = value

        return body


class Loops(Plans):
    """Builds the body of a loop in a plan, or in another body. Kernels see all of their buffers."""

    def __init__(self, around: Plans) -> None:
        super().__init__()
        self.log, self.ids, self.default_launcher = around.log, around.ids, around.default_launcher
        self.around, self.sees_all = around, True
        self.operands: list[int] = []
        self.outputs: list[int] = []
        self.bindings: dict[int, Binding] = {}
        self.values: list[Carried] = []
        self.ops: list[PreparedOp] = []

    def add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def operand(self, index: int, *, is_written: bool = False) -> int:
        """The position of an operand."""
        self.operands.append(index)
        if is_written:
            self.outputs.append(len(self.operands) - 1)
        return len(self.operands) - 1

    def bind(self, size: int, binding: Binding, dtype: DType = float32) -> int:
        local = self.add(Buffer(self.allocator, dtype, size))
        self.bindings[local] = binding
        return local

    def whole(self, index: int) -> int:
        buffer = self.around.buffers[index]
        return self.bind(buffer.size, Whole(self.operand(index)), buffer.dtype)

    def slice(self, index: int, size: int, *, is_written: bool = False) -> int:
        position = self.operand(index, is_written=is_written)
        return self.bind(size, Slice(position), self.around.buffers[index].dtype)

    def carry(self, initial: int, result: int, spare: int | None = None) -> tuple[int, int]:
        """Local buffers of a carry: input and output of an iteration."""
        buffer, number = self.around.buffers[initial], len(self.values)
        first = self.operand(initial)
        last = self.operand(result, is_written=True)
        other = None if spare is None else self.operand(spare, is_written=True)
        self.values.append(Carried(first, last, other))
        into = self.bind(buffer.size, CarriedIn(number), buffer.dtype)
        return into, into if spare is None else self.bind(
            buffer.size, CarriedOut(number), buffer.dtype
        )

    def op(self, op: PreparedOp, after: Sequence[int] = ()) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def loop(
        self,
        count: UOp | int | None,
        *,
        count_position: int | None = None,
        counter: str | None = None,
        is_reversed: bool = False,
        go_on: int | None = None,
        branch: int | None = None,
        n_branches: int = 0,
    ) -> PreparedLoop:
        bindings = tuple(self.bindings.get(i) for i in range(len(self.buffers)))
        body = LoopBody(
            tuple(self.buffers),
            tuple(self.ops),
            bindings,
            tuple(self.values),
            counter,
            is_reversed,
            go_on,
        )
        return PreparedLoop(
            next(self.ids),
            tuple(self.operands),
            tuple(self.outputs),
            body,
            count,
            count_position,
            branch,
            n_branches,
        )


@pytest.fixture
def plans() -> Plans:
    return Plans()


@pytest.fixture(scope="session")
def new_plans() -> type[Plans]:
    """Factory for tests that need several."""
    return Plans


@pytest.fixture(autouse=True)
def _no_custom_functions() -> Iterator[None]:
    yield
    clear_custom_functions()


@pytest.fixture
def two_threads() -> Callable[[Callable[[], None], Callable[[], None]], None]:
    """Run two functions concurrently."""

    def run(first: Callable[[], None], second: Callable[[], None]) -> None:
        threads = [threading.Thread(target=f) for f in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run
