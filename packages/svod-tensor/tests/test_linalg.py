"""`svod_tensor.linalg`: results are numpy's, in every dtype and shape, and so are errors."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import AxisError, OperandError, ShapeError
from svod_tensor import Tensor, Variable, jit, scan
from svod_tensor.errors import MatrixError, UserError
from svod_tensor.host_functions import libraries
from svod_tensor.linalg.lapack import host

Call = Callable[..., Any]

SQUARE = ["det", "inv"]
BATCHES = [(), (2,), (2, 3), (0,)]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def symmetric(*shape: int) -> np.ndarray:
    x = array(*shape)
    return x + x.swapaxes(-1, -2)


def positive(*shape: int) -> np.ndarray:
    x = array(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


def assert_agree(found: Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_functions_of_square_matrices_agree_with_numpy(batch: tuple[int, ...]) -> None:
    x, b = array(*batch, 4, 4), array(*batch, 4, 3)
    for name in SQUARE:
        assert_agree(getattr(sv.linalg, name)(Tensor(x)), getattr(np.linalg, name)(x))
    assert_agree(sv.linalg.solve(Tensor(x), Tensor(b)), np.linalg.solve(x, b))
    for found, expected in zip(sv.linalg.slogdet(Tensor(x)), np.linalg.slogdet(x), strict=True):
        assert_agree(found, expected)
    for n in (-2, 0, 1, 5):
        assert_agree(sv.linalg.matrix_power(Tensor(x), n), np.linalg.matrix_power(x, n), 1e-9)
    p, s = positive(*batch, 4, 4), symmetric(*batch, 4, 4)
    assert_agree(sv.linalg.cholesky(Tensor(p)), np.linalg.cholesky(p))
    assert_agree(sv.linalg.cholesky(Tensor(p), upper=True), np.linalg.cholesky(p, upper=True))
    assert_agree(sv.linalg.eigvalsh(Tensor(s)), np.linalg.eigvalsh(s))
    for found, expected in zip(sv.linalg.eigh(Tensor(s)), np.linalg.eigh(s), strict=True):
        assert_agree(found, expected)


@pytest.mark.parametrize(
    "shape", [(3, 5), (5, 3), (4, 4), (2, 5, 3), (0, 3, 2), (0, 3), (3, 0)], ids=str
)
def test_functions_of_all_matrices_agree_with_numpy(shape: tuple[int, ...]) -> None:
    x = array(*shape)
    t = Tensor(x)
    for is_full in (True, False):
        for found, expected in zip(
            sv.linalg.svd(t, full_matrices=is_full), np.linalg.svd(x, is_full), strict=True
        ):
            assert_agree(found, expected)
    for mode in ("reduced", "complete"):
        for found, expected in zip(sv.linalg.qr(t, mode=mode), np.linalg.qr(x, mode), strict=True):
            assert_agree(found, expected)
    assert_agree(sv.linalg.svdvals(t), np.linalg.svdvals(x))
    assert_agree(sv.linalg.pinv(t), np.linalg.pinv(x))
    if x.size:
        assert_agree(sv.linalg.matrix_rank(t), np.linalg.matrix_rank(x))
        for p in (None, 2, -2):
            assert_agree(sv.linalg.cond(t, p), np.linalg.cond(x, p))
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            for keepdims in (False, True):
                expected = np.linalg.norm(x, order, (-2, -1), keepdims)
                assert_agree(sv.linalg.matrix_norm(t, ord=order, keepdims=keepdims), expected)
                assert_agree(t.matrix_norm(ord=order, keepdims=keepdims), expected)
    else:
        assert_agree(sv.linalg.matrix_rank(t), np.zeros(shape[:-2], int))


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_matrices_agree_with_numpy(dtype: str) -> None:
    x = (array(2, 4, 4) + 1j * array(2, 4, 4, seed=1)).astype(dtype)
    b = (array(4, 3) + 1j * array(4, 3, seed=2)).astype(dtype)
    hermitian, tolerance = x + x.conj().mT, 1e-10 if dtype == "complex128" else 1e-4
    definite = x @ x.conj().mT
    for name in ("inv", "det", "svdvals", "pinv", "eigvals", "matrix_rank", "cond"):
        assert_agree(getattr(sv.linalg, name)(x), getattr(np.linalg, name)(x), tolerance)
    assert_agree(sv.linalg.solve(x, b), np.linalg.solve(x, b), tolerance)
    assert_agree(sv.linalg.solve_triangular(x, b), np.linalg.solve(np.tril(x), b), tolerance)
    assert_agree(sv.linalg.cholesky(definite), np.linalg.cholesky(definite), tolerance)
    assert_agree(
        sv.linalg.cholesky(definite, upper=True),
        np.linalg.cholesky(definite, upper=True),
        tolerance,
    )
    assert_agree(sv.linalg.eigvalsh(hermitian), np.linalg.eigvalsh(hermitian), tolerance)
    for order in ("fro", "nuc", 1, 2, -2, np.inf):
        assert_agree(
            sv.linalg.matrix_norm(x, ord=order), np.linalg.norm(x, order, (-2, -1)), tolerance
        )
    for ours, theirs in (
        (sv.linalg.slogdet(x), np.linalg.slogdet(x)),
        (sv.linalg.eigh(hermitian), np.linalg.eigh(hermitian)),
        (sv.linalg.svd(x), np.linalg.svd(x)),
        (sv.linalg.qr(x), np.linalg.qr(x)),
        (sv.linalg.eig(x), np.linalg.eig(x)),
    ):
        for found, expected in zip(ours, theirs, strict=True):
            assert found.numpy().dtype == expected.dtype
            assert_agree(found, expected, tolerance)
    found, expected = sv.linalg.lstsq(x[0, :, :2], b), np.linalg.lstsq(x[0, :, :2], b)
    assert_agree(found.x, expected[0], tolerance)
    assert_agree(found.residuals, expected[1], tolerance)
    assert_agree(
        sv.linalg.expm(x) @ sv.linalg.expm(-x), np.broadcast_to(np.eye(4), x.shape), 100 * tolerance
    )


def test_eigenvalues_of_real_matrices_are_complex() -> None:
    for x in (array(3, 4, 4), np.eye(3), np.zeros((0, 2, 2)), array(2, 2).astype("f")):
        values, vectors = sv.linalg.eig(x)
        assert values.dtype.is_complex
        assert vectors.numpy().dtype == np.result_type(x.dtype, np.complex64)
        assert_agree(values, np.linalg.eigvals(x).astype(complex), 1e-6)
        np.testing.assert_allclose(
            x @ vectors.numpy(), vectors.numpy() * values.numpy()[..., None, :], atol=1e-6
        )


def test_right_hand_sides_are_vectors_or_matrices_and_broadcast() -> None:
    x, many = array(4, 4), array(2, 1, 4, 4, seed=1)
    for a, shape in (
        (x, (4,)),
        (x, (4, 0)),
        (x, (2, 3, 4, 5)),
        (many, (4,)),
        (many, (3, 4, 2)),
        (x[None], (4, 2)),
    ):
        b = array(*shape, seed=2)
        assert_agree(sv.linalg.solve(a, b), np.linalg.solve(a, b))
        for upper in (False, True):
            part = np.triu(a) if upper else np.tril(a)
            assert_agree(
                sv.linalg.solve_triangular(a, b, upper=upper), np.linalg.solve(part, b), 1e-9
            )
            ones = part * (1 - np.eye(4)) + np.eye(4)
            found = sv.linalg.solve_triangular(a, b, upper=upper, unit_diagonal=True)
            assert_agree(found, np.linalg.solve(ones, b), 1e-9)


def test_long_triangular_systems_are_solved_in_blocks() -> None:
    x, b = np.tril(array(200, 200)) / 20 + np.eye(200), array(200, 3)
    for a, upper in ((x, False), (x.T, True)):
        assert_agree(sv.linalg.solve_triangular(a, b, upper=upper), np.linalg.solve(a, b), 1e-9)


@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 5), (4, 4)])
def test_least_squares_agree_with_numpy(m: int, n: int) -> None:
    a = array(m, n)
    for b in (array(m, 2), array(m)):
        found, (x, residuals, rank, values) = sv.linalg.lstsq(a, b), np.linalg.lstsq(a, b)
        assert_agree(found.x, x)
        assert found.rank.item() == rank
        assert_agree(found.singular_values, values)
        if residuals.size:
            assert_agree(found.residuals, residuals)
    # Of a rank that is not full, the shortest; and one for each of several matrices.
    a = array(2, 5, 2) @ array(2, 2, 4, seed=1)
    b = array(2, 5, 3)
    found = sv.linalg.lstsq(a, b)
    for number in range(2):
        assert_agree(found.x[number], np.linalg.lstsq(a[number], b[number])[0], 1e-9)
    assert found.rank.tolist() == [2, 2]


def test_tolerances_are_numbers_or_one_for_each_matrix() -> None:
    x = np.stack([np.diag([1.0, 0.5, 0.01])] * 2)
    limits = np.array([0.1, 0.7])
    assert sv.linalg.matrix_rank(x, rtol=0.1).tolist() == [2, 2]
    assert sv.linalg.matrix_rank(x, rtol=Tensor(limits)).tolist() == [2, 1]
    assert_agree(sv.linalg.pinv(x, rtol=Tensor(limits)), np.linalg.pinv(x, limits))
    assert_agree(sv.linalg.pinv(x, rtol=0.1), np.linalg.pinv(x, 0.1))


def test_exponentials_of_matrices() -> None:
    x = array(5, 4, 4) * np.array([1e-8, 0.1, 1, 10, 100])[:, None, None]
    x = x - x.swapaxes(-1, -2)
    values, vectors = np.linalg.eig(x)
    expected = (vectors * np.exp(values)[:, None, :]) @ np.linalg.inv(vectors)
    assert_agree(sv.linalg.expm(x), expected.real, 1e-12)
    np.testing.assert_allclose(
        sv.linalg.expm(x[:4].astype("f")).numpy(), expected[:4].real, rtol=1e-5, atol=2e-5
    )
    assert_agree(sv.linalg.expm(np.zeros((3, 3))), np.eye(3))
    assert sv.linalg.expm(Tensor([[float("nan")]])).isnan().item()


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float8_e5m2", "int32", "uint8", "bool"]
)
def test_every_real_dtype_is_taken(dtype: str) -> None:
    x = Tensor([[3, 1], [1, 0]]).cast(dtype)
    wide = x.cast("float32").numpy()
    results = {
        "inv": np.linalg.inv(wide),
        "det": np.linalg.det(wide),
        "eigvalsh": np.linalg.eigvalsh(wide),
        "svdvals": np.linalg.svdvals(wide),
        "pinv": np.linalg.pinv(wide),
    }
    for name, expected in results.items():
        found = getattr(sv.linalg, name)(x)
        assert found.dtype is (x.dtype if x.dtype.is_float else sv.float32)
        np.testing.assert_array_equal(found.numpy(), Tensor(expected).cast(found.dtype).numpy())


def test_products_agree_with_numpy() -> None:
    x, y = array(2, 3), array(5, 2, 3, seed=1)
    assert_agree(sv.linalg.cross(x, y), np.linalg.cross(x, y))
    assert_agree(
        sv.linalg.cross(x.T, y.swapaxes(-1, -2), axis=-2),
        np.cross(x.T, y.swapaxes(-1, -2), axis=-2),
    )
    assert (
        sv.linalg.cross([1, 2, 3], Tensor([4, 5, 6])).tolist()
        == np.cross([1, 2, 3], [4, 5, 6]).tolist()
    )
    chain = [array(4, 9), array(9, 2), array(2, 7), array(7, 3)]
    assert_agree(sv.linalg.multi_dot(chain), np.linalg.multi_dot(chain))
    assert_agree(
        sv.linalg.multi_dot([chain[0][0], *chain[1:3], chain[3][:, 0]]),
        np.linalg.multi_dot([chain[0][0], *chain[1:3], chain[3][:, 0]]),
    )
    assert_agree(sv.linalg.multi_dot([chain[0][0], chain[1]]), chain[0][0] @ chain[1])
    assert_agree(sv.linalg.outer(x[0], y[0, 0]), np.outer(x[0], y[0, 0]))
    assert_agree(sv.linalg.tensordot(x, y, axes=([1], [2])), np.tensordot(x, y, ([1], [2])))
    assert_agree(sv.linalg.vecdot(x, y), np.linalg.vecdot(x, y))
    assert_agree(sv.linalg.trace(y, offset=1), np.linalg.trace(y, offset=1))
    assert_agree(sv.linalg.diagonal(y, offset=1), np.linalg.diagonal(y, offset=1))
    assert_agree(sv.linalg.matmul(x, x.T), x @ x.T)
    assert_agree(sv.linalg.matrix_transpose(y), y.swapaxes(-1, -2))


def test_norms_and_tensors_as_matrices_agree_with_numpy() -> None:
    x = array(2, 3, 4)
    assert_agree(sv.linalg.norm(x), np.linalg.norm(x))
    for order, axis in (
        (None, (0, 2)),
        (1, 1),
        (np.inf, (2, 0)),
        ("nuc", (0, 1)),
        (2, (-1, 0)),
        (3, -1),
    ):
        for keepdims in (False, True):
            assert_agree(
                sv.linalg.norm(x, order, axis, keepdims=keepdims),
                np.linalg.norm(x, order, axis, keepdims),
            )
    assert_agree(sv.linalg.norm(x[0], "nuc"), np.linalg.norm(x[0], "nuc"))
    assert_agree(sv.linalg.vector_norm(x, axis=1, ord=1), np.linalg.vector_norm(x, axis=1, ord=1))
    square = array(2, 3, 6)
    assert_agree(sv.linalg.tensorinv(square), np.linalg.tensorinv(square))
    assert_agree(
        sv.linalg.tensorsolve(square, x[:, :, 0]), np.linalg.tensorsolve(square, x[:, :, 0])
    )
    turned = array(2, 6, 3)
    assert_agree(
        sv.linalg.tensorsolve(turned, x[:, :, 0], (1,)),
        np.linalg.tensorsolve(turned, x[:, :, 0], (1,)),
    )


def test_condition_numbers_of_singular_matrices_are_infinite() -> None:
    x = np.stack([np.ones((2, 2)), np.eye(2), np.full((2, 2), np.nan)])
    for p in (1, "fro", np.inf):
        np.testing.assert_array_equal(sv.linalg.cond(x, p).numpy(), np.linalg.cond(x, p))
    assert sv.linalg.cond(np.zeros((2, 2)), 2).item() == np.inf


def test_errors_name_the_index_of_the_matrix() -> None:
    x = np.stack([np.eye(2)] * 6).reshape(3, 2, 2, 2)
    x[2, 1] = [[1, 2], [2, 4]]
    calls: list[tuple[Call, str]] = [
        (sv.linalg.inv, "inv: matrix 2, 1 is singular"),
        (lambda a: sv.linalg.solve(a, [1.0, 2.0]), "solve: matrix 2, 1 is singular"),
        (lambda a: sv.linalg.cholesky(-a), "cholesky: matrix 0, 0 is not positive definite"),
        (lambda a: sv.linalg.inv(a[2, 1]), "inv: the matrix is singular"),
        (lambda a: sv.linalg.solve(a[2, 1], [1.0, 2.0]), "solve: the matrix is singular"),
        (
            lambda a: sv.linalg.solve_triangular(a * [[1, 1], [1, 0]], [1.0, 2.0]),
            "solve_triangular: matrix 0, 0 is singular",
        ),
        (
            lambda a: sv.linalg.svd(a * np.nan).S,
            "svd: matrix 0, 0 has values for which the iteration does not converge",
        ),
    ]
    for call, message in calls:
        result = call(Tensor(x))
        with pytest.raises(MatrixError, match=f"^{re.escape(message)}") as caught:
            result.realize()
        assert isinstance(caught.value, np.linalg.LinAlgError)
    assert caught.value.index == (0, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: sv.linalg.vector_norm(x, axis=4), "vector_norm: axis 4 is out of bounds"),
        (lambda x: sv.linalg.tensorinv(x, 1), "tensorinv: last 2 dimensions must be square"),
        (lambda x: sv.linalg.tensorsolve(x, x[:, 0]), "tensorsolve: last 2 dimensions"),
        (lambda x: sv.linalg.multi_dot([x, x]), "multi_dot: inner dimensions differ"),
    ],
)
def test_errors_name_the_called_function_and_not_its_parts(
    call: Callable[[Tensor], Tensor], message: str
) -> None:
    with pytest.raises(UserError, match=f"^{message}") as caught:
        call(Tensor.ones(2, 3))
    assert caught.value.operation == message.partition(":")[0]


def test_invalid_arguments_are_errors_at_the_call() -> None:
    x = Tensor.ones(2, 3)
    for name in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "expm"):
        with pytest.raises(
            ShapeError, match=rf"{name}: last 2 dimensions must be square: \(2, 3\)"
        ):
            getattr(sv.linalg, name)(x)
        with pytest.raises(AxisError):
            getattr(sv.linalg, name)(x[0])
    for name in ("svd", "svdvals", "qr", "pinv", "matrix_rank", "cond"):
        with pytest.raises(AxisError):
            getattr(sv.linalg, name)(x[0])
    with pytest.raises(
        ShapeError, match=r"solve: right-hand side \(3,\) does not match matrices \(2, 2\)"
    ):
        sv.linalg.solve(x[:, :2], x[0])
    with pytest.raises(
        OperandError, match='qr: expected "reduced" or "complete" as mode, got \'raw\''
    ):
        sv.linalg.qr(x, mode="raw")  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        OperandError, match='matrix_norm: expected "fro", "nuc", 1, -1, 2, -2 or an'
    ):
        sv.linalg.matrix_norm(x, ord=3)
    with pytest.raises(
        OperandError, match="norm: expected one or two axes with an ord, got 1 of 3 axes"
    ):
        sv.linalg.norm(Tensor.ones(2, 2, 2), 1)
    with pytest.raises(ShapeError, match=r"cross: axis -1 must have size 3: \(2, 2\)"):
        sv.linalg.cross(x, x[:, :2])
    with pytest.raises(ShapeError, match=r"outer: expected a vector, got shape \(2, 3\)"):
        sv.linalg.outer(x, x)
    with pytest.raises(ShapeError, match="multi_dot: expected at least two arrays, got 1"):
        sv.linalg.multi_dot([x])


def test_linalg_in_captured_functions_and_loops() -> None:
    x, b = positive(3, 3), array(5, 3)

    @jit
    def step(a: Tensor, right: Tensor) -> Tensor:
        lower = sv.linalg.cholesky(a + a)
        return sv.linalg.solve(lower, right) + sv.linalg.eigh(a).eigenvalues

    for row in b:
        expected = np.linalg.solve(np.linalg.cholesky(x + x), row) + np.linalg.eigvalsh(x)
        assert_agree(step(Tensor(x), Tensor(row)), expected)
    last, all_of_them = scan(
        lambda carry, row: (sv.linalg.solve(Tensor(x), carry + row),) * 2, Tensor(b[0]), Tensor(b)
    )
    carry = b[0]
    for number, row in enumerate(b):
        carry = np.linalg.solve(x, carry + row)
        assert_agree(all_of_them[number], carry)
    assert_agree(last, carry)


def test_sizes_may_depend_on_variables() -> None:
    n = Variable("n", 1, 6)
    x = positive(6, 6)
    for size in (2, 5):
        part = Tensor(x)[: n.bind(size), : n.bind(size)]
        expected = x[:size, :size]
        for name in ("inv", "det", "cholesky", "eigvalsh", "svdvals", "expm"):
            found = getattr(sv.linalg, name)(part).numpy()
            want = (
                sv.linalg.expm(expected).numpy()
                if name == "expm"
                else getattr(np.linalg, name)(expected)
            )
            np.testing.assert_allclose(found, want, rtol=1e-9)
        tall = Tensor(x)[:, : n.bind(size)]
        for found, want in zip(sv.linalg.qr(tall), np.linalg.qr(x[:, :size]), strict=True):
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-9, atol=1e-12)


def test_sharded_operands_are_gathered() -> None:
    x = positive(4, 3, 3)
    sharded = Tensor(x).shard(("CPU", "CPU:1"), axis=0)
    found = sv.linalg.inv(sharded)
    assert found.sharding is not None
    assert_agree(found, np.linalg.inv(x))
    assert_agree(
        sv.linalg.solve(sharded, Tensor(x).shard(("CPU", "CPU:1"), axis=2)), np.linalg.solve(x, x)
    )


def test_factorizations_are_lazy_and_one_call_computes_all_factors() -> None:
    x = Tensor(array(5, 3)).realize()
    u, s, vh = sv.linalg.svd(x, full_matrices=False)
    assert not s.is_realized
    plan = Tensor.prepare_batch([u, s, vh])
    assert [type(op).__name__ for op in plan.prepared_ops].count("PreparedCustomFunction") == 1


def test_host_functions_are_registered_by_name() -> None:
    names = {
        kind.removeprefix(libraries.LINALG)
        for kind in libraries.FUNCTIONS
        if kind.startswith(libraries.LINALG)
    }
    assert names == set(host.FUNCTIONS)


@pytest.mark.parametrize("name", [n for n in sv.linalg.__all__ if n[0].islower()])
def test_docstrings_have_tested_examples_and_describe_every_argument(name: str) -> None:
    function = getattr(sv.linalg, name)
    text = inspect.getdoc(function) or ""
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert found.examples
    report: list[str] = []
    doctest.DocTestRunner().run(found, out=report.append)
    assert not report, "".join(report)
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^    {argument}: ", text, re.M), f"no word of {argument}"


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3), (3, 0)])
def test_norms_of_empty_tensors_are_zero(shape: tuple[int, ...]) -> None:
    x = Tensor.zeros(*shape)
    for order in ("fro", "nuc", 1, 2, np.inf):
        for keepdims in (False, True):
            kept = (1, 1) if keepdims else ()
            found = sv.linalg.matrix_norm(x, ord=order, keepdims=keepdims).numpy()
            np.testing.assert_array_equal(found, np.zeros((*shape[:-2], *kept)), strict=False)
            assert found.shape == (*shape[:-2], *kept)
    assert sv.linalg.vector_norm(x, ord=np.inf).item() == 0
