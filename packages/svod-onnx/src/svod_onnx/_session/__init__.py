"""Sessions with the interface of onnxruntime."""

from __future__ import annotations
