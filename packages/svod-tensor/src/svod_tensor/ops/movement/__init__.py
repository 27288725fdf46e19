"""Manipulation of shapes: views, concatenation, splitting, slicing, padding."""
