"""What somebody tries in the first hour with svod, out of habit, and how the error says what to
write.
"""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import UnknownDTypeError
from svod_ir import OperandError
from svod_tensor import Tensor, Variable, jit
from svod_tensor.errors import (
    AmbiguousTruthError,
    CalledPropertyError,
    CaptureError,
    DataError,
    IndexKindError,
    SingleElementError,
)

X = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
N = Variable("n", 1, 2)


class _Foreign:
    """A dtype of another library."""

    def __repr__(self) -> str:
        return "torch.float32"


@pytest.mark.parametrize(
    ("call", "error", "headline", "hint"),
    [
        (
            lambda: X.size(0),
            CalledPropertyError,
            "size is a property",
            "write x.shape[0]; x.size is the number of elements",
        ),
        (lambda: X.size(), CalledPropertyError, "size is a property", "write x.shape; x.size"),
        (
            lambda: X[0].item(),
            SingleElementError,
            "item: only one-element tensors can be converted",
            "x[index].item() one",
        ),
        (
            lambda: float(X),
            SingleElementError,
            "float: only one-element tensors can be converted",
            "x.tolist() gives all",
        ),
        (
            lambda: int(X[0]),
            SingleElementError,
            "int: only one-element tensors can be converted",
            "x.tolist() gives all",
        ),
        (
            lambda: bool(X),
            AmbiguousTruthError,
            "the truth value of a tensor of shape (2, 3) is ambiguous",
            "use x.any() or x.all()",
        ),
        (
            lambda: X.pad(1, 2),
            OperandError,
            "pad: expected a pair (before, after) for each axis, got (1, 2)",
            (
                "write x.pad((1, 2)) to pad every axis by (before, after), or x.pad((1, 1), (2, 2))"
                " to pad each axis on both sides"
            ),
        ),
        (
            lambda: X.pad(1, 1, 1),
            OperandError,
            "pad: expected a pair",
            "x.pad((1, 1), (1, 1), (1, 1)) to pad each axis on both sides",
        ),
        (
            lambda: X[:N],
            IndexKindError,
            "indexing: cannot index with Variable('n', 1, 2): it has no value",
            "as in n.bind(1)",
        ),
        (
            lambda: X[0, N],
            IndexKindError,
            "indexing: cannot index with Variable('n', 1, 2): it has no value",
            "as in n.bind(1)",
        ),
        (
            lambda: X.reshape(N, 3),
            OperandError,
            "reshape: expected integer sizes, got Variable('n', 1, 2)",
            "as in n.bind(1)",
        ),
        (lambda: X + N, DataError, "add: cannot convert Variable to a tensor", "as in n.bind(1)"),
        (
            lambda: Tensor([1.0], dtype=_Foreign()),
            UnknownDTypeError,
            "data type torch.float32 not understood",
            'write "float32"',
        ),
        (
            lambda: X.astype("i8"),
            UnknownDTypeError,
            "astype: 'i8' is ambiguous: int8 or int64",
            'write "int8" or "int64"',
        ),
        (
            lambda: Tensor.zeros(2, "float32"),
            OperandError,
            "zeros: expected integer sizes, got 'float32'",
            "write dtype='float32'",
        ),
        (
            lambda: X == None,  # noqa: E711
            DataError,
            "equal: cannot convert NoneType to a tensor",
            "`x is None`",
        ),
        (
            lambda: jit(lambda x, n: x.reshape(n, -1))(X, np.int64(3)),
            CaptureError,
            "reshape: cannot capture <lambda>",
            "pass int(n) where it is a size or a position",
        ),
    ],
)
def test_errors_of_beginners_have_a_hint(call, error, headline, hint):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.headline.startswith(headline)
    assert hint in caught.value.hint


def test_size_of_a_tensor_is_an_integer():
    assert X.size == 6
    assert repr(X.size) == "6"
    assert type(X.size + 0) is int
    assert X.reshape(X.size).shape == (6,)
    assert type(X.reshape(X.size).shape[0]) is int
    assert X[: N.bind(2)].size.dtype.name == "index"


def test_a_numpy_scalar_is_traced_as_a_tensor():
    scale = jit(lambda x, k: x * k)
    for k in (7, 8, 9):
        assert scale(X, np.int64(k)).tolist() == (X.numpy() * k).tolist()
    assert len(scale.plans()) == 1
