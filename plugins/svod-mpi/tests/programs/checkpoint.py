"""Save a state with tensors of many layouts, or load it in others and check each element.

Each argument is an action, a directory and the sizes of the mesh: `"save DIRECTORY 2 2"`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import svod_mpi
from svod_tensor import Tensor


def run(action: str, folder: str, data: int, model: int) -> None:
    mesh = svod_mpi.Mesh(data=data, model=model)
    rng = np.random.default_rng(0)
    values = {
        "both": rng.standard_normal((7, 5)).astype(np.float32),
        "rows": rng.integers(0, 9, (9, 3)),
        "columns": rng.standard_normal((2, 4)) > 0,
        "scalar": np.float64(2.5),
        "whole": rng.standard_normal(6).astype(np.float16),
        "uneven": np.arange(2.0 * mesh.n_ranks + 3, dtype=np.float32),
    }
    layouts = {
        "save": {"both": {"data": 0, "model": 1}, "rows": {"model": 0}, "columns": {"model": 1}},
        "load": {"both": {"data": 1, "model": 0}, "rows": {"data": 0}, "whole": {"model": 0}},
    }[action]

    def make(name: str) -> Tensor:
        x = Tensor(values[name] if action == "save" else np.zeros_like(values[name]))
        if name == "uneven" and action == "save":
            # The first process has three elements more.
            begin = 0 if mesh.rank == 0 else 2 * mesh.rank + 3
            return mesh.join(x[begin : 2 * mesh.rank + 5], {"data": 0}) if model == 1 else x
        return x.shard(mesh, layouts.get(name)) if name != "whole" or name in layouts else x

    state = {
        "a/b": {"both": make("both"), "rows": [make("rows"), (make("columns"), make("scalar"))]},
        "whole": make("whole"),
        "half": make("both").cast("bfloat16"),
        "step": 7 if action == "save" else 0,
        "rate": 0.1 if action == "save" else None,
    }
    if action == "save":
        if model == 1:
            state["uneven"] = make("uneven")
        svod_mpi.save(state, folder, mesh)
        index = json.loads((Path(folder) / "index.json").read_text())
        n_bytes = sum(
            np.prod(np.subtract(part["end"], part["begin"])) * {"b": 1}.get(entry["dtype"][0], 1)
            for entry in index["tensors"].values()
            for part in entry["parts"]
        )
        # Each element is in one file.
        assert n_bytes == sum(np.prod(entry["shape"]) for entry in index["tensors"].values())
        assert sorted(p.name for p in Path(folder).iterdir()) == sorted(
            ["index.json", *index["files"]]
        )
    else:
        loaded = svod_mpi.load(folder, state)
        found = {
            "both": loaded["a/b"]["both"],
            "rows": loaded["a/b"]["rows"][0],
            "columns": loaded["a/b"]["rows"][1][0],
            "scalar": loaded["a/b"]["rows"][1][1],
            "whole": loaded["whole"],
        }
        for name, x in found.items():
            np.testing.assert_array_equal(x.numpy(), values[name])
            assert x.sharding == make(name).sharding, name
        expected = Tensor(values["both"]).cast("bfloat16").numpy()
        np.testing.assert_array_equal(loaded["half"].numpy(), expected)
        assert (loaded["step"], loaded["rate"]) == (7, 0.1)
        assert isinstance(loaded["a/b"]["rows"][1], tuple)
        # The tensors compute, and are written, as any other.
        x = loaded["a/b"]["both"]
        x.assign(x + 1)
        np.testing.assert_allclose((x * 2).sum().item(), (values["both"] + 1).sum() * 2, rtol=1e-5)
    print("checked", mesh.rank)


for argument in sys.argv[1:]:
    action, folder, *sizes = argument.split()
    run(action, folder, *map(int, sizes))
