"""Layers against formulas of numpy; `tests/test_nn_beside_torch.py` holds all of them against
torch.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import LayerArgumentError
from svod_nn.layers.padding import pad_axes
from svod_tensor import Generator, PrepareConfig, Tensor, Variable, bfloat16, jit
from svod_tensor.errors import IndexTensorError, SymbolicShapeError


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def check_close(found: Tensor, wanted: np.ndarray, atol: float = 1e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=atol)


def test_a_bilinear_layer_is_a_product_with_both_operands(rng):
    layer = nn.Bilinear(3, 4, 5)
    a, b = draw(rng, 2, 6, 3), draw(rng, 2, 6, 4)
    wanted = np.einsum("...i,oij,...j->...o", a, layer.weight.numpy(), b) + layer.bias.numpy()
    check_close(layer(Tensor(a), Tensor(b)), wanted)


@pytest.mark.parametrize(
    ("mode", "theirs"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
@pytest.mark.parametrize("amounts", [((1, 2), (0, 3)), ((2, 0), (3, 1)), ((0, 0), (1, 0))])
def test_padding_is_that_of_numpy(rng, mode, theirs, amounts):
    x = draw(rng, 2, 3, 4)
    check_close(pad_axes(Tensor(x), amounts, mode), np.pad(x, ((0, 0), *amounts), mode=theirs))


def test_padding_of_a_layer_names_the_last_axis_first():
    assert nn.ZeroPad2d((1, 2, 3, 4))(Tensor.ones(1, 1, 5, 5)).shape == (1, 1, 12, 8)


def test_a_convolution_with_same_padding_adds_more_behind_than_before(rng):
    layer = nn.Conv1d(1, 1, 4, padding="same", bias=False)
    x = draw(rng, 1, 1, 6)
    padded, filters = np.pad(x[0, 0], (1, 2)), layer.weight.numpy()[0, 0]
    check_close(layer(Tensor(x)), np.correlate(padded, filters, "valid")[None, None])


@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_a_transposed_convolution_is_the_transpose_of_a_convolution(rng, n_axes):
    """<conv(x), y> = <x, transposed(y)> with the same weights."""
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2, "bias": False}
    conv = getattr(nn, f"Conv{n_axes}d")(4, 6, 3, **options)
    back = getattr(nn, f"ConvTranspose{n_axes}d")(6, 4, 3, **options)
    back.weight = conv.weight
    x = draw(rng, 2, 4, *(5,) * n_axes)
    forward = conv(Tensor(x)).numpy()
    y = draw(rng, *forward.shape)
    np.testing.assert_allclose((forward * y).sum(), (x * back(Tensor(y)).numpy()).sum(), rtol=1e-3)


def test_layers_take_tensors_without_a_batch(rng):
    x = draw(rng, 4, 9)
    for layer in (
        nn.Conv1d(4, 6, 3),
        nn.ConvTranspose1d(4, 6, 3),
        nn.MaxPool1d(2),
        nn.AvgPool1d(2),
        nn.InstanceNorm1d(4),
    ):
        check_close(layer(Tensor(x)), layer(Tensor(x[None])).numpy()[0])


def test_the_row_of_padding_is_zeros_and_gets_no_gradient():
    layer = nn.Embedding(5, 2, padding_idx=-2)
    assert layer.weight[3].tolist() == [0, 0]
    gradients = nn.value_and_grad(layer, lambda layer, x: layer(x).sum())(
        Tensor([3, 1, 1, -1, -2])
    )[1]
    assert gradients["weight"].tolist() == [[0, 0], [2, 2], [0, 0], [0, 0], [1, 1]]


def test_batch_statistics_are_used_in_training_and_running_ones_afterwards(rng):
    layer = nn.BatchNorm2d(3, momentum=0.25)
    layer.weight.assign(Tensor(draw(rng, 3)))
    layer.bias.assign(Tensor(draw(rng, 3)))
    weight, bias = (p.numpy().reshape(1, 3, 1, 1) for p in (layer.weight, layer.bias))
    mean, variance = np.zeros(3), np.ones(3)
    for _ in range(3):
        x = draw(rng, 4, 3, 2, 5) * 2 + 1
        found_mean, found_variance = (
            x.mean((0, 2, 3), keepdims=True),
            x.var((0, 2, 3), keepdims=True),
        )
        check_close(
            layer(Tensor(x)), (x - found_mean) / np.sqrt(found_variance + 1e-5) * weight + bias
        )
        mean = 0.75 * mean + 0.25 * found_mean.ravel()
        variance = 0.75 * variance + 0.25 * found_variance.ravel() * 40 / 39
    layer.eval()
    wanted = (x - mean.reshape(1, 3, 1, 1)) / np.sqrt(
        variance.reshape(1, 3, 1, 1) + 1e-5
    ) * weight + bias
    check_close(layer(Tensor(x)), wanted)
    assert layer.num_batches_tracked.item() == 3


def test_instances_keep_running_statistics_where_they_are_asked_for(rng):
    layer = nn.InstanceNorm1d(3, momentum=0.25, track_running_stats=True)
    x = draw(rng, 4, 3, 6)
    layer(Tensor(x))
    mean, variance = 0.25 * x.mean((0, 2)), 0.75 + 0.25 * x.var(2, ddof=1).mean(0)
    check_close(layer.running_mean, mean)
    check_close(layer.running_var, variance)
    check_close(layer.eval()(Tensor(x)), (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5))


def test_running_statistics_without_a_momentum_are_means_of_all_batches(rng):
    layer, batches = nn.BatchNorm1d(2, momentum=None), [draw(rng, 6, 2) for _ in range(3)]
    for x in batches:
        layer(Tensor(x))
    check_close(layer.running_mean, np.mean([x.mean(0) for x in batches], axis=0))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d(3), (1, 3)),
        (nn.BatchNorm1d(3), (1, 3, 1)),
        (nn.BatchNorm2d(3), (1, 3, 1, 1)),
        (nn.BatchNorm3d(3), (1, 3, 1, 1, 1)),
        (nn.BatchNorm1d(3, track_running_stats=False).eval(), (1, 3)),
        (nn.InstanceNorm1d(3), (4, 3, 1)),
        (nn.InstanceNorm1d(3), (3, 1)),
        (nn.InstanceNorm2d(3, track_running_stats=True), (4, 3, 1, 1)),
        (nn.GroupNorm(3, 3), (1, 3)),
    ],
    ids=str,
)
def test_a_variance_of_one_value_is_an_error_that_shows_the_input_size(
    layer: nn.Module, shape: tuple[int, ...]
):
    with pytest.raises(
        LayerArgumentError, match=r"more than 1 .* got input size \(.*" + re.escape(str(shape)[1:])
    ):
        layer(Tensor.ones(shape))
    assert all(np.isfinite(buffer.numpy()).all() for buffer in layer.buffers())


def test_the_error_of_one_value_per_channel_says_what_to_do():
    layer = nn.BatchNorm1d(3)
    with pytest.raises(LayerArgumentError, match=r"drop_last=True\), or call model\.eval\(\)"):
        for x in nn.batches(np.ones((9, 3), np.float32), 4):
            layer(x)
    assert np.isfinite(layer.running_var.numpy()).all()
    assert layer.eval()(Tensor.ones(1, 3)).shape == (1, 3)
    with pytest.raises(LayerArgumentError) as error:
        nn.GroupNorm(3, 3)(Tensor.ones(1, 3))
    assert "eval" not in str(error.value)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d(3), (1, 3, 2)),
        (nn.InstanceNorm1d(3, track_running_stats=True).eval(), (4, 3, 1)),
        (nn.GroupNorm(1, 3), (1, 3)),
        (nn.GroupNorm(3, 3), (2, 3)),
    ],
    ids=str,
)
def test_a_variance_of_more_values_and_a_running_one_are_no_error(
    layer: nn.Module, shape: tuple[int, ...]
):
    assert np.isfinite(layer(Tensor.ones(shape)).numpy()).all()


def test_an_empty_batch_leaves_running_statistics_as_they_are():
    for layer, shape in [
        (nn.BatchNorm1d(3), (0, 3)),
        (nn.InstanceNorm1d(3, track_running_stats=True), (0, 3, 4)),
    ]:
        assert layer(Tensor.ones(shape)).shape == shape
        assert layer.running_var.tolist() == [1, 1, 1]


def test_running_statistics_want_a_batch_whose_bounds_exclude_one_row(rng):
    x = Tensor(draw(rng, 8, 3))
    layer = nn.BatchNorm1d(3)
    with pytest.raises(LayerArgumentError, match=r"may have 1\n.*lower bound"):
        layer(x[: Variable("n", 1, 8).bind(4)])
    layer(x[: Variable("m", 2, 8).bind(4)])
    check_close(layer.running_var, 0.9 + 0.1 * x.numpy()[:4].var(0, ddof=1))
    with pytest.raises(LayerArgumentError, match="got input size"):
        layer(x[: Variable("k", 1, 1).bind(1)])
    # Without running statistics nothing becomes NaN.
    assert layer.eval()(x[: Variable("n", 1, 8).bind(1)]).numpy().shape == (1, 3)


def test_narrow_floats_keep_their_dtype_and_statistics_theirs(rng):
    layer = nn.BatchNorm1d(3)
    assert layer(Tensor(draw(rng, 5, 3)).cast(bfloat16)).dtype == bfloat16
    assert str(layer.running_mean.dtype) == "float32"


def test_normalisations_are_those_of_their_axes(rng):
    x = draw(rng, 2, 4, 3, 5)

    def normalize(y: np.ndarray, *axes: int) -> np.ndarray:
        return (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + 1e-5)

    check_close(nn.LayerNorm((3, 5))(Tensor(x)), normalize(x, 2, 3))
    check_close(nn.InstanceNorm2d(4)(Tensor(x)), normalize(x, 2, 3))
    check_close(nn.GroupNorm(2, 4)(Tensor(x)), normalize(x.reshape(2, 2, 30), 2).reshape(x.shape))
    check_close(nn.RMSNorm(5)(Tensor(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 2.0**-23))


def test_dropout_draws_from_its_generator_and_anew_in_each_call_of_a_captured_function():
    layer, same = (nn.Dropout(0.25, generator=Generator(4)) for _ in range(2))
    step = jit(lambda x: layer(x))
    drawn = [step(Tensor.ones(1000)).numpy().copy() for _ in range(2)]
    assert (drawn[0] == same(Tensor.ones(1000)).numpy()).all()
    assert (drawn[0] != drawn[1]).any()
    np.testing.assert_allclose(drawn[0].mean(), 1, atol=0.1)
    np.testing.assert_allclose(np.unique(drawn[0]), [0, 4 / 3], rtol=1e-6)


def test_recurrent_layers_run_one_by_one_where_there_is_dropout_between_them(rng):
    x = draw(rng, 6, 2, 3)
    for kind, n_states in ((nn.LSTM, 4), (nn.GRU, 2)):
        layer = kind(3, 4, 2, bidirectional=n_states == 4, dropout=1e-30)
        states = [draw(rng, n_states, 2, 4) for _ in range(2 if kind is nn.LSTM else 1)]
        hx = tuple(map(Tensor, states)) if kind is nn.LSTM else Tensor(states[0])
        found, ends = layer(Tensor(x), hx)
        wanted, wanted_ends = layer.eval()(Tensor(x), hx)
        check_close(found, wanted.numpy())
        for end, other in zip(
            *((e if kind is nn.LSTM else (e,)) for e in (ends, wanted_ends)), strict=True
        ):
            check_close(end, other.numpy())
    assert (nn.LSTM(3, 4, 2, dropout=1.0)(Tensor(x))[1][0][0].numpy() != 0).any()


def test_windows_of_adaptive_pooling_cover_the_axis(rng):
    x = draw(rng, 2, 3, 7, 4)
    rows = np.stack([x[:, :, o * 7 // 3 : -(-(o + 1) * 7 // 3)].mean(2) for o in range(3)], axis=2)
    check_close(nn.AdaptiveAvgPool2d((3, 2))(Tensor(x)), rows.reshape(2, 3, 3, 2, 2).mean(-1))


def test_upsampling_repeats_or_interpolates():
    x = Tensor([[[0.0, 3.0, 6.0]]])
    assert nn.Upsample(5)(x).tolist() == [[[0, 0, 3, 3, 6]]]
    assert nn.Upsample(scale_factor=2, mode="linear")(x).tolist() == [
        [[0, 0.75, 2.25, 3.75, 5.25, 6]]
    ]
    assert nn.Upsample(5, mode="linear", align_corners=True)(x).tolist() == [[[0, 1.5, 3, 4.5, 6]]]
    assert nn.Upsample(2)(x).tolist() == [[[0, 3]]]


@pytest.mark.parametrize("options", [{"scale_factor": 2}, {"size": 6}])
def test_upsampling_of_a_symbolic_size_is_rejected(options):
    x = Tensor.ones(1, 2, 8)[:, :, : Variable("n", 1, 8).bind(4)]
    with pytest.raises(SymbolicShapeError, match=r"Upsample needs concrete sizes, not \(n,\)"):
        nn.Upsample(**options)(x)


def test_slopes_belong_to_channels():
    layer = nn.PReLU(2)
    layer.weight.assign(Tensor([0.5, 2.0]))
    assert layer(Tensor([[[-1.0, 1.0], [-1.0, 1.0]]])).tolist() == [[[-0.5, 1], [-2, 1]]]


def test_a_sequence_is_indexed_and_takes_functions():
    model = nn.Sequential(nn.Flatten(), lambda x: x * 2, nn.Linear(4, 3))
    assert model(Tensor.ones(5, 2, 2)).shape == (5, 3)
    assert [name for name, _ in model.named_parameters()] == ["2.weight", "2.bias"]
    assert model[-1] is list(model)[2]
    with pytest.raises(IndexError, match="index 3 is out of bounds for 3 steps"):
        _ = model[3]


def test_a_slice_of_a_sequence_shares_its_modules_and_their_names():
    model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(4, 3))
    part = model[1:]
    assert (len(part), part[1] is model[2], part[-1] is model[-1]) == (2, True, True)
    assert [name for name, _ in part.named_parameters()] == ["2.weight", "2.bias"]
    assert part(Tensor.ones(5, 4)).tolist() == model(Tensor.ones(5, 4)).tolist()
    assert [step is own for step, own in zip(model[::-1], list(model)[::-1], strict=True)] == [
        True
    ] * 3


def test_a_sequence_of_a_list_suggests_a_star():
    for steps in ([nn.ReLU()], {"relu": nn.ReLU()}):
        with pytest.raises(LayerArgumentError) as caught:
            nn.Sequential(steps)
        kind = type(steps).__name__
        assert str(caught.value) == (
            f"Sequential: step 0 is a {kind}, which cannot be called\n"
            "  hint: write Sequential(*layers)"
        )
    with pytest.raises(LayerArgumentError, match="step 1 is a NoneType, which cannot be called"):
        nn.Sequential(nn.ReLU(), None)


MISTAKES = {
    "divisible by groups, got in_channels=4": lambda: nn.Conv2d(4, 6, 3, groups=3),
    "kernel_size must be an integer or 2 integers, at least 1, got \\(3,\\)": lambda: nn.Conv2d(
        4, 6, (3,)
    ),
    "padding='same' with stride": lambda: nn.Conv1d(4, 6, 3, stride=2, padding="same"),
    "padding='full'": lambda: nn.Conv1d(4, 6, 3, padding="full"),
    "padding_mode='mirror'": lambda: nn.Conv1d(4, 6, 3, padding_mode="mirror"),
    "expected 2-D or 3-D input": lambda: nn.Conv1d(4, 6, 3)(Tensor.ones(4)),
    "padding 3 is too large for axis 1 with size 3": lambda: nn.ReflectionPad1d(3)(
        Tensor.ones(2, 3)
    ),
    "padding must be an integer or 4 integers": lambda: nn.ZeroPad2d((1, 2)),
    "one_cycle: anneal_strategy must be 'cosine' or 'linear', got 'cos'": (
        lambda: nn.schedules.one_cycle(1.0, 10, anneal_strategy="cos")
    ),
    "RNN: nonlinearity must be 'tanh' or 'relu', got 'gelu'": (
        lambda: nn.RNN(2, 3, nonlinearity="gelu")
    ),
    "kaiming_uniform: mode must be .*, got 'fan_up'": lambda: nn.initializers.kaiming_uniform(
        (3, 3), mode="fan_up"
    ),
    "orthogonal: expected a shape .*, got \\(3,\\)": lambda: nn.initializers.orthogonal((3,)),
    "expected at least 2 axes, got shape \\(3,\\)": lambda: nn.ReflectionPad2d(1)(Tensor.ones(3)),
    "axis 1 of shape \\(1, 0\\) is empty": lambda: nn.ReplicationPad1d(1)(Tensor.ones(1, 0)),
    "padding_idx=7": lambda: nn.Embedding(7, 2, padding_idx=7),
    "p must be between 0 and 1, got 2": lambda: nn.Dropout(2),
    "expected input of shape .*3,.*, got": lambda: nn.LayerNorm(3)(Tensor.ones(2, 4)),
    "divisible by num_groups, got num_channels=4": lambda: nn.GroupNorm(3, 4),
    "expected 4-D input": lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 3, 4)),
    "expected 3 channels, got 4": lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 4, 5, 5)),
    "expected 3 channels, got 5": lambda: nn.InstanceNorm1d(3)(Tensor.ones(5, 7)),
    "either size or scale_factor": lambda: nn.Upsample(),
    "mode='cubic'": lambda: nn.Upsample(2, mode="cubic"),
    "only supported by linear modes": lambda: nn.Upsample(2, align_corners=True),
    "mode='linear' expects input of 3 axes": lambda: nn.Upsample(2, mode="linear")(
        Tensor.ones(1, 1, 2, 2)
    ),
    "embed_dim=8, num_heads=3": lambda: nn.MultiheadAttention(8, 3),
    "embed_dim=8, num_heads=0": lambda: nn.MultiheadAttention(8, 0),
    "num_kv_heads=3": lambda: nn.MultiheadAttention(8, 4, num_kv_heads=3),
    "number of features must be even and constant, got 3": lambda: nn.rotary_embedding(
        Tensor.ones(2, 3)
    ),
    "activation must be .*, got 'tanh'": lambda: nn.TransformerEncoderLayer(
        8, 2, activation="tanh"
    ),
    "num_layers=0": lambda: nn.LSTM(3, 4, 0),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_in_arguments_name_the_layer_and_the_argument(message: str):
    with pytest.raises(LayerArgumentError, match=message):
        MISTAKES[message]()


def test_an_index_out_of_bounds_gives_zeros_or_is_an_error_of_a_plan_that_checks():
    layer, indices = nn.Embedding(3, 2), Tensor([[0, 1], [3, -1]])
    assert layer(indices).numpy()[1, 0].tolist() == [0, 0]
    with pytest.raises(
        IndexTensorError,
        match=(
            r"^embedding: element \(1, 0\) of the indices is 3, out of bounds for axis 0 with size 3"
        ),
    ):
        layer(indices).realize_with(PrepareConfig(check_operands=True))
    labels = nn.cross_entropy(Tensor.zeros(2, 3), Tensor([0, 3]), reduction="none")
    with pytest.raises(IndexTensorError, match=r"element \(1, 0\) of the indices is 3"):
        labels.realize_with(PrepareConfig(check_operands=True))
