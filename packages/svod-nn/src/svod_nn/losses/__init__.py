"""Losses, with the names and definitions of `torch.nn.functional`."""

from __future__ import annotations

from svod_nn.losses._reduction import Reduction
from svod_nn.losses.binary import binary_cross_entropy, binary_cross_entropy_with_logits
from svod_nn.losses.cross_entropy import cross_entropy, nll_loss
from svod_nn.losses.ctc import ctc_loss
from svod_nn.losses.distances import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from svod_nn.losses.divergence import kl_div
from svod_nn.losses.similarity import cosine_embedding_loss, cosine_similarity, triplet_margin_loss

__all__ = [
    "Reduction",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
    "triplet_margin_loss",
]
