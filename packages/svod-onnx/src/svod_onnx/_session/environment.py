"""Settings of the process: the seed of random operators, and logs."""

from __future__ import annotations

import logging
from typing import Final

from svod_onnx.capi.onnxruntime_pybind11_state import RuntimeException
from svod_tensor import manual_seed

__all__ = ["set_default_logger_severity", "set_default_logger_verbosity", "set_seed"]

_LEVELS: Final = (
    logging.DEBUG,
    logging.INFO,
    logging.WARNING,
    logging.ERROR,
    logging.CRITICAL,
)


def set_seed(seed: int) -> None:
    """Set the seed of random operators, as `svod_tensor.manual_seed`.

    Example:
        >>> import svod_onnx
        >>> svod_onnx.set_seed(0)
    """
    manual_seed(seed)


def set_default_logger_severity(severity: int) -> None:
    """Set the level of the logger `svod`: 0 for debug to 4 for critical.

    Raises:
        RuntimeException: if the severity is not from 0 to 4.

    Example:
        >>> import svod_onnx
        >>> svod_onnx.set_default_logger_severity(3)
    """
    if not 0 <= severity < len(_LEVELS):
        raise RuntimeException(
            f"Invalid logging severity {severity}. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal"
        )
    logging.getLogger("svod").setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accept a verbosity, which has no effect.

    Example:
        >>> import svod_onnx
        >>> svod_onnx.set_default_logger_verbosity(0)
    """
