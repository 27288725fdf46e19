"""One interface to three libraries, in which the workloads with loops are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Jax", "Library", "Numpy", "Svod"]


class Library:
    """Operations on arrays, and loops as in `jax.lax`."""

    name: str

    def array(self, value: Any) -> Any:
        """Convert an input to the library's array."""
        raise NotImplementedError

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the compiled function, whose calls block until the results are ready."""
        raise NotImplementedError

    def read(self, value: Any) -> Any:
        return np.asarray(value)


class Numpy(Library):
    """Operations of numpy, with Python loops."""

    name = "numpy"

    def __init__(self) -> None:
        self.exp, self.tanh, self.maximum = np.exp, np.tanh, np.maximum
        self.where, self.stack = np.where, np.stack

    def array(self, value: Any) -> Any:
        return value

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def keep(self, x: Any) -> Any:
        return x

    def argmax(self, x: Any, axis: int) -> Any:
        return np.argmax(x, axis)

    def iota(self, n: int) -> Any:
        return np.arange(n)

    def cast(self, x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def set(self, x: Any, index: Any, value: Any) -> Any:
        """Update elements of `x` in place, as a numpy program does."""
        x[index] = value
        return x

    def own(self, x: Any) -> Any:
        """Allocate memory that the function may overwrite."""
        return np.array(x)

    def scan(
        self, f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None
    ) -> Any:
        outputs: list[Any] = []
        for index in range(len(xs) if length is None else length):
            init, y = f(init, None if xs is None else xs[index])
            outputs.append(y)
        return init, None if outputs[0] is None else np.stack(outputs)

    def fori_loop(self, lower: int, upper: int, f: Callable[..., Any], init: Any) -> Any:
        for index in range(lower, upper):
            init = f(index, init)
        return init

    def while_loop(self, goes_on: Callable[..., Any], f: Callable[..., Any], init: Any) -> Any:
        while goes_on(init):
            init = f(init)
        return init


class Jax(Library):
    name = "jax"

    def __init__(self) -> None:
        import jax

        self._jax = jax
        np_of_jax, lax = jax.numpy, jax.lax
        self.exp, self.tanh, self.where, self.stack = (
            np_of_jax.exp,
            np_of_jax.tanh,
            np_of_jax.where,
            np_of_jax.stack,
        )
        self.maximum, self.argmax, self.iota = np_of_jax.maximum, np_of_jax.argmax, np_of_jax.arange
        self.sigmoid, self.keep = jax.nn.sigmoid, lax.optimization_barrier
        self.scan, self.fori_loop, self.while_loop = lax.scan, lax.fori_loop, lax.while_loop

    def array(self, value: Any) -> Any:
        return self._jax.numpy.asarray(value)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = self._jax.jit(function)
        return lambda *args: self._jax.block_until_ready(compiled(*args))

    def cast(self, x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    def set(self, x: Any, index: Any, value: Any) -> Any:
        return x.at[index].set(value)

    def own(self, x: Any) -> Any:
        return x


class Svod(Library):
    name = "svod"

    def __init__(self) -> None:
        import svod_tensor

        self._svod = svod_tensor
        self.scan, self.fori_loop, self.while_loop = (
            svod_tensor.scan,
            svod_tensor.fori_loop,
            svod_tensor.while_loop,
        )

    def array(self, value: Any) -> Any:
        return self._svod.Tensor(value).realize()

    def read(self, value: Any) -> Any:
        return value.numpy()

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self._svod.jit(function)

    def keep(self, x: Any) -> Any:
        return x.contiguous()

    def exp(self, x: Any) -> Any:
        return x.exp()

    def tanh(self, x: Any) -> Any:
        return x.tanh()

    def sigmoid(self, x: Any) -> Any:
        return x.sigmoid()

    def maximum(self, x: Any, y: Any) -> Any:
        return x.maximum(y)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return condition.where(x, y)

    def stack(self, xs: Any, axis: int = 0) -> Any:
        return self._svod.Tensor.stack(xs, axis=axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis)

    def iota(self, n: int) -> Any:
        return self._svod.Tensor.arange(n)

    def cast(self, x: Any, like: Any) -> Any:
        return x.cast(like.dtype)

    def set(self, x: Any, index: Any, value: Any) -> Any:
        x[index] = value
        return x

    def own(self, x: Any) -> Any:
        return x
