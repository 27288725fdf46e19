"""The example language model trains alike in svod and torch, from equal weights and batches."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

from svod_tensor import manual_seed

torch = pytest.importorskip("torch")
functional = torch.nn.functional


class Model(torch.nn.Module):
    """The same network in torch, with the same parameter names."""

    def __init__(self, n_layers: int, width: int, n_heads: int, context: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.bytes, self.positions = (
            torch.nn.Embedding(256, width),
            torch.nn.Embedding(context, width),
        )
        self.blocks = torch.nn.ModuleList(self.make_block(width) for _ in range(n_layers))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, 256, bias=False)

    @staticmethod
    def make_block(width: int) -> torch.nn.ModuleDict:
        attention = {
            "qkv": torch.nn.Linear(width, 3 * width, bias=False),
            "out": torch.nn.Linear(width, width, bias=False),
        }
        return torch.nn.ModuleDict(
            {
                "norm1": torch.nn.LayerNorm(width),
                "attention": torch.nn.ModuleDict(attention),
                "norm2": torch.nn.LayerNorm(width),
                "up": torch.nn.Linear(width, 4 * width),
                "down": torch.nn.Linear(4 * width, width),
            }
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        batch, length = ids.shape
        x = self.bytes(ids) + self.positions.weight[:length]
        for block in self.blocks:
            heads = block["attention"]["qkv"](block["norm1"](x)).reshape(
                batch, length, 3, self.n_heads, -1
            )
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + block["attention"]["out"](mixed.transpose(1, 2).reshape(batch, length, -1))
            x = x + block["down"](
                functional.gelu(block["up"](block["norm2"](x)), approximate="tanh")
            )
        return self.head(self.norm(x))


def test_bits_per_byte_agree_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    example = importlib.import_module("language_model")
    n_layers, width, n_heads, context, batch, steps, rate, seed = 2, 64, 4, 32, 8, 60, 1e-3, 3
    manual_seed(seed)
    model = example.LanguageModel(n_layers, width, n_heads, context)
    theirs = Model(n_layers, width, n_heads, context)
    theirs.load_state_dict(
        {name: torch.tensor(value.numpy()) for name, value in model.state_dict().items()}
    )
    corpus = example.read_corpus()
    found = example.train(model, corpus, steps=steps, batch=batch, learning_rate=rate, seed=seed)

    optimizer = torch.optim.AdamW(theirs.parameters(), lr=rate, weight_decay=0.1)
    n_warm = max(steps // 20, 1)

    def get_factor(step: int) -> float:
        return (
            step / n_warm
            if step < n_warm
            else 0.5 * (1 + math.cos(math.pi * (step - n_warm) / (steps - n_warm)))
        )

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, get_factor)
    windows = example.sample_windows(corpus, steps * batch, context, seed)
    expected: list[float] = []
    for number in range(steps):
        given = torch.tensor(windows[number * batch : (number + 1) * batch].astype(np.int64))
        loss = functional.cross_entropy(
            theirs(given[:, :-1]).reshape(-1, 256), given[:, 1:].reshape(-1)
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        expected.append(loss.item() / math.log(2))
    np.testing.assert_allclose(found, expected, rtol=0.01)
