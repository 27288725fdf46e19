"""Layers agree with torch: outputs and gradients from equal state, and distributions at
initialization.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import svod_nn as nn  # noqa: E402
from svod_tensor import Generator, Tensor, jit, load_safetensors, value_and_grad  # noqa: E402

tnn = torch.nn


class Case(NamedTuple):
    """Layer of both libraries by name and arguments, with the shapes of its operands.

    Attributes:
        shapes: shapes of the operands.
        options: further arguments.
        is_trained: True to compare in training mode.
        high: exclusive upper bound of integer operands.
        atol: absolute tolerance of values.
    """

    name: str
    args: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    options: Mapping[str, Any] = MappingProxyType({})
    is_trained: bool = True
    high: int | None = None
    atol: float = 2e-5


X1, X2, X3 = (2, 4, 9), (2, 4, 7, 6), (2, 4, 5, 4, 6)

CASES = [
    Case("Linear", (4, 3), ((5, 2, 4),)),
    Case("Linear", (4, 3, False), ((4,),)),
    Case("Bilinear", (4, 3, 2), ((5, 4), (5, 3))),
    Case("Flatten", (), (X2,)),
    Case("Conv1d", (4, 6, 3), (X1,)),
    Case("Conv1d", (4, 6, 3), ((4, 9),)),
    Case("Conv1d", (4, 6, 4), (X1,), {"padding": "same", "dilation": 2}),
    Case("Conv1d", (4, 4, 3), (X1,), {"padding": 2, "padding_mode": "circular"}),
    Case("Conv2d", (4, 6, 3), (X2,), {"padding": 1, "stride": 2}),
    Case("Conv2d", (4, 6, (3, 2)), (X2,), {"groups": 2, "dilation": (1, 2), "bias": False}),
    Case("Conv2d", (4, 4, 3), (X2,), {"groups": 4, "padding": "same", "padding_mode": "reflect"}),
    Case("Conv2d", (4, 4, 3), (X2,), {"padding": (2, 1), "padding_mode": "replicate"}),
    Case("Conv3d", (4, 2, 3), (X3,), {"padding": 1}),
    Case("ConvTranspose1d", (4, 6, 3), (X1,), {"stride": 2, "output_padding": 1}),
    Case("ConvTranspose2d", (4, 6, 3), (X2,), {"stride": 2, "padding": 1, "groups": 2}),
    Case("ConvTranspose3d", (4, 2, 2), (X3,), {"dilation": 2}),
    Case("Embedding", (7, 3), ((4, 5),), {"padding_idx": 2}, high=7),
    Case("Embedding", (7, 3), ((4, 5),), high=7),
    Case("BatchNorm1d", (4,), ((6, 4),)),
    Case("BatchNorm1d", (4,), (X1,), {"momentum": None}),
    Case("BatchNorm2d", (4,), (X2,)),
    Case("BatchNorm2d", (4,), (X2,), is_trained=False),
    Case(
        "BatchNorm2d",
        (4,),
        (X2,),
        {"track_running_stats": False, "affine": False},
        is_trained=False,
    ),
    Case("BatchNorm3d", (4,), (X3,)),
    Case("InstanceNorm1d", (4,), (X1,)),
    Case("InstanceNorm2d", (4,), (X2,), {"affine": True, "track_running_stats": True}),
    Case(
        "InstanceNorm2d",
        (4,),
        (X2,),
        {"affine": True, "track_running_stats": True},
        is_trained=False,
    ),
    Case("InstanceNorm3d", (4,), (X3,), {"affine": True}),
    Case("LayerNorm", (9,), (X1,)),
    Case("LayerNorm", ((7, 6),), (X2,), {"eps": 1e-2}),
    Case("RMSNorm", (9,), (X1,)),
    Case("GroupNorm", (2, 4), (X2,)),
    Case("Dropout", (0.4,), (X1,), is_trained=False),
    Case("MaxPool1d", (2,), (X1,)),
    Case("MaxPool2d", (3,), (X2,), {"stride": 2, "padding": 1}),
    Case("MaxPool3d", (2,), (X3,), {"dilation": 2, "stride": 1}),
    Case("AvgPool1d", (3,), (X1,)),
    Case("AvgPool2d", (3, 1, 1), (X2,), {"count_include_pad": False}),
    Case("AvgPool3d", (2,), (X3,)),
    Case("AdaptiveAvgPool1d", (4,), (X1,)),
    Case("AdaptiveAvgPool2d", ((7, 3),), (X2,)),
    Case("AdaptiveAvgPool2d", (1,), (X2,)),
    Case("AdaptiveAvgPool3d", ((2, 3, 4),), (X3,)),
    Case("ZeroPad2d", ((1, 2, 0, 3),), (X2,)),
    Case("ConstantPad1d", (2, 1.5), (X1,)),
    Case("ReflectionPad1d", ((3, 2),), (X1,)),
    Case("ReflectionPad2d", (2,), (X2,)),
    Case("ReflectionPad3d", (1,), (X3,)),
    Case("ReplicationPad2d", ((0, 3, 2, 1),), (X2,)),
    Case("ReplicationPad3d", (2,), (X3,)),
    Case("CircularPad2d", ((3, 2, 1, 0),), (X2,)),
    Case("Upsample", (), (X2,), {"scale_factor": 2}),
    Case("Upsample", ((10, 4),), (X2,)),
    Case("Upsample", (), (X2,), {"scale_factor": 2.5, "mode": "bilinear"}),
    Case("Upsample", (), (X2,), {"size": (13, 17), "mode": "bilinear", "align_corners": True}),
    Case("Upsample", (), (X2,), {"size": (3, 4), "mode": "bilinear"}),
    Case("Upsample", (), (X1,), {"scale_factor": 3, "mode": "linear"}),
    Case("Upsample", (), (X3,), {"scale_factor": 2, "mode": "trilinear"}),
    *(
        Case(name, (), (X1,))
        for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softsign")
    ),
    *(
        Case(name, (), (X1,))
        for name in ("Hardsigmoid", "Hardswish", "LeakyReLU", "ELU", "GELU", "Softplus")
    ),
    Case("GELU", ("tanh",), (X1,)),
    Case("GLU", (1,), (X1,)),
    Case("Softmax", (1,), (X1,)),
    Case("LogSoftmax", (-1,), (X1,)),
    Case("PReLU", (), (X1,)),
    Case("PReLU", (4,), (X2,)),
    Case("RNN", (3, 5), ((7, 2, 3),)),
    Case("RNN", (3, 5, 2, "relu"), ((2, 7, 3),), {"batch_first": True}),
    Case("GRU", (3, 5, 2), ((7, 2, 3),), {"bidirectional": True}),
    Case("LSTM", (3, 5, 2), ((7, 2, 3),), {"bidirectional": True}),
    Case("LSTM", (3, 5), ((7, 3),), {"bias": False}),
    Case("LSTM", (3, 5, 3), ((7, 2, 3),), {"dropout": 0.5}, is_trained=False),
    Case("TransformerEncoderLayer", (8, 2, 16, 0.0), ((5, 2, 8),)),
    Case(
        "TransformerEncoderLayer",
        (8, 2, 16, 0.0, "gelu"),
        ((2, 5, 8),),
        {"batch_first": True, "norm_first": True},
    ),
    Case("TransformerDecoderLayer", (8, 2, 16, 0.0), ((5, 2, 8), (7, 2, 8))),
    Case(
        "TransformerDecoderLayer",
        (8, 4, 16, 0.0),
        ((2, 5, 8), (2, 7, 8)),
        {"batch_first": True, "norm_first": True},
    ),
]


def make_id(case: Case) -> str:
    options = "".join(f",{name}={value}" for name, value in case.options.items())
    return f"{case.name}{case.args}{options}{'' if case.is_trained else ',eval'}"


def copy_state(source: Any, target: nn.Module) -> None:
    target.load_state_dict(
        {name: Tensor(value.detach().numpy().copy()) for name, value in source.state_dict().items()}
    )


def make_operands(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    if case.high is not None:
        return [rng.integers(0, case.high, shape) for shape in case.shapes]
    return [rng.standard_normal(shape).astype(np.float32) for shape in case.shapes]


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def check_close(found: Any, wanted: Any, atol: float, what: str) -> None:
    found, wanted = (np.asarray(x) for x in (found, wanted))
    assert found.shape == wanted.shape, what
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=atol, err_msg=what)


def randomize(module: Any) -> None:
    """Replace initial ones and zeros, such as those of normalizations, which hide errors."""
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) + (0.2 if "var" in name else -0.5))


@pytest.mark.parametrize("case", CASES, ids=make_id)
def test_outputs_gradients_and_buffers_of_layers_agree_with_torch(case: Case):
    torch.manual_seed(0)
    theirs = getattr(tnn, case.name)(*case.args, **case.options)
    ours = getattr(nn, case.name)(*case.args, **case.options)
    randomize(theirs)
    copy_state(theirs, ours)
    theirs.train(case.is_trained)
    ours.train(case.is_trained)
    operands = make_operands(case)
    inputs = [torch.tensor(x, requires_grad=x.dtype == np.float32) for x in operands]
    wanted = first(theirs(*inputs))
    slope = np.random.default_rng(1).standard_normal(tuple(wanted.shape)).astype(np.float32)
    if wanted.requires_grad:
        (wanted * torch.tensor(slope)).sum().backward()
    places = [k for k, x in enumerate(inputs) if x.requires_grad]

    def loss(parameters: dict[str, Tensor], chosen: list[Tensor]):
        given = [
            chosen[places.index(k)] if k in places else Tensor(x) for k, x in enumerate(operands)
        ]
        with ours.replaced(parameters):
            result = first(ours(*given))
        return (result * Tensor(slope)).sum(), result

    (_, found), (gradients, slopes) = value_and_grad(loss, argnums=(0, 1), has_aux=True)(
        ours.trainable_parameters(), [Tensor(operands[k]) for k in places]
    )
    for name, parameter in theirs.named_parameters():
        check_close(gradients[name].numpy(), parameter.grad, 10 * case.atol, name)
    for k, part in zip(places, slopes, strict=True):
        check_close(part.numpy(), inputs[k].grad, 10 * case.atol, f"the gradient by operand {k}")
    check_close(found.numpy(), wanted.detach(), case.atol, "the output")
    for name, buffer in theirs.named_buffers():
        check_close(dict(ours.named_buffers())[name].numpy(), buffer, case.atol, name)


@pytest.mark.parametrize("is_trained", [True, False])
@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("BatchNorm1d", (3,), (1, 3)),
        ("BatchNorm1d", (3,), (1, 3, 2)),
        ("BatchNorm1d", (3,), (0, 3)),
        ("BatchNorm2d", (3, 1e-5, 0.1, True, False), (1, 3, 1, 1)),
        ("InstanceNorm1d", (3,), (3, 1)),
        ("InstanceNorm1d", (3,), (2, 3, 1)),
        ("InstanceNorm2d", (3, 1e-5, 0.1, False, True), (2, 3, 1, 1)),
        ("GroupNorm", (3, 3), (1, 3)),
        ("GroupNorm", (1, 3), (1, 3)),
        ("GroupNorm", (3, 3), (1, 3, 2)),
    ],
    ids=str,
)
def test_a_variance_of_one_value_is_an_error_where_it_is_one_in_torch(
    name: str, args: tuple[Any, ...], shape: tuple[int, ...], is_trained: bool
):
    theirs, ours = (
        getattr(tnn, name)(*args).train(is_trained),
        getattr(nn, name)(*args).train(is_trained),
    )
    message = None
    try:
        theirs(torch.ones(shape))
    except ValueError as error:
        message = str(error).split(",")[0].lower().removesuffix(" when training")
    if message is None:
        ours(Tensor.ones(shape))
    else:
        with pytest.raises(ValueError, match=message):
            ours(Tensor.ones(shape))
    for key, buffer in theirs.named_buffers():
        # torch counts empty batches, and does not average them.
        if key != "num_batches_tracked":
            check_close(dict(ours.named_buffers())[key].numpy(), buffer, 1e-6, key)


ATTENTION = [
    ({}, {}, "self"),
    ({"batch_first": True}, {"is_causal": True}, "self"),
    ({"kdim": 5, "vdim": 6}, {}, "cross"),
    ({"bias": False}, {"key_padding_mask": True}, "cross"),
    ({}, {"attn_mask": "bool", "key_padding_mask": True}, "self"),
    ({"batch_first": True}, {"attn_mask": "float"}, "self"),
    ({}, {"attn_mask": "heads"}, "self"),
    ({}, {"average_attn_weights": False}, "self"),
]


@pytest.mark.parametrize(("options", "call", "kind"), ATTENTION, ids=str)
def test_attention_gives_the_results_the_weights_and_the_gradients_of_torch(options, call, kind):
    torch.manual_seed(0)
    theirs = tnn.MultiheadAttention(8, 2, **options)
    ours = nn.MultiheadAttention(8, 2, **options)
    randomize(theirs)
    copy_state(theirs, ours)
    rng = np.random.default_rng(2)
    n, m, batch = 5, 5 if kind == "self" else 7, 3
    sizes = [(n, 8), (m, options.get("kdim", 8)), (m, options.get("vdim", 8))]
    arrays = [
        rng.standard_normal((batch, *s) if options.get("batch_first") else (s[0], batch, s[1]))
        for s in sizes
    ]
    arrays = [arrays[0]] * 3 if kind == "self" else arrays
    masks: dict[str, np.ndarray] = {}
    if call.get("key_padding_mask"):
        masks["key_padding_mask"] = rng.random((batch, m)) < 0.3
        masks["key_padding_mask"][:, 0] = False
    kinds = {
        "bool": np.triu(np.ones((n, m), bool), 1),
        "float": rng.standard_normal((n, m)).astype(np.float32),
        "heads": rng.standard_normal((batch * 2, n, m)).astype(np.float32),
    }
    if "attn_mask" in call:
        masks["attn_mask"] = kinds[call["attn_mask"]]
    rest = {k: v for k, v in call.items() if k not in ("attn_mask", "key_padding_mask")}
    their_masks = {name: torch.tensor(mask) for name, mask in masks.items()}
    if rest.get("is_causal"):
        # torch takes it as a hint in addition to the mask.
        their_masks["attn_mask"] = torch.tensor(np.triu(np.ones((n, m), bool), 1))
    result, weights = theirs(
        *(torch.tensor(x.astype(np.float32)) for x in arrays), **their_masks, **rest
    )
    slope = torch.tensor(rng.standard_normal(tuple(result.shape)).astype(np.float32))
    (result * slope).sum().backward()
    given = (
        [Tensor(arrays[0].astype(np.float32))] * 3
        if kind == "self"
        else [Tensor(x.astype(np.float32)) for x in arrays]
    )

    def loss(model: nn.MultiheadAttention):
        found = model(*given, **{name: Tensor(mask) for name, mask in masks.items()}, **rest)
        return (found[0] * Tensor(slope.numpy())).sum(), found

    (_, found), gradients = nn.value_and_grad(ours, loss, has_aux=True)()
    check_close(found[0].numpy(), result.detach(), 2e-5, "the result")
    check_close(found[1].numpy(), weights.detach(), 2e-5, "the weights")
    for name, parameter in theirs.named_parameters():
        check_close(gradients[name].numpy(), parameter.grad, 2e-4, name)


@pytest.mark.parametrize("kind", ["Encoder", "Decoder"])
def test_a_stack_has_the_names_of_torch_and_its_results(kind: str):
    torch.manual_seed(0)
    made = []
    for library in (tnn, nn):
        layer = getattr(library, f"Transformer{kind}Layer")(8, 2, 16, batch_first=True)
        made.append(getattr(library, f"Transformer{kind}")(layer, 3, library.LayerNorm(8)).eval())
    theirs, ours = made
    randomize(theirs)
    copy_state(theirs, ours)
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    operands = [x] if kind == "Encoder" else [x, x[:, :3] + 1]
    wanted = theirs(*(torch.tensor(x) for x in operands))
    check_close(ours(*(Tensor(x) for x in operands)).numpy(), wanted.detach(), 2e-5, "the output")


INITIAL = [
    ("Linear", (30, 40)),
    ("Bilinear", (10, 12, 14)),
    ("Conv2d", (8, 16, 3)),
    ("ConvTranspose2d", (8, 16, 3)),
    ("Embedding", (50, 20)),
    ("LSTM", (10, 20, 2)),
    ("MultiheadAttention", (32, 4)),
    ("BatchNorm2d", (5,)),
    ("TransformerDecoderLayer", (32, 4, 64)),
]


@pytest.mark.parametrize(("name", "args"), INITIAL, ids=str)
def test_first_values_have_the_distributions_of_torch(name: str, args: tuple[int, ...]):
    """Check bounds of uniform samples to a hundredth, and variances to a fifth."""
    theirs = [getattr(tnn, name)(*args).state_dict() for _ in range(20)]
    ours = [getattr(nn, name)(*args, **_seed(name, k)).state_dict() for k in range(20)]
    assert set(theirs[0]) == set(ours[0])
    for key in theirs[0]:
        wanted = np.stack([state[key].numpy() for state in theirs]).astype(np.float64)
        found = np.stack([state[key].numpy() for state in ours]).astype(np.float64)
        assert found.shape == wanted.shape, key
        np.testing.assert_allclose(found.std(), wanted.std(), rtol=0.2, err_msg=key)
        if wanted.std() and name != "Embedding":
            np.testing.assert_allclose(
                np.abs(found).max(), np.abs(wanted).max(), rtol=0.05, err_msg=key
            )


def _seed(name: str, number: int) -> dict[str, Generator]:
    return {} if "Norm" in name else {"generator": Generator(number)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_states_and_parameters_of_torch_are_loaded_as_they_are(dtype: str):
    theirs = tnn.Linear(4, 3).to(getattr(torch, dtype))
    for state in (theirs.state_dict(), dict(theirs.named_parameters())):
        ours = nn.Linear(4, 3).load_state_dict(state)
        for name, parameter in theirs.named_parameters():
            check_close(
                dict(ours.named_parameters())[name].numpy(), parameter.detach().float(), 0, name
            )
    found = Tensor(theirs.weight)
    assert str(found.dtype) == dtype
    with torch.no_grad():
        wanted = theirs.weight.float().tolist()
        theirs.weight.zero_()
    assert found.cast("float32").tolist() == wanted
    assert Tensor(theirs.weight * 1).shape == (3, 4)


def test_a_checkpoint_of_torch_loads_and_trains_to_the_same_weights(tmp_path: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    torch.manual_seed(3)
    theirs = tnn.Sequential(
        tnn.Conv2d(1, 4, 3, padding="same"),
        tnn.BatchNorm2d(4),
        tnn.ReLU(),
        tnn.MaxPool2d(2),
        tnn.Flatten(),
        tnn.Linear(36, 3),
    )
    safetensors.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    ours = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding="same"),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 3),
    )
    ours.load_state_dict(load_safetensors(tmp_path / "model.safetensors"))

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return ((model(x) - y) ** 2).mean()

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        value, gradients = nn.value_and_grad(ours, loss)(x, y)
        for name, parameter in ours.trainable_parameters().items():
            parameter.assign(parameter - 0.1 * gradients[name])
        return value

    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 1, 6, 6), (8, 3)))
        theirs.zero_grad()
        value = ((theirs(torch.tensor(x)) - torch.tensor(y)) ** 2).mean()
        value.backward()
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter -= 0.1 * parameter.grad
        check_close(step(Tensor(x), Tensor(y)).numpy(), value.detach(), 1e-5, "the loss")
    for name, wanted in theirs.state_dict().items():
        check_close(ours.state_dict()[name].numpy(), wanted, 1e-4, name)
