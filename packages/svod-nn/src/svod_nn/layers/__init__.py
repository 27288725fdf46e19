"""Layers, theme by theme, with PyTorch's names, shapes, defaults and distributions of first
values.
"""
