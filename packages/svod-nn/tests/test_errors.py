from __future__ import annotations

import inspect
import pickle

import pytest

from svod_nn import errors
from svod_tensor.errors import UserError

EXAMPLES = {
    "RunError": (
        {"path": "run.safetensors", "problem": "holds no run", "hint": "save one"},
        "run.safetensors holds no run\n  hint: save one",
        ValueError,
    ),
    "GradientNameError": (
        {"optimizer": "SGD", "names": ["weight"], "known": ["0", "1"]},
        (
            "SGD has no parameter for the gradients of weight\n  note: its parameters: 0, 1\n  hint:"
            " create the optimizer from the model, as in AdamW(model), and call update with the"
            " gradients that value_and_grad of this model returns"
        ),
        LookupError,
    ),
    "EmptyParameterError": (
        {"shape": (3, 2)},
        (
            "a parameter of shape (3, 2) has no values: it was created in init_empty_weights() and"
            " never loaded\n  hint: call model.load_state_dict(state) first, or create the model"
            " outside of init_empty_weights()"
        ),
        RuntimeError,
    ),
    "MissingGradientError": (
        {"optimizer": "SGD", "names": ["head.weight", "head.bias"]},
        (
            "SGD has no gradients for the parameters head.weight, head.bias\n  hint: freeze"
            " parameters that are not trained, as in model.freeze('head.weight'), or create SGD"
            " without them"
        ),
        LookupError,
    ),
    "ParametersChangedError": (
        {"owner": "AdamW", "replaced": ["head.weight"], "added": ["scale"], "removed": ["bias"]},
        (
            "AdamW: the parameters of the model have changed since it was created\n  note: replaced by"
            " other tensors: head.weight\n  note: new or no longer frozen: scale\n  note: no longer"
            " in the model: bias\n  hint: cast, move, shard, unfreeze and replace layers before, or create a"
            " new one: AdamW(model, ...)"
        ),
        RuntimeError,
    ),
    "LayerArgumentError": (
        {"name": "Linear", "problem": "no features", "hint": "give some"},
        "Linear: no features\n  hint: give some",
        ValueError,
    ),
    "ParameterNameError": (
        {"name": "w", "known": ["weight", "bias"]},
        "no parameter matches 'w'\n  note: known parameters: weight, bias",
        LookupError,
    ),
    "StateDictError": (
        {"module": "Linear", "missing": ["a"], "unexpected": ["b"], "shapes": {"c": ((2,), (3,))}},
        (
            "error loading the state of Linear\n  note: missing keys: a\n  note: unexpected keys:"
            " b\n  note: size mismatch for c: expected (2,), got (3,)"
        ),
        ValueError,
    ),
}


def test_every_error_has_an_example():
    assert set(EXAMPLES) == {
        name for name in errors.__all__ if inspect.isclass(getattr(errors, name))
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_says_what_is_wrong_and_survives_pickling(name: str):
    arguments, message, builtin = EXAMPLES[name]
    error = getattr(errors, name)(**arguments)
    assert str(error) == message
    assert isinstance(error, UserError)
    assert isinstance(error, builtin)
    assert str(pickle.loads(pickle.dumps(error))) == message
