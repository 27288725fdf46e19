"""Hints for missing names: names of PyTorch and JAX that svod does not have, and misspellings of
svod's own names.

It is only called after an attribute look-up has failed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import Final

from svod_tensor.errors import MissingNameError

__all__ = ["find_foreign_argument", "find_foreign_attribute", "find_foreign_name"]

_MIN_SIMILARITY: Final = 0.8
"""Minimum similarity ratio for a name to count as a misspelling: one letter of five may differ."""

_GRADIENT: Final = (
    "gradients are results, and no attributes: svod_tensor.grad(f)(x) is that of a function, "
    "and svod_nn.value_and_grad(model, loss_function)(x) gives a loss and the gradients of a model"
)
_REQUIRES_GRAD: Final = (
    "a gradient is asked for by name, and needs no mark: svod_tensor.grad(f)(x) is by x alone, "
    "x.detach() stands for its values, and model.freeze(name) leaves parameters out"
)
_NO_GRADIENT: Final = (
    "leave it out: nothing is kept for gradients unless svod_tensor.grad or svod_nn.value_and_grad"
    " asks for them"
)

_ATTRIBUTES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("backward", "grad", "grad_fn", "retain_grad", "register_hook"), _GRADIENT),
    **dict.fromkeys(("requires_grad", "requires_grad_", "is_leaf"), _REQUIRES_GRAD),
    "cuda": 'write x.to("CUDA")',
    "cpu": 'write x.to("CPU")',
    "is_cuda": "write x.device",
    "get_device": "write x.device",
    "half": 'write x.cast("float16")',
    "bfloat16": 'write x.cast("bfloat16")',
    "float": 'write x.cast("float32")',
    "double": 'write x.cast("float64")',
    "int": 'write x.cast("int32")',
    "long": 'write x.cast("int64")',
    "bool": 'write x.cast("bool")',
    "type": "write x.cast(dtype)",
    "type_as": "write x.cast(other.dtype)",
    "dim": "write x.ndim",
    "numel": "write x.size",
    "data": "write x.detach(), or x.assign(values) to write",
    "detach_": "write x.detach()",
    "zero_": "write x.assign(0)",
    "fill_": "write x.assign(value)",
    "copy_": "write x.assign(other)",
    "new_zeros": "write Tensor.zeros(shape, dtype=x.dtype)",
    "new_ones": "write Tensor.ones(shape, dtype=x.dtype)",
    "at": (
        "write x.with_items(index, value) for .at[index].set(value), and x.add_at(index, value) for"
        " .at[index].add(value)"
    ),
    "block_until_ready": "write x.realize()",
    "t": "write x.T",
    "fill": "write x.assign(value)",
    "resize": "write x.reshape(shape), x.pad(widths) or x.tile(n)",
    "tofile": "write x.numpy().tofile(path)",
    "ptp": "write x.max() - x.min()",
    **dict.fromkeys(("mm", "bmm", "mv"), "write x @ y"),
    "index_select": "write x.take(indices, axis=0)",
    "index_put": "write x.with_items(index, value), or x.add_at(index, value) to accumulate",
    "is_floating_point": "write x.dtype.is_float",
    "is_contiguous": "leave it out: every tensor is read in the order of its axes",
    **dict.fromkeys(
        ("strides", "stride", "storage", "data_ptr"),
        "x.numpy() is an array that shares the memory where it can",
    ),
}

_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("no_grad", "inference_mode", "enable_grad", "set_grad_enabled"), _NO_GRADIENT),
    "nn": "write import svod_nn as nn",
    "optim": "optimizers are names of svod_nn, as in svod_nn.AdamW(model)",
    "autograd": _GRADIENT,
    "compile": "write jit(f)",
    "vmap": "operations take any number of leading axes; loops are svod_tensor.scan",
    "from_numpy": "write Tensor(array), or Tensor.from_numpy(array) to share its memory",
    **dict.fromkeys(("array", "tensor"), "write Tensor(data)"),
    "save": "write save_safetensors(tensors, path)",
    "load": "write load_safetensors(path)",
    **dict.fromkeys(("jacfwd", "jacrev"), "write svod_tensor.jacobian(f)"),
    "device_put": 'write x.to("CPU")',
    **dict.fromkeys(("custom_vjp", "custom_jvp"), "write svod_tensor.custom_gradient(f)"),
    "pmap": "write x.shard(devices, axis=0)",
    "lax": "its loops are names of svod_tensor: scan, fori_loop, while_loop, cond, switch",
    "stop_gradient": "write x.detach()",
    "device": 'devices are strings, as in x.to("CPU")',
    "cuda": 'write x.to("CUDA"); python -m svod_device lists what is there',
    **dict.fromkeys(("concatenate", "cat", "hstack", "vstack"), "write concat([x, y], axis=0)"),
    "random": (
        "write Tensor.rand(...), Tensor.randn(...) or Tensor.randint(...);"
        " svod_tensor.manual_seed(n) seeds them"
    ),
    "ptp": "write x.max() - x.min()",
    "cross": "write svod_tensor.linalg.cross(x, y)",
    "unique": "write unique_values(x), or unique_all(x) with positions and counts too",
    **dict.fromkeys(("allclose", "array_equal"), "write isclose(x, y).all(), or equal(x, y).all()"),
    **dict.fromkeys(("append", "insert", "delete"), "write concat([x[:i], y, x[j:]])"),
    **dict.fromkeys(("bmm", "mm", "mv"), "write matmul(x, y)"),
    "array_split": "write x.chunk(n)",
    "gradient": (
        "slopes between neighbours are central_differences(x), derivatives svod_tensor.grad(f)(x)"
    ),
    "vectorize": (
        "operations take whole tensors; a function of numpy's arrays is called by custom_function"
    ),
    "is_tensor": "write isinstance(x, Tensor)",
    "float": "write float32",
    "double": "write float64",
    "half": "write float16",
    "int": "write int32",
    "long": "write int64",
}

_ARGUMENTS: Final[Mapping[str, str]] = {
    "requires_grad": _REQUIRES_GRAD,
    "out": "write out.assign(...) of the result",
    "inplace": "write x.assign(...) of the result",
}


def find_foreign_attribute(kind: type, name: str) -> MissingNameError | None:
    """The error for a missing attribute of tensors; None if there is no hint for it."""
    if hasattr(kind, name):
        # The attribute exists; the error came from inside of it.
        return None
    hint = _ATTRIBUTES.get(name)
    if hint is None and name.endswith("_") and hasattr(kind, name[:-1]):
        # In PyTorch such a name writes to the tensor.
        hint = (
            f"write x.assign(x.{name[:-1]}(...)): tensors are written to by assign and x[index] ="
            " value"
        )
    if hint is None and (close := _find_close(kind, name)) is not None:
        hint = f"did you mean x.{close}?"
    return (
        None
        if hint is None
        else MissingNameError(owner=f"{kind.__name__!r} object", missing=name, hint=hint)
    )


def find_foreign_name(tensor: type, name: str) -> MissingNameError | None:
    """The error for a name that `svod_tensor` does not have; None if there is no hint for it.

    Args:
        tensor: the class of tensors, whose methods are called on one.
        name: the missing name.
    """
    hint = _NAMES.get(name)
    if hint is None and not name.startswith("_") and hasattr(tensor, name):
        member = vars(next(c for c in tensor.__mro__ if name in vars(c)))[name]
        is_constructor = isinstance(member, (classmethod, staticmethod))
        hint = (
            f"write Tensor.{name}(...)"
            if is_constructor
            else f"it is a method, or an attribute, of tensors: x.{name}"
        )
    if hint is None and (close := _find_close(import_module("svod_tensor"), name)) is not None:
        hint = f"did you mean svod_tensor.{close}?"
    return (
        None
        if hint is None
        else MissingNameError(owner="module 'svod_tensor'", missing=name, hint=hint)
    )


@lru_cache(maxsize=256)  # libraries probe the attributes of an array repeatedly
def _find_close(owner: object, name: str) -> str | None:
    """The public name of `owner` that `name` is a misspelling of, or None."""
    if name.startswith("_"):
        return None
    known = [own for own in dir(owner) if not own.startswith("_")]
    return next(iter(get_close_matches(name, known, 1, _MIN_SIMILARITY)), None)


def find_foreign_argument(name: str) -> str | None:
    """The hint for an argument that no operation has, or None."""
    return _ARGUMENTS.get(name)
