"""A mistake in a call is an error of svod that names the operation that was called: over all public
operations.
"""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest

from svod_dtype import UserError
from svod_ir import AxisError, BroadcastError, OperandError, ShapeError
from svod_ir.testing import take_share
from svod_tensor import Tensor
from svod_tensor.errors import IntegerOverflowError
from svod_tensor.ops.core.operation import OPERATIONS as REGISTRY

OPERATORS = {
    "__getitem__": "indexing",
    "__setitem__": "assignment",
    "__len__": "len",
    "__rsub__": "subtract",
    "__rpow__": "pow",
    "__rmod__": "remainder",
    "__rmatmul__": "matmul",
    "__rfloordiv__": "floor_divide",
    "__add__": "add",
    "__sub__": "subtract",
    "__truediv__": "divide",
    "__matmul__": "matmul",
    "__lt__": "less",
    "__and__": "bitwise_and",
}
ODD = [
    1,
    0,
    -1,
    99,
    -99,
    2.5,
    math.nan,
    "a",
    None,
    object(),
    True,
    {},
    (),
    (1,),
    (99,),
    ("a",),
    [[1, 2], [3]],
    slice(1),
    np.ones(3),
    ((1, 1), (1, 1)),
    Tensor(np.ones(7, np.float32)),
    Tensor([0, 1]),
    Tensor(np.ones((2, 3, 5), np.bool_)),
]
"""Values that fit few parameters."""

PAIRS = [
    (value, ODD[(n + shift) % len(ODD)]) for shift in range(len(ODD)) for n, value in enumerate(ODD)
]
"""All pairs of them; a share of these pairs has each value first and second."""

TENSORS = [
    Tensor(np.ones((3, 4), np.float32)),
    Tensor(1.5),
    Tensor(np.arange(12).reshape(3, 4) % 3),
]
IMAGE, FILTERS = Tensor.ones(1, 2, 6, 6), Tensor.ones(4, 2, 3, 3)
ROWS, PLACES = Tensor.ones(3, 4), Tensor(np.zeros((3, 4), np.int64))
GOOD = [
    (
        Tensor.conv2d,
        {
            "x": IMAGE,
            "weight": FILTERS,
            "bias": Tensor.ones(4),
            "stride": 1,
            "padding": 0,
            "dilation": 1,
            "groups": 1,
        },
    ),
    (
        Tensor.conv_transpose2d,
        {
            "x": IMAGE,
            "weight": FILTERS.transpose(0, 1),
            "bias": Tensor.ones(4),
            "stride": 1,
            "padding": 0,
            "output_padding": 0,
            "dilation": 1,
            "groups": 1,
        },
    ),
    (Tensor.max_pool2d, {"x": IMAGE, "kernel": 2, "stride": 2, "padding": 0, "dilation": 1}),
    (
        Tensor.avg_pool2d,
        {
            "x": IMAGE,
            "kernel": 2,
            "stride": 2,
            "padding": 0,
            "dilation": 1,
            "count_include_pad": False,
        },
    ),
    (Tensor.windows, {"x": IMAGE, "kernel": (2, 2), "stride": (1, 1), "dilation": (1, 1)}),
    (
        Tensor.scaled_dot_product_attention,
        {"x": ROWS, "key": ROWS, "value": ROWS, "mask": Tensor.ones(3, 3), "scale": 1.0},
    ),
    (
        Tensor.group_norm,
        {"x": IMAGE, "n_groups": 2, "eps": 1e-5, "weight": Tensor.ones(2), "bias": Tensor.ones(2)},
    ),
    (
        Tensor.batchnorm,
        {
            "x": IMAGE,
            "mean": Tensor.ones(2),
            "variance": Tensor.ones(2),
            "weight": Tensor.ones(2),
            "bias": None,
        },
    ),
    (
        Tensor.layernorm,
        {"x": ROWS, "axis": 1, "eps": 1e-5, "weight": Tensor.ones(4), "bias": Tensor.ones(4)},
    ),
    (Tensor.linear, {"x": ROWS, "weight": Tensor.ones(5, 4), "bias": Tensor.ones(5)}),
    (Tensor.embedding, {"x": PLACES, "weight": ROWS}),
    (Tensor.tensordot, {"x1": ROWS, "x2": ROWS, "axes": 2}),
    (Tensor.vecdot, {"x1": ROWS, "x2": ROWS, "axis": -1}),
    (Tensor.take_along_axis, {"x": ROWS, "indices": PLACES, "axis": 0}),
    (Tensor.put_along_axis, {"x": ROWS, "indices": PLACES, "values": 1.0, "axis": 0}),
    (Tensor.scatter_add, {"x": ROWS, "indices": PLACES, "value": 1.0, "axis": 0}),
    (Tensor.index_add, {"x": ROWS, "axis": 0, "indices": Tensor([0, 1]), "value": 1.0}),
    (Tensor.add_at, {"x": ROWS, "index": Tensor([0, 1]), "value": 1.0}),
    (Tensor.with_items, {"x": ROWS, "index": Tensor([0, 1]), "value": 1.0}),
    (Tensor.bincount, {"x": PLACES, "n_bins": 3, "weights": ROWS}),
    (Tensor.searchsorted, {"x1": Tensor([1, 2, 3]), "x2": ROWS, "side": "left"}),
    (Tensor.masked_fill, {"x": ROWS, "mask": ROWS.gt(0), "value": 1.0}),
    (Tensor.where, {"condition": ROWS.gt(0), "x1": ROWS, "x2": 1.0}),
    (Tensor.diff, {"x": ROWS, "n": 1, "axis": 0, "prepend": ROWS, "append": ROWS}),
    (Tensor.arange, {"start": 0, "stop": 5, "step": 1, "dtype": "int32"}),
    (Tensor.linspace, {"start": 0, "stop": 5, "num": 3, "dtype": "float32"}),
    (Tensor.randint, {"low": 0, "high": 5, "seed": 1, "dtype": "int32"}),
    (Tensor.meshgrid, {"indexing": "xy"}),
]
"""Calls that are right until one argument is changed."""


def find_function(name):
    member = inspect.getattr_static(Tensor, name)
    return getattr(member, "__func__", getattr(member, "fget", member))


METHODS = {name for one in REGISTRY.values() for name in one.names}


OPERATIONS = [name for name in dir(Tensor) if name in METHODS or name in OPERATORS]


def check_call(shown, call):
    """Assert that a call succeeds, or fails with an error of svod that begins with the name of the
    operation.
    """
    try:
        call()
    except UserError as error:
        assert str(error).startswith(shown), f"{shown} is not named: {error}"
        assert error.operation.startswith(shown)


def is_static(function):
    return getattr(REGISTRY.get(function.__name__), "is_static", False)


def call_with(function, arguments):
    """Call a function with some of the arguments by position, where it takes them by
    position only.
    """
    taken = inspect.signature(function).parameters
    values = dict(arguments)
    by_position = [
        values.pop(n) for n, p in taken.items() if p.kind is p.POSITIONAL_ONLY and n in values
    ]
    return function(*by_position, **values)


def iter_calls(function, place):
    """Positional arguments and named ones, of which few fit; the place selects the pairs."""
    parameters = list(inspect.signature(function).parameters.values())
    parameters = parameters if is_static(function) else parameters[1:]
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    named = [p.name for p in parameters if p.default is not p.empty or p.kind is p.KEYWORD_ONLY]
    always = {p.name: 1 for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
    singles = [(value,) for value in ODD] if len(needed) == 1 else [()] * (not needed)
    for values in take_share(PAIRS, place) if len(needed) > 1 else singles:
        yield (*values, *(1,) * (len(needed) - 2)), always
    for name, value in itertools.product(named, ODD):
        yield (1,) * len(needed), always | {name: value}


@pytest.mark.parametrize("name", OPERATIONS)
def test_invalid_arguments_are_an_error_that_names_the_operation(name):
    function = find_function(name)
    shown = OPERATORS.get(name, function.__name__)
    is_method = not isinstance(inspect.getattr_static(Tensor, name), (classmethod, staticmethod))
    for place, tensor in enumerate(TENSORS if is_method else TENSORS[:1], OPERATIONS.index(name)):
        if isinstance(inspect.getattr_static(Tensor, name), property):
            check_call(shown, lambda t=tensor: getattr(t, name))
            continue
        for args, kwargs in iter_calls(function, place):
            target = tensor.clone() if name in ("__setitem__", "assign") else tensor
            check_call(shown, lambda t=target, a=args, k=kwargs: getattr(t, name)(*a, **k))


@pytest.mark.parametrize(
    ("function", "arguments"), GOOD, ids=[function.__name__ for function, _ in GOOD]
)
def test_one_invalid_argument_is_an_error_that_names_the_operation(function, arguments):
    call_with(function, arguments)
    first = next(iter(inspect.signature(function).parameters))
    for name, value in itertools.product(arguments, [*ODD, *TENSORS]):
        if name != first or is_static(function) or isinstance(value, Tensor):
            check_call(
                function.__name__, lambda n=name, v=value: call_with(function, arguments | {n: v})
            )


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: Tensor.rand(-3, 2),
            ShapeError,
            "rand: negative dimensions are not allowed: (-3, 2)",
        ),
        (
            lambda: Tensor(1.0).softmax(),
            AxisError,
            "softmax: axis -1 is out of bounds for a tensor of dimension 0",
        ),
        (
            lambda: ROWS.unbind(5),
            AxisError,
            "unstack: axis 5 is out of bounds for a tensor of dimension 2",
        ),
        (
            lambda: ROWS + Tensor.ones(3),
            BroadcastError,
            "add: operands could not be broadcast together with shapes (3, 4) and (3,)",
        ),
        (
            lambda: ROWS.layernorm(weight=Tensor.ones(3)),
            BroadcastError,
            "layernorm: operands could not be broadcast together with shapes (3, 4) and (3,)",
        ),
        (
            lambda: 300 - Tensor([1], dtype="int8"),
            IntegerOverflowError,
            "subtract: 300 does not fit int8",
        ),
        (lambda: IMAGE.conv2d(3), OperandError, "conv2d: expected a tensor as weight, got 3"),
        (
            lambda: IMAGE.conv2d(FILTERS, stride="a"),
            OperandError,
            "conv2d: expected 2 integers >= 1 as stride, got ('a',)",
        ),
        (
            lambda: IMAGE.conv2d(FILTERS, padding=-1),
            OperandError,
            "conv2d: expected 2 integers >= 0 as padding, got (-1, -1)",
        ),
        (lambda: ROWS.tril("a"), OperandError, "tril: expected an integer as k, got 'a'"),
        (lambda: ROWS.swish().clamp("a"), UserError, "clip"),
        (
            lambda: Tensor.einsum("ij", ROWS, ROWS),
            UserError,
            "einsum 'ij': it has 1 terms, but 2 operands were provided",
        ),
        (lambda: ROWS[7], UserError, "indexing: index 7 is out of bounds for axis 0 with size 3"),
    ],
)
def test_errors_name_the_called_operation_and_not_its_parts(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_an_internal_error_is_not_an_operand_error(monkeypatch):
    def fail(_self, _node):
        raise AttributeError("a bug")

    monkeypatch.setattr(Tensor, "_make_alike", fail)
    with pytest.raises(AttributeError, match="a bug"):
        ROWS.abs()


def test_calls_with_a_wrong_number_of_arguments_are_errors_of_python():
    with pytest.raises(TypeError, match="positional argument"):
        ROWS.sum(1, 2, 3, 4)
