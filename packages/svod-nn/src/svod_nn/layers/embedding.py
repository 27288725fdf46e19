"""Rows of a table for integers."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import normal
from svod_tensor import Generator, Tensor

__all__ = ["Embedding"]


class Embedding(Module):
    """The row of a table that each integer names; a negative one counts from the end.

    Integers are values, which nobody looks at while a graph is built: one that names no row gives
    zeros, and no error. `SVOD_CHECK_OPERANDS=1`, or `PrepareConfig(check_operands=True)`, makes it
    a `PositionError` of the execution, which says where it stands and which line built the
    operation.

    Args:
        num_embeddings: how many rows the table has.
        embedding_dim: how many elements a row has.
        padding_idx: a row that begins as zeros and gets no gradient; a negative one counts from the
            end.
        generator: what the first values are drawn from, with mean 0 and variance 1.

    Attributes:
        weight: of shape (num_embeddings, embedding_dim).

    Example:
        >>> nn.Embedding(10, 4, padding_idx=0)(Tensor([[0, 3, 9]])).shape
        (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            problem = f"padding_idx={padding_idx} is no row of {num_embeddings}"
            raise LayerArgumentError(name="Embedding", problem=problem)
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = normal((num_embeddings, embedding_dim), generator=generator)
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0.0

    def forward(self, positions: Tensor) -> Tensor:
        """From integers of any shape to rows: one axis more."""
        rows = positions.embedding(self.weight)
        if self.padding_idx is None:
            return rows
        return (positions == self.padding_idx).unsqueeze(-1).where(rows.detach(), rows)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
