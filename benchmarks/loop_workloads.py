"""Workloads of `loops.py`: recurrences, simulations, searches and a decoder, for all libraries.

Each workload is a function of a library (`loop_libraries.py`) and inputs. numpy in float64 gives
the expected results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Workload", "make_workloads", "run_lstm", "run_tiny"]

Array = Any


@dataclass(frozen=True)
class Workload:
    """Computation with many iterations.

    Attributes:
        name: name in the table.
        run: function from a library and inputs to results.
        inputs: float32 or integer arrays.
        n_steps: number of iterations; 0 if it depends on the data.
        tolerance: largest error relative to float64, over the largest element.
    """

    name: str
    run: Callable[..., Any]
    inputs: tuple[Array, ...]
    n_steps: int
    tolerance: float = 1e-3


def run_tiny(n_steps: int, *, is_mixing: bool = False) -> Callable[..., Any]:
    """Ten separate operations on 16 elements per iteration.

    If `mixing`, every second operation reads a different element.
    """

    def run(lib: Any, x: Any, y: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            for _ in range(5):
                x = lib.keep((x[::-1] if is_mixing else x) + y)
                x = lib.keep(x * 0.5)
            return x

        return lib.fori_loop(0, n_steps, step, x)

    return run


def run_kalman(lib: Any, x: Any, p: Any, f: Any, h: Any, q: Any, r: Any, zs: Any) -> Any:
    """Kalman filter with a state of four numbers, two of which are measured."""

    def step(carry: Any, z: Any) -> Any:
        x, p = carry
        x, p = f @ x, f @ p @ f.T + q
        s = h @ p @ h.T + r
        det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = lib.stack([s[1, 1], -s[0, 1], -s[1, 0], s[0, 0]]).reshape(2, 2) / det
        gain = p @ h.T @ inverse
        x, p = x + gain @ (z - h @ x), p - gain @ (h @ p)
        return (x, p), x

    return lib.scan(step, (x, p), zs)[1]


def run_lorenz(n_steps: int, dt: float = 1e-3) -> Callable[..., Any]:
    """Fourth-order Runge-Kutta method for many Lorenz systems at once."""

    def derive(x: Any, y: Any, z: Any) -> Any:
        return (y - x) * 10.0, x * (28.0 - z) - y, x * y - z * (8 / 3)

    def run(lib: Any, x: Any, y: Any, z: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            first = derive(*state)
            second = derive(*(s + k * (dt / 2) for s, k in zip(state, first, strict=True)))
            third = derive(*(s + k * (dt / 2) for s, k in zip(state, second, strict=True)))
            last = derive(*(s + k * dt for s, k in zip(state, third, strict=True)))
            slopes = zip(state, first, second, third, last, strict=True)
            return tuple(s + (a + b * 2 + c * 2 + d) * (dt / 6) for s, a, b, c, d in slopes)

        return lib.fori_loop(0, n_steps, step, (x, y, z))

    return run


def run_ode(lib: Any, x: Any, a: Any, ts: Any) -> Any:
    """The same method for one system of three equations with a matrix, returning every state."""
    dt = 1e-2

    def derive(x: Any, t: Any) -> Any:
        return a @ x + lib.tanh(x) * t

    def step(x: Any, t: Any) -> Any:
        first = derive(x, t)
        second = derive(x + first * (dt / 2), t)
        third = derive(x + second * (dt / 2), t)
        last = derive(x + third * dt, t)
        x = x + (first + second * 2 + third * 2 + last) * (dt / 6)
        return x, x

    return lib.scan(step, x, ts)[1]


def run_mandelbrot(n_steps: int) -> Callable[..., Any]:
    """Mandelbrot set: number of iterations until each point diverges."""

    def run(lib: Any, cr: Any, ci: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            zr, zi, count = carry
            rr, ii = zr * zr, zi * zi
            inside = rr + ii < 4.0
            zi = lib.where(inside, zr * zi * 2.0 + ci, zi)
            zr = lib.where(inside, rr - ii + cr, zr)
            return zr, zi, count + lib.cast(inside, cr)

        return lib.fori_loop(0, n_steps, step, (cr * 0.0, ci * 0.0, cr * 0.0))[2]

    return run


def run_jacobi(n_steps: int) -> Callable[..., Any]:
    """Relaxation: each point becomes the mean of its four neighbours; the border is fixed."""
    inner = (slice(1, -1), slice(1, -1))

    def run(lib: Any, u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            return lib.set(
                u, inner, (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) * 0.25
            )

        return lib.fori_loop(0, n_steps, step, lib.own(u))

    return run


def run_lstm(lib: Any, xs: Any, h: Any, c: Any, enter: Any, stay: Any, bias: Any) -> Any:
    """Recurrent layer; the products of the inputs are computed before the loop."""
    n_steps, batch, width = xs.shape[0], xs.shape[1], stay.shape[0]
    entered = (xs.reshape(n_steps * batch, xs.shape[2]) @ enter + bias).reshape(
        n_steps, batch, 4 * width
    )

    def step(carry: Any, entered: Any) -> Any:
        h, c = carry
        gates = entered + h @ stay
        i, f, g, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
        c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
        h = lib.sigmoid(o) * lib.tanh(c)
        return (h, c), h

    return lib.scan(step, (h, c), entered)[1]


def run_kmeans(lib: Any, points: Any, centres: Any) -> Any:
    """k-means clustering, until no centre moves."""
    n_centres = centres.shape[0]
    numbers = lib.iota(n_centres)

    def step(carry: Any) -> Any:
        centres, _, n_steps = carry
        # The squared norm of the point is the same for each centre.
        scores = points @ centres.T - (centres * centres).sum(1) * 0.5
        nearest = lib.cast(lib.argmax(scores, 1)[:, None] == numbers, points)
        counts = nearest.sum(0)
        moved = (nearest.T @ points) / lib.maximum(counts, counts * 0 + 1.0)[:, None]
        return moved, ((moved - centres) * (moved - centres)).sum(), n_steps + 1

    def goes_on(carry: Any) -> Any:
        return (carry[1] > 1e-8) & (carry[2] < 100)

    far = (centres * 0).sum() + 1.0
    # A tensor operand, since the carry of a loop needs a fixed dtype.
    zero = lib.argmax(centres[:1, :1], 0)[0] * 0
    return lib.while_loop(goes_on, step, (centres, far, zero))[0]


_HEADS = 4


def run_decoder(n_tokens: int) -> Callable[..., Any]:
    """Greedy decoding of tokens with a cache of keys and values."""

    def norm(x: Any) -> Any:
        return x / ((x * x).mean() + 1e-6) ** 0.5

    def run(lib: Any, embedding: Any, places: Any, *weights: Any) -> Any:
        layers = [weights[n : n + 6] for n in range(0, len(weights), 6)]
        width, length = embedding.shape[1], layers[0][4].shape[0]
        size = width // _HEADS
        positions = lib.iota(length)

        def step(i: Any, carry: Any) -> Any:
            token, tokens, caches = carry
            x, kept = embedding[token] + places[i], []
            for (qkv, out, up, down, _, _), (keys, values) in zip(layers, caches, strict=True):
                projected = norm(x) @ qkv
                q, k, v = (
                    projected[n * width : (n + 1) * width].reshape(_HEADS, size) for n in range(3)
                )
                keys, values = lib.set(keys, i, k), lib.set(values, i, v)
                kept.append((keys, values))
                scores = (keys * q).sum(2) * size**-0.5
                scores = lib.where(positions[:, None] <= i, scores, scores * 0 - 1e9)
                power = lib.exp(scores - scores.max(0))
                mixed = (power[:, :, None] * values).sum(0) / power.sum(0)[:, None]
                x = x + mixed.reshape(width) @ out
                x = x + lib.maximum(norm(x) @ up, up[0, 0] * 0) @ down
            token = lib.argmax(embedding @ norm(x), 0)
            return token, lib.set(tokens, i, token), kept

        caches = [(lib.own(layer[4]), lib.own(layer[5])) for layer in layers]
        first = lib.argmax(embedding[:, 0], 0)
        tokens = lib.cast(lib.own(lib.iota(n_tokens)), first) * 0
        return lib.fori_loop(0, n_tokens, step, (first, tokens, caches))[1]

    return run


def make_workloads(*, is_quick: bool = False) -> list[Workload]:
    """Return all workloads, with small sizes if quick."""
    make = np.random.default_rng(5)

    def normal(*shape: int) -> Array:
        return make.standard_normal(shape, dtype=np.float32)

    def lstm(n_steps: int, batch: int, width: int) -> Workload:
        scale = np.float32(width**-0.5)
        inputs = (
            normal(n_steps, batch, width),
            np.zeros((batch, width), np.float32),
            np.zeros((batch, width), np.float32),
            normal(width, 4 * width) * scale,
            normal(width, 4 * width) * scale,
            normal(4 * width) * scale,
        )
        return Workload(f"lstm{n_steps}-{batch}x{width}", run_lstm, inputs, n_steps)

    small = 16 if is_quick else 1
    side, grid, systems = 512 // small, 1024 // small, 4096 // small
    re, im = np.meshgrid(np.linspace(-2.2, 0.8, side), np.linspace(-1.5, 1.5, side))
    n_tiny, n_long = 1000 // small, 1000 // small
    u = np.zeros((grid, grid), np.float32)
    u[0] = 1
    return [
        Workload(f"tiny10 x{n_tiny}", run_tiny(n_tiny), (normal(16), normal(16)), n_tiny),
        Workload(
            f"mixing10 x{n_tiny}",
            run_tiny(n_tiny, is_mixing=True),
            (normal(16), normal(16)),
            n_tiny,
        ),
        make_kalman(500 // small, normal),
        Workload(
            f"lorenz{systems} x{n_long}",
            run_lorenz(n_long),
            tuple(normal(systems) + 5 for _ in range(3)),
            n_long,
        ),
        Workload(
            f"mandelbrot{side} x50",
            run_mandelbrot(50),
            (re.astype(np.float32), im.astype(np.float32)),
            50,
            tolerance=1.0,
        ),
        Workload(f"jacobi{grid} x20", run_jacobi(20), (u,), 20),
        Workload(f"jacobi{grid} x{n_long}", run_jacobi(n_long), (u,), n_long),
        *(lstm(512 // small, batch, width) for batch in (1, 32) for width in (128, 256)),
        make_kmeans(20_000 // small, normal),
        make_decoder(50 // min(small, 5), normal),
        make_ode(n_long, normal),
    ]


def make_kalman(n_steps: int, normal: Callable[..., Array]) -> Workload:
    f = np.eye(4, dtype=np.float32)
    f[0, 2] = f[1, 3] = 0.1
    h = np.eye(2, 4, dtype=np.float32)
    q, r = 0.01 * np.eye(4, dtype=np.float32), 0.1 * np.eye(2, dtype=np.float32)
    zs = np.cumsum(0.1 * normal(n_steps, 2), 0, dtype=np.float32)
    inputs = (np.zeros(4, np.float32), np.eye(4, dtype=np.float32), f, h, q, r, zs)
    return Workload(f"kalman x{n_steps}", run_kalman, inputs, n_steps)


def make_kmeans(
    n_points: int, normal: Callable[..., Array], n_centres: int = 16, width: int = 8
) -> Workload:
    means = normal(n_centres, width) * 2
    points = np.concatenate([m + normal(n_points // n_centres, width) for m in means])
    points = points[np.random.default_rng(1).permutation(len(points))]
    return Workload("kmeans", run_kmeans, (points, points[:n_centres].copy()), 0, tolerance=2e-2)


def make_decoder(
    n_tokens: int, normal: Callable[..., Array], n_layers: int = 2, width: int = 256
) -> Workload:
    size, n_words = width // _HEADS, 1000
    inputs = [normal(n_words, width), normal(64, width)]
    for _ in range(n_layers):
        shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
        inputs += [normal(*shape) * np.float32(0.5 * shape[0] ** -0.5) for shape in shapes]
        inputs += [np.zeros((64, _HEADS, size), np.float32) for _ in range(2)]
    return Workload(
        f"decoder x{n_tokens}", run_decoder(n_tokens), tuple(inputs), n_tokens, tolerance=0.0
    )


def make_ode(n_steps: int, normal: Callable[..., Array]) -> Workload:
    a = np.array([[-0.5, -2.0, 0.1], [2.0, -0.5, 0.3], [0.1, -0.3, -0.7]], np.float32)
    ts = np.sin(np.linspace(0, 6, n_steps)).astype(np.float32)
    return Workload(f"ode3 x{n_steps}", run_ode, (normal(3), a, ts), n_steps)
