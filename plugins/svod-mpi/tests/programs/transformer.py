"""Train a transformer on meshes, and compare with a training without a mesh.

Arguments: a file, and `thorough` to train in every way on four processes too.

One process also trains without a mesh, and writes the losses, parameters and moments to the file,
which runs of several processes read.

All numbers are float64, so the runs differ only by the rounding of sums. A missing term of a
gradient, or another mask of dropout, changes the first digits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import svod_mpi
import svod_nn as nn
from svod_tensor import Tensor, jit, manual_seed

N = MPI.COMM_WORLD.Get_size()
N_STEPS, N_SENTENCES, N_WORDS, VOCABULARY = 50, 6, 5, 8
WIDTH, N_HEADS, N_HIDDEN = 8, 4, 8


class Model(nn.Module):
    """Predict the next word: embeddings, two blocks of attention and MLP, and a linear layer."""

    def __init__(self) -> None:
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(N_WORDS, WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.blocks = [
            nn.TransformerEncoderLayer(
                WIDTH, N_HEADS, N_HIDDEN, 0.2, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(2)
        ]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        x = self.dropout(self.words(words) + self.positions(Tensor.arange(N_WORDS)))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.head(self.norm(x))


def get_loss(model: Model, words: Tensor, following: Tensor) -> Tensor:
    return nn.cross_entropy(model(words).flatten(0, 1), following.flatten())


def make_model() -> Model:
    """The same model at each call. The projections of a block's attention are not stacked, so that
    each can be split by its heads."""
    manual_seed(0)
    model = Model().cast("float64")
    for block in model.blocks:
        attention = block.self_attn
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name, weight in zip(names, attention.in_proj_weight.split(WIDTH), strict=True):
            setattr(attention, name, weight.contiguous().realize())
        attention.in_proj_weight = None
    return model


def split_layers(model: Model, mesh: svod_mpi.Mesh) -> None:
    """Split each pair of linear layers by columns and rows, and the vocabulary."""
    for block in model.blocks:
        attention = block.self_attn
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
            setattr(attention, name, getattr(attention, name).shard(mesh, {"model": 0}))
        attention.out_proj.weight = attention.out_proj.weight.shard(mesh, {"model": 1})
        block.linear1.weight = block.linear1.weight.shard(mesh, {"model": 0})
        block.linear1.bias = block.linear1.bias.shard(mesh, {"model": 0})
        block.linear2.weight = block.linear2.weight.shard(mesh, {"model": 1})
    model.head.weight = model.head.weight.shard(mesh, {"model": 0})
    model.head.bias = model.head.bias.shard(mesh, {"model": 0})


def split_state(optimizer: nn.Optimizer, mesh: svod_mpi.Mesh) -> None:
    for slots in optimizer.state["slots"].values():
        slots.update({name: moment.shard(mesh, {"data": 0}) for name, moment in slots.items()})


def train(
    model: Model, optimizer: nn.Optimizer, distribute: Callable[[Tensor], Tensor]
) -> dict[str, np.ndarray]:
    """Return the losses of all steps, and the parameters and moments after the last step."""

    @jit
    def step(words: Tensor, following: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, get_loss)(words, following)
        optimizer.update(gradients)
        return loss

    manual_seed(1)
    rng = np.random.default_rng(2)
    losses: list[float] = []
    for _ in range(N_STEPS):
        text = rng.integers(0, VOCABULARY, (N_SENTENCES, N_WORDS + 1))
        losses.append(step(*(distribute(Tensor(x)) for x in (text[:, :-1], text[:, 1:]))).item())
    values = {"losses": np.array(losses)}
    values.update({name: x.numpy() for name, x in model.state_dict().items()})
    for kind, slots in optimizer.state["slots"].items():
        values.update({f"{kind}.{name}": x.numpy() for name, x in slots.items()})
    return values


def train_without_mesh() -> dict[str, np.ndarray]:
    model = make_model()
    return train(model, nn.AdamW(model, lr=1e-2), lambda x: x)


def train_on_mesh(*, has_split_state: bool = False, **sizes: int) -> dict[str, np.ndarray]:
    mesh = svod_mpi.Mesh(**sizes)
    model = make_model().shard(mesh)
    if "model" in sizes:
        split_layers(model, mesh)
    optimizer = nn.AdamW(model, lr=1e-2)
    if has_split_state:
        split_state(optimizer, mesh)
    axes = {"data": 0} if "data" in sizes else None
    return train(model, optimizer, lambda x: x.shard(mesh, axes))


def check(values: dict[str, np.ndarray], expected: dict[str, np.ndarray], way: str) -> None:
    assert values.keys() == expected.keys()
    for name, value in values.items():
        reference = expected[name]
        if name.endswith("in_proj_bias"):
            # A softmax does not depend on the biases of keys. Their gradients are rounding errors,
            # which Adam divides by their own size.
            value, reference = (np.delete(x, slice(WIDTH, 2 * WIDTH)) for x in (value, reference))
        # Some thousand times the rounding error that was seen.
        atol = 1e-12 * abs(reference).max()
        np.testing.assert_allclose(value, reference, rtol=0, atol=atol, err_msg=f"{way}: {name}")


def main(path: str, *, is_thorough: bool) -> None:
    """Train in each way, or on four processes only in all ways at once if not `is_thorough`."""
    if N == 1:
        np.savez(path, **train_without_mesh())
    with np.load(path) as file:
        expected = dict(file)
    if N == 4:
        check(train_on_mesh(data=2, model=2, has_split_state=True), expected, "all at once")
    if N < 4 or is_thorough:
        check(train_on_mesh(data=N), expected, "data parallel")
        check(train_on_mesh(model=N), expected, "tensor parallel")
        check(train_on_mesh(data=N, has_split_state=True), expected, "split state")


if __name__ == "__main__":
    main(sys.argv[1], is_thorough="thorough" in sys.argv)
