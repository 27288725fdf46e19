"""dask arrays with tensors as chunks compute what they compute with numpy's arrays as chunks, on
threads, in processes and on a cluster.
"""

from __future__ import annotations

import copy
import importlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import svod_tensor as sv
from svod_ir import OperandError
from svod_ir.testing import count_examples
from svod_tensor import Tensor, jit
from svod_tensor.capture.pickling import RESTORED

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")
backend = pytest.importorskip("svod_tensor.dask", reason="dask is not installed")

DTYPES = ("float32", "float64", "int32", "bool", "complex64")
A = np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def scheduler():
    with dask.config.set(scheduler="sync"):
        yield


def chunked(array, chunks=(4, 3)):
    return da.from_array(array, chunks=chunks).to_backend("svod")


def compute_blocks(x):
    return dask.compute(*x.to_delayed().ravel())


def check(found, expected, tolerance=2e-5):
    """Compare an array of tensors with an array of numpy's arrays: dtypes, shapes, values, chunks."""
    for block in compute_blocks(found):
        assert isinstance(block, Tensor), type(block)
        assert block.is_realized
    value, wanted = found.compute(), np.asarray(expected.compute())
    assert isinstance(value, Tensor)
    assert found.shape == expected.shape == value.shape == wanted.shape
    assert found.chunks == expected.chunks
    assert value.dtype == wanted.dtype, (value.dtype, wanted.dtype)
    assert found.dtype == wanted.dtype
    scale = np.abs(wanted).max(initial=1)
    if wanted.dtype.kind in "fc":
        np.testing.assert_allclose(value.numpy(), wanted, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(value.numpy(), wanted)


# Steps from array to array. Not those in which svod's promotion differs from numpy's: the quotient
# and the square root of integers are float32 in svod and float64 in numpy.
STEPS = {
    "transpose": lambda x: x.T,
    "slice": lambda x: x[1:] if x.shape[0] > 1 else x[:1],
    "every second": lambda x: x[..., ::2],
    "reverse": lambda x: x[::-1],
    "take": lambda x: x[[0, x.shape[0] - 1, 0]],
    "new axis": lambda x: x[None],
    "concatenate": lambda x: da.concatenate([x, x[:1]], axis=0),
    "stack": lambda x: da.stack([x, x], axis=-1),
    "rechunk": lambda x: x.rechunk(2),
    "one chunk": lambda x: x.rechunk(-1),
    "flatten": lambda x: x.ravel(),
    "roll": lambda x: da.roll(x, 1, axis=0),
    "where": lambda x: da.where(x == x[:1], x, x[-1:]),
    "mean": lambda x: x.mean(axis=0, keepdims=True),
    "map_blocks": lambda x: x.map_blocks(np.copy),
    "add": lambda x: x + x[:1],
    "multiply": lambda x: x * x,
    "cumsum": lambda x: x.cumsum(axis=0),
    "astype": lambda x: x.astype("complex64"),
}
ENDS = {
    "none": lambda x, axis: x,
    "sum": lambda x, axis: x.sum(axis=axis),
    "sum in pairs": lambda x, axis: x.sum(axis=axis, split_every=2, keepdims=True),
    "prod": lambda x, axis: x.prod(axis=axis),
    "mean": lambda x, axis: x.mean(axis=axis),
    "any": lambda x, axis: x.any(axis=axis),
    "all": lambda x, axis: x.all(axis=axis),
    "count": lambda x, axis: da.count_nonzero(x, axis=axis),
}
REAL_ENDS = {
    "var": lambda x, axis: x.var(axis=axis),
    "std": lambda x, axis: x.std(axis=axis, keepdims=True),
    "min": lambda x, axis: x.min(axis=axis),
    "max": lambda x, axis: x.max(axis=axis),
    "argmin": lambda x, axis: x.argmin(axis=axis),
    "argmax": lambda x, axis: x.argmax(axis=axis),
}


@st.composite
def programs(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    chunks = []
    for size in shape:
        sizes = []
        while sum(sizes) < size:
            sizes.append(draw(st.integers(1, size - sum(sizes))))
        chunks.append(tuple(sizes))
    dtype = draw(st.sampled_from(DTYPES))
    steps = draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=3))
    is_complex = dtype == "complex64" or "astype" in steps
    end = draw(st.sampled_from(sorted(ENDS if is_complex else ENDS | REAL_ENDS)))
    axis = draw(st.sampled_from((None, 0, -1)))
    seed = draw(st.integers(0, 100))
    return shape, tuple(chunks), dtype, steps, end, axis, seed


@given(program=programs())
@settings(deadline=None, max_examples=count_examples(40))
def test_programs_on_tensors_agree_with_programs_on_arrays(program):
    shape, chunks, dtype, steps, end, axis, seed = program
    # Few different integers, so that products and sums are exact in every order.
    array = np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)
    with dask.config.set(scheduler="sync"):
        results = []
        for x in (chunked(array, chunks), da.from_array(array, chunks=chunks)):
            for step in steps:
                x = STEPS[step](x)
            results.append((ENDS | REAL_ENDS)[end](x, axis))
        check(*results)


def test_a_dask_array_of_a_tensor_has_its_chunks():
    check(da.from_array(Tensor(A), chunks=(3, 4)), da.from_array(A, chunks=(3, 4)))
    # The default size of chunks depends on the dtype.
    assert da.from_array(Tensor(A)).chunks == ((10,), (6,))


@pytest.mark.parametrize("meta", [None, Tensor.zeros(0, 0), np.zeros((0, 0), np.float32)])
def test_map_blocks_converts_chunks_with_any_meta(meta):
    options = {} if meta is None else {"meta": meta}
    plain = da.from_array(A, chunks=(4, 3))
    x = plain.map_blocks(sv.asarray, **options)
    for found, expected in (
        (x.std(axis=0), plain.std(axis=0)),
        (x @ x.T, plain @ plain.T),
        (x.argmax(axis=1), plain.argmax(axis=1)),
        (da.concatenate([x, x])[3:12, ::2], da.concatenate([plain, plain])[3:12, ::2]),
    ):
        check(found, expected)


PRODUCTS = {
    "matmul": lambda x: x @ x.T,
    "dot": lambda x: da.dot(x.T, x),
    "tensordot": lambda x: da.tensordot(x, x, axes=((0,), (0,))),
    "einsum": lambda x: da.einsum("ij,kj->ik", x, x),
    "outer": lambda x: da.outer(x[0], x[:, 0]),
    "singular values": lambda x: da.linalg.svd(x.rechunk((4, 6)))[1],
    "compressed singular values": lambda x: da.linalg.svd_compressed(x, 6, seed=0)[1],
    "triangle": lambda x: abs(da.linalg.qr(x.rechunk((6, 6)))[1]),
    "norm": lambda x: da.linalg.norm(x),
    "covariance": lambda x: da.cov(x.T).astype("float32"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_and_decompositions(name):
    product = PRODUCTS[name]
    check(product(chunked(A)), product(da.from_array(A, chunks=(4, 3))), tolerance=1e-4)


OTHERS = {
    "exp": lambda x: np.exp(x),
    "nanmean": lambda x: da.nanmean(x, axis=0),
    "nansum": lambda x: da.nansum(x),
    "cumprod": lambda x: da.cumprod(x, axis=1),
    "median": lambda x: da.median(x, axis=0),
    "topk": lambda x: da.topk(x, 2, axis=0),
    "argtopk": lambda x: da.argtopk(x, 2, axis=0),
    "average": lambda x: da.average(x, axis=0),
    "clip": lambda x: da.clip(x, -1, 1),
    "pad": lambda x: da.pad(x, 1),
    "isin": lambda x: da.isin(x, [float(A[0, 0])]),
    "map_overlap": lambda x: x.map_overlap(lambda b: b * 2, depth=1, boundary="reflect"),
    "assignment": lambda x: assign(x),
    "ones_like": lambda x: da.ones_like(x),
    "full_like": lambda x: da.full_like(x, 2.5),
    "diff": lambda x: da.diff(x, axis=0),
    "ptp": lambda x: da.ptp(x, axis=0),
    "broadcast": lambda x: da.broadcast_to(x, (2, 10, 6)),
    "several reductions": lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
}


def assign(x):
    y = x.copy()
    y[0] = 5
    return y


@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_dask(name):
    function = OTHERS[name]
    check(function(chunked(A)), function(da.from_array(A, chunks=(4, 3))))


def test_operators_take_tensors_and_dask_arrays():
    x, t = chunked(A), Tensor(A)
    plain = da.from_array(A, chunks=(4, 3))
    for found, expected in ((x + t, plain + A), (t - x, A - plain), (plain * t, plain * A)):
        assert isinstance(found, da.Array)
        check(found, expected)
    assert isinstance(np.add(t, x), da.Array)


def test_the_backend_creates_arrays_of_tensors():
    with dask.config.set({"array.backend": "svod"}):
        created = {
            "ones": da.ones((4, 5), chunks=2),
            "zeros": da.zeros(5, dtype="int32", chunks=2),
            "full": da.full((4, 4), 3.5, chunks=3),
            "arange": da.arange(1, 8, 2, chunks=3),
        }
        assert da.empty((3, 3), chunks=2).dtype == sv.float64
    check(created["ones"], da.ones((4, 5), chunks=2))
    check(created["zeros"], da.zeros(5, dtype="int32", chunks=2))
    check(created["full"], da.full((4, 4), 3.5, chunks=3))
    check(created["arange"], da.arange(1, 8, 2, chunks=3))
    x = chunked(A)
    assert x.to_backend("svod") is x
    assert all(type(block) is np.ndarray for block in compute_blocks(x.to_backend("numpy")))


# Earlier versions of dask pass a deprecated argument to numpy.
@pytest.mark.filterwarnings("ignore:Passing more than 2 positional:DeprecationWarning")
def test_percentiles_are_merged_by_dask_in_numpy():
    column, qs = A[:, 0], [10, 50, 100]
    for method in ("linear", "nearest"):
        found = da.percentile(chunked(column, 4), qs, method=method).compute()
        expected = da.percentile(da.from_array(column, chunks=4), qs, method=method).compute()
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_tasks_return_realized_tensors_in_dicts_too():
    result = backend.realize_tensors({"a": [Tensor([1]) + 1], "b": (Tensor([2]) * 2, "text")})
    assert result["a"][0].is_realized
    assert result["b"][0].is_realized
    graph = chunked(A).std(axis=0)
    optimized = graph.__dask_optimize__(graph.__dask_graph__(), graph.__dask_keys__())
    values = {}
    tasks = dict(optimized)
    while tasks:
        ready = [key for key, task in tasks.items() if task.dependencies <= values.keys()]
        for key in ready:
            values[key] = tasks.pop(key)({k: values[k] for k in values})
    tensors = list[Tensor]()
    backend._collect_tensors(list(values.values()), tensors)
    assert len(tensors) > 4
    assert all(tensor.is_realized for tensor in tensors)


def test_a_chosen_optimization_stays():
    with dask.config.set(array_optimize=False):
        backend._register()
        assert dask.config.get("array_optimize") is False


def test_variances_of_complex_numbers_are_those_of_their_distances():
    x = chunked(A.astype(np.complex64))
    # dask casts the empty array that stands for a chunk to the real dtype of the result.
    with pytest.raises(OperandError, match="take a part"):
        x.var(axis=0)
    plain = da.from_array(A.astype(np.complex64), chunks=(4, 3))
    check((abs(x - x.mean(axis=0)) ** 2).mean(axis=0), plain.var(axis=0))


def test_indices_are_tensors_or_dask_arrays_of_integers():
    x, rows = chunked(A), np.array([0, 3, 3])
    check(x[Tensor(rows)], da.from_array(A, chunks=(4, 3))[rows])
    lazy_rows = da.from_array(rows, chunks=2)
    check(x[lazy_rows], da.from_array(A, chunks=(4, 3))[lazy_rows])


def test_equal_tensors_have_equal_tokens():
    from dask.base import tokenize

    assert tokenize(Tensor([1.0, 2.0])) == tokenize(Tensor([1.0, 2.0]))
    assert tokenize(Tensor([1.0, 2.0])) != tokenize(Tensor([1.0, 3.0]))
    assert tokenize(Tensor([1])) != tokenize(Tensor([1], dtype="int64"))
    assert da.from_array(Tensor(A)).name == da.from_array(Tensor(A)).name


def scale(factor):
    @jit
    def multiply(block):
        return block * factor

    return multiply


def test_captured_functions_are_pickled_by_value():
    RESTORED.clear()
    double = scale(2.0)
    restored = pickle.loads(pickle.dumps(double))
    assert restored is not double
    assert restored(Tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    # Equal pickles share the plans.
    assert pickle.loads(pickle.dumps(double)) is restored
    assert restored.n_captures == 1
    triple = pickle.loads(pickle.dumps(scale(3.0)))
    assert triple(Tensor([1.0])).tolist() == [3.0]


def test_a_captured_function_that_writes_is_a_copy_of_its_own():
    total = Tensor([0.0])

    @jit
    def add(x):
        total.assign(total + x)
        return total + 0

    first, second = (pickle.loads(pickle.dumps(add)) for _ in range(2))
    assert first(Tensor([2.0])).tolist() == [2.0]
    assert first.assigns
    third = pickle.loads(pickle.dumps(add))
    assert third(Tensor([3.0])).tolist() == [3.0]
    assert second is first
    assert total.tolist() == [0.0]


def test_captured_functions_of_modules_are_pickled_by_name(tmp_path, monkeypatch):
    (tmp_path / "steps_of_a_module.py").write_text(
        "from svod_tensor import jit\n\n\n@jit\ndef step(x):\n    return x + 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    step = importlib.import_module("steps_of_a_module").step
    assert pickle.loads(pickle.dumps(step)) is step
    assert copy.deepcopy(step) is step is copy.copy(step)


def test_captured_functions_on_threads_and_processes():
    double = scale(2.0)
    plain = da.from_array(A, chunks=(4, 6))
    for scheduler, options in (("threads", {}), ("processes", {"num_workers": 2})):
        with dask.config.set(scheduler=scheduler, **options):
            x = plain.to_backend("svod").map_blocks(double).persist()
            check(x, plain * 2)
            check(x.sum(axis=0), (plain * 2).sum(axis=0))
            n_captures = double.n_captures
    # The tasks of other processes capture there.
    assert double.n_captures == n_captures


def test_frames_are_the_memory_of_tensors():
    protocol = pytest.importorskip("distributed.protocol", reason="distributed is not installed")
    x = Tensor(np.arange(1 << 12, dtype=np.float32))
    header, frames = protocol.serialize(x)
    assert sum(memoryview(frame).nbytes for frame in frames) < x.nbytes + 500
    assert np.shares_memory(np.frombuffer(frames[-1], np.uint8), x.numpy())
    received = protocol.deserialize(header, frames)
    assert isinstance(received, Tensor)
    assert np.shares_memory(received.numpy(), x.numpy())
    # A frame at an odd address is copied.
    shifted = bytearray(x.nbytes + 1)
    shifted[1:] = frames[-1]
    received = protocol.deserialize(header, [frames[0], memoryview(shifted)[1:]])
    assert (received == x).all().item()
    assert dask.sizeof.sizeof(x) > x.nbytes


@pytest.mark.parametrize("dtype", ["bfloat16", "bool", "complex64", "float16"])
def test_frames_of_every_dtype(dtype):
    protocol = pytest.importorskip("distributed.protocol", reason="distributed is not installed")
    x = Tensor([[0.0, 1.0], [2.0, 3.0]]).cast(dtype)
    received = protocol.deserialize(*protocol.serialize(x))
    assert received.dtype is x.dtype
    assert received.tolist() == x.tolist()


def test_a_cluster_computes_on_tensors_without_preparation():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    plain = da.from_array(A, chunks=(4, 3))
    triple = scale(3.0)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set(scheduler=None),
    ):
        x = plain.to_backend("svod").persist()
        check(x.std(axis=0), plain.std(axis=0))
        check(x @ x.T, plain @ plain.T, tolerance=1e-4)
        check(x.rechunk((5, 6)).map_blocks(triple), plain.rechunk((5, 6)) * 3)
        check(da.linalg.svd(x.rechunk((4, 6)))[1], da.linalg.svd(plain.rechunk((4, 6)))[1])
        # Tensors without dask arrays: futures, and data that is scattered.
        future = client.submit(lambda t: t * 2, Tensor([1.0, 2.0]))
        assert future.result().tolist() == [2.0, 4.0]
        scattered = client.scatter(Tensor(A))
        assert client.submit(lambda t: t.sum().item(), scattered).result() == pytest.approx(
            float(A.sum()), rel=1e-5
        )
        n_bytes = client.run(lambda: dask.sizeof.sizeof(Tensor.zeros(1000)))
        assert all(size > 4000 for size in n_bytes.values())
