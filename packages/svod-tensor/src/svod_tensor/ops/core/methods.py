"""Base class of `Tensor` with the operations as methods; `methods.pyi` declares them for type
checkers and editors.
"""

from __future__ import annotations

from svod_tensor.ops.core.base import TensorBase

__all__ = ["Methods"]


class Methods(TensorBase):
    """The registered operations, as methods of their first operand; `themes.py` attaches them."""

    __slots__ = ()
