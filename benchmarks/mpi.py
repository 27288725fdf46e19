"""Collectives and steps over processes: `mpiexec -n 2 python mpi.py`.

    all-reduce   a plan that sums a tensor over the processes, beside Allreduce of mpi4py on arrays
    training     a step of a data-parallel network, beside DistributedDataParallel of torch with gloo
                 where torch is installed, and beside one process that computes the whole batch on as
                 many threads as there are processes

Times are the least of several, of the slowest process; one thread for each process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("SVOD_THREADS", "1")

import numpy as np
from mpi4py import MPI

import svod_mpi
import svod_nn as nn
from svod_tensor import Tensor, jit

COMM = MPI.COMM_WORLD
RANK, N = COMM.Get_rank(), COMM.Get_size()
ROUNDS, WIDTH = 30, 512
BATCHES = 64, 256  # rows of each process


def measure(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of a call in the slowest process, at best."""
    best = float("inf")
    for _ in range(rounds):
        COMM.Barrier()
        start = time.perf_counter()
        call()
        best = min(best, COMM.allreduce(time.perf_counter() - start, MPI.MAX))
    return best


def show(*fields: object) -> None:
    if RANK == 0:
        print("".join(f"{field!s:>14}" for field in fields), flush=True)


def compare_sums(mesh: svod_mpi.Mesh) -> None:
    show("bytes", "svod us", "mpi4py us", "ratio")
    for power in range(10, 27, 2):
        size = 1 << power
        array = np.ones((N, size // 4), np.float32)
        x = Tensor(array).shard(mesh, {"data": 0}).realize()
        plan = x.sum(0).prepare()
        own, out = array[0].copy(), np.empty(size // 4, np.float32)
        plan.execute()
        rounds = 200 if power < 18 else ROUNDS
        ours = measure(plan.execute, rounds)
        theirs = measure(lambda own=own, out=out: COMM.Allreduce(own, out), rounds)
        show(size, f"{ours * 1e6:.1f}", f"{theirs * 1e6:.1f}", f"{theirs / ours:.2f}")


def make_data(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(n_rows, WIDTH)).astype(np.float32)
    return inputs, inputs[:, :10].copy()


def make_step(mesh: svod_mpi.Mesh | None, n_rows: int) -> Callable[[], float]:
    """A step of training on rows that are split over the mesh if there is one."""
    model = nn.Sequential(
        *(layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())),
        nn.Linear(WIDTH, 10),
    )
    x, y = map(Tensor, make_data(n_rows))
    if mesh is not None:
        model.shard(mesh)
        x, y = (value.shard(mesh, {"data": 0}).realize() for value in (x, y))
    optimizer = nn.SGD(model, lr=1e-2)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, lambda m, x, y: ((m(x) - y) ** 2).mean())(x, y)
        optimizer.update(gradients)
        return loss

    for _ in range(3):
        step(x, y).item()
    return lambda: step(x, y).item()


def train(mesh: svod_mpi.Mesh) -> None:
    show("peer", "batch", "svod us", "peer us", "ratio")
    ours = [measure(make_step(mesh, batch * N)) for batch in BATCHES]
    # torch last: the threads that it starts would take time from the others.
    for name, find in {"threads": train_alone, "torch DDP": train_with_torch}.items():
        for batch, own in zip(BATCHES, ours, strict=True):
            theirs = find(batch * N)
            if theirs is not None:
                ratio = f"{theirs / own:.2f}"
                show(name, batch, f"{own * 1e6:.0f}", f"{theirs * 1e6:.0f}", ratio)


def train_alone(n_rows: int) -> float:
    """Seconds of a step of one process with as many threads as there are processes here."""
    seconds = 0.0
    if RANK == 0:
        own = {n: v for n, v in os.environ.items() if not n.startswith(("PMI", "OMPI", "PMIX"))}
        command = [sys.executable, __file__, "alone", str(n_rows)]
        environment = {**own, "SVOD_THREADS": str(N)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seconds = float(done.stdout)
    # A barrier would poll, and take a core from the process that is measured.
    barrier = COMM.Ibarrier()
    while not barrier.Test():
        time.sleep(0.02)
    return COMM.bcast(seconds)


def train_with_torch(n_rows: int) -> float | None:
    try:
        import torch
    except ImportError:
        return None
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", rank=RANK, world_size=N)
    layers = [f for _ in range(4) for f in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    x, y = (torch.from_numpy(np.split(array, N)[RANK]) for array in make_data(n_rows))

    def step() -> float:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(3):
        step()
    return measure(step)


if __name__ == "__main__":
    if sys.argv[1:2] == ["alone"]:
        print(measure(make_step(None, int(sys.argv[2])), 3 * ROUNDS))
        sys.exit()
    mesh = svod_mpi.Mesh(data=N)
    if "training" not in sys.argv[1:]:
        compare_sums(mesh)
    if "sums" not in sys.argv[1:]:
        train(mesh)
