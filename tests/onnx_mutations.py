"""Load and call mutated ONNX models in child processes with limits, and print what fails.

    python tests/onnx_mutations.py --seed 0 --count 10000 [--bases small] [--beside-onnxruntime]

A mutated model must work or raise an error of `svod_onnx.errors`. Findings are signals, hangs, more
memory than the limits below, and other exceptions. Each mutant depends on its seed only, so
`--seed N --count 1 --save FOLDER` writes the model of one finding. The script fails if it finds
anything.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper

import svod_onnx
from svod_onnx import errors
from svod_onnx._types import HOST_TYPES, find_host_type
from svod_tensor import Tensor

MAX_SECONDS = 20
MAX_ADDRESS_SPACE = 4 << 30
MAX_MEMORY = 1536 << 20  # a seed of the sample asks for a value of 1.2 GiB
OUT_OF_MEMORY = "out of memory"
MAX_ELEMENTS = 1 << 14  # of an input of a call

DOCUMENTED = tuple(getattr(errors, name) for name in errors.__all__ if name.endswith("Error"))

INTEGERS = (0, 1, -1, 2, -2, 3, 7, 64, 1000, -1000, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31))
LONG_INTEGERS = (*INTEGERS, 1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e30, math.inf, -math.inf, math.nan, 2.0**40)
STRINGS = ("", "a", "?", "-1", "x", "NOTSET", "VALID", "SAME_UPPER", "linear", "\0", "n" * 300)
LOCATIONS = ("", ".", "..", "/dev/zero", "/dev/stdin", "model.onnx", "../model.onnx", "data\0", "/")


class Base(NamedTuple):
    """Model to mutate, with operands of one call."""

    name: str
    message: bytes
    inputs: tuple[Any, ...]


class Outcome(NamedTuple):
    """Result of one mutant. `kind` is "ok", "refused" (a documented error), or names a finding."""

    kind: str
    detail: str = ""
    is_loaded: bool = False


def make_small_bases() -> list[Base]:
    """Models with several nodes, weights, subgraphs and functions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 8)).astype(np.float32)
    image = rng.normal(size=(1, 2, 6, 6)).astype(np.float32)
    flag = np.array(True)
    vector = rng.normal(size=(6,)).astype(np.float32)
    bases: list[Base] = []

    def add(text: str, *inputs: Any, weights: dict[str, np.ndarray] | None = None) -> None:
        model = onnx.parser.parse_model(text)
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in (weights or {}).items()
        )
        bases.append(Base(model.graph.name, model.SerializeToString(), inputs))

    head = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3, "com.microsoft" : 1]>'
    for text, inputs, weights in _SMALL:
        named = {"x": x, "image": image, "flag": flag, "vector": vector}
        add(
            head + text,
            *(named[name] for name in inputs.split()),
            weights={
                name: np.asarray(value)
                if not isinstance(value, tuple)
                else rng.normal(size=value).astype(np.float32)
                for name, value in weights.items()
            },
        )
    add(
        """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        calls (float[n] x) => (float[n] y) { a = own.Twice(x)  y = own.Twice(a) }
        <opset_import: ["" : 21], domain: "own"> Twice (a) => (b) { b = Add(a, a) }""",
        vector,
    )
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0] * 5,
        nodes_nodeids=[0, 1, 2, 3, 4],
        nodes_featureids=[0, 1, 0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        nodes_values=[0.0, 0.5, 0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 3, 0, 0, 0],
        nodes_falsenodeids=[2, 4, 0, 0, 0],
        target_ids=[0, 0, 0],
        target_nodeids=[2, 3, 4],
        target_treeids=[0, 0, 0],
        target_weights=[1.0, 2.0, 3.0],
    )
    graph = helper.make_graph(
        [trees],
        "trees",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    bases.append(Base("trees", model.SerializeToString(), (x[0],)))
    return bases


_SMALL: list[tuple[str, str, dict[str, Any]]] = [
    (
        """network (float[1, 2, 6, 6] x) => (float[1, n] y) {
        a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]>(x, w)
        b = Relu(a)  c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b)
        d = Reshape(c, shape)  y = Gemm<alpha = 0.5, transB = 1>(d, v, bias) }""",
        "image",
        {"w": (4, 2, 3, 3), "shape": np.array([1, -1]), "v": (5, 36), "bias": (5,)},
    ),
    (
        """recurrent (float[2, 3, 8] x) => (float[2, 1, 3, 4] y, float[1, 3, 4] h) {
        y, h = LSTM<hidden_size = 4, direction = "forward">(x, w, r, b) }""",
        "x",
        {"w": (1, 16, 8), "r": (1, 16, 4), "b": (1, 32)},
    ),
    (
        """gru (float[2, 3, 8] x) => (float[2, 2, 3, 4] y) {
        y = GRU<hidden_size = 4, direction = "bidirectional", linear_before_reset = 1>(x, w, r) }""",
        "x",
        {"w": (2, 12, 8), "r": (2, 12, 4)},
    ),
    (
        """branches (float[n] x, bool c) => (float[n] y) {
        y = If (c) <then_branch = g () => (float[n] a) { a = Neg(x) },
                    else_branch = h () => (float[n] b) { b = Mul(x, w) }> }""",
        "vector flag",
        {"w": (1,)},
    ),
    (
        """repeats (float[n] x, bool c) => (float[n] y, float[m, n] z) {
        y, z = Loop (count, c, x) <body = g (int64 i, bool go, float[n] s)
            => (bool next, float[n] t, float[n] u) {
                next = Identity(go)  t = Add(s, one)  u = Mul(t, t) }> }""",
        "vector flag",
        {"count": np.array(3), "one": (1,)},
    ),
    (
        """scans (float[2, 3, 8] x) => (float[3, 8] y, float[2, 3, 8] z) {
        y, z = Scan (start, x) <num_scan_inputs = 1, body = g (float[3, 8] s, float[3, 8] e)
            => (float[3, 8] t, float[3, 8] u) { t = Add(s, e)  u = Identity(t) }> }""",
        "x",
        {"start": (3, 8)},
    ),
    (
        """quantized (float[2, 3, 8] x) => (float[2, 3, 4] y) {
        q = QuantizeLinear(x, scale, zero)  d = DequantizeLinear(q, scale, zero)
        v = DequantizeLinear<axis = 1>(w, scales, zeros)  y = MatMul(d, v) }""",
        "x",
        {
            "scale": np.float32(0.1),
            "zero": np.uint8(3),
            "w": np.arange(32, dtype=np.int8).reshape(8, 4),
            "scales": (4,),
            "zeros": np.zeros(4, np.int8),
        },
    ),
    (
        """nibbles (float[2, 3, 8] x) => (float[2, 3, 4] y) {
        v = DequantizeLinear<axis = 0, block_size = 4>(w, scales)  y = MatMul(x, v) }""",
        "x",
        {"w": np.ones((8, 4), ml_dtypes.int4), "scales": (2, 4)},
    ),
    (
        """lists (float[2, 3, 8] x) => (float[m, 3, 8] y, int64 n) {
        s = SplitToSequence<axis = 0>(x, sizes)  a = SequenceAt(s, index)
        t = SequenceInsert(s, a, index)  n = SequenceLength(t)
        y = ConcatFromSequence<axis = 0>(t) }""",
        "x",
        {"sizes": np.array([1, 1]), "index": np.array(0)},
    ),
    (
        """options (float[n] x) => (float[n] y, bool b) {
        o = Optional(x)  b = OptionalHasElement(o)  y = OptionalGetElement(o) }""",
        "vector",
        {},
    ),
    (
        """indices (float[2, 3, 8] x) => (float[2, 2, 8] y, float[a, b] z, float[2, 3, 8] u) {
        y = Gather<axis = 1>(x, rows)  s = Slice(x, starts, ends, axes, steps)
        z = Flatten<axis = 1>(s)  u = ScatterElements<axis = 1>(x, rows3, updates) }""",
        "x",
        {
            "rows": np.array([0, 2]),
            "starts": np.array([0, 1]),
            "ends": np.array([2, 8]),
            "axes": np.array([0, 2]),
            "steps": np.array([1, 2]),
            "rows3": np.array([[[0]]]),
            "updates": (1, 1, 1),
        },
    ),
    (
        """sizes (float[a, b, c] x) => (float[d, e] y, float[f, g, h] z) {
        s = Shape(x)  p = Gather(s, first)  q = Concat<axis = 0>(p, minus)  y = Reshape(x, q)
        e = ConstantOfShape(s)  f = Tile(e, repeats)  z = Pad(f, pads) }""",
        "x",
        {
            "first": np.array([0]),
            "minus": np.array([-1]),
            "repeats": np.array([1, 2, 1]),
            "pads": np.array([0, 1, 0, 0, 0, 1]),
        },
    ),
    (
        """ranges (float[n] x) => (float[m] y, float[a, b] z, int64[k] i) {
        r = Range(zero, limit, step)  c = Cast<to = 1>(r)  y = Mul(c, scale)
        z = Expand(scale, shape)  v, i = TopK<axis = 0>(x, k)  w = OneHot(i, depth, c) }""",
        "vector",
        {
            "zero": np.array(0),
            "limit": np.array(5),
            "step": np.array(1),
            "scale": (1,),
            "shape": np.array([2, 3]),
            "k": np.array([3]),
            "depth": np.array(4),
        },
    ),
    (
        """images (float[1, 2, 6, 6] x) => (float[1, 2, a, b] y, float[1, 2, c, d] z) {
        y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , scales)
        u = AveragePool<kernel_shape = [2, 2], ceil_mode = 1>(x)
        z = ConvTranspose<strides = [2, 2], output_padding = [1, 1], group = 2>(u, w) }""",
        "image",
        {"scales": np.array([1, 1, 2, 1.5], np.float32), "w": (2, 1, 3, 3)},
    ),
    (
        """attention (float[2, 3, 8] x) => (float[2, 3, 8] y) {
        q = MatMul(x, w)  n = LayerNormalization<axis = -1>(q, scale)
        a = com.microsoft.MultiHeadAttention<num_heads = 2>(n, q, x)
        s = Softmax<axis = -1>(a)  e = Einsum<equation = "bij,bkj->bik">(s, a)
        y = MatMul(e, x) }""",
        "x",
        {"w": (8, 8), "scale": (8,)},
    ),
    (
        """spectra (float[2, 3, 8] x) => (float[a, b, c, 2] y, float[p, q] m) {
        f = Reshape(x, shape)  y = STFT<onesided = 1>(f, step, window)
        m = MelWeightMatrix(bins, length, rate, low, high) }""",
        "x",
        {
            "shape": np.array([1, 48]),
            "step": np.array(4),
            "window": (8,),
            "bins": np.array(4),
            "length": np.array(16),
            "rate": np.array(8000),
            "low": np.float32(10),
            "high": np.float32(3000),
        },
    ),
]


def collect_bases() -> list[Base]:
    """The small models, and the models of onnx's conformance suite."""
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = list(collect_testcases(None))
    bases = make_small_bases()
    for case in cases:
        if case.model is not None and case.model.ByteSize() < 1 << 16:
            inputs = tuple(case.data_sets[0][0]) if case.data_sets else ()
            bases.append(Base(case.name, case.model.SerializeToString(), inputs))
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for case in load_model_tests(kind=kind):
            path = Path(case.model_dir or "", "model.onnx")
            if path.exists() and path.stat().st_size < 1 << 16:
                bases.append(Base(case.name, path.read_bytes(), _read_inputs(path)))
    return bases


def _read_inputs(path: Path) -> tuple[Any, ...]:
    arrays: list[Any] = []
    model = onnx.load(path)
    for index in range(len(model.graph.input)):
        data = path.parent / "test_data_set_0" / f"input_{index}.pb"
        if not data.exists() or not model.graph.input[index].type.HasField("tensor_type"):
            break
        arrays.append(numpy_helper.to_array(TensorProto.FromString(data.read_bytes())))
    return tuple(arrays)


# Mutations of the bytes of a file.


def mutate_bytes(rng: random.Random, message: bytes, other: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        offset = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 if offset < len(data):
                data[offset] = rng.randrange(256)
            case 1 if offset < len(data):
                data[offset] ^= 1 << rng.randrange(8)
            case 2:
                del data[offset : offset + rng.randrange(1, 9)]
            case 3:
                data[offset:offset] = data[offset : offset + rng.randrange(1, 40)]
            case 4:
                start = rng.randrange(len(other))
                data[offset : offset + rng.randrange(9)] = other[start : start + rng.randrange(60)]
            case 5:
                del data[offset:]
            case 6:
                data[offset : offset + 1] = _make_varint(rng.choice(LONG_INTEGERS))
            case _:
                data[offset : offset + 8] = (rng.choice(LONG_INTEGERS) & (1 << 64) - 1).to_bytes(
                    8, "little"
                )
    return bytes(data)


def _make_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


# Mutations of the message.


class Slot(NamedTuple):
    """Field of a message, at which a mutation changes the value."""

    message: Message
    field: FieldDescriptor


def iter_slots(message: Message) -> Iterator[Slot]:
    for field, value in message.ListFields():
        yield Slot(message, field)
        if field.type == field.TYPE_MESSAGE:
            for item in value if field.is_repeated else [value]:
                yield from iter_slots(item)


def find_all(message: Message, kind: type[Any]) -> list[Any]:
    found: list[Any] = [message] if isinstance(message, kind) else []
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for item in value if field.is_repeated else [value]:
                found += find_all(item, kind)
    return found


def mutate_field(rng: random.Random, model: onnx.ModelProto, other: onnx.ModelProto) -> None:
    """Change one field of any message: its value, or the items of a repeated field."""
    slots = list(iter_slots(model))
    # By kind of field first: a model has many more names than versions.
    names = sorted({slot.field.full_name for slot in slots})
    name = rng.choice(names)
    slot = rng.choice([slot for slot in slots if slot.field.full_name == name])
    message, field = slot
    value = getattr(message, field.name)
    if field.type == field.TYPE_MESSAGE:
        same = [s for m in (model, other) for s in iter_slots(m) if s.field.message_type]
        donors = [
            item
            for s in same
            if s.field.message_type is field.message_type
            for item in _list_items(s)
        ]
        donor = type(donors[0]).FromString(rng.choice(donors).SerializePartialToString())
        if not field.is_repeated:
            if rng.randrange(3) == 0:
                message.ClearField(field.name)
            else:
                value.CopyFrom(donor)
            return
        items = [type(donor).FromString(item.SerializePartialToString()) for item in value]
    elif not field.is_repeated:
        setattr(message, field.name, _mutate_scalar(rng, field, value, model))
        return
    else:
        items, donor = list(value), _mutate_scalar(rng, field, value[0], model)
    index = rng.randrange(len(items))
    match rng.randrange(7):
        case 0:
            del items[index]
        case 1:
            items.append(items[index])
        case 2:
            items = items[:-1] if rng.randrange(2) else []
        case 3:
            rng.shuffle(items)
        case 4:
            items.insert(index, donor)
        case _:
            items[index] = donor
    message.ClearField(field.name)
    getattr(message, field.name).extend(items)


def _list_items(slot: Slot) -> list[Any]:
    value = getattr(slot.message, slot.field.name)
    return list(value) if slot.field.is_repeated else [value]


def _mutate_scalar(
    rng: random.Random, field: FieldDescriptor, value: Any, model: onnx.ModelProto
) -> Any:
    match field.type:
        case field.TYPE_INT32 | field.TYPE_ENUM:
            if field.name == "data_type" or field.name == "elem_type" or rng.randrange(2):
                return rng.randrange(28)
            if field.enum_type is not None:
                return rng.choice(field.enum_type.values).number
            return rng.choice([n for n in INTEGERS if -(1 << 31) <= n < 1 << 31])
        case field.TYPE_INT64:
            return rng.choice([*LONG_INTEGERS, value + 1, value - 1, -value, value * 2]) % (
                1 << 63
            ) - (rng.randrange(8) == 0)
        case field.TYPE_UINT64:
            return rng.choice(LONG_INTEGERS) % (1 << 64)
        case field.TYPE_FLOAT | field.TYPE_DOUBLE:
            return rng.choice([*FLOATS, -value, value * 2])
        case field.TYPE_BYTES:
            return _mutate_elements(rng, value)
    if field.full_name.endswith("op_type"):
        return rng.choice(OPERATORS)
    names = sorted({name for node in find_all(model, onnx.NodeProto) for name in node.input})
    outputs = sorted({name for node in find_all(model, onnx.NodeProto) for name in node.output})
    return rng.choice([*names, *names, *outputs, *STRINGS, "ai.onnx.ml", "com.microsoft"])


def _mutate_elements(rng: random.Random, data: bytes) -> bytes:
    """Change an element of raw data, or the size of the data."""
    if not data or rng.randrange(6) == 0:
        return rng.choice([b"", data[:-1], data + b"\0", data * 2, bytes(8)])
    size = rng.choice([n for n in (8, 8, 8, 4, 4, 1) if n <= len(data)] or [1])
    offset = rng.randrange(len(data) // size) * size
    packed = (
        np.float32(rng.choice(FLOATS)).tobytes()
        if size == 4
        else (rng.choice(LONG_INTEGERS) & (1 << 8 * size) - 1).to_bytes(size, "little")
    )
    return data[:offset] + packed + data[offset + size :]


OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})


def mutate_operand(rng: random.Random, model: onnx.ModelProto, _: onnx.ModelProto) -> None:
    nodes = find_all(model, onnx.NodeProto)
    if not nodes:
        return
    node = rng.choice(nodes)
    names = [name for other in nodes for name in (*other.input, *other.output)] + [""]
    match rng.randrange(6):
        case 0 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        case 1:
            node.input.append(rng.choice(names))
        case 2 if node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice(names)
        case 3:
            node.output.append(rng.choice([*names, "unused"]))
        case 4 if node.input:
            del node.input[rng.randrange(len(node.input))]
        case _:
            inputs = list(node.input)
            rng.shuffle(inputs)
            del node.input[:]
            node.input.extend(inputs)


def mutate_attribute(rng: random.Random, model: onnx.ModelProto, _: onnx.ModelProto) -> None:
    """Set an attribute of the schema to a value of any type."""
    nodes = find_all(model, onnx.NodeProto)
    if not nodes:
        return
    node = rng.choice(nodes)
    try:
        names = sorted(onnx.defs.get_schema(node.op_type, 21, node.domain).attributes)
    except onnx.defs.SchemaError:
        names = []
    names += [entry.name for entry in node.attribute]
    name = rng.choice([*names, "axis", "unknown"])
    old = next((entry for entry in node.attribute if entry.name == name), None)
    if old is not None:
        node.attribute.remove(old)
    values: list[Any] = [
        rng.choice(LONG_INTEGERS[:-1]),
        rng.choice(INTEGERS[:8]),
        rng.choice(FLOATS),
        rng.choice(STRINGS),
        [rng.choice(INTEGERS) for _ in range(rng.randrange(1, 6))],
        [rng.choice(INTEGERS[:7]) for _ in range(rng.randrange(1, 6))],
        [rng.choice(FLOATS) for _ in range(rng.randrange(1, 4))],
        ["a", rng.choice(STRINGS)],
        numpy_helper.from_array(np.array([rng.choice(LONG_INTEGERS)])),
        numpy_helper.from_array(np.array(["a", ""], dtype=object)),
        helper.make_tensor_type_proto(1, [2]),
    ]
    if rng.randrange(12) == 0:
        node.attribute.add(name=name, type=rng.randrange(15))  # an empty list, or no value
    else:
        value = rng.choice(values)
        if old is not None and rng.randrange(3):  # of the type that the operator expects
            value = next((v for v in rng.sample(values, len(values)) if _fits(v, old.type)), value)
        node.attribute.append(helper.make_attribute(name, value))


def _fits(value: Any, kind: int) -> bool:
    return helper.make_attribute("a", value).type == kind


def mutate_initializer(rng: random.Random, model: onnx.ModelProto, _: onnx.ModelProto) -> None:
    tensors = find_all(model, TensorProto)
    if not tensors:
        return
    tensor = rng.choice(tensors)
    match rng.randrange(7):
        case 0:
            tensor.data_type = rng.randrange(28)
        case 1:
            size = rng.choice([*LONG_INTEGERS])
            if tensor.dims and rng.randrange(2):
                tensor.dims[rng.randrange(len(tensor.dims))] = size
            else:
                tensor.dims.append(rng.choice([0, 1, 1, size]))
        case 2:
            tensor.data_location = TensorProto.EXTERNAL
            entries = {"location": rng.choice(LOCATIONS)}
            entries |= {
                key: str(rng.choice(["", "a", "1.5", 8, *LONG_INTEGERS]))
                for key in ("offset", "length")
                if rng.randrange(2)
            }
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=value)
        case 3 if tensor in model.graph.initializer:
            indices = numpy_helper.from_array(np.array([rng.choice(LONG_INTEGERS)]), "indices")
            model.graph.sparse_initializer.add(
                values=tensor, indices=indices, dims=[rng.choice(LONG_INTEGERS)]
            )
            model.graph.initializer.remove(tensor)
        case _ if tensor.HasField("raw_data"):
            tensor.raw_data = _mutate_elements(rng, tensor.raw_data)
        case _:
            array = rng.choice([np.array([]), np.array(3), np.array([1 << 40]), np.array(math.nan)])
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def mutate_structure(rng: random.Random, model: onnx.ModelProto, _: onnx.ModelProto) -> None:
    """Nest graphs, repeat nodes in a chain, add functions, and change input types."""
    graph = model.graph
    match rng.randrange(5):
        case 0 if graph.node:
            node = rng.choice(list(graph.node))
            chain = rng.choice([2, 10, 100, 1000])
            if not node.output or not node.input or node.attribute:
                return
            first = node.output[0]
            for index in range(chain):
                link = graph.node.add()
                link.CopyFrom(node)
                del link.output[:], link.input[1:]
                link.input[0] = first if index == 0 else f"chain{index - 1}"
                link.output.append(f"chain{index}")
            graph.output.add(name=f"chain{chain - 1}")
        case 1:
            inner = onnx.GraphProto()
            inner.CopyFrom(graph)
            del inner.input[:]
            for _ in range(rng.choice([1, 3, 12])):
                nested = helper.make_node("If", ["nested_flag"], ["nested"], name="nested")
                nested.attribute.append(helper.make_attribute("then_branch", inner))
                nested.attribute.append(helper.make_attribute("else_branch", inner))
                inner = helper.make_graph([nested], "g", [], list(graph.output[:1]))
                inner.output[0].name = "nested"
                if inner.ByteSize() > 1 << 20:
                    break
            graph.initializer.append(numpy_helper.from_array(np.array(True), "nested_flag"))
            graph.node.extend(inner.node)
            graph.output.add(name="nested")
        case 2 if graph.node:
            node = rng.choice(list(graph.node))
            names = [name for name in node.input if name]
            opsets = list(model.opset_import)
            body = onnx.NodeProto()
            body.CopyFrom(node)
            if rng.randrange(3) == 0:
                body.domain, body.op_type = "own", "Called"
            function = helper.make_function(
                "own", "Called", sorted(set(names)), list(node.output), [body], opsets
            )
            model.functions.append(function)
            node.domain, node.op_type = "own", "Called"
            model.opset_import.append(helper.make_opsetid("own", 1))
        case 3 if graph.input:
            kind = rng.choice(list(graph.input)).type
            inner = onnx.TypeProto()
            inner.CopyFrom(kind)
            target = rng.choice([kind.sequence_type, kind.optional_type])
            target.elem_type.CopyFrom(inner)
        case _ if graph.input:
            kind = rng.choice(list(graph.input)).type.tensor_type
            if rng.randrange(3) == 0:
                kind.elem_type = rng.randrange(28)
            elif kind.shape.dim:
                dim = kind.shape.dim[rng.randrange(len(kind.shape.dim))]
                dim.dim_value = rng.choice(LONG_INTEGERS)
            else:
                kind.ClearField("shape")


def bind_inputs(rng: random.Random, model: onnx.ModelProto, inputs: Sequence[Any]) -> None:
    """Turn some inputs into initializers, so that mutations reach their values."""
    for info, value in zip(list(model.graph.input), inputs, strict=False):
        if isinstance(value, np.ndarray) and rng.randrange(2):
            try:
                tensor = numpy_helper.from_array(value, info.name)
            except (KeyError, TypeError, ValueError):
                continue
            model.graph.initializer.append(tensor)


Mutation = Callable[[random.Random, onnx.ModelProto, onnx.ModelProto], None]

MUTATIONS: Sequence[Mutation] = (
    mutate_field,
    mutate_field,
    mutate_operand,
    mutate_attribute,
    mutate_attribute,
    mutate_initializer,
    mutate_initializer,
    mutate_structure,
)


def make_mutant(seed: int, bases: Sequence[Base]) -> tuple[Base, bytes]:
    rng = random.Random(seed)
    base, other = rng.choice(bases), rng.choice(bases)
    message = base.message
    if rng.randrange(4):
        model = onnx.ModelProto.FromString(message)
        donor = onnx.ModelProto.FromString(other.message)
        bind_inputs(rng, model, base.inputs)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            try:
                rng.choice(MUTATIONS)(rng, model, donor)
            except (ValueError, TypeError, OverflowError, IndexError):
                continue  # a value that protobuf does not store, or a graph without outputs
        message = model.SerializePartialToString()
        if rng.randrange(20):
            return base, message
    return base, mutate_bytes(rng, message, other.message)


# Calls of mutants.


def make_inputs(infos: Sequence[Any], base: Base, seed: int) -> dict[str, Any] | None:
    """Operands of a call by the declared inputs; None if they would be large."""
    rng = np.random.default_rng(seed)
    known = dict(zip(_list_inputs(base.message), base.inputs, strict=False))
    inputs: dict[str, Any] = {}
    for index, info in enumerate(infos):
        value = known.get(info.name)
        if value is None and index < len(base.inputs):
            value = base.inputs[index]
        if value is None or not _matches(info, value):
            value = _make_value(info, rng)
        if value is None:
            return None
        inputs[info.name] = value
    return inputs


def _list_inputs(message: bytes) -> list[str]:
    return [info.name for info in onnx.ModelProto.FromString(message).graph.input]


def _matches(info: Any, value: Any) -> bool:
    if info.kind != "tensor" or info.key_type or not isinstance(value, np.ndarray):
        return info.kind != "tensor" and isinstance(value, list)
    shape = info.shape
    if shape is None:
        return True
    return value.ndim == len(shape) and all(
        not isinstance(size, int) or size == n for size, n in zip(shape, value.shape, strict=True)
    )


def _make_value(info: Any, rng: np.random.Generator) -> Any:
    if info.key_type:
        return {"a": 1.0} if info.key_type == TensorProto.STRING else {1: 1.0}
    shape = [size if isinstance(size, int) else 3 for size in info.shape or (2, 3)]
    if math.prod(shape) > MAX_ELEMENTS or len(shape) > 32:
        return None
    if info.element_type == TensorProto.STRING:
        value = np.full(shape, "a", dtype=object)
    else:
        dtype = find_host_type(info.element_type)
        dtype = HOST_TYPES.get(info.element_type, dtype)
        value = rng.integers(0, 3, shape).astype(np.float32 if dtype is None else dtype)
    return [value, value] if info.kind == "sequence" else value


def run_mutant(seed: int, bases: Sequence[Base], folder: Path, *, beside: bool) -> Iterator[Any]:
    """Outcome of the model, and then the one of a comparison with onnxruntime."""
    base, message = make_mutant(seed, bases)
    source: Any = message
    if seed % 2:
        source = folder / "model.onnx"
        source.write_bytes(message)
    before = _reset_peak()
    outcome, inputs, results = _run(source, base, seed)
    peak = _read_status("VmHWM") - before
    # A model may ask for a value that is larger than the limit: an error, before or after others fit.
    if peak > MAX_MEMORY and outcome.detail != OUT_OF_MEMORY:
        outcome = Outcome("memory", f"{peak >> 20} MiB after {outcome.detail}", outcome.is_loaded)
    yield outcome
    if beside:
        yield (
            _compare_with_onnxruntime(message, inputs, results)
            if outcome.kind == "ok" and results is not None
            else Outcome("not compared")
        )


def _run(source: Any, base: Base, seed: int) -> tuple[Outcome, Any, Any]:
    is_loaded = False
    inputs: Any = None
    results: Any = None
    try:
        model = svod_onnx.load(source)
        is_loaded = True
        inputs = make_inputs(model.inputs, base, seed)
        if inputs is not None:
            results = {
                name: value.numpy() if isinstance(value, Tensor) else value
                for name, value in model(**inputs).items()
            }
    except DOCUMENTED as error:
        text = str(error).lower()
        is_out_of_memory = any(phrase in text for phrase in ("out of memory", "unable to allocate"))
        detail = OUT_OF_MEMORY if is_out_of_memory else type(error).__name__
        return Outcome("refused", detail, is_loaded), inputs, None
    except BaseException as error:
        frames = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        own = [frame for frame in frames if not frame.startswith("onnx_mutations")]
        text = str(error).split("\n", 1)[0][:160]
        detail = f"{type(error).__name__}: {text} [{' < '.join(reversed(own[-4:]))}]"
        return Outcome("exception", detail, is_loaded), inputs, None
    return Outcome("ok", is_loaded=True), inputs, results


def _compare_with_onnxruntime(message: bytes, inputs: Any, results: Any) -> Outcome:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(message, options, providers=["CPUExecutionProvider"])
        expected = session.run(list(results), inputs)
    except Exception as error:
        return Outcome("onnxruntime refuses", type(error).__name__)
    for (name, value), other in zip(results.items(), expected, strict=True):
        if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
            continue
        if value.shape != other.shape:
            return Outcome("other shape", f"{name}: {value.shape}, onnxruntime {other.shape}")
        if value.dtype.kind in "OUS" or other.dtype.kind in "OUS":
            same = (value == other).all()
        else:
            left, right = value.astype(np.complex128), other.astype(np.complex128)
            with np.errstate(all="ignore"):
                same = np.allclose(left, right, 1e-2, 1e-3, equal_nan=True)
        if not same:
            return Outcome("other value", f"{name}: {value.ravel()[:4]} {other.ravel()[:4]}")
    return Outcome("same")


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def _read_status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(key)


# The pool of one child, which handles many mutants and is replaced after a finding.


def _serve(connection: Connection, bases: Sequence[Base], *, beside: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                seed = connection.recv()
            except EOFError:
                return
            for outcome in run_mutant(seed, bases, Path(folder), beside=beside):
                connection.send(outcome)


class Child:
    """Process that runs mutants until one of them ends or delays it."""

    def __init__(self, bases: Sequence[Base], *, beside: bool) -> None:
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, bases), kwargs={"beside": beside}
        )
        self._process.start()
        theirs.close()
        self.is_alive = True

    def send(self, seed: int) -> None:
        self._connection.send(seed)

    def receive(self) -> Outcome:
        try:
            if self._connection.poll(MAX_SECONDS):
                return self._connection.recv()
            outcome = Outcome("hang", f"over {MAX_SECONDS} s")
        except (EOFError, OSError, pickle.UnpicklingError):
            self._process.join(5)
            code = self._process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            outcome = Outcome("crash", name)
        self.close()
        return outcome

    def close(self) -> None:
        self.is_alive = False
        self._connection.close()
        self._process.kill()
        self._process.join()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--bases", choices=["small", "all"], default="all")
    parser.add_argument("--beside-onnxruntime", action="store_true")
    parser.add_argument("--save", type=Path, help="folder for the model of each finding")
    options = parser.parse_args(arguments)
    bases = make_small_bases() if options.bases == "small" else collect_bases()
    child: Child | None = None
    counts: Counter[str] = Counter()
    n_loaded = n_findings = 0
    start = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        if child is None or not child.is_alive:
            child = Child(bases, beside=options.beside_onnxruntime)
        child.send(seed)
        outcomes = [child.receive()]
        if options.beside_onnxruntime and child.is_alive:
            other = child.receive()
            # What onnxruntime does to its process is no finding.
            outcomes.append(other if child.is_alive else Outcome("onnxruntime fails"))
        counts.update(outcome.kind for outcome in outcomes)
        n_loaded += outcomes[0].is_loaded
        is_finding = outcomes[0].kind not in ("ok", "refused")
        n_findings += is_finding
        for outcome in outcomes:
            if is_finding or outcome.kind.startswith("other"):
                base, message = make_mutant(seed, bases)
                print(f"seed {seed} {base.name}: {outcome.kind}: {outcome.detail}", flush=True)
                if options.save is not None:
                    (options.save / f"{seed}.onnx").write_bytes(message)
    if child is not None and child.is_alive:
        child.close()
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(
        f"{options.count} mutants, {n_loaded} loaded, {time.monotonic() - start:.0f} s: {summary}"
    )
    return 1 if n_findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
