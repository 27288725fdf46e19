"""Complex numbers: what is computed of them, beside numpy, and where they lie."""

from __future__ import annotations

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import Op, OperandError, ShapeError
from svod_tensor import Tensor
from svod_tensor.errors import DataError

KINDS = (np.complex64, np.complex128)


def draw(shape: tuple[int, ...], kind: type = np.complex64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind)


def check(found: Tensor, expected: object, *, rtol: float = 0) -> None:
    array, wanted = found.numpy(), np.asarray(expected)
    assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
    eps = np.finfo(array.dtype).eps if array.dtype.kind in "fc" else 0
    np.testing.assert_allclose(array, wanted, rtol=rtol or 8 * eps, atol=8 * eps)


A, B = draw((3, 4)), draw((3, 4), seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic_is_that_of_numpy(kind):
    a, b = A.astype(kind), B.astype(kind)
    x, y = Tensor(a), Tensor(b)
    results = [x + y, x - y, x * y, x / y, -x, x.square(), x.reciprocal(), abs(x), x.sign(), x == y, x != y, x.conj()]
    expected = [a + b, a - b, a * b, a / b, -a, a * a, 1 / a, abs(a), np.sign(a), a == b, a != b, a.conj()]
    Tensor.realize_batch(results)
    for found, wanted in zip(results, expected, strict=True):
        check(found, wanted)


def test_python_numbers_and_real_tensors_promote():
    x, reals = Tensor(A), np.arange(4, dtype=np.float32)
    check(x + 1j, A + np.complex64(1j))
    check(2 - x, 2 - A)
    check(1j / x, np.complex64(1j) / A)
    check(Tensor(reals) * x, reals * A)
    check(Tensor(reals) + 2j, reals + np.complex64(2j))
    check(Tensor(reals.astype(np.float64)) + 2j, reals.astype(np.float64) + 2j)
    assert (Tensor([1, 2]) * 1j).dtype == sv.complex64
    assert (Tensor([1.0], dtype="float64") + x[0, :1]).dtype == sv.complex128
    assert (Tensor([1.0], dtype="float16") + x[0, :1]).dtype == sv.complex64


def test_parts_are_taken_and_put_together():
    x = Tensor(A)
    check(x.real, A.real)
    check(x.imag, A.imag)
    check(x.angle(), np.angle(A))
    check(x.real.complex(x.imag), A)
    check(x.as_real(), A.view(np.float32).reshape(3, 4, 2))
    check(x.as_real().as_complex(), A)
    check(x.real.complex(0), A.real.astype(np.complex64))
    reals = Tensor([1.5, -2.0])
    check(reals.real, np.float32([1.5, -2.0]))
    check(reals.imag, np.float32([0, 0]))
    check(reals.conj(), np.float32([1.5, -2.0]))
    check(reals.angle(), np.angle(np.float32([1.5, -2.0])))
    check(sv.conj(x), A.conj())
    for wrong in (lambda: x.complex(reals), lambda: reals.as_real(), lambda: Tensor([1, 2]).as_complex()):
        with pytest.raises(OperandError):
            wrong()
    with pytest.raises(ShapeError):
        Tensor([1.0, 2.0, 3.0]).as_complex()


def test_complex_data_makes_complex_tensors():
    assert Tensor(1 + 2j).item() == 1 + 2j
    assert Tensor([1, 2.5, 1j]).dtype == sv.complex64
    check(Tensor([[1, 2j]], dtype="complex128"), np.array([[1, 2j]]))
    check(Tensor([np.complex64(1j), np.complex64(2)]), np.array([1j, 2], np.complex64))
    check(Tensor([Tensor(1.0), 2j]), np.array([1, 2j], np.complex64))
    check(sv.zeros((2, 2), dtype=sv.complex64), np.zeros((2, 2), np.complex64))
    check(sv.full((2,), 1 - 1j), np.full((2,), 1 - 1j, np.complex64))
    check(sv.ones((2,), dtype="complex128"), np.ones(2, np.complex128))
    check(sv.arange(3, dtype=sv.complex64), np.arange(3, dtype=np.complex64))
    check(sv.eye(2, dtype=sv.complex64), np.eye(2, dtype=np.complex64))
    assert complex(Tensor([2j])) == 2j
    assert Tensor([1j]).tolist() == [1j]
    for read in (float, int):
        with pytest.raises(OperandError, match="a real number"):
            read(Tensor(1j))
    with pytest.raises(OperandError):
        Tensor([1.0, 2.0]).add(Tensor(1j)).cast("float32")
    with pytest.raises((OperandError, DataError)):
        Tensor(1j, dtype="float32")


def test_memory_is_shared_with_numpy():
    array = np.zeros(64, np.complex128)
    x = Tensor.from_numpy(array)
    assert x.numpy().dtype == array.dtype
    back = x.numpy()
    assert np.asarray(np.from_dlpack(x)).dtype == array.dtype
    array[3] = 1 + 2j
    shares = np.shares_memory(back, array)
    assert not shares or x.numpy()[3] == 1 + 2j
    check(Tensor(A.T), A.T)
    check(Tensor(A.astype(">c8")), A)
    check(Tensor(A)[1].bitcast("float32"), A[1].view(np.float32))
    check(Tensor(A.view(np.float32)).bitcast("complex64"), A)


def test_movement_and_places_are_those_of_numpy():
    x, y = Tensor(A), Tensor(B)
    results = [
        x.T[1:, ::-1], x.reshape(2, 6).pad((1, 0), (0, 2)), x.concat(y), x.stack(y, axis=-1), x[[2, 0]], x[:, None, 1],
        x.roll(1, axis=1), x.tile((2, 1)), x.take_along_axis(Tensor([[0], [1], [2]]), 1), x.flip(0), (x.real > 0).where(x, y),
        x.tril(), x.diagonal(), x.repeat(2, axis=0), x.contiguous().T,
    ]  # fmt: skip
    expected = [
        A.T[1:, ::-1], np.pad(A.reshape(2, 6), ((1, 0), (0, 2))), np.concatenate([A, B]), np.stack([A, B], -1), A[[2, 0]],
        A[:, None, 1], np.roll(A, 1, 1), np.tile(A, (2, 1)), np.take_along_axis(A, np.array([[0], [1], [2]]), 1), A[::-1],
        np.where(A.real > 0, A, B), np.tril(A), A.diagonal(), A.repeat(2, 0), A.T,
    ]  # fmt: skip
    Tensor.realize_batch(results)
    for found, wanted in zip(results, expected, strict=True):
        check(found, wanted)


def test_sums_and_products_are_those_of_numpy():
    x, y = Tensor(A), Tensor(B)
    results = [
        x.sum(), x.sum(0), x.mean(1), x.cumsum(1), x @ y.T, x @ y[0], sv.vecdot(x, y), x.outer(y), Tensor.einsum("ij,kj->ik", x, y),
        x.any(0), x.all(), x.count_nonzero(), Tensor(A[:0]).sum(0),
    ]  # fmt: skip
    expected = [
        A.sum(), A.sum(0), A.mean(1), A.cumsum(1), A @ B.T, A @ B[0], (A.conj() * B).sum(-1), np.outer(A, B), A @ B.T,
        A.any(0), A.all(), np.count_nonzero(A), A[:0].sum(0),
    ]  # fmt: skip
    Tensor.realize_batch(results)
    for found, wanted in zip(results, expected, strict=True):
        check(found, wanted, rtol=1e-5)


def test_a_product_of_matrices_is_made_of_real_ones():
    x = Tensor(draw((8, 8)))
    reductions = [n for n in (x @ x).uop.toposort() if n.op is Op.REDUCE_AXIS]
    assert [n.dtype for n in reductions] == [sv.complex64]
    assert (x @ x).prepare().num_kernels == 2


def test_a_quotient_does_not_overflow_on_the_way():
    big, small = 1e30, 1e-30
    values = np.array([big + big * 1j, small + small * 1j, big, big * 1j, small - small * 1j], np.complex64)
    with np.errstate(all="ignore"):
        for divisor in values:
            check(
                Tensor(values) / Tensor(divisor),
                (values.astype(np.complex128) / divisor.astype(np.complex128)).astype(np.complex64),
            )


def test_what_is_not_finite_is_as_in_numpy():
    parts = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])
    a = np.empty(49, np.complex128)
    a.real, a.imag = np.repeat(parts, 7), np.tile(parts, 7)
    b = np.roll(a, 5)
    x, y = Tensor(a), Tensor(b)
    with np.errstate(all="ignore"):
        pairs = [
            (x + y, a + b), (x * y, a * b), (x / y, a / b), (x.isnan(), np.isnan(a)), (x.isinf(), np.isinf(a)),
            (x.isfinite(), np.isfinite(a)), (abs(x), abs(a)), (x == y, a == b), (x == x, a == a), (x.angle(), np.angle(a)),
        ]  # fmt: skip
    Tensor.realize_batch([found for found, _ in pairs])
    for found, wanted in pairs:
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-15)


def test_parts_of_a_tensor_are_written():
    x, a = Tensor(A), A.copy()
    view = x[1:, 2]
    view.assign(5j)
    a[1:, 2] = 5j
    check(x, a)
    x[0] = x[2] * 2j
    a[0] = a[2] * np.complex64(2j)
    x.T[1] += 1
    a.T[1] += 1
    x[a.real > 0] = 0
    a[a.real > 0] = 0
    check(x, a)
    x[::2] = x[1]
    a[::2] = a[1]
    check(x, a)
    x.assign(1)
    check(x, np.ones_like(a))
    y = Tensor(A) * 2
    y[0, 0] = 1j
    check(y[0], np.concatenate([[np.complex64(1j)], 2 * A[0, 1:]]))


def test_a_captured_function_takes_and_gives_complex_tensors():
    @sv.jit
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x * y + 1j).sum(1), x.conj()

    for a, b in ((A, B), (B, A), (A, A)):
        total, conjugate = f(Tensor(a), Tensor(b))
        check(total, (a * b + np.complex64(1j)).sum(1), rtol=1e-5)
        check(conjugate, a.conj())
        again, _ = f(conjugate, conjugate)
        check(again, (a.conj() ** 2 + np.complex64(1j)).sum(1), rtol=1e-5)

    @sv.jit
    def g(x: Tensor, rows: Tensor) -> Tensor:
        x[1:] = rows
        return x * 2

    x = Tensor(A).realize()
    check(g(x, Tensor(B[1:])), 2 * np.concatenate([A[:1], B[1:]]))
    check(x, np.concatenate([A[:1], B[1:]]))


def test_what_has_no_meaning_for_complex_numbers_is_an_error():
    x = Tensor(A)
    calls = [
        lambda: x < x, lambda: x.maximum(1), lambda: x.max(), lambda: x.min(0), lambda: x.floor(), lambda: x // 2, lambda: x % 2,
        lambda: x.cast("float32"), lambda: x.cast("int32"), lambda: x.clip(0, 1), lambda: x.argmax(), lambda: x.sort(),
        lambda: x.argsort(), lambda: x.signbit(), lambda: x.copysign(1), lambda: x & x, lambda: x.erf(), lambda: x.atan2(x),
        lambda: x.relu(), lambda: x.cumprod(0).realize() if False else x.cummax(0),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(OperandError):
            call()


def test_shards_compute_complex_numbers():
    x = Tensor(A).shard(("CPU", "CPU:1"), axis=0)
    y = Tensor(B).shard(("CPU", "CPU:1"), axis=0)
    check(x * y, A * B)
    check((x @ y.T).to("CPU"), A @ B.T, rtol=1e-5)
    check(x.sum(0), A.sum(0), rtol=1e-5)
    x[1:] = 1j
    check(x, np.concatenate([A[:1], np.full((2, 4), 1j, np.complex64)]))


def test_a_tensor_shows_its_values(tmp_path):
    x = Tensor([1 + 2j, 3])
    assert repr(x) == "Tensor([1.+2.j, 3.+0.j], shape=(2,), dtype=complex64, device=CPU)"
    assert f"{Tensor(1.5 + 2j):.2f}" == "1.50+2.00j"
    import pickle

    check(pickle.loads(pickle.dumps(x)), x.numpy())
    sv.save_safetensors({"x": x}, tmp_path / "x.safetensors")
    loaded = sv.load_safetensors(tmp_path / "x.safetensors")["x"]
    assert loaded.dtype == sv.complex64
    check(loaded * 2, 2 * x.numpy())
