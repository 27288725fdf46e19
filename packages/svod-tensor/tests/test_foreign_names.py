"""Names of other libraries: errors that say what to write instead."""

from __future__ import annotations

import pickle
import re

import pytest

import svod_tensor
from svod_ir import OperandError
from svod_tensor import Tensor, _foreign_names, grad, value_and_grad, vjp
from svod_tensor.errors import (
    ArgumentNameError,
    DerivativeError,
    MissingImportError,
    MissingNameError,
)

TABLES = {
    "Tensor": (_foreign_names._ATTRIBUTES, Tensor),
    "the module svod_tensor": (_foreign_names._NAMES, svod_tensor),
    "an argument": (_foreign_names._ARGUMENTS, None),
}
ROWS = [(where, name) for where, (table, _) in TABLES.items() for name in table]


@pytest.mark.parametrize(("where", "name"), ROWS, ids=str)
def test_each_row_maps_a_missing_name_to_existing_ones(where: str, name: str):
    table, owner = TABLES[where]
    assert owner is None or not hasattr(owner, name)
    for kind, found in re.findall(r"\b(x|Tensor|svod_tensor)\.([a-zA-Z_]\w*)", table[name]):
        assert hasattr(svod_tensor if kind == "svod_tensor" else Tensor, found)


def test_attributes_of_torch_have_hints():
    x = Tensor([1.0, 2.0])
    with pytest.raises(
        MissingNameError, match=r"no attribute 'backward'\n  hint: .*svod_nn.value_and_grad"
    ):
        x.sum().backward()
    with pytest.raises(MissingNameError, match=r"model.freeze"):
        x.requires_grad_()
    with pytest.raises(MissingNameError, match=r"svod_tensor.grad"):
        _ = x.grad
    with pytest.raises(MissingNameError, match=r"model.freeze"):
        x.requires_grad = False
    with pytest.raises(MissingNameError, match=r"x.assign\(x.add\(...\)\)"):
        x.add_(1)
    assert not hasattr(x, "grad")
    assert x.tolist() == [1, 2]


def test_the_error_survives_pickling():
    with pytest.raises(MissingNameError) as caught:
        Tensor([1.0]).cuda()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert (copy.owner, copy.missing) == ("'Tensor' object", "cuda")


def test_unknown_names_are_plain_attribute_errors():
    x = Tensor([1.0])
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'colour'") as caught:
        _ = x.colour
    assert not isinstance(caught.value, MissingNameError)
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'colour'"):
        x.colour = 1
    with pytest.raises(AttributeError, match="module 'svod_tensor' has no attribute 'colour'"):
        _ = svod_tensor.colour


def test_an_attribute_error_inside_of_a_property_is_kept():
    class Odd(Tensor):
        __slots__ = ()

        @property
        def grad(self) -> object:
            return self.nothing

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = Odd([1.0]).grad.x


def test_a_class_derived_from_tensor_may_have_such_an_attribute():
    class Marked(Tensor):
        pass

    x = Marked([1.0])
    x.grad = 3
    assert x.grad == 3


def test_arguments_of_torch_have_hints():
    with pytest.raises(
        ArgumentNameError,
        match=r"^Tensor\(\) got an unexpected keyword argument 'requires_grad'\n  hint: a gradient",
    ):
        Tensor([1.0], requires_grad=True)
    with pytest.raises(
        ArgumentNameError,
        match=r"^zeros\(\) got an unexpected keyword argument 'requires_grad'\n  hint: a gradient",
    ):
        Tensor.zeros(3, requires_grad=True)
    with pytest.raises(TypeError, match="missing 1 required"):
        Tensor()


@pytest.mark.parametrize("dtype", ["float16", svod_tensor.float16])
def test_a_dtype_instead_of_a_device_suggests_a_cast(dtype: object):
    with pytest.raises(
        OperandError,
        match=(
            r'to: expected a device name, got the dtype float16\n  hint: write x.cast\("float16"\)'
        ),
    ):
        Tensor([1.0]).to(dtype)
    assert Tensor([1.0]).to("cpu").device == "CPU"


def test_names_of_modules_have_hints():
    with pytest.raises(MissingNameError, match="leave it out"), svod_tensor.no_grad():
        pass
    for name in ("rand", "from_numpy", "from_uop"):
        with pytest.raises(MissingNameError, match=rf"Tensor\.{name}\(|Tensor\(array\)"):
            getattr(svod_tensor, name)
    with pytest.raises(MissingNameError, match=r"a method, or an attribute, of tensors: x.tolist"):
        svod_tensor.tolist(Tensor([1.0]))
    with pytest.raises(MissingNameError, match=r"write Tensor.from_uop\(...\)"):
        _ = svod_tensor.from_uop


def test_names_that_a_from_import_does_not_find_have_hints():
    with pytest.raises(MissingImportError) as caught:
        from svod_tensor import no_grad  # noqa: F401
    assert str(caught.value) == (
        "cannot import name 'no_grad' from 'svod_tensor'\n  hint: leave it out: nothing is kept for"
        " gradients unless svod_tensor.grad or svod_nn.value_and_grad asks for them"
    )
    assert caught.value.name == "svod_tensor"
    with pytest.raises(ImportError, match="cannot import name 'xyzzy' from 'svod_tensor'"):
        from svod_tensor import xyzzy  # noqa: F401


def test_the_submodule_of_tensors_is_imported_and_not_called():
    import svod_tensor.tensor as module

    assert module.Tensor is Tensor
    with pytest.raises(MissingNameError, match=r"hint: write Tensor\(data\)"):
        svod_tensor.tensor([1.0])


class Network:
    """Called, and with parameters by name, as modules are."""

    def __init__(self):
        self.weight = Tensor([1.0, 2.0])

    def trainable_parameters(self) -> dict[str, Tensor]:
        return {"weight": self.weight}

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.weight


def test_derivatives_by_a_network_suggest_svod_nn():
    model, x = Network(), Tensor([1.0, 2.0])

    def loss(model: Network, x: Tensor) -> Tensor:
        return model(x).sum()

    for call in (lambda: value_and_grad(model, loss)(x), lambda: grad(model)(x)):
        with pytest.raises(
            DerivativeError, match=r"hint: svod_nn\.value_and_grad\(model, loss_function\)"
        ):
            call()
    assert grad(lambda x: loss(model, x))(x).tolist() == [1, 2]
    gradient = grad(loss)(model, x)
    assert isinstance(gradient, Network)
    assert gradient.weight.tolist() == [1, 2], "an object of tensors is a tree of them"


def test_arguments_of_grad_of_wrong_types_are_named():
    with pytest.raises(DerivativeError, match="grad: Tensor is not a function"):
        grad(Tensor([1.0]))
    with pytest.raises(DerivativeError, match="expected a tensor as argument\\['a'\\], got object"):
        grad(lambda tree: tree["b"])({"a": object(), "b": 1.0})
    with pytest.raises(DerivativeError, match="argnums is of str, not an integer"):
        grad(lambda x: x, argnums="x")
    with pytest.raises(
        DerivativeError,
        match="the function returns float, not a tensor\n  hint: return the tensor itself",
    ):
        grad(lambda x: x.item())(Tensor([1.0]))
    with pytest.raises(DerivativeError, match="the result is int32"):
        vjp(lambda x: x.cast("int32"), Tensor([1.0]))


@pytest.mark.parametrize(
    ("owner", "name", "hint"),
    [
        (Tensor(1), "sofmax", "did you mean x.softmax?"),
        (Tensor(1), "reshpae", "did you mean x.reshape?"),
        (svod_tensor, "arrange", "did you mean svod_tensor.arange?"),
        (svod_tensor, "concatenate", "write concat([x, y], axis=0)"),
    ],
)
def test_a_misspelt_name_suggests_the_right_one(owner, name, hint):
    with pytest.raises(MissingNameError) as caught:
        getattr(owner, name)
    assert caught.value.hint == hint


@pytest.mark.parametrize("owner", [Tensor(1), svod_tensor])
@pytest.mark.parametrize("name", ["colour", "_repr_mimebundle_", "__array_struct__", "iloc"])
def test_a_name_without_similar_names_has_no_suggestion(owner, name):
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert not isinstance(caught.value, MissingNameError)
