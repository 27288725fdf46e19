"""What `docs/memory.md` promises, each promise with computing at every moment at which it could be
seen.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

from svod_dtype import SvodError
from svod_ir.testing import count_examples, take_share
from svod_tensor import Tensor, Variable, jit
from svod_tensor.engine.caches import SCHEDULES
from svod_tensor.errors import (
    DonatedTensorError,
    EmptyScheduleError,
    RepeatedWriteError,
    ShardError,
)

Array = np.ndarray
DEVICES = ["CPU", "CPU:1"]
DTYPES = ["float32", "int32", "bool", "float16"]
SHAPES = [(), (0,), (1,), (7,), (2, 3)]


def do_nothing(tensors: Sequence[Tensor]) -> None:
    pass


def realize_all(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        tensor.realize()


def realize_last(tensors: Sequence[Tensor]) -> None:
    tensors[-1].realize()


def realize_batch(tensors: Sequence[Tensor]) -> None:
    Tensor.realize_batch(tensors)


def print_all(tensors: Sequence[Tensor]) -> None:
    for tensor in reversed(tensors):
        repr(tensor)


def read_all(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        tensor.tolist()


def prepare_all(tensors: Sequence[Tensor]) -> None:
    with contextlib.suppress(EmptyScheduleError):
        Tensor.prepare_batch(tensors).execute()


def call_captured(tensors: Sequence[Tensor]) -> None:
    jit(lambda *given: [t * 1 for t in given])(*tensors)


EVENTS = [
    do_nothing,
    realize_all,
    realize_last,
    realize_batch,
    print_all,
    read_all,
    prepare_all,
    call_captured,
]
Event = Callable[[Sequence[Tensor]], None]
every_event = pytest.mark.parametrize("event", EVENTS)
ORDERS = [
    (event, EVENTS[(n + shift) % len(EVENTS)]) for n, event in enumerate(EVENTS) for shift in (0, 3)
]
"""Each event before a write, and two events after it: for tests of many cases."""
before_and_after = pytest.mark.parametrize(
    ("event", "later"), list(itertools.product(EVENTS, EVENTS))
)


def make_array(shape: tuple[int, ...], dtype: str, start: int = 1) -> Array:
    numbers = np.arange(start, start + int(np.prod(shape)), dtype=np.int64).reshape(shape)
    return np.asarray(numbers % 2 == 1 if dtype == "bool" else numbers.astype(dtype))


def other_than(array: Array) -> Any:
    """A number that no element of `array` is, or the other truth value of the first."""
    if array.dtype == np.bool_:
        return not array.flat[0] if array.size else True
    return 99


def check(tensor: Tensor, array: Array) -> None:
    """Compares all elements, the shape and the dtype."""
    assert tensor.dtype.name.rstrip("_") == array.dtype.name
    np.testing.assert_array_equal(tensor.numpy(), array, strict=True)


# Equal expressions.


@before_and_after
def test_equal_initial_optimizer_states_do_not_alias(event: Event, later: Event) -> None:
    m, v, g = Tensor.zeros(3), Tensor.zeros(3), Tensor([1.0, 2.0, 3.0])
    event([m, v])
    n = np.array([1, 2, 3], np.float32)
    a, b = np.zeros(3, np.float32), np.zeros(3, np.float32)
    for _ in range(3):
        m.assign(m * 0.9 + g * 0.1)
        v.assign(v * 0.999 + g * g * 0.001)
        later([m, v])
        a = a * np.float32(0.9) + n * np.float32(0.1)
        b = b * np.float32(0.999) + n * n * np.float32(0.001)
    np.testing.assert_allclose(m.numpy(), a, rtol=1e-6)
    np.testing.assert_allclose(v.numpy(), b, rtol=1e-6)


@before_and_after
@pytest.mark.parametrize("device", DEVICES)
def test_a_write_to_one_of_two_equal_sums_leaves_the_other(
    event: Event, later: Event, device: str
) -> None:
    x = Tensor([1, 2, 3], device=device)
    a, c = x + 9, x + 9
    event([a])
    c[0] = 0
    later([c, a])
    assert (a.tolist(), c.tolist(), x.tolist()) == ([10, 11, 12], [0, 11, 12], [1, 2, 3])
    a[1] = 5
    later([a, c])
    assert (a.tolist(), c.tolist(), x.tolist()) == ([10, 5, 12], [0, 11, 12], [1, 2, 3])


@before_and_after
def test_two_clones_do_not_alias(event: Event, later: Event) -> None:
    x = Tensor([1, 2, 3])
    y, z = x.clone(), x.clone()
    event([y, z])
    y.assign(y * 0)
    later([y, z])
    assert (x.tolist(), y.tolist(), z.tolist()) == ([1, 2, 3], [0, 0, 0], [1, 2, 3])


@every_event
@pytest.mark.parametrize("is_read", [False, True])
def test_donating_one_clone_leaves_the_other(event: Event, is_read: bool) -> None:
    x = Tensor([1, 2, 3])
    y, z = x.clone(), x.clone()
    event([y, z])
    y.realize()
    view, made = y[1:], y + 1
    plan = made.prepare(donate=[y])
    if is_read:
        assert z.tolist() == [1, 2, 3]
    plan.execute()
    assert (made.tolist(), z.tolist(), x.tolist()) == ([2, 3, 4], [1, 2, 3], [1, 2, 3])
    for gone in (y, view):
        with pytest.raises(DonatedTensorError):
            gone.tolist()


@every_event
@pytest.mark.parametrize(
    "make",
    [lambda: Tensor.zeros(3), lambda: Tensor([0.0, 0.0, 0.0]), lambda: Tensor.full((3,), 0.0)],
)
def test_equal_constants_do_not_alias(event: Event, make: Callable[[], Tensor]) -> None:
    one, other = make(), make()
    event([one, other])
    one[1] = 4
    assert (one.tolist(), other.tolist(), make().tolist()) == ([0, 4, 0], [0, 0, 0], [0, 0, 0])


@every_event
def test_a_function_that_returns_one_expression_twice_returns_two_tensors(event: Event) -> None:
    double = jit(lambda x: (x * 2, x * 2))
    for start in (1, 5):
        a, b = double(Tensor([start, 2]))
        event([a, b])
        a[0] = 0
        assert (a.tolist(), b.tolist()) == ([0, 4], [start * 2, 4])


# Views.

VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "index": (lambda x: x[1], lambda a: a[1:2].reshape(a.shape[1:])),
    "slice": (lambda x: x[1:], lambda a: a[1:]),
    "every second from the end": (lambda x: x[::-2], lambda a: a[::-2]),
    "ellipsis and None": (lambda x: x[..., None, 0], lambda a: a[..., None, 0]),
    "reshape": (lambda x: x.reshape(2, 6), lambda a: a.reshape(2, 6)),
    "flatten": (lambda x: x.flatten(), lambda a: a.reshape(-1)),
    "reshape of a slice": (lambda x: x[1:].reshape(-1), lambda a: a[1:].reshape(-1)),
    "permute": (lambda x: x.permute(1, 0), lambda a: a.transpose(1, 0)),
    "transpose": (lambda x: x.transpose(0, 1), lambda a: a.T),
    "T": (lambda x: x.T, lambda a: a.T),
    "moveaxis": (lambda x: x.moveaxis(0, 1), lambda a: np.moveaxis(a, 0, 1)),
    "swapaxes": (lambda x: x.swapaxes(0, 1), lambda a: a.swapaxes(0, 1)),
    "flip": (lambda x: x.flip(0), lambda a: np.flip(a, 0)),
    "flip of a slice": (lambda x: x[1:, ::-1].flip(0), lambda a: np.flip(a[1:, ::-1], 0)),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda a: a[:1].squeeze(0)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "split": (lambda x: x.split(1)[2], lambda a: np.split(a, 3)[2]),
    "chunk": (lambda x: x.chunk(3)[0], lambda a: np.split(a, 3)[0]),
    "unbind": (lambda x: x.unbind()[1], lambda a: a[1]),
    "shrink": (lambda x: x.shrink((0, 2), (1, 3)), lambda a: a[0:2, 1:3]),
    "detach": (lambda x: x.detach(), lambda a: a[...]),
    "view of a view": (lambda x: x.T[1:].flip(1)[0], lambda a: np.flip(a.T[1:], 1)[0]),
    "a variable": (lambda x: x[Variable("row", 0, 2).bind(1)], lambda a: a[1]),
    "a slice of a variable": (lambda x: x[: Variable("rows", 1, 3).bind(2)], lambda a: a[:2]),
}


def compute(array: Array, device: str) -> Tensor:
    """A tensor without memory."""
    return (
        ~Tensor(~array, device=device)
        if array.dtype == np.bool_
        else Tensor(array - 1, device=device) + 1
    )


SOURCES: dict[str, Callable[[Array, str], Tensor]] = {
    "data": lambda a, device: Tensor(a.copy(), device=device),
    "realized": lambda a, device: Tensor(a.copy(), device=device).realize(),
    "computed": lambda a, device: compute(a, device),
    "clone": lambda a, device: Tensor(a.copy(), device=device).clone(),
    "numpy": lambda a, device: (
        Tensor.from_numpy(a.copy()) if device == "CPU" else Tensor(a).to(device)
    ),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("device", DEVICES)
def test_writes_to_a_tensor_or_its_view_are_visible_in_both(
    name: str, source: str, device: str
) -> None:
    on_tensor, on_array = VIEWS[name]
    place = [*VIEWS].index(name) + [*SOURCES].index(source) + DEVICES.index(device)
    for event, later in take_share(ORDERS, place):
        a = make_array((3, 4), "int32")
        x = SOURCES[source](a, device)
        a = a.copy()
        view, seen = on_tensor(x), on_array(a)
        event([x, view])
        x[1] = 40
        a[1] = 40
        later([view])
        check(view, seen)
        view[...] = view + 100
        seen[...] = seen + 100
        event([view, x])
        check(x, a)
        x.assign(x * 2)
        a *= 2
        later([x])
        view[...] = 7
        seen[...] = 7
        check(view, seen)
        check(x, a)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", [name for name in VIEWS if name != "a slice of a variable"])
def test_elements_written_to_a_view_are_at_its_indices_in_the_base(name: str, source: str) -> None:
    on_tensor, on_array = VIEWS[name]
    for event in take_share(EVENTS, [*VIEWS].index(name) + [*SOURCES].index(source)):
        a = make_array((3, 4), "int32")
        x = SOURCES[source](a.copy(), "CPU")
        event([x])
        values = make_array(on_array(a).shape, "int32", 50)
        on_tensor(x).assign(Tensor(values))
        on_array(a)[...] = values
        check(x, a)
        check(on_tensor(x), values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_views_of_every_shape_and_dtype_are_written_in_both_directions(
    shape: tuple[int, ...], dtype: str
) -> None:
    forms: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
        (lambda x: x[...], lambda a: a[...]),
        (lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
        (lambda x: x.T if x.ndim == 2 else x.detach(), lambda a: a.T),
        (lambda x: x.unsqueeze(0), lambda a: a[None]),
        (
            lambda x: x.flip(tuple(range(x.ndim))),
            lambda a: a[(slice(None, None, -1),) * a.ndim + (...,)],
        ),
    ]
    for (on_tensor, on_array), event in itertools.product(forms, EVENTS):
        a = make_array(shape, dtype)
        x = Tensor(a.copy())
        view, seen = on_tensor(x), on_array(a)
        event([x, view])
        x[...] = other_than(a)
        a[...] = other_than(a)
        check(view, seen)
        view[...] = make_array(seen.shape, dtype, 2)
        seen[...] = make_array(seen.shape, dtype, 2)
        event([view])
        check(x, a)
        check(view, seen)


@before_and_after
def test_a_tensor_of_repeated_elements_sees_writes_and_rejects_them(
    event: Event, later: Event
) -> None:
    x = Tensor([1, 2])
    repeated = x.expand(3, 2)
    event([x, repeated])
    x[0] = 9
    later([repeated])
    assert repeated.tolist() == [[9, 2]] * 3
    with pytest.raises(RepeatedWriteError):
        repeated[0] = 1
    with pytest.raises(RepeatedWriteError):
        repeated.assign(repeated * 2)
    assert x.tolist() == [9, 2]


@before_and_after
def test_a_shard_sees_writes_and_rejects_them(event: Event, later: Event) -> None:
    x = Tensor([1, 2, 3, 4]).shard(("CPU", "CPU:1"), 0)
    shards = x.shards()
    event([x, *shards])
    x[0] = 9
    x[3] = 8
    later([x, *shards])
    assert ([s.tolist() for s in shards], x.tolist()) == ([[9, 2], [3, 8]], [9, 2, 3, 8])
    with pytest.raises(ShardError):
        shards[0][0] = 1
    assert x.tolist() == [9, 2, 3, 8]


@every_event
@pytest.mark.parametrize("place", [1, Variable("place", 0, 2).bind(1)])
def test_a_captured_function_that_returns_a_view_of_an_argument_returns_a_view(
    event: Event, place: Any
) -> None:
    x = Tensor([[1], [2], [3]]).realize()
    view, element = jit(lambda x, place: (x[place], x[place, 0]))(x, place)
    event([view])
    x[1] = 9
    assert (view.tolist(), element.item()) == ([9], 2)
    view[...] = 5
    assert x.tolist() == [[1], [5], [3]]


# Operations that change nothing.

UNCHANGED: dict[str, Callable[[Any], Any]] = {
    "x * 1": lambda x: x * 1,
    "1 * x": lambda x: 1 * x,
    "x + 0": lambda x: x + 0,
    "x - 0": lambda x: x - 0,
    "x // 1": lambda x: x // 1,
    "x << 0": lambda x: x << 0,
    "x >> 0": lambda x: x >> 0,
    "x ** 1": lambda x: x**1,
    "x | 0": lambda x: x | 0,
    "x ^ 0": lambda x: x ^ 0,
    "x & -1": lambda x: x & -1,
    "x | x": lambda x: x | x,
    "+x": lambda x: +x,
    "-(-x)": lambda x: (-x).neg(),
    "~~x": lambda x: ~(~x),
    "astype": lambda x: x.astype(x.dtype),
    "cast": lambda x: x.cast(x.dtype),
    "bitcast": lambda x: x.bitcast(x.dtype),
    "Tensor(x)": Tensor,
    "clip()": lambda x: x.clip(),
    "clamp()": lambda x: x.clamp(),
    "roll(0)": lambda x: x.roll(0, 0),
    "tile(1)": lambda x: x.tile(1),
    "concat([x])": lambda x: Tensor.concat([x]),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "round": lambda x: x.round(),
    "trunc": lambda x: x.trunc(),
    "rint": lambda x: x.rint(),
    "positive": lambda x: x.positive(),
    "maximum(x)": lambda x: x.maximum(x),
    "minimum(x)": lambda x: x.minimum(x),
    "where": lambda x: Tensor(True).where(x, x),
    "masked_fill": lambda x: x.masked_fill(Tensor(False), 3),
    "pad(0)": lambda x: x.pad(((0, 0),)),
    "to": lambda x: x.to(x.device),
    "contiguous": lambda x: x.contiguous(),
    "clone": lambda x: x.clone(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "sum(())": lambda x: x.sum((), dtype=x.dtype),
    "all of it by an array": lambda x: x[np.arange(x.shape[0])],
    "all of it by a mask": lambda x: x[np.ones(x.shape[0], bool)],
    "sort": lambda x: x.sort(),
    "cumsum": lambda x: x.diff(prepend=x[:1] * 0).cumsum(0, dtype=x.dtype),
    "stack": lambda x: Tensor.stack([x])[0],
    "einsum": lambda x: Tensor.einsum("i->i", x),
    "relu": lambda x: x.relu(),
    "take": lambda x: x.take(np.arange(x.shape[0])),
    "gather": lambda x: x.gather(0, Tensor.arange(x.shape[0])),
    "repeat_interleave": lambda x: x.repeat_interleave(1),
    "abs": lambda x: x.abs(),
    "lerp": lambda x: x.lerp(x, 0).astype(x.dtype),
    "with_items": lambda x: x.with_items((slice(0, 0),), 0),
    "tril": lambda x: x[None].tril(99)[0],
    "diagonal": lambda x: (x[None] * 1).sum(0, dtype=x.dtype),
}


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize("name", UNCHANGED)
@pytest.mark.parametrize("source", SOURCES)
def test_an_identity_operation_returns_a_new_tensor(name: str, dtype: str, source: str) -> None:
    place = [*UNCHANGED].index(name) + [*SOURCES].index(source) + 2 * (dtype == "uint8")
    for event, later in take_share(ORDERS, place):
        for is_result_written in (True, False):
            a = make_array((5,), dtype)
            x = SOURCES[source](a.copy(), "CPU")
            try:
                y = UNCHANGED[name](x)
            except (SvodError, OverflowError):
                assert dtype == "uint8"
                return
            event([x, y])
            written, kept = (y, x) if is_result_written else (x, y)
            written[1] = 77
            later([written])
            wanted = a.copy()
            wanted[1] = 77
            check(kept, a)
            check(written, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_copies_of_every_shape_and_dtype_have_memory_of_their_own(
    shape: tuple[int, ...], dtype: str
) -> None:
    makers: list[Callable[[Tensor], Tensor]] = [
        lambda x: x.clone(),
        lambda x: x.astype(dtype),
        Tensor,
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: +x,
    ]
    for make, event in itertools.product(makers, EVENTS):
        if dtype == "bool" and make is makers[-1]:
            continue
        a = make_array(shape, dtype)
        x = Tensor(a)
        y = make(x)
        event([x, y])
        x[...] = other_than(a)
        check(y, a)
        z = make(y)
        event([z])
        z[...] = other_than(a)
        check(y, a)
        check(x, np.full_like(a, other_than(a)))


# Public methods, whatever they are.

NAMES = [name for name in dir(Tensor) if not name.startswith("_")]
NO_OPERATIONS = {
    "along": "a step of a path",
    "content": "what a tensor is",
    "from_uop": "makes a tensor of a node",
    "from_dlpack": "shares memory",
    "empty": "has no values",
    "dropout": "is random",
    "rand": "is random",
    "randn": "is random",
    "randint": "is random",
    "assign": "writes",
    "add_at": "writes",
    "put_along_axis": "writes",
    "prepare": "computes",
    "prepare_with": "computes",
    "prepare_batch": "computes",
    "prepare_batch_with": "computes",
    "realize": "computes",
    "realize_with": "computes",
    "realize_batch": "computes",
    "realize_batch_with": "computes",
    "from_content": "makes another tensor of a content",
}
VIEW_NAMES = {
    "asarray",
    "T",
    "mT",
    "broadcast_arrays",
    "broadcast_to",
    "chunk",
    "detach",
    "expand",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute",
    "permute_dims",
    "ravel",
    "reshape",
    "shards",
    "shrink",
    "split",
    "squeeze",
    "swapaxes",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "unstack",
    "view",
}


def iter_arguments(x: Tensor, a: Array) -> Iterator[tuple[Any, ...]]:
    """Arguments for which some method changes nothing, or little."""
    yield ()
    yield from ((n,) for n in (0, 1, -1, False, True, None, 99, -99))
    yield from (
        (0, 0),
        (0, 1),
        (1, 0),
        (None, None),
        (0, x),
        (x, 0),
        (x, x),
        (x,),
        ([x],),
        ([x, x],),
        ((),),
        ([],),
    )
    yield from (
        (x.dtype,),
        (x.device,),
        (x.shape,),
        x.shape,
        (tuple(range(x.ndim)),),
        tuple(range(x.ndim)),
    )
    yield from (
        (tuple((0, 0) for _ in x.shape),),
        (0, a * 0),
        (a * 0 + 1, x, x),
        (np.zeros(a.shape, bool), 0),
    )
    yield from (
        (np.ones(a.shape, bool),),
        (Tensor(True), x),
        (a.shape[:1], 0),
        (a.shape[-1:],),
        ("...->...", x),
    )
    n = a.shape[0] if a.ndim else 1
    yield from ((1, 0, n), (0, n), (n,), (np.arange(n),), (0, np.arange(n)), (np.arange(n), 0))


def call(x: Tensor, a: Array, name: str, number: int) -> list[Tensor]:
    """The tensors that a method makes of the `number`-th arguments; none where it does not take
    them.
    """
    arguments = next(itertools.islice(iter_arguments(x, a), number, None))
    try:
        method = getattr(x, name)
        made = method(*arguments) if callable(method) else method
    except (SvodError, ArithmeticError, AttributeError, TypeError, ValueError):
        return []
    found = list(_iter_tensors(made))
    assert not any(t is x for t in found) or name in VIEW_NAMES, (
        f"{name}{arguments} gives its operand"
    )
    return [t for t in found if t.size and t.device == x.device]


def _iter_tensors(made: object) -> Iterator[Tensor]:
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, (list, tuple)):
        for item in cast("Sequence[object]", made):
            yield from _iter_tensors(item)


def count_arguments(a: Array) -> int:
    return len(list(iter_arguments(Tensor(a), a)))


OPERANDS = (("int32", (2, 3)), ("float32", (2, 1)), ("bool", ()))


@pytest.mark.parametrize(("dtype", "shape"), OPERANDS)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in VIEW_NAMES and name not in NO_OPERATIONS]
)
def test_only_views_alias_their_operand(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    if not callable(getattr(Tensor, name)):
        return
    a = make_array(shape, dtype)
    cases = list(itertools.product(("computed", "realized"), (do_nothing, realize_batch)))
    # Each form of arguments is tried on one of the operands, and on all of them where all examples
    # are asked for.
    first, step = (
        (0, 1) if count_examples(4) == 4 else (OPERANDS.index((dtype, shape)), len(OPERANDS))
    )
    # Arguments of one kind are beside each other, and get different cases.
    for number, (source, event) in zip(
        range(first, count_arguments(a), step), itertools.cycle(cases), strict=False
    ):
        x = SOURCES[source](a.copy(), "CPU")
        results = call(x, a, name, number)
        if not results:
            continue
        event([x, *results])
        wanted = [r.clone().numpy() for r in results]
        x[...] = other_than(a)
        for result, array in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result.numpy(), array)
        x = SOURCES[source](a.copy(), "CPU")
        results = call(x, a, name, number)
        event([x, *results])
        for result in results:
            result[...] = True if result.dtype.name.startswith("bool") else 55
        check(x, a)


def test_views_are_among_the_public_names() -> None:
    assert set(NAMES) >= VIEW_NAMES | set(NO_OPERATIONS)


@pytest.mark.parametrize("make", [lambda x: x.argsort(), lambda x: x.topk(1)[1]])
def test_single_elements_can_be_written(make: Callable[[Tensor], Tensor]) -> None:
    positions = make(Tensor([[5], [6]]))
    positions[0] = 3
    assert positions.tolist() == [[3], [0]]


# Copies and pickles.


@every_event
@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_lazy_tensors_and_of_views_are_values(
    event: Event, make: Callable[[Tensor], Tensor]
) -> None:
    x = Tensor([1, 2, 3])
    for source in (x, x + 0, x[1:], x.flip(0), x.expand(2, 3)):
        copied = make(source)
        before = source.numpy().copy()
        event([copied])
        copied[...] = 0
        np.testing.assert_array_equal(source.numpy(), before)
        assert not copied.numpy().any()


@every_event
@pytest.mark.parametrize("make", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_structures_are_copied_without_their_memory(
    event: Event, make: Callable[[Any], Any]
) -> None:
    state = {"m": Tensor.zeros(2), "v": Tensor.zeros(2), "of": [Tensor([1.0, 2.0])]}
    event([state["m"], state["v"], *state["of"]])
    copied = make(state)
    event([copied["v"], *copied["of"]])
    state["m"][0] = 1
    copied["v"][1] = 2
    copied["of"][0].assign(copied["of"][0] * 10)
    assert [state[k].tolist() for k in "mv"] == [[1, 0], [0, 0]]
    assert [copied[k].tolist() for k in "mv"] == [[0, 0], [0, 2]]
    assert (state["of"][0].tolist(), copied["of"][0].tolist()) == ([1, 2], [10, 20])


@pytest.mark.parametrize("device", DEVICES)
def test_another_process_reads_the_elements_that_were_pickled(device: str) -> None:
    x = Tensor([[1, 2], [3, 4]], device=device).realize()
    data = pickle.dumps([x, x.T, x + 1])
    program = (
        "import pickle, sys; print([(t.tolist(), t.device) for t in"
        " pickle.loads(bytes.fromhex(sys.argv[1]))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, data.hex()], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == str(
        [([[1, 2], [3, 4]], device), ([[1, 3], [2, 4]], device), ([[2, 3], [4, 5]], device)]
    )


@pytest.mark.parametrize(
    "fail",
    [
        lambda: Tensor([1, 2]) + Tensor([1, 2, 3]),
        lambda: Tensor([1, 2]).reshape(3),
        lambda: Tensor([1]).expand(2).assign(0),
        lambda: Tensor([1, 2])[5],
        lambda: Tensor([1], device="NOWHERE").tolist(),
        lambda: Tensor([1, 2]).sum(3),
        lambda: bool(Tensor([1, 2])),
        lambda: Tensor([1]).astype("no dtype"),
    ],
)
def test_errors_unpickle_and_copy(fail: Callable[[], object]) -> None:
    with pytest.raises(SvodError) as caught:
        fail()
    for again in (
        pickle.loads(pickle.dumps(caught.value)),
        copy.copy(caught.value),
        copy.deepcopy(caught.value),
    ):
        assert type(again) is type(caught.value)
        assert str(again) == str(caught.value)


# Writing.


@before_and_after
def test_a_tensor_can_be_written_after_it_was_cloned(event: Event, later: Event) -> None:
    x = Tensor([1, 2, 3])
    y = x.clone()
    event([x])
    x[0] = 9
    later([y])
    assert (x.tolist(), y.tolist()) == ([9, 2, 3], [1, 2, 3])


LAZY: dict[str, Callable[[Tensor], Tensor]] = {
    **UNCHANGED,
    "x * 2": lambda x: x * 2,
    "zeros": lambda x: Tensor.zeros(5, dtype="int32"),
    "arange": lambda x: Tensor.arange(5, dtype="int32"),
    "full": lambda x: Tensor.full((5,), 3),
    "ones_like": lambda x: x.ones_like(),
    "x[::-1]": lambda x: x[::-1],
    "x.flip(0)": lambda x: x.flip(0),
    "cumsum(0)": lambda x: x.cumsum(0, dtype="int32"),
    "x @ eye": lambda x: x @ Tensor.eye(5, dtype="int32"),
    "broadcast": lambda x: Tensor([2]).expand(5) * 1,
    "eye[0]": lambda x: Tensor.eye(5, dtype="int32")[0],
    "diagonal of eye": lambda x: Tensor.eye(5, dtype="int32").diagonal(),
    "max": lambda x: x[None].expand(3, 5).max(0),
    "to": lambda x: x.to("CPU:1").to("CPU"),
    "one_hot": lambda x: Tensor(2).one_hot(5),
    "linspace": lambda x: Tensor.linspace(0, 4, 5).astype("int32"),
}


@pytest.mark.parametrize("name", LAZY)
def test_every_lazy_result_can_be_written(name: str) -> None:
    for event, later in ORDERS:
        x = Tensor([1, 2, 3, 4, 5])
        wanted = LAZY[name](Tensor([1, 2, 3, 4, 5])).numpy().copy()
        y = LAZY[name](x)
        event([y])
        y[1:3] = 40
        wanted[1:3] = 40
        later([y])
        y += 1
        wanted += 1
        check(y, wanted)
        later([x])
        y.assign(y * 0 + 7)
        event([y])
        check(y, wanted * 0 + 7)


@before_and_after
@pytest.mark.parametrize("device", DEVICES)
def test_tensors_are_swapped_by_two_assignments(event: Event, later: Event, device: str) -> None:
    x, y = Tensor([1, 2, 3], device=device), Tensor([4, 5, 6], device=device)
    event([x, y])
    a = x * 1
    x.assign(y)
    y.assign(a)
    later([y, x])
    assert (x.tolist(), y.tolist(), a.tolist()) == ([4, 5, 6], [1, 2, 3], [1, 2, 3])


@before_and_after
def test_three_tensors_are_rotated(event: Event, later: Event) -> None:
    tensors = [Tensor([n, n]).realize() for n in range(3)]
    event(tensors)
    for _ in range(2):
        old = [t.clone() for t in tensors]
        for n in range(3):
            tensors[n].assign(old[(n + 1) % 3] + 10)
        later(tensors[::-1])
    assert [t.tolist() for t in tensors] == [[22, 22], [20, 20], [21, 21]]


@every_event
def test_results_computed_before_a_write_keep_the_old_version(event: Event) -> None:
    x = Tensor([1, 2, 3])
    made = [x + 1, x.sum(), x * x, x[1:] * 2]
    event(made[:2])
    x[...] = 0
    event([x])
    x[0] = 5
    assert [m.tolist() for m in made] == [[2, 3, 4], 6, [1, 4, 9], [4, 6]]
    assert x.tolist() == [5, 0, 0]


# Reading.


def count_compiled() -> int:
    """How many graphs were made into plans, or looked up."""
    counts = SCHEDULES.counts()
    return counts.hits + counts.misses


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_reading_elements_of_memory_compiles_no_kernel(dtype: str, device: str) -> None:
    a = make_array((6, 7), dtype)
    x = Tensor(a, device=device).realize()
    before = count_compiled()
    for n in range(6):
        for reader in (float, int, bool, lambda t: t.item(), lambda t: t.tolist()):
            assert reader(x[n, -n]) == reader(a[n, -n])
    for row, wanted in zip(x, a, strict=True):
        assert row.tolist() == wanted.tolist()
        assert [e.item() for e in row] == wanted.tolist()
    for view, wanted in (
        (x.T, a.T),
        (x.flip(1), np.flip(a, 1)),
        (x[::2, None], a[::2, None]),
        (x.expand(2, 6, 7), [a, a]),
    ):
        np.testing.assert_array_equal(view.numpy(), wanted)
        assert view.tolist() == np.asarray(wanted).tolist()
        repr(view)
    x.realize()
    x[2].realize()
    assert count_compiled() == before


def test_reading_elements_after_a_write_computes_only_that_write() -> None:
    x = Tensor(np.arange(100)).realize()
    view = x[10:20]
    x[15] = -1
    before = count_compiled()
    assert [int(e) for e in view] == [*range(10, 15), -1, *range(16, 20)]
    assert [x[n].item() for n in range(100)] == [*range(15), -1, *range(16, 100)]
    assert count_compiled() == before + 1
