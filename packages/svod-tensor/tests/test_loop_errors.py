from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_dtype import UserError
from svod_ir import OperandError
from svod_tensor import Tensor, Variable, cond, fori_loop, jit, scan, switch, while_loop
from svod_tensor.errors import BranchError, CarriedValueError, LoopArgumentError, TraceError

X = Tensor([1.0, 2.0, 3.0])
held: list[Any] = []

CARRIED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: scan(lambda c, x: (c.cast("float64"), None), X, X),
        "scan: carry: float32 (3,) became float64 (3,)",
    ),
    (
        lambda: scan(lambda c, x: ({"w": [c["w"][0], c["w"][1][1:]]}, None), {"w": [0, X]}, X),
        "scan: carry['w'][1]: float32 (3,) became float32 (2,)",
    ),
    (lambda: scan(lambda c, x: ((c, c), None), X, X), "scan: carry: a leaf became tuple of 2"),
    (
        lambda: scan(lambda c, x: ({"a": c["b"]}, None), {"b": X}, X),
        "scan: carry: dict of 'b' became dict of 'a'",
    ),
    (
        lambda: scan(lambda c, x: ((c[0], None), None), (X, X), X),
        "scan: carry[1]: a leaf became None",
    ),
    (
        lambda: fori_loop(0, 3, lambda i, x: x + X, 0.0),
        "fori_loop: val: float32 () became float32 (3,)",
    ),
    (
        lambda: fori_loop(0, 3, lambda i, x: 0.5, Tensor(1)),
        "fori_loop: val: int32 () became float32 ()",
    ),
    (
        lambda: fori_loop(0, 3, lambda i, x: x > 0, Tensor(1)),
        "fori_loop: val: int32 () became bool ()",
    ),
    (lambda: fori_loop(0, 3, lambda i, x: None, X), "fori_loop: val: a leaf became None"),
    (
        lambda: while_loop(lambda x: True, lambda x: [x[0]], (X,)),
        "while_loop: val: tuple of 1 became list of 1",
    ),
    (
        lambda: fori_loop(0, 3, lambda i, x: x.to("CPU:1"), X),
        "fori_loop: val: float32 (3,) on CPU became float32 (3,) on CPU:1",
    ),
]


@pytest.mark.parametrize(("make", "message"), CARRIED, ids=[message for _, message in CARRIED])
def test_an_error_names_the_leaf_that_an_iteration_changes(make: Callable[[], Any], message: str):
    with pytest.raises(CarriedValueError) as raised:
        make()
    assert str(raised.value).startswith(message)
    assert isinstance(raised.value, TypeError)


ARGUMENTS: list[tuple[Callable[[], Any], type[UserError], str]] = [
    (
        lambda: scan(lambda c, x: (c, x), 0),
        LoopArgumentError,
        "xs has no tensor to slice, and length is None",
    ),
    (
        lambda: scan(lambda c, x: (c, x), 0, [X, X[1:]]),
        LoopArgumentError,
        "xs[1] has 2 slices, but xs[0] says 3",
    ),
    (
        lambda: scan(lambda c, x: (c, x), 0, X, 4),
        LoopArgumentError,
        "xs has 3 slices, but length says 4",
    ),
    (lambda: scan(lambda c, x: (c, x), 0, 5), LoopArgumentError, "xs has no axis to slice"),
    (
        lambda: scan(lambda c, x: (c, x), 0, None, -1),
        LoopArgumentError,
        "length is -1, not a number of iterations",
    ),
    (
        lambda: scan(lambda c, x: (c, x), "a", X),
        LoopArgumentError,
        "init is str, which is not a tensor",
    ),
    (
        lambda: scan(lambda c, x: (c, {"k": "a"}), 0, X),
        LoopArgumentError,
        "y['k'] is str, which is not a tensor",
    ),
    (lambda: fori_loop(0, 2.5, lambda i, x: x, X), OperandError, "upper=2.5"),
    (lambda: fori_loop(X, 3, lambda i, x: x, X), OperandError, "lower of float32"),
    (lambda: cond(X, lambda: 1, lambda: 2), OperandError, "pred float32 (3,)"),
    (lambda: cond(1, lambda: 1, lambda: 2), OperandError, "pred 1"),
    (lambda: cond(Tensor([True]), lambda: 1, lambda: 2), OperandError, "pred bool (1,)"),
    (lambda: switch(0.5, [lambda: 1]), OperandError, "index 0.5"),
    (lambda: switch(True, [lambda: 1]), OperandError, "index True"),
    (lambda: switch(0, []), LoopArgumentError, "there is no branch"),
    (lambda: scan(lambda c, x: c, X, X), TraceError, "it returns Tensor, not a pair"),
    (lambda: scan(lambda c, x: None, X, X), TraceError, "it returns NoneType, not a pair"),
    (lambda: scan(lambda c, x: (c, c, c), X, X), TraceError, "it returns a tuple of 3, not a pair"),
    (
        lambda: while_loop(lambda x: x, lambda x: x, X),
        TraceError,
        "it returns float32 (3,), not a bool of shape ()",
    ),
    (
        lambda: while_loop(lambda x: 1, lambda x: x, X),
        TraceError,
        "it returns int, not a bool of shape ()",
    ),
    (
        lambda: cond(True, lambda: X, lambda: X[1:]),
        BranchError,
        "result: float32 (2,) from false_fun",
    ),
    (
        lambda: cond(True, lambda: {"a": 1}, lambda: {"a": X}),
        BranchError,
        "float32 (3,) from false_fun (<lambda>)",
    ),
    (
        lambda: cond(True, lambda: [1], lambda: 2),
        BranchError,
        "result: a leaf from false_fun (<lambda>), but list of 1",
    ),
    (
        lambda: switch(0, [lambda: 0, lambda: Tensor(1)[None]]),
        BranchError,
        "from branches[1] (<lambda>)",
    ),
    (lambda: Variable("loop_counter_0", 0, 1), UserError, "loop_counter_0"),
]


@pytest.mark.parametrize(
    ("make", "kind", "message"), ARGUMENTS, ids=[message for *_, message in ARGUMENTS]
)
def test_errors_describe_invalid_arguments(make: Callable[[], Any], kind: type, message: str):
    with pytest.raises(kind) as raised:
        make()
    assert message in str(raised.value)


READS: list[Callable[[Tensor], object]] = [
    lambda x: x.item(),
    lambda x: x.numpy(),
    lambda x: bool(x),
    lambda x: x.realize(),
    lambda x: x.prepare(),
    lambda x: (X + 0).tolist(),
]


@pytest.mark.parametrize("read", READS)
def test_a_body_cannot_read_values(read: Callable[[Tensor], object]):
    def body(i: Tensor, x: Tensor) -> Tensor:
        read(x)
        return x

    with pytest.raises(
        TraceError,
        match=r"fori_loop cannot run .*body: it .* which are not known before the loop runs",
    ):
        fori_loop(0, 3, body, 1.0)
    with pytest.raises(TraceError, match="cond"):
        cond(True, lambda x: body(x, x), lambda x: x, 1.0)
    # Everything is as before.
    assert (X + 1).tolist() == [2, 3, 4]


def test_a_body_cannot_keep_a_tensor():
    def body(i: Tensor, x: Tensor) -> Tensor:
        held.append(x * 2)
        return x + 1

    with pytest.raises(TraceError, match="still held after it returned"):
        fori_loop(0, 3, body, X)
    held.clear()
    with pytest.raises(TraceError, match="still held after it returned"):
        jit(lambda x: fori_loop(0, 3, body, x))(X)
    held.clear()


def test_an_error_in_a_body_restores_the_tensors_that_it_wrote():
    x = Tensor([1.0, 2.0])

    def body(i: Tensor, v: Tensor) -> Tensor:
        x[0] = v
        raise KeyError("here")

    with pytest.raises(KeyError):
        fori_loop(0, 3, body, 1.0)
    assert x.is_realized and x.tolist() == [1, 2]
    x[1] = 5
    assert x.tolist() == [1, 5]


def test_a_file_is_not_written_by_a_body(tmp_path: Any):
    path = tmp_path / "x"
    path.write_bytes(np.zeros(4, np.uint8).tobytes())
    from svod_device import ReadOnlyError

    x = (
        Tensor.from_file(path)
        if hasattr(Tensor, "from_file")
        else Tensor.empty(4, dtype="uint8", device=f"DISK:{path}")
    )

    def body(i: Tensor, v: Tensor) -> Tensor:
        x.assign(x + 1)
        return v

    with pytest.raises(ReadOnlyError):
        fori_loop(0, 3, body, 1.0)


def test_garbage_of_a_body_is_not_a_leak():
    def body(i: Tensor, x: Tensor) -> Tensor:
        ring: list[Any] = [x * 2]
        ring.append(ring)
        return x + ring[0]

    assert fori_loop(0, 2, body, X).tolist() == [9, 18, 27]
    assert jit(lambda x: body(x, x) + 1)(X).tolist() == [4, 7, 10]
