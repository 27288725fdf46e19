"""Neural networks on `svod_tensor`: modules, losses, optimizers, and tools for training loops.

Example:
    >>> import svod_nn as nn
    >>> from svod_tensor import Tensor
    >>> nn.Linear(3, 2)(Tensor.ones(5, 3)).shape
    (5, 2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_nn import schedules
from svod_nn._early_stopping import EarlyStopping
from svod_nn._empty import init_empty_weights
from svod_nn._gradients import value_and_grad
from svod_nn._metrics import (
    MeanMetric,
    PrecisionRecall,
    accuracy,
    confusion_matrix,
    precision_recall_f1,
    top_k_accuracy,
)
from svod_nn._module import Module
from svod_nn._precision import LossScale, in_precision
from svod_nn._runs import load_run, save_run
from svod_nn.data import Batches, Progress, batches, progress, split_rows
from svod_nn.layers.activation import (
    ELU,
    GELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from svod_nn.layers.attention import MultiheadAttention
from svod_nn.layers.batch_norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from svod_nn.layers.cache import KeyValueCache
from svod_nn.layers.containers import Sequential
from svod_nn.layers.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from svod_nn.layers.dropout import Dropout
from svod_nn.layers.embedding import Embedding
from svod_nn.layers.linear import Bilinear, Flatten, Identity, Linear
from svod_nn.layers.normalization import GroupNorm, LayerNorm, RMSNorm
from svod_nn.layers.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from svod_nn.layers.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from svod_nn.layers.recurrent import GRU, LSTM, RNN
from svod_nn.layers.rotary import rotary_embedding
from svod_nn.layers.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from svod_nn.layers.upsample import Upsample
from svod_nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cosine_similarity,
    cross_entropy,
    ctc_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    triplet_margin_loss,
)
from svod_nn.optimizers import (
    LAMB,
    SGD,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    GradientMean,
    Group,
    Lion,
    MovingAverage,
    Muon,
    NAdam,
    Optimizer,
    OptimizerState,
    RAdam,
    Rate,
    RMSprop,
    Rule,
    WeightMean,
    clip_by_norm,
    clip_by_value,
    get_norm,
)

__all__ = [
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LAMB",
    "LSTM",
    "RNN",
    "SELU",
    "SGD",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Batches",
    "Bilinear",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "EarlyStopping",
    "Embedding",
    "Flatten",
    "GradientMean",
    "Group",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KeyValueCache",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "Lion",
    "LogSoftmax",
    "LossScale",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MeanMetric",
    "Mish",
    "Module",
    "MovingAverage",
    "MultiheadAttention",
    "Muon",
    "NAdam",
    "Optimizer",
    "OptimizerState",
    "PReLU",
    "PrecisionRecall",
    "Progress",
    "RAdam",
    "RMSNorm",
    "RMSprop",
    "Rate",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Rule",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Upsample",
    "WeightMean",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "accuracy",
    "batches",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "clip_by_norm",
    "clip_by_value",
    "confusion_matrix",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "get_norm",
    "huber_loss",
    "in_precision",
    "init_empty_weights",
    "kl_div",
    "l1_loss",
    "load_run",
    "mse_loss",
    "nll_loss",
    "precision_recall_f1",
    "progress",
    "rotary_embedding",
    "save_run",
    "schedules",
    "smooth_l1_loss",
    "split_rows",
    "top_k_accuracy",
    "triplet_margin_loss",
    "value_and_grad",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from svod_nn._foreign_names import find_name
        from svod_tensor.errors import MissingImportError

        if (foreign := find_name(name)) is not None:
            raise MissingImportError.find(foreign, __name__) or foreign
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
