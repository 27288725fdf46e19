"""Complex numbers: what is computed of them, beside numpy, and where they lie."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import svod_tensor as sv
from svod_ir import Op, OperandError, ShapeError
from svod_ir.testing import count_examples
from svod_tensor import Tensor
from svod_tensor.errors import DataError, DerivativeError

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
def test_arithmetic_agrees_with_numpy(kind):
    a, b = A.astype(kind), B.astype(kind)
    x, y = Tensor(a), Tensor(b)
    results = [
        x + y,
        x - y,
        x * y,
        x / y,
        -x,
        x.square(),
        x.reciprocal(),
        abs(x),
        x.sign(),
        x == y,
        x != y,
        x.conj(),
    ]
    expected = [
        a + b,
        a - b,
        a * b,
        a / b,
        -a,
        a * a,
        1 / a,
        abs(a),
        np.sign(a),
        a == b,
        a != b,
        a.conj(),
    ]
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


def test_real_and_imaginary_parts_are_split_and_combined():
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
    for wrong in (
        lambda: x.complex(reals),
        lambda: reals.as_real(),
        lambda: Tensor([1, 2]).as_complex(),
    ):
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


def test_movement_and_indexing_agree_with_numpy():
    x, y = Tensor(A), Tensor(B)
    results = [
        x.T[1:, ::-1],
        x.reshape(2, 6).pad((1, 0), (0, 2)),
        x.concat(y),
        x.stack(y, axis=-1),
        x[[2, 0]],
        x[:, None, 1],
        x.roll(1, axis=1),
        x.tile((2, 1)),
        x.take_along_axis(Tensor([[0], [1], [2]]), 1),
        x.flip(0),
        (x.real > 0).where(x, y),
        x.tril(),
        x.diagonal(),
        x.repeat(2, axis=0),
        x.contiguous().T,
    ]
    expected = [
        A.T[1:, ::-1],
        np.pad(A.reshape(2, 6), ((1, 0), (0, 2))),
        np.concatenate([A, B]),
        np.stack([A, B], -1),
        A[[2, 0]],
        A[:, None, 1],
        np.roll(A, 1, 1),
        np.tile(A, (2, 1)),
        np.take_along_axis(A, np.array([[0], [1], [2]]), 1),
        A[::-1],
        np.where(A.real > 0, A, B),
        np.tril(A),
        A.diagonal(),
        A.repeat(2, 0),
        A.T,
    ]
    Tensor.realize_batch(results)
    for found, wanted in zip(results, expected, strict=True):
        check(found, wanted)


def test_the_order_of_functions_of_products_is_an_index():
    a = draw((9,))
    order = np.argsort(np.abs(a * a) + a.real)
    z = sv.asarray(a)
    check(z[(abs(z * z) + z.real).argsort()], a[order])
    check(sv.take_along_axis(z, (z * z).real.argsort(), axis=0), a[np.argsort((a * a).real)])


def test_sums_and_products_agree_with_numpy():
    x, y = Tensor(A), Tensor(B)
    results = [
        x.sum(),
        x.sum(0),
        x.mean(1),
        x.cumsum(1),
        x @ y.T,
        x @ y[0],
        sv.vecdot(x, y),
        x.outer(y),
        Tensor.einsum("ij,kj->ik", x, y),
        x.any(0),
        x.all(),
        x.count_nonzero(),
        Tensor(A[:0]).sum(0),
    ]
    expected = [
        A.sum(),
        A.sum(0),
        A.mean(1),
        A.cumsum(1),
        A @ B.T,
        A @ B[0],
        (A.conj() * B).sum(-1),
        np.outer(A, B),
        A @ B.T,
        A.any(0),
        A.all(),
        np.count_nonzero(A),
        A[:0].sum(0),
    ]
    Tensor.realize_batch(results)
    for found, wanted in zip(results, expected, strict=True):
        check(found, wanted, rtol=1e-5)


def test_a_complex_matmul_is_computed_from_real_ones():
    x = Tensor(draw((8, 8)))
    reductions = [n for n in (x @ x).uop.toposort() if n.op is Op.REDUCE_AXIS]
    assert [n.dtype for n in reductions] == [sv.complex64]
    assert (x @ x).prepare().num_kernels == 2


def test_a_quotient_has_no_intermediate_overflow():
    big, small = 1e30, 1e-30
    values = np.array(
        [big + big * 1j, small + small * 1j, big, big * 1j, small - small * 1j], np.complex64
    )
    with np.errstate(all="ignore"):
        for divisor in values:
            check(
                Tensor(values) / Tensor(divisor),
                (values.astype(np.complex128) / divisor.astype(np.complex128)).astype(np.complex64),
            )


def test_non_finite_numbers_agree_with_numpy():
    parts = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])
    a = np.empty(49, np.complex128)
    a.real, a.imag = np.repeat(parts, 7), np.tile(parts, 7)
    b = np.roll(a, 5)
    x, y = Tensor(a), Tensor(b)
    with np.errstate(all="ignore"):
        pairs = [
            (x + y, a + b),
            (x * y, a * b),
            (x / y, a / b),
            (x.isnan(), np.isnan(a)),
            (x.isinf(), np.isinf(a)),
            (x.isfinite(), np.isfinite(a)),
            (abs(x), abs(a)),
            (x == y, a == b),
            (x == x, a == a),
            (x.angle(), np.angle(a)),
        ]
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


def test_operations_undefined_for_complex_numbers_are_errors():
    x = Tensor(A)
    calls = [
        lambda: x < x,
        lambda: x.maximum(1),
        lambda: x.max(),
        lambda: x.min(0),
        lambda: x.floor(),
        lambda: x // 2,
        lambda: x % 2,
        lambda: x.cast("float32"),
        lambda: x.cast("int32"),
        lambda: x.clip(0, 1),
        lambda: x.argmax(),
        lambda: x.signbit(),
        lambda: x.copysign(1),
        lambda: x & x,
        lambda: x.erf(),
        lambda: x.atan2(x),
        lambda: x.relu(),
        lambda: x.cummax(0),
    ]
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


NAMES = (
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
)
NUMPYS = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}


def compute_all(array: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Each function of an array by svod, and by numpy in the widest format that it has."""
    found = [getattr(Tensor(array), name)() for name in NAMES]
    Tensor.realize_batch(found)
    wide = array.astype(np.clongdouble)
    with np.errstate(all="ignore"):
        expected = [getattr(np, NUMPYS.get(name, name))(wide) for name in NAMES]
    return {
        name: (t.numpy(), wanted) for name, t, wanted in zip(NAMES, found, expected, strict=True)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_functions_are_accurate_to_a_few_ulps(kind):
    rng = np.random.default_rng(5)
    sizes = 10.0 ** rng.uniform(-6, 1.5, (2, 300)) * rng.choice([-1, 1], (2, 300))
    array = sizes[0] + 1j * sizes[1]
    array[:60] = np.exp(1j * rng.uniform(-3, 3, 60)) * (
        1 + rng.standard_normal(60) * 10.0 ** rng.uniform(-12, -1, 60)
    )
    eps = np.finfo(kind).eps
    for name, (found, expected) in compute_all(array.astype(kind)).items():
        if name == "log1p" or np.finfo(np.clongdouble).eps > 1e-18:
            # numpy's loses all digits near -1; where there is no wider format, numpy is as exact as
            # svod.
            continue
        error = np.abs(found.astype(np.clongdouble) - expected) / np.abs(expected) / eps
        assert error.max() < (0.75 if kind is np.complex64 else 3), name


def test_the_logarithm_keeps_its_digits_near_the_unit_circle():
    z = 1 + 1e-9 * np.exp(1j * np.arange(8))
    found = Tensor(z - 1).log1p().numpy()
    series = (z - 1) - (z - 1) ** 2 / 2
    np.testing.assert_allclose(found.real, series.real, rtol=1e-14)
    np.testing.assert_allclose(found.imag, series.imag, rtol=1e-14)
    # |z|^2 - 1 is 2^-60 here: by squares in float64 it would be 0.
    z = np.complex128(np.sqrt(1 - 2.0**-20) + 1j * 2.0**-10)
    size = Tensor(z.reshape(1), dtype="complex128").log().real.item()
    import fractions

    exact = fractions.Fraction(z.real) ** 2 + fractions.Fraction(z.imag) ** 2 - 1
    assert size == pytest.approx(float(exact) / 2, rel=1e-14)


# Where C leaves open which sign a part has, or numpy's own formula gives NaN.
OPEN_SIGNS = {"exp": "both", "sin": "imag", "cos": "imag", "sinh": "real", "cosh": "imag"}


def test_special_values_agree_with_numpy():
    parts = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, 1e10, 1e300, np.inf, -np.inf, np.nan])
    n = len(parts)
    array = np.empty(n * n, np.complex128)
    array.real, array.imag = np.repeat(parts, n), np.tile(parts, n)
    found = {name: getattr(Tensor(array), name)() for name in NAMES if name != "expm1"}
    Tensor.realize_batch(found.values())
    for name, tensor in found.items():
        with np.errstate(all="ignore"):
            expected = getattr(np, NUMPYS.get(name, name))(array)
        for part in ("real", "imag"):
            ours, theirs = getattr(tensor.numpy(), part), getattr(expected, part)
            np.testing.assert_allclose(
                np.abs(ours), np.abs(theirs), rtol=1e-12, atol=1e-300, err_msg=name
            )
            is_open = np.zeros(n * n, bool)
            if OPEN_SIGNS.get(name) in (part, "both"):
                is_open = ~np.isfinite(array.real) | ~np.isfinite(array.imag)
            differs = (np.signbit(ours) != np.signbit(theirs)) & ~np.isnan(ours) & ~is_open
            assert not differs.any(), (name, part, array[differs])


def test_powers_agree_with_numpy():
    a, b = draw((3, 4), np.complex128), draw((3, 4), np.complex128, seed=2)
    x, y = Tensor(a), Tensor(b)
    pairs = [
        (x**0, a**0),
        (x**1, a**1),
        (x**2, a**2),
        (x**5, a**5),
        (x**-3, a**-3),
        (x**0.5, a**0.5),
        (x**y, a**b),
        (2**x, 2**a),
        (x ** (1 + 2j), a ** (1 + 2j)),
        (x.real**y, a.real**b),
        (Tensor(a * 0) ** y.real.abs(), a * 0),
        (x**200, a**200),
        ((x * 0) ** (y * 0), np.ones_like(a)),
    ]
    Tensor.realize_batch([found for found, _ in pairs])
    for found, wanted in pairs:
        check(found, wanted, rtol=1e-12)
    assert np.isnan((Tensor([0j]) ** -1j).numpy()).all()


def test_products_and_moments_agree_with_numpy():
    a = draw((5, 7), np.complex128)
    x = Tensor(a)
    pairs = [
        (x.prod(), a.prod()),
        (x.prod(0), a.prod(0)),
        (x.prod(1, keepdims=True), a.prod(1, keepdims=True)),
        (x.cumprod(1), a.cumprod(1)),
        (x.cumprod(0), a.cumprod(0)),
        (x[:0].prod(0), a[:0].prod(0)),
        (x.var(), a.var()),
        (x.var(0, correction=1), a.var(0, ddof=1)),
        (x.std(1), a.std(1)),
        (x.norm(), np.linalg.norm(a)),
        (x.diff(axis=0), np.diff(a, axis=0)),
        (x.norm(1, ord=1), np.linalg.norm(a, 1, 1)),
    ]
    Tensor.realize_batch([found for found, _ in pairs])
    for found, wanted in pairs:
        check(found, wanted, rtol=1e-13)


LOSSES = {
    "product": lambda x, y: (x * y).sum().real,
    "quotient": lambda x, y: (x / y).abs().sum(),
    "matmul": lambda x, y: (x @ y.T).abs().sum(),
    "conj": lambda x, y: (x.conj() * y).imag.sum(),
    "where": lambda x, y: (x.real > 0).where(x * y, x - y).angle().sum(),
    "power": lambda x, y: (
        (x**y).real.sum() + (x**3).imag.sum() + y.prod(0).abs().sum() + x.cumprod(1).real.sum()
    ),
    "moments": lambda x, y: (
        x.var() + y.norm() + x.as_real().square().sum() + y.real.complex(x.imag).exp().real.sum()
    ),
    "places": lambda x, y: (
        (x[[1, 0]] * y.T.reshape(3, 4)[1:]).cumsum(1).real.sum()
        + y.pad((1, 0), (0, 2)).square().imag.sum()
    ),
    **{
        name: lambda x, y, name=name: (getattr(x, name)() * y).real.sum()
        for name in (*NAMES, "exp2", "rsqrt", "reciprocal")
    },
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_agree_with_differences(name):
    loss = LOSSES[name]
    a, b = draw((3, 4), np.complex128, seed=3), draw((3, 4), np.complex128, seed=4)
    along = draw((3, 4), np.complex128, seed=5), draw((3, 4), np.complex128, seed=6)

    @sv.jit
    def compute(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """The loss and its derivatives in both modes, in one plan for all points."""
        tangents = tuple(map(Tensor, along))
        gradients = sv.grad(loss, argnums=(0, 1))(x, y)
        assert [g.dtype for g in gradients] == [sv.complex128] * 2
        reverse = sum((g * t).sum().real for g, t in zip(gradients, tangents, strict=True))
        return *sv.jvp(loss, (x, y), tangents), reverse

    step = 1e-6
    above, at, below = (
        compute(*(Tensor(p + n * step * t) for p, t in zip((a, b), along, strict=True)))
        for n in (1, 0, -1)
    )
    _, forward, reverse = at
    difference = (above[0].item() - below[0].item()) / (2 * step)
    assert reverse.item() == pytest.approx(forward.item(), rel=1e-10)
    assert forward.item() == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_a_gradient_has_the_convention_of_jax():
    x = Tensor([1 + 2j])
    assert sv.grad(lambda x: x.real.sum())(x).tolist() == [1]
    assert sv.grad(lambda x: x.imag.sum())(x).tolist() == [-1j]
    assert sv.grad(lambda x: x.abs().square().sum())(x).numpy() == pytest.approx(np.array([2 - 4j]))
    assert (x * x).real.sum().gradient(x)[0].tolist() == [2 + 4j]
    # A step against the conjugate makes the loss smaller.
    assert sv.vjp(lambda x: x * 1j, x)[1](Tensor([1 + 0j]))[0].tolist() == [1j]
    with pytest.raises(DerivativeError, match="real numbers"):
        sv.grad(lambda x: x.sum())(x)
    with pytest.raises(DerivativeError, match="real numbers"):
        x.sum().gradient(x)
    reals = Tensor([1.0, 2.0])
    assert sv.grad(lambda r: ((r * 1j).exp()).imag.sum())(reals).numpy() == pytest.approx(
        np.cos([1.0, 2.0]), rel=1e-6
    )


def test_loops_carry_slice_and_stack_complex_tensors():
    a = draw((5, 3), np.complex128)
    x = Tensor(a)

    def run(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return sv.scan(lambda c, row: (c * w + row * 1j, c.conj() * row), x[0] * 0, x)

    last, rows = run(x, x[1])
    carried, expected = np.zeros(3, complex), []
    for row in a:
        expected.append(carried.conj() * row)
        carried = carried * a[1] + row * 1j
    check(last, carried)
    check(rows, np.array(expected))

    def loss(x: Tensor, w: Tensor) -> Tensor:
        last, rows = run(x, w)
        return last.abs().sum() + rows.real.sum()

    gradients = sv.jit(sv.grad(loss, argnums=(0, 1)))(x, x[1].clone())
    tangents = (
        Tensor(draw((5, 3), np.complex128, seed=1)),
        Tensor(draw((3,), np.complex128, seed=2)),
    )
    _, along = sv.jvp(loss, (x, x[1].clone()), tangents)
    assert sum(
        (g * t).sum().real.item() for g, t in zip(gradients, tangents, strict=True)
    ) == pytest.approx(along.item())
    chosen = sv.cond(Tensor(True), lambda t: t * 1j, lambda t: t.conj(), x)
    check(chosen, a * 1j)
    grown = sv.while_loop(lambda c: (c.abs() < 100).all(), lambda c: c * (1 + 1j), x[0])
    expected_growth = a[0]
    while (abs(expected_growth) < 100).all():
        expected_growth = expected_growth * (1 + 1j)
    check(grown, expected_growth)


def test_sizes_may_be_symbolic():
    a = draw((5, 3))
    n = sv.Variable("n", 1, 5)
    part = Tensor(a).shrink((0, n.bind(3)), None)
    check((part * 2j).realize(), a[:3] * np.complex64(2j))
    check((part * 2j).sum(0), (a[:3] * np.complex64(2j)).sum(0), rtol=1e-6)


@settings(max_examples=count_examples(30), deadline=None)
@given(st.data())
def test_random_programs_agree_with_numpy(data):
    arrays = [
        draw((2, 3), np.complex128),
        draw((2, 3), np.complex128, seed=1),
        draw((1, 3), np.complex128, seed=2).real,
    ]
    values: list[tuple[Tensor, np.ndarray]] = [(Tensor(a), a) for a in arrays]
    steps = {
        "add": (2, lambda x, y: x + y),
        "sub": (2, lambda x, y: x - y),
        "mul": (2, lambda x, y: x * y),
        "quotient": (2, lambda x, y: x / (y * y.conj() + 1)),
        "conj": (1, lambda x: x.conj()),
        "real": (1, lambda x: x.real),
        "imag": (1, lambda x: x.imag),
        "rows": (1, lambda x: x[::-1, 1:]),
        "sum": (1, lambda x: x.sum(0, keepdims=True)),
        "turn": (1, lambda x: x * 1j),
        "transposed": (1, lambda x: x.T.reshape(x.shape)),
        "columns": (1, lambda x: x[:, :1] + x),
        "running": (1, lambda x: x.cumsum(1)),
        "matmul": (2, lambda x, y: (x @ y.T) @ y),
    }
    for _ in range(data.draw(st.integers(1, 6))):
        n, call = steps[data.draw(st.sampled_from(sorted(steps)))]
        chosen = [data.draw(st.sampled_from(values)) for _ in range(n)]
        shapes = {c[1].shape for c in chosen}
        if len(shapes) > 1 or any(1 in s for s in shapes):
            chosen = [values[data.draw(st.integers(0, 1))] for _ in range(n)]
        values.append((call(*[c[0] for c in chosen]), call(*[c[1] for c in chosen])))
    found, expected = values[-1]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


def test_complex_numbers_are_sampled_and_counted():
    drawn = Tensor.randn(2000, seed=3, dtype="complex64")
    array = drawn.numpy()
    assert array.dtype == np.complex64
    assert abs(array.mean()) < 0.06
    assert array.var() == pytest.approx(1, abs=0.08)
    assert abs((array.real * array.imag).mean()) < 0.06
    check(sv.linspace(0, 1 + 2j, 5), np.linspace(0, 1 + 2j, 5).astype(np.complex64))
    check(
        sv.linspace(1j, 2, 3, dtype="complex128", endpoint=False),
        np.linspace(1j, 2, 3, endpoint=False),
    )
    with pytest.raises(OperandError, match="complex dtype"):
        Tensor.linspace(0, 1j, 3, dtype=float)
    check(np.conj(Tensor(A)), A.conj())
    check(sv.fori_loop(0, 3, lambda i, c: c * 1j, 1j), np.complex64(1j * 1j**3))


def test_python_functions_get_real_and_imaginary_parts():
    def turn(out: np.ndarray, size: np.ndarray, x: np.ndarray) -> None:
        numbers = x.view(np.complex64)[..., 0]
        out.view(np.complex64)[..., 0] = numbers * 1j
        size[...] = abs(numbers)

    sv.register_custom_function("turn of complex numbers", turn)
    x = Tensor(A)
    outputs = [(x.shape, "complex64"), (x.shape, "float32")]
    turned, size = sv.custom_function("turn of complex numbers", x * 2, outputs=outputs)
    check(turned + 1, 2j * A + 1)
    check(size, abs(2 * A))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_sign_of_zeros_and_infinities_agrees_with_numpy(dtype):
    largest = float(np.finfo(dtype).max)
    parts = [0.0, -0.0, 1.0, -3.0, largest / 2, math.inf, -math.inf, math.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    with np.errstate(all="ignore"):
        expected = np.sign(x)
    # numpy gives a direction to infinity beside NaN; the array API standard gives NaN.
    expected[np.isnan(x.real) | np.isnan(x.imag)] = complex(math.nan, math.nan)
    result = Tensor(x).sign().numpy()
    np.testing.assert_allclose(result.real, expected.real, rtol=1e-6)
    np.testing.assert_allclose(result.imag, expected.imag, rtol=1e-6)
    assert not np.signbit(result[x == 0].view(result.real.dtype)).any()
