"""Programs in the style of onnxruntime's samples, each on onnxruntime and on svod by the same code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import svod_onnx

HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def _fill(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> bytes:
    """The model with weights as initializers."""
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _compare(program: Callable[[Any], Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Results of a program on svod, which equal its results on onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    results, expected = list(program(svod_onnx)), list(program(onnxruntime))
    assert len(results) == len(expected)
    for value, reference in zip(results, expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=2e-5, atol=2e-5, strict=True)
    return results


def _make_classifier() -> bytes:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(f"""{HEAD}
    classifier (float[N, 3, 32, 32] input) => (float[N, 10] logits) {{
        c1 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(input, w1, b1)
        r1 = Relu(c1)
        c2 = Conv<pads = [1, 1, 1, 1], group = 8>(r1, w2)
        r2 = Clip(c2, low, high)
        c3 = Conv(r2, w3)
        pooled = GlobalAveragePool(c3)
        flat = Flatten(pooled)
        logits = Gemm<transB = 1>(flat, w4, b4)
    }}""")
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "w3": (16, 8, 1, 1)}
    shapes |= {"w4": (10, 16), "b4": (10,)}
    weights = {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    weights |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    return _fill(model, weights)


def test_image_classification() -> None:
    model = _make_classifier()
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((40, 48), (32, 32), (64, 50))]
    labels = [f"class {i}" for i in range(10)]

    def preprocess(image: np.ndarray) -> np.ndarray:
        top, left = (image.shape[0] - 32) // 2, (image.shape[1] - 32) // 2
        crop = image[top : top + 32, left : left + 32].astype(np.float32) / 255
        mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
        return ((crop - mean) / std).transpose(2, 0, 1)[np.newaxis]

    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    top: dict[str, list[list[str]]] = {}

    def program(ort: Any) -> Iterator[np.ndarray]:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(
            model, sess_options=options, providers=["CPUExecutionProvider"]
        )
        input_name = session.get_inputs()[0].name
        output_name = session.get_outputs()[0].name
        assert session.get_inputs()[0].shape == ["N", 3, 32, 32]
        names = top.setdefault(ort.__name__, [])
        for image in images:
            (logits,) = session.run([output_name], {input_name: preprocess(image)})
            probabilities = softmax(logits[0])
            names.append([labels[i] for i in probabilities.argsort()[::-1][:5]])
            yield probabilities
        batch = np.concatenate([preprocess(image) for image in images])
        yield softmax(session.run(None, {input_name: batch})[0])

    *single, batch = _compare(program)
    np.testing.assert_allclose(batch, np.stack(single), rtol=1e-4)
    assert top["svod_onnx"] == top["onnxruntime"]


def _make_detector() -> bytes:
    """Detector over a grid: each cell of 8 by 8 pixels has a box, and a score per class."""
    rng = np.random.default_rng(2)
    model = onnx.parser.parse_model(f"""{HEAD}
    detector (float[1, 3, 64, 64] images, int64 max_boxes, float iou, float score)
        => (float[1, 64, 4] boxes, float[1, 2, 64] scores, int64[k, 3] selected) {{
        features = Conv<strides = [8, 8]>(images, weight)
        flat = Reshape(features, flat_shape)
        center_raw, size_raw, class_raw = Split<axis = 1>(flat, sizes)
        offset = Sigmoid(center_raw)
        center_grid = Add(offset, grid)
        center = Mul(center_grid, stride)
        size_exp = Exp(size_raw)
        size = Mul(size_exp, stride)
        box = Concat<axis = 1>(center, size)
        boxes = Transpose<perm = [0, 2, 1]>(box)
        scores = Sigmoid(class_raw)
        selected = NonMaxSuppression<center_point_box = 1>(boxes, scores, max_boxes, iou, score)
    }}""")
    y, x = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    return _fill(
        model,
        {
            "weight": rng.normal(0, 0.08, (6, 3, 8, 8)).astype(np.float32),
            "grid": np.stack([x.ravel(), y.ravel()]).astype(np.float32)[np.newaxis],
            "stride": np.array(8, np.float32),
            "flat_shape": np.array([1, 6, 64]),
            "sizes": np.array([2, 2, 2]),
        },
    )


def test_object_detection() -> None:
    model = _make_detector()
    rng = np.random.default_rng(3)
    images = [rng.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((48, 64), (100, 50), (64, 64))]

    def letterbox(image: np.ndarray) -> tuple[np.ndarray, float, int, int]:
        scale = 64 / max(image.shape[:2])
        height, width = (round(size * scale) for size in image.shape[:2])
        rows = (np.arange(height) / scale).astype(np.int64)
        columns = (np.arange(width) / scale).astype(np.int64)
        top, left = (64 - height) // 2, (64 - width) // 2
        padded = np.full((64, 64, 3), 114, np.uint8)
        padded[top : top + height, left : left + width] = image[rows][:, columns]
        batch = padded.transpose(2, 0, 1)[np.newaxis].astype(np.float32) / 255
        return batch, scale, top, left

    def program(ort: Any) -> Iterator[np.ndarray]:
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        for image in images:
            batch, scale, top, left = letterbox(image)
            boxes, scores, selected = session.run(
                names,
                {
                    "images": batch,
                    "max_boxes": np.array(5),
                    "iou": np.array(0.45, np.float32),
                    "score": np.array(0.3, np.float32),
                },
            )
            yield selected
            chosen = boxes[selected[:, 0], selected[:, 2]]
            chosen[:, :2] -= np.float32([left, top])
            yield chosen / np.float32(scale)
            yield scores[selected[:, 0], selected[:, 1], selected[:, 2]]

    results = _compare(program)
    assert all(selected.shape[0] > 0 for selected in results[::3])


def _make_encoder() -> bytes:
    """A transformer layer on token embeddings, with a mask of the padding."""
    rng = np.random.default_rng(4)
    model = onnx.parser.parse_model(f"""{HEAD}
    encoder (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask)
        => (float[batch, sequence, 16] last_hidden_state) {{
        x = Gather(embedding, input_ids)
        q = MatMul(x, wq)
        k = MatMul(x, wk)
        v = MatMul(x, wv)
        kt = Transpose<perm = [0, 2, 1]>(k)
        qk = MatMul(q, kt)
        scaled = Mul(qk, scale)
        mask = Unsqueeze(attention_mask, axis)
        mask_float = Cast<to = 1>(mask)
        inverse = Sub(one, mask_float)
        bias = Mul(inverse, low)
        masked = Add(scaled, bias)
        p = Softmax<axis = -1>(masked)
        a = MatMul(p, v)
        residual = Add(x, a)
        last_hidden_state = LayerNormalization<axis = -1>(residual, gamma, beta)
    }}""")
    weights = {
        name: rng.normal(0, 0.5, shape).astype(np.float32)
        for name, shape in {
            "embedding": (50, 16),
            "wq": (16, 16),
            "wk": (16, 16),
            "wv": (16, 16),
            "gamma": (16,),
            "beta": (16,),
        }.items()
    }
    weights |= {"scale": np.array(0.25, np.float32), "one": np.array(1, np.float32)}
    weights |= {"low": np.array(-1e9, np.float32), "axis": np.array([1])}
    return _fill(model, weights)


def test_text_encoding() -> None:
    model = _make_encoder()
    rng = np.random.default_rng(5)
    batches = [
        [rng.integers(1, 50, n).tolist() for n in lengths]
        for lengths in ([5], [3, 8], [12, 1, 7], [6, 6], [20], [4, 9, 2, 15])
    ]

    def program(ort: Any) -> Iterator[np.ndarray]:
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        accepted = {arg.name for arg in session.get_inputs()}
        for batch in batches:
            length = max(map(len, batch))
            ids = np.array([tokens + [0] * (length - len(tokens)) for tokens in batch])
            encoded = {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)}
            (hidden,) = session.run(None, {k: v for k, v in encoded.items() if k in accepted})
            mask = encoded["attention_mask"][:, :, np.newaxis].astype(np.float32)
            pooled = (hidden * mask).sum(axis=1) / mask.sum(axis=1).clip(min=1e-9)
            yield pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    results = _compare(program)
    assert [result.shape for result in results] == [(len(batch), 16) for batch in batches]


def _make_streaming(operator: str) -> bytes:
    """A recurrent layer with its state as inputs and outputs, and a projection."""
    rng = np.random.default_rng(6)
    gates, states = (4, ["h", "c"]) if operator == "LSTM" else (3, ["h"])
    helper = onnx.helper
    nodes = [
        helper.make_node(
            operator,
            ["chunk", "w", "r", "b", "", *states],
            ["y", *(f"{name}_next" for name in states)],
            hidden_size=8,
        ),
        helper.make_node("Squeeze", ["y", "axis"], ["flat"]),
        helper.make_node("MatMul", ["flat", "projection"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]

    def declare(name: str, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "streaming",
        [declare("chunk", "frames", 1, 6), *(declare(name, 1, 1, 8) for name in states)],
        [
            declare("probabilities", "frames", 1, 4),
            *(declare(f"{name}_next", 1, 1, 8) for name in states),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    shapes = {"w": (1, gates * 8, 6), "r": (1, gates * 8, 8), "b": (1, gates * 16)}
    shapes |= {"projection": (8, 4)}
    weights = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    return _fill(model, {**weights, "axis": np.array([1])})


@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_streaming(operator: str) -> None:
    model = _make_streaming(operator)
    signal = np.random.default_rng(7).normal(size=(37, 1, 6)).astype(np.float32)

    def program(ort: Any) -> Iterator[np.ndarray]:
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        state_names = [arg.name for arg in session.get_inputs()[1:]]

        def stream(lengths: Sequence[int]) -> Iterator[np.ndarray]:
            state = {name: np.zeros((1, 1, 8), np.float32) for name in state_names}
            start = 0
            for length in lengths:
                chunk = signal[start : start + length]
                start += length
                probabilities, *states = session.run(None, {"chunk": chunk, **state})
                state = dict(zip(state_names, states, strict=True))
                yield probabilities

        yield np.concatenate(list(stream([8, 8, 8, 8, 5])))
        yield np.concatenate(list(stream([1, 2, 3, 5, 7, 11, 8])))
        yield np.concatenate(list(stream([37])))

    by_eight, by_other, whole = _compare(program)
    np.testing.assert_allclose(by_eight, whole, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_other, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_streaming_by_a_binding(operator: str) -> None:
    model = _make_streaming(operator)
    signal = np.random.default_rng(8).normal(size=(24, 1, 6)).astype(np.float32)

    def program(ort: Any) -> Iterator[np.ndarray]:
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [arg.name for arg in session.get_inputs()[1:]]
        binding = session.io_binding()
        state = {
            name: ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 1, 8), np.float32))
            for name in names
        }
        for start in range(0, 24, 4):
            chunk = np.ascontiguousarray(signal[start : start + 4])
            binding.bind_cpu_input("chunk", chunk)
            for name, value in state.items():
                binding.bind_ortvalue_input(name, value)
            for output in session.get_outputs():
                binding.bind_output(output.name, "cpu")
            session.run_with_iobinding(binding)
            probabilities, *states = binding.get_outputs()
            state = dict(zip(names, states, strict=True))
            yield np.array(probabilities.numpy())

    assert len(_compare(program)) == 6
