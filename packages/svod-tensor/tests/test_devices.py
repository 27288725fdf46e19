"""Several devices in one program:

CPU:0 and CPU:1 have memory of their own, and files are read by both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from svod_device import get_allocator, get_device
from svod_ir import DeviceMismatchError, Op
from svod_tensor import PrepareConfig, Tensor, Variable, caches, clear_caches
from svod_tensor.engine.build import normalize_graph
from svod_tensor.engine.uncached import make_schedule

FAR = "CPU:1"


def devices_of(plan) -> list[str]:
    return [profile.device for profile in plan.execute_profiled()]


def test_a_copy_inside_a_graph_transfers_the_values():
    x = Tensor([1.0, 2.0, 3.0])
    y = ((x + 1).to(FAR) * 2).to("CPU") + x
    assert y.device == "CPU"
    plan = y.prepare()
    assert devices_of(plan) == ["CPU", FAR, "CPU"]
    assert y.tolist() == [5.0, 8.0, 11.0]
    assert y.buffer().device == "CPU"


def test_the_first_device_of_a_kind_has_two_names():
    x = Tensor([1.0])
    assert x.to("CPU:0").uop is x.uop
    assert (x + Tensor([2.0], device="cpu:0")).tolist() == [3.0]


def test_two_devices_of_a_kind_have_allocators_of_their_own_and_share_compiled_code(monkeypatch):
    clear_caches()
    compiled = []
    compiler = type(get_device("CPU").compiler)
    compile_ = compiler.compile
    monkeypatch.setattr(
        compiler, "compile", lambda self, spec: compiled.append(spec.device) or compile_(self, spec)
    )
    monkeypatch.setattr("svod_tensor.engine.kernels.find_stored_kernel", lambda *_: None)
    assert get_allocator("CPU") is not get_allocator(FAR)
    near, far = Tensor([1.0, 2.0]), Tensor([1.0, 2.0], device=FAR)
    Tensor.realize_batch([near, far])
    assert (near.buffer().device, far.buffer().device) == ("CPU", FAR)
    for x in (near, far):
        assert (x * 3.25).tolist() == [3.25, 6.5]
    assert len(compiled) == caches()["binary"].entries == 1


def test_one_plan_runs_each_kernel_on_its_own_device():
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], device=FAR)
    results = [a * 2, b * 2, b.to("CPU") + 1]
    plan = Tensor.prepare_batch(results)
    assert devices_of(plan) == ["CPU", FAR, "CPU"]
    assert [r.tolist() for r in results] == [[2.0, 4.0], [6.0, 8.0], [4.0, 5.0]]
    assert [r.buffer().device for r in results] == ["CPU", FAR, "CPU"]


def test_a_plan_on_two_devices_reads_new_inputs_each_time():
    x = Tensor.empty(4)
    y = (x.to(FAR) * 2).sum()
    plan = y.prepare()
    for value in (1.0, 5.0):
        x.buffer().copyin(np.full(4, value, np.float32))
        plan.execute()
        assert y.item() == 8 * value


def test_a_constant_takes_the_device_of_the_other_operand():
    far = Tensor([1.0, 2.0], device=FAR)
    y = Tensor.arange(2).cast("float32") + far * Tensor(2.0)
    assert y.device == FAR
    assert devices_of(y.prepare()) == [FAR]
    assert y.tolist() == [2.0, 5.0]


@pytest.mark.parametrize(
    "make", [Tensor.zeros, Tensor.ones, Tensor.rand], ids=["zeros", "ones", "rand"]
)
def test_a_constant_is_computed_on_the_requested_device(make):
    x = make(2, 3, device=FAR)
    assert x.device == FAR
    assert x.realize().buffer().device == FAR
    with pytest.raises(DeviceMismatchError):
        x + Tensor([1.0])


def test_a_constant_placed_on_a_device_is_written_there_and_not_copied():
    plan = (Tensor.ones(4, device=FAR) + 1).prepare()
    assert (len(plan.prepared_ops), devices_of(plan)) == (1, [FAR])


def test_like_functions_keep_the_device():
    x = Tensor([1.0, 2.0], device=FAR)
    for made in (x.zeros_like(), x.ones_like(), x.full_like(3)):
        assert made.device == FAR
        assert made.realize().buffer().device == FAR


@pytest.mark.parametrize(
    "index", [[2, 0], np.array([1, 1]), (slice(None, None, 2),), Tensor([2, 0], device=FAR)]
)
def test_indices_and_values_of_the_caller_go_to_the_device_of_the_tensor(index):
    values = np.array([1.0, 2.0, 3.0], np.float32)
    x = Tensor(values, device=FAR).clone().realize()
    key = index.numpy() if isinstance(index, Tensor) else index
    np.testing.assert_array_equal(x[index].numpy(), values[key])
    if not isinstance(index, Tensor):
        x[index] = [7.0, 8.0]
        values[key] = [7.0, 8.0]
        np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_array_equal(x.sort().numpy(), np.sort(values))


@pytest.mark.parametrize("devices", [(FAR,), ("CPU", FAR)], ids=["one", "two"])
def test_arrays_as_operands_go_to_the_devices_of_the_tensor(devices):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = Tensor(values).shard(devices, axis=0)
    for found, expected in (
        (x + values, values * 2),
        (values @ x.T, values @ values.T),
        (x * [1.0, 2.0, 3.0], values * [1, 2, 3]),
        ((x > 2).where(x, values * 3), np.where(values > 2, values, values * 3)),
    ):
        assert found.device == x.device
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_value_without_device_that_two_devices_read_is_computed_once_and_copied():
    steps = Tensor.arange(5).cumsum()
    near, far = steps + Tensor([1] * 5), steps + Tensor([1] * 5, device=FAR)
    Tensor.realize_batch([near, far])
    assert near.tolist() == far.tolist() == [1, 2, 4, 7, 11]
    assert (near.buffer().device, far.buffer().device) == ("CPU", FAR)


def test_a_constant_with_a_device_does_not_follow_operands():
    zeros, far = Tensor.zeros(3), Tensor([1.0], device=FAR) + 1
    Tensor.realize_batch([zeros, far])
    assert (zeros.buffer().device, far.buffer().device) == ("CPU", FAR)


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y,
        lambda x, y: x[y.cast("int32")],
        lambda x, y: x.cat(y),
        lambda x, y: (x > 0).where(x, y),
        lambda x, y: x.assign(y),
    ],
    ids=["add", "matmul", "gather", "cat", "where", "assign"],
)
def test_operands_on_two_devices_are_an_error_of_the_call(mix):
    with pytest.raises(
        DeviceMismatchError,
        match=r"operands are on CPU(:1)? and CPU(:1)?\n  hint: move one, as in y.to",
    ):
        mix(Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0], device=FAR))


def test_a_file_is_read_by_each_device(tmp_path: Path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    file = Tensor.from_file(path)
    assert file.device == f"DISK:{path}"
    whole, part = file.to(FAR), (file[2:6] * 2).to(FAR)
    Tensor.realize_batch([whole, part])
    assert whole.tolist() == list(range(16))
    assert part.tolist() == [4, 6, 8, 10]
    assert (whole.buffer().device, part.buffer().device) == (FAR, FAR)
    assert (file[:2] + Tensor([1, 1], dtype="uint8", device=FAR)).device == FAR


def test_a_tensor_of_symbolic_size_moves():
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    n = Variable("n", 1, 6)
    for size in (2, 5):
        part = Tensor(values)[: n.bind(size)]
        np.testing.assert_array_equal(part.to(FAR).numpy(), values[:size])
        np.testing.assert_array_equal(
            ((part + 1).to(FAR) * 2).sum(0).numpy(), (values[:size] * 2 + 2).sum(0)
        )


def test_a_copy_holds_the_version_of_the_source_before_its_assignment():
    x = Tensor([1.0, 2.0]).clone().realize()
    far = x.to(FAR)
    x.assign(x * 10)
    assert (far + 1).tolist() == [2.0, 3.0]
    assert x.tolist() == [10.0, 20.0]


def test_a_tensor_is_assigned_on_its_device():
    x = Tensor([1.0, 2.0], device=FAR).realize()
    x.assign(Tensor([5.0, 6.0]).to(FAR) + x)
    assert x.tolist() == [6.0, 8.0]
    assert x.buffer().device == FAR


@pytest.mark.parametrize("planner", ["arena", "remap", "disabled"])
def test_memory_is_shared_on_each_device_by_itself(planner):
    x, y = (
        Tensor(np.arange(24.0, dtype=np.float32).reshape(4, 6)),
        Tensor.ones(6, 4, device=FAR).clone(),
    )
    for _ in range(4):
        x = (x @ Tensor.ones(6, 6).clone()).contiguous()
        y = (y.T.contiguous().T + 1).contiguous()
    both = x.sum() + y.sum().to("CPU")
    plan = both.prepare_with(PrepareConfig(memory_planner=planner))
    plan.execute()
    assert both.item() == 276 * 6**4 + 24 * 5
    for op in plan.prepared_ops:
        storages = {plan.buffers[i].device for i in op.buffer_indices}
        assert len(storages) == (1 if hasattr(op, "kernel") else 2)


def test_the_schedule_of_a_graph_lists_its_devices():
    x = Tensor([1.0]).to(FAR) + 1
    assert normalize_graph(x.uop.sink(x.uop)).devices == ("CPU", FAR)
    items = make_schedule(x.uop.sink(x.contiguous().uop), PrepareConfig()).items
    assert [item.buffers[0].device for item in items] == [FAR, FAR]
    assert [item.ast.op for item in items] == [Op.COPY, Op.SINK]


PLACED = """\
import numpy as np
from svod_tensor import Tensor
array = np.arange(6, dtype=np.float32).reshape(2, 3)
here = Tensor(array, device="CPU")
made = [Tensor(array), Tensor([1, 2]), Tensor.from_numpy(array), Tensor.empty(2), Tensor.ones(3), Tensor.arange(4), Tensor(1.5)]
print(*{t.device for t in made}, here.device, (here + 1).device, Tensor(here).device)
x = Tensor(array)
np.testing.assert_array_equal(((x + array) @ x.permute(1, 0) + np.float32(1)).numpy(), 2 * array @ array.T + 1)
np.testing.assert_array_equal(x[np.array([1, 0])].with_items([0], 7.0).numpy(), [[7, 7, 7], [0, 1, 2]])
np.testing.assert_array_equal((here[[1, 0]] + array).numpy(), array[::-1] + array)
assert all(isinstance(t.numpy(), np.ndarray) for t in made)
"""


def test_tensors_are_created_on_the_device_of_the_environment(
    odd_plan: dict[str, str],
) -> None:
    environment = {**os.environ, "SVOD_DEVICE": "odd"}
    done = subprocess.run(
        [sys.executable, "-c", PLACED], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ODD CPU CPU CPU\n"), done.stderr
