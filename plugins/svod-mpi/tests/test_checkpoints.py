"""Checkpoints are read by any number of processes, and are whole whenever a process is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from mpi import run_ranks, start_ranks, wait_for_end
from svod_ir.testing import count_examples
from svod_tensor import Tensor

svod_mpi = pytest.importorskip("svod_mpi", reason="MPI is not installed", exc_type=ImportError)


def test_another_mesh_reads_a_checkpoint_into_its_own_layouts(tmp_path: Path) -> None:
    # A checkpoint of each of two meshes, and actions of the same processes in one start.
    def run(n_ranks: int, *actions: str) -> None:
        result = run_ranks(n_ranks, "checkpoint.py", *actions)
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("checked") == n_ranks * len(actions)

    pair, square = tmp_path / "pair", tmp_path / "square"
    run(2, f"save {pair} 2 1")
    run(4, f"load {pair} 1 4", f"save {square} 2 2", f"load {square} 2 2")
    run(2, f"load {square} 2 1")
    run(1, f"load {square} 1 1")


def test_a_run_that_was_killed_resumes_with_the_same_bits(tmp_path: Path) -> None:
    def run(killed_at: int, data: int, n_model: int, *folders: str) -> list[list[str]]:
        numbers = map(str, (6, killed_at, data, n_model))
        paths = [str(tmp_path / folder) for folder in folders]
        result = run_ranks(data * n_model, "resume.py", *numbers, *paths)
        assert (result.returncode == 0) == (killed_at == -1), result.stderr
        return [line.split() for line in result.stdout.splitlines()]

    run(3, 1, 2, "killed")
    shutil.copytree(tmp_path / "killed", tmp_path / "moved")
    resumed, (_, digest, total) = run(-1, 1, 2, "killed", "whole")
    assert resumed == ["2", digest, total]
    # Other processes add in another order.
    ((started_at, _, other_total),) = run(-1, 2, 2, "moved")
    assert started_at == "2"
    assert float(other_total) == pytest.approx(float(total), rel=1e-5)


def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    moments = random.Random(1)
    like = {"x": Tensor.zeros((400, 300)), "number": 0}
    for _ in range(count_examples(12)):
        job = start_ranks(2, "saving.py", str(tmp_path))
        assert job.stdout is not None
        processes = [int(job.stdout.readline().split()[1]) for _ in range(2)]
        time.sleep(moments.uniform(0, 0.1))
        os.kill(moments.choice(processes), signal.SIGKILL)
        wait_for_end(job, timeout_s=10)
        # The launcher may end a moment before the other process.
        time.sleep(0.2)
        state = svod_mpi.load(tmp_path, like)
        assert (state["x"] == state["number"]).all().item()
    svod_mpi.save(like, tmp_path)
    # Nothing is left of the checkpoints that were not finished.
    assert len(list(tmp_path.iterdir())) == 2


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    state = {"w": Tensor([1.0, 2.0]), "layers": [Tensor([1, 2, 3])], "step": 7}
    svod_mpi.save(state, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("like", "note"),
    [
        ({"v": Tensor([1.0])}, "v: missing in the checkpoint"),
        (
            {"w": Tensor([1.0])},
            "w: expected float32 (1,), the checkpoint has float32 (2,)",
        ),
        (
            {"layers": [Tensor([1.0, 2.0, 3.0])]},
            "layers/0: expected float32 (3,), the checkpoint has int32 (3,)",
        ),
        ({"layers": []}, "layers: expected 0 items, the checkpoint has 1"),
        ({"step": Tensor([1.0])}, "step: expected a tensor, the checkpoint has a value"),
        ([], "the state: expected a list, the checkpoint has a dict"),
    ],
)
def test_an_error_says_how_a_checkpoint_differs(saved: Path, like: Any, note: str) -> None:
    with pytest.raises(svod_mpi.CheckpointError, match="does not fit the program") as caught:
        svod_mpi.load(saved, like)
    assert note in str(caught.value)


def test_a_part_of_a_state_is_read_alone(saved: Path) -> None:
    assert svod_mpi.load(saved, {"step": 0}) == {"step": 7}
    assert svod_mpi.load(saved, {"w": Tensor.zeros((2,))})["w"].tolist() == [1.0, 2.0]


def test_a_checkpoint_that_is_not_whole_is_an_error(saved: Path) -> None:
    (file,) = saved.glob("*.safetensors")
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(svod_mpi.CheckpointError, match="is not whole") as caught:
        svod_mpi.load(saved, {"step": 0})
    assert f"{file.name} has {len(data) - 1} bytes of {len(data)}" in str(caught.value)
    file.unlink()
    with pytest.raises(svod_mpi.CheckpointError, match="is not whole"):
        svod_mpi.load(saved, {"step": 0})
    index = json.loads((saved / "index.json").read_text())
    (saved / "index.json").write_text(json.dumps({**index, "format": "2"}))
    with pytest.raises(svod_mpi.CheckpointError, match="has the format '2'"):
        svod_mpi.load(saved, {"step": 0})
    (saved / "index.json").write_text("{")
    with pytest.raises(svod_mpi.CheckpointError, match="has no valid index"):
        svod_mpi.load(saved, {"step": 0})
    (saved / "index.json").unlink()
    with pytest.raises(svod_mpi.CheckpointError, match=r"has no index\.json"):
        svod_mpi.load(saved, {"step": 0})


@pytest.mark.parametrize("state", [{"f": print}, {1: 2}, Tensor], ids=["function", "key", "root"])
def test_a_state_of_something_else_is_an_error(tmp_path: Path, state: object) -> None:
    with pytest.raises(svod_mpi.CheckpointError, match="cannot hold"):
        svod_mpi.save(state, tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_dtype_is_saved_and_loaded(tmp_path: Path) -> None:
    names = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "complex64"]
    state = {name: Tensor([0, 1, 2]).cast(name) for name in names}
    svod_mpi.save(state, tmp_path)
    loaded = svod_mpi.load(tmp_path, state)
    for name in names:
        assert loaded[name].dtype == state[name].dtype
        assert loaded[name].tolist() == state[name].tolist()


def test_keys_with_slashes_and_tensors_without_elements_are_kept(tmp_path: Path) -> None:
    state = {"a/b": {"c": Tensor([1])}, "a": {"b/c": Tensor([2]), "b": {"c": Tensor([3])}}}
    state["empty"] = {"": Tensor.zeros((0, 2))}
    svod_mpi.save(state, tmp_path)
    loaded = svod_mpi.load(tmp_path, state)
    assert loaded["a/b"]["c"].tolist() == [1]
    assert (loaded["a"]["b/c"].tolist(), loaded["a"]["b"]["c"].tolist()) == ([2], [3])
    assert loaded["empty"][""].shape == (0, 2)
