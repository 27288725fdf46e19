"""Learn to draw handwritten digits: a diffusion model, which removes noise step by step.

    python examples/diffusion.py                    # some minutes; the picture shows ten of each digit
    python examples/diffusion.py --steps 50 --levels 20

The network learns which noise was added to an image of scikit-learn's digits. To draw, it starts
from noise alone and removes some of what it sees, level by level: a `fori_loop`, so that all levels
are one execution plan.

Source: Ho et al., Denoising Diffusion Probabilistic Models (2020), algorithm 1; Song et al.,
Denoising Diffusion Implicit Models (2021), equation 12; Nichol and Dhariwal, Improved Denoising
Diffusion Probabilistic Models (2021), section 3.2 (the schedule)."""

from __future__ import annotations

import argparse
import math
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import svod_nn as nn
from svod_nn import schedules
from svod_tensor import Generator, Tensor, fori_loop, jit, manual_seed

N_PIXELS = 64
N_DIGITS = 10


def make_levels(count: int) -> Tensor:
    """How much of an image's variance is left at each level of noise, of shape (count,): from
    nearly all to nearly nothing.
    """
    angles = (np.arange(1, count + 1) / count * 0.99 + 0.008) / 1.008 * math.pi / 2
    return Tensor((np.cos(angles) ** 2).astype(np.float32))


class Denoiser(nn.Module):
    """The noise in images (n, 64) of given digits (n,) at given levels (n,), between 0 and 1."""

    def __init__(self, width: int, n_blocks: int) -> None:
        self.width = width
        self.enter = nn.Linear(N_PIXELS, width)
        self.digit = nn.Embedding(N_DIGITS, width)
        self.level = nn.Linear(width, width)
        self.blocks = [
            {
                "norm": nn.LayerNorm(width),
                "up": nn.Linear(width, 2 * width),
                "down": nn.Linear(2 * width, width),
            }
            for _ in range(n_blocks)
        ]
        self.leave = nn.Linear(width, N_PIXELS)

    def forward(self, images: Tensor, levels: Tensor, digits: Tensor) -> Tensor:
        condition = self.level(self.describe(levels)).silu() + self.digit(digits)
        x = self.enter(images)
        for block in self.blocks:
            x = x + block["down"](block["up"](block["norm"](x) + condition).silu())
        return self.leave(x)

    def describe(self, levels: Tensor) -> Tensor:
        """Waves of many lengths, of shape (n, width), which tell near levels apart."""
        frequencies = Tensor(np.geomspace(1, 1000, self.width // 2).astype(np.float32))
        angles = levels.unsqueeze(-1) * frequencies
        return angles.sin().cat(angles.cos(), axis=-1)


def read_digits() -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Images (1797, 64) with values from -1 to 1, and which digits they show."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 8 - 1).astype(np.float32), labels.astype(np.int32)


def train(
    model: Denoiser, kept: Tensor, generator: Generator, *, steps: int, batch: int
) -> list[float]:
    """The loss of each step."""
    n_warm = max(steps // 20, 1)
    schedule = schedules.warm_up(schedules.cosine(2e-3, max(steps - n_warm, 1)), n_warm)
    optimizer = nn.AdamW(model, schedule, weight_decay=0.0)
    (levels,) = kept.shape

    def get_loss(model: Denoiser, images: Tensor, digits: Tensor) -> Tensor:
        level = Tensor.randint(batch, high=levels, generator=generator)
        noise = Tensor.randn(batch, N_PIXELS, generator=generator)
        left = kept[level].unsqueeze(-1)
        seen = left.sqrt() * images + (1 - left).sqrt() * noise
        return nn.mse_loss(model(seen, level / levels, digits), noise)

    @jit
    def step(images: Tensor, digits: Tensor) -> Tensor:
        value, gradients = nn.value_and_grad(model, get_loss)(images, digits)
        optimizer.update(gradients)
        return value

    losses: list[float] = []
    while len(losses) < steps:
        for images, digits in nn.batches(read_digits(), batch, generator=generator, drop_last=True):
            losses.append(step(images, digits).item())
            if len(losses) == steps:
                break
    return losses


def draw(model: Denoiser, kept: Tensor, digits: Tensor, generator: Generator) -> Tensor:
    """Images (n, 64) of given digits, from noise."""
    (n,), (levels,) = digits.shape, kept.shape

    def remove(number: Tensor, images: Tensor) -> Tensor:
        level = levels - 1 - number
        left, next_left = kept[level], (level > 0).where(kept[(level - 1).maximum(0)], 1.0)
        noise = model(images, (level / levels).expand(n), digits)
        clean = ((images - (1 - left).sqrt() * noise) / left.sqrt()).clip(-1, 1)
        # What is noise beside an image within its limits.
        noise = (images - left.sqrt() * clean) / (1 - left).sqrt()
        return next_left.sqrt() * clean + (1 - next_left).sqrt() * noise

    return fori_loop(0, levels, remove, Tensor.randn(n, N_PIXELS, generator=generator))


def plot(images: NDArray[np.float32], path: str) -> None:
    """Save images of shape (100, 64), ten in a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grid = images.reshape(10, 10, 8, 8).transpose(0, 2, 1, 3).reshape(80, 80)
    figure, axes = pyplot.subplots(figsize=(5, 5))
    axes.imshow(grid, cmap="gray_r", vmin=-1, vmax=1)
    axes.set_axis_off()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--levels", type=int, default=100)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="diffusion.png", help="where the picture is saved")
    given = parser.parse_args()
    kept, generator = make_levels(given.levels), Generator(given.seed)
    manual_seed(given.seed)
    model = Denoiser(given.width, given.blocks)
    started = perf_counter()
    losses = train(model, kept, generator, steps=given.steps, batch=given.batch)
    print(
        f"{given.steps} steps in {perf_counter() - started:.1f} s, the loss is"
        f" {np.mean(losses[-100:]):.4f}"
    )
    started = perf_counter()
    digits = Tensor(np.repeat(np.arange(N_DIGITS), 10).astype(np.int32))
    images = jit(lambda digits: draw(model, kept, digits, generator))(digits).numpy()
    print(
        f"100 images in {perf_counter() - started:.2f} s, with values from {images.min():.2f} to"
        f" {images.max():.2f}"
    )
    plot(images, given.plot)


if __name__ == "__main__":
    main()
