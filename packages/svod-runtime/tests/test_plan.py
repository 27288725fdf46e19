"""Building and inspecting plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from svod_device import Buffer, DiskAllocator, HostAllocator, OutOfMemoryError, Variable
from svod_dtype import float32, int32, uint8
from svod_runtime import (
    DependencyError,
    ExecutionPlanBuilder,
    PlanError,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
)
from svod_runtime.plan.sharing import Sharing

if TYPE_CHECKING:
    from conftest import Plans


class Far(HostAllocator):
    is_host_addressable = False


def test_buffers_are_found_by_position_and_by_id(plans: Plans) -> None:
    a, b, c = plans.buffer(4, 1), plans.buffer(), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [b], [a]))
    plans.op(plans.kernel(plans.add_one, [c], [b]))
    plan = plans.build(c, b)
    assert plan.num_outputs == 2
    assert plan.output_indices == (c, b)
    assert plan.output_buffer is plan.output_buffer_at(0) is plans.buffers[c]
    assert plan.output_buffers == (plans.buffers[c], plans.buffers[b])
    assert plan.output_buffer_at(2) is plan.output_buffer_at(-1) is None
    assert plan.buffer(100) is plans.buffers[a]
    assert plan.buffer(5) is None
    assert plan.buffers == tuple(plans.buffers)
    assert plan.ast_to_buffer == {100: a, 101: b, 102: c}
    assert plan.device == "CPU"


def test_kernels_can_be_inspected(plans: Plans) -> None:
    out = plans.buffer()
    n = Variable("n", 1, 4)
    plans.op(
        plans.kernel(
            lambda out, n: None, [out], variables=[n], values=[2], fixedvars={"i": 5}, name="E_4"
        )
    )
    plans.op(PreparedCopy(9, (out, plans.buffer())))
    plan = plans.build(out)
    (kernel,) = plan.kernels()
    assert (kernel.name, kernel.source, kernel.device) == ("E_4", "source of E_4", "CPU")
    assert (kernel.global_size, kernel.local_size) == ((1, 1, 1), (1, 1, 1))
    assert kernel.buffers == (plans.buffers[out],)
    assert kernel.values == {"n": 2, "i": 5}
    assert kernel.kernel is plans.kernels[0]
    assert [type(op) for op in plan.prepared_ops] == [PreparedKernel, PreparedCopy]
    assert plan.num_kernels == 1
    assert repr(plan) == "ExecutionPlan(2 ops, 1 kernels, 2 buffers, 2 calls on CPU)"


def test_building_gets_the_memory_and_executing_gets_none(plans: Plans) -> None:
    class Counting(HostAllocator):
        n = 0

        def allocate(self, nbytes: int):
            self.n += 1
            return super().allocate(nbytes)

    counting = Counting()
    index = plans.add(Buffer(counting, float32, 4))
    assert counting.n == 0
    plans.op(plans.kernel(plans.fill(2), [index]))
    plan = plans.build(index)
    assert counting.n == 1
    plan.execute()
    assert counting.n == 1


def test_a_plan_without_buffers_is_fine() -> None:
    plan = ExecutionPlanBuilder("cpu:0").build()
    plan.execute()
    assert (plan.device, plan.num_outputs, plan.output_buffer) == ("CPU", 0, None)


def test_out_of_memory_is_raised_at_build_time(plans: Plans) -> None:
    index = plans.add(Buffer(HostAllocator(), float32, 1 << 60))
    with pytest.raises(OutOfMemoryError):
        plans.build(index)


def test_outputs_are_set_explicitly(plans: Plans) -> None:
    plans.buffer()
    with pytest.raises(PlanError) as caught:
        plans.builder.build()
    assert str(caught.value) == "plan: has no outputs: call set_output_buffers"
    plans.builder.set_output_buffer(0)
    assert plans.builder.build().num_outputs == 1


def test_indices_are_checked(plans: Plans) -> None:
    plans.buffer()
    plans.builder.set_output_buffers([0, 3])
    with pytest.raises(PlanError, match="outputs: buffer index 3 is out of bounds for 1 buffers"):
        plans.builder.build()
    plans.builder.set_output_buffers([0])
    for what, say in (
        ("donated inputs", plans.builder.set_donated_buffers),
        ("guarded buffers", plans.builder.set_guarded_buffers),
    ):
        say([1])
        with pytest.raises(
            PlanError, match=f"{what}: buffer index 1 is out of bounds for 1 buffers"
        ):
            plans.builder.build()
        say([])


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (PreparedCopy(3, (0, 9)), "copy (op 3): buffer index 9 is out of bounds for 3 buffers"),
        (PreparedCopy(3, (0,)), "copy (op 3): expected two buffers, destination and source, got 1"),
        (PreparedCopy(3, (0, 2)), "copy (op 3): source has 32 bytes, but destination has 16"),
        (
            PreparedBufferView(3, (9, 0), 0, 4),
            "buffer view (op 3): buffer index 9 is out of bounds for 3 buffers",
        ),
        (
            PreparedBufferView(3, (0,), 0, 4),
            "buffer view (op 3): expected two buffers, view and base, got 1",
        ),
        (
            PreparedCustomFunction(3, "x", (0, 5)),
            "custom function 'x' (op 3): buffer index 5 is out of bounds for 3 buffers",
        ),
    ],
)
def test_ops_that_do_not_match_their_buffers_are_rejected(
    plans: Plans, op: PreparedCopy | PreparedBufferView | PreparedCustomFunction, message: str
) -> None:
    for size in (4, 4, 8):
        plans.buffer(size)
    plans.op(op)
    with pytest.raises(PlanError) as caught:
        plans.build(0)
    assert str(caught.value) == message


def test_kernels_that_do_not_match_their_buffers_are_rejected(plans: Plans) -> None:
    plans.buffer()
    good = plans.kernel(plans.fill(1), [0], name="k", op_id=7)
    n = Variable("n", 1, 4)
    symbolic = plans.kernel(plans.fill(1), [0], name="k", op_id=7, variables=[n], values=[])
    far = plans.kernel(plans.fill(1), [0], name="k", op_id=7, device="CUDA:1")

    def changed(**changes: object) -> PreparedKernel:
        fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
        return PreparedKernel(**{**fields, **changes})

    cases = [
        (changed(buffer_indices=(4,)), "buffer index 4 is out of bounds for 1 buffers"),
        (changed(output_indices=()), "has no output: output_indices is empty"),
        (changed(output_indices=(1,)), "output position 1 is out of bounds for 1 buffers"),
        (changed(buffer_indices=(0, 0)), "expected 1 buffers (slots (0,)), got 2"),
        (symbolic, "expected 1 values for variables ('n',), got 0: ()"),
        (far, f"runs on CUDA:1, which cannot address {plans.buffers[0]!r}"),
    ]
    for op, message in cases[:5]:
        builder = ExecutionPlanBuilder("CPU")
        builder.add_buffer(1, plans.buffers[0])
        builder.set_output_buffer(0)
        builder.add_op(op)
        with pytest.raises(PlanError) as caught:
            builder.build()
        assert str(caught.value) == f"kernel k (op 7): {message}"


def test_a_kernel_reaches_only_buffers_that_its_device_can_address(plans: Plans) -> None:
    here, far = plans.buffer(), plans.add(Buffer(Far("FAR"), float32, 4))
    plans.op(plans.kernel(plans.add_one, [here], [far], name="k"))
    with pytest.raises(
        PlanError,
        match=r"kernel k \(op 1\): runs on CPU, which cannot address Buffer\(float32 x 4 on FAR",
    ):
        plans.build(here)


def test_a_kernel_of_the_cpu_reads_a_mapped_file_without_a_copy(
    plans: Plans, tmp_path: Path
) -> None:
    (tmp_path / "w").write_bytes(b"12345678" + np.arange(4, dtype=np.float32).tobytes())
    file = Buffer(DiskAllocator(f"DISK:{tmp_path / 'w'}"), uint8, 24)
    weights, out = plans.add(file.view(8, 16, float32)), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [out], [weights]))
    plans.build(out).execute()
    assert plans.read(out) == [1, 2, 3, 4]


def test_nothing_writes_to_a_mapped_file(plans: Plans, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(16))
    file = plans.add(Buffer(DiskAllocator(f"DISK:{tmp_path / 'w'}"), float32, 4))
    source = plans.buffer()
    for op in (
        plans.kernel(plans.fill(1), [file], name="k", op_id=1),
        PreparedCopy(1, (file, source)),
    ):
        builder = ExecutionPlanBuilder("CPU")
        for number, buffer in enumerate(plans.buffers):
            builder.add_buffer(number, buffer)
        builder.set_output_buffer(source)
        builder.add_op(op)
        with pytest.raises(PlanError, match="which is read-only"):
            builder.build()


def test_a_cycle_is_noticed_when_the_plan_is_built(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(plans.fill(1), [out], op_id=1, dependencies=[2]))
    plans.op(plans.kernel(plans.fill(1), [out], op_id=2, dependencies=[1]))
    with pytest.raises(DependencyError, match="a cycle blocks ops 1, 2"):
        plans.build(out)


def test_the_index_of_an_op_makes_others_wait_for_it(plans: Plans) -> None:
    x, y = plans.buffer(), plans.buffer()
    indices = [
        plans.op(plans.kernel(plans.fill(1), [x])),
        plans.op(plans.kernel(plans.fill(2), [y]), after=[0]),
    ]
    assert indices == [0, 1]
    assert plans.build(x, y).levels == ((0,), (1,))


def test_the_builder_can_replace_a_buffer(plans: Plans) -> None:
    index = plans.buffer()
    other = Buffer(HostAllocator(), float32, 4)
    plans.builder.replace_buffer(index, other)
    plans.op(plans.kernel(plans.fill(4), [index]))
    plans.build(index).execute()
    assert other.as_numpy().tolist() == [4] * 4


def filled(value: float, size: int = 4) -> Buffer:
    buffer = Buffer(HostAllocator(), float32, size)
    buffer.copyin(np.full(size, value, np.float32))
    return buffer


def test_another_input_needs_no_new_table(plans: Plans) -> None:
    launcher = plans.launcher()
    source, out = plans.buffer(4, 1), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [out], [source], launcher=launcher))
    plan = plans.build(out)
    plan.execute()
    plan.replace_buffer(source, filled(40))
    plan.execute()
    assert plans.read(out) == [41] * 4
    assert len(launcher.tables) == 1
    assert plan.kernels()[0].buffers[1] is plan.buffer(100)


def test_copies_and_custom_functions_see_the_new_buffer(plans: Plans) -> None:
    source, out = plans.buffer(4, 1), plans.buffer()
    plans.op(PreparedCopy(5, (out, source)))
    plan = plans.build(out)
    plan.replace_buffer(source, filled(8))
    plan.execute()
    assert plans.read(out) == [8] * 4


def test_a_new_buffer_that_shares_bytes_with_another_is_ordered(plans: Plans) -> None:
    x, y, z, launcher = plans.buffer(), plans.buffer(4, 5), plans.buffer(), plans.launcher()
    plans.op(plans.kernel(plans.fill(7), [x], launcher=launcher, n_bytes=1 << 20))
    plans.op(plans.kernel(plans.add_one, [z], [y], launcher=launcher, n_bytes=1 << 20))
    plan = plans.build(x, z)
    assert plan.levels == ((0, 1),)
    plan.replace_buffer(y, plans.buffers[x].view(0, 16))
    assert plan.levels == ((0,), (1,))
    assert plan.fork().levels == ((0,), (1,))
    assert [[launch.group for launch in table] for table in launcher.tables] == [
        [0, 0],
        [0, 1],
        [0, 0],
        [0, 1],
    ]
    plan.execute()
    assert plans.read(z) == [8] * 4
    plan.replace_buffer(y, filled(1))
    assert plan.levels == ((0, 1),)


def test_a_replacement_must_have_the_same_spec(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(plans.fill(7), [out]))
    plan = plans.build(out)
    frozen = np.zeros(32, np.float32)
    start = -frozen.ctypes.data % 64 // 4
    read_only = Buffer.wrap(frozen, frozen[start:].ctypes.data, 16, float32, is_writable=False)
    cases = [
        (3, filled(1), "buffer index 3 is out of bounds for 1 buffers"),
        (0, filled(1, 5), "cannot replace"),
        (0, Buffer(HostAllocator(), int32, 4), "cannot replace"),
        (0, Buffer(HostAllocator("CPU:1"), float32, 4), "cannot replace"),
        (0, read_only, "is written, but"),
    ]
    for index, buffer, message in cases:
        with pytest.raises(PlanError, match=message):
            plan.replace_buffer(index, buffer)


def test_lent_buffers_remain_the_callers(plans: Plans) -> None:
    source, other, out = plans.buffer(4, 1), plans.buffer(4, 5), plans.buffer()
    plans.op(
        plans.kernel(
            lambda out, x, y: np.add(x, y, out=out),
            [out],
            [source, other],
            launcher=plans.launcher(),
        )
    )
    plan = plans.build(out)
    lent = frozenset([source, out])
    given, result = filled(2), filled(0)
    for value in (7, 7):
        plan.execute_on({source: given, out: result}, {}, lent=lent)
        assert result.as_numpy().tolist() == [value] * 4
    assert plan.buffers[out] is not result
    result = filled(0)
    plan.execute_on({source: given, out: result}, {}, lent=lent)
    given.copyin(np.full(4, 3, np.float32))
    plan.execute()
    assert result.as_numpy().tolist() == [7] * 4
    assert plan.buffers[source] is not given
    assert plan.buffers[out].as_numpy().tolist() == [5] * 4
    plan.replace_buffer(source, given)
    plan.execute()
    assert plan.buffers[out].as_numpy().tolist() == [8] * 4


def test_lent_buffers_are_replaced_before_the_next_execution(plans: Plans) -> None:
    source, out = plans.buffer(4, 1), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [out], [source], launcher=plans.launcher()))
    plan = plans.build(out)
    for replacements, expected in (
        ({source: filled(2), out: filled(0)}, 3),
        ({source: filled(3)}, 4),
        ({}, 4),
        ({source: filled(4), out: filled(0)}, 5),
    ):
        plan.execute_on({source: filled(8), out: filled(0)}, {}, lent=frozenset([source, out]))
        assert plan.fork().buffers[source].as_numpy().tolist() == [8] * 4
        plan.execute_on(replacements, {})
        assert plan.buffers[out].as_numpy().tolist() == [expected if replacements else 1] * 4


def test_a_plan_recovers_from_an_interrupt_while_buffers_are_lent(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = plans.buffer(4, 1), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [out], [source], launcher=plans.launcher()))
    plan = plans.build(out)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    lent = frozenset([source, out])
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Sharing, "follow", interrupt)
            with pytest.raises(KeyboardInterrupt):
                plan.execute_on({source: filled(2), out: filled(0)}, {}, lent=lent)
        result = filled(0)
        plan.execute_on({source: filled(2), out: result}, {}, lent=lent)
        assert result.as_numpy().tolist() == [3] * 4


def test_released_ids_are_reported(plans: Plans) -> None:
    a, b, c = plans.buffer(), plans.buffer(), plans.buffer()
    plans.view(c, 0, 2)
    plans.op(plans.kernel(plans.add_one, [b], [a]))
    plans.op(plans.kernel(plans.add_one, [c], [b]))
    plans.builder.add_alias_ids([900, 901])
    plan = plans.build(c)
    removed: list[int] = []
    plan.release_intermediate_buffers(removed.append)
    assert removed == [100, 101, 900, 901]
    removed.clear()
    plan.release_all_buffers(removed.append)
    assert removed == [100, 101, 102, 103, 900, 901]
    plan.execute()
    assert plans.read(c) == [2] * 4
