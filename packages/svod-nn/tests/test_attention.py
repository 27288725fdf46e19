from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor, Variable, grad, jit


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((2, 6, 8)).astype(np.float32)


def attend(
    layer: nn.MultiheadAttention,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    added: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The formula, head by head: the result, and the weights of shape (batch, heads, positions,
    positions of keys).
    """
    size, n_groups = layer.head_size, layer.num_heads // layer.num_kv_heads
    sizes = np.cumsum([layer.embed_dim, layer.num_kv_heads * size])
    if layer.in_proj_weight is None:
        products = [
            p.numpy() for p in (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        ]
    else:
        products = np.split(layer.in_proj_weight.numpy(), sizes)
    biases = (
        [0.0] * 3 if layer.in_proj_bias is None else np.split(layer.in_proj_bias.numpy(), sizes)
    )
    made = [x @ w.T + b for x, w, b in zip((query, key, value), products, biases, strict=True)]
    heads, every = [], []
    for h in range(layer.num_heads):
        places = [h * size, h // n_groups * size, h // n_groups * size]
        q, k, v = (x[..., first : first + size] for x, first in zip(made, places, strict=True))
        scores = q @ k.swapaxes(1, 2) / np.sqrt(size) + (
            added if np.ndim(added) < 4 else added[:, h]
        )
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        every.append(weights / weights.sum(-1, keepdims=True))
        heads.append(every[-1] @ v)
    result = np.concatenate(heads, -1) @ layer.out_proj.weight.numpy().T
    return result + (0.0 if layer.out_proj.bias is None else layer.out_proj.bias.numpy()), np.stack(
        every, 1
    )


def block(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, -np.inf, 0.0)


@pytest.mark.parametrize(("kv_heads", "is_causal"), [(4, True), (2, False), (2, True), (1, False)])
def test_heads_of_queries_share_keys_and_look_back(x, kv_heads, is_causal):
    layer = nn.MultiheadAttention(8, 4, batch_first=True, num_kv_heads=kv_heads)
    layer.in_proj_bias.assign(Tensor(np.linspace(-1, 1, 8 + 4 * kv_heads, dtype=np.float32)))
    given = Tensor(x)
    found = layer(given, given, given, is_causal=is_causal)[0].numpy()
    added = block(np.triu(np.ones((6, 6), bool), 1)) if is_causal else 0.0
    np.testing.assert_allclose(found, attend(layer, x, x, x, added)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kinds", "bias"),
    [
        ("", True),
        ("", False),
        ("bool", False),
        ("float", True),
        ("heads", False),
        ("padding", True),
        ("bool padding", True),
        ("float padding", False),
        ("heads padding causal", True),
    ],
)
def test_masks_are_bools_or_floats_added_to_the_scores(x, kinds, bias):
    rng = np.random.default_rng(0)
    layer = nn.MultiheadAttention(8, 2, bias=bias, batch_first=True)
    masks = {
        "bool": rng.random((6, 6)) < 0.4,
        "float": rng.standard_normal((6, 6)),
        "heads": rng.standard_normal((4, 6, 6)),
    }
    masks["bool"][:, 0] = False
    padding = np.zeros((2, 6), bool)
    padding[1, 3:] = True
    added, call = np.zeros((2, 2, 6, 6)), {}
    for kind in kinds.split():
        if kind == "padding":
            call["key_padding_mask"] = Tensor(padding)
            added = added + block(padding)[:, None, None]
        elif kind == "causal":
            call["is_causal"] = True
            added = added + block(np.triu(np.ones((6, 6), bool), 1))
        else:
            mask = masks[kind] if kind == "bool" else masks[kind].astype(np.float32)
            call["attn_mask"] = Tensor(mask)
            added = added + (
                block(mask)
                if kind == "bool"
                else mask.reshape(2, 2, 6, 6)
                if kind == "heads"
                else mask
            )
    given = Tensor(x)
    found, weights = layer(given, given, given, average_attn_weights=False, **call)
    wanted, wanted_weights = attend(layer, x, x, x, added)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights.numpy(), wanted_weights, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sizes", [{}, {"kdim": 5}, {"kdim": 5, "vdim": 3}])
def test_keys_and_values_may_be_of_other_positions_and_sizes(x, sizes):
    rng = np.random.default_rng(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True, **sizes)
    key = rng.standard_normal((2, 4, sizes.get("kdim", 8))).astype(np.float32)
    value = rng.standard_normal((2, 4, sizes.get("vdim", 8))).astype(np.float32)
    for given in ((x, key, value), (x, x, x + 1)) if not sizes else ((x, key, value),):
        found, weights = layer(*map(Tensor, given))
        wanted, wanted_weights = attend(layer, *given)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(weights.numpy(), wanted_weights.mean(1), rtol=1e-4, atol=1e-6)


def test_biases_begin_as_zeros_or_are_not_there():
    assert not nn.MultiheadAttention(8, 2).in_proj_bias.numpy().any()
    assert not nn.MultiheadAttention(8, 2).out_proj.bias.numpy().any()
    assert list(nn.MultiheadAttention(8, 2, bias=False).state_dict()) == [
        "in_proj_weight",
        "out_proj.weight",
    ]


def test_positions_come_first_unless_the_batch_does(x):
    first = nn.MultiheadAttention(8, 2, batch_first=True)
    second = nn.MultiheadAttention(8, 2).load_state_dict(first.state_dict())
    a, b = Tensor(x), Tensor(x.swapaxes(0, 1).copy())
    np.testing.assert_allclose(
        first(a, a, a)[0].numpy(), second(b, b, b)[0].numpy().swapaxes(0, 1), rtol=1e-4, atol=1e-6
    )
    single = Tensor(x[0])
    np.testing.assert_allclose(
        first(single, single, single)[0].numpy(), first(a, a, a)[0].numpy()[0], rtol=1e-4, atol=1e-6
    )


def test_a_fully_masked_query_gets_only_the_bias(x):
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    layer.out_proj.bias.assign(Tensor.full((8,), 0.5))
    given = Tensor(x)
    found = layer(given, given, given, key_padding_mask=Tensor.ones(2, 6, dtype="bool"))[0]
    assert (found.numpy() == 0.5).all()


def test_scores_of_rotated_vectors_depend_on_how_far_apart_they_are():
    rng = np.random.default_rng(0)
    q, k = (
        Tensor(np.broadcast_to(rng.standard_normal(8), (9, 8)).astype(np.float32)) for _ in range(2)
    )
    scores = (nn.rotary_embedding(q, 3) @ nn.rotary_embedding(k, 5).T).numpy()
    for distance in range(-5, 6):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-3, atol=1e-4)
    assert np.ptp(scores) > 0.1


def test_rotations_have_the_angles_of_the_formula():
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    angles = (np.arange(3) + 2)[:, None] * 100.0 ** (-np.arange(2) / 2)
    turned = (x[:, :2] + 1j * x[:, 2:]) * np.exp(1j * angles)
    found = nn.rotary_embedding(Tensor(x), 2, base=100.0).numpy()
    np.testing.assert_allclose(
        found, np.concatenate([turned.real, turned.imag], -1), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("is_captured", [False, True])
def test_decoding_with_a_cache_equals_decoding_at_once(x, is_captured):
    layer = nn.MultiheadAttention(8, 4, batch_first=True, num_kv_heads=2, rotary_base=100.0)
    given = Tensor(x)
    wanted = layer(given, given, given, is_causal=True)[0].numpy()
    cache, at = nn.KeyValueCache(2, 2, 16, 2), Variable("at", 0, 15)

    def read(token: Tensor, position: object) -> Tensor:
        return layer(token, token, token, is_causal=True, cache=cache, position=position)[0]

    step = jit(read) if is_captured else read
    found = [read(Tensor(x[:, :3]), 0).numpy().copy()]
    found += [step(Tensor(x[:, k : k + 1]), at.bind(k)).numpy().copy() for k in range(3, 6)]
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, rtol=1e-4, atol=1e-5)
    if is_captured:
        assert len(step.plans()) == 1


def test_layers_of_a_stack_begin_equal_and_are_trained_apart():
    layer = nn.TransformerEncoderLayer(8, 2, 16, generator=Generator(1))
    model = nn.TransformerEncoder(layer, 2)
    first, second = (part.linear1.weight for part in model.layers)
    assert (first == second).all()
    first.assign(first + 1)
    assert (first != second).any()
    assert (
        model.layers[0].dropout.generator
        is model.layers[1].dropout.generator
        is layer.dropout.generator
    )


def test_a_stack_reads_with_a_cache_for_each_layer(x):
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), 2
    ).eval()
    caches = [nn.KeyValueCache(2, 2, 6, 4) for _ in range(2)]
    found = [
        model(Tensor(x[:, k : k + 2]), is_causal=True, caches=caches, position=k).numpy()
        for k in (0, 2, 4)
    ]
    wanted = model(Tensor(x), is_causal=True).numpy()
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, rtol=1e-4, atol=1e-5)


def test_dropout_of_weights_is_seen_in_the_weights(x):
    layer, given = (
        nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True, generator=Generator(0)),
        Tensor(x),
    )
    assert (layer(given, given, given, average_attn_weights=False)[1].numpy() == 0).any()
    assert (layer.eval()(given, given, given, average_attn_weights=False)[1].numpy() > 0).all()


PARTS = {"Encoder": ["self_attn"], "Decoder": ["self_attn", "multihead_attn"]}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", PARTS)
def test_a_layer_adds_each_block_to_its_input(x, kind, norm_first):
    layer = getattr(nn, f"Transformer{kind}Layer")(
        8, 2, 16, batch_first=True, norm_first=norm_first
    ).eval()
    memory = x[:, :4] + 1
    found = layer(*map(Tensor, [x] if kind == "Encoder" else [x, memory])).numpy()

    def normalize(y: np.ndarray) -> np.ndarray:
        return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)

    def feed(y: np.ndarray) -> np.ndarray:
        hidden = np.maximum(y @ layer.linear1.weight.numpy().T + layer.linear1.bias.numpy(), 0)
        return hidden @ layer.linear2.weight.numpy().T + layer.linear2.bias.numpy()

    blocks = [
        lambda y: attend(layer.self_attn, y, y, y)[0],
        lambda y: attend(layer.multihead_attn, y, memory, memory)[0],
    ]
    wanted = x
    for run in (*blocks[: len(PARTS[kind])], feed):
        wanted = wanted + run(normalize(wanted)) if norm_first else normalize(wanted + run(wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", PARTS)
def test_stacks_have_the_names_of_pytorch(kind):
    layer = getattr(nn, f"Transformer{kind}Layer")(8, 2, 16)
    model = getattr(nn, f"Transformer{kind}")(layer, 2, nn.LayerNorm(8))
    tensors = {
        p: ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
        for p in PARTS[kind]
    }
    names = ["linear1", "linear2", *(f"norm{k + 1}" for k in range(len(PARTS[kind]) + 1))]
    tensors |= {name: ["weight", "bias"] for name in names}
    every = {
        f"layers.{k}.{part}.{name}"
        for k in range(2)
        for part, found in tensors.items()
        for name in found
    }
    assert set(model.state_dict()) == every | {"norm.weight", "norm.bias"}
    assert all(tensor.is_realized for tensor in model.parameters())


def test_a_stack_of_decoders_normalizes_the_result_of_its_last_layer(x):
    layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    bare, normed = (
        nn.TransformerDecoder(layer, 2, norm).eval() for norm in (None, nn.LayerNorm(8))
    )
    given, memory = Tensor(x), Tensor(x[:, :3] + 1)
    one, other = layer.eval(), bare.layers[1]
    wanted = other(one(given, memory), memory)
    np.testing.assert_allclose(bare(given, memory).numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        normed(given, memory).numpy(), wanted.layernorm().numpy(), rtol=1e-4, atol=1e-4
    )


def test_caches_of_one_size_share_a_plan_and_are_not_kept():
    layer, at = nn.MultiheadAttention(8, 4, batch_first=True), Variable("at", 0, 3)

    @jit
    def read(token: Tensor, cache: nn.KeyValueCache, position: object) -> Tensor:
        return layer(token, token, token, is_causal=True, cache=cache, position=position)[0]

    token, gone = Tensor.ones(1, 1, 8), []
    for number in range(4):
        cache = nn.KeyValueCache(1, 4, 4, 2)
        read(token, cache, at.bind(number))
        assert (cache.keys[0, 0, number] != 0).any().item(), (
            "each call writes to the cache that it got"
        )
        gone.append(weakref.ref(cache))
        del cache
    gc.collect()
    assert read.n_captures == 1
    assert not any(ref() for ref in gone)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_weights_of_a_fully_masked_query_are_zeros(kind):
    layer = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
    blind = np.array([[False, True], [True, True]])
    mask = (
        Tensor(blind) if kind == "bool" else Tensor(np.where(blind, -np.inf, 0.0).astype("float32"))
    )
    x = Tensor(np.random.default_rng(0).standard_normal((1, 2, 4)).astype("float32"))
    _, weights = layer(x, x, x, attn_mask=mask, average_attn_weights=False)
    assert weights.numpy()[:, :, 1].tolist() == [[[0.0, 0.0]] * 2]
    assert np.isfinite(grad(lambda x: layer(x, x, x, attn_mask=mask)[0].sum())(x).numpy()).all()


def test_rotary_embedding_and_caches_of_something_else_than_a_tensor_say_so():
    with pytest.raises(LayerArgumentError, match=r"^rotary_embedding: expected a tensor as x, got"):
        nn.rotary_embedding(3)
    cache = nn.KeyValueCache(1, 1, room=4, head_size=4)
    with pytest.raises(LayerArgumentError, match=r"extend: expected a tensor as values, got list"):
        cache.extend(Tensor.ones(1, 1, 1, 4), [1.0], 0)
