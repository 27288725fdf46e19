"""Calls in other libraries that a workload is compared with."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from encoder import Array
from family_draws import DrawnWorkload
from workloads import Workload

__all__ = [
    "Calls",
    "inference_mode",
    "make_jax_calls",
    "make_numpy_calls",
    "make_onnxruntime_calls",
    "make_torch_calls",
]

Calls: TypeAlias = dict[str, Callable[[], object]]

OPSET, IR_VERSION = 20, 9


def make_numpy_calls(workload: Workload, expected: Array) -> Calls:
    """Calls of `numpy`, and of `numpy out` if the result can be written to existing memory."""
    calls: Calls = {"numpy": partial(workload.numpy, *workload.inputs)}
    if workload.numpy_out is not None:
        calls["numpy out"] = partial(workload.numpy_out, np.empty_like(expected), *workload.inputs)
    return calls


def make_torch_calls(workload: Workload, expected: Array) -> Calls:
    """Calls of torch; empty if it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    tensors = [torch.from_numpy(array) for array in workload.inputs]
    if isinstance(workload, DrawnWorkload):
        dtype = getattr(torch, workload.dtype)
        tensors = [x.to(dtype) if x.is_floating_point() else x for x in tensors]
    calls: Calls = {"torch": partial(workload.torch, *tensors)}
    if workload.torch_out is not None:
        calls["torch out"] = partial(
            workload.torch_out, torch.from_numpy(np.empty_like(expected)), *tensors
        )
    return calls


def make_jax_calls(workload: DrawnWorkload) -> Calls:
    """Call of jax under `jax.jit` that blocks until the results are ready; empty without a
    counterpart or jax.
    """
    try:
        import jax
    except ImportError:
        return {}
    if workload.jax is None or any(array.dtype == np.float64 for array in workload.inputs):
        return {}  # jax would convert float64 to float32
    floats = [array.dtype.kind == "f" for array in workload.inputs]
    inputs = [jax.numpy.asarray(array) for array in workload.inputs]
    inputs = [
        x.astype(workload.dtype) if is_float else x
        for x, is_float in zip(inputs, floats, strict=True)
    ]
    compiled = jax.jit(workload.jax)
    return {"jax": lambda: jax.block_until_ready(compiled(*inputs))}


def make_onnxruntime_calls(workload: DrawnWorkload) -> Calls:
    """Call of onnxruntime with the number of threads in `OMP_NUM_THREADS`.

    Empty if there is no counterpart, or if the library is not installed.
    """
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return {}
    if not workload.onnx:
        return {}
    helper = onnx.helper
    feeds = {f"x{index}": array for index, array in enumerate(workload.inputs)}
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    nodes = [
        helper.make_node(op, names.split(), ["y"], **attributes)
        for op, names, attributes in workload.onnx
    ]
    constants = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in (workload.constants or {}).items()
    ]
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "workload", inputs, [result], constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return {"onnxruntime": lambda: session.run(None, feeds)[0]}


def inference_mode() -> Any:
    """Context in which torch records no gradients."""
    try:
        import torch
    except ImportError:
        return nullcontext()
    return torch.inference_mode()
