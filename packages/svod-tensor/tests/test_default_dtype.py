"""The dtype of floats where none is named: float32, or what `set_default_dtype` and `default_dtype`
say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import svod_tensor as sv
from svod_dtype import DefaultDTypeError
from svod_tensor import Tensor, default_dtype, get_default_dtype, jit, set_default_dtype

INTEGERS = Tensor([[2, 1], [1, 3]])
FLOATS: dict[str, Callable[[], Tensor]] = {
    "number": lambda: Tensor(1.5),
    "list": lambda: Tensor([1.5, 2]),
    "empty list": lambda: Tensor([]),
    "zeros": lambda: sv.zeros(2),
    "ones": lambda: sv.ones(2),
    "empty": lambda: sv.empty(2),
    "full": lambda: sv.full(2, 1.5),
    "eye": lambda: sv.eye(2),
    "arange": lambda: sv.arange(0.0, 1.0, 0.5),
    "linspace": lambda: sv.linspace(0, 1, 3),
    "rand": lambda: Tensor.rand(2),
    "randn": lambda: Tensor.randn(2),
    "uniform": lambda: Tensor.uniform(2),
    "normal": lambda: Tensor.normal(2),
    "exponential": lambda: Tensor.exponential(2),
    "astype": lambda: INTEGERS.astype(float),
    "division": lambda: INTEGERS / 2,
    "product": lambda: INTEGERS * 1.5,
    "sine": lambda: INTEGERS.sin(),
    "mean": lambda: INTEGERS.mean(),
    "median": lambda: INTEGERS.median(),
    "softmax": lambda: INTEGERS.softmax(),
    "inverse": lambda: sv.linalg.inv(INTEGERS),
    "frequencies": lambda: sv.fft.fftfreq(4),
    "where": lambda: (INTEGERS > 1).where(1.0, 0.0),
    "special": lambda: sv.special.gammaln(INTEGERS),
}
COMPLEX: dict[str, Callable[[], Tensor]] = {
    "number": lambda: Tensor(1j),
    "list": lambda: Tensor([1j]),
    "product": lambda: INTEGERS * 1j,
    "linspace": lambda: sv.linspace(0, 1j, 3),
    "transform": lambda: sv.fft.fft(INTEGERS),
}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    set_default_dtype("float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_that_name_no_dtype_have_the_default(dtype: str) -> None:
    with default_dtype(dtype):
        assert {name: make().dtype.name for name, make in FLOATS.items()} == dict.fromkeys(
            FLOATS, dtype
        )
        kind = "complex128" if dtype == "float64" else "complex64"
        assert {name: make().dtype.name for name, make in COMPLEX.items()} == dict.fromkeys(
            COMPLEX, kind
        )
        known = sv.__array_namespace_info__().default_dtypes()
        assert (known["real floating"].name, known["complex floating"].name) == (dtype, kind)
        assert sv.result_type(sv.int32, 1.5).name == dtype
        # A number stays weak, and a dtype that is named is kept.
        assert (Tensor([1.0], dtype="float32") * 1.5).dtype.name == "float32"
        assert sv.zeros(2, dtype="float32").dtype.name == "float32"
        assert Tensor(np.float32(1)).dtype.name == "float32"
    assert get_default_dtype() is sv.float32


def test_values_have_the_digits_of_the_default() -> None:
    set_default_dtype("float64")
    assert Tensor(0.1).item() == 0.1
    assert (Tensor([1]) / 3).item() == 1 / 3
    assert sv.linalg.inv(Tensor([[3]])).item() == pytest.approx(1 / 3, rel=1e-15)


def test_a_captured_function_has_a_plan_for_each_default() -> None:
    function = jit(lambda x: x * 1.5 + sv.ones(2))
    x = Tensor([1, 2])
    for _ in range(3):
        assert function(x).dtype.name == "float32"
        with default_dtype("float64"):
            assert function(x).dtype.name == "float64"
            assert function(x).tolist() == [2.5, 4.0]
    assert function.n_captures == 2


def test_a_context_applies_to_its_thread_and_the_process_default_to_all() -> None:
    found: list[str] = []
    with default_dtype("float64"), default_dtype("float16"):
        thread = threading.Thread(target=lambda: found.append(sv.zeros(1).dtype.name))
        thread.start()
        thread.join()
        assert sv.zeros(1).dtype.name == "float16"
    set_default_dtype(sv.float64)
    thread = threading.Thread(target=lambda: found.append(sv.zeros(1).dtype.name))
    thread.start()
    thread.join()
    assert found == ["float32", "float64"]


@pytest.mark.parametrize("dtype", ["int32", "complex64", "float8_e4m3", "bool"])
def test_dtypes_that_are_not_floats_are_no_default(dtype: str) -> None:
    for set_one in (set_default_dtype, default_dtype):
        with pytest.raises(DefaultDTypeError, match=f"{dtype} cannot be the default float dtype"):
            set_one(dtype)
