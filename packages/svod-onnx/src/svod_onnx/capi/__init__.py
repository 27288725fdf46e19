"""Errors of `InferenceSession` under the module names of onnxruntime."""

from __future__ import annotations
