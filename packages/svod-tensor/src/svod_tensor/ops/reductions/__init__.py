"""Reductions along axes and running reductions."""
