"""Train a diffusion model that generates handwritten digits by removing noise step by step.

    python examples/diffusion.py                    # some minutes; the plot shows ten of each digit
    python examples/diffusion.py --steps 50 --levels 20

The network learns to predict the noise that was added to an image of scikit-learn's digits.
Sampling starts from pure noise and removes some predicted noise at each level. The levels are a
`fori_loop`, so that sampling is one execution plan.

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
    """Return the signal fraction (alpha bar) of the variance by noise level, of shape (count,).

    It falls from nearly 1 to nearly 0.
    """
    angles = (np.arange(1, count + 1) / count * 0.99 + 0.008) / 1.008 * math.pi / 2
    return Tensor((np.cos(angles) ** 2).astype(np.float32))


class Denoiser(nn.Module):
    """Network that predicts the noise in images (n, 64) of digits (n,) at levels (n,) in [0, 1]."""

    def __init__(self, width: int, n_blocks: int) -> None:
        self.width = width
        self.input = nn.Linear(N_PIXELS, width)
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
        self.output = nn.Linear(width, N_PIXELS)

    def forward(self, images: Tensor, levels: Tensor, digits: Tensor) -> Tensor:
        condition = self.level(self.embed_levels(levels)).silu() + self.digit(digits)
        x = self.input(images)
        for block in self.blocks:
            x = x + block["down"](block["up"](block["norm"](x) + condition).silu())
        return self.output(x)

    def embed_levels(self, levels: Tensor) -> Tensor:
        """Return the sinusoidal embedding of the levels, of shape (n, width)."""
        frequencies = Tensor(np.geomspace(1, 1000, self.width // 2).astype(np.float32))
        angles = levels.unsqueeze(-1) * frequencies
        return angles.sin().cat(angles.cos(), axis=-1)


def read_digits() -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Load images (1797, 64) with values from -1 to 1, and their labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 8 - 1).astype(np.float32), labels.astype(np.int32)


def train(
    model: Denoiser, alpha_bar: Tensor, generator: Generator, *, steps: int, batch: int
) -> list[float]:
    """Train the model and return the loss of each step."""
    n_warmup = max(steps // 20, 1)
    schedule = schedules.warm_up(schedules.cosine(2e-3, max(steps - n_warmup, 1)), n_warmup)
    optimizer = nn.AdamW(model, schedule, weight_decay=0.0)
    (levels,) = alpha_bar.shape

    def get_loss(model: Denoiser, images: Tensor, digits: Tensor) -> Tensor:
        level = Tensor.randint(batch, high=levels, generator=generator)
        noise = Tensor.randn(batch, N_PIXELS, generator=generator)
        signal = alpha_bar[level].unsqueeze(-1)
        noisy = signal.sqrt() * images + (1 - signal).sqrt() * noise
        return nn.mse_loss(model(noisy, level / levels, digits), noise)

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


def sample(model: Denoiser, alpha_bar: Tensor, digits: Tensor, generator: Generator) -> Tensor:
    """Sample images (n, 64) of `digits` by denoising."""
    (n,), (levels,) = digits.shape, alpha_bar.shape

    def denoise(iteration: Tensor, images: Tensor) -> Tensor:
        level = levels - 1 - iteration
        signal, next_signal = (
            alpha_bar[level],
            (level > 0).where(alpha_bar[(level - 1).maximum(0)], 1.0),
        )
        noise = model(images, (level / levels).expand(n), digits)
        clean = ((images - (1 - signal).sqrt() * noise) / signal.sqrt()).clip(-1, 1)
        # Recompute the noise, since the estimate of the image was clipped.
        noise = (images - signal.sqrt() * clean) / (1 - signal).sqrt()
        return next_signal.sqrt() * clean + (1 - next_signal).sqrt() * noise

    return fori_loop(0, levels, denoise, Tensor.randn(n, N_PIXELS, generator=generator))


def plot(images: NDArray[np.float32], path: str) -> None:
    """Save images of shape (100, 64), ten in a row."""
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
    parser.add_argument("--plot", default="diffusion.png", help="path of the plot")
    options = parser.parse_args()
    # Imported before the training, so that a missing package is reported at once.
    import matplotlib

    matplotlib.use("Agg")
    alpha_bar, generator = make_levels(options.levels), Generator(options.seed)
    manual_seed(options.seed)
    model = Denoiser(options.width, options.blocks)
    started = perf_counter()
    losses = train(model, alpha_bar, generator, steps=options.steps, batch=options.batch)
    print(
        f"{options.steps} steps in {perf_counter() - started:.1f} s, the loss is"
        f" {np.mean(losses[-100:]):.4f}"
    )
    started = perf_counter()
    digits = Tensor(np.repeat(np.arange(N_DIGITS), 10).astype(np.int32))
    images = jit(lambda digits: sample(model, alpha_bar, digits, generator))(digits).numpy()
    print(
        f"100 images in {perf_counter() - started:.2f} s, with values from {images.min():.2f} to"
        f" {images.max():.2f}"
    )
    plot(images, options.plot)


if __name__ == "__main__":
    main()
