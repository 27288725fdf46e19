from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import LayerArgumentError, ParameterNameError, StateDictError
from svod_tensor import (
    DType,
    Tensor,
    bfloat16,
    float16,
    float32,
    jit,
    load_safetensors,
    save_safetensors,
    track_origins,
)
from svod_tensor.errors import UserError


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Block(nn.Module):
    buffer_names = ("mean",)

    def __init__(self, n: int):
        self.weight = Tensor.ones(n).realize()
        self.mean = Tensor.zeros(n).realize()
        self.count = Tensor(0)
        self.width = n
        self._secret = Tensor.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.assign(self.mean * 0.5 + x.mean(axis=0))
        return x * self.weight


class Tree(nn.Module):
    def __init__(self):
        self.blocks = [Block(2), Block(2)]
        self.heads = {"a": Block(2), "b": (Block(2), Tensor.full((2,), 3.0).realize())}
        self.pair = Pair(Tensor.ones(2).realize(), Tensor.ones(2).realize())

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.heads["a"](x) * self.heads["b"][1] + self.pair.first


def test_parameters_are_found_in_nested_lists_tuples_and_dicts_by_their_paths():
    names = [name for name, _ in Tree().named_parameters()]
    assert names == [
        "heads.b.1",
        "pair.0",
        "pair.1",
        *(f"{p}.weight" for p in ("blocks.0", "blocks.1", "heads.a", "heads.b.0")),
    ]


def test_buffers_are_listed_attributes_and_tensors_that_are_not_floats():
    assert [name for name, _ in Block(2).named_buffers()] == ["mean", "count"]


def test_modules_are_named_by_their_paths():
    assert [name for name, _ in Tree().named_modules()] == [
        "",
        "blocks.0",
        "blocks.1",
        "heads.a",
        "heads.b.0",
    ]


def test_a_shared_tensor_is_one_parameter_with_two_names_in_the_state():
    model = Tree()
    model.blocks[1].weight = model.blocks[0].weight
    assert "blocks.1.weight" not in dict(model.named_parameters())
    assert model.state_dict()["blocks.1.weight"] is model.state_dict()["blocks.0.weight"]
    assert "blocks.0.weight" not in model.freeze("blocks.1").trainable_parameters()


def test_a_module_that_is_its_own_descendant_is_found_once():
    model = Block(2)
    model.parent = [model]
    assert list(model.state_dict()) == ["weight", "mean", "count"]


def test_modes_reach_all_modules():
    model = Tree().eval()
    assert not any(module.training for module in model.modules())
    assert all(module.training for module in model.train().modules())


def test_frozen_parameters_are_not_trainable_until_they_are_unfrozen():
    model = Tree()
    every = set(model.trainable_parameters())
    model.freeze("blocks", "pair.0")
    assert every - set(model.trainable_parameters()) == {
        "blocks.0.weight",
        "blocks.1.weight",
        "pair.0",
    }
    model.unfreeze("blocks.1")
    assert "blocks.1.weight" in model.trainable_parameters()
    assert model.freeze().trainable_parameters() == {}
    assert set(model.unfreeze().trainable_parameters()) == every


def test_a_name_that_is_not_there_is_an_error_that_names_near_ones():
    with pytest.raises(ParameterNameError, match=r"known parameters: blocks\.0\.weight"):
        Tree().freeze("blocks.0.weigth")


def test_a_state_is_saved_and_loaded(tmp_path: Path):
    model, other = Tree(), Tree()
    for number, tensor in enumerate(model.parameters()):
        tensor.assign(Tensor.full(tensor.shape, float(number)))
    model.blocks[0].mean.assign(Tensor([7.0, 8.0]))
    save_safetensors(model.state_dict(), tmp_path / "model.safetensors")
    tensors = dict(other.state_dict())
    other.load_state_dict(load_safetensors(tmp_path / "model.safetensors"))
    for name, tensor in model.state_dict().items():
        assert (tensor == other.state_dict()[name]).all(), name
        assert other.state_dict()[name] is tensors[name]


def test_an_invalid_state_changes_nothing_and_its_error_lists_all_differences():
    model = Tree()
    state = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    del state["pair.0"]
    state["blocks.0.weight"] = Tensor.ones(3)
    state["extra"] = Tensor.ones(1)
    with pytest.raises(StateDictError) as caught:
        model.load_state_dict(state)
    assert caught.value.missing == ("pair.0",)
    assert caught.value.unexpected == ("extra",)
    assert "size mismatch for blocks.0.weight: expected (2,), got (3,)" in str(caught.value)
    assert model.pair.second.tolist() == [1, 1]
    del state["blocks.0.weight"]
    assert model.load_state_dict(state, strict=False).pair.second.tolist() == [2, 2]
    assert model.pair.first.tolist() == [1, 1]


def test_a_state_in_another_dtype_is_cast():
    model = Block(2)
    model.load_state_dict({**model.state_dict(), "weight": Tensor([0.5, 2.0], dtype=bfloat16)})
    assert model.weight.dtype == float32
    assert model.weight.tolist() == [0.5, 2.0]


def test_a_state_of_arrays_is_copied():
    model, weight = Block(2), np.array([0.5, 2.0])
    model.load_state_dict({**model.state_dict(), "weight": weight})
    weight[0] = 9
    assert model.weight.dtype == float32
    assert model.weight.tolist() == [0.5, 2.0]
    with pytest.raises(
        StateDictError, match=r"size mismatch for weight: expected \(2,\), got \(3,\)"
    ):
        model.load_state_dict({**model.state_dict(), "weight": np.ones(3)})


class TensorOfTorch:
    """A tensor that refuses what torch's refuses."""

    def __init__(self, values: Tensor, requires_grad: bool) -> None:
        self.values, self.requires_grad = values, requires_grad
        self.__dlpack_device__ = values.__dlpack_device__

    def detach(self) -> TensorOfTorch:
        return TensorOfTorch(self.values, False)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.values.dtype == bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values.numpy()

    def __dlpack__(self, **options: object) -> object:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.values.__dlpack__(**options)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_state_of_tensors_of_torch_is_copied(dtype: DType, requires_grad: bool):
    values = Tensor([0.5, 2.0], dtype=dtype).realize()
    theirs = TensorOfTorch(values, requires_grad)
    found = Tensor(theirs)
    assert (found.dtype, found.tolist()) == (dtype, [0.5, 2.0])
    model = Block(2)
    model.load_state_dict({**model.state_dict(), "weight": theirs})
    values.assign(Tensor([9.0, 9.0], dtype=dtype)).realize()
    assert (model.weight.dtype, model.weight.tolist(), found.tolist()) == (
        float32,
        [0.5, 2.0],
        [0.5, 2.0],
    )
    optimizer = nn.SGD(model, momentum=0.5)
    optimizer.load_state_dict({**optimizer.state_dict(), "slots.weight.momentum_buffer": theirs})
    assert optimizer.state["slots"]["weight"]["momentum_buffer"].tolist() == [9.0, 9.0]


def test_all_names_and_shapes_that_differ_are_counted_in_one_error():
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(10)])
    state = {f"{name}{n}": np.ones(3) for name in ("x", "y") for n in range(6)}
    state |= {f"{n}.weight": np.ones((2, 3)) for n in range(10)}
    with pytest.raises(StateDictError) as caught:
        model.load_state_dict(state)
    assert (
        len(caught.value.missing) == 10
        and len(caught.value.unexpected) == 12
        and len(caught.value.shapes) == 10
    )
    assert str(caught.value).splitlines()[1:] == [
        (
            "  note: missing keys: 0.bias, 1.bias, 2.bias, 3.bias, 4.bias, 5.bias, 6.bias, 7.bias, and"
            " 2 more"
        ),
        "  note: unexpected keys: x0, x1, x2, x3, x4, x5, y0, y1, and 4 more",
        *(f"  note: size mismatch for {n}.weight: expected (2, 2), got (2, 3)" for n in range(8)),
        "  note: size mismatch for 2 more",
    ]


class Keeper(nn.Module):
    """Keeps values of its forward pass in attributes, new ones and lists."""

    buffer_names = ("total",)

    def __init__(self):
        self.weight = Tensor.ones(2).realize()
        self.inner, self.states, self.last, self.total = None, [], None, None

    def forward(self, x: Tensor, error: Exception | None = None) -> Tensor:
        if self.inner is None:
            self.inner = Block(2)
        self.last = self.inner(x) * self.weight
        self.states.append(self.last)
        self.extra = {"mean": x.mean(), "count": Tensor(len(self.states))}
        self.total = x.sum(axis=0).detach()
        if error is not None:
            raise error
        return self.last


def list_roles(model: nn.Module) -> tuple[list[str], list[str]]:
    return [name for name, _ in model.named_parameters()], [
        name for name, _ in model.named_buffers()
    ]


def test_a_tensor_that_forward_adds_is_neither_a_parameter_nor_a_buffer():
    model, x = Keeper(), Tensor.ones(3, 2)
    # A module that `forward` makes has its parameters, and a buffer that the class declares is one.
    roles = ["weight", "inner.weight"], ["total", "inner.mean", "inner.count"]
    model(x)
    assert list_roles(model) == roles
    model(x)
    with pytest.raises(ArithmeticError):
        model(x, ArithmeticError())
    assert list_roles(model) == roles
    assert list(model.state_dict()) == [
        "weight",
        "total",
        "inner.weight",
        "inner.mean",
        "inner.count",
    ]
    optimizer = nn.SGD(model)
    _, gradients = nn.value_and_grad(model, lambda model, x: model(x).sum())(x)
    optimizer.update(gradients)
    assert set(gradients) == set(roles[0])
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert list_roles(copied) == roles
    last = model.last
    assert list_roles(model.cast("float16")) == roles
    assert model.last is last and model.weight.dtype == float16


def test_an_attribute_that_is_set_outside_of_forward_is_a_parameter_again():
    model, x = Keeper(), Tensor.ones(3, 2)
    model(x)
    model.last, model.states = Tensor.ones(2), [Tensor.ones(1)]
    assert list_roles(model)[0] == ["weight", "states.0", "last", "inner.weight"]
    # Parameters that `forward` replaces or adds to stay what they are.
    model(x)
    assert list_roles(model)[0] == ["weight", "states.0", "last", "inner.weight"]


def test_floats_are_cast_and_integers_stay():
    model = Tree().cast(bfloat16)
    assert {tensor.dtype for tensor in model.parameters()} == {bfloat16}
    assert model.blocks[0].mean.dtype == bfloat16
    assert not model.blocks[0].count.dtype.is_float
    assert isinstance(model.pair, Pair)


def test_a_model_moves_to_another_device_with_its_shared_tensors():
    model = Tree()
    model.blocks[1].weight = model.blocks[0].weight
    model.to("CPU:1")
    assert {tensor.device for tensor in model.state_dict().values()} == {"CPU:1"}
    assert model.blocks[1].weight is model.blocks[0].weight
    assert model.eval()(Tensor.ones(1, 2).to("CPU:1")).device == "CPU:1"


def test_replaced_tensors_are_visible_everywhere_and_restored_afterwards():
    model = Tree().eval()
    x = Tensor.ones(1, 2)
    before = model(x).tolist()
    attributes = [dict(vars(module)) for module in model.modules()]
    with model.replaced({"heads.b.1": Tensor([5.0, 6.0]), "pair.0": Tensor([0.0, 0.0])}):
        assert model(x).tolist() == [[5, 6]]
    assert model(x).tolist() == before
    assert all(
        vars(module)[name] is value
        for module, old in zip(model.modules(), attributes, strict=True)
        for name, value in old.items()
    )


def test_errors_within_the_block_put_the_tensors_back():
    model = Block(2)
    weight = model.weight
    with pytest.raises(ZeroDivisionError), model.replaced({"weight": Tensor.zeros(2)}):
        raise ZeroDivisionError
    assert model.weight is weight


def test_a_captured_function_assigns_to_buffers():
    model = Block(2)
    step = jit(lambda x: model(x))
    expected = np.zeros(2)
    for number in range(4):
        x = np.full((3, 2), number, np.float32)
        step(Tensor(x))
        expected = expected * 0.5 + number
    np.testing.assert_allclose(model.mean.numpy(), expected)


def test_the_text_of_a_module_is_that_of_a_tree():
    class Two(nn.Module):
        def __init__(self):
            self.layers = [nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]

    assert (
        repr(Two()) == "Two(\n"
        "  (layers.0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (layers.1): Linear(in_features=3, out_features=1, bias=False)\n"
        ")"
    )


def test_a_mistake_in_a_call_names_the_innermost_module_and_its_path():
    class Wrapped(nn.Module):
        def __init__(self):
            self.layers = [nn.ReLU(), nn.Sequential(nn.Conv2d(4, 1, 3))]

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    model = Wrapped()
    shown = "Conv2d(4, 1, kernel_size=(3, 3), stride=(1, 1))"
    with pytest.raises(UserError, match="channels") as caught:
        model(Tensor.ones(5, 2, 8, 8))
    assert caught.value.__notes__ == [f"in the module layers.1.0: {shown}"]
    with pytest.raises(UserError, match="channels") as caught:
        jit(model)(Tensor.ones(5, 2, 8, 8))
    assert caught.value.__notes__ == [f"in the module layers.1.0: {shown}"]
    with pytest.raises(UserError, match="channels") as caught:
        model.layers[1][0](Tensor.ones(5, 2, 8, 8))
    assert caught.value.__notes__ == [f"in the module {shown}"]
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.__notes__ == [f"in the module {shown}"]
    assert type(copy.__notes__[0]) is str


def test_any_error_in_a_forward_pass_names_the_module():
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("nothing")

    with pytest.raises(KeyError, match="nothing") as caught:
        nn.Sequential(nn.Identity(), Odd())(Tensor.ones(2))
    assert caught.value.__notes__ == ["in the module 1: Odd()"]


def test_a_module_that_no_attribute_holds_has_no_path():
    class Maker(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.Linear(4, 1)(x)

    with pytest.raises(UserError, match="linear") as caught:
        Maker()(Tensor.ones(2))
    assert caught.value.__notes__ == [
        "in the module Linear(in_features=4, out_features=1, bias=True)"
    ]


@pytest.mark.parametrize(
    ("x", "shown"),
    [(np.ones((2, 3), np.float32), "numpy.ndarray"), ([1.0], "list"), (1.0, "float")],
)
def test_a_call_with_something_else_than_a_tensor_says_so(x: object, shown: str):
    with pytest.raises(
        LayerArgumentError, match=f"^Linear: expected a tensor, got {shown}"
    ) as caught:
        nn.Sequential(nn.Linear(3, 1))(x)
    assert caught.value.__notes__ == [
        "in the module 0: Linear(in_features=3, out_features=1, bias=True)"
    ]


@pytest.mark.parametrize("call", [lambda m, x: m(x), lambda m, x: m(indices=x)])
def test_a_call_with_an_array_says_so_where_its_dtype_is_read(call):
    class Lookup(nn.Module):
        def forward(self, indices: Tensor) -> Tensor:
            return indices if indices.dtype.is_int else indices.cast("int32")

    with pytest.raises(LayerArgumentError, match=r"^Lookup: expected a tensor, got numpy\.ndarray"):
        call(Lookup(), np.arange(3))


def test_a_missing_attribute_of_another_object_is_named_in_the_error():
    class Odd(nn.Module):
        def forward(self, x: object) -> object:
            return x.nothing, self.linear

    with pytest.raises(AttributeError, match="'list' object has no attribute 'nothing'"):
        Odd()([1.0])
    with pytest.raises(
        LayerArgumentError, match=r"to\(\) expects the name of a device, got float32"
    ):
        Odd().to(float32)


def test_a_shape_that_differs_is_an_error_also_where_all_names_fit():
    model = Block(2)
    with pytest.raises(
        StateDictError, match=r"size mismatch for weight: expected \(2,\), got \(3,\)"
    ):
        model.load_state_dict({**model.state_dict(), "weight": Tensor.ones(3)}, strict=False)


def test_an_unknown_name_cannot_be_replaced():
    with (
        pytest.raises(ParameterNameError, match="'wait'"),
        Block(2).replaced({"wait": Tensor.ones(2)}),
    ):
        pytest.fail("the block ran")


def test_a_model_on_several_devices_loads_its_state():
    model, devices = Block(2).shard(("CPU", "CPU:1")), ("CPU", "CPU:1")
    model.load_state_dict(
        {"weight": Tensor([3.0, 4.0]), "mean": Tensor([1.0, 2.0]), "count": Tensor(5)}
    )
    assert model.weight.device == devices
    assert model.weight.tolist() == [3, 4]
    assert model.count.item() == 5


def test_kernels_have_the_names_of_modules_where_origins_are_tracked():
    tree, x = Tree().eval(), Tensor([[1.0, 2.0]]).realize()

    @jit
    def step(x: Tensor) -> list[Tensor]:
        gradients = nn.value_and_grad(tree, lambda tree, x: tree(x).exp().sum())(x)[1]
        return [gradients[name] for name in ("blocks.0.weight", "heads.b.1")]

    def get_scopes() -> set[str]:
        step(x)
        (plan,) = step.plans()
        return {origin.scope for profile in plan.execute_profiled() for origin in profile.origins}

    with track_origins():
        found = get_scopes()
    assert {"blocks.0", "blocks.1", "heads.a"} <= found <= {"", "blocks.0", "blocks.1", "heads.a"}


def test_names_of_modules_inside_others_are_joined():
    class Outer(nn.Module):
        def __init__(self):
            self.inner = nn.Sequential(nn.Identity(), nn.Softmax(-1))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    model = Outer()
    with track_origins():
        y = model(Tensor([1.0, 2.0]))
    [profile] = y.prepare().execute_profiled()
    [origin] = profile.origins
    assert (origin.scope, origin.operation) == ("inner.1", "softmax")
    # The line is one of the program, and none of a layer.
    assert (origin.file, origin.function.rpartition(".")[2]) == (__file__, "forward")


def test_a_captured_step_follows_the_mode_and_the_frozen_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(1.0))
    predict = jit(model)
    x = Tensor([[1.0, 2.0]])
    in_training = predict(x).tolist()
    model.eval()
    assert predict(x).tolist() != in_training == [[0.0, 0.0]]
    model.train()
    assert predict(x).tolist() == in_training
    assert predict.n_captures == 2

    find = jit(lambda x: nn.value_and_grad(model, lambda model, x: model(x).sum())(x)[1])
    assert sorted(find(x)) == ["0.bias", "0.weight"]
    model.freeze("0.bias")
    assert sorted(find(x)) == ["0.weight"]
    model.unfreeze()
    assert sorted(find(x)) == ["0.bias", "0.weight"]
    assert find.n_captures == 2


def test_an_array_does_not_replace_a_parameter():
    model = nn.Linear(2, 3)
    with pytest.raises(
        LayerArgumentError,
        match=r"cannot assign ndarray to weight, which is a tensor\n.*model.weight = Tensor\(array\)",
    ):
        model.weight = np.ones((3, 2), np.float32)
    model.weight = Tensor.ones(3, 2)
    model.table = np.ones(2)  # no tensor was there: it is what the caller wants to keep
    assert [name for name, _ in model.named_parameters()] == ["weight", "bias"]
