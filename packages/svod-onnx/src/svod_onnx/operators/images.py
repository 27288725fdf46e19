"""Decoding of image files."""

from __future__ import annotations

import io
from typing import Final

import numpy as np

from svod_onnx._registry import Known, operator
from svod_onnx._trace import Call

__all__ = ["image_decoder"]

_MODES: Final = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@operator("ImageDecoder", is_host=True)
def image_decoder(node: Call, encoded_stream: Known, *, pixel_format: str = "RGB") -> np.ndarray:
    """Decode the bytes of an image file to an array of shape (height, width, channels), in any
    format that Pillow reads.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise node.refuse("needs Pillow, which is not installed: `pip install pillow`") from error
    if pixel_format not in _MODES:
        raise node.refuse(f"unknown pixel_format {pixel_format!r}; expected RGB, BGR or Grayscale")
    try:
        # `convert` also resolves palettes and alpha channels.
        with Image.open(io.BytesIO(encoded_stream.tobytes())) as picture:
            decoded = np.array(picture.convert(_MODES[pixel_format]))
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise node.refuse(f"cannot decode the image: {error}") from error
    # Grayscale images have no axis of channels in Pillow.
    if decoded.ndim == 2:
        return decoded[:, :, None]
    return np.ascontiguousarray(decoded[:, :, ::-1]) if pixel_format == "BGR" else decoded
