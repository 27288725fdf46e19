"""Entry point of `python -m svod_onnx model.onnx`."""

from __future__ import annotations

import sys

from svod_onnx._command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
