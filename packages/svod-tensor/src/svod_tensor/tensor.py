"""`Tensor`: methods that compute; `svod_tensor.ops` attaches the operations to its base class."""

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
    """An n-dimensional array that is computed lazily, when its values are read.

    Operations build a graph. `realize`, or any method that reads values (`numpy`, `item`, `tolist`,
    `bool(x)`), compiles the graph into kernels and runs them; `prepare` returns the compiled plan,
    to be run many times.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> (x @ x + 1).tolist()
        [[8.0, 11.0], [16.0, 23.0]]
    """

    __slots__ = ()

    def realize(self) -> Self:
        """Compute this tensor now, and return it. Other tensors that depend on it then read its
        buffer.

        Raises:
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = (Tensor([1, 2]) * 2).realize()
            >>> x.is_realized
            True
        """
        return self.realize_with(None)

    def realize_with(self, config: AnyConfig | None) -> Self:
        """`realize` with a configuration.

        Args:
            config: a `PrepareConfig`, an `OptimizerConfig` as a part of one, or None for the
                environment's.

        Raises:
            ConfigError: if it is not a configuration.
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import PrepareConfig, Tensor
            >>> (Tensor([1, 2]) * 2).realize_with(PrepareConfig()).tolist()
            [2, 4]
        """
        self.realize_batch_with((self,), config)
        return self

    @classmethod
    def realize_batch(cls, tensors: Iterable[Tensor]) -> None:
        """Compute several `tensors` together; common subgraphs are computed once.

        Raises:
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import Tensor
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
            ConfigError: if it is not a configuration.
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1, 2]) * 2
            >>> Tensor.realize_batch_with([x], None)
            >>> x.is_realized
            True
        """
        from svod_tensor._realize import realize_tensors

        realize_tensors([t.content for t in tensors], _config_resolver()(config))

    def prepare(self, *, donate: Iterable[Tensor] = ()) -> ExecutionPlan:
        """The plan that computes this tensor, which then reads the result of the last
        `plan.execute()`.

        Args:
            donate: tensors whose memory the plan may overwrite, also with results. They can no
                longer be used, and each execution after the first needs new buffers for them by
                `plan.replace_buffer`.

        Raises:
            EmptyScheduleError: if the tensor is realized already, or empty.
            DonationError: if a donated tensor has no memory that can be donated.
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import Tensor
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
            ConfigError: if it is not a configuration.
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import PrepareConfig, Tensor
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
        """One plan for several tensors, with an output for each tensor or shard, in order.

        Equal tensors have separate outputs; only a tensor that is passed twice has one buffer. The
        output of a realized tensor is its memory, of an empty tensor an empty buffer.

        Args:
            tensors: the tensors to compute.
            donate: as `prepare` takes it.

        Raises:
            EmptyScheduleError: if every tensor is realized or empty.
            DonationError: if a donated tensor has no memory that can be donated.
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import Tensor
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
            tensors: the tensors to compute.
            config: as `realize_with` takes it.
            donate: as `prepare` takes it.

        Raises:
            ConfigError: if it is not a configuration.
            CaptureError: if a function is being captured.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1.0]) * 2
            >>> Tensor.prepare_batch_with([x], None).execute()
            >>> x.tolist()
            [2.0]
        """
        from svod_tensor._realize import prepare_tensors

        config = _config_resolver()(config)
        donated = tuple(donate)
        # Donation is rare, and its module is imported only then.
        if not donated:
            return prepare_tensors([t.content for t in tensors], config)
        from svod_tensor.capture.donation import prepare_donating

        return prepare_donating(tuple(tensors), config, donated)


# The module imports the optimizer's options, which building graphs does not need.
@cache
def _config_resolver() -> Callable[[AnyConfig | None], PrepareConfig]:
    from svod_tensor.options import resolve_config

    return resolve_config
