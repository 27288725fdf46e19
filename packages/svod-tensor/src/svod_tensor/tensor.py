"""`Tensor`: computing the results of operations, which `svod_tensor.ops` attaches to its base as
methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Self

from svod_tensor.ops.core.methods import Methods

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.options import AnyConfig, PrepareConfig

__all__ = ["Tensor"]


class Tensor(Methods):
    """An n-dimensional array whose values are computed when they are asked for.

    Operations build a graph. `realize`, or anything that reads values (`numpy`, `item`, `tolist`,
    `bool(x)`), compiles the graph into kernels and runs them; `prepare` gives the compiled plan, to
    be run many times.

    Example:
        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> (x @ x + 1).tolist()
        [[8.0, 11.0], [16.0, 23.0]]
    """

    __slots__ = ()

    def realize(self) -> Self:
        """Compute this tensor now, and return it. Other tensors whose graphs contain it then read
        its buffer.

        Raises:
            CaptureError: if a function is captured just now.

        Example:
            >>> x = (Tensor([1, 2]) * 2).realize()
            >>> x.is_realized
            True
        """
        return self.realize_with(None)

    def realize_with(self, config: AnyConfig | None) -> Self:
        """`realize` with a configuration.

        Args:
            config: a `PrepareConfig`, an `OptimizerConfig` as a part of one, or None for that of
                the environment.

        Raises:
            ConfigError: if it is no configuration.

        Example:
            >>> from svod_tensor import PrepareConfig
            >>> (Tensor([1, 2]) * 2).realize_with(PrepareConfig()).tolist()
            [2, 4]
        """
        self.realize_batch_with((self,), config)
        return self

    @classmethod
    def realize_batch(cls, tensors: Iterable[Tensor]) -> None:
        """Compute several `tensors` together, what they share only once.

        Example:
            >>> x = Tensor([1, 2]) * 2
            >>> y, z = x + 1, x - 1
            >>> Tensor.realize_batch([y, z])
            >>> y.is_realized, z.is_realized
            (True, True)
        """
        cls.realize_batch_with(tensors, None)

    @classmethod
    def realize_batch_with(cls, tensors: Iterable[Tensor], config: AnyConfig | None) -> None:
        """`realize_batch` of `tensors` with a configuration, `config`, as `realize_with` takes it.

        Raises:
            ConfigError: if it is no configuration.

        Example:
            >>> x = Tensor([1, 2]) * 2
            >>> Tensor.realize_batch_with([x], None)
            >>> x.is_realized
            True
        """
        from svod_tensor._realize import realize_tensors

        realize_tensors([t.content for t in tensors], _config_resolver()(config))

    def prepare(self, *, donate: Iterable[Tensor] = ()) -> ExecutionPlan:
        """The plan that computes this tensor, which reads what `plan.execute()` last wrote.

        Args:
            donate: tensors whose memory the plan may overwrite, with results too. They cannot be
                used any more, and each execution but the first needs new content for them by
                `plan.replace_buffer`.

        Raises:
            EmptyScheduleError: if the tensor is realized already, or empty.
            DonationError: if a donated tensor has no memory that can be given away.

        Example:
            >>> x = Tensor([1.0, 2.0]) * 2
            >>> plan = x.prepare()
            >>> plan.execute()
            >>> x.tolist()
            [2.0, 4.0]
        """
        return self.prepare_with(None, donate=donate)

    def prepare_with(
        self, config: AnyConfig | None, *, donate: Iterable[Tensor] = ()
    ) -> ExecutionPlan:
        """`prepare` with a configuration.

        Args:
            config: as `realize_with` takes it.
            donate: as `prepare` takes it.

        Raises:
            ConfigError: if it is no configuration.

        Example:
            >>> from svod_tensor import PrepareConfig
            >>> x = Tensor([1.0, 2.0]) * 2
            >>> x.prepare_with(PrepareConfig()).execute()
            >>> x.tolist()
            [2.0, 4.0]
        """
        return self.prepare_batch_with((self,), config, donate=donate)

    @classmethod
    def prepare_batch(
        cls, tensors: Iterable[Tensor], *, donate: Iterable[Tensor] = ()
    ) -> ExecutionPlan:
        """One plan for several tensors, with an output for each of them, in order; for a sharded
        one, one for each shard.

        Equal tensors have outputs of their own too; only a tensor that is given twice has one
        buffer. The output of a tensor that is realized already is its memory, that of a tensor
        without elements an empty buffer.

        Args:
            tensors: what the plan computes.
            donate: as `prepare` takes it.

        Raises:
            EmptyScheduleError: if there is nothing to compute.

        Example:
            >>> x, y = Tensor([1.0]) * 2, Tensor([1.0]) * 3
            >>> Tensor.prepare_batch([x, y]).execute()
            >>> x.tolist(), y.tolist()
            ([2.0], [3.0])
        """
        return cls.prepare_batch_with(tensors, None, donate=donate)

    @classmethod
    def prepare_batch_with(
        cls, tensors: Iterable[Tensor], config: AnyConfig | None, *, donate: Iterable[Tensor] = ()
    ) -> ExecutionPlan:
        """`prepare_batch` with a configuration.

        Args:
            tensors: what the plan computes.
            config: as `realize_with` takes it.
            donate: as `prepare` takes it.

        Raises:
            ConfigError: if it is no configuration.

        Example:
            >>> x = Tensor([1.0]) * 2
            >>> Tensor.prepare_batch_with([x], None).execute()
            >>> x.tolist()
            [2.0]
        """
        from svod_tensor._realize import prepare_tensors

        config = _config_resolver()(config)
        donated = tuple(donate)
        if not donated:
            return prepare_tensors([t.content for t in tensors], config)
        from svod_tensor.capture.donation import prepare_donating

        return prepare_donating(tuple(tensors), config, donated)


@cache
def _config_resolver() -> Callable[[AnyConfig | None], PrepareConfig]:
    from svod_tensor.options import resolve_config

    return resolve_config
