"""Shapes and order of elements: views, joining, slicing, padding."""
