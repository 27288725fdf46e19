"""A run that is killed at any time goes on from its file as if nothing had been."""

from __future__ import annotations

import itertools
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import RunError
from svod_tensor import Generator, Tensor, load_safetensors, save_safetensors

SCRIPT = """
import os, sys
import numpy as np
import svod_nn as nn
from svod_tensor import Generator, Tensor, jit

class Model(nn.Module):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.weight = Tensor(rng.normal(size=(3, 8)).astype(np.float32)).realize()
        self.bias = Tensor.zeros(3).realize()
    def forward(self, x):
        return x @ self.weight.T + self.bias

def train(path, n_epochs, every=1, report=lambda step: None):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 8)).astype(np.float32), rng.integers(0, 3, 40)
    model, noise = Model(), Generator(5)
    optimizer, data = nn.Adam(model, lr=0.01), nn.batches((x, y), 4, Generator(6))
    parts = {"model": model, "optimizer": optimizer, "data": data, "noise": noise}

    @jit
    def step(x, y):
        def loss(model, x, y):
            return nn.cross_entropy(model(x + 0.1 * Tensor.randn(*x.shape, generator=noise)), y)
        value, gradients = nn.value_and_grad(model, loss)(x, y)
        optimizer.update(gradients)
        return value

    if os.path.exists(path):
        nn.load_run(path, **parts)
    try:
        while data.epoch < n_epochs:
            for x_batch, y_batch in data:
                step(x_batch, y_batch)
                if data.position % every == 0:
                    nn.save_run(path, **parts)
                report(data.position)
    except KeyboardInterrupt:
        # A step is done as a whole or not at all: its own count says whether this one was.
        data.position = optimizer.state["step"].item()
        nn.save_run(path, **parts)
        raise SystemExit(3)
    nn.save_run(path, **parts)
"""
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell turns off in the background
train(sys.argv[1], 30, report=lambda step: print(step, flush=True))
"""


def test_a_run_that_is_killed_and_interrupted_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    names: dict[str, Any] = {}
    exec(SCRIPT, names)
    names["train"](str(whole), 30, every=1000)
    reached: list[int] = []
    # What comes after so many steps of each process, and what it ends with.
    for number, n_steps, code in ((signal.SIGKILL, 7, -signal.SIGKILL), (signal.SIGINT, 20, 3)):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT + MAIN, broken], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = [int(process.stdout.readline()) for _ in range(n_steps)]
            process.send_signal(number)
        assert process.returncode == code
        reached += [lines[0], lines[-1]]
    names["train"](str(broken), 30, every=1000, report=reached.append)
    # Each went on where the one before was ended, at the earliest where its last report came from.
    assert all(after > before for before, after in itertools.pairwise(reached))
    assert reached[3] < 300 == reached[-1]
    one, other = load_safetensors(whole), load_safetensors(broken)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.numpy().tobytes() == other[name].numpy().tobytes(), name


def test_all_parts_come_back_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    values = {"best": 0.1 + 0.2, "name": "ü", "history": [1.5, math.inf], "none": None}

    def make(seed: int) -> dict[str, Any]:
        return {
            "layer": nn.Linear(3, 2),
            "scale": nn.LossScale(initial=seed),
            "stopping": nn.EarlyStopping(2),
            "noise": Generator(seed),
            "average": Tensor([float(seed), math.nan]).realize(),
            "mean": nn.MeanMetric(),
            "data": nn.batches(np.arange(10), 3, Generator(seed)),
        }

    parts, others = make(1), make(2)
    Tensor.rand(2, generator=parts["noise"])
    parts["stopping"].update(0.25)
    parts["mean"].update(Tensor(0.1), 3)
    next(iter(parts["data"]))
    nn.save_run(path, **parts, values=values)
    assert nn.load_run(path, **others) == values
    assert others["layer"].weight.numpy().tobytes() == parts["layer"].weight.numpy().tobytes()
    assert others["average"].numpy().tobytes() == parts["average"].numpy().tobytes()
    assert others["scale"].scale.item() == 1
    assert others["stopping"].best == 0.25
    assert others["mean"].compute().item() == parts["mean"].compute().item()
    assert [x.tolist() for x in others["data"]] == [x.tolist() for x in parts["data"]]
    drawn = [Tensor.rand(3, generator=part["noise"]).tolist() for part in (parts, others)]
    assert drawn[0] == drawn[1]
    assert load_safetensors(path)["layer.weight"].tolist() == parts["layer"].weight.tolist()


def test_a_file_that_is_not_this_run_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    x = Tensor([1.0]).realize()
    nn.save_run(path, x=x)
    y = Tensor([2.0]).realize()
    with pytest.raises(RunError, match="has the parts x, expected x, y"):
        nn.load_run(path, x=y, y=y)
    assert y.tolist() == [2]
    save_safetensors({"x": x}, path)
    with pytest.raises(RunError, match="is not a saved run"):
        nn.load_run(path, x=x)
    with pytest.raises(RunError, match="x is a int"):
        nn.save_run(path, x=7)  # pyright: ignore[reportArgumentType]


def test_a_write_that_fails_leaves_the_run_from_before(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    x = Tensor([1.0]).realize()
    nn.save_run(path, x=x)
    with pytest.raises(TypeError):
        nn.save_run(path, x=x + 1, values={"bad": object()})
    nn.load_run(path, x=x.assign(x * 0))
    assert x.tolist() == [1]
    assert [file.name for file in tmp_path.iterdir()] == ["run.safetensors"]
