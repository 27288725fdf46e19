"""Hints for names of PyTorch that `svod_nn` does not define.

The tables are consulted only after an attribute lookup has failed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

import svod_tensor
from svod_tensor import Tensor
from svod_tensor.errors import ArgumentNameError, MissingNameError

__all__ = ["explain_arguments", "find_module_attribute", "find_name", "find_optimizer_attribute"]

_GRADIENTS: Final = (
    "gradients are results: loss, gradients = svod_nn.value_and_grad(model, loss_function)(x), "
    "then optimizer.update(gradients)"
)
_NOTHING_TO_CLEAR: Final = f"leave it out, gradients do not accumulate: {_GRADIENTS}"
_ATTRIBUTE: Final = (
    "set an attribute: a tensor of floats is a parameter, one that the class lists in buffer_names"
    " a buffer"
)

_MODULE: Final[Mapping[str, str]] = {
    "forward": "define it in the class: def forward(self, x): ...",
    "cuda": 'write model.to("CUDA")',
    "cpu": 'write model.to("CPU")',
    "half": (
        'write model.cast("float16"), or svod_nn.in_precision(model, "float16") to keep parameters'
        " in float32"
    ),
    "bfloat16": (
        'write model.cast("bfloat16"), or svod_nn.in_precision(model) to keep parameters in float32'
    ),
    "float": 'write model.cast("float32")',
    "double": 'write model.cast("float64")',
    "type": "write model.cast(dtype)",
    "zero_grad": _NOTHING_TO_CLEAR,
    "backward": _GRADIENTS,
    "requires_grad_": "write model.freeze(), or model.freeze(name), and model.unfreeze()",
    "apply": "write for module in model.modules(): ...",
    "children": "write model.modules(), or the attributes themselves",
    "named_children": "write model.named_modules()",
    "register_buffer": _ATTRIBUTE,
    "register_parameter": _ATTRIBUTE,
    "add_module": "set an attribute: model.name = module",
    "register_module": "set an attribute: model.name = module",
    **dict.fromkeys(
        ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"),
        "there are no hooks: write a module around this one, or svod_tensor.custom_gradient",
    ),
    "get_parameter": "write model.state_dict()[name]",
    "get_submodule": "write dict(model.named_modules())[name]",
    "compile": "write svod_tensor.jit of the function that calls the model",
}

_OPTIMIZER: Final[Mapping[str, str]] = {
    "step": f"write optimizer.update(gradients); {_GRADIENTS}",
    "zero_grad": _NOTHING_TO_CLEAR,
    "param_groups": (
        "write optimizer.groups; to change the learning rate, pass a schedule or a tensor:"
        " AdamW(model, lr=rate), rate.assign(0.1)"
    ),
    "add_param_group": "pass all groups to the constructor: AdamW(model, groups=[...])",
    "defaults": "write optimizer.groups[-1].rule",
    "lr": (
        "write optimizer.groups[-1].rule.lr; to change the learning rate, pass a tensor:"
        " AdamW(model, lr=rate), rate.assign(0.1)"
    ),
}

_NAMES: Final[Mapping[str, str]] = {
    "functional": (
        "functions are methods of tensors, as in x.relu(), and losses are in svod_nn, as in"
        " svod_nn.cross_entropy"
    ),
    "Parameter": ("assign a tensor of floats to an attribute: self.weight = Tensor.ones(3)"),
    "Buffer": "list the attribute in buffer_names of the class",
    "ModuleList": "write a list of modules",
    "ParameterList": "write a list of tensors",
    "ModuleDict": "write a dict of modules",
    "ParameterDict": "write a dict of tensors",
    "init": "write svod_nn.initializers",
    "optim": "optimizers are in svod_nn, as in svod_nn.AdamW(model)",
    "utils": "clipping is svod_nn.clip_by_norm(gradients, ...), batches are svod_nn.batches(...)",
    "DataLoader": "write svod_nn.batches(arrays, size)",
    "GRUCell": "write svod_nn.GRU, or svod_tensor.scan",
    "LSTMCell": "write svod_nn.LSTM, or svod_tensor.scan",
    "RNNCell": "write svod_nn.RNN, or svod_tensor.scan",
    "Transformer": "write svod_nn.TransformerEncoder and svod_nn.TransformerDecoder",
    "lr_scheduler": "write svod_nn.schedules",
    "CrossEntropyLoss": "write svod_nn.cross_entropy(x, target)",
    "MSELoss": "write svod_nn.mse_loss(x, target)",
    "NLLLoss": "write svod_nn.nll_loss(x, target)",
    "L1Loss": "write svod_nn.l1_loss(x, target)",
    "BCELoss": "write svod_nn.binary_cross_entropy(x, target)",
    "KLDivLoss": "write svod_nn.kl_div(x, target)",
    "BCEWithLogitsLoss": "write svod_nn.binary_cross_entropy_with_logits(x, target)",
    "SmoothL1Loss": "write svod_nn.smooth_l1_loss(x, target)",
    "HuberLoss": "write svod_nn.huber_loss(x, target)",
    "CTCLoss": "write svod_nn.ctc_loss(...)",
    "TripletMarginLoss": "write svod_nn.triplet_margin_loss(...)",
    "CosineEmbeddingLoss": "write svod_nn.cosine_embedding_loss(...)",
    "grad": "write svod_nn.value_and_grad(model, loss_function)",
    "no_grad": ("leave it out: gradients are computed only by svod_nn.value_and_grad"),
}

_CREATED: Final = "layers are created on the default device, with parameters in float32"
_ARGUMENTS: Final[Mapping[str, str]] = {
    "device": f'{_CREATED}: write model.to("CPU") afterwards',
    "dtype": f'{_CREATED}: write model.cast("float16") afterwards',
    "inplace": "leave it out: results are new tensors, and memory is reused by the compiler",
}

P = ParamSpec("P")
S = TypeVar("S")


def explain_arguments(init: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Wrap an `__init__` so that errors about unexpected keywords have a hint."""

    @wraps(init)
    def __init__(self: S, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            wrong = _find_wrong_keyword(type(self).__name__, init, kwargs)
            if wrong is None:
                raise
            raise wrong from error

    return __init__


def _find_wrong_keyword(
    name: str, init: Callable[..., None], kwargs: Mapping[str, object]
) -> ArgumentNameError | None:
    """Return the error for the first keyword that is no parameter of `init`; None if all are."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    known = tuple(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL)
    given = next((keyword for keyword in kwargs if keyword not in known), None)
    if given is None:
        return None
    hint = _ARGUMENTS.get(given)
    meant = ["axis"] if given == "dim" and "axis" in known else get_close_matches(given, known, 1)
    if meant:
        hint = f"write {name}({meant[0]}={kwargs[given]!r})"
    return ArgumentNameError(operation=name, given=given, expected=known, hint=hint)


def find_module_attribute(owner: str, name: str) -> MissingNameError | None:
    """Return the error for an unknown attribute of a module; None if there is no hint for it."""
    return _find(_MODULE, f"{owner!r} object", name)


def find_optimizer_attribute(owner: str, name: str) -> MissingNameError | None:
    """Return the error for an unknown attribute of an optimizer; None if there is no hint."""
    return _find(_OPTIMIZER, f"{owner!r} object", name)


def find_name(name: str) -> MissingNameError | None:
    """Return the error for a name that `svod_nn` does not define; None if there is no hint."""
    owner = "module 'svod_nn'"
    if name in _NAMES or name.startswith("_"):
        return _find(_NAMES, owner, name)
    if name in svod_tensor.__all__:
        return MissingNameError(owner=owner, missing=name, hint=f"write svod_tensor.{name}")
    if hasattr(Tensor, name):
        return MissingNameError(
            owner=owner, missing=name, hint=f"use the method of tensors: x.{name}"
        )
    return None


def _find(table: Mapping[str, str], owner: str, name: str) -> MissingNameError | None:
    hint = table.get(name)
    return None if hint is None else MissingNameError(owner=owner, missing=name, hint=hint)
