"""Optimizers: each is a `Rule`, which updates one parameter; `Optimizer` applies it to all."""

from __future__ import annotations

from svod_nn.optimizers.accumulation import GradientMean
from svod_nn.optimizers.adafactor import Adafactor
from svod_nn.optimizers.adagrad import Adagrad
from svod_nn.optimizers.adam import Adam, AdamW
from svod_nn.optimizers.averages import MovingAverage, WeightMean
from svod_nn.optimizers.clipping import clip_by_norm, clip_by_value, get_norm
from svod_nn.optimizers.groups import Group
from svod_nn.optimizers.lamb import LAMB
from svod_nn.optimizers.lion import Lion
from svod_nn.optimizers.muon import Muon
from svod_nn.optimizers.nadam import NAdam
from svod_nn.optimizers.optimizer import Optimizer, OptimizerState
from svod_nn.optimizers.radam import RAdam
from svod_nn.optimizers.rmsprop import RMSprop
from svod_nn.optimizers.rule import Rate, Rule
from svod_nn.optimizers.sgd import SGD

__all__ = [
    "LAMB",
    "SGD",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "GradientMean",
    "Group",
    "Lion",
    "MovingAverage",
    "Muon",
    "NAdam",
    "Optimizer",
    "OptimizerState",
    "RAdam",
    "RMSprop",
    "Rate",
    "Rule",
    "WeightMean",
    "clip_by_norm",
    "clip_by_value",
    "get_norm",
]
