"""Optimizers beside their formulas in numpy, and what holds for all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import (
    GradientNameError,
    LayerArgumentError,
    MissingGradientError,
    ParameterNameError,
    ParametersChangedError,
    StateDictError,
)
from svod_tensor import Tensor, bfloat16, jit, load_safetensors, save_safetensors

SHAPES = {"w": (4, 3), "b": (3,), "k": (2, 3, 2), "s": ()}
N_STEPS = 20


def sgd(p, g, s, t, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    g = g + weight_decay * p
    if momentum:
        s["m"] = g if t == 1 else momentum * s["m"] + (1 - dampening) * g
        g = g + momentum * s["m"] if nesterov else s["m"]
    return p - lr * g


def adam(
    p,
    g,
    s,
    t,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    decoupled_weight_decay=False,
):
    if decoupled_weight_decay:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = v = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    if amsgrad:
        s["x"] = v = np.maximum(s.get("x", 0), v)
    return p - lr * (s["m"] / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw(p, g, s, t, weight_decay=1e-2, **options):
    return adam(p, g, s, t, weight_decay=weight_decay, decoupled_weight_decay=True, **options)


def nadam(
    p,
    g,
    s,
    t,
    lr=2e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    momentum_decay=4e-3,
    decoupled_weight_decay=False,
):
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    mu, ahead = (betas[0] * (1 - 0.5 * 0.96 ** (n * momentum_decay)) for n in (t, t + 1))
    s["u"] = s.get("u", 1) * mu
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    m = ahead * s["m"] / (1 - s["u"] * ahead) + (1 - mu) * g / (1 - s["u"])
    return p - lr * m / (np.sqrt(s["v"] / (1 - betas[1] ** t)) + eps)


def radam(
    p,
    g,
    s,
    t,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    decoupled_weight_decay=False,
):
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    longest = 2 / (1 - betas[1]) - 1
    length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
    m = s["m"] / (1 - betas[0] ** t)
    if length <= 5:
        return p - lr * m
    rect = math.sqrt(
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    )
    return p - lr * m * rect * math.sqrt(1 - betas[1] ** t) / (np.sqrt(s["v"]) + eps)


def rmsprop(
    p, g, s, t, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False
):
    g = g + weight_decay * p
    s["v"] = v = alpha * s.get("v", 0) + (1 - alpha) * g * g
    if centered:
        s["a"] = alpha * s.get("a", 0) + (1 - alpha) * g
        v = v - s["a"] ** 2
    s["m"] = momentum * s.get("m", 0) + g / (np.sqrt(v) + eps)
    return p - lr * s["m"]


def adagrad(
    p, g, s, t, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10
):
    g = g + weight_decay * p
    s["v"] = s.get("v", initial_accumulator_value) + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["v"]) + eps)


def rms(x):
    return math.sqrt(np.mean(x * x))


def adafactor(p, g, s, t, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0):
    least = np.finfo(p.dtype).eps if eps[0] is None else eps[0]
    share = t**beta2_decay
    alpha = max(eps[1], rms(p)) * min(lr, 1 / math.sqrt(t))
    p = p * (1 - lr * weight_decay)
    if g.ndim < 2:
        s["v"] = v = (1 - share) * s.get("v", 0) + share * g * g
    else:
        s["r"] = (1 - share) * s.get("r", 0) + share * (g * g).mean(-1, keepdims=True)
        s["c"] = (1 - share) * s.get("c", 0) + share * (g * g).mean(-2, keepdims=True)
        v = s["r"] * s["c"] / np.maximum(s["r"].mean(-2, keepdims=True), least)
    u = g / np.sqrt(np.maximum(v, least**2))
    return p - alpha * u / max(1, rms(u) / d)


def lamb(p, g, s, t, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    r = (
        s["m"] / (1 - betas[0] ** t) / (np.sqrt(s["v"] / (1 - betas[1] ** t)) + eps)
        + weight_decay * p
    )
    size, length = np.linalg.norm(p), np.linalg.norm(r)
    return p - lr * (size / length if size > 0 and length > 0 else 1) * r


def lion(p, g, s, t, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
    m = s.get("m", 0)
    s["m"] = betas[1] * m + (1 - betas[1]) * g
    return p - lr * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)


def muon(
    p, g, s, t, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn="original"
):
    if p.ndim != 2:
        return adamw(p, g, s, t, lr=lr)
    s["m"] = momentum * s.get("m", 0) + (1 - momentum) * g
    x = (1 - momentum) * g + momentum * s["m"] if nesterov else s["m"]
    u, sigma, v = np.linalg.svd(x / max(np.linalg.norm(x), 1e-7), full_matrices=False)
    for _ in range(5):
        sigma = 3.4445 * sigma - 4.7750 * sigma**3 + 2.0315 * sigma**5
    rows, columns = p.shape
    ratio = {
        "original": math.sqrt(max(1, rows / columns)),
        "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns)),
        "spectral_unclamped": math.sqrt(rows / columns),
    }[adjust_lr_fn]
    return p * (1 - lr * weight_decay) - lr * ratio * (u * sigma) @ v


CASES = [
    (nn.SGD, sgd, {}),
    (nn.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (nn.SGD, sgd, {"momentum": 0.9, "dampening": 0.3}),
    (nn.SGD, sgd, {"momentum": 0.9, "nesterov": True}),
    (nn.Adam, adam, {}),
    (nn.Adam, adam, {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    (nn.Adam, adam, {"amsgrad": True, "betas": (0.9, 0.5)}),
    (nn.Adam, adam, {"betas": (0.0, 0.9), "decoupled_weight_decay": True, "weight_decay": 0.2}),
    (nn.AdamW, adamw, {}),
    (nn.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True, "betas": (0.9, 0.5)}),
    (nn.NAdam, nadam, {}),
    (nn.NAdam, nadam, {"weight_decay": 0.1, "momentum_decay": 0.1}),
    (nn.NAdam, nadam, {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.5, 0.9)}),
    (nn.RAdam, radam, {}),
    (nn.RAdam, radam, {"weight_decay": 0.1, "betas": (0.8, 0.9)}),
    (nn.RAdam, radam, {"weight_decay": 0.1, "decoupled_weight_decay": True, "eps": 0.01}),
    (nn.RMSprop, rmsprop, {}),
    (nn.RMSprop, rmsprop, {"weight_decay": 0.1, "momentum": 0.5, "alpha": 0.9}),
    (nn.RMSprop, rmsprop, {"centered": True, "eps": 1e-3}),
    (nn.RMSprop, rmsprop, {"centered": True, "eps": 1e-3, "momentum": 0.5}),
    (nn.Adagrad, adagrad, {}),
    (nn.Adagrad, adagrad, {"weight_decay": 0.1, "lr_decay": 0.3, "initial_accumulator_value": 0.5}),
    (nn.Adafactor, adafactor, {}),
    (
        nn.Adafactor,
        adafactor,
        {"lr": 0.5, "weight_decay": 0.1, "eps": (1e-4, 1e-2), "beta2_decay": -0.5, "d": 1.5},
    ),
    (nn.LAMB, lamb, {}),
    (nn.LAMB, lamb, {"lr": 0.1, "weight_decay": 0.1, "betas": (0.5, 0.9)}),
    (nn.Lion, lion, {}),
    (nn.Lion, lion, {"lr": 0.01, "weight_decay": 0.1, "betas": (0.5, 0.8)}),
    (nn.Muon, muon, {}),
    (nn.Muon, muon, {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
    (nn.Muon, muon, {"weight_decay": 0.0, "momentum": 0.5, "adjust_lr_fn": "spectral_unclamped"}),
]
IDS = [f"{case[0].__name__}({', '.join(f'{k}={v}' for k, v in case[2].items())})" for case in CASES]
ALL = list(dict.fromkeys(case[0] for case in CASES))


def draw(seed, dtype=np.float64, names=tuple(SHAPES)):
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(SHAPES[name]), dtype) for name in names}


def as_tensors(arrays):
    return {name: Tensor(array.copy()).realize() for name, array in arrays.items()}


@pytest.mark.parametrize(("optimizer", "formula", "options"), CASES, ids=IDS)
def test_twenty_steps_are_those_of_the_formula(optimizer, formula, options):
    # Each shape is compiled: those of other options than the usual ones are a matrix and a number.
    names = ("w", "s") if options else tuple(SHAPES)
    arrays = draw(0, names=names)
    tensors, kept = as_tensors(arrays), {name: {} for name in arrays}
    made = optimizer(tensors, **options)

    @jit
    def step(gradients):
        made.update(gradients)

    for t in range(1, N_STEPS + 1):
        drawn = draw(t, names=names)
        # Half of each gradient is that of the square, so that parameters and steps depend on each
        # other.
        gradients = {name: np.asarray((drawn[name] + arrays[name]) / 2) for name in arrays}
        step({name: Tensor(g) for name, g in gradients.items()})
        arrays = {
            name: formula(p, gradients[name], kept[name], t, **options)
            for name, p in arrays.items()
        }
    for name, tensor in tensors.items():
        np.testing.assert_allclose(
            tensor.numpy(), arrays[name], rtol=1e-8, atol=1e-11, err_msg=name
        )
    (plan,) = step.plans()
    assert plan is not None


@pytest.mark.parametrize("is_captured", [False, True])
def test_lamb_moves_parameters_of_zeros_and_leaves_those_without_a_direction(is_captured):
    arrays = {"zeros": np.zeros((2, 3)), "still": np.ones((2, 3)), "both": np.zeros(2)}
    tensors = as_tensors(arrays)
    made = nn.LAMB(tensors, lr=0.1)
    step = jit(made.update) if is_captured else made.update
    gradients = {"zeros": np.full((2, 3), 0.5), "still": np.zeros((2, 3)), "both": np.zeros(2)}
    kept = {name: {} for name in arrays}
    for t in (1, 2):
        step(as_tensors(gradients))
        arrays = {
            name: lamb(p, gradients[name], kept[name], t, lr=0.1) for name, p in arrays.items()
        }
        for name, tensor in tensors.items():
            np.testing.assert_allclose(
                tensor.numpy(), arrays[name], rtol=1e-8, atol=1e-11, err_msg=name
            )
    assert arrays["zeros"].max() < 0


def run(optimizer, n_steps=3, start=0):
    for seed in range(start, start + n_steps):
        optimizer.update(as_tensors(draw(seed, np.float32, names=("w", "b"))))


@pytest.mark.parametrize("optimizer", ALL)
def test_a_saved_run_goes_on_to_the_same_bits(optimizer, tmp_path):
    tensors, others = (as_tensors(draw(0, np.float32, names=("w", "b"))) for _ in range(2))
    whole, part = optimizer(tensors), optimizer(others)
    run(whole, 6)
    run(part, 3)
    save_safetensors(
        {**part.state_dict(), **{f"p.{n}": t for n, t in others.items()}},
        tmp_path / "run.safetensors",
    )
    saved = load_safetensors(tmp_path / "run.safetensors")
    loaded = {name: saved[f"p.{name}"].to("CPU").clone().realize() for name in tensors}
    resumed = optimizer(loaded)
    resumed.load_state_dict(
        {name: tensor for name, tensor in saved.items() if not name.startswith("p.")}
    )
    run(resumed, 3, start=3)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(loaded[name].numpy(), tensor.numpy())
    for name, tensor in whole.state_dict().items():
        np.testing.assert_array_equal(resumed.state_dict()[name].numpy(), tensor.numpy())
    assert int(resumed.state["step"].item()) == 6


@pytest.mark.parametrize("optimizer", ALL)
def test_values_are_changed_as_tensors_are_in_place_and_may_be_given_away(optimizer):
    tensors = as_tensors(draw(0, np.float32))
    nested = {
        "layers": [tensors["w"].clone(), (tensors["b"].clone(), tensors["k"].clone())],
        "s": tensors["s"].clone(),
    }
    made = optimizer(tensors)
    state = optimizer().init(nested)
    step = jit(
        lambda parameters, state, gradients: made.apply(parameters, state, gradients),
        donate=("parameters", "state"),
    )
    for seed in range(3):
        gradients = as_tensors(draw(seed, np.float32))
        made.update(gradients)
        of_nested = {
            "layers": [gradients["w"], (gradients["b"], gradients["k"])],
            "s": gradients["s"],
        }
        nested, state = step(nested, state, of_nested)
    (w, (b, k)), s = nested["layers"], nested["s"]
    for name, tensor in zip(("w", "b", "k", "s"), (w, b, k, s), strict=True):
        np.testing.assert_allclose(tensor.numpy(), tensors[name].numpy(), rtol=1e-6)
    assert int(state["step"].item()) == 3


def test_the_numbers_of_a_step_and_each_parameter_are_one_kernel():
    tensors = as_tensors({f"w{n}": np.ones((8, 3), np.float32) for n in range(20)})
    made = nn.AdamW(tensors, lr=nn.schedules.cosine(1e-3, 100))

    @jit
    def step(gradients):
        made.update(gradients)
        return made.state["step"]

    for _ in range(3):
        step(tensors)
    (plan,) = step.plans()
    assert len(plan.kernels()) == 21
    assert len({k.kernel for k in plan.kernels()}) == 2


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (nn.AdamW, {}),
        (nn.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
        (nn.Lion, {}),
        (nn.RMSprop, {}),
        (nn.NAdam, {}),
        (nn.Adagrad, {}),
    ],
)
def test_after_a_backward_pass_too_each_parameter_is_one_kernel_more(optimizer, options):
    model = nn.Linear(8, 4)
    made = optimizer(model, **options)

    def loss(model, x):
        return model(x).square().mean()

    def update(x, ok):
        value, gradients = nn.value_and_grad(model, loss)(x)
        made.update(gradients, when=ok)
        return value

    backward, step = jit(lambda x: nn.value_and_grad(model, loss)(x)), jit(update)
    x = Tensor(np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)).realize()
    losses = [step(x, Tensor(True)).item() for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert backward(x)[0].item() < losses[-1]
    # One for each parameter, and one for the number of the step and what follows from it.
    assert len(step.plans()[0].kernels()) == len(backward.plans()[0].kernels()) + 2 + 1


def test_a_schedule_gives_each_step_its_rate_in_one_plan():
    w = {"w": Tensor(np.zeros(1)).realize()}
    made = nn.SGD(w, lr=nn.schedules.linear(1.0, 0.0, 4))
    step = jit(lambda g: made.update(g))
    seen = []
    for _ in range(5):
        step({"w": Tensor(np.ones(1))})
        seen.append(w["w"].item())
    assert seen == [-1.0, -1.75, -2.25, -2.5, -2.5]
    assert step.n_captures == 1


def test_a_rate_that_is_a_tensor_is_read_at_each_step():
    w, rate = {"w": Tensor(np.zeros(1)).realize()}, Tensor(np.float32(1.0)).realize()
    made = nn.SGD(w, lr=rate)
    step = jit(lambda g: made.update(g))
    for value in (1.0, 0.5):
        rate.assign(value).realize()
        step({"w": Tensor(np.ones(1))})
    assert w["w"].item() == -1.5
    assert step.n_captures == 1


def test_groups_have_options_of_their_own_and_the_first_that_fits_counts():
    arrays = draw(0)
    tensors = as_tensors(arrays)
    made = nn.SGD(
        tensors,
        lr=1.0,
        groups=[
            {"params": "w", "lr": 0.5},
            {"params": lambda name, tensor: tensor.ndim == 0 or name == "w", "lr": 0.0},
            {"params": [tensors["k"]], "momentum": 0.5},
        ],
    )
    assert [g.names for g in made.groups] == [("w",), ("s",), ("k",), ("b",)]
    for _ in range(2):
        made.update({name: Tensor(np.ones(shape)) for name, shape in SHAPES.items()})
    for name, change in (("w", 1.0), ("s", 0.0), ("k", 2.5), ("b", 2.0)):
        np.testing.assert_allclose(tensors[name].numpy(), arrays[name] - change)


def test_groups_choose_modules_and_single_tensors():
    model = nn.Linear(3, 2)
    made = nn.SGD(model, groups=[{"params": model.bias, "lr": 0.5}])
    assert [g.names for g in made.groups] == [("bias",), ("weight",)]
    made = nn.SGD(model, groups=[{"params": model, "lr": 0.5}])
    assert [g.names for g in made.groups] == [("weight", "bias"), ()]


def test_groups_of_unknown_parameters_are_errors():
    tensors = as_tensors(draw(0))
    with pytest.raises(ParameterNameError, match="no parameter matches 'head'"):
        nn.SGD(tensors, groups=[{"params": "head"}])
    with pytest.raises(
        LayerArgumentError, match="SGD: a group with the options 'lr' has no 'params'"
    ):
        nn.SGD(tensors, groups=[{"lr": 1.0}])
    with pytest.raises(LayerArgumentError, match="SGD: unknown option 'beta'"):
        nn.SGD(tensors, groups=[{"params": "w", "beta": 1.0}])


def test_a_parameter_without_a_gradient_is_an_error_that_names_it():
    arrays = draw(0)
    tensors = as_tensors(arrays)
    made, gradients = nn.Adam(tensors), {"b": Tensor(np.ones(3))}
    with pytest.raises(
        MissingGradientError, match=r"^Adam has no gradients for the parameters w, k, s\n"
    ) as caught:
        made.update(gradients)
    assert caught.value.names == ("w", "k", "s")
    with pytest.raises(MissingGradientError, match=r"^Adam has no gradients for"):
        made.apply(tensors, made.state, gradients)
    with pytest.raises(MissingGradientError, match=r"^GradientMean has no gradients for"):
        nn.GradientMean(tensors).add(gradients)
    with pytest.raises(
        GradientNameError, match=r"^GradientMean has no parameter for the gradients of x\n"
    ):
        nn.GradientMean(tensors).add({"x": Tensor(1.0)})
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])
    assert made.state["step"].item() == 0


def test_integers_need_no_gradient():
    tree = {"w": Tensor([1.0]), "n": Tensor([3])}
    made = nn.SGD(lr=1.0)
    after, _ = made.apply(tree, made.init({"w": tree["w"]}), {"w": Tensor([1.0])})
    assert after["w"].tolist() == [0] and after["n"].tolist() == [3]


def make_head():
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def take_gradients(model):
    x = Tensor.ones(5, 3, device=next(model.parameters()).device)
    return nn.value_and_grad(model, lambda model, x: model(x).square().sum())(x)[1]


CHANGES = {
    "cast": (
        lambda model: model.cast("float32"),
        "replaced",
        ("0.weight", "0.bias", "1.weight", "1.bias"),
    ),
    "to": (
        lambda model: model.to("CPU:1"),
        "replaced",
        ("0.weight", "0.bias", "1.weight", "1.bias"),
    ),
    "unfreeze": (lambda model: model.unfreeze(), "added", ("0.weight", "0.bias")),
    "replaced": (
        lambda model: setattr(model, "1", nn.Linear(4, 2)),
        "replaced",
        ("1.weight", "1.bias"),
    ),
    "added": (lambda model: setattr(model, "scale", Tensor.ones(1)), "added", ("scale",)),
    "removed": (lambda model: setattr(model[1], "bias", None), "removed", ("1.bias",)),
}


@pytest.mark.parametrize("make", [nn.AdamW, nn.MovingAverage], ids=["AdamW", "MovingAverage"])
@pytest.mark.parametrize("name", CHANGES)
def test_parameters_that_changed_since_are_an_error_that_names_them(make, name):
    change, attribute, names = CHANGES[name]
    model = make_head()
    if name == "unfreeze":
        model.freeze("0")
    made = make(model)
    change(model)
    with pytest.raises(
        ParametersChangedError, match=rf"create a new one: {make.__name__}\(model"
    ) as caught:
        made.update(*([take_gradients(model)] if make is nn.AdamW else []))
    assert getattr(caught.value, attribute) == names
    assert len(caught.value.replaced + caught.value.added + caught.value.removed) == len(names)
    again = make(model)
    again.update(*([take_gradients(model)] if make is nn.AdamW else []))
    if make is nn.MovingAverage:
        with pytest.raises(ParametersChangedError), made.swapped():
            pass


def test_a_captured_step_too_raises_where_parameters_are_no_longer_frozen():
    model = make_head().freeze("0")
    made = nn.SGD(model)
    step = jit(lambda: made.update(take_gradients(model)))
    step()
    model.unfreeze()
    with pytest.raises(ParametersChangedError):
        step()


def test_parameters_that_are_frozen_afterwards_stay_as_they_are():
    model = make_head()
    made, everything = nn.AdamW(model, weight_decay=0.5), take_gradients(model)
    model.freeze("0")
    before = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    with pytest.raises(GradientNameError, match=r"for the gradients of 0\.weight, 0\.bias"):
        made.update(everything)
    made.update(take_gradients(model))
    for name, tensor in model.state_dict().items():
        assert (tensor.numpy() == before[name]).all() == name.startswith("0.")
    model.unfreeze()
    made.update(take_gradients(model))
    assert (model[0].weight.numpy() != before["0.weight"]).any()


def test_gradients_of_other_parameters_are_errors():
    made = nn.SGD(nn.Linear(3, 2).parameters())
    with pytest.raises(
        GradientNameError, match="SGD has no parameter for the gradients of weight"
    ) as caught:
        made.update({"weight": Tensor(np.ones((2, 3)))})
    assert caught.value.names == ("weight",)
    with pytest.raises(
        LayerArgumentError, match=r"SGD: gradient of 1: expected shape \(2,\), got \(3,\)"
    ):
        made.update([Tensor(np.ones((2, 3))), Tensor(np.ones(3))])


def test_a_step_that_is_not_to_be_done_leaves_everything():
    arrays = draw(0)
    tensors = as_tensors(arrays)
    made = nn.NAdam(tensors)

    @jit
    def step(gradients, ok):
        made.update(gradients, when=ok)

    gradients = as_tensors(draw(1))
    step({**gradients, "b": Tensor(np.full(3, np.nan))}, Tensor(False))
    before = {name: tensor.numpy().copy() for name, tensor in made.state_dict().items()}
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])
    assert before["step"] == 0 and before["shared.0.mu_product"] == 1
    step(gradients, Tensor(True))
    other = as_tensors(arrays)
    nn.NAdam(other).update(gradients)
    for name, tensor in tensors.items():
        np.testing.assert_allclose(tensor.numpy(), other[name].numpy(), rtol=1e-12)


def test_parameters_of_16_bits_are_changed_in_float32_and_rounded_once():
    start = np.full(5, 1.0, np.float32)
    w = {"w": Tensor(start).cast(bfloat16).realize()}
    made = nn.AdamW(w, lr=0.01)
    assert {name: str(t.dtype) for name, t in made.state_dict().items()}[
        "slots.w.exp_avg"
    ] == "float32"
    kept, expected = {}, start
    for t in range(1, 4):
        g = np.asarray([0.5, -0.25, 1.0, 2.0, -4.0], np.float32)
        made.update({"w": Tensor(g).cast(bfloat16)})
        wide = adamw(expected, g, kept, t, lr=0.01)
        expected = Tensor(np.asarray(wide, np.float32)).cast(bfloat16).cast("float32").numpy()
    np.testing.assert_array_equal(w["w"].cast("float32").numpy(), expected)


def test_maximize_negates_the_gradients():
    one, other = as_tensors(draw(0)), as_tensors(draw(0))
    up, down = nn.Adam(one, maximize=True), nn.Adam(other)
    gradients = as_tensors(draw(1))
    up.update(gradients)
    down.update({name: -g for name, g in gradients.items()})
    for name, tensor in one.items():
        np.testing.assert_array_equal(tensor.numpy(), other[name].numpy())


@pytest.mark.parametrize(
    ("optimizer", "options", "message"),
    [
        (nn.SGD, {"lr": -1.0}, "SGD: lr=-1.0 is not at least 0"),
        (nn.SGD, {"nesterov": True}, "SGD: nesterov requires momentum > 0"),
        (
            nn.Adam,
            {"betas": (0.9, 1.0)},
            "Adam: betas=.* is not two numbers in \\[0, 1\\)",
        ),
        (nn.Adam, {"eps": -1e-8}, "Adam: eps=-1e-08 is not at least 0"),
        (nn.Adafactor, {"beta2_decay": 0.8}, "Adafactor: beta2_decay=0.8 is not at most 0"),
        (nn.Muon, {"adjust_lr_fn": "mine"}, "Muon: adjust_lr_fn='mine' is not one of"),
    ],
)
def test_invalid_options_are_errors(optimizer, options, message):
    with pytest.raises(LayerArgumentError, match=message):
        optimizer(**options)


def test_a_state_of_something_else_is_not_loaded():
    made = nn.Adam(as_tensors(draw(0)))
    state = made.state_dict()
    with pytest.raises(StateDictError, match="error loading the state of Adam"):
        made.load_state_dict({**state, "slots.w.exp_avg": Tensor(np.zeros(3))})
    with pytest.raises(StateDictError, match="error loading the state of Adam"):
        made.load_state_dict({name: t for name, t in state.items() if name != "step"})


def test_gradients_of_small_batches_are_one_of_a_large_one():
    tensors, others = as_tensors(draw(0)), as_tensors(draw(0))
    mean, made, plain = nn.GradientMean(tensors), nn.Adam(tensors), nn.Adam(others)
    add, step = jit(lambda g: mean.add(g)), jit(lambda: made.update(mean.take()))
    for first in (0, 4):
        drawn = [draw(seed) for seed in range(first, first + 4)]
        for gradients in drawn:
            add({name: Tensor(np.asarray(g)) for name, g in gradients.items()})
        step()
        plain.update({name: Tensor(np.asarray(sum(d[name] for d in drawn) / 4)) for name in SHAPES})
    for name, tensor in tensors.items():
        np.testing.assert_allclose(tensor.numpy(), others[name].numpy(), rtol=1e-12)


def test_a_norm_is_that_of_all_gradients_together():
    arrays = draw(3)
    norm = math.sqrt(sum(np.sum(a * a) for a in arrays.values()))
    clipped, found = nn.clip_by_norm(as_tensors(arrays), 0.5)
    np.testing.assert_allclose(found.item(), norm, rtol=1e-12)
    for name, tensor in clipped.items():
        np.testing.assert_allclose(tensor.numpy(), arrays[name] * (0.5 / (norm + 1e-6)), rtol=1e-12)
    same, _ = nn.clip_by_norm(as_tensors(arrays), norm * 2)
    for name, tensor in same.items():
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])
    assert nn.get_norm({}).item() == 0


def test_moving_averages_are_those_of_the_formula_and_are_swapped_in_and_out():
    w = {"w": Tensor(np.zeros(3)).realize()}
    plain, warm, mean = (
        nn.MovingAverage(w, 0.9),
        nn.MovingAverage(w, 0.9, warm_up=True),
        nn.WeightMean(w),
    )
    value, a, b, seen = np.zeros(3), np.zeros(3), np.zeros(3), []

    @jit
    def step(x):
        w["w"].assign(w["w"] + x)
        for average in (plain, warm, mean):
            average.update()

    for n in range(1, 6):
        step(Tensor(draw(n)["b"]))
        value = value + draw(n)["b"]
        decay = min(0.9, (1 + n) / (10 + n))
        a, b = 0.9 * a + 0.1 * value, decay * b + (1 - decay) * value
        seen.append(value)
    for average, expected in ((plain, a), (warm, b), (mean, np.mean(seen, 0))):
        with pytest.raises(KeyError), average.swapped():
            np.testing.assert_allclose(w["w"].numpy(), expected, rtol=1e-6)
            raise KeyError
        np.testing.assert_allclose(w["w"].numpy(), value, rtol=1e-12)
    other = nn.MovingAverage(w, 0.9, warm_up=True)
    other.load_state_dict(warm.state_dict())
    for average in (warm, other):
        average.update()
    np.testing.assert_array_equal(other.averages["w"].numpy(), warm.averages["w"].numpy())
    with pytest.raises(LayerArgumentError, match="decay must be between 0 and 1, got 2"):
        nn.MovingAverage(w, 2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_centered_rmsprop_of_a_steady_gradient_is_finite(dtype):
    """The variance of a steady gradient is 0 but for rounding."""
    w = Tensor(np.ones(512, np.float32)).cast(dtype).realize()
    optimizer = nn.RMSprop({"w": w}, lr=1e-6, alpha=0.5, centered=True)
    gradient = Tensor(np.linspace(0.01, 3, 512, dtype=np.float32)).cast(dtype).realize()
    for _ in range(60):
        optimizer.update({"w": gradient})
    assert np.isfinite(w.cast("float32").numpy()).all()
