"""Options of a loaded model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from svod_onnx.errors import ModelOptionError
from svod_tensor import PrepareConfig

__all__ = ["MAX_PLANS", "ModelOptions"]

MAX_PLANS: Final = 64
"""Number of plans that a model keeps by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of `svod_onnx.load`.

    Attributes:
        device: device of the weights and inputs; None for the default device.
        sizes: largest size of symbolic dimensions, by name.
        check_indices: whether an index out of bounds is an error.
        threads: maximum number of threads of a kernel; None for all.
        max_plans: maximum number of plans that are kept.
    """

    device: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    check_indices: bool = False
    threads: int | None = None
    max_plans: int = MAX_PLANS

    def __post_init__(self) -> None:
        for name in ("threads", "max_plans"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ModelOptionError(name=name, value=value)

    def make_config(self) -> PrepareConfig | None:
        """Options of the model's plans; None for the options of the environment."""
        if not self.check_indices and self.threads is None:
            return None
        config = PrepareConfig.from_env()
        if self.check_indices:
            config = replace(config, check_operands=True)
        if self.threads is not None:
            config = replace(config, optimizer=replace(config.optimizer, threads=self.threads))
        return config
