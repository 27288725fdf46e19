"""An argument that is named as another library names it is an error that says how it is
named here.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import svod_tensor
from svod_tensor import Tensor
from svod_tensor.errors import ArgumentNameError
from svod_tensor.ops.core.argument_names import SPELLINGS
from svod_tensor.ops.core.operation import OPERATIONS as REGISTRY
from svod_tensor.ops.core.table import TABLE

ROWS = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
IMAGE = Tensor.ones(1, 2, 6, 6)


def takes(row):
    function = inspect.getattr_static(Tensor, row.name)
    function = getattr(function, "__func__", function)
    if isinstance(function, property) or row.theme in ("core.base", "tensor"):
        return None
    is_static = row.name in REGISTRY and REGISTRY[row.name].is_static
    return list(inspect.signature(function).parameters.values())[0 if is_static else 1 :]


ROW_OF = {row.name: row for row in TABLE if takes(row) is not None}
OPERATIONS = list(ROW_OF)


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda: ROWS.sum(dim=1),
            "sum() got an unexpected keyword argument 'dim'",
            "x.sum(axis=1)",
        ),
        (
            lambda: ROWS.softmax(dim=-1),
            "softmax() got an unexpected keyword argument 'dim'",
            "x.softmax(axis=-1)",
        ),
        (
            lambda: ROWS.mean(1, keepdim=True),
            "mean() got an unexpected keyword argument 'keepdim'",
            "x.mean(1, keepdims=True)",
        ),
        (
            lambda: ROWS.max(dim=1, keepdim=True),
            "max() got an unexpected keyword argument 'dim'",
            "x.max(axis=1, keepdims=True)",
        ),
        (
            lambda: ROWS.std(unbiased=True),
            "std() got an unexpected keyword argument 'unbiased'",
            "x.std(correction=1)",
        ),
        (
            lambda: ROWS.var(ddof=1),
            "var() got an unexpected keyword argument 'ddof'",
            "x.var(correction=1)",
        ),
        (
            lambda: IMAGE.max_pool2d(kernel_size=3),
            "max_pool2d() got an unexpected keyword argument 'kernel_size'",
            "x.max_pool2d(kernel=3)",
        ),
        (
            lambda: ROWS.take(index=ROWS, dim=0),
            "take() got an unexpected keyword argument 'index'",
            "x.take(indices=..., axis=0)",
        ),
        (
            lambda: ROWS.tril(diagonal=1),
            "tril() got an unexpected keyword argument 'diagonal'",
            "x.tril(k=1)",
        ),
        (
            lambda: Tensor.concat([ROWS, ROWS], dim=1),
            "concat() got an unexpected keyword argument 'dim'",
            "sv.concat([...], axis=1)",
        ),
        (
            lambda: Tensor.linspace(0, 1, steps=5),
            "linspace() got an unexpected keyword argument 'steps'",
            "sv.linspace(0, 1, num=5)",
        ),
        (
            lambda: Tensor.zeros(size=(2, 3)),
            "zeros() got an unexpected keyword argument 'size'",
            "sv.zeros(shape=(2, 3))",
        ),
        (
            lambda: ROWS.permute(dims=(1, 0)),
            "permute_dims() got an unexpected keyword argument 'dims'",
            "x.permute_dims(axes=(1, 0))",
        ),
        (
            lambda: ROWS.relu(inplace=True),
            "relu() got an unexpected keyword argument 'inplace'",
            "x.assign(...) of the result",
        ),
        (
            lambda: ROWS.sum(0, True),
            "sum() takes keepdims only by name",
            "x.sum(0, keepdims=True)",
        ),
        (
            lambda: svod_tensor.sum(ROWS, 0, True),
            "sum() takes keepdims only by name",
            "x.sum(0, keepdims=True)",
        ),
        (
            lambda: svod_tensor.sum(ROWS, dim=0),
            "sum() got an unexpected keyword argument 'dim'",
            "x.sum(axis=0)",
        ),
        (
            lambda: svod_tensor.sum([1, 2], dim=0),
            "sum() got an unexpected keyword argument 'dim'",
            "sv.sum([...], axis=0)",
        ),
        (
            lambda: Tensor.rand(size=(2, 3)),
            "rand() got an unexpected keyword argument 'size'",
            "Tensor.rand(shape=(2, 3))",
        ),
        (lambda: ROWS.sum(colour=3), "sum() got an unexpected keyword argument 'colour'", None),
    ],
)
def test_the_error_suggests_the_correct_name(call, message, hint):
    with pytest.raises(ArgumentNameError) as caught:
        call()
    assert caught.value.headline == message
    parameters = "its parameters are axis, keepdims, dtype"
    assert caught.value.hint == (parameters if hint is None else f"write {hint}")


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_operation_takes_a_name_that_is_not_in_its_signature(name):
    with pytest.raises(ArgumentNameError) as caught:
        getattr(ROWS, name)(colour=3)
    assert caught.value.given == "colour"
    problem = f"{name}() got an unexpected keyword argument 'colour'"
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_axis_has_the_same_name(name):
    names = {parameter.name for parameter in takes(ROW_OF[name]) or ()}
    assert not names & {"dim", "dims", "dim0", "dim1", "keepdim", "kernel_size", "unbiased", "ddof"}
    if "axis" in names:
        with pytest.raises(ArgumentNameError, match="argument 'dim'") as caught:
            getattr(ROWS, name)(dim=0)
        assert caught.value.expected == ("axis",)


def test_each_alternative_spelling_maps_to_an_existing_argument():
    known = {parameter.name for name in OPERATIONS for parameter in takes(ROW_OF[name]) or ()}
    assert {ours for names in SPELLINGS.values() for ours in names} <= known


def test_the_hint_is_a_call_that_works():
    with pytest.raises(ArgumentNameError) as caught:
        ROWS.std(dim=1, unbiased=True, keepdim=True)
    x = ROWS
    found = eval(caught.value.hint.removeprefix("write "), {"x": x})
    np.testing.assert_allclose(found.numpy(), x.numpy().std(1, ddof=1, keepdims=True), rtol=1e-6)


STANDARD = {
    "arange": "stop step dtype device",
    "empty": "dtype device",
    "eye": "k dtype device",
    "full": "fill_value dtype device",
    "linspace": "num dtype device endpoint",
    "meshgrid": "indexing",
    "ones": "dtype device",
    "zeros": "dtype device",
    "tril": "k",
    "triu": "k",
    "full_like": "dtype device",
    "ones_like": "dtype device",
    "zeros_like": "dtype device",
    "astype": "dtype copy device",
    "clip": "min max",
    "take": "axis",
    "take_along_axis": "axis",
    "tensordot": "axes",
    "vecdot": "axis",
    "concat": "axis",
    "expand_dims": "axis",
    "flip": "axis",
    "moveaxis": "source destination",
    "repeat": "repeats axis",
    "roll": "shift axis",
    "squeeze": "axis",
    "stack": "axis",
    "unstack": "axis",
    "argmax": "axis keepdims",
    "argmin": "axis keepdims",
    "count_nonzero": "axis keepdims",
    "searchsorted": "side sorter",
    "isin": "invert",
    "argsort": "axis descending stable",
    "sort": "axis descending stable",
    "cumulative_prod": "axis dtype include_initial",
    "cumulative_sum": "axis dtype include_initial",
    "max": "axis keepdims",
    "min": "axis keepdims",
    "mean": "axis keepdims",
    "prod": "axis dtype keepdims",
    "sum": "axis dtype keepdims",
    "std": "axis correction keepdims",
    "var": "axis correction keepdims",
    "all": "axis keepdims",
    "any": "axis keepdims",
    "diff": "axis n prepend append",
    "linalg.diagonal": "offset",
    "linalg.trace": "offset dtype",
    "linalg.vector_norm": "axis keepdims ord",
    "linalg.matrix_norm": "keepdims ord",
    "from_dlpack": "device copy",
}
"""The arguments of the array API standard (2024.12) that a call may name, but for shapes, which
stand in their place here.
"""


def test_the_table_has_each_of_these_functions():
    assert STANDARD.keys() <= {row.standard for row in TABLE}


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.standard in STANDARD], ids=lambda row: row.name
)
def test_the_arguments_of_the_standard_have_its_names(row):
    ours = set(inspect.signature(getattr(Tensor, row.name)).parameters)
    theirs = set(STANDARD[row.standard].split())
    assert theirs <= ours
