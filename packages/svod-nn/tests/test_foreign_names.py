"""Names of PyTorch: errors that say what to write instead."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import svod_nn as nn
import svod_tensor
from svod_nn import _foreign_names
from svod_nn.errors import GradientNameError, LayerArgumentError, MissingGradientError
from svod_tensor import Tensor, value_and_grad
from svod_tensor.errors import (
    ArgumentNameError,
    DerivativeError,
    MissingImportError,
    MissingNameError,
)

MODEL = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
OPTIMIZER = nn.SGD(MODEL)
TABLES = {
    "model": (_foreign_names._MODULE, nn.Module()),
    "optimizer": (_foreign_names._OPTIMIZER, OPTIMIZER),
    "svod_nn": (_foreign_names._NAMES, nn),
}
OWNERS = {
    "model": MODEL,
    "optimizer": OPTIMIZER,
    "svod_nn": nn,
    "svod_tensor": svod_tensor,
    "x": Tensor,
    "Tensor": Tensor,
}


@pytest.mark.parametrize(
    ("where", "name"),
    [(where, name) for where, (table, _) in TABLES.items() for name in table],
    ids=str,
)
def test_hints_are_for_missing_names_and_use_existing_ones(where: str, name: str):
    table, owner = TABLES[where]
    with pytest.raises(MissingNameError, match=f"has no attribute '{name}'"):
        getattr(owner, name)
    assert not hasattr(owner, name)
    for kind, found in re.findall(rf"\b({'|'.join(OWNERS)})\.([a-zA-Z_]\w*)", table[name]):
        assert hasattr(OWNERS[kind], found) or (kind, found) == ("model", "name")


def test_functions_are_methods_of_tensors_or_names_of_svod_tensor():
    with pytest.raises(MissingNameError, match=r"use the method of tensors: x.unsqueeze"):
        _ = nn.unsqueeze
    with pytest.raises(MissingNameError, match=r"write svod_tensor.relu"):
        nn.relu(Tensor([1.0]))
    with pytest.raises(MissingNameError, match=r"write svod_tensor.jit"):
        nn.jit(MODEL)
    with pytest.raises(AttributeError, match="module 'svod_nn' has no attribute 'linera'"):
        _ = nn.linera


def test_names_that_a_from_import_does_not_find_have_hints():
    with pytest.raises(MissingImportError, match="hint: write a list of modules"):
        from svod_nn import ModuleList  # noqa: F401


def test_other_names_are_missing_as_ever():
    for owner in (MODEL, OPTIMIZER):
        with pytest.raises(
            AttributeError, match=f"'{type(owner).__name__}' object has no attribute 'layer'"
        ) as caught:
            _ = owner.layer
        assert not isinstance(caught.value, MissingNameError)


def test_a_module_may_have_an_attribute_of_such_a_name():
    class Block(nn.Module):
        def __init__(self):
            self.children = [nn.Linear(2, 1)]

    assert [name for name, _ in Block().named_parameters()] == [
        "children.0.weight",
        "children.0.bias",
    ]


def test_a_missing_attribute_in_a_property_is_named_in_the_error():
    class Odd(nn.Module):
        @property
        def width(self) -> object:
            return self.nothing

    with pytest.raises(AttributeError, match="'Odd' object has no attribute 'nothing'"):
        _ = Odd().width


@pytest.mark.parametrize(
    "empty", [[], {}, iter(()), nn.ReLU()], ids=["list", "dict", "iterator", "module"]
)
def test_an_optimizer_needs_parameters(empty: object):
    with pytest.raises(LayerArgumentError, match=r"^SGD: got an empty parameter list"):
        nn.SGD(empty)


def test_an_optimizer_needs_parameters_that_are_not_frozen():
    with pytest.raises(
        LayerArgumentError, match=r"^Lion: all parameters are frozen\n  hint: call model.unfreeze"
    ):
        nn.Lion(nn.Linear(2, 1).freeze())


def test_gradients_are_tensors_of_the_parameters():
    optimizer = nn.SGD(MODEL)
    with pytest.raises(
        LayerArgumentError,
        match=r"^SGD: gradients must be tensors, got float\n  hint: .*value_and_grad",
    ):
        optimizer.update(1.5)
    with pytest.raises(
        GradientNameError, match="no parameter for the gradients of \\(unnamed tensor\\)"
    ):
        optimizer.update(Tensor([1.0]))
    with pytest.raises(
        MissingGradientError, match=r"^SGD has no gradients for the parameters 0\.weight, 0\.bias\n"
    ):
        optimizer.update({})
    with pytest.raises(LayerArgumentError, match="gradients must be tensors, got NoneType"):
        optimizer.apply({"w": Tensor([1.0])}, optimizer.init({"w": Tensor([1.0])}), None)


def test_a_derivative_by_a_model_is_asked_for_in_one_way():
    x = Tensor.ones(4, 3)
    _, gradient = value_and_grad(lambda model, x: model(x).sum())(MODEL, x)
    assert gradient.state_dict().keys() == MODEL.state_dict().keys(), (
        "a network is a tree of its tensors"
    )
    with pytest.raises(DerivativeError, match=r"hint: svod_nn.value_and_grad"):
        value_and_grad(MODEL)(x)
    with pytest.raises(LayerArgumentError, match="model must be a Module, not function"):
        nn.value_and_grad(lambda model, x: model(x).sum(), MODEL)
    with pytest.raises(LayerArgumentError, match="loss_function must be callable, not Tensor"):
        nn.value_and_grad(MODEL, MODEL(x).sum())
    with pytest.raises(
        DerivativeError,
        match=r"shape \(4, 2\), not a scalar\n  hint: reduce it, as in loss.mean\(\)",
    ):
        nn.value_and_grad(MODEL, lambda model, x: model(x))(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: nn.Softmax(dim=-1),
            "Softmax() got an unexpected keyword argument 'dim'\n  hint: write Softmax(axis=-1)",
        ),
        (
            lambda: nn.Linear(3, 4, device="CUDA"),
            "Linear() got an unexpected keyword argument 'device'\n"
            "  hint: layers are created on the default device, with parameters in float32:"
            ' write model.to("CPU") afterwards',
        ),
        (
            lambda: nn.Conv2d(3, 4, 3, pading=1),
            "Conv2d() got an unexpected keyword argument 'pading'\n  hint: write Conv2d(padding=1)",
        ),
        (
            lambda: nn.Linear(3, 4, x=1),
            "Linear() got an unexpected keyword argument 'x'\n"
            "  hint: its parameters are in_features, out_features, bias, generator",
        ),
    ],
    ids=["dim", "device", "a misspelling", "an unknown name"],
)
def test_unexpected_keywords_of_layers_have_hints(make: Callable[[], object], message: str):
    with pytest.raises(ArgumentNameError) as caught:
        make()
    assert str(caught.value) == message


def test_signatures_of_layers_and_other_errors_are_unchanged():
    assert "in_features" in inspect.signature(nn.Linear).parameters
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'out_features'"):
        nn.Linear(3)
