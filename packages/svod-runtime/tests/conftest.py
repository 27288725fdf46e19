"""Fakes: kernels that are Python functions on arrays, a batch launcher, and a builder of small plans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from svod_device import Buffer, Dims, HostAllocator, Launch, LaunchSizes, ProgramSpec, Variable
from svod_device.host_memory import view_host
from svod_dtype import DType, float32
from svod_runtime import CachedKernel, ExecutionPlan, ExecutionPlanBuilder, PlannerMode, PreparedKernel, PreparedOp
from svod_runtime._custom_function import clear_custom_functions

Array = npt.NDArray[np.float32]
Body = Callable[..., None]


class FakeProgram:
    """A program that calls a Python function with the buffers' first bytes as arrays, and logs each call."""

    entry: int | None = None

    def __init__(self, name: str, body: Body, log: list[tuple[str, Dims]], size: int) -> None:
        self.name, self.body, self.log, self.size = name, body, log, size

    def __call__(
        self, buffers: Sequence[int], values: Sequence[int], global_size: Dims, local_size: Dims | None = None
    ) -> None:
        self.log.append((self.name, global_size))
        arrays = [np.frombuffer(view_host(a, 4 * self.size, None), np.float32) for a in buffers]
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


class Plans:
    """Builds plans over float32 buffers; a buffer's AST id is 100 + its index."""

    def __init__(self) -> None:
        self.allocator = HostAllocator()
        self.builder = ExecutionPlanBuilder("CPU")
        self.log: list[tuple[str, Dims]] = []
        self.buffers: list[Buffer] = []
        self.kernels: list[CachedKernel] = []
        self.ids = iter(range(1, 1000))

    def buffer(self, size: int = 4, fill: float = 0.0) -> int:
        buffer = Buffer(self.allocator, float32, size)
        buffer.copyin(np.full(size, fill, np.float32))
        return self.add(buffer)

    def add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return self.builder.add_buffer(100 + len(self.buffers) - 1, buffer)

    def intermediate(self, size: int = 4) -> int:
        """A buffer that no caller gives, which gets memory with the plan."""
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
        size = min((self.buffers[i].size for i in (*outs, *ins)), default=1)
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
        kernel = CachedKernel(FakeProgram(name, body, self.log, size), spec, launcher, is_safe)
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

    def op(self, op: PreparedOp, after: Sequence[int] = ()) -> int:
        return self.builder.add_op(op, after)

    def build(self, *outputs: int) -> ExecutionPlan:
        self.builder.set_output_buffers(outputs or [0])
        return self.builder.build()

    def plan(self, mode: PlannerMode, *outputs: int) -> ExecutionPlan:
        """A plan on the buffers that have content, in which the others share memory."""
        self.builder.set_output_buffers(outputs)
        inputs = [buffer for buffer in self.buffers if buffer.is_allocated]
        return self.builder.build_template(inputs, planner=mode).bind(inputs)

    def names(self) -> list[str]:
        """The kernels that ran, in order."""
        return [name for name, _ in self.log]

    def read(self, index: int) -> list[float]:
        return self.buffers[index].as_numpy().tolist()

    @staticmethod
    def launcher() -> FakeLauncher:
        return FakeLauncher()

    @staticmethod
    def add_one(out: Array, source: Array) -> None:
        out[:] = source + 1

    @staticmethod
    def fill(value: float) -> Body:
        def body(out: Array) -> None:
            out[:] = value

        return body


@pytest.fixture
def plans() -> Plans:
    return Plans()


@pytest.fixture(scope="session")
def new_plans() -> type[Plans]:
    """For tests that need several."""
    return Plans


@pytest.fixture(autouse=True)
def _no_custom_functions() -> Iterator[None]:
    yield
    clear_custom_functions()


@pytest.fixture
def two_threads() -> Callable[[Callable[[], None], Callable[[], None]], None]:
    """Run two functions at the same time."""

    def run(first: Callable[[], None], second: Callable[[], None]) -> None:
        threads = [threading.Thread(target=f) for f in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run
