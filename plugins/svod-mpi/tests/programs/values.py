"""Operations on sharded tensors, compared with numpy in each process: `values.py STRIDE`.

Of the dtypes, and of the moves between two layouts, every STRIDE-th is checked.
"""

from __future__ import annotations

import sys
from itertools import product

import ml_dtypes
import numpy as np
from mpi4py import MPI

import svod_mpi
import svod_tensor as sv
from svod_tensor import Tensor

N = MPI.COMM_WORLD.Get_size()
MESH = svod_mpi.Mesh(data=N)
RNG = np.random.default_rng(7)
STRIDE = int(sys.argv[1])


def check_dtypes() -> None:
    """Every dtype moves and is reduced, also where MPI has no type for it."""
    names = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    names += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    names += ["float8_e4m3fn", "float8_e5m2"]
    for name in names[::STRIDE]:
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        array = RNG.integers(0, 2, (3 * N, 2 * N)).astype(dtype)
        x = Tensor(array).shard(MESH, {"data": 0})
        np.testing.assert_array_equal(x.numpy(), array)
        moved = x.shard(MESH, {"data": 1})
        assert moved.sharding is not None
        np.testing.assert_array_equal(moved.numpy(), array)
        np.testing.assert_array_equal(x[::-1].numpy(), array[::-1])
        if name == "bool":
            np.testing.assert_array_equal(x.any(0).numpy(), array.any(0))
        elif not name.startswith("float8"):
            total = x.sum(0)
            np.testing.assert_array_equal(total.numpy(), array.sum(0).astype(total.numpy().dtype))
        if "complex" not in name and name != "bool":
            np.testing.assert_array_equal(x.max(0).numpy(), array.max(0))


def check_nan() -> None:
    array = RNG.normal(size=(2 * N, 3)).astype("float32")
    array[N, 1] = np.nan
    x = Tensor(array).shard(MESH, {"data": 0})
    np.testing.assert_array_equal(x.max(0).numpy(), array.max(0))
    np.testing.assert_array_equal(x.min(0).numpy(), array.min(0))


def check_moves() -> None:
    """Between all layouts of a tensor, with parts of unequal sizes."""
    meshes = [MESH] if N % 2 else [MESH, svod_mpi.Mesh(data=2, model=-1)]
    array = RNG.normal(size=(2 * N + 1, N, N + 1))
    for mesh in meshes:
        choices = product([None, 0, 1, 2], repeat=len(mesh.names))
        layouts = [
            {name: axis for name, axis in zip(mesh.names, axes, strict=True) if axis is not None}
            for axes in choices
        ]
        layouts = [axes for axes in layouts if len(set(axes.values())) == len(axes)]
        for before, after in [*product(layouts, layouts)][::STRIDE]:
            x = Tensor(array).shard(mesh, before).realize().shard(mesh, after)
            shard = x.shards()[0].numpy()
            cuts = () if x.sharding is None else x.sharding.cuts(0)
            own = array
            for cut in cuts:
                own = np.take(own, range(cut.begin, cut.end), axis=cut.axis)
            np.testing.assert_array_equal(shard, own)


def check_scattered_sums() -> None:
    """Sums and other reductions of which each process gets a part, of unequal sizes."""
    meshes = [(MESH, {"data": 0}), (svod_mpi.Mesh(data=N, deterministic=True), {"data": 0})]
    if N % 2 == 0:
        meshes.append((svod_mpi.Mesh(data=2, model=-1), {"data": 0, "model": 1}))
    for dtype in ("int32", "float16", "float32", ml_dtypes.bfloat16)[:: min(STRIDE, 3)]:
        array = RNG.integers(-3, 4, (2 * N, 2 * N, N + 1)).astype(dtype)
        for (mesh, axes), axis in product(meshes, (0, 1)):
            x = Tensor(array).shard(mesh, axes)
            for reduced, expected in ((x.sum(0), array.sum(0)), (x.max(0), array.max(0))):
                split = {"data": 1, "model": 0} if len(axes) == 2 else {"data": axis}
                np.testing.assert_array_equal(reduced.shard(mesh, split).numpy(), expected)
                turned = reduced.T.shard(
                    mesh, {"data": 0, **({"model": 1} if len(axes) == 2 else {})}
                )
                np.testing.assert_array_equal(turned.numpy(), expected.T)


def check_stencil() -> None:
    array = RNG.normal(size=(5 * N + 1, 4))
    x = Tensor(array).shard(MESH, {"data": 0})
    np.testing.assert_allclose(
        (x[:-2] - 2 * x[1:-1] + x[2:]).numpy(), array[:-2] - 2 * array[1:-1] + array[2:]
    )
    # Over more than one neighbour.
    reach = 3 * N
    np.testing.assert_allclose((x[:-reach] + x[reach:]).numpy(), array[:-reach] + array[reach:])


def check_random_numbers() -> None:
    """A draw does not depend on the number of processes."""
    sv.manual_seed(3)
    whole = Tensor.rand(4 * N, 3)
    sv.manual_seed(3)
    split = Tensor.rand(4 * N, 3).shard(MESH, {"data": 0})
    np.testing.assert_array_equal(split.numpy(), whole.numpy())
    assert split.shards()[0].shape == (4, 3)


def check_join() -> None:
    rows = MESH.rank + 1
    x = MESH.join(sv.full((rows, 2), float(MESH.rank)), {"data": 0})
    assert x.shape == (N * (N + 1) // 2, 2)
    np.testing.assert_array_equal(
        x.numpy()[:, 0], np.repeat(np.arange(N, dtype="float32"), np.arange(1, N + 1))
    )
    try:
        MESH.join(sv.zeros((2, MESH.rank + 1)), {"data": 0})
    except svod_mpi.MeshError as error:
        assert N > 1 and "expects" in str(error)
    else:
        assert N == 1


def check_writes() -> None:
    array = np.zeros((4 * N, 3), "float32")
    x = Tensor(array).shard(MESH, {"data": 0}).realize()
    x[1:] = 2.0
    x += 1
    array[1:] = 2.0
    np.testing.assert_array_equal(x.numpy(), array + 1)


def check_writes_in_loops() -> None:
    """A loop writes a value on the mesh to a tensor that is on none."""
    x = Tensor(np.arange(N, dtype="float32")).shard(MESH, {"data": 0})
    plain = sv.full((2,), 0.5)

    def body(_: Tensor, carry: Tensor) -> Tensor:
        plain[:] = x.sum()
        return carry + x

    total = sv.fori_loop(0, 3, body, x)
    np.testing.assert_array_equal(total.numpy(), 4 * np.arange(N, dtype="float32"))
    assert plain.tolist() == [N * (N - 1) / 2] * 2
    assert plain.sharding is None


def check_order_of_sums() -> None:
    mesh = svod_mpi.Mesh(data=N, deterministic=True)
    parts = [np.float32(1e8), np.float32(1), np.float32(-1e8), np.float32(1)]
    array = np.array([parts[n % 4] for n in range(N)])
    expected = np.float32(0)
    for n, part in enumerate(array):
        expected = part if n == 0 else np.float32(expected + part)
    assert Tensor(array).shard(mesh, {"data": 0}).sum().item() == expected


def check_captured() -> None:
    calls = 0

    @sv.jit
    def step(w: Tensor, x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return w - 0.1 * sv.grad(lambda w: ((x @ w) ** 2).mean())(w)

    array, weight = RNG.normal(size=(4 * N, 3)), RNG.normal(size=(3, 2))
    w, x = Tensor(weight).shard(MESH), Tensor(array).shard(MESH, {"data": 0})
    for _ in range(4):
        w = step(w, x)
        weight = weight - 0.1 * 2 / (4 * N * 2) * array.T @ (array @ weight)
    np.testing.assert_allclose(w.numpy(), weight)
    assert calls == 1


for check in (
    check_dtypes,
    check_nan,
    check_moves,
    check_scattered_sums,
    check_stencil,
    check_random_numbers,
    check_join,
    check_writes,
    check_writes_in_loops,
    check_order_of_sums,
    check_captured,
):
    check()
