"""`python -m svod_onnx model.onnx`: what a model takes, what it is made of, and what it
computes.
"""

from __future__ import annotations

import sys

from svod_onnx._command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
