"""Data for training loops: batches, train and validation splits, and a progress bar."""

from __future__ import annotations

from svod_nn.data.batches import Batches, batches
from svod_nn.data.progress import Progress, progress
from svod_nn.data.rows import split_rows

__all__ = ["Batches", "Progress", "batches", "progress", "split_rows"]
