"""The modules of operations, in the order of `docs/operations.md`."""

from __future__ import annotations

from typing import Final

from svod_tensor.ops import creation
from svod_tensor.ops.core.methods import Methods
from svod_tensor.ops.core.operation import attach_methods
from svod_tensor.ops.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    complex_parts,
    conversion,
    divisors,
    exponential,
    logic,
    representation,
    trigonometry,
)
from svod_tensor.ops.indexing import data_dependent, gathering, sets, sorting, updates
from svod_tensor.ops.interface import (
    assignment,
    devices,
    differentiation,
    formatting,
    operators,
    protocols,
    reading,
    sources,
)
from svod_tensor.ops.movement import joining, reshaping, slicing_and_padding
from svod_tensor.ops.neural import (
    activation,
    grid_sampling,
    normalization_and_attention,
    pooling,
    resizing,
    windows,
)
from svod_tensor.ops.products import matmul
from svod_tensor.ops.random import bits, distributions
from svod_tensor.ops.reductions import cumulative, ignoring_nan, sums_and_extrema
from svod_tensor.ops.special import functions
from svod_tensor.ops.statistics import covariance_and_histograms, curves, moments, quantiles

__all__ = ["SYNTAX", "THEMES", "attach_themes"]

THEMES: Final = (
    creation,
    arithmetic,
    bitwise,
    comparison,
    complex_parts,
    conversion,
    divisors,
    exponential,
    logic,
    representation,
    trigonometry,
    data_dependent,
    gathering,
    sets,
    sorting,
    updates,
    assignment,
    devices,
    differentiation,
    reading,
    sources,
    joining,
    reshaping,
    slicing_and_padding,
    activation,
    grid_sampling,
    normalization_and_attention,
    pooling,
    resizing,
    windows,
    matmul,
    bits,
    distributions,
    cumulative,
    ignoring_nan,
    sums_and_extrema,
    functions,
    covariance_and_histograms,
    curves,
    moments,
    quantiles,
)
"""Each module states in its docstring what its operations have in common."""

SYNTAX: Final = (operators, protocols, formatting)
"""Modules with special methods only."""


def attach_themes() -> None:
    """Attach the operations of all themes to tensors as methods."""
    attach_methods(Methods)
