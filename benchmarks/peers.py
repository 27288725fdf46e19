"""The calls that a workload is compared with, ready to be timed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from encoder import Array
from workloads import Workload

__all__ = ["Calls", "inference_mode", "make_numpy_calls", "make_torch_calls"]

Calls: TypeAlias = dict[str, Callable[[], object]]


def make_numpy_calls(workload: Workload, expected: Array) -> Calls:
    """`numpy`, and `numpy out` where the result can be written to memory that is there."""
    calls: Calls = {"numpy": partial(workload.numpy, *workload.inputs)}
    if workload.numpy_out is not None:
        calls["numpy out"] = partial(workload.numpy_out, np.empty_like(expected), *workload.inputs)
    return calls


def make_torch_calls(workload: Workload, expected: Array) -> Calls:
    """The same for torch; nothing where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    tensors = [torch.from_numpy(array) for array in workload.inputs]
    calls: Calls = {"torch": partial(workload.torch, *tensors)}
    if workload.torch_out is not None:
        calls["torch out"] = partial(workload.torch_out, torch.from_numpy(np.empty_like(expected)), *tensors)
    return calls


def inference_mode() -> Any:
    """A context in which torch records nothing for gradients."""
    try:
        import torch
    except ImportError:
        return nullcontext()
    return torch.inference_mode()
