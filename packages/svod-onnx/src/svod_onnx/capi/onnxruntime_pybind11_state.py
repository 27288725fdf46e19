"""Errors of `InferenceSession`, with the names and the module of onnxruntime's.

UserError
├── InvalidArgument (ValueError)          an input, an output name or an option that does not fit
├── NoSuchFile (FileNotFoundError)        a model file that does not exist
├── InvalidProtobuf (ValueError)          a file or bytes that are not a model
├── InvalidGraph (ValueError)             an inconsistent model
├── NotImplemented (NotImplementedError)  a model with unsupported operators, or an unsupported option
├── Fail (RuntimeError)                   a node that cannot be computed, or a canceled call
└── RuntimeException (RuntimeError)       a binding or a value that a call cannot use

Example:
    >>> import svod_onnx
    >>> from svod_onnx.capi.onnxruntime_pybind11_state import NoSuchFile
    >>> try:
    ...     svod_onnx.InferenceSession("missing.onnx")
    ... except NoSuchFile as error:
    ...     print(error)
    missing.onnx: cannot read the file: No such file or directory
    >>> from svod_onnx.capi import onnxruntime_pybind11_state as state
    >>> issubclass(state.InvalidArgument, ValueError), issubclass(state.InvalidProtobuf, ValueError)
    (True, True)
    >>> issubclass(state.InvalidGraph, ValueError), issubclass(state.Fail, RuntimeError)
    (True, True)
    >>> issubclass(state.RuntimeException, RuntimeError)
    True
    >>> issubclass(state.NotImplemented, NotImplementedError)
    True
"""

from __future__ import annotations

from svod_tensor.errors import UserError

__all__ = [
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
]


class InvalidArgument(UserError, ValueError):
    """An input, an output name or an option that does not fit the model."""


class NoSuchFile(UserError, FileNotFoundError):
    """A model file that cannot be read."""


class InvalidProtobuf(UserError, ValueError):
    """A file or bytes that are not an ONNX model."""


class InvalidGraph(UserError, ValueError):
    """An inconsistent model."""


class NotImplemented(UserError, NotImplementedError):
    """A model with unsupported operators, or an unsupported option."""


class Fail(UserError, RuntimeError):
    """A node that cannot be computed, or a canceled call."""


class RuntimeException(UserError, RuntimeError):
    """A binding or a value that a call cannot use."""
