"""Embedding of integers as rows of a table."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import normal
from svod_tensor import Generator, Tensor

__all__ = ["Embedding"]


class Embedding(Module):
    """Embedding: a table of vectors, gathered by index. Negative indices count from the end.

    A call maps integers of any shape (...) to a tensor of shape (..., embedding_dim).

    An index that is out of range gives zeros, not an error, because values are not inspected while
    a graph is built. With `SVOD_CHECK_OPERANDS=1`, or `PrepareConfig(check_operands=True)`, it
    raises an `IndexTensorError` at execution, with the location of the index and the line that
    built the operation.

    Args:
        num_embeddings: number of rows of the table.
        embedding_dim: number of elements of each row.
        padding_idx: index of a row that is initialized to zeros and gets no gradient; it may be
            negative.
        generator: random generator of the initial values, which are standard normal.

    Attributes:
        weight: table of shape (num_embeddings, embedding_dim).

    Raises:
        LayerArgumentError: if `padding_idx` is out of range.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
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
            problem = (
                f"padding_idx={padding_idx} is out of bounds for num_embeddings={num_embeddings}"
            )
            raise LayerArgumentError(name="Embedding", problem=problem)
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        # As in torch: a lookup sums over nothing, so the scale does not depend on a fan.
        self.weight = normal((num_embeddings, embedding_dim), generator=generator)
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0.0

    def forward(self, indices: Tensor) -> Tensor:
        """Gather the rows of integers of shape (...), as (..., embedding_dim)."""
        rows = indices.embedding(self.weight)
        if self.padding_idx is None:
            return rows
        # The same values without a gradient, so that training leaves the padding row at 0.
        is_padding = (indices == self.padding_idx) | (
            indices == self.padding_idx - self.num_embeddings
        )
        return is_padding.unsqueeze(-1).where(rows.detach(), rows)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
