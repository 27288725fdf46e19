"""Layers, with PyTorch's names, shapes, defaults and initialization."""
